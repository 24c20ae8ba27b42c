"""Data races in LDS and in global memory are found where they are, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import operators
import oracle
import pytest
from harness import ARCHS, compiled, device, run

from xtarget import KernelFault
from xtarget._values.types import Artifact
from xtarget_emulator.launch import Limits

_BLOCK = 256
_CONSTANTS = (("block", _BLOCK),)
_X = np.arange(_BLOCK, dtype=np.float32)
_TWO = "x:*fp32 o:*fp32"
#: s_nop, and what makes a barrier (gfx12: s_barrier_signal -1 and s_barrier_wait -1), encoded.
_NOTHING, _CDNA = "000080bf", ("00008abf",)
_BARRIERS = {"gfx1100": ("0000bdbf",), "gfx1201": ("c14e80be", "ffff94bf"), "gfx90a": _CDNA,
             "gfx942": _CDNA, "gfx950": _CDNA}  # fmt: skip


@pytest.fixture(autouse=True)
def _looked_for() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for arch in ARCHS:
            hip = device(arch).hip
            patch.setattr(hip, "limits", Limits(10**10, True))
        yield


def _without_barriers(code: Artifact) -> Artifact:
    binary = code.binary
    for barrier in map(bytes.fromhex, _BARRIERS[code.target.arch]):
        assert barrier in binary
        binary = binary.replace(barrier, bytes.fromhex(_NOTHING))
    return replace(code, binary=binary)


@pytest.mark.parametrize("arch", list(_BARRIERS))
def test_a_barrier_taken_out_of_a_reduction_is_a_race_in_lds(arch: str) -> None:
    code = compiled("total", _TWO, arch, constants=_CONSTANTS)
    assert run(code, (1,), _X, np.zeros(1, np.float32))[1] == _X.sum()
    with pytest.raises(KernelFault, match=rf"total on {arch}, block .*ds_load.*\(a data race\)"):
        run(_without_barriers(code), (1,), _X, np.zeros(1, np.float32))


@pytest.mark.parametrize("arch", ARCHS)
def test_two_programs_that_store_to_one_place(arch: str) -> None:
    code = compiled("last_writer_wins", _TWO, arch)
    assert run(code, (1,), _X, np.zeros(1, np.float32))[1] == 0
    with pytest.raises(
        KernelFault,
        match=rf"last_writer_wins on {arch}, block \(\d, 0, 0\), warp 0, lane 0: "
        r"(global|buffer)_store_b32 at 0x[0-9a-f]+ writes byte 0 of a buffer \(4 bytes at 0x\w+, "
        r"argument 1 of the kernel, from 0\), which block \(\d, 0, 0\) of this launch wrote, and "
        r"nothing orders these two blocks \(a data race\)",
    ):
        run(code, (3,), _X, np.zeros(1, np.float32))


def test_programs_that_are_far_apart_in_the_grid_race_too() -> None:
    """These are not stepped together."""
    code = compiled("reads_what_others_write", _TWO, "gfx1100", num_warps=1)
    x = np.zeros(4096, np.float32)
    with pytest.raises(KernelFault, match="a data race"):
        run(code, (4096,), x, x)


@pytest.mark.parametrize("arch", ["gfx1100", "gfx942"])
def test_what_one_program_reads_and_another_one_writes(arch: str) -> None:
    code = compiled("reads_what_others_write", _TWO, arch)
    with pytest.raises(KernelFault, match=r"writes byte \d+ of .* read, and nothing orders"):
        run(code, (3,), _X, np.zeros(3, np.float32))


@pytest.mark.parametrize("arch", list(_BARRIERS))
def test_a_barrier_orders_the_warps_of_a_block_in_global_memory(arch: str) -> None:
    code = compiled("through_memory", _TWO, arch, constants=_CONSTANTS)
    np.testing.assert_array_equal(run(code, (1,), _X, _X * 0)[1], _X[::-1])
    with pytest.raises(
        KernelFault,
        match=r"through_memory .*(global|buffer)_load\w+ at 0x\w+ reads byte [\d,]+ of a buffer .*"
        r"argument 1 .*which warp \d of this launch wrote, and there was no barrier since",
    ):
        run(_without_barriers(code), (1,), _X, _X * 0)


@pytest.mark.parametrize("arch", ARCHS)
def test_atomic_operations_order_what_was_before_and_after_them(arch: str) -> None:
    """The last program to come reads what all others wrote."""
    signature = "x:*fp32 partial:*fp32 count:*i32 o:*fp32"
    code = compiled("last_one_adds_up", signature, arch, constants=_CONSTANTS)
    x = np.ones(7 * _BLOCK, np.float32)
    zeros = (np.zeros(7, np.float32), np.zeros(1, np.int32), np.zeros(1, np.float32))
    assert run(code, (7,), x, *zeros)[3] == x.sum()


def test_atomic_operations_on_one_place_are_no_race() -> None:
    code = compiled("atomics", "x:*i32 o:*i32", "gfx942", constants=_CONSTANTS)
    x = np.arange(512, dtype=np.int32)
    assert run(code, (2,), x, np.zeros(17, np.int32))[1][16] == 7


_QUIET: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "add": (((33, 70), (33, 70)), {}),
    "softmax": (((5, 1300),), {}),
    "sum": (((130, 37),), {"axis": 0}),
    "layer_norm": (((5, 130), (130,), (130,)), {}),
    "matmul": (((33, 40), (40, 36)), {}),
}


@pytest.mark.sample(3, each=("name", "arch"))
@pytest.mark.parametrize("arch", ["gfx1100", "gfx942"])
@pytest.mark.parametrize("name", list(_QUIET))
def test_the_librarys_kernels_have_no_races(name: str, arch: str) -> None:
    shapes, options = _QUIET[name]
    arrays = [operators.sample("float32", *shape, seed=i) for i, shape in enumerate(shapes)]
    oracle.check(name, *arrays, device=f"emu:{arch}", **options)


@pytest.mark.parametrize("arch", ARCHS)
def test_one_value_that_several_warps_write_is_no_race(arch: str) -> None:
    code = compiled("one_value_by_all", _TWO, arch, constants=_CONSTANTS)
    out = run(code, (1,), _X + 3, np.zeros(8 + _BLOCK, np.float32))[1]
    assert (out == 3).all()


@pytest.mark.parametrize("arch", ARCHS)
def test_two_lanes_of_one_store_that_write_different_values(arch: str) -> None:
    code = compiled("lanes_disagree", _TWO, arch, constants=_CONSTANTS)
    with pytest.raises(KernelFault, match="another lane of this warp writes another value"):
        run(code, (1,), _X, np.zeros(_BLOCK // 2, np.float32))
    same = np.repeat(_X[: _BLOCK // 2], 2)
    out = run(code, (1,), same, np.zeros(_BLOCK // 2, np.float32))[1]
    np.testing.assert_array_equal(out, _X[: _BLOCK // 2])


@pytest.mark.parametrize("arch", ARCHS)
def test_other_values_after_one_that_several_warps_wrote(arch: str) -> None:
    code = compiled("one_value_then_others", _TWO, arch, constants=_CONSTANTS)
    with pytest.raises(KernelFault, match=r"writes byte .*a data race"):
        run(code, (1,), _X, np.zeros(8, np.float32))
