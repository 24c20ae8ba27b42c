"""The main job on real input: a year of sunlight over the Earth (see make_insolation.py).

Runs on the GPU if there is one, else on the CPU; XTARGET_DEVICE=cpu:0 chooses. Every result is
compared with NumPy in float64; the exit code is 1 if one is wrong.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import xtarget

#: Largest allowed error relative to the largest value: float32 has 7 digits, a sum of 365 products
#: loses one and a half.
TOLERANCE = 1e-5


def job(name: str, expected: np.ndarray, call: Callable[[], np.ndarray]) -> np.ndarray:
    """Run twice (the first time compiles, or loads from the cache), compare, print a line."""
    start = time.perf_counter()
    result = call()
    first = time.perf_counter() - start
    start = time.perf_counter()
    result = call()
    warm = time.perf_counter() - start
    error = float(np.abs(result - expected).max() / np.abs(expected).max())
    right = result.shape == expected.shape and error <= TOLERANCE
    print(
        f"  {name:30} first {first * 1e3:8.1f} ms   warm {warm * 1e3:7.2f} ms   "
        f"error against NumPy {error:.1e}   {'right' if right else 'WRONG'}"
    )
    wrong.extend([] if right else [name])
    return result


wrong: list[str] = []


def main() -> int:
    device = xtarget.default_device()
    sun = np.load(Path(__file__).with_name("insolation.npy"))  # latitude x day, W/m²
    exact = sun.astype(np.float64)
    print(
        f"running on {device.name}: {device.product} ({device.runs_on}), code for {device.target}"
    )
    print(f"input: sunlight on {sun.shape[0]} latitudes x {sun.shape[1]} days, {sun.dtype}")

    # an array and its mirror image: a view with negative strides, used where it lies
    both = job(
        "add(sun, sun[::-1])", exact + exact[::-1], lambda: xtarget.run("add", sun, sun[::-1])
    )
    yearly = job("sum(sun, axis=1)", exact.sum(axis=1), lambda: xtarget.run("sum", sun, axis=1))
    centred = exact - exact.mean(axis=1, keepdims=True)
    scores = centred / np.sqrt(exact.var(axis=1, keepdims=True) + 1e-5)
    seasons = job("layer_norm(sun)", scores, lambda: xtarget.run("layer_norm", sun))
    alike = job(
        "matmul(seasons, seasons.T)",
        seasons.astype(np.float64) @ seasons.T.astype(np.float64),
        lambda: xtarget.run("matmul", seasons, seasons.T),
    )

    latitude = np.arange(-89, 90, 2)
    area = np.cos(np.radians(latitude))
    mean = float((yearly / sun.shape[1] * area).sum() / area.sum())
    day = int(sun[-1].argmax())
    print(f"the Earth gets {mean:.1f} W/m² over the year (a quarter of the solar constant: 340.3)")
    print(
        f"the pole's best day is day {day} with {sun[-1, day]:.0f} W/m², more than the equator ever"
    )
    print(
        f"both hemispheres together vary by {100 * np.ptp(both[45]) / both[45].mean():.0f} % near"
    )
    print(f"the equator; the two polar years correlate at {alike[0, -1] / sun.shape[1]:.2f}")
    if wrong:
        print(f"WRONG: {', '.join(wrong)}", file=sys.stderr)
        return 1
    print(f"4 kernels ran on {device.name}; all agree with NumPy")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except xtarget.XTargetError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(3 if isinstance(error, xtarget.NoDeviceError) else 1)
