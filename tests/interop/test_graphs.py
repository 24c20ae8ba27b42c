"""`xtarget.capture`: calls that are recorded once and replayed."""

from __future__ import annotations

import copy
import gc
import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from threads import in_threads

import xtarget
from xtarget import ArgumentError, DeviceLostError, LaunchError, XTargetError

N = 1000


@pytest.fixture
def full(device: str) -> Callable[..., Any]:
    """`full(value)`: an array on the device."""

    def made(value: float, n: int = N) -> Any:
        return xtarget.asarray(np.full(n, value, np.float32), device=device)

    return made


def test_a_replay_computes_with_what_the_arrays_hold(device: str, full: Any) -> None:
    a, b, out = full(2), full(3), full(0)
    with xtarget.capture(device) as graph:
        assert xtarget.run("add", a, b, out=out) is out
        xtarget.run("mul", out, out, out=out)
        total = xtarget.run("sum", out)
    assert (out.numpy() == 0).all()
    graph.replay()
    assert (out.numpy() == 25).all()
    assert total.numpy() == 25 * N
    xtarget.run("add", a, full(1), out=a)
    graph.replay()
    assert (out.numpy() == 36).all()
    assert total.numpy() == 36 * N
    assert graph.launches >= 3
    assert repr(graph).endswith(f"kernels on {device}>")


def test_results_have_memory_of_the_graph_alone(device: str, full: Any) -> None:
    a = full(1)
    with xtarget.capture(device) as graph:
        x = a
        for _ in range(50):
            x = xtarget.run("add", x, a)  # the one before is dropped
        kept = [xtarget.run("add", x, a) for _ in range(2)]
    assert 3 * x.nbytes <= graph.nbytes <= 4 * x.nbytes
    others = [full(7) for _ in range(60)]
    graph.replay()
    assert (x.numpy() == 51).all()
    assert all((one.numpy() == 52).all() for one in kept)
    assert all((other.numpy() == 7).all() for other in others)
    del graph
    gc.collect()
    more = [full(8) for _ in range(60)]
    assert (x.numpy() == 51).all()
    assert all((one.numpy() == 8).all() for one in more)


def test_kernel_objects_and_prepared_launches_are_captured(device: str, full: Any) -> None:
    a, out = full(2), full(0)
    add, launch = xtarget.get("add"), xtarget.get("mul").prepare(out, out, out=out)
    with xtarget.capture(device) as graph:
        add(a, a, out=out)
        assert launch() is out
    assert (out.numpy() == 0).all()
    graph.replay()
    assert (out.numpy() == 16).all()
    launch()
    assert (out.numpy() == 256).all()


def test_a_cold_kernel_is_compiled_and_loaded(device: str, full: Any) -> None:
    from xtarget._compile import functions
    from xtarget._launch import run as _run

    a = full(2)
    functions._functions.clear()
    _run.forget_calls()
    with xtarget.capture(device) as graph:
        out = xtarget.run("relu", a)
    functions._functions.clear()
    _run.forget_calls()
    gc.collect()
    graph.replay()
    assert (out.numpy() == 2).all()


def test_replays_on_a_stream_of_the_callers_choice(device: str, full: Any) -> None:
    opened = xtarget.device(device)
    streams = [opened.stream() for _ in range(3)]
    a, one = full(0), full(1)
    with xtarget.capture(device) as graph:
        xtarget.run("add", a, one, out=a)
    for turn in range(12):
        graph.replay(stream=(None, *streams)[turn % 4])
    assert (a.numpy() == 12).all()
    del graph
    gc.collect()
    for stream in streams:
        stream.close()


def test_host_arrays_where_the_device_uses_them(device: str) -> None:
    a, out = np.full(N, 2, np.float32), np.zeros(N, np.float32)
    if not xtarget.device(device).info.host_memory:
        refused = pytest.raises(ArgumentError, match="host arrays cannot be part of a graph")
        with xtarget.capture(device), refused:
            xtarget.run("add", a, a, out=out, device=device)
        return
    with xtarget.capture(device) as graph:
        xtarget.run("add", a, a, out=out, device=device)
        more = xtarget.run("mul", out, a, device=device)
    graph.replay()
    assert (out == 4).all()
    assert (more == 8).all()
    a[:] = 3
    graph.replay()
    assert (more == 18).all()
    assert type(more) is np.ndarray


def test_memory_that_was_freed_or_moved_is_an_error(device: str) -> None:
    if not xtarget.device(device).info.host_memory:
        pytest.skip(f"{device} does not use host arrays in place")
    a, out = np.full(N, 2, np.float32), np.zeros(N, np.float32)
    with xtarget.capture(device) as graph:
        xtarget.run("add", a, a, out=out, device=device)
    a.resize(100 * N, refcheck=False)
    words = r"the memory of argument 1 of add was freed or moved since the graph was captured"
    with pytest.raises(ArgumentError, match=words):
        graph.replay()


def test_what_is_dropped_is_kept_for_the_graph(device: str, full: Any) -> None:
    a, out = full(2), full(0)
    with xtarget.capture(device) as graph:
        xtarget.run("add", a, a, out=out)
    del a
    gc.collect()
    others = [full(9) for _ in range(5)]
    graph.replay()
    assert (out.numpy() == 4).all()
    assert len(others) == 5


def test_an_exception_within_the_block(device: str, full: Any) -> None:
    a = full(2)
    kept: list[Any] = []

    def fails() -> None:
        with xtarget.capture(device) as graph:
            kept.append(graph)
            xtarget.run("add", a, a)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    (graph,) = kept
    with pytest.raises(LaunchError, match="its block ended in ZeroDivisionError; capture it again"):
        graph.replay()
    assert (xtarget.run("add", a, a).numpy() == 4).all()


def test_captures_do_not_nest(device: str, full: Any) -> None:
    a, out = full(2), full(0)
    with xtarget.capture(device) as inner:
        xtarget.run("add", a, a, out=out)
    with xtarget.capture(device) as graph:
        nested = xtarget.capture(device)
        with pytest.raises(ArgumentError, match="captures one graph at a time"), nested:
            pass
        with pytest.raises(ArgumentError, match="graphs do not contain others"):
            inner.replay()
        with pytest.raises(LaunchError, match="its block has not ended"):
            graph.replay()
        xtarget.run("mul", a, a, out=out)
    graph.replay()
    assert (out.numpy() == 4).all()


def test_a_stream_within_the_block_is_refused(device: str, full: Any) -> None:
    a, stream = full(2), xtarget.device(device).stream()
    with xtarget.capture(device) as graph:
        with pytest.raises(ArgumentError, match=r"stream= within xtarget\.capture"):
            xtarget.run("add", a, a, stream=stream)
        out = xtarget.run("add", a, a)
    graph.replay()
    assert (out.numpy() == 4).all()


@pytest.mark.parametrize("wrong", [3.5, "nvidia", True, object()])
def test_a_replay_on_what_is_no_stream(device: str, full: Any, wrong: Any) -> None:
    a, out = full(2), full(0)
    with xtarget.capture(device) as graph:
        xtarget.run("add", a, a, out=out)
    with pytest.raises(XTargetError, match="stream"):
        graph.replay(stream=wrong)
    graph.replay()
    assert (out.numpy() == 4).all()


def test_calls_on_other_devices_are_refused(device: str, full: Any) -> None:
    others = [d.name for d in xtarget.devices() if d.name != device and d.vendor != "fake"]
    if not others:
        pytest.skip("there is one device")
    a = xtarget.asarray(np.ones(N, np.float32), device=others[0])
    refused = pytest.raises(ArgumentError, match=f"what is captured is a graph of {device}")
    with xtarget.capture(device), refused:
        xtarget.run("add", a, a)


def test_other_threads_are_not_captured(device: str, full: Any) -> None:
    a, out = full(2), full(0)
    ready, done = threading.Event(), threading.Event()
    found: list[Any] = []

    def other() -> None:
        ready.wait()
        found.append(xtarget.run("add", a, a).numpy())
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with xtarget.capture(device) as graph:
        xtarget.run("mul", a, a, out=out)
        ready.set()
        done.wait()
    thread.join()
    assert (found[0] == 4).all()
    graph.replay()
    assert (out.numpy() == 4).all()
    assert graph.launches == 1


def test_threads_capture_and_replay(device: str, full: Any) -> None:
    one, total = full(1), full(0)
    with xtarget.capture(device) as shared:
        xtarget.run("add", total, one, out=total)

    def work(number: int) -> None:
        a, out = full(number), full(0)
        for _ in range(5):
            with xtarget.capture(device) as graph:
                xtarget.run("add", a, one, out=out)
                xtarget.run("mul", out, out, out=out)
            graph.replay()
            assert (out.numpy() == (number + 1) ** 2).all()
            shared.replay()

    in_threads(work, range(4))
    assert (total.numpy() == 20).all()


def test_a_closed_graph_says_so(device: str, full: Any) -> None:
    a, out = full(2), full(0)
    with xtarget.capture(device) as graph:
        xtarget.run("add", a, a, out=out)
        result = xtarget.run("mul", a, a)
    graph.replay()
    graph.close()
    graph.close()
    with pytest.raises(LaunchError, match="it was closed"):
        graph.replay()
    assert (out.numpy() == 4).all()
    assert (result.numpy() == 4).all()


def test_a_graph_of_a_closed_device(device: str) -> None:
    opened = xtarget.device(device)
    if not hasattr(opened, "when_closed"):
        pytest.skip(f"{device} cannot be opened again")
    a = xtarget.asarray(np.ones(N, np.float32), device=device)
    with xtarget.capture(device) as graph:
        xtarget.run("add", a, a)
    opened.close()
    with pytest.raises(DeviceLostError, match="closed or lost"):
        graph.replay()
    del graph
    gc.collect()


def test_an_empty_graph(device: str) -> None:
    with xtarget.capture(device) as graph:
        pass
    graph.replay()
    assert graph.launches == 0


def test_a_graph_is_not_copied(device: str) -> None:
    with xtarget.capture(device) as graph:
        pass
    with pytest.raises(TypeError, match="cannot be pickled or copied"):
        copy.deepcopy(graph)


def test_a_wrong_device_is_refused() -> None:
    for wrong in ("nvidia:99", 3.5):
        with pytest.raises(xtarget.NoDeviceError), xtarget.capture(wrong):
            pass


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_says_so(device: str, full: Any) -> None:
    a, out = full(2), full(0)
    with xtarget.capture(device) as graph:
        xtarget.run("add", a, a, out=out)
    child = os.fork()
    if not child:
        try:
            graph.replay()
        except xtarget.DriverError as error:
            os._exit(0 if "forked" in str(error) else 2)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    graph.replay()
    assert (out.numpy() == 4).all()


def test_hooks_and_graphs_at_the_same_time(device: str, full: Any) -> None:
    a, seen = full(2), []
    with xtarget.hooks.add(enter=lambda launch: seen.append(launch.kernel)):
        with xtarget.capture(device) as graph:
            out = xtarget.run("add", a, a)
        xtarget.run("mul", a, a)
    graph.replay()
    assert seen == ["mul"]
    assert (out.numpy() == 4).all()


def test_torch_tensors(device: str, place: str) -> None:
    torch = pytest.importorskip("torch")
    if place == "cpu" and not xtarget.device(device).info.host_memory:
        pytest.skip(f"this torch has no device {device}")
    a = torch.full((N,), 2.0, device=place)
    out = torch.zeros(N, device=place)
    with xtarget.capture(device) as graph:
        xtarget.run("add", a, a, out=out, device=None if place != "cpu" else device)
        more = xtarget.run("mul", out, a, device=None if place != "cpu" else device)
    assert (out == 0).all()
    before = out._version
    graph.replay()
    assert (out == 4).all()
    assert (more == 8).all()
    assert out._version > before
    a.fill_(3)
    graph.replay()
    assert (more == 18).all()
    a.untyped_storage().resize_(0)
    with pytest.raises(ArgumentError, match=r"the memory of argument 1 of add was freed or moved"):
        graph.replay()
    assert (more == 18).all()
