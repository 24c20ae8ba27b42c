"""One call cut over several devices: the CPU, and emulated GPUs beside it."""
# ruff: noqa: F821 - the words in annotations are lengths

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulated import emulator_absent

pytest.importorskip("triton")

import triton
import triton.language as tl

import xtarget
from xtarget import ArgumentError
from xtarget._launch import split as module
from xtarget.spec import In, InOut, Out

DEVICES = ["cpu", "emu:gfx942"]
rng = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = emulator_absent()
    if absent is not None or not any(info.vendor == "cpu" for info in xtarget.devices()):
        pytest.skip(absent or "no OpenCL CPU run time")
    monkeypatch.setattr(module, "_speeds", {})


def numbers(*shape: int) -> Any:
    return rng.standard_normal(shape, dtype=np.float32)


LONG = numbers(9)
CACHES = (
    *(numbers(2, 1, 4) for _ in range(2)),
    *(numbers(3, 2, 1, 4) for _ in range(2)),
    np.arange(2),
)
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any], Any]] = [
    ("mul", (x := numbers(6, 40), y := numbers(40)), {}, x * y),
    ("add", (x := numbers(1, 40), y := numbers(5, 1)), {}, x + y),
    ("sub", (x := numbers(40, 7)[:, ::2], 2.5), {}, x - np.float32(2.5)),
    ("sum", (x := numbers(5, 3, 30),), {"axis": 2}, x.sum(2)),
    ("sum", (x := numbers(5, 3, 30),), {"axis": (1, -1)}, x.sum((1, 2))),
    ("sum", (x := numbers(5, 8), m := numbers(5, 8) > 0), {"axis": 1}, x.sum(1, where=m)),
    ("sum", (x := numbers(5, 8), m := numbers(8) > 0), {"axis": 1}, x.sum(1, where=m)),
    (
        "rms_norm",
        (x := numbers(5, 8), y := numbers(8)),
        {},
        x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * y,
    ),
    ("softmax", (x := numbers(4, 33),), {}, np.exp(x) / np.exp(x).sum(1, keepdims=True)),
    ("matmul", (x := numbers(6, 16), y := numbers(16, 5)), {}, x @ y),
    ("matmul", (x := numbers(3, 4, 16), y := numbers(3, 16, 5)), {}, x @ y),
]


@pytest.mark.parametrize(("name", "args", "options", "right"), CALLS)
def test_the_parts_make_the_whole(name: str, args: Any, options: Any, right: Any) -> None:
    found = xtarget.split(name, *args, devices=DEVICES, **options)
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)
    into = np.empty_like(found)
    assert xtarget.split(name, *args, devices=DEVICES, out=into, **options) is into
    np.testing.assert_array_equal(into, found)  # cut at the same place: no speed is known yet


def test_a_result_without_rows_is_nobodys_part() -> None:
    """Nor is one without columns, of which each has a part."""
    for shape in ((0, 3), (3, 0)):
        x, out = numbers(*shape), numbers(*shape)
        assert xtarget.split("add", x, 1.0, devices=DEVICES).shape == shape
        assert xtarget.split("softmax", x, devices=DEVICES, out=out) is out
    assert xtarget.split("sum", numbers(0, 3), devices=DEVICES, axis=1).shape == (0,)
    assert [part.shape for part in xtarget.split("topk", numbers(0, 3), k=2, devices=DEVICES)] == [
        (0, 2),
        (0, 2),
    ]


def test_parts_that_lie_on_the_devices_stay_there() -> None:
    x, weight = numbers(7, 40), numbers(40)
    parts = [xtarget.asarray(x[:3], DEVICES[0]), xtarget.asarray(x[3:], DEVICES[1])]
    weights = [xtarget.asarray(weight, device) for device in DEVICES]
    right = x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * weight
    found = xtarget.split("rms_norm", parts, weights, devices=DEVICES)
    assert [part.device for part in found] == [part.device for part in parts]
    np.testing.assert_allclose(np.concatenate(list(map(np.asarray, found))), right, rtol=1e-5)
    assert xtarget.split("mul", parts, 2.0, devices=DEVICES, out=found)[1] is found[1]
    np.testing.assert_array_equal(np.asarray(found[1]), x[3:] * np.float32(2))
    _, indices = xtarget.split("topk", parts, k=2, devices=DEVICES)
    np.testing.assert_array_equal(np.asarray(indices[1])[:, 0], x[3:].argmax(1))


@pytest.mark.parametrize("rows", [0, 1, 6, 7])
def test_parts_may_be_of_any_length(rows: int) -> None:
    x, row = numbers(7, 5), numbers(1, 5)
    parts = [xtarget.asarray(x[:rows], DEVICES[0]), xtarget.asarray(x[rows:], DEVICES[1])]
    whole = [xtarget.asarray(row, device) for device in DEVICES]
    found = xtarget.split("add", parts, whole, devices=DEVICES)
    np.testing.assert_array_equal(np.concatenate(list(map(np.asarray, found))), x + row)


def test_all_results_are_gathered() -> None:
    x = numbers(5, 40)
    values, indices = xtarget.split("topk", x, k=3, devices=DEVICES)
    np.testing.assert_array_equal(values, -np.sort(-x, 1)[:, :3])
    np.testing.assert_array_equal(np.take_along_axis(x, indices, 1), values)


def test_what_a_kernel_updates_is_cut_or_refused() -> None:
    """Each device would write a whole array of its own, or all of them the same one."""

    @xtarget.kernel(
        name="test.counted", grid="cdiv(N * M, 64)", constants={"B": 64}, elementwise=True
    )
    @triton.jit
    def counted(x: In[T, N, M], seen: InOut[T, K, M], out: Out[T, N, M], N, M, K, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        inside = i < N * M
        tl.store(out + i, tl.load(x + i, inside) + 1, inside)
        tl.store(seen + i, tl.load(seen + i, inside) + 2, inside & (i < K * M))

    x, seen = numbers(6, 5), np.zeros((6, 5), np.float32)
    with pytest.raises(ArgumentError, match="it updates seen, which has no part for each device"):
        xtarget.split("test.counted", x, seen[:1], devices=DEVICES)
    assert not seen.any()
    found = xtarget.split("test.counted", x, seen, devices=DEVICES)
    np.testing.assert_array_equal(found, x + 1)
    np.testing.assert_array_equal(seen, 2)


def test_run_says_who_takes_several_devices() -> None:
    with pytest.raises(xtarget.NoDeviceError, match=r"xtarget.split\(..., devices="):
        xtarget.run("neg", numbers(4), device=DEVICES)


def test_a_device_gets_as_much_as_it_was_fast() -> None:
    bounds = module._bounds
    assert bounds(10, [None, 3.0]) == [0, 5, 10]
    assert bounds(100, [3.0, 1.0]) == [0, 75, 100]
    assert bounds(100, [1e9, 1.0, 1e9]) == [0, 50, 51, 100]  # a row, to know its speed
    assert bounds(100, [1.0, 1e9]) == [0, 1, 100]
    assert bounds(1, [1.0, 1.0, 5.0]) == [0, 0, 0, 1]
    x = numbers(64, 8)
    for _ in range(3):
        np.testing.assert_array_equal(xtarget.split("neg", x, devices=DEVICES), -x)
    cpu, emulated = (speed for _, speed in sorted(module._speeds.items(), key=lambda i: i[0][-1]))
    assert cpu is not None
    assert emulated is not None
    assert cpu > emulated


@pytest.mark.parametrize(
    ("name", "args", "more", "message"),
    [
        ("sum", (numbers(4, 4),), {}, "its axis is None"),
        ("softmax", (numbers(4, 4),), {"axis": 0}, "its axis is 0, and the first one is what"),
        ("divmod", (numbers(4), 2), {}, "cannot be cut: its elements"),
        ("topk", (numbers(4, 4),), {"out": LONG}, "has 2 results, and split takes out= for one"),
        ("layer_norm", (numbers(4),), {}, "no rows that are apart"),
        ("flip", (numbers(4),), {}, "cannot be cut: its elements"),
        ("kv_scatter", CACHES, {}, "kv_scatter cannot be cut: it has no result"),
        ("kv_scatter", tuple([one, one] for one in CACHES), {}, "it has no result"),
        ("neg", (2.0,), {}, "no axis to cut"),
        ("neg", (numbers(4),), {"devices": "cpu"}, "give a list of names"),
        ("neg", (numbers(4),), {"devices": ["cpu", "cpu:0"]}, "named twice"),
        (
            "neg",
            (numbers(4),),
            {"out": np.empty(3, np.float32)},
            r"out has to be .*\(4,\).*, not one of shape \(3,\) and",
        ),
        ("neg", ({1, 2},), {}, "arrays of the host"),
        ("neg", ([LONG],), {}, "argument 0 has to be a list of 2 arrays, one on each device"),
        ("add", ([LONG, LONG], LONG), {}, "argument 1 has to be a list of 2 arrays"),
        ("softmax", ([numbers(2, 4), numbers(2, 5)],), {}, r"alike but along .*\[2, 5\]"),
        ("sum", ([numbers(2, 4), numbers(2, 4)],), {}, "its axis is None"),
        ("neg", ([LONG, LONG],), {"out": LONG}, "out has to be a list of 2 arrays"),
        ("neg", (LONG[1:],), {"out": LONG[:-1]}, "out shares memory"),
    ],
)
def test_what_cannot_be_cut_is_said(name: str, args: Any, more: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        xtarget.split(name, *args, **{"devices": DEVICES, **more})
