"""The main job on real input: a year of sunlight over the Earth (see make_insolation.py).

Runs on the GPU if there is one, else on the CPU; XTARGET_DEVICE=cpu:0 chooses. Every result is
compared with NumPy in float64; the exit code is 1 if one is wrong.
"""

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import xtarget

sun = np.load(Path(__file__).with_name("insolation.npy"))  # latitude x day, W/m²
exact = sun.astype(np.float64)
wrong: list[str] = []


def job(told: str, expected: Any, kernel: str, *args: Any, **options: int) -> Any:
    """Run twice (the first time compiles, or loads from the cache), compare, print a line."""
    milliseconds = []
    for _ in range(2):
        start = time.perf_counter()
        result = xtarget.run(kernel, *args, **options)
        milliseconds.append((time.perf_counter() - start) * 1e3)
    error = float(np.abs(result - expected).max() / np.abs(expected).max())
    right = result.shape == expected.shape and error <= 1e-5  # a sum of 365 float32 loses a digit
    wrong.extend([] if right else [told])
    print(f"  {told:30} first {milliseconds[0]:8.1f} ms   warm {milliseconds[1]:7.2f} ms   "
          f"error against NumPy {error:.1e}   {'right' if right else 'WRONG'}")  # fmt: skip
    return result


try:
    device = xtarget.default_device()
except xtarget.NoDeviceError as error:
    print(f"error: {error}", file=sys.stderr)
    sys.exit(3)
print(f"running on {device.name}: {device.product} ({device.runs_on}), code for {device.target}")
print(f"input: sunlight on {sun.shape[0]} latitudes x {sun.shape[1]} days, {sun.dtype}")
both = job("add(sun, sun[::-1])", exact + exact[::-1], "add", sun, sun[::-1])  # a view, in place
yearly = job("sum(sun, axis=1)", exact.sum(axis=1), "sum", sun, axis=1)
centred = exact - exact.mean(axis=1, keepdims=True)
scores = centred / np.sqrt(exact.var(axis=1, keepdims=True) + 1e-5)
seasons = job("layer_norm(sun)", scores, "layer_norm", sun)
square = seasons.astype(np.float64) @ seasons.T.astype(np.float64)
alike = job("matmul(seasons, seasons.T)", square, "matmul", seasons, seasons.T)

mean = np.average(yearly / sun.shape[1], weights=np.cos(np.radians(np.arange(-89, 90, 2))))
vary, day = 100 * np.ptp(both[45]) / both[45].mean(), int(sun[-1].argmax())
print(f"the Earth gets {mean:.1f} W/m² over the year (a quarter of the solar constant: 340.3)")
print(f"the pole's best day is day {day} with {sun[-1, day]:.0f} W/m², more than the equator ever")
print(f"both hemispheres together vary by {vary:.0f} % near the equator; the polar years correlate"
      f" at {alike[0, -1] / sun.shape[1]:.2f}")  # fmt: skip
if wrong:
    sys.exit(f"WRONG: {', '.join(wrong)}")
print(f"4 kernels ran on {device.name}; all agree with NumPy")
