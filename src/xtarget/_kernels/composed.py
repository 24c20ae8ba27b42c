"""Device functions that are made of others: the steps of a fused section, one after another.

As text, `;` between the steps:

    functions.arithmetic:mul(a/float32,b/float32)>float16;functions.activations:gelu(0/float32)>float16

A step calls a device function, and its result is rounded to a dtype, as an array between two
launches would be. An operand is an argument (a letter), the result of an earlier step (its number)
or a number (`=0x1.8p+1`), each with the dtypes that it is converted to, in their order.
"""

from __future__ import annotations

import hashlib
import linecache
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .._values.types import KernelSource, SourceText

__all__ = ["Step", "composed", "is_composed", "program", "steps_of", "text_of"]

_STEP = re.compile(r"([\w.]+:\w+)\(([^()]*)\)>(\w+)")
#: Characters of a generated function's name.
_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a device function.

    Attributes:
        function: `file:function`.
        operands: of each the argument's letter, the step's number, or a number after `=`; and the
            dtypes that it is converted to.
        dtype: of the result.
    """

    function: str
    operands: tuple[tuple[str, tuple[str, ...]], ...]
    dtype: str


def text_of(steps: Sequence[Step]) -> str:
    """The steps in the place of a device function (`Launch.source`)."""
    return ";".join(
        f"{step.function}({','.join('/'.join((what, *to)) for what, to in step.operands)})"
        f">{step.dtype}"
        for step in steps
    )


def is_composed(text: str) -> bool:
    """Whether a text is one of steps."""
    return ">" in text


def steps_of(text: str) -> tuple[Step, ...]:
    """The steps of a text.

    Raises:
        ValueError: it is none.
    """
    found = []
    for part in text.split(";"):
        match = _STEP.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} is no step of a fused section")
        operands = (tuple(operand.split("/")) for operand in match[2].split(","))
        found.append(Step(match[1], tuple((own[0], own[1:]) for own in operands), match[3]))
    return tuple(found)


def program(text: str) -> str:
    """The steps as a Triton function.

    Functions of other files go by the names under which `composed` puts them beside it.
    """
    steps = steps_of(text)
    letters = sorted({own for step in steps for own, _ in step.operands if own.isalpha()})
    names = _names(steps)
    lines = ["@triton.jit", f"def {_name(steps)}({', '.join(letters)}):"]
    for number, step in enumerate(steps):
        operands = ", ".join(_operand(own, dtypes, steps) for own, dtypes in step.operands)
        lines.append(f"    v{number} = {names[step.function]}({operands}).to({_dtype(step.dtype)})")
    lines.append(f"    return v{len(steps) - 1}")
    return "\n".join(lines) + "\n"


def _names(steps: Sequence[Step]) -> Mapping[str, str]:
    """By function, a name that no other one has."""
    found: dict[str, str] = {}
    for step in steps:
        if step.function not in found:
            own = step.function.rpartition(":")[2]
            taken = own in found.values() or (len(own) == 1 and own.isalpha())
            found[step.function] = f"{own}_{len(found)}" if taken else own
    return found


def _name(steps: Sequence[Step]) -> str:
    whole = "_".join(["fused", *(step.function.rpartition(":")[2] for step in steps)])
    return whole[:_LONGEST]


def _dtype(name: str) -> str:
    return "tl.int1" if name == "bool" else f"tl.{name}"


def _operand(own: str, dtypes: Sequence[str], steps: Sequence[Step]) -> str:
    if own.startswith("="):
        made, has = _number(own[1:], dtypes[0])
    elif own.isalpha():
        made, has = own, ""
    else:
        made, has = f"v{own}", steps[int(own)].dtype
    for dtype in dtypes:
        if dtype != has:
            made += f".to({_dtype(dtype)})"
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


def composed(
    text: str, find: Callable[[str], KernelSource], library: tuple[str, str]
) -> KernelSource:
    """The steps as one device function: made from what theirs are made from.

    Args:
        find: the source of a `file:function`.
        library: where other processes find it (`KernelSource.library`).
    """
    steps = steps_of(text)
    sources = {step.function: find(step.function) for step in steps}
    code = program(text)
    total = hashlib.sha256(code.encode())
    for function, source in sources.items():
        total.update(f"{len(function)}:{function}:{source.digest}:".encode())
    holds = [source.holds for source in sources.values() if source.holds is not None]
    return KernelSource(
        name=_name(steps),
        digest=total.hexdigest(),
        path=next(iter(sources.values())).path,
        load=lambda: _load(code, _name(steps), sources, _names(steps)),
        parts=(
            ("steps", code),
            *((f"{f}: {label}", part) for f, s in sources.items() for label, part in s.parts),
        ),
        unidentified=next((s.unidentified for s in sources.values() if s.unidentified), ""),
        again=lambda: composed(text, lambda function: _again(sources[function]), library),
        library=library,
        holds=(lambda: all(own() for own in holds)) if holds else None,
        places="\n".join(source.places for source in sources.values() if source.places),
        text=_source_text(code, _name(steps), sources, _names(steps)),
    )


def _source_text(
    code: str, name: str, sources: Mapping[str, KernelSource], names: Mapping[str, str]
) -> SourceText | None:
    given = [(names[function], source.text) for function, source in sources.items()]
    known = tuple((own, text) for own, text in given if text is not None)
    if len(known) < len(given):
        return None
    lines = f"import triton\nimport triton.language as tl\n{code}"
    return SourceText({"fused": ("<fused>", lines.encode())}, f"fused:{name}", known)


def _again(source: KernelSource) -> KernelSource:
    return source if source.again is None else source.again()


def _load(
    code: str, name: str, sources: Mapping[str, KernelSource], names: Mapping[str, str]
) -> object:
    import triton
    import triton.language as tl

    values = {names[function]: source.load() for function, source in sources.items()}
    values |= {"triton": triton, "tl": tl, "__name__": "xtarget.fused"}
    # inspect reads a function's text from here; without a time it is never read again
    file = f"<xtarget fused {hashlib.sha256(code.encode()).hexdigest()[:16]}>"
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    exec(compile(code, file, "exec", dont_inherit=True), values)
    return values[name]
