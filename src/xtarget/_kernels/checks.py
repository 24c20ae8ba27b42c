"""Mistakes in what describes a kernel: said once, in the words of whoever wrote it. Those of plans
are in `plan_checks`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from .._system.signals import raised_by_handler
from .._values.authoring import dtype_named
from .._values.choosing import CONFIG
from .._values.errors import ArgumentError, XTargetError, shortened
from .._values.sizes import is_number, whole
from .._values.types import DTYPES, DtypeConstant
from ..spec import CInterface, Example, KernelSpec

__all__ = [
    "calls_of",
    "check_declared",
    "check_spec",
    "is_constant",
    "is_count",
    "wrong_numbers",
    "wrong_options",
]

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
        *wrong_options(given["options"]),
        *_wrong_flags(flags),
        *wrong_numbers(*numbers),
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


def wrong_options(options: Any) -> Iterable[str]:
    """Return what is wrong with options of a compiler."""
    if not options:
        return ()
    from . import option_kinds  # a table that most kernels do not need

    return option_kinds.wrong_options(options)


def wrong_numbers(num_warps: Any, num_stages: Any) -> Iterator[str]:
    """Yield a sentence for each wrong number: of warps, and of stages."""
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
    known = {*spec.options, CONFIG}
    strange = [name for name in example.options if name not in known]
    if strange:
        raise wrong(f"and it has no option {', '.join(map(repr, strange))}")


def _is_shape(shape: Any) -> bool:
    if shape is None:
        return True
    return isinstance(shape, tuple | list) and all(is_count(n) and n < 2**63 for n in shape)


def is_count(value: Any) -> bool:
    """A whole number from 0."""
    number = value if type(value) is int else whole(value)
    return number is not None and number >= 0
