"""Why Triton's passes failed: they say it on standard error only, and raise "PassManager::run
failed". So the stages are run again, from the front end's IR up to the one that failed, in a child
process whose standard error is read.

`python -m xtarget.targets._spirv.diagnose` is that child; a failure here leaves the message poorer,
never the compilation different.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .._child import child_environment

__all__ = ["Stage", "optimized", "reason"]

_SECONDS = 60.0
_ERROR = re.compile(r'^(?:loc\(")?(?P<where>[^\n]*?)"?\)?: error: (?P<said>.*)$', re.M)
_PLACE = re.compile(r'"?(?P<path>[^"(]+?)"?:(?P<line>\d+):\d+')
_ASSERTION = re.compile(r"Assertion `(.*)' failed", re.S)
#: What LLVM adds to every failure.
_NO_NEWS = re.compile(r"Failures have been detected|A signal was caught")


@dataclass(frozen=True, slots=True)
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
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", __name__],
            input=json.dumps(asdict(stage)),
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            env=child_environment(),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"(the reason could not be found out: {error})"
    return told(done.stderr)


def told(log: str) -> str:
    """The errors in what the passes wrote."""
    found = []
    for match in _ERROR.finditer(log):
        place = _PLACE.search(match["where"])
        where = f"{Path(place['path']).name}:{place['line']}: " if place else ""
        if _NO_NEWS.search(match["said"]):
            continue
        if (text := where + match["said"].strip()) not in found:
            found.append(text)
    if broken := _ASSERTION.search(log):
        found.append(f"an assertion of Triton failed: {broken[1]}")
    return "; ".join(found)


def optimized(text: str, debug: bool) -> str:
    """Triton's IR with locations after its first stage; `text` is the front end's."""
    from . import lowering

    return str(lowering.optimize_ttir(_read(text), debug=debug).str())


def _read(text: str) -> Any:
    """The module, in a context of its own."""
    from triton._C.libtriton import amd, ir

    context = ir.context()
    ir.load_dialects(context)
    amd.load_dialects(context)
    with tempfile.NamedTemporaryFile("w", suffix=".mlir", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        module = ir.parse_mlir_module(file.name, context)
    module.context = context
    return module


def main() -> None:
    """Run the stages up to the one that standard input describes."""
    stage = Stage(**json.load(sys.stdin))
    from . import lowering

    module = lowering.optimize_ttir(_read(stage.text), debug=stage.debug)
    if stage.name == "ttir":
        return
    module = lowering.lower_to_ttgir(
        module, num_warps=stage.num_warps, warp_size=stage.warp_size, dot_bytes=stage.dot_bytes
    )
    if stage.name == "llir":
        lowering.lower_to_llvm(module, num_warps=stage.num_warps, fp_fusion=stage.fp_fusion)


if __name__ == "__main__":
    main()
