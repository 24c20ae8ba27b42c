"""torch tensors, where torch is installed: on the device itself, and on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import run_python

import xtarget
from xtarget import ArgumentError
from xtarget._compile import functions
from xtarget._launch import run as _run

pytest.importorskip("torch", reason="torch is not installed here")

import torch

DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "int64", "uint8", "bool"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_in_a_tensor_out_on_the_same_device(place: str, dtype: str) -> None:
    a = (torch.arange(1000) % 5).to(getattr(torch, dtype)).to(place)
    result = xtarget.run("maximum", a, a)
    assert isinstance(result, torch.Tensor)
    assert result.device == a.device
    assert result.dtype == a.dtype
    assert torch.equal(result, a)


def test_views_are_used_as_they_are(place: str) -> None:
    a = torch.randn(64, 96, device=place)
    assert torch.equal(xtarget.run("add", a.T, a.T), a.T + a.T)
    assert torch.equal(xtarget.run("add", a[::2, 1:], 1.0), a[::2, 1:] + 1)
    assert torch.equal(xtarget.run("max", a.expand(3, 64, 96), axis=0), a)


def test_out_is_honoured(place: str) -> None:
    a, out = torch.randn(100, device=place), torch.empty(100, device=place)
    for _ in range(2):
        assert xtarget.run("add", a, a, out=out) is out
        assert torch.equal(out, a + a)
    with pytest.raises(ArgumentError, match="overlaps"):
        xtarget.run("add", a[1:], a[1:], out=a[:-1])


def test_parameters_are_tensors(place: str) -> None:
    weight = torch.nn.Parameter(torch.randn(100, device=place))
    with torch.no_grad():
        result = xtarget.run("mul", weight, 2.0)
    assert torch.equal(result, weight.detach() * 2)


def test_numpy_arrays_follow_the_tensor(place: str) -> None:
    a = torch.randn(100, device=place)
    result = xtarget.run("add", a, np.ones(100, np.float32))
    assert isinstance(result, torch.Tensor)
    assert result.device == a.device
    assert torch.equal(result, a + 1)


def test_our_arrays_and_tensors_share_memory(device: str, place: str) -> None:
    a = torch.arange(10, dtype=torch.float32, device=place)
    ours = xtarget.asarray(a)
    np.testing.assert_array_equal(ours.numpy(), np.arange(10))
    back = torch.from_dlpack(xtarget.run("add", xtarget.asarray(np.ones(10, np.float32)), 1.0))
    assert torch.equal(back.cpu(), torch.full((10,), 2.0))


def test_sparse_and_complex_tensors_are_refused(place: str) -> None:
    with pytest.raises(ArgumentError, match="to_dense"):
        xtarget.run("add", torch.eye(3, device=place).to_sparse(), 1.0)
    with pytest.raises(ArgumentError, match="complex64"):
        xtarget.run("add", torch.zeros(3, dtype=torch.complex64, device=place), 1.0)


# ------------------------------------------------------------------------------------ GPUs only


@pytest.fixture
def gpu(place: str) -> str:
    if place == "cpu":
        pytest.skip("needs a GPU that torch can use")
    return place


def test_host_and_device_tensors_do_not_mix(gpu: str) -> None:
    with pytest.raises(ArgumentError, match="different devices"):
        xtarget.run("add", torch.ones(3, device=gpu), torch.ones(3))


def test_asking_for_another_device_than_the_tensors_is_refused(gpu: str, device: str) -> None:
    with pytest.raises(xtarget.XTargetError):
        xtarget.run("add", torch.ones(3, device=gpu), 1.0, device="amd:7")


def _slow(stream: Any, tensor: Any) -> None:
    """Work that takes milliseconds on the stream, then fills the tensor with 3."""
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        tensor.fill_(3)


def test_a_launch_comes_after_the_callers_work_on_its_current_stream(gpu: str) -> None:
    a = torch.zeros(1 << 20, device=gpu)
    xtarget.run("add", a, 1.0)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    _slow(stream, a)
    with torch.cuda.stream(stream):
        result = xtarget.run("add", a, 1.0)
        total = result.sum()
    stream.synchronize()
    assert total.item() == 4 * a.numel()


@pytest.mark.parametrize("form", ["torch", "integer", "cuda.core"])
def test_a_stream_of_the_callers_choice(gpu: str, form: str) -> None:
    a = torch.zeros(1 << 20, device=gpu)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    _slow(stream, a)
    given: Any = stream
    if form == "integer":
        given = stream.cuda_stream
    if form == "cuda.core":
        given = pytest.importorskip("cuda.core").Stream.from_handle(stream.cuda_stream)
    result = xtarget.run("add", a, 1.0, stream=given)
    stream.synchronize()
    assert result.sum().item() == 4 * a.numel()


def test_a_launch_is_asynchronous(gpu: str) -> None:
    a = torch.zeros(1 << 20, device=gpu)
    out = torch.empty_like(a)
    xtarget.run("add", a, 1.0, out=out)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    _slow(stream, a)
    with torch.cuda.stream(stream):
        xtarget.run("add", a, 1.0, out=out)
        assert not stream.query()  # still sleeping: run did not wait
    stream.synchronize()


def test_results_of_another_stream_are_safe_from_the_allocator(gpu: str) -> None:
    a = torch.ones(1 << 20, device=gpu)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    sums = []
    for _ in range(50):
        result = xtarget.run("add", a, 1.0, stream=stream)
        with torch.cuda.stream(stream):
            sums.append(result.sum())
        del result  # its memory may be used again, but only after the stream is done with it
        torch.full((1 << 20,), -5.0, device=gpu)
    stream.synchronize()
    assert {s.item() for s in sums} == {2.0 * a.numel()}


@pytest.mark.parametrize("way", ["run", "prepare"])
def test_a_result_on_another_stream_waits_for_what_was_in_its_memory(gpu: str, way: str) -> None:
    """The allocator gives memory that its own stream has not yet done with."""
    a = torch.ones(1 << 20, device=gpu)
    stream = torch.cuda.Stream()
    for _ in range(3):
        torch.cuda.synchronize()
        before = torch.empty(1 << 20, device=gpu)
        torch.cuda._sleep(20_000_000)
        before.fill_(-5.0)
        address = before.data_ptr()
        del before
        if way == "run":
            result = xtarget.run("add", a, 1.0, stream=stream)
        else:
            result = xtarget.get("add").prepare(a, 1.0)(stream=stream)
        with torch.cuda.stream(stream):
            total = result.sum()
        stream.synchronize()
        assert result.data_ptr() == address, "the test is of memory that was used before"
        assert total.item() == 2.0 * a.numel()
        torch.cuda.synchronize()
        assert bool((result == 2).all())
        del result


@pytest.mark.parametrize("way", ["new result", "out", "two launches"])
def test_arguments_on_another_stream_are_safe_from_the_allocator(gpu: str, way: str) -> None:
    """The allocator gives a dropped argument's memory to the next tensor, before it was read."""
    n, wrong = 1 << 22, 0
    busy = torch.ones(n, device=gpu)
    stream = torch.cuda.Stream()
    for attempt in range(40):
        a = torch.full((n,), float(attempt), device=gpu)
        out = torch.empty(n, device=gpu) if way == "out" else None
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):  # what the launch has to wait for
            for _ in range(20):
                busy = busy * 1.0
        result = xtarget.run("mul", a, 2.0, out=out, stream=stream)
        if way == "two launches":
            result = xtarget.run("mul", result, 1.0, stream=stream)
        del a
        for _ in range(4):  # takes the memory that came free, and overwrites it
            torch.full((n,), -1.0, device=gpu)
        torch.cuda.synchronize()
        wrong += not bool((result == 2.0 * attempt).all())
        del result, out
    assert not wrong


def test_two_gpus_in_one_process(gpu: str) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    torch.cuda.set_device(0)
    a, b = torch.ones(1000, device="cuda:0"), torch.ones(1000, device="cuda:1")
    for _ in range(3):
        assert torch.equal(xtarget.run("add", b, 1.0), b + 1)
        assert torch.cuda.current_device() == 0
        assert torch.equal(xtarget.run("add", a, 1.0), a + 1)
    with pytest.raises(ArgumentError, match=r"nvidia:0.*nvidia:1|nvidia:1.*nvidia:0"):
        xtarget.run("add", a, b)


def test_launches_can_be_captured_in_a_graph(gpu: str) -> None:
    a, out = torch.ones(1000, device=gpu), torch.empty(1000, device=gpu)
    xtarget.run("add", a, 1.0, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        xtarget.run("add", a, 1.0, out=out)
    out.zero_()
    a.fill_(5)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, a + 1)


@pytest.mark.parametrize("kernel", ["sum", "softmax", "gelu"])
def test_cold_kernels_results_and_temporaries_in_a_capture(
    gpu: str, device: str, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch captures in the mode that forbids most; results and temporaries are of its pool."""
    a = torch.ones(1 << 20, device=gpu)
    _run.forget_calls()
    functions._functions.clear()
    graph = torch.cuda.CUDAGraph()
    with monkeypatch.context() as patch, torch.cuda.graph(graph):
        patch.setattr(xtarget.device(device), "alloc", None)
        out = xtarget.run(kernel, a)
        more = xtarget.run("add", out, 1.0)
    for value in (1.0, 2.0):
        a.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        expected = xtarget.run(kernel, a)
        torch.testing.assert_close(out, expected)
        torch.testing.assert_close(more, expected + 1)


def test_a_kernel_that_was_unloaded_comes_back_in_a_capture(
    gpu: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = torch.ones(1 << 20, device=gpu)
    right = xtarget.run("cumsum", a)
    monkeypatch.setenv("XTARGET_MODULES", "1")
    xtarget.run("mul", a, 3.0)
    xtarget.run("sub", a, 3.0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = xtarget.run("cumsum", a)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, right)


def test_ours_and_torchs_captures_do_not_mix(gpu: str, device: str) -> None:
    a, out = torch.ones(1000, device=gpu), torch.empty(1000, device=gpu)
    with xtarget.capture(device) as ours:
        xtarget.run("add", a, 1.0, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        xtarget.run("mul", a, 7.0, out=out)
        with pytest.raises(ArgumentError, match="graphs do not contain others"):
            ours.replay()
    graph.replay()
    assert (out == 7).all()
    ours.replay()
    assert (out == 2).all()
    with torch.cuda.stream(torch.cuda.Stream()):
        a.fill_(5)
        ours.replay()  # on torch's current stream
        assert (out == 6).all()
    torch.cuda.synchronize()
    other = torch.cuda.Stream()
    ours.replay(stream=other)
    other.synchronize()
    with xtarget.capture(device) as again:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            pass
        total = xtarget.run("sum", a)
    again.replay()
    assert float(total) == 5000


def test_launches_on_our_own_arrays_can_be_captured_too(gpu: str, device: str) -> None:
    """Their stream is the default one, with which nothing in a graph can be put in order."""
    a = xtarget.asarray(np.ones(1000, np.float32), device=device)
    out = xtarget.asarray(np.zeros(1000, np.float32), device=a.device)
    xtarget.run("add", a, a, out=out, stream=torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        xtarget.run("add", a, a, out=out, stream=torch.cuda.current_stream())
    xtarget.run("mul", a, 0.0, out=out)
    assert not out.numpy().any()
    graph.replay()
    torch.cuda.synchronize()
    assert (out.numpy() == 2).all()


def test_cupy_and_torch_in_one_call(gpu: str) -> None:
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed here")
    a = torch.ones(1000, device=gpu)
    b = cupy.ones(1000, dtype=cupy.float32)
    assert torch.equal(xtarget.run("add", a, b), a + 1)
    result = xtarget.run("add", b, a)
    assert isinstance(result, cupy.ndarray)
    assert float(result.sum()) == 2000.0
    with cupy.cuda.Stream(non_blocking=True) as stream:
        result = xtarget.run("add", b, 1.0)
        stream.synchronize()
        assert float(result.sum()) == 2000.0


def test_numba_arrays_by_the_cuda_array_interface(gpu: str) -> None:
    class OnlyInterface:
        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor

        @property
        def __cuda_array_interface__(self) -> Any:
            return self.tensor.__cuda_array_interface__

    a = torch.ones(1000, device=gpu)
    result = xtarget.run("add", OnlyInterface(a), OnlyInterface(a))
    assert isinstance(result, xtarget.Array)
    np.testing.assert_array_equal(result.numpy(), np.full(1000, 2, np.float32))


def test_a_process_that_compiled_beside_torch_ends_in_silence(device: str, tmp_path: Path) -> None:
    program = (
        "import torch, numpy as np, xtarget\n"
        "print(xtarget.run('relu', np.array([-1, 2], np.float32)))"
    )
    variables = {"XTARGET_CACHE_DIR": str(tmp_path), "XTARGET_DEVICE": device}
    done = run_python("-W", "ignore", "-c", program, **variables)
    assert (done.stdout, done.stderr) == ("[0. 2.]\n", "")
