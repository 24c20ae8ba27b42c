"""The choice between the two ptxas in Triton's wheel, of which one makes a cubin.

The ptxas 12.8 of Triton 3.6 gets some kernels for sm_90 wrong. Where two descriptors of `wgmma`
begin at one address of shared memory and name different layouts, as those of keys and of narrower
values, it adds a constant to a uniform register before that register is set (seen in SASS).
Attention then gave wrong numbers or read outside of its memory. 12.9 and 13.0 do not do it. The
wheel has a newer ptxas for sm_100 and up, and that one knows the older archs too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from .._triton.importing import import_triton

__all__ = ["sound_ptxas"]

_SOUND = (12, 9)


@contextmanager
def sound_ptxas() -> Iterator[None]:
    """A compilation by the newer ptxas of the wheel where the other one is older than 12.9.

    The one that TRITON_PTXAS_PATH or Triton's knob names stays: its user has chosen it.
    """
    knobs = import_triton().knobs.nvidia
    chosen = bool(os.environ.get("TRITON_PTXAS_PATH")) or "ptxas" in vars(knobs)
    if chosen or _number(knobs.ptxas.version) >= _SOUND:
        yield
        return
    newer = knobs.ptxas_blackwell
    if _number(newer.version) < _SOUND:
        yield
        return
    with knobs.scope():
        knobs.ptxas = newer.path
        yield


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
