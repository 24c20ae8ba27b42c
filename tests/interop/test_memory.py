"""`xtarget.memory_stats` and `xtarget.empty_cache`."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
from threads import in_threads

import xtarget
from xtarget._kernels import libraries
from xtarget._launch import planning
from xtarget._launch.call import BoundCall

SIZE = 1 << 22


def in_use(device: str) -> int:
    gc.collect()
    xtarget.device(device).synchronize()
    xtarget.empty_cache()
    return xtarget.memory_stats().devices[device].in_use


@pytest.fixture
def counted(device: str) -> str:
    if device not in xtarget.memory_stats().devices:
        pytest.skip(f"{device} does not count its memory")
    return device


def test_arrays_are_counted_while_they_live(counted: str) -> None:
    before = in_use(counted)
    a = xtarget.asarray(np.ones(SIZE, np.float32), device=counted)
    assert in_use(counted) - before == 4 * SIZE
    b = xtarget.run("add", a, a)
    assert in_use(counted) - before == 8 * SIZE
    view = b[::2]
    del b
    assert in_use(counted) - before == 8 * SIZE
    del a, view
    assert in_use(counted) == before
    assert xtarget.memory_stats().devices[counted].peak >= before + 8 * SIZE


def test_graphs_are_counted(counted: str) -> None:
    a = xtarget.asarray(np.ones(SIZE, np.float32), device=counted)
    before = in_use(counted)
    with xtarget.capture(counted) as graph:
        xtarget.run("add", xtarget.run("mul", a, a), a)
    assert in_use(counted) - before == graph.nbytes == 8 * SIZE
    graph.close()
    assert in_use(counted) == before


def test_temporaries_are_given_back(counted: str) -> None:
    a = xtarget.asarray(np.ones(SIZE, np.float32), device=counted)
    before = in_use(counted)
    for _ in range(20):
        assert xtarget.run("sum", a).item() == SIZE
    assert in_use(counted) == before


def test_temporaries_of_host_arrays_put_no_mark_into_the_queue(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One hands the launches over to the run time's threads, 0.7 ms on a busy machine."""
    if not device.startswith("cpu"):
        pytest.skip("the tests run on a GPU")
    x = np.arange(5000, 0, -1, np.int32)
    before = xtarget.run("sort", x, device=device)
    stream = xtarget.device(device).default_stream
    mark, marks = type(stream)._mark, []
    monkeypatch.setattr(type(stream), "_mark", lambda *args: marks.append(1) or mark(*args))
    np.testing.assert_array_equal(xtarget.run("sort", x, device=device), before)
    assert not marks


def test_loaded_kernels_are_counted(counted: str) -> None:
    a = xtarget.asarray(np.ones(64, np.float32), device=counted)
    xtarget.run("add", a, a)
    use = xtarget.memory_stats().devices[counted]
    assert 1 <= use.kernels < use.modules


def test_an_empty_cache_has_nothing(counted: str) -> None:
    for _ in range(3):
        xtarget.run("add", np.ones(SIZE, np.float32), 1.0, device=counted)
    xtarget.device(counted).synchronize()
    xtarget.empty_cache()
    stats = xtarget.memory_stats()
    assert stats.host_cached == 0
    assert stats.devices[counted].cached <= 64 << 20  # what its run time keeps for blocks in use
    assert f"{counted}: " in str(stats)
    assert "host: 0 B cached" in str(stats)


def test_threads_count_together(counted: str) -> None:
    before = in_use(counted)
    barrier = threading.Barrier(4)

    def work(number: int) -> None:
        barrier.wait()
        for _ in range(50):
            a = xtarget.asarray(np.ones(1000 + number, np.float32), device=counted)
            xtarget.run("add", a, a)

    in_threads(work, range(4))
    assert in_use(counted) == before


def test_too_much_memory_says_what_holds_it(counted: str) -> None:
    opened = xtarget.device(counted)
    held = xtarget.asarray(np.ones(SIZE, np.float32), device=counted)
    with pytest.raises(xtarget.OutOfMemoryError) as caught:
        opened.alloc(1 << 60)
    assert str(caught.value)
    assert (xtarget.run("add", held, held).numpy() == 2).all()


def test_temporaries_are_one_allocation(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call's temporary memory is asked for once; pieces do not share memory."""
    asked = []
    memory = BoundCall.memory
    monkeypatch.setattr(
        BoundCall, "memory", lambda call, n, stream: asked.append(n) or memory(call, n, stream)
    )
    rng = np.random.default_rng(0)
    x = xtarget.asarray(rng.integers(0, 1000, 5000).astype(np.int32), device=device)
    plan = planning.plan_of_layouts(
        libraries.find("sort"), (x,), {}, xtarget.device(device).info.target
    )
    found = xtarget.run("sort", x)
    np.testing.assert_array_equal(np.asarray(found), np.sort(np.asarray(x)))
    assert len(plan[0].temporaries) > 1
    assert len(asked) == 1
