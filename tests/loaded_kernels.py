"""A process that has loaded nothing: the kernels of earlier tests would serve without a cache."""

from __future__ import annotations

from xtarget._compile import residency
from xtarget._launch import known


def forget_all() -> None:
    """Forget what is loaded, what was unloaded to be loaded again, and the calls of both."""
    residency.functions.clear()
    residency.unloaded.clear()
    known.forget_calls()
