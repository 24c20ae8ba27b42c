"""Random programs of every layout are right, and none of them is said to race.

They are those that Triton's own launching on CPUs is tried with (tests/interop/random_tiles.py):
reductions, scans, dots, sorts and barriers on tiles smaller and larger than their blocks.
"""

from __future__ import annotations

import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from harness import ARCHS, compiled, device, run

from xtarget import KernelFault
from xtarget_emulator.launch import Limits

sys.path.insert(0, str(Path(__file__).parents[1] / "interop"))
from random_tiles import Tiles, reference, source

SEEDS = 500
WARPS = (4, 8, 2, 1)
_NAMES = {"float32": "fp32", "float16": "fp16", "float64": "fp64", "bfloat16": "bf16"}


def _run(seed: int, folder: Path) -> str:
    """The fault of a program; empty if all is right."""
    arch, warps = ARCHS[seed % len(ARCHS)], WARPS[seed // len(ARCHS) % len(WARPS)]
    program = Tiles(seed)
    file = folder / f"random_tiles_{seed}.py"
    file.write_text(source(program), encoding="utf-8")
    rows, columns = shape = (program.rows, program.columns)
    real = _NAMES[program.real]
    code = compiled(
        "kernel",
        f"F:*{real} G:*{real} I:*i32 OF:*{real} OI:*i32 three:i32",
        arch,
        num_warps=warps,
        constants=(("ROWS", rows), ("COLUMNS", columns)),
        path=file,
    )
    rng = np.random.default_rng(seed)
    dtype = np.dtype(getattr(ml_dtypes, program.real, program.real))
    f, g = (rng.integers(-4, 5, shape).astype(dtype) for _ in range(2))
    i = (rng.integers(-(2**31), 2**31, shape) >> rng.integers(0, 32, shape)).astype(np.int32)
    floats, integers = reference(program, f, g, i, 3)
    out = np.full((4, *shape), 77, dtype), np.full((4, *shape), 77, np.int32)
    try:
        out = tuple(run(code, (1,), f, g, i, *out, 3)[3:])  # type: ignore[assignment]
    except KernelFault as fault:
        return f"seed {seed}, {arch}, {warps} warps: {fault}"
    for names, got, wanted in zip(
        (program.floats, program.integers), out, (floats, integers), strict=True
    ):
        for name, a, b in zip(names, got, wanted, strict=False):
            if (a.astype(np.float64) != b).any():
                return f"seed {seed}, {arch}, {warps} warps: {name} is wrong"
    return ""


@pytest.fixture(autouse=True)
def _looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for arch in ARCHS:
        hip = device(arch).hip
        monkeypatch.setattr(hip, "limits", Limits(10**11, True))


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", [0, 7, 21, 33])
def test_a_random_program_has_no_races(tmp_path: Path, seed: int) -> None:
    assert not _run(seed, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_no_random_program_has_races(tmp_path: Path, part: int) -> None:
    seeds = range(part, SEEDS, 10)
    wrong = [text for seed in seeds if (text := _run(seed, tmp_path))]
    print(f"{len(seeds)} random programs with check=race, {len(wrong)} faults or wrong results")
    assert not wrong, "\n".join(wrong)
