"""Tune the calls that tables of choices are shipped for, and write every configuration's result.

    python benchmarks/tune_suite.py -o h200.json [--device nvidia:0] [--seconds 200] [--only matmul]

The most important calls come first; it stops when the time is over. A GPU's arrays are torch's.
On a CPU that others use, too: `taskset -c 0` before it, which times one core by processor time.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

import xtarget
from xtarget._kernels import tunings
from xtarget._kernels.tuning_files import text_of
from xtarget._launch.tuning import tune
from xtarget._launch.tuning_results import Tuning

#: kernel, shapes, dtype, layouts of the arrays (N by rows, T by columns), options
Case = tuple[str, tuple[tuple[int, ...], ...], str, str, dict[str, Any]]


def product(m: int, n: int, k: int, layout: str, dtype: str) -> Case:
    return "matmul", ((m, k), (k, n)), dtype, layout, {}


def gpu_cases() -> Iterator[Case]:
    for side in (4096, 1024, 2048, 512, 8192):
        yield product(side, side, side, "NN", "bfloat16")
        yield product(side, side, side, "NT", "bfloat16")
    for m in (1, 16, 64, 4):
        for n in (4096, 14336):
            yield product(m, n, 4096, "NT", "bfloat16")
    for shape in ((4096, 16384), (4096, 4096), (128, 131072)):
        for dtype in ("bfloat16", "float32"):
            yield "softmax", (shape,), dtype, "N", {}
    for size in (1 << 20, 1 << 24, 1 << 28):
        yield "sum", ((size,),), "float32", "N", {}
    for axis in (0, 1):
        yield "sum", ((8192, 8192),), "float32", "N", {"axis": axis}
    for side in (2048, 4096):
        yield product(side, side, side, "NN", "float32")
    for kernel in ("layer_norm", "rms_norm"):
        yield (
            kernel,
            ((8192, 4096), *(((4096,),) * (2 if kernel == "layer_norm" else 1))),
            ("bfloat16"),
            "NNN",
            {},
        )
    yield "gelu", ((1 << 26,),), "float32", "N", {}
    yield "add", ((1 << 26,), (1 << 26,)), "float32", "NN", {}
    for layout in ("TN", "TT"):
        for side in (4096, 1024):
            yield product(side, side, side, layout, "bfloat16")
    for m in (1, 16, 64):
        yield product(m, 4096, 4096, "NN", "bfloat16")
    for side in (1024, 512):
        yield product(side, side, side, "NN", "float32")
        yield product(side, side, side, "NT", "float32")
    yield product(4096, 4096, 4096, "NN", "float16")
    for m in (1, 16, 64):
        yield product(m, 4096, 4096, "NT", "float32")


def cpu_cases() -> Iterator[Case]:
    for side in (1024, 512, 256):
        yield product(side, side, side, "NN", "float32")
        yield product(side, side, side, "NT", "float32")
    for length in (128, 512):
        yield "attention", ((1, 8, length, 64),) * 3, "float32", "NNN", {}
    for x, w, options in (
        ((1, 64, 56, 56), (64, 64, 3, 3), {"padding": 1}),
        ((4, 128, 28, 28), (128, 128, 3, 3), {"padding": 1}),
        ((1, 3, 224, 224), (64, 3, 7, 7), {"padding": 3, "stride": 2}),
        ((1, 32, 112, 112), (32, 1, 3, 3), {"padding": 1, "groups": 32}),
    ):
        yield "conv2d", (x, w), "float32", "NN", options
    yield product(1024, 1024, 1024, "NN", "bfloat16")
    yield "softmax", ((1024, 1024),), "float32", "N", {}
    yield "softmax", ((4096, 256),), "float32", "N", {}
    yield "layer_norm", ((1024, 1024), (1024,), (1024,)), "float32", "NNN", {}
    yield "rms_norm", ((1024, 1024), (1024,)), "float32", "NN", {}
    yield "sum", ((1 << 22,),), "float32", "N", {}
    for axis in (0, 1):
        yield "sum", ((2048, 2048),), "float32", "N", {"axis": axis}
    for kernel in ("add", "gelu", "exp"):
        for size in (1 << 20, 1 << 22):
            shapes = ((size,),) * (2 if kernel == "add" else 1)
            yield kernel, shapes, "float32", "NN", {}
    for m in (1, 16):
        yield product(m, 1024, 1024, "NT", "float32")


def arrays(case: Case, device: str) -> list[Any]:
    _, shapes, dtype, layouts, _ = case
    found: list[Any] = []
    for shape, layout in zip(shapes, layouts, strict=False):
        kept = shape[::-1] if layout == "T" else shape
        if device.startswith("cpu"):
            made: Any = np.random.default_rng(0).standard_normal(kept, np.float32)
            made = made.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        else:
            import torch

            made = torch.randn(*kept, device="cuda", dtype=getattr(torch, dtype))
        found.append(made.T if layout == "T" else made)
    return found


def line(case: Case, found: Tuning, seconds: float) -> str:
    kernel, shapes, dtype, layout, options = case
    shown = " ".join("x".join(map(str, shape)) for shape in shapes)
    usual = next((t for t in found.trials if t.number == 0 and t.seconds), None)
    best = found.trials[0]
    gain = usual.seconds / best.seconds if usual and usual.seconds and best.seconds else 0.0
    return (
        f"{kernel} {dtype} {shown} {layout} {options or ''}: {gain:.2f} x the default, "
        f"{(best.seconds or 0) * 1e6:.1f} us, {best.text}; {len(found.trials)} tried, "
        f"{len(found.dropped)} dropped, {seconds:.1f} s{'' if found.stored else ', ' + found.note}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--device", default=None)
    parser.add_argument("--seconds", type=float, default=200.0)
    parser.add_argument("--only", default=None, help="only this kernel")
    parser.add_argument("--skip", type=int, default=0, help="leave out so many calls")
    given = parser.parse_args()
    device = given.device or xtarget.device().info.name
    end = time.monotonic() + given.seconds
    everything: list[dict[str, Any]] = []
    cases = list(cpu_cases() if device.startswith("cpu") else gpu_cases())
    for case in cases[given.skip :]:
        if given.only not in (None, case[0]):
            continue
        if time.monotonic() > end:
            print("the time is over")
            break
        start = time.monotonic()
        try:
            found = tune(case[0], tuple(arrays(case, device)), None, device, dict(case[4]))
        except xtarget.XTargetError as error:
            print(f"{case[:3]}: {error}", flush=True)
            continue
        print(line(case, found, time.monotonic() - start), flush=True)
        everything += [
            {"case": case, "key": one.key, "note": one.note, "number": trial.number,
             "is": trial.text, "seconds": trial.seconds, "error": trial.error}
            for one in (found, *found.more) for trial in one.trials
        ]  # fmt: skip
        given.output.with_suffix(".trials").write_text(json.dumps(everything), encoding="utf-8")
        given.output.write_text(text_of(tunings.stored_entries()), encoding="utf-8")


if __name__ == "__main__":
    main()
