"""The steps of a fused section, as text: what stands in the place of a function's name.

`;` lies between the steps:

    functions.arithmetic:mul(a/float32,b/float32)>float16;functions.activations:gelu(0/float32)>float16

A step calls a device function, and its result is rounded to a dtype, as an array between two
launches would be. An operand is an argument (a letter), the result of an earlier step (its number)
or a number (`=0x1.8p+1`), each with the dtypes that it is converted to, in their order.

A fold makes one number of each row: `sum[square,mean,float32,float32,0](1/float32)>float16`. In
brackets: what it does to elements and to the result (`maps` of our library), the dtypes that it
takes elements in and computes in, and by how much the count of a mean is less.

In front of the steps may stand the form of a kernel that is generated whole: `whole.ab|...`, with
the letters of its arrays. `whole.ab.3|...` writes the result of step 3 too, behind the last one's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from .._values.value_classes import value_class

__all__ = [
    "Fold",
    "Operand",
    "Step",
    "alone",
    "dtype_text",
    "form_of",
    "kernel_text",
    "name_of",
    "names_of",
    "operand_text",
    "steps_of",
    "text_of",
    "written_of",
]

#: An argument's letter, a step's number, or a number after `=`; and what it is converted to.
Operand: TypeAlias = tuple[str, tuple[str, ...]]

_STEP = re.compile(r"([\w.]+:\w+)\(([^()]*)\)>(\w+)")
_FOLD = re.compile(r"(\w+)\[(\w*),(\w*),(\w+),(\w+),(\d+)\]\(([^()]*)\)>(\w+)")
_KERNEL = re.compile(r"(\w+)\.([a-z]*)((?:\.\d+)*)\|(.*)")
#: Characters of a generated function's name.
_LONGEST = 60
#: Names that generated functions have for something else.
_TAKEN = frozenset(
    ("begin", "column", "columns", "end", "mask", "out", "row", "rows", "shape", "start", "step")
)


@value_class(frozen=True, slots=True)
class Step:
    """One call of a device function.

    Attributes:
        function: `file:function`.
        dtype: of the result.
    """

    function: str
    operands: tuple[Operand, ...]
    dtype: str

    @property
    def name(self) -> str:
        return self.function.rpartition(":")[2]

    def __str__(self) -> str:
        return f"{self.function}({_operands_text(self.operands)})>{self.dtype}"


@value_class(frozen=True, slots=True)
class Fold:
    """One number from each row.

    Attributes:
        op: `sum`, or an operation of `maps.combine`.
        map, finish: what is done to elements, and to the result.
        given, computed: dtypes of elements, and of what is folded.
        less: the count of a mean is by so much less than a row's length.
        operands: the elements; and a number of the row that map or finish takes, if they do.
        dtype: of the result.
    """

    op: str
    map: str
    finish: str
    given: str
    computed: str
    less: int
    operands: tuple[Operand, ...]
    dtype: str

    @property
    def name(self) -> str:
        return "_".join(part for part in (self.map, self.op, self.finish) if part)

    def __str__(self) -> str:
        how = f"{self.map},{self.finish},{self.given},{self.computed},{self.less}"
        return f"{self.op}[{how}]({_operands_text(self.operands)})>{self.dtype}"


def _operands_text(operands: Sequence[Operand]) -> str:
    return ",".join("/".join((what, *to)) for what, to in operands)


def text_of(steps: Sequence[Step | Fold]) -> str:
    """The steps in the place of a device function (`Launch.source`)."""
    return ";".join(map(str, steps))


def kernel_text(form: str, arrays: str, text: str, written: Sequence[int] = ()) -> str:
    """The steps as a kernel of their own.

    Args:
        form: a name in `programs`.
        arrays: the letters of those arguments that are arrays.
        written: steps whose results are written too, behind the last one's.
    """
    return f"{form}.{arrays}{''.join(f'.{number}' for number in written)}|{text}"


def form_of(text: str) -> tuple[str, str, str]:
    """Form, arrays and steps of a text; no form: the steps are a device function."""
    match = _KERNEL.fullmatch(text)
    return ("", "", text) if match is None else (match[1], match[2], match[4])


def written_of(text: str) -> tuple[int, ...]:
    """The steps beside the last one whose results a kernel writes."""
    match = _KERNEL.fullmatch(text)
    return () if match is None else tuple(map(int, match[3].split(".")[1:]))


def alone(text: str, number: int) -> tuple[str, tuple[int, ...], bool]:
    """The steps that one of them needs, itself the last: their text, the places of the arguments
    that they have, which get letters from `a` on, and whether a row is folded by them."""
    steps = steps_of(text)
    needed = {number}
    for place in range(number, -1, -1):
        if place in needed:
            needed |= {int(own) for own, _ in steps[place].operands if own.isdigit()}
    kept = sorted(needed)
    letters = sorted({own for n in kept for own, _ in steps[n].operands if own.isalpha()})
    names = {letter: "abcdefgh"[index] for index, letter in enumerate(letters)}
    names |= {str(n): str(index) for index, n in enumerate(kept)}
    moved = [
        replace(
            steps[n], operands=tuple((names.get(own, own), to) for own, to in steps[n].operands)
        )
        for n in kept
    ]
    places = tuple("abcdefgh".index(letter) for letter in letters)
    return text_of(moved), places, any(isinstance(step, Fold) for step in moved)


def steps_of(text: str) -> tuple[Step | Fold, ...]:
    """The steps of a text.

    Raises:
        ValueError: it is none.
    """
    found: list[Step | Fold] = []
    for part in form_of(text)[2].split(";"):
        step, fold = _STEP.fullmatch(part), _FOLD.fullmatch(part)
        if step is not None:
            found.append(Step(step[1], _operands_of(step[2]), step[3]))
        elif fold is not None:
            op, mapped, finish, given, computed, less, operands, dtype = fold.groups()
            own = _operands_of(operands)
            found.append(Fold(op, mapped, finish, given, computed, int(less), own, dtype))
        else:
            raise ValueError(f"{part!r} is not a step of a fused section")
    return tuple(found)


def _operands_of(text: str) -> tuple[Operand, ...]:
    parts = (operand.split("/") for operand in text.split(","))
    return tuple((own[0], tuple(own[1:])) for own in parts)


def name_of(steps: Sequence[Step | Fold]) -> str:
    """The generated function's name."""
    return "_".join(["fused", *(step.name for step in steps)])[:_LONGEST]


def names_of(functions: Sequence[str]) -> Mapping[str, str]:
    """By `file:function`, a name that no other one has."""
    found: dict[str, str] = {}
    for function in functions:
        if function not in found:
            own = function.rpartition(":")[2]
            taken = own in found.values() or own in _TAKEN or len(own) == 1
            found[function] = f"{own}_{len(found)}" if taken else own
    return found


def dtype_text(name: str) -> str:
    """A dtype in Triton's words."""
    return "tl.int1" if name == "bool" else f"tl.{name}"


def operand_text(operand: Operand, steps: Sequence[Step | Fold], letter: str = "{}") -> str:
    """An operand as an expression.

    Args:
        letter: how an argument is named, with its letter in the place of `{}`.
    """
    own, dtypes = operand
    if own.startswith("="):
        made, has = _number(own[1:], dtypes[0])
    elif own.isalpha():
        made, has = letter.format(own), ""
    else:
        made, has = f"v{own}", steps[int(own)].dtype
    for dtype in dtypes:
        if dtype != has:
            made += f".to({dtype_text(dtype)})"
        has = dtype
    return made


def _number(value: str, dtype: str) -> tuple[str, str]:
    """A number, and the dtype that it is written in: it travels in that to other kernels too."""
    if dtype == "bool":
        return f"tl.full((), {int(value)}, tl.int1)", "bool"
    if dtype.startswith(("int", "uint")):
        wide = "uint64" if dtype == "uint64" else "int64"
        return f"tl.full((), {int(value)}, tl.{wide})", wide
    wide = "float64" if dtype == "float64" else "float32"
    number = float.fromhex(value)
    finite = number - number == 0
    return f"tl.full((), {repr(number) if finite else f'float({value!r})'}, tl.{wide})", wide
