"""From a row of the table to a `KernelSpec`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xtarget.spec import ABSENT, ArgumentError, Bounds, Call, CInterface, Example, KernelSpec, Plan

from .. import ahead, c_interfaces
from ..plans.bits import by_bits
from ..plans.elementwise import DtypeRule
from ..plans.elementwise import Elementwise as _plan
from .refused import REFUSED
from .rules import ALL, FLOATS_OF_8_BITS, PROMOTED

__all__ = [
    "BY_LIBRARY",
    "Given",
    "alike",
    "along_axis",
    "elementwise",
    "implementation",
    "moving",
    "row",
    "spelled",
]

#: The category of rows with the defaults of one library.
BY_LIBRARY = "by library"
_Shape = tuple[int, ...]
#: An option and the function for each of its values; the first value is the default.
_Chosen = tuple[str, Mapping[Any, str]]
#: From which of the arguments are given to the function that takes these.
Given = Mapping[tuple[bool, ...], str]


def alike(count: int) -> Callable[[_Shape], Sequence[_Shape]]:
    """Examples in which all arguments have the same shape."""
    return lambda shape: [shape] * count


def given(name: str, inputs: Sequence[str], functions: Given) -> Callable[[Call], str]:
    """From a call to its device function, by which of its arguments are given.

    Raises:
        ArgumentError: there is none for these.
    """

    def choice(call: Call) -> str:
        args = (*call.args, *(ABSENT,) * (len(inputs) - len(call.args)))
        places = tuple(arg is not ABSENT for arg in args)
        if places not in functions:
            absent = [n.rstrip("?") for n, there in zip(inputs, places, strict=True) if not there]
            raise ArgumentError(
                f"{name}: {' and '.join(absent)} are left out. Give at least one of them."
            )
        return f"functions.{functions[places]}"

    return choice


def _choice(name: str, file: str, function: str, chosen: _Chosen | None) -> Callable[[Call], str]:
    """From a call to its device function."""
    if chosen is None:
        text = f"functions.{file}:{function}"
        return lambda _: text
    option, functions = chosen

    def choice(call: Call) -> str:
        value = call.options[option]
        if not isinstance(value, str | bool | None) or value not in functions:
            raise ArgumentError(
                f"{name}: {option} is {value!r}; it has to be {' or '.join(map(repr, functions))}."
            )
        return f"functions.{file}:{functions[value]}"

    return choice


def elementwise(
    name: str,
    inputs: str,
    summary: str,
    reference: Callable[..., Any],
    aliases: str = "",
    *,
    file: str,
    function: str = "",
    rule: DtypeRule = PROMOTED,
    dtypes: tuple[str, ...] = ALL,
    numbers: Mapping[str, float | None] | None = None,
    words: Mapping[str, str] | None = None,
    chosen: _Chosen | None = None,
    by_given: Given | None = None,
    flags: Mapping[str, str] | None = None,
    results: int = 1,
    category: str = "elementwise",
    apart: tuple[str, ...] = (),
    weak: Callable[[str], str] | None = None,
    masks: tuple[str, ...] = (),
    exact: bool = False,
    tolerance: tuple[float, float] = (0, 0),
) -> KernelSpec:
    """A row of an elementwise operator.

    Args:
        inputs: names of its arguments.
        reference: the operator on NumPy arrays.
        aliases: other names, separated by spaces.
        file: of `functions`, where its device function is.
        function: the device function, `name` if empty.
        rule: dtypes of results and operands.
        numbers: options that are operands of the function behind the arguments, with defaults;
            None is nan.
        words: options that the rule reads, with defaults.
        chosen: an option that says which function it is.
        by_given: by which of the arguments are given, `file:function`, for those that may be left
            out.
        flags: for `chosen` in C: what the parameter `use_VALUE` chooses.
        results: how many the function gives.
        exact: the reference depends on the dtypes.
        masks: of the kernel's parameters (`a`), those that are bool whatever the dtype is.
    """
    names, numbers = tuple(inputs.split()), numbers or {}
    options: dict[str, Any] = {**numbers, **(words or {})}
    function = function or name
    functions = [function]
    built: list[dict[str, Any]] = [{}]
    if chosen is not None:
        option, by_value = chosen
        options[option] = next(iter(by_value))
        built = [{option: value} for value in by_value]
        functions = list(by_value.values())
    return KernelSpec(
        name,
        names,
        _plan(
            given(name, names, by_given) if by_given else _choice(name, file, function, chosen),
            rule,
            dtypes,
            tuple(numbers),
        ),
        category=category,
        summary=summary,
        dtypes=dtypes,
        options=options,
        apart=apart,
        weak=weak,
        reference=reference,
        examples=alike(len(names)),
        complete=True,
        ahead=ahead.elementwise(len(names), *built),
        c=None
        if results > 1
        else c_interfaces.elementwise(
            [f"functions.{file}:{one}" for one in functions],
            len(names),
            tuple(numbers),
            masks,
            flags,
        ),
        elementwise=results == 1,
        aliases=tuple(aliases.split()),
        exact=exact,
        tolerance=tolerance,
    )


def _unchecked(reference: Callable[..., Any]) -> Callable[..., Any]:
    """A reference for the option `check`, which changes nothing of what is right."""
    return lambda *arrays, check=False, **options: reference(*arrays, **options)


def row(
    name: str,
    inputs: str,
    plan: Callable[[Call], Plan],
    summary: str,
    reference: Callable[..., Any] | None,
    examples: Callable[[_Shape], Sequence[_Shape]],
    aliases: str = "",
    *,
    category: str,
    dtypes: tuple[str, ...],
    options: Mapping[str, Any] | None = None,
    apart: tuple[str, ...] = (),
    updates: tuple[str, ...] = (),
    tolerance: tuple[float, float] | None = (0, 0),
    complete: bool = True,
    exact: bool = False,
    bounds: Bounds | None = None,
    along: str = "",
    ahead: Callable[[bool], Iterable[Example]] | None = None,
    c: CInterface | None = None,
    found: Mapping[str, tuple[int, int]] | None = None,
) -> KernelSpec:
    """A row of an operator that has a plan of its own.

    Args:
        inputs: names of its arguments, separated by spaces.
        reference: None where there is no result, as `updates` are written in place.
        aliases: other names, separated by spaces.
        bounds: the lengths that indices stay within, which the option `check` compares.
        ahead, c, found: as of `KernelSpec`.
    """
    if bounds is not None:
        options = {**(options or {}), "check": False}
        reference = None if reference is None else _unchecked(reference)
    return KernelSpec(
        name,
        tuple(inputs.split()),
        plan,
        category=category,
        summary=summary,
        dtypes=dtypes,
        bounds=bounds,
        along=along,
        ahead=ahead,
        c=c,
        found=found or {},
        options=options or {},
        apart=apart,
        updates=updates,
        results=reference is not None or not updates,
        reference=reference,
        examples=examples,
        complete=complete,
        aliases=tuple(aliases.split()),
        exact=exact,
        tolerance=tolerance,
    )


def along_axis(
    name: str,
    plan: Callable[[Call], Plan],
    summary: str,
    reference: Callable[..., Any],
    aliases: str = "",
    *,
    inputs: str = "x",
    dtypes: tuple[str, ...] = ALL,
    **facts: Any,
) -> KernelSpec:
    """A row of an operator along the option `axis` of an array; `facts` are as of `row`."""
    examples = alike(1)
    return row(
        name, inputs, plan, summary, reference, examples, aliases,
        dtypes=dtypes, along="axis", **facts,
    )  # fmt: skip


def moving(
    rows: Iterable[KernelSpec], *left_out: str, last: tuple[str, ...] = ()
) -> tuple[KernelSpec, ...]:
    """The rows, those that only move elements with floats of 8 bits among their dtypes.

    Args:
        left_out: names of the others.
        last: of those whose last argument is moved, whatever its name is.
    """
    return tuple(
        row
        if row.name in left_out
        else replace(
            row,
            dtypes=(*row.dtypes, *FLOATS_OF_8_BITS),
            plan=by_bits(row.plan, row.inputs, row.apart, last=row.name in last),
        )
        for row in rows
    )


def implementation(
    of: str,
    rows: Sequence[KernelSpec],
    impl: str,
    plan: Callable[[Call], Plan],
    why: str,
    targets: tuple[str, ...] = (),
    *,
    preferred: bool = False,
) -> KernelSpec:
    """Another implementation of a row: `xtarget.run(of, ..., impl=impl)`.

    Args:
        of: the row's name.
        rows: among which it is.
        plan: from call to launches. Arguments, options and results are the row's.
        why: what it is good for.
        targets: the vendors and targets that it serves; none: all.
        preferred: it serves them without being asked for.
    """
    row = next(row for row in rows if row.name == of)
    return replace(
        row, impl=impl, plan=plan, why=why, targets=targets, preferred=preferred, c=None, aliases=()
    )


def spelled(rows: Sequence[KernelSpec]) -> tuple[KernelSpec, ...]:
    """The rows with further spellings of their names: `log_softmax` is `LogSoftmax` and
    `logsoftmax` too, where no row has that name itself, nor is it refused. Names of one library
    (`by_library`) stay as they are.
    """
    taken = {row.name for row in rows} | {alias for row in rows for alias in row.aliases}
    found = []
    for row in rows:
        more: list[str] = []
        if row.category == BY_LIBRARY:
            found.append(row)
            continue
        for name in (row.name, *(alias for alias in row.aliases if not {".", ":"} & {*alias})):
            camel = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
            for other in (camel, name.replace("_", "")):
                if other and other not in taken and other not in REFUSED:
                    taken.add(other)
                    more.append(other)
        found.append(replace(row, aliases=(*row.aliases, *more)))
    return tuple(found)
