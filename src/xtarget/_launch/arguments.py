"""Are the arguments of a call what the kernel takes? All validation of arguments is here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._arrays import View, is_scalar
from .._arrays.dtypes import is_whole, name_of_number, natural_scalar, promote, weak_scalar
from .._devices import choice, registry
from .._kernels import libraries
from .._kernels.asked_choices import as_text
from .._values.authoring import REQUIRED
from .._values.choosing import CONFIG
from .._values.deferred import Deferred
from .._values.errors import ArgumentError, MissingFeatureError, shortened
from .._values.float8 import first_cast
from ..spec import ABSENT, ArrayType, KernelSpec, Plan, ScalarType

if TYPE_CHECKING:
    from .._values.aliases import Args, Options

__all__ = [
    "argument_types",
    "check_arguments",
    "check_fp64",
    "check_written",
    "deferred_among",
    "place_of",
    "placed",
    "take",
]


def placed(
    kernel: str, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments that were given by name, at their places; None where one was left out before them;
    the arrays of a list one by one; and options by the names that the kernel has for them.

    Returns:
        the arguments, and the options.

    Raises:
        ArgumentError: one is given twice, or is text or a tuple, which only options are.
        UnknownKernelError: there is no such kernel.
    """
    if CONFIG in options:
        options = {**options, CONFIG: as_text(kernel, options[CONFIG])}
        if options[CONFIG] is None:
            del options[CONFIG]
    keywords = libraries.keywords(kernel)
    if any(isinstance(value, list | tuple | str) for value in args):
        args = _arrays_among(libraries.find(kernel).spec, args)
    if not keywords:
        return args, options
    found: list[Any] = list(args)
    given: dict[int, str] = {}
    left: dict[str, Any] = {}
    for name, value in options.items():
        meant = keywords.get(name, name)
        if isinstance(meant, str):
            if meant in left or (meant != name and meant in options):
                raise ArgumentError(
                    f"{kernel}: {meant} is given twice, also as {name}. Give it once."
                )
            left[meant] = value
            continue
        if meant < len(args) or meant in given:
            before = f"as argument {meant + 1} and by name"
            if meant in given:
                before = f"as {given[meant]} and as {name}"
            raise ArgumentError(f"{kernel}: {name} is given twice, {before}. Give it once.")
        given[meant] = name
        if meant >= len(found):
            found += [None] * (meant + 1 - len(found))
        found[meant] = value
    return tuple(found), left


def _arrays_among(spec: KernelSpec, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments; those of a list, where a kernel takes any number of arrays and got one list
    in their place.

    Raises:
        ArgumentError: one is text or a tuple, which only options are.
    """
    for at, value in enumerate(args[: len(spec.inputs) - 1]):
        name = spec.inputs[at].rstrip("?").removesuffix("0")
        if isinstance(value, list | tuple) and spec.inputs[at + 1] == f"{name}1?":
            args = (*args[:at], *value, *args[at + 1 :])
            break
    for at, value in enumerate(args):
        if isinstance(value, str | tuple):
            name = spec.inputs[at].rstrip("?") if at < len(spec.inputs) else ""
            if name in spec.scalars:
                raise ArgumentError(f"{spec.name}: {name} is {shortened(value)}. Give a number.")
            taken = [name for name in spec.options if name not in ("seed", "offset")]
            if not taken:
                continue
            raise ArgumentError(
                f"{spec.name}: {shortened(value)} is not an array. Options are given by name: "
                f"{taken[0]}={shortened(value)}"
                + (f" (or {', '.join(taken[1:])})." if len(taken) > 1 else ".")
            )
    return args


def check_arguments(spec: KernelSpec, args: Sequence[Any], options: Mapping[str, Any]) -> None:
    if not spec.required <= len(args) <= len(spec.inputs):
        wanted = str(spec.required)
        if spec.required != len(spec.inputs):
            wanted += f" to {len(spec.inputs)}"
        names = ", ".join(spec.inputs) or "only options"
        hint = ""
        if len(args) > len(spec.inputs) and spec.options:
            hint = f" Options are given by name: {', '.join(spec.options)}."
        own = [name for name in spec.inputs if name in ("out", "device", "stream")]
        if len(args) < spec.required and own:
            hint = f" By name, {own[0]}= is an own word of each call: give the input at its place."
        raise ArgumentError(
            f"{spec.name} takes {wanted} argument{'s' if wanted != '1' else ''} ({names}), not "
            f"{len(args)}.{hint}"
        )
    for name, value in zip(spec.inputs, args, strict=False):
        if value is None and not (spec.by_name and name.endswith("?")):
            what = "a number" if name in spec.scalars else "an array"
            hint = ", or leave it out" if name.endswith("?") else ""
            raise ArgumentError(f"{spec.name}: {name.rstrip('?')} is None. Give {what}{hint}.")
    unknown = [name for name in options if name not in spec.options and name != CONFIG]
    if unknown:
        known = f"its options: {', '.join(spec.options)}" if spec.options else "it has none at all"
        functions = [name for name in unknown if callable(options[name])]
        if functions:
            raise ArgumentError(
                f"{spec.name} has no option {functions[0]!r}; a function can be given within a "
                "fused function only (xtarget.fuse), as score= of attention."
            )
        raise ArgumentError(
            f"{spec.name} has no option {', '.join(map(repr, unknown))}; {known}."
            f"{_meant(spec, unknown[0])}"
        )
    for name, value in options.items():
        if name in spec.options:
            _check_option(spec, name, value)


def _meant(spec: KernelSpec, word: str) -> str:
    """The option or argument that a word is near."""
    names = [*spec.options, *(name.rstrip("?") for name in spec.inputs)]
    import difflib  # for names that are wrong

    near = difflib.get_close_matches(word, names, 1)
    return f" Did you mean {near[0]}?" if near else ""


def _check_option(spec: KernelSpec, name: str, value: Any) -> None:
    """A switch takes a bool, a number takes a number; the plan knows the rest."""
    default = spec.options[name]
    if default is REQUIRED:
        return
    scalar = value.item() if is_scalar(value) and hasattr(value, "dtype") else value
    if isinstance(default, bool):
        fits, wanted = scalar in (True, False, 0, 1) and not isinstance(scalar, float), "a bool"
    elif isinstance(default, float):
        fits, wanted = isinstance(scalar, int | float), "a number"
    else:
        fits = not isinstance(scalar, int) or -(2**63) <= scalar < 2**63
        wanted = "of 64 bits with a sign"
    if not fits:
        raise ArgumentError(f"{spec.name}: {name}={shortened(value)} is not {wanted}.")


def argument_types(
    spec: KernelSpec, args: Sequence[Any], views: Sequence[View | None]
) -> tuple[ArrayType | ScalarType, ...]:
    """Layouts of the arguments, with the dtype that each scalar gets among the arrays."""
    dtypes = []  # of what takes part in the promotion; a NumPy scalar has a dtype of its own
    for index, (value, view) in enumerate(zip(args, views, strict=True)):
        if spec.inputs[index].rstrip("?") in spec.apart:
            continue
        if view is not None:
            dtypes.append(view.type.dtype)
        elif value is not None and hasattr(value, "dtype"):
            dtypes.append(name_of_number(value.dtype))
    types: list[ArrayType | ScalarType] = []
    for index, (value, view) in enumerate(zip(args, views, strict=True)):
        name = spec.inputs[index].rstrip("?")
        if value is None:
            types.append(ABSENT)
            continue
        if view is not None and name in spec.scalars:
            raise ArgumentError(
                f"{spec.name}: {name} is a number, not an array. Give .item() of an array of one."
            )
        if view is not None:
            if view.type.dtype not in spec.dtypes:
                raise ArgumentError(
                    f"{spec.name} does not take {view.type.dtype} ({name}); it takes "
                    f"{', '.join(spec.dtypes)}. {first_cast(view.type.dtype)}"
                )
            types.append(view.type)
        elif name in spec.scalars:
            number = float(value) if name in spec.floats and is_whole(value) else value
            types.append(ScalarType(natural_scalar(number, dtypes)))
        elif hasattr(value, "dtype"):
            types.append(ScalarType(name_of_number(value.dtype)))
        else:
            others = () if name in spec.apart else tuple(dtypes)
            if spec.weak is not None and others:
                others = (spec.weak(promote(others)),)
            types.append(ScalarType(weak_scalar(value, others)))
    return tuple(types)


def place_of(spec: KernelSpec, views: Sequence[View | None], chosen: Any) -> str:
    """The device of the call: where the arrays lie, else the chosen one.

    Raises:
        ArgumentError: the arrays lie on different devices, or not on the chosen one.
    """
    places: dict[str, str] = {}
    for index, view in enumerate(views):
        if view is not None and view.place is not None:
            label = spec.inputs[index].rstrip("?") if index < len(spec.inputs) else "out"
            places.setdefault(view.place, label)
    if len(places) > 1:
        where = ", ".join(f"{label} on {place}" for place, label in places.items())
        raise ArgumentError(
            f"{spec.name}: its arrays lie on different devices ({where}). Move them to one device."
        )
    name = None if chosen is None else registry.find_device(chosen)
    if places:
        place, label = next(iter(places.items()))
        if name not in (None, place):
            raise ArgumentError(
                f"{spec.name}: {label} lies on {place}, but device={chosen!r} was asked for. Move "
                "the array, or leave device= out."
            )
        _refuse_host_tensors(spec, views, place)
        return place
    return name or choice.default_device()


def _refuse_host_tensors(spec: KernelSpec, views: Sequence[View | None], place: str) -> None:
    """NumPy's arrays have no device and follow the others; a CPU tensor was put where it is."""
    for index, view in enumerate(views):
        if view is not None and view.place is None and view.kind.name == "torch":
            label = spec.inputs[index].rstrip("?") if index < len(spec.inputs) else "out"
            raise ArgumentError(
                f"{spec.name}: its arrays lie on different devices ({label} on torch's cpu, others "
                f"on {place}). Move them to one device."
            )


def check_written(spec: KernelSpec, array: View, name: str) -> None:
    """Can a kernel write to it?"""
    if not array.writable:
        raise ArgumentError(f"{spec.name}: {name} is read-only. Give a writable array.")
    type_ = array.type
    lengths = zip(type_.shape, type_.strides, strict=True)
    if type_.size and any(stride == 0 and length > 1 for length, stride in lengths):
        raise ArgumentError(
            f"{spec.name}: {name} is a broadcast view, whose elements share memory. Give an array "
            "with memory for each element."
        )
    reach = 0  # of the dimensions with smaller strides
    for stride, length in sorted(
        (abs(s), n) for s, n in zip(type_.strides, type_.shape, strict=True)
    ):
        if length > 1 and type_.size and stride <= reach:
            raise ArgumentError(
                f"{spec.name}: elements of {name} may share memory (shape {type_.shape}, strides "
                f"{type_.strides} elements). Give an array with memory for each element."
            )
        reach += stride * (length - 1)


def check_fp64(
    spec: KernelSpec, plan: Plan, types: Sequence[ArrayType | ScalarType], name: str, has: bool
) -> None:
    arrays = [*plan.outputs, *plan.temporaries, *types]
    if not has and any(a.dtype == "float64" for a in arrays):
        raise MissingFeatureError(
            f"{spec.name}: {name} has no float64. Convert the arrays to float32."
        )


def deferred_among(values: Iterable[Any]) -> Deferred | None:
    """The first one of the values."""
    return next((value for value in values if isinstance(value, Deferred)), None)


def take(
    array: Deferred, kernel: str, args: Args, out: Any, device: Any, stream: Any, options: Options
) -> Any:
    """Give it a call of `xtarget.run`."""
    given = {"out": out, "device": device, "stream": stream}
    return array.take_call(
        kernel, args, {name: value for name, value in given.items() if value is not None}, options
    )
