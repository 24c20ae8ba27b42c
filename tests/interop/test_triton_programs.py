"""Programs for Triton that do more than launch: ask for limits, give hints, bring IR, tune."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xtarget
from xtarget import ArgumentError, CompileError, LaunchError, LoadError

pytest.importorskip("triton", reason="Triton is not installed here")

import triton
import triton_program_kernels as kernels
from processes import run_python

VERSION = tuple(map(int, triton.__version__.split(".")[:2]))

pytestmark = pytest.mark.usefixtures("triton_on_cpu", "ran_on_cpu")


def test_as_many_blocks_as_fit_are_found_by_the_usual_arithmetic() -> None:
    """It divides registers and shared memory of the device by a kernel's."""
    x = np.random.default_rng(0).standard_normal((301, 100)).astype(np.float32)
    out = np.zeros_like(x)
    warps, arguments = 8, (out, x, 301, 100, 100)
    made = kernels.rows_softmax.warmup(*arguments, BLOCK=128, num_warps=warps, grid=(1,))
    made._init_handles()
    has = triton.runtime.driver.active.utils.get_device_properties(0)
    fitting = has["max_num_regs"] // (made.n_regs * has["warpSize"] * warps)
    fitting = min(fitting, has["max_shared_mem"] // made.metadata.shared)
    blocks = min(301, has["multiprocessor_count"] * fitting)
    assert blocks >= has["multiprocessor_count"]
    made[(blocks, 1, 1)](*arguments, 128)
    powers = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, powers / powers.sum(1, keepdims=True), rtol=1e-5)


def test_tritons_own_modules_may_ask_for_the_device_while_they_are_imported() -> None:
    """As the one does that all of Triton's tests import."""
    pytest.importorskip("torch", reason="torch is not installed")
    program = "import triton._internal_testing as t; print(t.get_current_target().backend)"
    told = run_python("-c", program, TRITON_DEFAULT_BACKEND="spirv", XTARGET_DEVICE="cpu:0")
    assert told.stdout == "spirv\n", told.stderr


@pytest.mark.parametrize(
    "hint",
    [
        {"maxnreg": 64, "launch_pdl": True},
        {"matrix_instr_nonkdim": 16, "waves_per_eu": 2, "kpack": 2},
        {"grf_mode": "256"},
    ],
    ids=["NVIDIA", "AMD", "Intel"],
)
def test_hints_for_other_gpus_change_nothing(hint: dict[str, Any]) -> None:
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    tuned = triton.autotune([triton.Config(hint | {"N": 16}, num_warps=1)], key=[])(kernels.scaled)
    tuned[(1,)](x, out, 3.0)
    np.testing.assert_array_equal(out, 3 * x)
    plain = kernels.scaled.warmup(x, out, 3.0, N=16, num_warps=1, grid=(1,))
    hinted = kernels.scaled.warmup(x, out, 3.0, N=16, num_warps=1, grid=(1,), **hint)
    assert plain.hash == hinted.hash


@pytest.mark.parametrize("warps", [1, 4])
def test_a_loop_may_keep_its_invariants(warps: int) -> None:
    """The hint gets as far as LLVM's passes, and what is computed is the same."""
    x = np.full(1, 0.5, np.float32)
    for stay in (False, True):
        out = np.zeros(1, np.float32)
        made = kernels.power_series[(1,)](x, out, 9, STAY=stay, num_warps=warps)
        assert out[0] == np.float32(sum(i * 0.5 ** (8 - i) for i in range(9)))
        if warps > 1:  # where lanes become vectors, no pass that hoists comes after
            assert ("llvm.licm.disable" in made.asm["llir"]) is stay


def test_a_word_that_nobody_knows_stays_tritons_error() -> None:
    x = np.zeros(16, np.float32)
    with pytest.raises(KeyError, match="num_wraps"):
        kernels.scaled[(1,)](x, x, 3.0, N=16, num_wraps=4)


def test_keeping_only_binaries_is_refused_before_a_kernel_is_lost() -> None:
    x, out = np.ones(32, np.float32), np.zeros(32, np.float32)
    with triton.knobs.compilation.scope():
        triton.knobs.compilation.store_binary_only = True
        with pytest.raises(CompileError, match="TRITON_STORE_BINARY_ONLY cannot be used"):
            kernels.scaled[(1,)](x, out, 2.0, N=32)
    kernels.scaled[(1,)](x, out, 2.0, N=32)
    assert (out == 2).all()


# --------------------------------------------------------------------------------------------- IR


@pytest.mark.parametrize("stage", ["ttir", "ttgir"])
def test_a_configuration_may_bring_its_own_ir(tmp_path: Path, stage: str) -> None:
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)
    made = kernels.scaled[(1,)](x, out, 3.0, N=16)
    file = tmp_path / f"scaled.{stage}"
    file.write_text(made.asm[stage].replace("arith.mulf", "arith.addf"))
    own = triton.Config({"N": 16, "ir_override": str(file)})
    triton.autotune([own], key=[])(kernels.scaled)[(1,)](x, out, 3.0)
    np.testing.assert_array_equal(out, x + 3)


@pytest.mark.parametrize("stage", ["ttir", "ttgir"])
@pytest.mark.parametrize("warps", [1, 4])
def test_dumped_ir_is_the_kernel_again(tmp_path: Path, stage: str, warps: int) -> None:
    """The product is a loop, which wants shared memory that stands in no other operation."""
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((64, 32), (32, 64)))
    c, again = np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32)
    made = kernels.product[(1,)](a, b, c, 64, 64, 32, num_warps=warps)
    file = tmp_path / f"product.{stage}"
    file.write_text(made.asm[stage])
    read = triton.compile(str(file), options={"num_warps": warps})
    assert read.metadata.shared == made.metadata.shared > 0
    read[(1, 1, 1)](a, b, again)
    np.testing.assert_array_equal(c, a @ b)
    np.testing.assert_array_equal(again, c)


# ----------------------------------------------------------------------------------------- tuning


def test_a_configuration_that_cannot_be_compiled_is_left_out() -> None:
    out = np.zeros(1, np.int32)
    configs = [triton.Config({"ASSEMBLY": value}) for value in (True, False)]
    tuned = triton.autotune(configs, key=[])(kernels.maybe_refused)
    tuned[(1,)](out)
    assert out[0] == 1
    assert not tuned.best_config.kwargs["ASSEMBLY"]


def test_a_configuration_that_cannot_be_loaded_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one whose machine code is not made in time."""
    load = xtarget._triton_backend.launcher.load

    def refuse(device: Any, artifact: Any, name: str) -> Any:
        if artifact.num_warps == 2:
            raise LoadError("it takes too long")
        return load(device, artifact, name)

    monkeypatch.setattr(xtarget._triton_backend.launcher, "load", refuse)
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    configs = [triton.Config({"N": 8}, num_warps=warps) for warps in (2, 1)]
    tuned = triton.autotune(configs, key=[])(kernels.scaled)
    tuned[(1,)](x, out, 5.0)
    np.testing.assert_array_equal(out, 5 * x)
    assert tuned.best_config.num_warps == 1


def test_where_no_configuration_can_be_compiled_the_reason_is_told() -> None:
    configs = [triton.Config({"ASSEMBLY": True}, num_warps=warps) for warps in (1, 2)]
    tuned = triton.autotune(configs, key=[])(kernels.maybe_refused)
    with pytest.raises(CompileError, match=r"^SPIR-V: the kernel uses inline assembly 'nop;'"):
        tuned[(1,)](np.zeros(1, np.int32))


# ------------------------------------------------------------------------------------------ grids


def test_a_dot_that_is_too_large_is_refused_at_once() -> None:
    x = np.zeros((512, 512), np.float32)
    with pytest.raises(
        CompileError, match=r"tl.dot of 512 x 512 times 512 x 512 .*triton_program_kernels.py:.*KiB"
    ):
        kernels.product[(1,)](x, x, x, M=512, N=512, K=512)


@pytest.mark.parametrize("grid", [(1.5,), (2, 0.5), ("a",), (1, None)])
def test_a_grid_of_fractions_is_refused(grid: tuple[Any, ...]) -> None:
    total = np.zeros(1, np.int32)
    with pytest.raises(LaunchError, match=r"whole numbers, as triton\.cdiv"):
        kernels.count_blocks[grid](total)
    assert total[0] == 0


@pytest.mark.parametrize("grid", [(2**31,), (1, 2**40), (2, 2, 2**31)])
def test_more_blocks_than_their_numbers_can_tell_are_refused(grid: tuple[int, ...]) -> None:
    with pytest.raises(LaunchError, match=f"{re.escape(str(max(grid)))}.* counts in 32 bits"):
        kernels.count_blocks[grid](np.zeros(1, np.int32))


def test_a_grid_may_be_long_in_every_dimension_and_of_numpys_integers() -> None:
    for grid in ((1, 70_000), (1, 1, 70_000), (np.int64(70_000),)):
        total = np.zeros(1, np.int32)
        kernels.count_blocks[grid](total)
        assert total[0] == 70_000


def test_blocks_that_have_to_run_at_once_are_refused() -> None:
    """Two of them that wait for each other hang on a CPU of two cores."""
    total = np.zeros(1, np.int32)
    with pytest.raises(LaunchError, match="one that waits for another would hang"):
        kernels.count_blocks[(2,)](total, launch_cooperative_grid=True)
    kernels.count_blocks[(1,)](total, launch_cooperative_grid=True)
    assert total[0] == 1


# ------------------------------------------------------------------------------------------ NumPy


def test_numpys_scalars_are_numbers() -> None:
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    for by in (np.float32(1.5), np.int64(-3), np.bool_(True), np.uint8(200), np.float16(0.5)):
        kernels.scaled[(1,)](x, out, by, N=8)
        np.testing.assert_array_equal(out, x * np.float32(by))


@pytest.mark.sample(2, each=("kind", "wide"))
@pytest.mark.parametrize("kind", ["e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz"])
@pytest.mark.parametrize("wide", ["float16", "bfloat16", "float32", "float64", "float8_e5m2"])
def test_floats_of_8_bits_in_numpy_arrays(kind: str, wide: str) -> None:
    """Every one of them, NaN and infinities included, twice: the second launch is a known one."""
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed here")
    narrow = np.dtype(getattr(ml_dtypes, f"float8_{kind}"))
    target = np.dtype(getattr(ml_dtypes, wide, wide))
    if narrow == target:
        target = np.dtype(ml_dtypes.float8_e4m3fn)
    x = np.arange(256, dtype=np.uint8).view(narrow)
    if VERSION < (3, 9) and kind.endswith("fnuz"):
        x[np.isnan(x)] = 0  # older Tritons make a number of it
    exact = x.astype(np.float64)
    if target.itemsize == 1:  # what is too large for it is nobody's standard
        x = x[np.abs(np.where(np.isnan(exact), 0, exact)) <= float(ml_dtypes.finfo(target).max)]
        x = np.resize(x, 256)
    for _ in range(2):
        out = np.zeros(256, target)
        kernels.cast[(1,)](x, out, N=256)
        np.testing.assert_array_equal(out.astype(np.float64), x.astype(target).astype(np.float64))


@pytest.mark.parametrize("kind", ["e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz"])
def test_doubles_are_rounded_once_to_8_bits(kind: str) -> None:
    """The middle between two floats of 8 bits, and its neighbours, which float32 cannot tell from
    it. ml_dtypes rounds twice, so the nearest is looked for here.
    """
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed here")
    if VERSION < (3, 8) and kind.endswith("fnuz"):
        pytest.skip("Triton 3.6 and 3.7 round to these twice themselves: float32 goes by float16")
    narrow = np.dtype(getattr(ml_dtypes, f"float8_{kind}"))
    all_of_them = np.arange(256, dtype=np.uint8).view(narrow).astype(np.float64)
    exact = np.unique(all_of_them[np.isfinite(all_of_them)])
    middles = (exact[:-1] + exact[1:]) / 2
    below, above = exact[:-1].astype(narrow), exact[1:].astype(narrow)
    even = np.where(below.view(np.uint8) % 2 == 0, below, above)
    cases = (
        (exact, exact.astype(narrow)),
        (middles, even),
        (np.nextafter(middles, -np.inf), below),
        (np.nextafter(middles, np.inf), above),
    )
    for x, expected in cases:
        out = np.zeros(256, narrow)
        kernels.cast[(1,)](np.resize(x, 256), out, N=256)
        np.testing.assert_array_equal(out, np.resize(expected, 256))
    out = np.zeros(256, narrow)
    kernels.cast[(1,)](np.full(256, np.nan), out, N=256)
    assert np.isnan(out.astype(np.float32)).all()


# -------------------------------------------------------------------------------------- bad input


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
def test_a_tensor_without_memory_is_refused() -> None:
    """Its address is 0: a kernel that used it would end the process."""
    torch = pytest.importorskip("torch", reason="torch is not installed here")
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.empty(8)
    with pytest.raises(ArgumentError, match=r"a FakeTensor of shape \(8,\) has no memory"):
        kernels.scaled[(1,)](fake, torch.empty(8), 2.0, N=8)


@pytest.mark.parametrize("warps", [1, 4])
def test_a_read_only_array_is_read_and_never_written(tmp_path: Path, warps: int) -> None:
    np.save(tmp_path / "x.npy", np.arange(16, dtype=np.float32))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    frozen = np.arange(16, dtype=np.float32)
    frozen.flags.writeable = False
    for x in (mapped, frozen):
        out = np.zeros(16, np.float32)
        kernels.scaled[(1,)](x, out, 3.0, N=16, num_warps=warps)
        np.testing.assert_array_equal(out, 3 * np.arange(16))
        with pytest.raises(
            ArgumentError, match=r"scaled may write to its argument out, .*read-only"
        ):
            kernels.scaled[(1,)](out, x, 3.0, N=16, num_warps=warps)
        np.testing.assert_array_equal(x, np.arange(16))


def test_an_empty_tensor_is_no_fault() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed here")
    kernels.rows_softmax[(1,)](torch.empty(0), torch.empty(0), 0, 0, 0, BLOCK=8)


@pytest.mark.parametrize("with_numpy", [False, True])
def test_a_dtype_that_triton_does_not_know_is_named(with_numpy: bool) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed here")
    x = torch.zeros(8, dtype=torch.complex64)
    out = np.zeros(8, np.float32) if with_numpy else torch.zeros(8)
    with pytest.raises(ArgumentError, match="Triton has no dtype complex64: kernels take"):
        kernels.scaled[(1,)](x, out, 2.0, N=8)


@pytest.mark.parametrize("warps", ["4", 2.0, 0, 12])
def test_warps_that_are_no_power_of_2_are_refused(warps: Any) -> None:
    x = np.zeros(8, np.float32)
    with pytest.raises(ValueError, match=rf"num_warps is {warps!r}; it must be a power of 2"):
        kernels.scaled[(1,)](x, x, 2.0, N=8, num_warps=warps)


@pytest.mark.parametrize(
    "option",
    [
        {"warp_size": 7},
        {"warp_size": 64},
        {"num_stages": -1},
        {"num_stages": "x"},
        {"dot_bytes": "a"},
        {"dot_elements": 3},
        {"thread_elements": -3},
        {"debug": "yes"},
        {"enable_fp_fusion": "no"},
    ],
    ids=str,
)
def test_options_out_of_range_are_refused(option: dict[str, Any]) -> None:
    x = np.zeros(16, np.float32)
    ((name, value),) = option.items()
    with pytest.raises(ValueError, match=f"^{name} is {value!r}; it must be"):
        kernels.scaled[(1,)](x, x, 3.0, N=16, **option)


@pytest.mark.parametrize("size", [8, 16, 32])
def test_the_warp_may_be_chosen(size: int) -> None:
    x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    made = kernels.scaled[(1,)](x, out, 3.0, N=64, num_warps=2, warp_size=size)
    assert made.metadata.warp_size == size
    np.testing.assert_array_equal(out, 3 * x)


def test_a_target_as_triton_s_tools_write_it() -> None:
    """`triton.tools.compile --target spirv:spirv64:16` gives the width of a warp as text."""
    target = triton.backends.compiler.GPUTarget("spirv", "spirv64", "16")
    signature = {"x": "*fp32", "out": "*fp32", "by": "fp32", "N": "constexpr"}
    source = triton.compiler.ASTSource(kernels.scaled, signature, constexprs={"N": 16})
    assert triton.compile(source, target=target).metadata.warp_size == 16


def test_a_compiled_kernel_wants_all_that_is_no_constant() -> None:
    x, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    made = kernels.scaled.warmup(x, out, 2.0, N=8, num_warps=1, grid=(1,))
    with pytest.raises(ArgumentError, match="was given 2 arguments and takes 3"):
        made[(1, 1, 1)](x, out)
    made[(1, 1, 1)](x, out, 2.0)
    np.testing.assert_array_equal(out, 2 * x)
