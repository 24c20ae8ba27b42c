"""Find out why Triton's passes failed. They give the reason on standard error only, and raise
"PassManager::run failed". So the stages run again in a child process, from the front end's IR up to
the stage that failed, and the child's standard error is read.

This module is that child too. A failure here leaves the message poorer, never the compilation
different.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ...._children.frames import pack
from ...._children.serve import serve
from ...._values.value_classes import value_class
from ..._triton.reason import errors_of, read_module

__all__ = ["Stage", "optimized", "reason"]


@value_class(frozen=True, slots=True)
class Stage:
    """A stage of `lowering`.

    Attributes:
        name: `ttir`, `ttgir` or `llir`.
        text: the front end's module, with locations.
        num_warps, warp_size: of the block.
        dot_bytes, fp_fusion, debug: of the compilation.
    """

    name: str
    text: str
    num_warps: int
    warp_size: int
    dot_bytes: int
    fp_fusion: bool
    debug: bool


def reason(stage: Stage) -> str:
    """Operation, line and reason as Triton's passes give them; empty if they say nothing."""
    return errors_of(__name__, asdict(stage))


def optimized(text: str, debug: bool) -> Any:
    """Triton's module after its first stage; `text` is the front end's, with locations."""
    from . import lowering

    return lowering.optimize_ttir(_read(text), debug=debug)


def _read(text: str) -> Any:
    """The module, in a context of its own."""
    from triton._C.libtriton import amd

    return read_module(text, amd.load_dialects)


def _run(wanted: dict[str, Any], _: list[bytes]) -> bytes:
    """In the child: run the stages up to the one that is wanted."""
    stage = Stage(**wanted)
    from . import lowering

    module = lowering.optimize_ttir(_read(stage.text), debug=stage.debug)
    if stage.name != "ttir":
        module = lowering.lower_to_ttgir(
            module, num_warps=stage.num_warps, warp_size=stage.warp_size, dot_bytes=stage.dot_bytes
        )
    if stage.name == "llir":
        lowering.lower_to_llvm(module, num_warps=stage.num_warps, fp_fusion=stage.fp_fusion)
    return pack({})


if __name__ == "__main__":
    serve(lambda: _run)
