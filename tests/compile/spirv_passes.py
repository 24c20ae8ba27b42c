"""One pass over LLVM IR as text, for tests that look at what it makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xtarget.targets._spirv.llvm.ir import Module
from xtarget.targets._spirv.llvm.printer import printed
from xtarget.targets._spirv.llvm.reader import read
from xtarget.targets._spirv.llvm.text import Layout


def passed(text: str, run: Callable[[Module], None], **layout: Any) -> str:
    """The text after the pass; `layout` is what is known of the kernel `k`."""
    known = {"num_warps": 1, "warp_size": 16, "shared_bytes": 0, **layout}
    module = read(text, "k", Layout(**known))
    run(module)
    after = printed(module)
    return after if text.endswith("\n") else after.rstrip("\n")
