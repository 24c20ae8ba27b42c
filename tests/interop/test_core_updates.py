"""Kernels in place and with several results: the compiled core makes their calls, gives what Python
gives, and refuses what Python refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

from core_calls import TWIN, check_while_forgotten, host, hot, of_kind
from core_update_kernels import BOTH, CHAIN, GROW, KEEP, SHIFT

import xtarget
from xtarget import ArgumentError
from xtarget._launch.overlap import Overlaps


def ramp(count: int) -> Any:
    return np.arange(count, dtype=np.float32)


def test_an_array_is_written_in_place(core: Any, device: str, kind: str) -> None:
    a, b = of_kind(kind, np.zeros(100, np.float32), device), of_kind(kind, ramp(100), device)
    assert hot(core, GROW, a, b, device=device) == 2
    np.testing.assert_array_equal(host(a), ramp(100) * 5)
    assert xtarget.run(GROW, a, b, device=device) is None
    np.testing.assert_array_equal(host(a), ramp(100) * 6)
    np.testing.assert_array_equal(host(b), ramp(100))


@pytest.mark.parametrize("left_out", [True, False])
def test_in_place_and_with_a_result(core: Any, device: str, kind: str, left_out: bool) -> None:
    a = of_kind(kind, ramp(70), device)
    by = None if left_out else of_kind(kind, ramp(70) + 1, device)
    step = 1 if left_out else ramp(70) + 1
    assert hot(core, SHIFT, a, by, device=device) == 2
    old = xtarget.run(SHIFT, a, by, device=device)
    assert type(old) is type(a)
    np.testing.assert_array_equal(host(old), ramp(70) + 5 * step)
    out = of_kind(kind, np.zeros(70, np.float32), device)
    assert hot(core, SHIFT, a, by, out=out, device=device) == 2
    assert xtarget.run(SHIFT, a, by, out=out, device=device) is out
    np.testing.assert_array_equal(host(out), ramp(70) + 11 * step)
    np.testing.assert_array_equal(host(a), ramp(70) + 12 * step)


def test_several_results(core: Any, device: str, kind: str) -> None:
    a, b = of_kind(kind, ramp(90), device), of_kind(kind, ramp(90) + 2, device)
    assert hot(core, BOTH, a, b, device=device) == 2
    total, product = xtarget.run(BOTH, a, b, device=device)
    assert type(total) is type(product) is type(a)
    assert tuple(product.shape) == (90, 1)
    np.testing.assert_array_equal(host(total), ramp(90) * 2 + 2)
    np.testing.assert_array_equal(host(product)[:, 0], ramp(90) * (ramp(90) + 2))
    outs = of_kind(kind, ramp(90), device), of_kind(kind, np.zeros((90, 1)), device)
    assert hot(core, BOTH, a, b, out=outs, device=device) == 2
    b2 = of_kind(kind, ramp(90) + 5, device)
    assert xtarget.run(BOTH, a, b2, out=outs, device=device) is outs
    np.testing.assert_array_equal(host(outs[0]), ramp(90) * 2 + 5)
    np.testing.assert_array_equal(host(outs[1])[:, 0], ramp(90) * (ramp(90) + 5))
    for given in (list(outs), {"product": outs[1], "total": outs[0]}):
        assert xtarget.run(BOTH, a, b, out=given, device=device) is given
        np.testing.assert_array_equal(host(outs[0]), ramp(90) * 2 + 2)


def test_what_is_not_written_of_several_results_stays(core: Any, device: str, kind: str) -> None:
    a = of_kind(kind, ramp(40) + 1, device)
    for _ in range(5):
        outs = tuple(of_kind(kind, np.full(40, -7, np.float32), device) for _ in range(2))
        xtarget.run(KEEP, a, out=outs, device=device)
        np.testing.assert_array_equal(host(outs[0])[1::2], -7)
        np.testing.assert_array_equal(host(outs[0])[::2], ramp(40)[::2] + 1)
        np.testing.assert_array_equal(host(outs[1])[::2], -7)
        evens, odds = xtarget.run(KEEP, a, device=device)
        np.testing.assert_array_equal(host(evens) + host(odds), ramp(40) + 1)


def test_launches_in_place_one_after_the_other(core: Any, device: str, kind: str) -> None:
    a = of_kind(kind, ramp(65), device)
    for turn in range(6):
        twice = xtarget.run(CHAIN, a, device=device)
        np.testing.assert_array_equal(host(twice), ramp(65) * 2 * 4**turn)
    before = core.statistics()[0]
    out = of_kind(kind, np.empty(65, np.float32), device)
    for _ in range(5):
        xtarget.run(CHAIN, a, out=out, device=device)
    np.testing.assert_array_equal(host(out) * 2, host(a))
    assert core.statistics()[0] > before


def test_shapes_never_seen(core: Any, device: str, kind: str) -> None:
    lengths = [int(n) for n in np.random.default_rng(3).permutation(np.arange(65, 320))[:50]]
    for n in (40, 41, 64, 128, 300):
        for call in (_grown, _doubled, _summed):
            call(kind, device, n)
    before = core.statistics()[0]
    for n in lengths:
        for call in (_grown, _doubled, _summed):
            call(kind, device, n)
    assert core.statistics()[0] - before > 2 * len(lengths)


def _grown(kind: str, device: str, n: int) -> None:
    a, b = of_kind(kind, ramp(n), device), of_kind(kind, ramp(n) + 1, device)
    xtarget.run(GROW, a, b, device=device)
    np.testing.assert_array_equal(host(a), ramp(n) * 2 + 1)


def _doubled(kind: str, device: str, n: int) -> None:
    a, b = of_kind(kind, ramp(n), device), of_kind(kind, ramp(n) + 1, device)
    total, product = xtarget.run(BOTH, a, b, device=device)
    assert tuple(total.shape) == (n,)
    assert tuple(product.shape) == (n, 1)
    np.testing.assert_array_equal(host(total), ramp(n) * 2 + 1)


def _summed(kind: str, device: str, n: int) -> None:
    a, b = of_kind(kind, ramp(n), device), of_kind(kind, ramp(n) + 1, device)
    outs = of_kind(kind, np.empty(n, np.float32), device), of_kind(kind, np.empty((n, 1)), device)
    assert xtarget.run(BOTH, a, b, out=outs, device=device) is outs
    np.testing.assert_array_equal(host(outs[0]), ramp(n) * 2 + 1)
    np.testing.assert_array_equal(host(outs[1])[:, 0], ramp(n) * (ramp(n) + 1))


def test_what_overlaps_is_refused_warm_as_cold(core: Any, device: str, kind: str) -> None:
    memory = of_kind(kind, ramp(400), device)
    a, b = memory[:100], memory[200:300]
    assert hot(core, GROW, a, b, device=device) == 2
    outs = memory[300:340], of_kind(kind, np.empty((40, 1)), device)
    assert hot(core, BOTH, memory[:40], memory[100:140], out=outs, device=device) == 2
    kept = host(memory).copy()
    wrong: tuple[tuple[str, tuple[Any, ...], dict[str, Any], str], ...] = (
        (GROW, (memory[:100], memory[50:150]), {}, r"argument 1 \(a\), which it writes to, overla"),
        (GROW, (memory[100:200], memory[199:299]), {}, r"argument 1 \(a\).*argument 2 \(b\)"),
        (GROW, (a, a), {}, r"argument 1 \(a\).*argument 2 \(b\)"),
        (BOTH, (memory[301:341], memory[:40]), {"out": outs}, r"out\['total'\].*argument 1 \(a\)"),
        (SHIFT, (a, None), {"out": memory[50:150]}, "out overlaps argument 1"),
    )
    for kernel, args, named, words in wrong:
        for run in (xtarget.run, TWIN, xtarget.run):
            with pytest.raises(ArgumentError, match=words):
                run(kernel, *args, device=device, **named)
    np.testing.assert_array_equal(host(memory), kept)
    xtarget.run(GROW, memory[100:200], memory[200:300], device=device)
    np.testing.assert_array_equal(host(memory)[100:200], kept[100:200] + kept[200:300])


def test_views_between_each_others_elements_are_the_cores(
    core: Any, device: str, kind: str
) -> None:
    memory = of_kind(kind, np.zeros(200, np.float32), device)
    a, b = memory[::2], memory[1::2]
    xtarget.run("add", b, 1.0, out=b, device=device)
    for _ in range(20):
        xtarget.run(GROW, a, b, device=device)
    before = core.statistics()[0]
    for _ in range(10):
        xtarget.run(GROW, a, b, device=device)
    assert core.statistics()[0] - before == 10
    np.testing.assert_array_equal(host(memory), np.tile([30, 1], 100))
    for _ in range(3):
        with pytest.raises(ArgumentError, match=r"argument 1 \(a\), which it writes to, overlaps"):
            xtarget.run(GROW, memory[::2][:98], memory[2::2][:98], device=device)
    np.testing.assert_array_equal(host(memory), np.tile([30, 1], 100))


def test_an_interrupt_while_views_are_compared_is_the_callers(
    core: Any, device: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = of_kind(kind, np.zeros(400, np.float32), device)
    for _ in range(20):
        xtarget.run(GROW, memory[:200:2], memory[1:201:2], device=device)
    asked: list[int] = []
    ask = Overlaps._ask

    def interrupted(self: Overlaps, distance: int) -> bool:
        asked.append(distance)
        if len(asked) == 1:
            raise KeyboardInterrupt
        return ask(self, distance)

    monkeypatch.setattr(Overlaps, "_ask", interrupted)
    with pytest.raises(KeyboardInterrupt):
        xtarget.run(GROW, memory[:200:2], memory[3:203:2], device=device)
    xtarget.run(GROW, memory[:200:2], memory[3:203:2], device=device)
    assert len(asked) == 2


def test_torch_hears_of_each_write(core: Any, device: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed here")
    a, b = of_kind("torch", ramp(50), device), of_kind("torch", ramp(50), device)
    outs = torch.empty_like(a), torch.empty((50, 1), dtype=torch.float64, device=a.device)
    assert hot(core, GROW, a, b, device=device) == 2
    assert hot(core, BOTH, a, b, out=outs, device=device) == 2
    versions = a._version, b._version, outs[0]._version, outs[1]._version
    xtarget.run(GROW, a, b, device=device)
    xtarget.run(BOTH, a, b, out=outs, device=device)
    assert (a._version, b._version) == (versions[0] + 1, versions[1])
    assert (outs[0]._version, outs[1]._version) == (versions[2] + 1, versions[3] + 1)
    with pytest.raises(xtarget.XTargetError, match="grad"):
        xtarget.run(GROW, a.clone().requires_grad_(), b, device=device)


def test_threads_while_all_is_forgotten(core: Any, device: str) -> None:
    def right(number: int, turn: int) -> bool:
        n = 64 + 8 * number + turn % 3
        a, b = xtarget.asarray(ramp(n), device=device), xtarget.asarray(ramp(n) + 1, device=device)
        xtarget.run(GROW, a, b)
        total, product = xtarget.run(BOTH, a, b)
        grown = ramp(n) * 2 + 1
        return bool(
            (a.numpy() == grown).all()
            and (total.numpy() == grown + ramp(n) + 1).all()
            and (product.numpy()[:, 0] == grown * (ramp(n) + 1)).all()
        )

    check_while_forgotten(right, range(40), 7)


def test_prepared_launches_in_place_and_of_several_results(
    core: Any, device: str, kind: str
) -> None:
    a, b = of_kind(kind, ramp(100), device), of_kind(kind, ramp(100) + 1, device)
    grow = xtarget.get(GROW).prepare(a, b, device=device)
    outs = of_kind(kind, ramp(100), device), of_kind(kind, np.zeros((100, 1)), device)
    both = xtarget.get(BOTH).prepare(a, b, out=outs, device=device)
    for turn in range(1, 5):
        assert grow() is None
        assert both() is outs
        np.testing.assert_array_equal(host(a), ramp(100) + turn * (ramp(100) + 1))
        np.testing.assert_array_equal(host(outs[0]), host(a) + ramp(100) + 1)
    before = core.statistics()[0]
    grow()
    both()
    assert core.statistics()[0] - before == 2
    for other in (a, b):
        with pytest.raises(ArgumentError, match=r"argument 1 \(a\), which it writes to, overlaps"):
            xtarget.get(GROW).prepare(other, other, device=device)
    with pytest.raises(ArgumentError, match=r"argument 1 \(a\), which it writes to, overlaps"):
        grow.update(b=a)
    grow()


def test_a_prepared_launch_takes_other_arrays_for_all_its_results(device: str, kind: str) -> None:
    def outs(n: int = 100) -> tuple[Any, Any]:
        empty = np.zeros(n, np.float32), np.zeros((n, 1))
        return of_kind(kind, empty[0], device), of_kind(kind, empty[1], device)

    a, b = of_kind(kind, ramp(100), device), of_kind(kind, ramp(100) + 1, device)
    first, second, third = (
        outs(),
        list(outs()),
        dict(zip(("total", "product"), outs(), strict=True)),
    )
    both = xtarget.get(BOTH).prepare(a, b, out=first, device=device)
    assert both() is first
    for given, arrays in ((second, second), (third, list(third.values()))):
        both.update(out=given)
        assert both() is both.out is given
        np.testing.assert_array_equal(host(arrays[0]), ramp(100) * 2 + 1)
        np.testing.assert_array_equal(host(arrays[1])[:, 0], ramp(100) * (ramp(100) + 1))
    wrong: tuple[tuple[Any, str], ...] = (
        (outs(99), r"out was prepared as \(float32 \(100,\).*, and is now \(float32 \(99,\)"),
        (first[0], r"out was prepared as .*, and is now float32 \(100,\)"),
        (None, "out was prepared as .*, and is now None"),
        (first[:1], "out= has 1 arrays, and it has 2 outputs"),
        ((a, first[1]), r"out\['total'\], which it writes to, overlaps argument 1 \(a\)"),
    )
    for out, words in wrong:
        with pytest.raises(ArgumentError, match=words):
            both.update(out=out)
        assert both() is third


def test_an_array_for_a_result_that_moved_is_given_again(core: Any, device: str) -> None:
    a = ramp(100)
    outs = np.zeros(100, np.float32), np.zeros((100, 1))
    both = xtarget.get(BOTH).prepare(a, a, out=outs, device=device)
    both()
    outs[0].resize(100_000, refcheck=False)
    with pytest.raises(ArgumentError, match=r"memory of out\[0\] .*launch.update\(out=...\)"):
        both()
    again = np.zeros(100, np.float32), outs[1]
    np.testing.assert_array_equal(both.update(out=again)()[0], ramp(100) * 2)


def test_a_profile_has_calls_with_arrays_for_several_results(device: str, kind: str) -> None:
    a, b = of_kind(kind, ramp(100), device), of_kind(kind, ramp(100) + 1, device)
    outs = of_kind(kind, ramp(100), device), of_kind(kind, np.zeros((100, 1)), device)
    both = xtarget.get(BOTH).prepare(a, b, out=outs, device=device)
    with xtarget.profile() as profile:
        assert xtarget.run(BOTH, a, b, out=outs, device=device) is outs
        assert both() is outs
    np.testing.assert_array_equal(host(outs[0]), ramp(100) * 2 + 1)
    assert "float32 1d, float32 1d, out (float32 1d, float64 2d)" in str(profile)


def test_a_graph_of_calls_in_place_and_of_several_results(core: Any, device: str) -> None:
    a, b = xtarget.asarray(ramp(100), device=device), xtarget.asarray(ramp(100), device=device)
    empty = np.zeros(100, np.float32), np.zeros((100, 1))
    outs = tuple(xtarget.asarray(one, device=device) for one in empty)
    with xtarget.capture() as graph:
        assert xtarget.run(BOTH, a, b, out=outs) is outs
        xtarget.run(GROW, a, b)
    for turn in range(1, 4):
        graph.replay()
        np.testing.assert_array_equal(outs[0].numpy(), ramp(100) * (turn + 1))
        np.testing.assert_array_equal(outs[1].numpy()[:, 0], turn * ramp(100) ** 2)
        np.testing.assert_array_equal(a.numpy(), ramp(100) * (turn + 1))


def test_a_stream_of_the_callers(core: Any, device: str, kind: str) -> None:
    a, b = of_kind(kind, ramp(100), device), of_kind(kind, ramp(100), device)
    outs = of_kind(kind, ramp(100), device), of_kind(kind, np.zeros((100, 1)), device)
    stream = xtarget.device(device).default_stream
    added = hot(core, "add", a, b, out=outs[0], stream=stream, device=device)
    assert hot(core, GROW, a, b, stream=stream, device=device) == added
    stream.synchronize()
    np.testing.assert_array_equal(host(a), ramp(100) * 6)
    assert hot(core, BOTH, a, b, out=outs, stream=stream, device=device) == added
    stream.synchronize()
    np.testing.assert_array_equal(host(outs[0]), ramp(100) * 7)
    total, _ = xtarget.run(BOTH, a, b, stream=stream, device=device)
    stream.synchronize()
    np.testing.assert_array_equal(host(total), ramp(100) * 7)
