"""Device functions and kernels that are made of others: the steps of a fused section (`steps`)."""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Callable, Mapping

from .._values.types import KernelSource, SourceText
from .programs import functions_of, program
from .steps import name_of, names_of, steps_of

__all__ = ["composed"]


def composed(
    text: str, find: Callable[[str], KernelSource], library: tuple[str, str]
) -> KernelSource:
    """The steps as one function: made from what theirs are made from.

    Args:
        find: the source of a `file:function`.
        library: where other processes find it (`KernelSource.library`).
    """
    sources = {function: find(function) for function in functions_of(text)}
    code, name = program(text), name_of(steps_of(text))
    total = hashlib.sha256(code.encode())
    for function, source in sources.items():
        total.update(f"{len(function)}:{function}:{source.digest}:".encode())
    holds = [source.holds for source in sources.values() if source.holds is not None]
    return KernelSource(
        name=name,
        digest=total.hexdigest(),
        path=next(iter(sources.values())).path,
        load=lambda: _load(code, name, sources, names_of(list(sources))),
        parts=(
            ("steps", code),
            *((f"{f}: {label}", part) for f, s in sources.items() for label, part in s.parts),
        ),
        unidentified=next((s.unidentified for s in sources.values() if s.unidentified), ""),
        again=lambda: composed(text, lambda function: _again(sources[function]), library),
        library=library,
        holds=(lambda: all(own() for own in holds)) if holds else None,
        places="\n".join(source.places for source in sources.values() if source.places),
        text=_source_text(code, name, sources, names_of(list(sources))),
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
