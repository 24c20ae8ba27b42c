"""Random programs of exact arithmetic, through Triton's own launching, at every number of warps."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed here")

from random_tiles import Tiles, reference, source
from test_random_programs import kernel_of

pytestmark = pytest.mark.usefixtures("triton_on_cpu", "ran_on_cpu")

#: Those that found negations which are wrong behind barriers.
SHORT = {3, 4, 8, 10}
LONG = 150


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=() if n in SHORT else pytest.mark.long) for n in range(LONG)]
)
def test_a_random_program_is_exact_at_every_number_of_warps(tmp_path: Path, seed: int) -> None:
    program = Tiles(seed)
    kernel, shape = kernel_of(source(program), seed, tmp_path), (program.rows, program.columns)
    rng = np.random.default_rng(seed)
    dtype = np.dtype(getattr(ml_dtypes, program.real, program.real))
    f, g = (rng.integers(-4, 5, shape).astype(dtype) for _ in range(2))
    i = (rng.integers(-(2**31), 2**31, shape) >> rng.integers(0, 32, shape)).astype(np.int32)
    floats, integers = reference(program, f, g, i, 3)
    for warps in (1, 2, 4, 8):
        out_f = np.full((4, *shape), 77, dtype)
        out_i = np.full((4, *shape), 77, np.int32)
        kernel[(1,)](f, g, i, out_f, out_i, 3, ROWS=shape[0], COLUMNS=shape[1], num_warps=warps)
        for name, got, wanted in (
            *zip(program.floats, out_f, floats, strict=False),
            *zip(program.integers, out_i, integers, strict=False),
        ):
            wrong = int((got.astype(np.float64) != wanted).sum())
            assert not wrong, f"{name}: {wrong} wrong, {warps} warps:\n{source(program)}"
