"""torch.compile's caches on disk know which kernels stand behind the operators.

A graph that is kept there has the shapes and gradients that an operator had; torch's key of it has
the operator's name alone. `torch.compiler.config.cache_key_tag` is part of every such key, so it
says what the kernels are.

Source: torch.compiler.config, `cache_key_tag`.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from .._kernels.libraries import RegisteredKernel
from ..targets._host import contents
from ..targets._triton.identity import Unidentified, text_of_value

__all__ = ["tag_caches"]

_MARK = "xtarget:"
#: By the kernel's name, what it was when it was registered.
_texts: dict[str, tuple[RegisteredKernel, str]] = {}


def tag_caches(kernels: Mapping[str, RegisteredKernel]) -> None:
    """Put these kernels into the key of what torch.compile keeps from now on. A tag of the user's
    stays in front."""
    config: Any = getattr(torch.compiler, "config", None)
    before = getattr(config, "cache_key_tag", None)
    if before is None:  # a torch without tags
        return
    parts = {f"formulas {_folder(Path(__file__).parent)}"}
    for name, kernel in list(kernels.items()):  # another thread may register one meanwhile
        known = _texts.get(name)
        if known is None or known[0] is not kernel:
            known = _texts[name] = kernel, _text(kernel)
        parts.add(known[1])
    digest = hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()[:16]
    theirs = before.partition(_MARK)[0].rstrip()
    config.cache_key_tag = f"{theirs} {_MARK}{digest}".lstrip()


def _text(kernel: RegisteredKernel) -> str:
    """What decides about a kernel's shapes and gradients: a library's files, or the declaration of
    `@xtarget.kernel` with all that its rules read."""
    origin = Path(kernel.origin)
    if origin.is_dir():
        return f"library {_folder(origin)}"
    plan = kernel.spec.plan
    declared = plan.args[:2] if isinstance(plan, functools.partial) else plan
    try:
        what = text_of_value(declared, kernel.spec.name)
    except (Unidentified, RecursionError):  # it reads what has no text
        what = contents.of_file(origin)
    return f"kernel {kernel.spec.name} {kernel.spec.updates} {what}"


@functools.cache
def _folder(folder: Path) -> str:
    return contents.of_files(f"python {folder}", contents.python_files(folder))
