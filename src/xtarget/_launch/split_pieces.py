"""A device's part of a call on arrays of the host, in pieces: some are copied while others are
computed.

A piece goes through pinned memory, and threads copy to and from it, each with a stream of its own:
one thread moves some GB/s, a device takes and gives several times as much, both at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from typing import Any

import numpy as np

from .._devices.registry import open_device
from ..targets.base import Device, Stream
from ..targets.optional import PinsMemory
from .staged_calls import overlapping

__all__ = ["in_pieces", "work_off"]

#: Bytes of a piece there and back: pinned blocks of 16 MiB have room for it, with the gaps between
#: its arrays. Of smaller ones, what Python does for each takes longer than the copies.
_PIECE = (16 << 20) - (1 << 16)
#: What every piece needs whole may be at most such a part of it, or copying it again costs more
#: than pieces save.
_MOST_WHOLE = 8
#: Threads of all devices together, and at least of each.
_THREADS, _LEAST_THREADS = 8, 2


def in_pieces(
    device: Device,
    inputs: Sequence[tuple[np.ndarray[Any, Any], bool]],
    results: Sequence[np.ndarray[Any, Any]],
    rows: int,
) -> list[tuple[int, int]]:
    """Where the pieces of a part begin and end, from its first row on; one, if it stays whole.

    Args:
        inputs: arrays, and whether they are cut along the first axis.
        rows: of the part.
    """
    whole = sum(array.nbytes for array, cut in inputs if not cut)
    each = sum(array.nbytes // len(array) for array, cut in inputs if cut)
    each += sum(array.nbytes // len(array) for array in results)
    most = (_PIECE - whole) // max(each, 1)
    if not isinstance(device, PinsMemory) or whole > _PIECE // _MOST_WHOLE or most < 1:
        return [(0, rows)]
    count = -(-rows // most)
    return [(rows * k // count, rows * (k + 1) // count) for k in range(count)]


def work_off(
    works: Sequence[tuple[str, Sequence[tuple[int, int]]]],
    compute: Callable[[str, int, int, Stream | None], None],
) -> list[float]:
    """Compute the pieces of each device, all devices at once; the seconds that each has taken.

    An error ends the call when the pieces in work have ended; the first device's is raised.

    Args:
        works: devices, and where their pieces begin and end.
        compute: is given a device, where a piece begins and ends, and the stream for it; None: the
            device's default one.
    """
    failed = threading.Event()
    threads = max(_THREADS // len(works), _LEAST_THREADS) if works else 1

    def work(name: str, pieces: Sequence[tuple[int, int]], *, alone: bool) -> float:
        overlapping.set(not alone)
        with nullcontext() if alone else closing(open_device(name).stream()) as stream:
            for low, high in pieces:
                if failed.is_set():
                    break
                try:
                    compute(name, low, high, stream)
                except BaseException:
                    failed.set()
                    raise
        return time.perf_counter()

    shares = [[pieces[k::threads] for k in range(threads)] for _, pieces in works]
    begun = time.perf_counter()
    with ThreadPoolExecutor(max(1, sum(len(share) for share in shares))) as pool:
        waiting = [
            [pool.submit(work, name, share, alone=len(pieces) == 1) for share in own if share]
            for (name, pieces), own in zip(works, shares, strict=True)
        ]
        return [max(one.result() for one in own) - begun for own in waiting]
