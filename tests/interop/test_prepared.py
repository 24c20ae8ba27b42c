"""Kernel objects and prepared launches."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import pydoc
import weakref
from typing import Any

import numpy as np
import pytest
from threads import in_threads

import xtarget
from xtarget import ArgumentError, DeviceLostError, UnknownKernelError

N = 1000


def ones(value: float = 1.0) -> Any:
    return np.full(N, value, np.float32)


# ------------------------------------------------------------------------------- kernel objects


def test_a_kernel_object_is_run_by_its_name(device: str) -> None:
    k, out = xtarget.get("add"), ones()
    assert k(ones(2), ones(3), out=out) is out
    assert (out == 5).all()
    assert (k(ones(2), ones(3)) == xtarget.run("add", ones(2), ones(3))).all()
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert (xtarget.get("sum")(rows, axis=0) == rows.sum(0)).all()


def test_its_signature_and_help_name_the_arguments() -> None:
    k = xtarget.get("softmax")
    parameters = inspect.signature(k).parameters
    names = [name.rstrip("?") for name in k.spec.inputs]
    assert list(parameters)[: len(names)] == names
    assert {*k.spec.options, "out", "device", "stream"} <= set(parameters)
    assert parameters["axis"].default == k.spec.options["axis"]
    text = pydoc.render_doc(k, renderer=pydoc.plaintext)
    assert k.spec.summary in text
    assert "prepare(" in text
    assert repr(k).startswith("<xtarget.Kernel softmax(")


def test_a_kernel_without_results_takes_no_out(device: str) -> None:
    k = xtarget.get("kv_scatter")
    assert "out" not in inspect.signature(k).parameters
    assert "out=" not in pydoc.render_doc(k, renderer=pydoc.plaintext)
    rows, pages = np.ones((1, 2, 4), np.float32), np.zeros((1, 3, 2, 4), np.float32)
    assert k(rows, rows, pages, pages.copy(), np.array([2])) is None
    assert (pages[0].sum((1, 2)) == [0, 0, 8]).all()


def test_every_kernel_has_an_object() -> None:
    for name in xtarget.catalog():
        k = xtarget.get(name)
        required = [
            p
            for p in inspect.signature(k).parameters.values()
            if p.kind is not p.KEYWORD_ONLY and p.default is p.empty
        ]
        if not k.spec.by_name:  # there, what is left out before others is given as None
            assert len(required) == k.spec.required, name


def test_an_object_is_equal_to_its_copies() -> None:
    k = xtarget.get("add")
    assert xtarget.get("add") == k == pickle.loads(pickle.dumps(k)) == copy.deepcopy(k)
    assert xtarget.get(k) is k
    assert k != xtarget.get("mul")


@pytest.mark.parametrize("wrong", ["ad", 3, None, len, b"add"])
def test_what_is_no_kernel_has_no_object(wrong: Any) -> None:
    with pytest.raises(UnknownKernelError):
        xtarget.get(wrong)


def test_a_registered_function_has_one(device: str) -> None:
    import test_user_kernels as kernels  # skips without Triton

    k = xtarget.get(kernels.axpy)
    assert k.name == "test.axpy"
    assert list(inspect.signature(k).parameters)[:3] == ["x", "y", "alpha"]
    assert (k(ones(2), ones(3), 4.0) == 11).all()
    launch = k.prepare(ones(2), ones(3), 4.0)
    assert (launch() == 11).all()
    assert (launch.update(alpha=5.0)() == 13).all()
    assert (launch.update(alpha=7)() == 17).all()  # a number of another type
    two = xtarget.get("test.minmax").prepare(np.arange(8, dtype=np.int32), 3)
    assert two.out is None
    low, high = two()
    assert (low.max(), high.min()) == (3, 3)


def test_a_function_of_two_names_or_none_has_none() -> None:
    triton = pytest.importorskip("triton")
    import test_user_kernels as kernels

    plain = triton.jit(kernels.axpy.fn)
    with pytest.raises(ArgumentError, match="not registered"):
        xtarget.get(plain)
    for name in ("test.one_of_two", "test.other_of_two"):
        same = xtarget.kernel(
            inputs=("x", "y"),
            outputs={"out": "x"},
            sizes={"n": lambda c: c.x.size},
            constants={"BLOCK": 256},
            grid=lambda c: (1,),
            name=name,
        )(plain)
        assert same is plain
    with pytest.raises(ArgumentError, match=r"test\.one_of_two and test\.other_of_two"):
        xtarget.get(plain)


# ---------------------------------------------------------------------------- prepared launches


def test_a_prepared_launch_sees_new_values(device: str) -> None:
    a, out = ones(2), ones()
    launch = xtarget.get("add").prepare(a, ones(3), out=out)
    assert launch() is out
    assert (out == 5).all()
    a[:] = 7
    launch()
    assert (out == 10).all()
    assert launch.out is out
    assert launch.device == device
    assert "float32 (1000,) of NumPy" in repr(launch)


def test_without_out_it_has_one_result(device: str) -> None:
    x = ones(2)
    launch = xtarget.get("mul").prepare(x, 3.0)
    first = launch()
    assert (first == 6).all()
    x[:] = 5
    assert launch() is first is launch.out
    assert (first == 15).all()


def test_what_a_kernel_leaves_out_is_zero_each_time(device: str) -> None:
    rows = np.ones((0, 4), np.float32)
    launch = xtarget.get("sum").prepare(rows, axis=0)
    assert (launch() == 0).all()
    launch.out[:] = 9
    assert (launch() == 0).all()


@pytest.mark.parametrize("kernel", ["softmax", "layer_norm", "sum", "matmul"])
def test_any_kernel_can_be_prepared(device: str, kernel: str) -> None:
    x = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    k = xtarget.get(kernel)
    args = [x] * k.spec.required
    if kernel == "layer_norm":
        args = [x, *([x[0].copy()] * (k.spec.required - 1))]
    launch = k.prepare(*args)
    want = np.array(k(*args))
    for _ in range(3):
        np.testing.assert_array_equal(launch(), want)


def test_arrays_on_the_device_are_launched_with(device: str) -> None:
    a, b, out = (xtarget.asarray(ones(v), device=device) for v in (1, 2, 3))
    launch = xtarget.get("add").prepare(a, b, out=out)
    assert launch() is out
    assert (out.numpy() == 3).all()
    launch.update(b=xtarget.asarray(ones(10), device=device))()
    assert (out.numpy() == 11).all()
    stream = xtarget.device(device).stream()
    launch(stream=stream)
    stream.synchronize()
    other = xtarget.get("add").prepare(a, b, out=out, stream=stream)
    assert other() is out
    stream.synchronize()
    assert (out.numpy() == 3).all()


def test_torch_tensors_are_launched_with(device: str, place: str) -> None:
    torch = pytest.importorskip("torch")
    a, b = (torch.full((N,), v, device=place) for v in (1.0, 2.0))
    out = torch.empty(N, device=place)
    version = out._version
    launch = xtarget.get("add").prepare(a, b, out=out)
    assert launch() is out
    assert out._version > version  # torch knows of it
    assert (out.cpu() == 3).all()
    launch.update(a=torch.nn.Parameter(b, requires_grad=False))()
    assert (out.cpu() == 4).all()
    a = torch.full((N,), 8.0, device=place)
    launch.update(a=a)
    a.requires_grad_()
    with pytest.raises(ArgumentError, match="requires grad"):
        launch()
    with torch.no_grad():
        launch()
    assert (out.cpu() == 10).all()
    b.untyped_storage().resize_(0)
    with torch.no_grad(), pytest.raises(ArgumentError, match="memory of b was freed or moved"):
        launch()


def test_it_keeps_its_arrays_and_no_others(device: str) -> None:
    class Kept(np.ndarray):
        """An array that a weak reference can tell of."""

    a, b = (np.full(N, 1, np.float32).view(Kept) for _ in range(2))
    first, second = weakref.ref(a), weakref.ref(b)
    launch = xtarget.get("add").prepare(a, a)
    del a
    gc.collect()
    assert first() is not None
    launch.update(a=b, b=b)
    del b
    gc.collect()
    assert first() is None
    assert second() is not None
    assert (launch() == 2).all()


def test_an_array_that_moved_is_an_error(device: str) -> None:
    a = ones()
    launch = xtarget.get("add").prepare(a, ones())
    launch()
    a.resize(100_000, refcheck=False)
    with pytest.raises(ArgumentError, match="memory of a was freed or moved"):
        launch()
    assert (launch.update(a=ones(4))() == 5).all()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"b": np.ones(N)}, "prepared as float32 .* now float64"),
        ({"b": np.ones(N + 1, np.float32)}, r"now float32 \(1001,\)"),
        ({"b": np.ones(2 * N, np.float32)[::2]}, r"strides \(2,\)"),
        ({"b": 2.0}, "now 2.0"),
        ({"b": None}, "is now None"),
        ({"c": np.ones(N, np.float32)}, "it has a, b, out"),
        ({"b": np.ones(4 * N + 4, np.uint8)[4:].view(np.float32)}, "aligned otherwise"),
    ],
)
def test_what_cannot_take_an_arrays_place(device: str, change: Any, says: str) -> None:
    out = ones()
    launch = xtarget.get("add").prepare(ones(2), ones(3), out=out)
    with pytest.raises(ArgumentError, match=says):
        launch.update(a=ones(100), **change)
    launch()
    assert (out == 5).all()  # nothing of it was taken


def test_an_out_that_overlaps_is_refused(device: str) -> None:
    memory = np.ones(2 * N, np.float32)
    k = xtarget.get("add")
    with pytest.raises(ArgumentError, match="overlaps"):
        k.prepare(memory[4 : N + 4], ones(), out=memory[:N])
    launch = k.prepare(memory[N:], ones(), out=memory[:N])
    with pytest.raises(ArgumentError, match="overlaps"):
        launch.update(a=memory[4 : N + 4])
    assert (launch() == 2).all()


@pytest.mark.parametrize(
    "args", [("x", np.ones(3)), (None, None), ([1, 2], np.ones(2)), (object(), 1.0), (np.ones(3),)]
)
def test_what_is_no_array_is_not_prepared(device: str, args: Any) -> None:
    with pytest.raises(ArgumentError):
        xtarget.get("add").prepare(*args)


def test_a_stream_of_somebody_else_is_refused(device: str) -> None:
    k = xtarget.get("add")
    a = xtarget.asarray(ones(), device=device)
    launch = k.prepare(a, a)
    for stream in ("s", object(), True, xtarget.device(device)):
        with pytest.raises(xtarget.XTargetError):
            launch(stream=stream)
        with pytest.raises(xtarget.XTargetError):
            k.prepare(a, a, stream=stream)
    assert (launch().numpy() == 2).all()


@pytest.mark.parametrize("given_out", [True, False])
def test_a_launch_takes_a_stream_alone(device: str, given_out: bool) -> None:
    launch = xtarget.get("add").prepare(ones(1), ones(2), out=ones() if given_out else None)
    wrong: list[tuple[Any, Any, str]] = [
        ((3,), {}, "3"),
        ((), {"b": 3}, "b"),
        ((None,), {}, "None"),
    ]
    for given, named, what in wrong:
        with pytest.raises(TypeError, match=f"^add: .*, but for stream=, not with {what}\\. "):
            launch(*given, **named)
    assert (launch() == 3).all()


def test_a_prepared_launch_is_of_one_process(device: str) -> None:
    launch = xtarget.get("add").prepare(ones(), ones())
    for way in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="Prepare another"):
            way(launch)


def test_threads_share_a_launch(device: str) -> None:
    x = ones(3)
    launches = [xtarget.get("mul").prepare(x, 2.0) for _ in range(4)]
    shared = xtarget.get("mul").prepare(x, 4.0)
    wrong: list[Any] = []

    def work(number: int) -> None:
        for turn in range(50):
            if not (launches[number].update(b=float(turn))() == 3 * turn).all():
                wrong.append((number, turn))
            shared()

    in_threads(work, range(4))
    assert not wrong
    assert (shared.out == 12).all()


def test_another_thread_puts_arrays_in_place_as_a_whole(device: str) -> None:
    """Whoever launches sees all changes of an update, or none."""
    launch = xtarget.get("sub").prepare(ones(5), ones(5))
    wrong: list[Any] = []
    pairs = [(ones(v), ones(v)) for v in range(1, 5)]

    def work(number: int) -> None:
        for turn in range(60):
            if number:
                if launch().any():
                    wrong.append(turn)
            else:
                a, b = pairs[turn % 4]
                launch.update(a=a, b=b)

    in_threads(work, range(2))
    assert not wrong


def test_a_launch_after_its_device_was_closed_is_an_error(device: str) -> None:
    if device.partition(":")[0] not in ("cpu", "emu"):
        pytest.skip("closing a GPU takes the memory of the other tests with it")
    launch = xtarget.get("add").prepare(ones(), ones())
    on_device = xtarget.asarray(ones(), device=device)
    other = xtarget.get("add").prepare(on_device, on_device)
    xtarget.device(device).close()
    for each in (launch, other):
        with pytest.raises(DeviceLostError, match="closed or lost"):
            each()
    assert (xtarget.get("add").prepare(ones(), ones())() == 2).all()
