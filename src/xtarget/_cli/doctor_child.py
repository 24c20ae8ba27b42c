"""The process in which `xtarget doctor` runs a kernel on a device: a driver may crash or hang."""

from __future__ import annotations

import time
from typing import Any

from .._children.frames import pack
from .._children.serve import Answer, serve


def _loaded() -> Answer:
    def smoke(header: dict[str, Any], parts: list[bytes]) -> bytes:
        import numpy as np

        import xtarget

        a = np.arange(1000, dtype=np.float32)
        start = time.perf_counter()
        try:
            result = xtarget.run("add", a, a[::-1], device=header["device"])
        except Exception as error:  # whatever it is, it is what the device does
            return pack({"error": f"{type(error).__name__}: {error}"})
        seconds = time.perf_counter() - start
        if not (result == 999).all():
            return pack({"error": "the result of add is WRONG"})
        return pack({"seconds": seconds})

    return smoke


if __name__ == "__main__":
    serve(_loaded)
