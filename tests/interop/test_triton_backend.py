"""Plain `@triton.jit` code on the cpu driver, in this process, with Triton's own launching."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xtarget
from xtarget import ArgumentError, LaunchError
from xtarget._launch import observe

pytest.importorskip("triton", reason="Triton is not installed here")

import triton
import triton_backend_kernels as kernels
from processes import run_python
from triton.runtime.jit import MockTensor

pytestmark = pytest.mark.usefixtures("triton_on_cpu", "ran_on_cpu")


def torch_or_skip() -> Any:
    return pytest.importorskip("torch", reason="torch is not installed here")


def test_numpy_arrays_are_used_in_place() -> None:
    x, y = np.arange(300, dtype=np.float32), np.ones(300, np.float32)
    out = np.zeros_like(x)
    kernels.add[(3,)](x, y, out, 300, BLOCK=128)
    np.testing.assert_array_equal(out, x + y)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x[::1],
        lambda x: x[:0],
        lambda x: np.lib.stride_tricks.as_strided(x, (300,), (0,)),
        lambda x: x.astype(bfloat16()),
    ],
    ids=["a view", "nothing", "not contiguous", "bfloat16"],
)
def test_every_launch_finds_an_array_where_it_is(change: Any) -> None:
    """The first launch of a dtype takes another way than those after it."""
    for _ in range(3):
        x = change(np.arange(300, dtype=np.float32))
        out = np.zeros(x.shape, x.dtype)
        x.flags.writeable = False
        kernels.add[(3,)](x, x, out, len(x), BLOCK=128)
        np.testing.assert_array_equal(out, 2 * np.arange(len(x)).astype(x.dtype))


def bfloat16() -> Any:
    return pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed here").bfloat16


def test_torch_tensors_are_used_in_place() -> None:
    torch = torch_or_skip()
    x, y = torch.randn(300), torch.randn(300)
    out = torch.zeros(300)
    kernels.add[(3,)](x, y, out, 300, BLOCK=128)
    torch.testing.assert_close(out, x + y)


def test_the_first_element_of_a_view_counts() -> None:
    values = np.arange(400, dtype=np.float32)
    out = np.zeros(100, np.float32)
    kernels.add[(1,)](values[100:200], values[7:107], out, 100, BLOCK=128)
    np.testing.assert_array_equal(out, values[100:200] + values[7:107])


def test_a_grid_may_be_a_function_of_the_constants() -> None:
    x, out = np.ones(300, np.float32), np.zeros(300, np.float32)
    kernels.add[lambda given: (triton.cdiv(300, given["BLOCK"]),)](x, x, out, 300, BLOCK=64)
    assert (out == 2).all()


@pytest.mark.parametrize("grid", [(4,), (2, 3), (2, 3, 4)])
def test_grids_of_one_to_three_dimensions(grid: tuple[int, ...]) -> None:
    out = np.full(int(np.prod(grid)), -1, np.int32)
    kernels.grid_shape[grid](out)
    assert sorted(out) == list(range(out.size))


def test_an_empty_grid_is_nothing_to_do() -> None:
    out = np.full(4, -1, np.int32)
    kernels.grid_shape[(0,)](out)
    assert (out == -1).all()


def test_a_negative_grid_is_an_error() -> None:
    with pytest.raises(LaunchError, match=r"grid_shape .* grid \(-1, 1, 1\)"):
        kernels.grid_shape[(-1,)](np.zeros(4, np.int32))


def test_scalars_arrive_with_their_values() -> None:
    out = np.zeros(4)
    kernels.scalars[(1,)](out, 1 << 40, -7, 0.375, True)
    assert out.tolist() == [float(1 << 40), -7.0, 0.375, 1.0]


def test_none_is_a_constant() -> None:
    out = np.zeros(1, np.int32)
    kernels.set_if_given[(1,)](None, out)
    assert out[0] == -1
    kernels.set_if_given[(1,)](np.array([5], np.int32), out)
    assert out[0] == 5


def test_tuples_of_arrays_and_numbers() -> None:
    x, y = np.arange(16, dtype=np.int32), np.ones(16, np.int32)
    out = np.zeros_like(x)
    kernels.weighted[(1,)]((x, y), (3, 20), out, N=16)
    np.testing.assert_array_equal(out, 3 * x + 20)


def test_tensor_descriptors() -> None:
    torch = torch_or_skip()
    from triton.tools.tensor_descriptor import TensorDescriptor

    source, target = torch.arange(64 * 32.0).reshape(64, 32), torch.zeros(64, 32)
    blocks = [TensorDescriptor.from_tensor(array, [16, 16]) for array in (source, target)]
    kernels.copy_block[(1,)](*blocks, 16, 16)
    assert torch.equal(target[16:32, 16:32], source[16:32, 16:32] + 1)
    assert target.sum() == target[16:32, 16:32].sum()


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "float64"])
def test_tensor_descriptors_of_numpy_arrays(dtype: str) -> None:
    from triton.tools.tensor_descriptor import TensorDescriptor

    source = np.arange(64 * 32).reshape(64, 32).astype(dtype) % 100
    target = np.zeros((64, 64), dtype)[:, 16:48]  # a view
    blocks = [TensorDescriptor.from_tensor(array, [16, 16]) for array in (source, target)]
    kernels.copy_block[(1,)](*blocks, 16, 16)
    np.testing.assert_array_equal(target[16:32, 16:32], source[16:32, 16:32] + 1)
    target[16:32, 16:32] = 0
    assert not target.any()


def test_a_tensor_descriptor_says_what_it_asks_of_a_numpy_array() -> None:
    from triton.tools.tensor_descriptor import TensorDescriptor

    with pytest.raises(AssertionError, match="floating point"):
        TensorDescriptor(np.zeros((4, 16), np.int32), [4, 16], [16, 1], [4, 16], padding="nan")
    with pytest.raises(AssertionError, match="contiguous"):
        TensorDescriptor.from_tensor(np.zeros((16, 32), np.float32)[:, ::2], [4, 4])
    with pytest.raises(ArgumentError, match="complex64"):
        TensorDescriptor.from_tensor(np.zeros((16, 16), np.complex64), [4, 4])


def test_tensor_descriptors_made_in_a_kernel_over_numpy_arrays() -> None:
    source, target = np.random.default_rng(1).random((40, 24)), np.zeros((40, 24))
    kernels.copy_described[(3, 2)](source, target, 40, 24, BLOCK=16)
    np.testing.assert_array_equal(target, source + 1)


def test_autotuning_runs_every_configuration_and_keeps_one() -> None:
    x, out = np.ones(256, np.float32), np.zeros(256, np.float32)
    kernels.tuned_add[lambda given: (triton.cdiv(256, given["BLOCK"]),)](x, x, out, 256)
    assert (out == 2).all()
    assert len(kernels.tuned_add.configs_timings) == 4
    assert all(min(times) > 0 for times in kernels.tuned_add.configs_timings.values())


def test_autotuning_resets_and_restores_arrays() -> None:
    x, total = np.arange(100, dtype=np.int32), np.zeros(1, np.int32)
    kernels.tuned_count[lambda given: (triton.cdiv(100, given["BLOCK"]),)](x, total, 100)
    assert len(kernels.tuned_count.configs_timings) == 2
    np.testing.assert_array_equal(x, np.arange(1, 101))
    assert total[0] == 5050


def test_autotuning_resets_and_restores_tensors() -> None:
    torch = torch_or_skip()
    x, total = torch.arange(90, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    kernels.tuned_count[lambda given: (triton.cdiv(90, given["BLOCK"]),)](x, total, 90)
    assert torch.equal(x, torch.arange(1, 91, dtype=torch.int32))
    assert total[0] == 4095


def test_a_configurations_hook_gets_the_callers_arrays() -> None:
    out = np.zeros(16, np.int32)
    kernels.tuned_prepared[(1,)](out, 16)
    assert (out == kernels.tuned_prepared.best_config.kwargs["BLOCK"] + 1).all()


def test_a_hook_of_the_users_own_gets_the_callers_arrays() -> None:
    seen: list[Any] = []
    tuned = triton.autotune(
        [triton.Config({"BLOCK": block}) for block in (128, 256)],
        key=["n"],
        pre_hook=lambda given, reset_only=False: seen.append(given["out"]),
    )(kernels.add)
    x, out = np.ones(100, np.float32), np.zeros(100, np.float32)
    tuned[(1,)](x, x, out, 100)
    assert seen
    assert all(array is out for array in seen)


def test_do_bench_measures_milliseconds() -> None:
    x, out = np.ones(1 << 20, np.float32), np.zeros(1 << 20, np.float32)

    def call() -> None:
        kernels.add[(1 << 10,)](x, x, out, 1 << 20, BLOCK=1024)

    call()
    milliseconds = triton.testing.do_bench(call, warmup=1, rep=10)
    assert 0.01 < milliseconds < 1000


def test_hooks_are_called_round_a_launch() -> None:
    seen: list[str] = []
    runtime = triton.knobs.runtime

    def enter(metadata: Any) -> None:
        seen.append("enter " + metadata.get()["name"])

    def leave(metadata: Any) -> None:
        seen.append("exit " + metadata.get()["name"])

    x, out = np.ones(10, np.float32), np.zeros(10, np.float32)
    runtime.launch_enter_hook.add(enter)
    runtime.launch_exit_hook.add(leave)
    try:
        kernels.add[(1,)](x, x, out, 10, BLOCK=16)
    finally:
        runtime.launch_enter_hook.remove(enter)
        runtime.launch_exit_hook.remove(leave)
    assert seen == ["enter add", "exit add"]


def test_hooks_of_triton_see_our_launches_while_they_are_set() -> None:
    seen: list[str] = []
    runtime = triton.knobs.runtime
    x = np.ones(8, np.float32)
    prepared = xtarget.get("mul").prepare(x, x)

    def enter(metadata: Any) -> None:
        seen.append("enter " + metadata.get()["name"])

    def leave(metadata: Any) -> None:
        seen.append("exit " + metadata.data["name"])

    def call() -> list[str]:
        seen.clear()
        xtarget.run("add", x, x)
        xtarget.get("sub")(x, x)
        prepared()
        return seen

    assert not observe.present()
    runtime.launch_enter_hook.add(enter)
    runtime.launch_exit_hook.add(leave)
    try:
        assert call() == [
            f"{when} {k}" for k in ("add", "sub", "mul") for when in ("enter", "exit")
        ]
        runtime.launch_enter_hook.remove(enter)
        xtarget.hooks.clear()  # which are others
        assert call() == ["exit add", "exit sub", "exit mul"]
    finally:
        runtime.launch_exit_hook.remove(leave)
    assert not call()
    assert not observe.present()  # so a call costs what it did before


def test_hooks_that_are_older_than_our_first_call_are_seen() -> None:
    code = """
import numpy as np, triton
seen = []
triton.knobs.runtime.launch_enter_hook.add(lambda metadata: seen.append(metadata.get()["name"]))
import xtarget
xtarget.run("add", np.ones(4), np.ones(4), device="cpu")
assert seen == ["add"], seen
"""
    done = run_python("-c", code)
    assert done.returncode == 0, done.stderr


def test_warmup_compiles_and_launches_nothing() -> None:
    pointer = MockTensor(triton.language.float32)
    made = kernels.add.warmup(pointer, pointer, pointer, 100, BLOCK=32, grid=(1,))
    assert made.metadata.name == "add"
    assert made.asm["spirv"][:4] == b"\x03\x02\x23\x07"


def test_sums_of_bfloat16_are_rounded_once() -> None:
    """Triton 3.9 adds them in bfloat16: a running sum of ones would stay at 256."""
    x = np.ones(512, bfloat16())
    total, running = np.zeros(1, x.dtype), np.zeros_like(x)
    made = kernels.sums[(1,)](x, total, running, N=512)
    assert total[0] == 512
    np.testing.assert_array_equal(running, np.cumsum(x, dtype=np.float32).astype(x.dtype))
    assert "arith.addf" in made.asm["ttir"]
    assert not re.search(r"arith\.addf.*: bf16", made.asm["ttir"])


def test_num_warps_is_the_size_of_the_block() -> None:
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    for warps in (1, 2, 8):
        made = kernels.add[(1,)](x, x, out, 64, BLOCK=64, num_warps=warps)
        assert made.metadata.num_warps == warps
        assert (out == 2).all()


def test_launches_after_the_first_touch_no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = np.ones(48, np.float32), np.zeros(48, np.float32)
    kernels.add[(1,)](x, x, out, 48, BLOCK=64)
    touched: list[Any] = []
    monkeypatch.setattr("builtins.open", lambda *args, **kwargs: touched.append(args))
    for name in ("open", "stat", "scandir"):
        monkeypatch.setattr(os, name, lambda *args, **kwargs: touched.append(args))
    kernels.add[(1,)](out, x, x, 48, BLOCK=64)
    monkeypatch.undo()
    assert not touched
    assert (x == 3).all()


def test_a_second_process_neither_compiles_nor_builds(tmp_path: Path) -> None:
    """Triton keeps SPIR-V; the run time's machine code is in xtarget's cache."""
    import subprocess
    import sys

    code = (
        "import numpy as np, xtarget._cache.counters, sys\n"
        "from triton_backend_kernels import add\n"
        "from xtarget.targets._spirv.worker.client import worker\n"
        "x = np.ones(100, np.float32)\n"
        "out = np.zeros(100, np.float32)\n"
        "add[(1,)](x, x, out, 100, BLOCK=128)\n"
        "assert (out == 2).all()\n"
        "from xtarget.targets.cpu.module import _jit\n"
        "print('llvm', worker.pid is not None, 'jit', bool(_jit.pids))\n"
    )
    here = Path(__file__).parent
    paths = [here.parent / "triton_door", here.parents[1] / "src", here]
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "TRITON_DEFAULT_BACKEND": "spirv",
        "TRITON_CACHE_DIR": str(tmp_path / "triton"),
        "XTARGET_CACHE_DIR": str(tmp_path / "xtarget"),
    }
    said = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=120,
            env=env,
            check=True,
        ).stdout
        for _ in range(2)
    ]
    assert said == ["llvm True jit True\n", "llvm False jit False\n"]


def test_a_kernels_own_words_are_printed_as_they_are(capfd: pytest.CaptureFixture[str]) -> None:
    x = np.zeros(1, np.int32)
    kernels.printing_pointer[(1,)](x, num_warps=1, debug=True)
    ctypes.CDLL(None).fflush(None)  # the run time prints through C
    printed = capfd.readouterr().out
    assert f"a ptr, constant syncscope(: 0x{x.ctypes.data:x}" in printed
    x[0] = 200
    with pytest.raises(LaunchError, match="the value at ptr is too large"):
        kernels.printing_pointer[(1,)](x, num_warps=1, debug=True)


def test_tritons_own_dump_of_its_passes(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLIR_ENABLE_DUMP", "set_if_given")
    kernels.set_if_given.warmup(None, MockTensor(triton.language.int64), grid=(1,))
    printed = capfd.readouterr().err
    assert "IR Dump Before ConvertTritonToTritonGPU" in printed
    assert "tt.func public @set_if_given" in printed


# ------------------------------------------------------------------------------------ bad input


def test_bitcode_of_other_libraries_is_refused_in_a_sentence() -> None:
    x = np.zeros(16, np.float32)
    with pytest.raises(ValueError, match=r"\{'ocml': '/a.bc'\}; bitcode .* libdevice is built in"):
        kernels.add[(1,)](x, x, x, 16, BLOCK=16, extern_libs={"ocml": "/a.bc"})
    kernels.add[(1,)](x, x, x, 16, BLOCK=16, extern_libs={})


def test_a_tensor_of_another_device_is_refused_in_a_sentence() -> None:
    torch = torch_or_skip()
    x = torch.empty(16, device="meta")
    with pytest.raises(ArgumentError, match=r"a tensor on meta cannot be used .* Move it with"):
        kernels.add[(1,)](x, x, x, 16, BLOCK=16)


def test_an_array_that_is_not_aligned_is_refused_in_a_sentence() -> None:
    crooked = np.zeros(65, np.uint8)[1:].view(np.float32)
    with pytest.raises(ArgumentError, match="not aligned"):
        kernels.add[(1,)](crooked, crooked, crooked, 16, BLOCK=16)


def test_a_dtype_that_triton_does_not_have_is_refused_in_a_sentence() -> None:
    numbers = np.zeros(16, np.complex64)
    with pytest.raises(ArgumentError, match="complex64"):
        kernels.add[(1,)](numbers, numbers, numbers, 16, BLOCK=16)


def test_what_is_no_array_stays_tritons_error() -> None:
    x = np.zeros(16, np.float32)
    with pytest.raises(TypeError, match="specialize"):
        kernels.add[(1,)](object(), x, x, 16, BLOCK=16)


def test_too_many_threads_are_tritons_error_which_its_autotuner_knows() -> None:
    x = np.zeros(16, np.float32)
    limit = xtarget.device("cpu:0").info.max_threads_per_block
    warps = 2 * limit // 16
    with pytest.raises(triton.OutOfResources, match="threads"):
        kernels.add[(1,)](x, x, x, 16, BLOCK=16, num_warps=warps)


@pytest.mark.parametrize("kind", [AssertionError, ValueError])
def test_an_option_out_of_range_is_refused_as_triton_does(kind: type[Exception]) -> None:
    x = np.zeros(16, np.float32)
    with pytest.raises(kind, match="num_warps is 3; it must be a power of 2"):
        kernels.add[(1,)](x, x, x, 16, BLOCK=16, num_warps=3)


def test_another_current_device_is_refused_in_a_sentence() -> None:
    with pytest.raises(ArgumentError, match="device 1 cannot be made current"):
        triton.runtime.driver.active.set_current_device(1)


def test_a_failed_device_assert_is_raised_by_the_launch() -> None:
    x = np.full(16, 11, np.float32)
    with pytest.raises(RuntimeError, match="a value is too large") as caught:
        kernels.checked[(1,)](x, 16, BLOCK=16, debug=True)
    assert isinstance(caught.value, LaunchError)
    kernels.checked[(1,)](np.zeros(16, np.float32), 16, BLOCK=16, debug=True)
