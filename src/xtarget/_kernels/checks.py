"""Mistakes in what describes a kernel: said once, in the words of whoever wrote it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from .._system.signals import raised_by_handler
from .._values.authoring import dtype_named
from .._values.errors import ArgumentError, XTargetError, shortened
from .._values.sizes import is_number, whole
from .._values.types import COMPUTED, DTYPES, DtypeConstant
from ..spec import (
    ArrayType,
    CInterface,
    Descriptor,
    Example,
    Input,
    KernelSpec,
    Launch,
    Output,
    Plan,
    Scalar,
    Temporary,
)

__all__ = ["calls_of", "check_declared", "check_plan", "check_spec", "is_constant"]

#: More warps than any device has in a block, and more stages than any pipeline.
_MOST_WARPS, _MOST_STAGES = 1024, 1000
#: Parts that are true or false.
_FLAGS = ("complete", "elementwise", "in_place", "results")


def check_declared(
    kernel: str,
    given: Mapping[str, Any],
    flags: Mapping[str, Any],
    *,
    dtypes: Any,
    functions: Mapping[str, Any],
) -> None:
    """Check the forms of the arguments of `@xtarget.kernel`.

    Args:
        given: its sequences and mappings of names, and numbers, by parameter.
        flags: the arguments that must be true or false.
        functions: those that must be functions, or None.

    Raises:
        ArgumentError: something has the wrong form.
    """
    named = ("inputs", "updates", "scalars", "key")
    mapped = ("inputs", "scalars")
    mappings = ("outputs", "workspaces", "sizes", "constants", "flags", "options")
    for part in named:
        if given[part] is None and part == "inputs":
            continue
        if not (isinstance(given[part], Mapping) and part in mapped):
            _check_names(kernel, part, given[part])
    if not isinstance(given["configs"], tuple | list):
        raise ArgumentError(
            f"{kernel}: its configs are {given['configs']!r:.80}. Give a list of configurations: "
            '[xtarget.spec.Config({"BLOCK": 64}, num_warps=4)].'
        )
    _check_dtypes(kernel, dtypes)
    for part in (*named, *mappings):
        for name in given[part] if isinstance(given[part], Mapping) else ():
            if not isinstance(name, str):
                raise ArgumentError(
                    f"{kernel}: its {part} name {name!r:.80}, which is not text. Name "
                    "parameters of the function."
                )
    parts = ("inputs", "updates", "outputs", "workspaces", "sizes", "constants", "flags")
    _check_once(kernel, {part: given[part] or () for part in parts})
    for name, value in given["constants"].items():
        if not (is_constant(value) or callable(value) or dtype_named(value)):
            raise ArgumentError(
                f"{kernel}: its constant {name!r} is {value!r}. Give a number, a bool, text, a "
                "dtype (xtarget.spec.dtype_constant), a tuple of these, or a function of the call."
            )
    numbers = [1 if callable(given[name]) else given[name] for name in ("num_warps", "num_stages")]
    made = {**given["outputs"], **given["workspaces"]}
    for wrong in (
        *_wrong_options(given["options"]),
        *_wrong_flags(flags),
        *_wrong_numbers(*numbers),
        *(w for name, out in made.items() for w in _wrong_init(name, getattr(out, "init", None))),
    ):
        raise ArgumentError(f"{kernel}: {wrong}")
    for part, function in functions.items():
        if function is not None and not callable(function):
            of = " on NumPy arrays" if part == "reference" else ""
            raise ArgumentError(
                f"{kernel}: its {part} is {function!r:.80}. Give a function{of}, or leave it out."
            )


def _check_once(kernel: str, parts: Mapping[str, Iterable[str]]) -> None:
    """A parameter has one role."""
    seen: dict[str, str] = {}
    for part, names in parts.items():
        if part in ("updates", "options"):
            continue
        for name in names:
            if name in seen:
                both = f"twice in {part}" if seen[name] == part else f"in {seen[name]} and {part}"
                raise ArgumentError(
                    f"{kernel}: its parameter {name!r} is named {both}. Name it once; an input "
                    "that is written in place is one of updates too."
                )
            seen[name] = part


def _wrong_flags(flags: Mapping[str, Any]) -> Iterator[str]:
    for part, value in flags.items():
        if not isinstance(value, bool):
            yield f"its {part} is {value!r:.80}. Give True or False."


def _wrong_options(options: Any) -> Iterable[str]:
    if not options:
        return ()
    from .option_kinds import wrong_options  # a table that most kernels do not need

    return wrong_options(options)


def _wrong_numbers(num_warps: Any, num_stages: Any) -> Iterator[str]:
    warps, stages = whole(num_warps), whole(num_stages)
    if warps is None or not 1 <= warps <= _MOST_WARPS or warps & (warps - 1):
        yield (
            f"its num_warps is {shortened(num_warps)}. Give a power of two from 1 to {_MOST_WARPS}."
        )
    if stages is None or not 0 <= stages <= _MOST_STAGES:
        yield (
            f"its num_stages is {shortened(num_stages)}. Give a whole number from 0 to "
            f"{_MOST_STAGES}."
        )


def _wrong_init(output: str, value: Any) -> Iterator[str]:
    if value is not None and not is_number(value):
        yield (
            f"the init of its output {output!r} is {value!r:.80}. Give the number that each "
            "element is at first, or None."
        )


def _check_names(kernel: str, part: str, given: Any) -> None:
    # a set has no order, a generator is used up
    if not isinstance(given, tuple | list) or not all(isinstance(name, str) for name in given):
        raise ArgumentError(
            f'{kernel}: its {part} are {given!r:.200}. Give a tuple of names: ("x", "y"); one '
            'alone is ("x",).'
        )


def _check_dtypes(kernel: str, dtypes: Any) -> None:
    _check_names(kernel, "dtypes", dtypes)
    if not dtypes:
        raise ArgumentError(
            f"{kernel}: its dtypes are {dtypes!r}, so it takes no array at all. Name those that "
            "it takes, or leave them out for every one."
        )
    unknown = [name for name in dtypes if name not in DTYPES]
    if unknown:
        raise ArgumentError(
            f"{kernel}: there is no dtype {', '.join(map(repr, unknown))}, of its dtypes. There "
            f"are {', '.join(DTYPES)}."
        )


def is_constant(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(is_constant, value))
    return value is None or isinstance(value, bool | int | float | str | DtypeConstant)


def _is_function_or_none(value: Any) -> bool:
    return value is None or callable(value)


#: Of a spec's parts, what each has to be.
_PARTS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "plan": (callable, "a function"),
    "options": (lambda value: isinstance(value, Mapping), "a mapping of names to defaults"),
    **dict.fromkeys(
        ("reference", "weak", "examples", "ahead"), (_is_function_or_none, "a function")
    ),
}


def check_spec(spec: KernelSpec) -> None:
    """An entry of a catalog.

    Raises:
        XTargetError: something has the wrong form.
    """
    if not isinstance(spec.name, str) or not spec.name.strip() or not spec.name.isprintable():
        raise XTargetError(f"a kernel of a catalog has the name {spec.name!r}. Give it a text.")
    for part in ("inputs", "scalars", "apart", "updates"):
        _check_names(spec.name, part, getattr(spec, part))
        _check_once(spec.name, {part: getattr(spec, part)})
    _check_dtypes(spec.name, spec.dtypes)
    inputs = [name.rstrip("?") for name in spec.inputs]
    for part in ("scalars", "apart", "updates"):
        strange = [name for name in getattr(spec, part) if name.rstrip("?") not in inputs]
        if strange:
            raise XTargetError(
                f"{spec.name}: {', '.join(strange)} of its {part} is none of its inputs "
                f"({', '.join(inputs)}). Correct the catalog."
            )
    for part, (fits, what) in _PARTS.items():
        value = getattr(spec, part)
        if not fits(value):
            raise XTargetError(
                f"{spec.name}: its {part} is {value!r}, not {what}. Correct the catalog."
            )
    for part in ("category", "summary"):
        value = getattr(spec, part)
        if not isinstance(value, str) or not value.isprintable():
            raise XTargetError(
                f"{spec.name}: its {part} is {value!r:.80}, not a text of one line. Correct the "
                "catalog."
            )
    if not (spec.c is None or isinstance(spec.c, CInterface)):
        raise XTargetError(
            f"{spec.name}: its c is {spec.c!r:.80}, not an xtarget.spec.CInterface. Correct the "
            "catalog."
        )
    for wrong in _wrong_flags({part: getattr(spec, part) for part in _FLAGS}):
        raise XTargetError(f"{spec.name}: {wrong}")


def calls_of(spec: KernelSpec, part: str, given: Any) -> list[Example]:
    """The calls that a catalog names.

    Args:
        part: `ahead` or `examples`.
        given: what that function of the spec is called with.

    Raises:
        XTargetError: it fails, or its results are not calls of the kernel.
    """
    try:
        found = list(getattr(spec, part)(given))
    except XTargetError:
        raise
    except Exception as error:  # a user's function
        interrupted = raised_by_handler(error)
        if interrupted is not None:
            raise interrupted from interrupted.__cause__
        raise XTargetError(
            f"{spec.name}: its {part} gave no calls: {type(error).__name__}: {error}. Correct the "
            "catalog."
        ) from error
    calls = found if part == "ahead" else [Example(tuple(found))]
    for call in calls:
        _check_example(spec, part, call)
    return calls


def _check_example(spec: KernelSpec, part: str, example: Any) -> None:
    def wrong(what: str) -> XTargetError:
        return XTargetError(
            f"{spec.name}: its {part} gave {example!r:.120}, {what}. Correct the catalog."
        )

    if not isinstance(example, Example):
        raise wrong("which is not an xtarget.spec.Example")
    shapes = example.shapes
    if not isinstance(shapes, tuple | list) or not all(map(_is_shape, shapes)):
        raise wrong("whose shapes are not a tuple of shapes, whole numbers from 0, or None")
    if not spec.required <= len(shapes) <= len(spec.inputs):
        raise wrong(f"which has {len(shapes)} shapes, and the inputs are {', '.join(spec.inputs)}")
    dtypes = example.dtypes
    if not isinstance(dtypes, tuple | list) or not all(
        dtype is None or (isinstance(dtype, str) and dtype in DTYPES) for dtype in dtypes
    ):
        raise wrong("whose dtypes are not a tuple of dtypes' names, or None")
    if not isinstance(example.options, Mapping):
        raise wrong("whose options are not a mapping")
    strange = [name for name in example.options if name not in spec.options]
    if strange:
        raise wrong(f"and it has no option {', '.join(map(repr, strange))}")


def _is_shape(shape: Any) -> bool:
    if shape is None:
        return True
    return isinstance(shape, tuple | list) and all(_is_count(n) and n < 2**63 for n in shape)


def check_plan(kernel: str, plan: Any, arguments: int) -> Plan:
    """Check the plan that a catalog's function returned.

    Raises:
        ArgumentError: it is not a plan, or refers to something that does not exist.
    """

    def wrong(what: str) -> ArgumentError:
        return ArgumentError(f"{kernel}: its plan {what}. Correct `plan` in the kernel's spec.")

    if not isinstance(plan, Plan):
        raise wrong(f"gave {plan!r:.80}, not an xtarget.spec.Plan")
    for part, kind in (("outputs", ArrayType), ("temporaries", ArrayType), ("launches", Launch)):
        found = getattr(plan, part)
        if not isinstance(found, tuple) or not all(isinstance(item, kind) for item in found):
            raise wrong(f"has {part} {found!r:.80}, not a tuple of xtarget.spec.{kind.__name__}")
    for type_ in (*plan.outputs, *plan.temporaries):
        if not _is_layout(type_):
            raise wrong(f"has an output or a temporary of no known layout, {type_!r:.120}")
    if not isinstance(plan.init, tuple) or len(plan.init) > len(plan.outputs):
        raise wrong(f"has init {plan.init!r:.80}, not a tuple of a number for each output")
    if not isinstance(plan.cleared, tuple) or len(plan.cleared) > len(plan.temporaries):
        raise wrong(f"has cleared {plan.cleared!r:.80}, not a tuple of a number for each temporary")
    for number, value in enumerate((*plan.init, *plan.cleared)):
        if value is not None and not is_number(value):
            raise wrong(f"has {value!r:.80} as init of output {number}, which is not a number")
    limits = {Input: arguments, Output: len(plan.outputs), Temporary: len(plan.temporaries)}
    for launch in plan.launches:
        _check_launch(launch, limits, wrong)
    return plan


def _is_layout(type_: ArrayType) -> bool:
    shape, strides = type_.shape, type_.strides
    return (
        isinstance(type_.dtype, str)
        and type_.dtype in DTYPES
        and isinstance(shape, tuple)
        and isinstance(strides, tuple)
        and len(shape) == len(strides)
        and all(map(_is_count, shape))
        and None not in map(whole, strides)
    )


def _check_launch(
    launch: Launch, limits: Mapping[type, int], wrong: Callable[[str], ArgumentError]
) -> None:
    grid, source = launch.grid, launch.source
    if not isinstance(source, str):
        raise wrong(f"launches {source!r:.80}, which is not text")
    if not isinstance(grid, tuple) or len(grid) != 3 or not all(map(_is_count, grid)):
        raise wrong(f"launches {source} with the grid {grid!r:.80}, not three integers from 0")
    for field in ("args", "constants", "options", "descriptors"):
        if not isinstance(getattr(launch, field), Mapping):
            raise wrong(f"launches {source} with {field} that are not a mapping")
    for name, value in launch.constants.items():
        if not is_constant(value):
            raise wrong(f"launches {source} with the constant {name} of {value!r:.80}")
    for what in _wrong_numbers(launch.num_warps, launch.num_stages):
        raise wrong(f"launches {source}: {what.rstrip('.')}")
    for what in _wrong_options(launch.options):
        raise wrong(f"launches {source}: {what.rstrip('.')}")
    for name, argument in launch.args.items():
        if isinstance(argument, Input | Output | Temporary):
            count = limits[type(argument)]
            if not 0 <= argument.index < count:
                raise wrong(f"gives {name} {argument!r}, and there are only {count} of these")
        elif isinstance(argument, Scalar):
            if argument.dtype not in COMPUTED or not is_number(argument.value):
                raise wrong(f"gives {name} {argument!r:.80}, which is not a number of a dtype")
        elif not isinstance(argument, int | float) and not (
            isinstance(argument, tuple) and all(isinstance(n, int) for n in argument)
        ):
            raise wrong(f"gives {name} {argument!r:.80}, which is not an argument of a launch")
    _check_descriptors(launch, wrong)
    parameters = ("aligned_by", launch.aligned_by), ("loose", launch.loose), ("bits", launch.bits)
    for field, named in parameters:
        if named is None and field == "aligned_by":
            continue
        known = isinstance(named, tuple) and all(
            isinstance(name, str)
            and (name.partition(".")[0] in launch.args or name in launch.constants)
            for name in named
        )
        if not known:
            raise wrong(
                f"launches {source} with {field}={named!r:.80}, not names of its parameters"
            )


def _check_descriptors(launch: Launch, wrong: Callable[[str], ArgumentError]) -> None:
    for name, described in launch.descriptors.items():
        known = isinstance(described, Descriptor) and isinstance(
            launch.args.get(name), Input | Output | Temporary
        )
        if known:
            numbers = [launch.args.get(own) for own in (*described.lengths, *described.steps)]
            rank = len(described.tile)
            lengths = len(described.lengths), len(described.steps)
            known = all(isinstance(n, int) for n in numbers) and lengths == (rank, rank - 1)
        if not known:
            raise wrong(
                f"launches {launch.source} with {described!r:.200} of {name}, which is none"
            )
    for option, usual in (("num_ctas", 1), ("launch_cooperative_grid", False)):
        if launch.descriptors and launch.options.get(option, usual) != usual:
            raise wrong(
                f"launches {launch.source} with descriptors and "
                f"{option}={launch.options[option]!r}: launches with tensor maps of the host have "
                "neither clusters nor cooperative grids. Make the descriptors in the kernel"
            )


def _is_count(value: Any) -> bool:
    number = value if type(value) is int else whole(value)
    return number is not None and number >= 0
