"""Softmax of rows on one device and on several: of parts that lie there, and of arrays of the host.

python benchmarks/bench_split.py --devices nvidia:0 nvidia:1 [--rows 1048576] [--columns 1024]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import xtarget
from xtarget._devices.registry import open_device

TURNS = 7


def seconds(call: Callable[[], Any], devices: list[str], times: int, turns: int = TURNS) -> float:
    """Of one call, from its start until all devices have finished: the median of some turns."""
    found = []
    for _ in range(turns):
        for device in devices:
            open_device(device).synchronize()
        begun = time.perf_counter()
        for _ in range(times):
            call()
        for device in devices:
            open_device(device).synchronize()
        found.append((time.perf_counter() - begun) / times)
    return statistics.median(found)


def of_parts(x: np.ndarray[Any, Any], devices: list[str], times: int) -> tuple[float, list[Any]]:
    parts = [xtarget.asarray(part, d) for part, d in zip(pieces(x, devices), devices, strict=True)]
    out = xtarget.split("softmax", parts, devices=devices)

    def call() -> Any:
        return xtarget.split("softmax", parts, devices=devices, out=out)

    call()
    return seconds(call, devices, times), out


def pieces(x: np.ndarray[Any, Any], devices: list[str]) -> list[np.ndarray[Any, Any]]:
    return np.array_split(x, len(devices))


def check(parts: list[Any], right: np.ndarray[Any, Any]) -> None:
    """Raise AssertionError unless the rows of all parts are those of `right`, again and again."""
    row, known = 0, np.empty(0, np.float32)
    for part in map(np.asarray, parts):
        for first in range(0, len(part), len(right)):
            rows = part[first : first + len(right)]
            # the same bits as before are as right as those were; comparing anew takes minutes
            if row % len(right) or not np.array_equal(rows, known):
                wanted = right[(row + np.arange(len(rows))) % len(right)]
                np.testing.assert_allclose(rows, wanted, rtol=1e-5, atol=1e-9)
                known = known if row % len(right) else rows
            row += len(rows)


def repeated(few: np.ndarray[Any, Any], rows: int) -> np.ndarray[Any, Any]:
    """The rows of `few`, again and again."""
    x = np.empty((rows, few.shape[1]), few.dtype)
    for first in range(0, rows, len(few)):
        x[first : first + len(few)] = few[: rows - first]
    return x


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", nargs="+", default=["nvidia:0", "nvidia:1"])
    parser.add_argument("--rows", type=int, default=1 << 20)
    parser.add_argument("--columns", type=int, default=1 << 10)
    parser.add_argument("--times", type=int, default=20, help="calls between two waits")
    parser.add_argument("--host", action="store_true", help="arrays of the host as well")
    parser.add_argument("--turns", type=int, default=3, help="of calls on arrays of the host")
    given = parser.parse_args()
    few = np.random.default_rng(1).standard_normal((1 << 10, given.columns), dtype=np.float32)
    x = repeated(few, given.rows)
    exact = np.exp(few.astype(np.float64))
    right = exact / exact.sum(1, keepdims=True)
    print(f"softmax of {given.rows} x {given.columns} float32, seconds of a call")
    alone = given.devices[:1]
    one, _ = of_parts(x, alone, given.times)
    all_, out = of_parts(x, given.devices, given.times)
    check(out, right)
    print(f"parts on the devices   {one:.6f}  {all_:.6f}  {one / all_:.2f} x")
    if given.host:
        into = np.zeros_like(x)
        times = []
        for devices in (alone, given.devices):

            def call(devices: list[str] = devices) -> None:
                xtarget.split("softmax", x, devices=devices, out=into)

            call()
            call()
            times.append(seconds(call, devices, 1, given.turns))
            check([into], right)
        print(f"arrays of the host     {times[0]:.6f}  {times[1]:.6f}  {times[0] / times[1]:.2f} x")


if __name__ == "__main__":
    main()
