"""Graphs: launches that are recorded once and started together."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from xtarget import DriverError
from xtarget._values.types import LaunchConfig
from xtarget.targets.optional import Fills, MakesGraphs

BLOCK = 1024


@pytest.fixture
def graphs(vendor: Any) -> Any:
    if not isinstance(vendor.device, MakesGraphs):
        pytest.skip(f"{vendor.id} makes no graphs")
    return vendor.device


@pytest.fixture
def scale_shift(vendor: Any, hidden: Any) -> Any:
    """`scale_shift(address, factor, shift)`: a prepared launch as a function of a stream."""
    artifact = vendor.artifact("scale_shift", "x:*fp32 factor:fp32 shift:fp32 n:i32", BLOCK=BLOCK)
    function = vendor.device.load(artifact).function()
    args = [None, None, None, BLOCK, *hidden(function)]
    prepared = function.prepare(LaunchConfig((1, 1, 1)), args)

    def launch(address: int, factor: float, shift: float) -> Any:
        return lambda stream: prepared((address, factor, shift), stream)

    return launch


def test_a_graph_runs_when_it_is_replayed(
    graphs: Any, memory: Any, stream: Any, scale_shift: Any
) -> None:
    x = memory.put(np.ones(BLOCK, np.float32))
    steps = [scale_shift(x.address, 2.0, float(k)) for k in range(4)]
    graph = graphs.graph(lambda on: [step(on) for step in steps] and None)
    assert (memory.get(x) == 1).all()
    expected = 1.0
    for _ in range(3):
        graph.replay(stream)
        for k in range(4):
            expected = expected * 2 + k
    assert (memory.get(x) == expected).all()
    graph.close()
    with pytest.raises(DriverError, match="closed"):
        graph.replay(stream)


def test_replays_are_in_order_whatever_their_streams(
    graphs: Any, memory: Any, stream: Any, scale_shift: Any
) -> None:
    x = memory.put(np.zeros(BLOCK, np.float32))
    step = scale_shift(x.address, 1.0, 1.0)
    graph = graphs.graph(lambda on: [step(on) for _ in range(20)] and None)
    others = [graphs.stream() for _ in range(2)]
    for turn in range(9):
        graph.replay((stream, *others)[turn % 3])
    graphs.synchronize()
    assert (memory.get(x) == 180).all()
    graph.close()
    for other in others:
        other.close()


def test_a_replay_is_in_order_with_other_work_of_its_stream(
    graphs: Any, memory: Any, scale_shift: Any
) -> None:
    x = memory.put(np.ones(BLOCK, np.float32))
    double, more = scale_shift(x.address, 2.0, 0.0), scale_shift(x.address, 1.0, 1.0)
    graph = graphs.graph(double)
    other = graphs.stream()
    graphs.synchronize()
    for _ in range(3):
        more(other)
        graph.replay(other)
    other.synchronize()
    assert (memory.get(x) == 22).all()
    graph.close()
    other.close()


def test_filling_is_part_of_a_graph(
    graphs: Any, memory: Any, stream: Any, scale_shift: Any
) -> None:
    x = memory.put(np.ones(BLOCK, np.float32))
    if not isinstance(graphs.borrow(x.address, x.nbytes), Fills):
        pytest.skip(f"{graphs.info.name} does not fill memory by itself")
    pattern = np.float32(3).tobytes()
    step = scale_shift(x.address, 2.0, 1.0)

    def record(on: Any) -> None:
        graphs.borrow(x.address, x.nbytes).fill(pattern, on)
        step(on)

    graph = graphs.graph(record)
    for _ in range(2):
        graph.replay(stream)
        assert (memory.get(x) == 7).all()
    graph.close()


def test_an_exception_while_recording_leaves_a_working_device(
    graphs: Any, memory: Any, stream: Any, scale_shift: Any
) -> None:
    x = memory.put(np.ones(BLOCK, np.float32))
    step = scale_shift(x.address, 2.0, 0.0)

    def fails(on: Any) -> None:
        step(on)
        raise KeyError("of the recording")

    with suppress(KeyError):  # a graph that is a list of launches has not recorded yet
        graphs.graph(fails).close()
    graph = graphs.graph(step)
    graph.replay(stream)
    assert (memory.get(x) == 2).all()
    graph.close()
