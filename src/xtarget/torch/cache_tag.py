"""torch.compile's caches on disk know which kernels stand behind the operators.

A graph that is kept there has the shapes and gradients that an operator had; torch's key of it has
the operator's name alone. `torch.compiler.config.cache_key_tag` is part of every such key, so it
says what the kernels are.

Source: torch.compiler.config, `cache_key_tag`.
"""

from __future__ import annotations

import functools
import hashlib
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from .._kernels.libraries import RegisteredKernel
from .._system.locks import Lock
from ..targets._host import contents
from ..targets._triton.identity import Unidentified, text_of_value

__all__ = ["tag_caches"]

_MARK = "xtarget:"
_lock = Lock()
#: By the kernel's name, what it was when it was registered.
_texts: dict[str, tuple[RegisteredKernel, str]] = {}


def tag_caches(kernels: Mapping[str, RegisteredKernel]) -> None:
    """Put these kernels into the key of what torch.compile keeps from now on. A tag of the user's
    stays in front."""
    config: Any = getattr(torch.compiler, "config", None)
    if getattr(config, "cache_key_tag", None) is None:  # a torch without tags
        return
    parts = {f"formulas {_folder(Path(__file__).parent)}"}
    with _lock:  # the last one who comes here has seen all kernels
        for name, kernel in list(kernels.items()):
            known = _texts.get(name)
            if known is None or known[0] is not kernel:
                known = _texts[name] = kernel, _text(kernel)
            parts.add(known[1])
        _put(config, _MARK + hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()[:16])


def _put(config: Any, mark: str) -> None:
    """Put a mark behind the tag, in every thread that has no tag of its own: what is assigned is
    the assigning thread's alone, in torch 2.13 for example."""

    def marked(tag: Any) -> str:
        return f"{str(tag).partition(_MARK)[0].rstrip()} {mark}".lstrip()

    entry: Any = getattr(config, "_config", {}).get("cache_key_tag")
    if hasattr(entry, "env_value_default"):
        known = entry.env_value_default
        entry.env_value_default = marked(known if isinstance(known, str) else entry.default)
    if not config.cache_key_tag.endswith(mark):
        config.cache_key_tag = marked(config.cache_key_tag)


def _text(kernel: RegisteredKernel) -> str:
    """The text that decides a kernel's shapes and gradients: a library's files, or the declaration
    of `@xtarget.kernel` with all that its rules read."""
    origin = Path(kernel.origin)
    if origin.is_dir():
        return f"library {_folder(origin)}"
    plan = kernel.spec.plan
    declared = plan.args[:2] if isinstance(plan, functools.partial) else plan
    try:
        what = text_of_value(declared, kernel.spec.name)
    except (Unidentified, RecursionError):  # it reads what has no text
        what = contents.of_file(origin)
        if what == "absent":  # in a notebook: another process cannot tell whether it is the same
            what = secrets.token_hex(16)
    return f"kernel {kernel.spec.name} {kernel.spec.updates} {what}"


@functools.cache
def _folder(folder: Path) -> str:
    return contents.of_files(f"python {folder}", contents.python_files(folder))
