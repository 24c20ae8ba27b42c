"""The compiled core makes the calls that Python has made before, and gives what Python gives."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from typing import Any

import numpy as np
import pytest
from core_calls import KINDS, TWIN, check_while_forgotten, host, hot, of_kind
from hypothesis import given, settings
from hypothesis import strategies as st

import xtarget
from xtarget import ArgumentError
from xtarget._devices import registry
from xtarget._launch import native as launching_native


@pytest.mark.parametrize("scalar", ["float16", "float32", "float64", "int8", "int64", "uint64"])
@pytest.mark.usefixtures("a_cpu")
def test_numbers_of_numpy_are_the_cores_too(core: Any, scalar: str) -> None:
    number = np.dtype(scalar).type
    for dtype in ("float32", "int32", "float16"):
        a = np.arange(1, 13).astype(dtype)
        assert hot(core, "mul", a, number(3), device="cpu") == 2
        for value in (2, 5):
            made = xtarget.run("mul", a, number(value), device="cpu")
            wanted = TWIN("mul", a, number(value), device="cpu")
            assert made.dtype == wanted.dtype
            np.testing.assert_array_equal(made, wanted)
    with pytest.raises(ArgumentError, match="out is np"):
        xtarget.run("mul", a, a, out=number(3), device="cpu")


@pytest.mark.usefixtures("a_cpu")
def test_numbers_of_numpy_that_are_too_large_are_pythons(core: Any) -> None:
    a = np.arange(3.0)
    assert hot(core, "add", a, np.uint64(5), device="cpu") == 2
    before = core.statistics()[0]
    assert xtarget.run("add", a, np.uint64(2**63 + 2048), device="cpu")[0] == 2.0**63 + 2048
    assert core.statistics()[0] == before


@pytest.mark.parametrize("given_out", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_call_that_comes_again_is_the_cores(
    core: Any, device: str, kind: str, given_out: bool
) -> None:
    a = of_kind(kind, np.arange(12, dtype=np.float32), device)
    b = of_kind(kind, np.full(12, 2, np.float32), device)
    out = of_kind(kind, np.zeros(12, np.float32), device)
    staged = kind == "NumPy" and not xtarget.device(device).info.host_memory
    named = {"out": out} if given_out else {}
    made = hot(core, "mul", a, b, **named)
    assert made == (0 if staged else 2)  # copies to a device are Python's
    result = xtarget.run("mul", a, b, **named)
    assert (result is out) == given_out
    np.testing.assert_array_equal(host(result), np.arange(12) * 2)


ARRAYS = st.tuples(
    st.sampled_from(["float32", "float64", "int32", "int8", "bool"]),
    st.lists(st.integers(1, 7), min_size=1, max_size=3),
    st.sampled_from(["whole", "every second", "turned", "broadcast"]),
    st.integers(0, 3),
)


def lay(spec: Any, kind: str, device: str) -> Any:
    """An array of a dtype and shape that lies in memory in a way of its own."""
    dtype, shape, way, offset = spec
    values = np.random.default_rng(len(shape)).integers(0, 2, (*shape[:-1], 2 * shape[-1] + 4))
    array = of_kind(kind, values.astype(dtype), device)[..., offset:]
    if way == "every second" and kind != "xtarget":
        array = array[..., : 2 * shape[-1] : 2]
    else:
        array = array[..., : shape[-1]]
    if way == "turned" and kind != "torch":
        array = array.T
    if way == "broadcast" and kind == "NumPy":
        array = np.broadcast_to(array[..., :1], array.shape)
    return array


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None)
@given(spec=ARRAYS, other=st.one_of(st.integers(-3, 3), st.floats(-2, 2), st.booleans()))
def test_core_and_python_give_the_same(kind: str, spec: Any, other: Any) -> None:
    device = xtarget.default_device().name
    a = lay(spec, kind, device)
    if a.dtype in (bool, getattr(sys.modules.get("torch"), "bool", bool)):
        other = bool(other)
    expected = host(TWIN("maximum", a, other))
    for _ in range(3):
        np.testing.assert_array_equal(host(xtarget.run("maximum", a, other)), expected)
    out = TWIN("maximum", a, other)
    for _ in range(3):
        assert xtarget.run("maximum", a, other, out=out) is out
    np.testing.assert_array_equal(host(out), expected)


@pytest.mark.parametrize("kind", ["NumPy", "torch"])
def test_calls_on_a_stream_of_the_callers_are_the_cores(core: Any, device: str, kind: str) -> None:
    on = xtarget.device(device)
    staged = kind == "NumPy" and not on.info.host_memory
    with contextlib.closing(on.stream()) as stream:
        for n in (12, 33, 4097):  # the second and third are served by the class of the first
            a = of_kind(kind, np.arange(n, dtype=np.float32), device)
            out, expected = (of_kind(kind, np.zeros(n, np.float32), device) for _ in range(2))
            made = hot(core, "mul", a, 3.0, out=out, device=device, stream=stream)
            assert made == (0 if staged else 2)
            assert xtarget.run("mul", a, 3.0, out=out, device=device, stream=stream) is out
            TWIN("mul", a, 3.0, out=expected, device=device, stream=stream)
            stream.synchronize()
            np.testing.assert_array_equal(host(out), host(expected))
            np.testing.assert_array_equal(host(out), np.arange(n, dtype=np.float32) * 3)
        before = core.statistics()[0]
        made = xtarget.run("mul", a, 3.0, device=device, stream=stream)
        assert core.statistics()[0] == before  # where memory of a new result is free is Python's
        stream.synchronize()
        np.testing.assert_array_equal(host(made), host(expected))


@pytest.mark.parametrize("stream", ["s", object(), True])
@pytest.mark.usefixtures("a_cpu")
def test_a_stream_that_is_none_is_refused_where_the_call_is_known(core: Any, stream: Any) -> None:
    a, out = np.ones(12, np.float32), np.zeros(12, np.float32)
    assert hot(core, "add", a, 1.0, out=out, device="cpu") == 2
    messages = []
    for run in (xtarget.run, TWIN):
        out[:] = 0
        with pytest.raises(xtarget.XTargetError, match="stream") as refused:
            run("add", a, 1.0, out=out, device="cpu", stream=stream)
        messages.append(str(refused.value))
        assert not out.any()
    assert messages[0] == messages[1]


@pytest.mark.usefixtures("a_cpu")
def test_arrays_whose_library_cannot_be_told_of_a_stream_are_pythons_to_keep(core: Any) -> None:
    a, out = np.ones(12, np.float32), np.zeros(12, np.float32)
    device = xtarget.device("cpu")
    told: list[bool] = []

    class Call:
        synchronous, kept = False, [a]

        def hold(self, args: Any, outputs: Any, stream: Any, *, explicit: bool) -> list[Any]:
            told.append(explicit)
            return self.kept

    call: Any = Call()
    call.device = device
    with contextlib.closing(device.stream()) as stream:
        assert launching_native._on(call, stream, (a,), out) is None
        call.kept = []
        assert launching_native._on(call, stream, (a,), out) is stream
        call.synchronous, call.kept = True, [a]
        assert launching_native._on(call, stream, (a,), out) is stream
    assert told == [True, True]  # what is complete when it returns needs nobody to be told


@pytest.mark.usefixtures("a_cpu")
def test_options_are_told_apart(core: Any) -> None:
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    for _ in range(4):
        assert xtarget.run("sum", a, axis=0).shape == (4,)
        assert xtarget.run("sum", a, axis=1).shape == (3,)
        assert xtarget.run("sum", a, axis=1, keepdims=True).shape == (3, 1)
        assert xtarget.run("sum", a).shape == ()
        assert xtarget.run("sum", a, axis=(0, 1), keepdims=True).shape == (1, 1)
        assert xtarget.run("sum", a, axis=[1]).shape == (3,)
        assert xtarget.run("sum", a, axis=(0,)).shape == (4,)
        assert xtarget.run("cast", a, dtype=np.float64).dtype == np.float64
        assert xtarget.run("cast", a, dtype=np.int32).dtype == np.int32
    assert hot(core, "sum", a, axis=(0, 1), device="cpu") == 2
    assert hot(core, "sum", a, axis=[-1], device="cpu") == 2
    assert hot(core, "cast", a, dtype=np.float64, device="cpu") == 2
    assert core.words("zeros", shape=(64,)) is None  # shapes may be new in each call


def test_a_new_result_of_our_own_arrays_is_in_order_with_their_stream(
    core: Any, device: str
) -> None:
    a = of_kind("xtarget", np.arange(300, dtype=np.float32), device)
    assert hot(core, "mul", a, a) == 2
    stream = xtarget.device(device).stream()
    a.stream = stream
    before = core.statistics()[0]
    result = xtarget.run("mul", a, a)  # of the default stream, which waits for the other one
    assert core.statistics()[0] == before
    np.testing.assert_array_equal(result.numpy(), np.arange(300, dtype=np.float32) ** 2)


def test_names_that_a_program_has_made_are_the_same_call(core: Any, device: str) -> None:
    if not xtarget.device(device).info.host_memory:
        pytest.skip(f"{device} copies the host's arrays, which is Python's")
    x = np.ones((3, 4), np.float32)
    before = core.statistics()
    for _ in range(40):
        name, mode = "".join(("ge", "lu")), "".join(("ta", "nh"))
        made = xtarget.run(name, x, approximate=mode)
        np.testing.assert_array_equal(made, xtarget.run("gelu", x, approximate="tanh"))
    after = core.statistics()
    assert after[0] - before[0] > 70
    assert after[2:] == (1, 1)


def test_options_in_other_libraries_words_are_the_cores_too(core: Any) -> None:
    if xtarget.default_device().vendor != "cpu":
        pytest.skip("NumPy's arrays are copied to other devices, which Python does")
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    for n in range(2):
        x = a[n:]
        assert hot(core, "sum", x, dim=0, keepdim=True) == 2
        np.testing.assert_array_equal(xtarget.run("sum", x, dim=0, keepdim=True), x.sum(0)[None])
        np.testing.assert_array_equal(xtarget.run("sum", x, dim=1, keepdim=True), x.sum(1)[:, None])
        np.testing.assert_array_equal(xtarget.run("sum", x, dim=0), x.sum(0))


@pytest.mark.filterwarnings("error")
def test_a_way_to_compile_is_no_option_to_the_core() -> None:
    a = np.ones(8, np.float32)
    for _ in range(5):
        np.testing.assert_array_equal(xtarget.run("mul", a, a, compile="async"), a)


def test_what_is_refused_is_refused_when_it_is_known(core: Any, device: str) -> None:
    a = np.ones(64, np.float32)
    x = xtarget.asarray(a, device=device)
    z = xtarget.run("add", x, x)
    hot(core, "add", x, x, out=z)
    whole = xtarget.asarray(np.ones(96, np.float32), device=device)
    hot(core, "add", whole[:64], x, out=z)
    with pytest.raises(ArgumentError, match="out overlaps argument 1"):
        xtarget.run("add", whole[:64], x, out=whole[16:80])
    with pytest.raises(ArgumentError, match="axes"):
        xtarget.run("add", x, x, out=z, axes=3)
    with pytest.raises(TypeError):
        xtarget.run()
    with pytest.raises(xtarget.UnknownKernelError):
        xtarget.run("addd", x, x, out=z)


def test_observers_see_calls_that_are_known(core: Any) -> None:
    a = np.ones(64, np.float32)
    assert hot(core, "exp", a) in (0, 2)
    seen: list[str] = []
    with xtarget.hooks.add(exit=lambda launch: seen.append(launch.kernel)):
        xtarget.run("exp", a)
    xtarget.run("exp", a)
    assert seen == ["exp"]


def test_a_changed_device_is_heeded(
    core: Any, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = np.ones(64, np.float32)
    hot(core, "add", a, a)
    monkeypatch.setenv("XTARGET_DEVICE", "nvidia:77")
    with pytest.raises(xtarget.NoDeviceError):
        xtarget.run("add", a, a)
    monkeypatch.setenv("XTARGET_DEVICE", device)
    np.testing.assert_array_equal(xtarget.run("add", a, a), 2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_prepared_launch_is_the_cores(core: Any, device: str, kind: str) -> None:
    a, b, other = (of_kind(kind, np.full(64, n, np.float32), device) for n in (1, 2, 5))
    out = of_kind(kind, np.zeros(64, np.float32), device)
    launch = xtarget.get("add").prepare(a, b, out=out)
    staged = kind == "NumPy" and not xtarget.device(device).info.host_memory
    before = core.statistics()[0]
    for _ in range(5):
        assert launch() is out
    assert core.statistics()[0] - before == (0 if staged else 5)
    np.testing.assert_array_equal(host(out), 3)
    launch.update(b=other)
    assert launch() is out
    np.testing.assert_array_equal(host(out), 6)
    assert launch(stream=None) is out
    with pytest.raises(TypeError):
        launch(3)
    with pytest.raises(TypeError):
        launch(streams=None)
    counts = [sys.getrefcount(one) for one in (a, b, out)]
    again = xtarget.get("add").prepare(a, b, out=out)
    again()
    del again
    gc.collect()
    assert [sys.getrefcount(one) for one in (a, b, out)] <= counts


def test_the_loss_of_another_device_slows_no_launch_for_good(core: Any, device: str) -> None:
    a, out = (xtarget.asarray(np.ones(64, np.float32), device=device) for _ in range(2))
    launch = xtarget.get("add").prepare(a, a, out=out)
    for lost in registry.on_lost:
        lost("fake:0")
    before = core.statistics()[0]
    for _ in range(3):
        assert launch() is out
    assert core.statistics()[0] - before == 2  # the first one looks whether its device is there
    np.testing.assert_array_equal(host(out), 2)


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("kind", KINDS)
def test_calls_leave_nothing_behind(core: Any, device: str, kind: str) -> None:
    a, b, out = (of_kind(kind, np.ones(64, np.float32), device) for _ in range(3))
    hot(core, "add", a, b, out=out)
    for turn in range(2000):
        xtarget.run("add", a, b, out=out)
        if turn % 100 == 0:
            xtarget.device(device).synchronize()
    counts = [sys.getrefcount(one) for one in (a, b, out)]
    before = resident()
    for turn in range(100_000 if kind == "torch" else 20_000):
        xtarget.run("add", a, b, out=out)
        if turn % 100 == 0:  # what waits to run takes memory of the run time's
            xtarget.device(device).synchronize()
    assert resident() - before < 1 << 20
    gc.collect()  # a device that copies makes cycles of its own
    assert [sys.getrefcount(one) for one in (a, b, out)] <= counts


def test_threads_share_what_is_known_while_it_is_forgotten(core: Any, device: str) -> None:
    arrays = [np.full(64 + number, number, np.float32) for number in range(4)]
    outs = [np.empty_like(a) for a in arrays]

    def right(number: int, turn: int) -> bool:
        xtarget.run("add", arrays[number], turn, out=outs[number])
        return bool((outs[number] == number + turn).all())

    check_while_forgotten(right, range(400), 50)
