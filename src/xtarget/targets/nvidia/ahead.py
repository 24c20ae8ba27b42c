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

    def make() -> None:
        # this thread ends here: its mode is nobody else's
        relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        driver.cuThreadExchangeStreamCaptureMode(relaxed)
        status, context = driver.cuDevicePrimaryCtxRetain(device)
        if not int(status):
            held.append(context)

    thread = threading.Thread(target=make, name="xtarget context", daemon=True)
    # without a thread the process ends, or is at its user's limit
    with suppress(RuntimeError):
        thread.start()
    try:
        yield
    finally:
        if thread.ident is not None:
            thread.join()
        if held:  # whoever took it in the scope holds it too
            driver.cuDevicePrimaryCtxRelease(device)


def _is_there(device: Any) -> bool:
    status, _, active = driver.cuDevicePrimaryCtxGetState(device)
    return int(status) != 0 or bool(active)
