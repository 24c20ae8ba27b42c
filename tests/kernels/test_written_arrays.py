"""A kernel's writes mean the same on every device: those that use the host's memory in place,
and those that arrays are copied to and from."""

from __future__ import annotations

import pickle
import runpy
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

import triton
import triton.language as tl

import xtarget
from xtarget._compile.declared import UndeclaredStoreError
from xtarget._kernels import libraries
from xtarget.spec import Out

N = 300


def kernel(**declared: Any) -> Any:
    given = {"sizes": {"n": lambda c: c.x.size}, "constants": {"BLOCK": 64}}
    return xtarget.kernel(**{**given, "grid": lambda c: (-(-c.n // c.BLOCK),), **declared})


@kernel(inputs=("x", "cache"), updates=("cache",), outputs={"out": "x"}, name="written.update")
@triton.jit
def update(x, cache, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    old = tl.load(cache + i, mask=m)
    tl.store(cache + i, old + tl.load(x + i, mask=m), mask=m & (i % 2 == 0))
    tl.store(out + i, old, mask=m)


@kernel(inputs=("x", "cache"), updates=("cache",), outputs={}, name="written.only_update")
@triton.jit
def only_update(x, cache, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(cache + i, tl.load(x + i, mask=i < n), mask=i < n)


@kernel(inputs=("x",), outputs={"out": "x"}, name="written.partly")
@triton.jit
def partly(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=(i < n) & (i % 3 == 0))


COUNTS = lambda c: ((3,), "int32")  # noqa: E731


@kernel(inputs=("x",), outputs={"out": COUNTS}, name="written.atomics")
@triton.jit
def atomics(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + i % 3, 1, mask=i < n)


@kernel(inputs=("x",), outputs={"out": Out(COUNTS, init=0)}, name="written.from_zero")
@triton.jit
def from_zero(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + i % 3, 1, mask=i < n)


@kernel(
    inputs=("x",),
    outputs={
        "a": Out("x", init=-1.5),
        "b": Out(lambda c: (c.x.shape, "int64"), init=(1 << 40) + 3),
        "c": Out(lambda c: (c.x.shape, "bfloat16"), init=2),
        "d": Out(lambda c: (c.x.shape, "uint8"), init=255),
    },
    name="written.inits",
)
@triton.jit
def inits(x, a, b, c, d, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = (i < n) & (i % 2 == 0)
    value = tl.load(x + i, mask=m)
    tl.store(a + i, value, mask=m)
    tl.store(b + i, value, mask=m)
    tl.store(c + i, value, mask=m)
    tl.store(d + i, value, mask=m)


@kernel(inputs=("x",), outputs={"out": "x"}, name="written.read_first")
@triton.jit
def read_first(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(out + i, mask=m) + tl.load(x + i, mask=m), mask=m)


def arrays() -> tuple[Any, Any]:
    return np.arange(N, dtype=np.float32), np.full(N, 7, np.float32)


def place(array: Any, where: str, device: str) -> Any:
    return array if where == "host" else xtarget.asarray(array.copy(), device=device)


def read(array: Any) -> Any:
    return array if isinstance(array, np.ndarray) else array.numpy()


PLACES = [("host", "host"), ("device", "device"), ("device", "host"), ("host", "device")]


@pytest.mark.parametrize(("first", "second"), PLACES)
def test_an_input_that_is_written_in_place(device: str, first: str, second: str) -> None:
    x, cache = arrays()
    expected = np.where(np.arange(N) % 2 == 0, cache + x, cache)
    x, written = place(x, first, device), place(cache, second, device)
    out = xtarget.run("written.update", x, written, device=device)
    np.testing.assert_array_equal(read(out), np.full(N, 7, np.float32))
    np.testing.assert_array_equal(read(written), expected)
    assert xtarget.run("written.only_update", x, written, device=device) is None
    np.testing.assert_array_equal(read(written), np.arange(N, dtype=np.float32))


@pytest.mark.parametrize(("first", "second"), PLACES)
def test_a_partly_written_out_keeps_its_other_elements(
    device: str, first: str, second: str
) -> None:
    x, old = arrays()
    expected = np.where(np.arange(N) % 3 == 0, x, old)
    out = place(old, second, device)
    result = xtarget.run("written.partly", place(x, first, device), out=out, device=device)
    assert result is out
    np.testing.assert_array_equal(read(out), expected)


@pytest.mark.parametrize(("first", "second"), PLACES)
def test_atomics_start_from_the_content_of_out(device: str, first: str, second: str) -> None:
    x = place(arrays()[0], first, device)
    out = place(np.array([4, 8, 12], np.int32), second, device)
    xtarget.run("written.atomics", x, out=out, device=device)
    np.testing.assert_array_equal(read(out), [104, 108, 112])
    xtarget.run("written.from_zero", x, out=out, device=device)
    np.testing.assert_array_equal(read(out), [100, 100, 100])


@pytest.mark.parametrize("where", ["host", "device"])
def test_a_new_output_shows_no_old_memory(device: str, where: str) -> None:
    x = place(arrays()[0], where, device)
    for dirt in range(4):  # memory that the next results may get
        del_me = xtarget.run("add", x, 1000.0 + dirt, device=device)
        read(del_me)
        del del_me
        result = xtarget.run("written.read_first", x, device=device)
        np.testing.assert_array_equal(read(result), np.arange(N, dtype=np.float32))
        counts = xtarget.run("written.atomics", x, device=device)
        np.testing.assert_array_equal(read(counts), [100, 100, 100])


@pytest.mark.parametrize("where", ["host", "device"])
def test_a_new_output_is_zero_where_it_is_not_written(device: str, where: str) -> None:
    x = place(arrays()[0], where, device)
    expected = np.where(np.arange(N) % 3 == 0, np.arange(N), 0)
    for dirt in range(4):
        del_me = xtarget.run("add", x, 1000.0 + dirt, device=device)
        read(del_me)
        del del_me
        result = xtarget.run("written.partly", x, device=device)
        np.testing.assert_array_equal(read(result), expected)


@kernel(
    inputs=("x",), outputs={"out": lambda c: ((50,), "int32")}, complete=True, name="written.all"
)
@triton.jit
def all_written(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, n, mask=i < 50)


@pytest.mark.parametrize("where", ["host", "device"])
def test_without_blocks_nothing_is_written_and_no_old_memory_is_shown(
    device: str, where: str
) -> None:
    """Not even where the kernel writes every element in each launch that it has."""
    none = place(np.empty(0, np.float32), where, device)
    for dirt in range(4):
        ones = place(np.ones(50, np.float32), where, device)
        del_me = xtarget.run("add", ones, 1.0 + dirt, device=device)
        read(del_me)
        del del_me
        result = xtarget.run("written.all", none, device=device)
        np.testing.assert_array_equal(read(result), np.zeros(50, np.int32))
    for at in ("host", "device"):
        out = place(np.full(50, 7, np.int32), at, device)
        xtarget.run("written.all", none, out=out, device=device)
        np.testing.assert_array_equal(read(out), np.full(50, 7, np.int32))
    x = place(arrays()[0], where, device)
    result = xtarget.run("written.all", x, device=device)
    np.testing.assert_array_equal(read(result), np.full(50, N, np.int32))


@pytest.mark.parametrize("where", ["host", "device"])
def test_outputs_begin_as_declared(device: str, where: str) -> None:
    x = place(arrays()[0], where, device)
    even = np.arange(N) % 2 == 0
    value = np.arange(N) % 128
    a, b, c, d = (
        read(o) for o in xtarget.run("written.inits", place_small(x, value), device=device)
    )
    for result, init in ((a, -1.5), (b, (1 << 40) + 3), (c, 2), (d, 255)):
        np.testing.assert_array_equal(
            result.astype(np.float64), np.where(even, value, init).astype(np.float64)
        )


def place_small(like: Any, value: Any) -> Any:
    """The values beside the array that stands for the place."""
    values = value.astype(np.float32)
    return values if isinstance(like, np.ndarray) else xtarget.asarray(values, device=like.device)


def test_views_are_written_where_they_lie(device: str) -> None:
    """A host array with gaps is copied to the device and back without them."""
    x, _ = arrays()
    whole = np.full((N, 2), 7, np.float32)
    strided = xtarget.kernel(
        inputs=("x", "cache"),
        updates=("cache",),
        outputs={},
        sizes={"n": lambda c: c.x.size, "step": lambda c: c.cache.strides[0]},
        constants={"BLOCK": 64},
        grid=lambda c: (-(-c.n // c.BLOCK),),
        strided=True,
        name="written.strided",
    )
    strided(into_strides)
    xtarget.run("written.strided", x, whole[:, 1], device=device)
    np.testing.assert_array_equal(whole[:, 1], x)
    np.testing.assert_array_equal(whole[:, 0], np.full(N, 7, np.float32))


@triton.jit
def into_strides(x, cache, n, step, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(cache + i * step, tl.load(x + i, mask=i < n), mask=i < n)


def test_what_is_updated_is_written_and_alone(device: str) -> None:
    x, cache = arrays()
    cache.flags.writeable = False
    with pytest.raises(xtarget.ArgumentError, match="cache is read-only"):
        xtarget.run("written.update", x, cache, device=device)
    with pytest.raises(xtarget.ArgumentError, match="overlaps argument"):
        xtarget.run("written.update", x, x, device=device)


class Copies:
    """Offers a copy of its elements, new each time it is asked, as an image of Pillow's does."""

    def __init__(self) -> None:
        self.values = np.zeros(N, np.float32)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        self.last = self.values.copy()
        return self.last.__array_interface__


class Offers:
    """Offers the memory that it has."""

    def __init__(self) -> None:
        self.values = np.zeros(N, np.float32)
        self.__array_interface__ = self.values.__array_interface__


def test_what_offers_a_copy_of_itself_is_not_written_to(device: str) -> None:
    x, _ = arrays()
    for _ in range(2):
        with pytest.raises(xtarget.ArgumentError, match="out is a Copies that offers new memory"):
            xtarget.run("add", x, 1.0, out=Copies(), device=device)
        with pytest.raises(xtarget.ArgumentError, match="cache is a Copies that offers new memory"):
            xtarget.run("written.update", x, Copies(), device=device)
    np.testing.assert_array_equal(xtarget.run("add", Copies(), x, device=device), x)  # read only
    out, cache = Offers(), Offers()
    assert xtarget.run("add", x, 1.0, out=out, device=device) is out
    np.testing.assert_array_equal(out.values, x + 1)
    xtarget.run("written.update", x, cache, device=device)
    np.testing.assert_array_equal(cache.values, np.where(np.arange(N) % 2 == 0, x, 0))


# --------------------------------------------------------------------------- undeclared stores


@triton.jit
def to_input(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, 0.0, mask=i < n)
    tl.store(x + i, 1.0, mask=i < n)


@triton.jit
def atomic_to_input(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, 0.0, mask=i < n)
    tl.atomic_add(x, 1.0)


@triton.jit
def in_a_loop(x, out, n, BLOCK: tl.constexpr):
    at_x = x + tl.arange(0, BLOCK)
    at_out = out + tl.arange(0, BLOCK)
    for _ in range(n):
        tl.store(at_out, tl.load(at_x))
        if n > 3:
            at_x += BLOCK
        at_out += BLOCK
    while n > 0:
        n -= 1
        at_x += 1
        tl.store(at_x, 0.0)


@triton.jit
def chosen(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(tl.where(n > i, out + i, x + i), 1.0)


@triton.jit(noinline=True)
def helper(pointer, value):
    tl.store(pointer, value)
    return pointer + 1


@triton.jit
def in_a_callee(x, out, n, BLOCK: tl.constexpr):
    helper(helper(out, 1.0), 2.0)
    helper(x, 3.0)


@triton.jit
def as_integer(x, out, n, BLOCK: tl.constexpr):
    tl.store(out, 1.0)
    address = x.to(tl.int64) + 4 * n
    tl.store(address.to(tl.pointer_type(tl.float32)), 2.0)


@triton.jit
def by_descriptor(x, out, n, BLOCK: tl.constexpr):
    tl.store(out, 1.0)
    tl.make_tensor_descriptor(x, [n], [1], [BLOCK]).store([0], tl.zeros((BLOCK,), tl.float32))


@pytest.mark.parametrize(
    "function",
    [to_input, atomic_to_input, in_a_loop, chosen, in_a_callee, as_integer, by_descriptor],
    ids=lambda function: function.__name__,
)
def test_a_store_to_what_is_not_declared(function: Any) -> None:
    name = f"written.wrong.{function.__name__}"
    layout = xtarget.spec.ArrayType("float32", (N,), (1,))
    told = r"stores to x \(line test_written_arrays.py:\d+\).*updates=\(\"x\",\)"
    for _ in range(2):  # compiled, and from the cache
        kernel(inputs=("x",), outputs={"out": "x"}, name=name)(function)
        with pytest.warns(RuntimeWarning, match=told) as caught:
            xtarget.compile(name, layout, target="nvidia:sm_90")
        assert Path(caught[0].filename) == Path(__file__)
        xtarget.compile(name, layout, target="nvidia:sm_90")  # warned once
    kernel(inputs=("x",), updates=("x",), outputs={"out": "x"}, name=f"{name}.right")(function)
    xtarget.compile(f"{name}.right", layout, target="nvidia:sm_90")


STORES = """
import triton, triton.language as tl, xtarget
from NEIGHBOUR import put

class Proxy:
    def __getattr__(self, name):
        raise RuntimeError("there is no request")

proxy = Proxy()

@triton.jit
def helper(x):
    tl.store(x, 1.0)  # in_helper's

@xtarget.kernel(inputs=("x",), outputs={"out": "x"}, grid="1", name="written.own")
@triton.jit
def own(x, out):
    tl.store(out, NUMBER)
    tl.store(x, 1.0)  # own's

@xtarget.kernel(inputs=("x",), outputs={"out": "x"}, grid="1", name="written.in_helper")
@triton.jit
def in_helper(x, out):
    tl.store(out, NUMBER)
    helper(x)

@xtarget.kernel(inputs=("x",), outputs={"out": "x"}, grid="1", name="written.elsewhere")
@triton.jit
def elsewhere(x, out):
    tl.store(out, NUMBER)
    put(x)
"""
PUT = """
import triton, triton.language as tl

@triton.jit
def put(x):
    tl.store(x, 1.0)
"""


def test_the_line_of_a_store_is_known_without_compiling_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = STORES.replace("NUMBER", repr(time.time()))  # not compiled before
    for moved, compiles in (("", 1), ("# moved\n", 0)):
        file = tmp_path / f"stores{compiles}" / "stores.py"
        file.parent.mkdir()
        neighbour = f"neighbour_{compiles}"
        file.write_text(moved + text.replace("NEIGHBOUR", neighbour))
        (file.parent / f"{neighbour}.py").write_text(PUT)
        monkeypatch.syspath_prepend(file.parent)
        runpy.run_path(str(file))
        for name in ("own", "in_helper"):
            before = xtarget.cache_stats().compiles
            with pytest.warns(RuntimeWarning, match="stores to x") as said:
                xtarget.compile(f"written.{name}", np.zeros(1, np.float32), target="nvidia:sm_90")
            line = file.read_text().splitlines()[said[0].lineno - 1]
            assert line.endswith(f"{name}'s")
            assert xtarget.cache_stats().compiles - before == compiles
        with pytest.warns(RuntimeWarning, match=rf"x \(line {neighbour}.py:6\)") as said:
            xtarget.compile("written.elsewhere", np.zeros(1, np.float32), target="nvidia:sm_90")
        assert (said[0].filename, said[0].lineno) == (str(file), 1)


def test_what_is_not_declared_is_updated_as_if_it_were(device: str) -> None:
    kernel(inputs=("x",), outputs={"out": "x"}, name="written.undeclared")(to_input)
    x = np.zeros(N, np.float32)
    with pytest.warns(RuntimeWarning, match="stores to x"):
        xtarget.run("written.undeclared", x, device=device)
    assert (x == 1).all()
    x[:] = 0
    xtarget.run("written.undeclared", x, device=device)
    assert (x == 1).all()
    x.flags.writeable = False
    with pytest.raises(xtarget.ArgumentError, match="x is read-only"):
        xtarget.run("written.undeclared", x, device=device)


def test_a_read_only_array_is_not_written_by_the_call_that_warns(device: str) -> None:
    kernel(inputs=("x",), outputs={"out": "x"}, name="written.first")(to_input)
    x = np.zeros(N, np.float32)
    x.flags.writeable = False
    with (
        pytest.warns(RuntimeWarning, match="stores to x"),
        pytest.raises(xtarget.ArgumentError, match="x is read-only"),
    ):
        xtarget.run("written.first", x, device=device)
    assert not x.any()


def test_a_copy_is_not_updated_by_the_call_that_warns(device: str) -> None:
    for name, call in (
        ("written.copy", lambda name: xtarget.run(name, Copies(), device=device)),
        ("written.kept", lambda name: xtarget.get(name).prepare(Copies(), device=device)),
    ):
        kernel(inputs=("x",), outputs={"out": "x"}, name=name)(to_input)
        with (
            pytest.warns(RuntimeWarning, match="stores to x"),
            pytest.raises(xtarget.ArgumentError, match="x is a Copies that offers new memory"),
        ):
            call(name)


def test_no_implementation_of_what_others_rely_on_writes_more(device: str) -> None:
    for impl in ("", "other"):
        kernel(inputs=("x",), outputs={"out": "x"}, name="written.relied", impl=impl)(to_input)
    libraries.rely_on_updates("written.relied")
    x = np.zeros(N, np.float32)
    with pytest.raises(xtarget.CompileError, match="stores to x"):
        xtarget.run("written.relied", x, impl="other", device=device)
    assert not x.any()


def test_its_error_passes_from_process_to_process() -> None:
    error = UndeclaredStoreError("f", "kernels.py", {"x_ptr": "kernels.py:3"}, ("x",))
    found = pickle.loads(pickle.dumps(error))
    assert (type(found), str(found), found.stores) == (type(error), str(error), error.stores)
    assert "stores to x_ptr (line kernels.py:3)" in str(found)
    assert 'updates=("x",)' in str(found)


@triton.jit
def by_distance(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n), i < n)
    distance = (x.to(tl.int64) - out.to(tl.int64)) // 4
    tl.store(out + distance, 7.0)


def test_a_store_by_the_distance_of_two_pointers(device: str) -> None:
    """Where it goes nobody can tell for certain; it means the same on every device."""
    kernel(inputs=("x",), outputs={"out": "x"}, name="written.distance")(by_distance)
    x = np.arange(64, dtype=np.float32)
    before = x.copy()
    out = xtarget.run("written.distance", x, device=device)
    np.testing.assert_array_equal(out, before)
    assert x[0] == 7
    np.testing.assert_array_equal(x[1:], before[1:])


@triton.jit
def harmless(x, out, n, BLOCK: tl.constexpr):
    """Pointers side by side in loops, branches, callees: only `out` is written."""
    i = tl.arange(0, BLOCK)
    at_x, at_out = x + i, out + i
    if n == 0:
        return
    for step in range(n):
        if step % 2 == 0:
            at_x += BLOCK
            at_out += BLOCK
        else:
            at_x += 2 * BLOCK
            at_out += 2 * BLOCK
        tl.store(at_out, tl.load(at_x))
    tl.atomic_max(out, tl.load(x))
    tl.store(out + tl.load(x).to(tl.int32), 1.0)
    helper(out, tl.load(x))


def test_no_store_is_seen_where_there_is_none() -> None:
    kernel(inputs=("x",), outputs={"out": "x"}, name="written.harmless")(harmless)
    layout = xtarget.spec.ArrayType("float32", (N,), (1,))
    for target in ("nvidia:sm_90", "amd:gfx942", "cpu"):
        (artifact,) = xtarget.compile("written.harmless", layout, target=target)
        found = {p.name: p.access for p in artifact.parameters if p.hidden is None}
        assert found == {"x": "r", "out": "wa", "n": None}, target
