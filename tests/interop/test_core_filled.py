"""Kernels whose outputs begin as something, and kernels of several launches: the compiled core
makes their calls, and each call begins anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

import cpu_entries
from core_calls import TWIN, check_while_forgotten, host, hot, of_kind
from core_filled_kernels import ALIKE, BEGINNINGS, COUNT, EVENS, LATER, PAIR, SPLIT, begun

import xtarget


def ramp(count: int, dtype: Any = np.float32) -> Any:
    return (np.arange(count) % 100).astype(dtype)


def evens(x: Any, init: Any) -> Any:
    return np.where(np.arange(x.size) % 2 == 0, x, np.asarray(init).astype(x.dtype))


def check_each_call(
    core: Any, kernel: str, x: Any, out: Any, right: np.ndarray[Any, Any], device: str
) -> None:
    """The core makes the calls with `out` and without, and each gives `right`."""
    assert hot(core, kernel, x, device=device) == 2
    assert hot(core, kernel, x, out=out, device=device) == 2
    for _ in range(3):
        np.testing.assert_array_equal(host(xtarget.run(kernel, x, device=device)), right)
        np.testing.assert_array_equal(host(xtarget.run(kernel, x, out=out, device=device)), right)


@pytest.mark.parametrize("dtype", BEGINNINGS)
def test_an_output_begins_as_its_author_says(core: Any, device: str, kind: str, dtype: str) -> None:
    if dtype == "float64" and not xtarget.device(device).info.fp64:
        pytest.skip(f"{device} has no float64")
    x = of_kind(kind, ramp(90, dtype), device)
    for init in BEGINNINGS[dtype]:
        kernel, right = begun(init), evens(ramp(90, dtype), init)
        assert hot(core, kernel, x, device=device) == 2
        for _ in range(2):
            np.testing.assert_array_equal(host(xtarget.run(kernel, x, device=device)), right)
        out = of_kind(kind, ramp(90, dtype) + 1, device)
        assert hot(core, kernel, x, out=out, device=device) == 2
        for other in (out, of_kind(kind, ramp(90, dtype) + 3, device)):
            assert xtarget.run(kernel, x, out=other, device=device) is other
            np.testing.assert_array_equal(host(other), right)


def test_what_a_kernel_leaves_out_of_a_new_result_is_zero(
    core: Any, device: str, kind: str
) -> None:
    x = of_kind(kind, ramp(90), device)
    assert hot(core, EVENS, x, device=device) == 2
    for _ in range(4):  # in memory that results before it had
        np.testing.assert_array_equal(
            host(xtarget.run(EVENS, x, device=device)), evens(ramp(90), 0)
        )
    out = of_kind(kind, ramp(90) + 7, device)
    assert hot(core, EVENS, x, out=out, device=device) == 2
    np.testing.assert_array_equal(host(out)[1::2], (ramp(90) + 7)[1::2])


def test_sums_by_atomics_begin_at_zero_in_each_call(core: Any, device: str, kind: str) -> None:
    values = np.random.default_rng(4).integers(0, 8, 500).astype(np.int32)
    right = np.bincount(values, minlength=8)
    x = of_kind(kind, values, device)
    out = of_kind(kind, np.full(8, 9, np.int32), device)
    check_each_call(core, COUNT, x, out, right, device)


def test_each_of_several_results_begins_as_its_own(core: Any, device: str, kind: str) -> None:
    values = ramp(80) - 50
    x = of_kind(kind, values, device)
    least = np.where(values < 0, values, np.inf)
    most = np.where(values >= 0, values, -np.inf)
    outs = tuple(of_kind(kind, np.zeros(80, np.float32), device) for _ in range(2))
    assert hot(core, PAIR, x, device=device) == 2
    assert hot(core, PAIR, x, out=outs, device=device) == 2
    for found in (xtarget.run(PAIR, x, device=device), outs):
        np.testing.assert_array_equal(host(found[0]), least)
        np.testing.assert_array_equal(host(found[1]), most)


def test_launches_with_a_workspace_that_begins_as_something(
    core: Any, device: str, kind: str
) -> None:
    x = of_kind(kind, ramp(130), device)
    out = of_kind(kind, ramp(130), device)
    right = evens(ramp(130), 5) + 2
    check_each_call(core, SPLIT, x, out, right, device)


def test_shapes_never_seen(core: Any, device: str, kind: str) -> None:
    lengths = [int(n) for n in np.random.default_rng(3).permutation(np.arange(65, 320))[:40]]
    for n in (40, 41, 64, 128, 300):
        _right_of_length(kind, device, n)
    before = core.statistics()[0]
    for n in lengths:
        _right_of_length(kind, device, n)
    assert core.statistics()[0] - before > 2 * len(lengths)


def _right_of_length(kind: str, device: str, n: int) -> None:
    x = of_kind(kind, ramp(n), device)
    for kernel, right in (
        (begun(1.5), evens(ramp(n), 1.5)),
        (EVENS, evens(ramp(n), 0)),
        (SPLIT, evens(ramp(n), 5) + 2),
    ):
        np.testing.assert_array_equal(host(xtarget.run(kernel, x, device=device)), right)
    out = of_kind(kind, ramp(n) + 3, device)
    xtarget.run(begun(1.5), x, out=out, device=device)
    np.testing.assert_array_equal(host(out), evens(ramp(n), 1.5))


def test_prepared_launches_begin_anew(core: Any, device: str, kind: str) -> None:
    values = np.arange(96, dtype=np.int32) % 8
    x = of_kind(kind, values, device)
    out = of_kind(kind, np.zeros(8, np.int32), device)
    launches = [xtarget.get(COUNT).prepare(x, out=given, device=device) for given in (None, out)]
    before = core.statistics()[0]
    for _ in range(3):
        for launch in launches:
            np.testing.assert_array_equal(host(launch()), np.full(8, 12))
    assert core.statistics()[0] - before == 6


def test_a_stream_of_the_callers(core: Any, device: str, kind: str) -> None:
    stream = xtarget.device(device).stream()
    x, out = of_kind(kind, ramp(70), device), of_kind(kind, ramp(70), device)
    for turn in range(6):
        xtarget.run("add", x, 1.0, out=x, device=device, stream=stream)
        xtarget.run(SPLIT, x, out=out, device=device, stream=stream)
        found = xtarget.run(begun(-1), x, device=device, stream=stream)
        stream.synchronize()
        now = ramp(70) + turn + 1
        np.testing.assert_array_equal(host(out), evens(now, 5) + 2)
        np.testing.assert_array_equal(host(found), evens(now, -1))


def test_earlier_work_on_the_callers_array_comes_first(core: Any, device: str) -> None:
    """Also where NumPy has a view of an array of ours."""
    if not xtarget.device(device).info.host_memory:
        pytest.skip(f"NumPy has no views of the memory of {device}")
    n = 1 << 20
    own = xtarget.asarray(np.zeros(n, np.float32), device=device)
    one = xtarget.asarray(np.ones(n, np.float32), device=device)
    view, x = np.asarray(own), np.zeros(n, np.float32)
    for _ in range(8):
        xtarget.run("add", one, one, out=own)
        assert xtarget.run(begun(1.5), x, out=view, device=device) is view
        assert (view[1::2] == 1.5).all()
        assert (view[::2] == 0).all()


def test_replays_of_a_graph_begin_anew(device: str) -> None:
    x = xtarget.asarray(ramp(130), device=device)
    digits = xtarget.asarray(np.arange(96, dtype=np.int32) % 8, device=device)
    out = xtarget.asarray(ramp(130), device=device)
    with xtarget.capture(device) as graph:
        counts = xtarget.run(COUNT, digits)
        xtarget.run(SPLIT, x, out=out)
    for turn in range(1, 4):
        graph.replay()
        np.testing.assert_array_equal(counts.numpy(), np.full(8, 12))
        np.testing.assert_array_equal(out.numpy(), evens(ramp(130) + turn - 1, 5) + 2)
        xtarget.run("add", x, 1.0, out=x)
        xtarget.run("add", counts, counts, out=counts)


def test_torchs_graphs_begin_anew(core: Any, device: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed here")
    if not device.startswith(("nvidia", "amd")) or not torch.cuda.is_available():
        pytest.skip("torch has graphs on its cuda devices")
    x, out = of_kind("torch", ramp(130), device), of_kind("torch", ramp(130), device)
    for _ in range(4):
        xtarget.run(SPLIT, x, out=out)
        xtarget.run(begun(1.5), x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        xtarget.run(SPLIT, x, out=out)
        made = xtarget.run(begun(1.5), x)
    for turn in range(1, 4):
        x += 1
        made.fill_(9)
        graph.replay()
        np.testing.assert_array_equal(host(out), evens(ramp(130) + turn, 5) + 2)
        np.testing.assert_array_equal(host(made), evens(ramp(130) + turn, 1.5))


def test_threads_while_all_is_forgotten(core: Any, device: str, kind: str) -> None:
    def right(number: int, turn: int) -> bool:
        n = 64 + 8 * number + turn % 3
        x = of_kind(kind, ramp(n) + number, device)
        out = of_kind(kind, ramp(n), device)
        xtarget.run(SPLIT, x, out=out, device=device)
        found = xtarget.run(begun(1.5), x, device=device)
        return bool(
            (host(out) == evens(ramp(n) + number, 5) + 2).all()
            and (host(found) == evens(ramp(n) + number, 1.5)).all()
        )

    check_while_forgotten(right, range(25), 7)


def test_observers_see_the_launches(device: str, launched: list[str]) -> None:
    x = xtarget.asarray(ramp(130), device=device)
    for _ in range(3):
        np.testing.assert_array_equal(xtarget.run(SPLIT, x).numpy(), evens(ramp(130), 5) + 2)
    assert launched == [SPLIT] * 6


def test_emulated_gpus_too(on: str) -> None:
    digits = np.arange(96, dtype=np.int32) % 8
    for _ in range(4):
        for given in (lambda values: values, lambda values: xtarget.asarray(values, device=on)):
            x, out = given(ramp(130)), given(ramp(130) + 1)
            assert xtarget.run(SPLIT, x, out=out) is out
            np.testing.assert_array_equal(np.asarray(host(out)), evens(ramp(130), 5) + 2)
            found = xtarget.run(begun(float("-inf")), x)
            np.testing.assert_array_equal(host(found), evens(ramp(130), float("-inf")))
            np.testing.assert_array_equal(host(xtarget.run(COUNT, given(digits))), np.full(8, 12))
            np.testing.assert_array_equal(host(xtarget.run(begun(-3), given(digits)))[1::2], -3)


def test_an_out_with_gaps_is_refused_warm_as_cold(core: Any, device: str, kind: str) -> None:
    x = of_kind(kind, ramp(60), device)
    out = of_kind(kind, ramp(120), device)
    assert hot(core, begun(1.5), x, out=out[:60], device=device) == 2
    for run in (xtarget.run, TWIN, xtarget.run):
        with pytest.raises(xtarget.ArgumentError, match=r"y is not C-contiguous"):
            run(begun(1.5), x, out=out[::2], device=device)
    np.testing.assert_array_equal(host(out)[60:], ramp(120)[60:])


def test_what_is_filled_first_is_no_argument(core: Any, device: str, kind: str) -> None:
    """Its elements would be gone before they are read."""
    x = of_kind(kind, ramp(60), device)
    out = of_kind(kind, ramp(60), device)
    assert hot(core, ALIKE, x, out=out, device=device) == 2
    for run in (xtarget.run, TWIN, xtarget.run):
        with pytest.raises(xtarget.ArgumentError, match="out overlaps argument 1"):
            run(ALIKE, x, out=x, device=device)
    np.testing.assert_array_equal(host(x), ramp(60))
    np.testing.assert_array_equal(host(out), evens(ramp(60), 3))


# ------------------------------------------------------------------ by a driver's own entries


@pytest.fixture
def entries(core: Any, monkeypatch: pytest.MonkeyPatch) -> cpu_entries.Entries:
    return cpu_entries.in_place(monkeypatch)


@pytest.mark.parametrize("library", ["torch", "xtarget"])
def test_a_driver_fills_with_words_of_each_width(
    core: Any, entries: cpu_entries.Entries, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    if library == "torch":
        pytest.importorskip("torch")
        cpu_entries.for_torch(monkeypatch)
    for dtype, beginnings in BEGINNINGS.items():
        for init in beginnings:
            x = of_kind(library, ramp(90, dtype), "cpu")
            out = of_kind(library, ramp(90, dtype) + 1, "cpu")
            for _ in range(3):
                xtarget.run(begun(init), x, out=out)
            del entries.filled[:], entries.grids[:]
            xtarget.run(begun(init), x, out=out)
            entries.device.synchronize()
            np.testing.assert_array_equal(host(out), evens(ramp(90, dtype), init))
            two_words = dtype in ("int64", "float64") and init not in (0, -1)
            assert entries.filled == ([] if two_words else [90 * x.dtype.itemsize])
            assert len(entries.grids) == (not two_words), "one fill, one launch"
            found = xtarget.run(begun(init), x)
            entries.device.synchronize()
            np.testing.assert_array_equal(host(found), evens(ramp(90, dtype), init))


def test_sizes_of_a_class_are_filled_whole(core: Any, entries: cpu_entries.Entries) -> None:
    for n in (70, 72, 75):
        xtarget.run(SPLIT, of_kind("xtarget", ramp(n), "cpu"))
    for n in (80, 81, 300):
        x, out = (of_kind("xtarget", ramp(n), "cpu") for _ in range(2))
        xtarget.run(SPLIT, x, out=out)
    for n in (90, 131, 64):
        x, out = (of_kind("xtarget", ramp(n), "cpu") for _ in range(2))
        del entries.filled[:], entries.grids[:]
        xtarget.run(SPLIT, x, out=out)
        entries.device.synchronize()
        np.testing.assert_array_equal(host(out), evens(ramp(n), 5) + 2)
        assert entries.filled == [4 * n, 4 * n], "the result, and the workspace"
        assert entries.grids == [(-(-n // 64), 1, 1)] * 2


def test_a_fill_that_the_driver_refuses_leaves_the_call_to_python(
    core: Any, entries: cpu_entries.Entries
) -> None:
    x, out = (of_kind("xtarget", ramp(90), "cpu") for _ in range(2))
    for _ in range(3):
        xtarget.run(SPLIT, x, out=out)
    entries.refused = 2  # CUDA_ERROR_OUT_OF_MEMORY
    del entries.grids[:]
    xtarget.run(SPLIT, x, out=out)
    entries.device.synchronize()
    np.testing.assert_array_equal(host(out), evens(ramp(90), 5) + 2)
    assert not entries.grids


@pytest.mark.parametrize("sizes", [[90] * 4, [90, 88, 75, 67]])
def test_python_goes_on_with_a_second_launch_that_the_driver_refused(
    core: Any, entries: cpu_entries.Entries, sizes: list[int]
) -> None:
    """The elements that the first one has written in place are not written again."""
    for n in (*sizes, *sizes):
        xtarget.run(LATER, *(of_kind("xtarget", ramp(n), "cpu") for _ in range(2)))
        xtarget.run(
            SPLIT, of_kind("xtarget", ramp(n), "cpu"), out=of_kind("xtarget", ramp(n), "cpu")
        )
    started = 0

    def refuses(given: list[int]) -> int:
        nonlocal started
        started += 1
        return 2 * (started == 2)

    entries.before = refuses
    for n in sizes if len(set(sizes)) == 1 else (91, 66):
        x, more, out = (of_kind("xtarget", ramp(n), "cpu") for _ in range(3))
        before = core.statistics()[0]
        started = 0
        xtarget.run(LATER, x, more)
        assert started == 2
        started = 0
        xtarget.run(SPLIT, more, out=out)
        assert started == 2
        assert core.statistics()[0] - before == 2
        entries.device.synchronize()
        np.testing.assert_array_equal(host(x), ramp(n) * 3)
        np.testing.assert_array_equal(host(out), evens(ramp(n), 5) + 2)


def test_a_second_launch_that_fails_is_named(core: Any, entries: cpu_entries.Entries) -> None:
    x, out = (of_kind("xtarget", ramp(90, "int16"), "cpu") for _ in range(2))
    launch = xtarget.get(SPLIT).prepare(x, out=out)
    launch()
    first, second = (one.function for one in launch._held.found.call._launches)
    count = 0

    def refuses(given: list[int]) -> int:
        nonlocal count
        count += 1
        if count == 2:
            second._module.close()
        return 2 * (count == 2)

    entries.before = refuses
    with pytest.raises(xtarget.XTargetError, match=second.name):
        launch()
    assert count == 2, "the first one is not started again"
    assert first.name != second.name
