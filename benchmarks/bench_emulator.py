"""How fast the emulator is: lane-instructions a second on one core.

    python benchmarks/bench_emulator.py [--arch gfx1100] [--json FILE]

A lane-instruction is one instruction of one lane, active or not. The least of 5 runs; compiling and
loading are not in it.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import xtarget
from xtarget._devices import registry

CASES = {
    "add fp32 2^18": ("add", ((1 << 18,), (1 << 18,))),
    "softmax fp32 256x1000": ("softmax", ((256, 1000),)),
    "matmul fp16 128x128x128": ("matmul", ((128, 128), (128, 128))),
}


def measure(arch: str) -> dict[str, Any]:
    """Case to lane-instructions a second, in millions."""
    device: Any = registry.open_device(f"emu:{arch}")
    hip = device.hip
    rng = np.random.default_rng(0)
    result = {}
    for case, (name, shapes) in CASES.items():
        dtype = np.float16 if "fp16" in case else np.float32
        arrays = [
            xtarget.asarray(rng.standard_normal(s).astype(dtype), device=f"emu:{arch}")
            for s in shapes
        ]
        rates = []
        for _ in range(6):
            device.synchronize()
            before, start = hip.executed, time.perf_counter()
            xtarget.run(name, *arrays)
            device.synchronize()
            rates.append((hip.executed - before) / (time.perf_counter() - start) / 1e6)
        result[case] = round(max(rates[1:]), 1)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", action="append", help="repeatable; default: all")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    archs = given.arch or ["gfx1100", "gfx1201", "gfx90a", "gfx942", "gfx950"]
    figures = {arch: measure(arch) for arch in archs}
    for arch, rates in figures.items():
        for case, rate in rates.items():
            print(f"{arch:8} {case:26} {rate:8.1f} million lane-instructions a second")
    if given.json:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
