"""The primary context of a CUDA device, made by a thread while this one imports what uses it.

Making it takes the driver about as long as importing cuda.core takes Python, and neither needs the
other: together they are most of a process's first call.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from cuda.bindings import driver

__all__ = ["context_ahead"]


@contextmanager
def context_ahead(ordinal: int) -> Iterator[None]:
    """A scope in which the context is being made by another thread, and stays.

    Where there is one, nothing is begun. What fails is not told: who takes the context next asks
    the driver again, and has its answer.
    """
    status, device = driver.cuDeviceGet(ordinal)
    if int(status) or _is_there(device):
        yield
        return
    held: list[Any] = []
    left: list[None] = []
    both = threading.Lock()

    def leave() -> None:
        """Give back what the thread took: the later one of the two, as an interrupt may end the
        wait for the thread. Whoever took the context in the scope holds it too."""
        with both:
            left.append(None)
            last = len(left) == 2
        if last and held:
            driver.cuDevicePrimaryCtxRelease(device)

    def make() -> None:
        # this thread ends here: its mode is nobody else's
        relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        driver.cuThreadExchangeStreamCaptureMode(relaxed)
        status, context = driver.cuDevicePrimaryCtxRetain(device)
        if not int(status):
            held.append(context)
        leave()

    thread = threading.Thread(target=make, name="xtarget context", daemon=True)
    try:
        # without a thread the process ends, or is at its user's limit
        with suppress(RuntimeError):
            thread.start()
        yield
    finally:
        try:
            if thread.ident is not None:
                thread.join()
        finally:
            leave()


def _is_there(device: Any) -> bool:
    status, _, active = driver.cuDevicePrimaryCtxGetState(device)
    return int(status) != 0 or bool(active)
