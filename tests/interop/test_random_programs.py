"""Random programs of dots, loops and branches, through Triton's own launching, against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loading import load_file

pytest.importorskip("triton", reason="Triton is not installed here")

import triton.language as tl
from random_programs import Program, reference, source

pytestmark = pytest.mark.usefixtures("triton_on_cpu", "ran_on_cpu")

#: What each value may be off, as a part of the largest.
TOLERANCES = {"float32": 2e-4, "float16": 2e-2}
#: Two, and those that found something once.
SHORT = {0, 1, 7, 11, 30, 59}


def kernel_of(text: str, seed: int, folder: Path) -> Any:
    file = folder / f"random_program_{seed}.py"
    file.write_text(text, encoding="utf-8")
    return load_file(file).kernel


@pytest.mark.sample(6, each=("dtype",))
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=() if n in SHORT else pytest.mark.long) for n in range(60)]
)
def test_a_random_program_is_right(tmp_path: Path, seed: int, dtype: str) -> None:
    program = Program(seed)
    kernel, size = kernel_of(source(program), seed, tmp_path), program.size
    rng = np.random.default_rng([seed, list(TOLERANCES).index(dtype)])
    tiles = [rng.standard_normal((3, size, size)).astype(dtype) for _ in range(3)]
    out = np.zeros((2, 3, size, size), np.float32)
    warps = int(rng.choice((1, 2, 4, 8)))
    kernel[(2,)](*tiles, out, 2, 3, S=size, T=getattr(tl, dtype), num_warps=warps)
    for block in range(2):
        expected = reference(program, tiles, block, 2, 3)
        for name, got, wanted in zip(program.outputs, out[block], expected, strict=True):
            off = np.abs(got - wanted).max() / max(1.0, np.abs(wanted).max())
            assert off < TOLERANCES[dtype], f"{name}, {warps} warps:\n{source(program)}"
