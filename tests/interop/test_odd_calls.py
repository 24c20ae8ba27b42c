"""Hundreds of odd calls: each gives the right numbers, or an XTargetError in a few words."""

from __future__ import annotations

import array as array_module
import ctypes
import datetime as dt
import decimal
import enum
import fractions
import io
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xtarget
from xtarget import XTargetError

N = 6
PLAIN = np.arange(N, dtype=np.float32)


class Colour(enum.IntEnum):
    RED = 3


class Weird:
    """Raises whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name} today")

    def __repr__(self) -> str:
        raise RuntimeError("no repr today")


class Interface:
    def __init__(self, **interface: Any) -> None:
        self.__array_interface__ = interface


class CudaInterface:
    def __init__(self, interface: Any) -> None:
        self.__cuda_array_interface__ = interface


class UsmInterface:
    def __init__(self, interface: Any) -> None:
        self.__sycl_usm_array_interface__ = interface


class Deleted:
    """As a JAX array after `.delete()`."""

    def __dlpack_device__(self) -> tuple[int, int]:
        raise RuntimeError("Array has been deleted.")

    def __dlpack__(self, **_: Any) -> Any:
        raise RuntimeError("Array has been deleted.")


class Tracer:
    """As an array within jax.jit."""

    @property
    def __cuda_array_interface__(self) -> Any:
        raise AttributeError("a tracer has none")

    def __dlpack_device__(self) -> tuple[int, int]:
        raise TypeError("Abstract tracer value encountered where concrete value is expected")

    def __dlpack__(self, **_: Any) -> Any:
        raise TypeError("Abstract tracer value encountered where concrete value is expected")


class Exporter:
    """Exports what it is given, from where it says."""

    def __init__(self, capsule: Any, device: Any = (1, 0)) -> None:
        self.capsule, self.device = capsule, device

    def __dlpack_device__(self) -> Any:
        return self.device

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule() if callable(self.capsule) else self.capsule


class Quacks:
    """Has a shape and a dtype and nothing behind them."""

    shape, dtype, ndim, size = (N,), np.dtype(np.float32), 1, N


class Mine(np.ndarray):
    """A subclass of NumPy's array."""


def _read_only(values: np.ndarray) -> np.ndarray:
    values = values.copy()
    values.flags.writeable = False
    return values


def _deep(ndim: int) -> np.ndarray:
    return PLAIN.reshape((1,) * (ndim - 1) + (N,))


POINTER = PLAIN.__array_interface__["data"][0]
CUDA = {"shape": (N,), "typestr": "<f4", "data": (POINTER, False), "version": 3}

#: What may stand where an array is due.
VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "text": lambda: "three",
    "long text": lambda: "x" * 10_000,
    "bytes": lambda: b"1234",
    "bytearray": lambda: bytearray(24),
    "memoryview": lambda: memoryview(bytearray(24)),
    "array.array": lambda: array_module.array("f", range(N)),
    "ctypes array": lambda: (ctypes.c_float * N)(*range(N)),
    "ctypes pointer": lambda: ctypes.pointer(ctypes.c_float(1)),
    "list": lambda: [1.0, 2.0],
    "ragged list": lambda: [[1.0], [1.0, 2.0]],
    "tuple": lambda: (1.0, 2.0),
    "dict": lambda: {"a": 1},
    "set": lambda: {1.0},
    "range": lambda: range(N),
    "generator": lambda: (x for x in range(N)),
    "slice": lambda: slice(None),
    "Ellipsis": lambda: ...,
    "NotImplemented": lambda: NotImplemented,
    "complex": lambda: 1 + 2j,
    "Decimal": lambda: decimal.Decimal("1.5"),
    "Fraction": lambda: fractions.Fraction(1, 2),
    "date": lambda: dt.date(2020, 1, 1),
    "path": lambda: pathlib.Path("x"),
    "file": lambda: io.BytesIO(b"1"),
    "function": lambda: len,
    "module": lambda: np,
    "class": lambda: np.ndarray,
    "own class": lambda: xtarget.Array,
    "dtype": lambda: np.dtype("f4"),
    "object": object,
    "weird": Weird,
    "quacks": Quacks,
    "exception": lambda: ValueError("x"),
    "device": lambda: xtarget.device(),
    "layout": lambda: xtarget.spec.ArrayType("float32", (N,), (1,)),
    # numbers
    "int": lambda: 2,
    "negative": lambda: -2,
    "bool": lambda: True,
    "float": lambda: 2.5,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "enum": lambda: Colour.RED,
    "2**31": lambda: 2**31,
    "2**63": lambda: 2**63,
    "2**64": lambda: 2**64,
    "2**70": lambda: 2**70,
    "2**1000": lambda: 2**1000,
    "2**1024 - 1": lambda: 2**1024 - 1,
    "2**1024": lambda: 2**1024,
    "10**5000": lambda: 10**5000,
    "-10**5000": lambda: -(10**5000),
    **{
        f"numpy.{t}": lambda t=t: np.dtype(t).type(2)
        for t in ("bool", "int8", "uint8", "int64", "uint64", "float16", "float64", "longdouble")
    },
    "numpy.bfloat16": lambda: ml_dtypes.bfloat16(2),
    "numpy.complex64": lambda: np.complex64(1j),
    "numpy.str_": lambda: np.str_("x"),
    "numpy.bytes_": lambda: np.bytes_(b"x"),
    "numpy.void": lambda: np.void(b"abcd"),
    "numpy.datetime64": lambda: np.datetime64("2020-01-01"),
    "numpy.timedelta64": lambda: np.timedelta64(3, "s"),
    "numpy.float8": lambda: ml_dtypes.float8_e5m2(1),
    # NumPy arrays
    **{
        f"array of {t}": lambda t=t: np.arange(N).astype(t)
        for t in ("bool", "int8", "uint16", "uint32", "int64", "uint64", "float16", "float64")
    },
    "array of bfloat16": lambda: np.arange(N).astype(ml_dtypes.bfloat16),
    "array of float8": lambda: np.arange(N).astype(ml_dtypes.float8_e5m2),
    "array of int4": lambda: np.arange(N).astype(ml_dtypes.int4),
    "array of longdouble": lambda: np.arange(N).astype(np.longdouble),
    "array of complex": lambda: np.arange(N).astype(complex),
    "array of objects": lambda: np.array([1, "2", None, [], {}, 3.0], object),
    "array of text": lambda: np.array(["a"] * N),
    "array of bytes": lambda: np.array([b"a"] * N),
    "array of dates": lambda: np.arange(N).astype("M8[s]"),
    "array of durations": lambda: np.arange(N).astype("m8[s]"),
    "array of void": lambda: np.zeros(N, "V4"),
    "structured": lambda: np.zeros(N, [("a", "f4"), ("b", "i4")]),
    "a field": lambda: np.ones(N, [("a", "f4"), ("b", "f4")])["a"],
    "a field off its elements": lambda: np.ones(N, [("a", "f4"), ("b", "i1")])["a"],
    "a field unaligned": lambda: np.ones(N, [("b", "i1"), ("a", "f4")])["a"],
    "big endian": lambda: PLAIN.astype(">f4"),
    "record array": lambda: np.rec.array(np.zeros(N, [("a", "f4")])),
    "masked": lambda: np.ma.masked_array(PLAIN, PLAIN > 2),
    "masked, none": lambda: np.ma.masked_array(PLAIN),
    "mvoid": lambda: np.ma.masked_array(np.zeros(2, [("a", "f4")]))[0],
    "masked constant": lambda: np.ma.masked,
    "matrix": lambda: np.asmatrix(PLAIN),
    "subclass": lambda: PLAIN.view(Mine),
    "read-only": lambda: _read_only(PLAIN),
    "from bytes": lambda: np.frombuffer(PLAIN.tobytes(), np.float32),
    "unaligned": lambda: np.zeros(4 * N + 1, np.uint8)[1:].view(np.float32),
    "0 dimensions": lambda: np.array(2.0, np.float32),
    "1 element": lambda: np.ones(1, np.float32),
    "empty": lambda: np.ones(0, np.float32),
    "empty, 2 dimensions": lambda: np.ones((0, N), np.float32),
    "8 dimensions": lambda: _deep(8),
    "32 dimensions": lambda: _deep(32),
    "backwards": lambda: PLAIN[::-1],
    "every other": lambda: np.arange(2 * N, dtype=np.float32)[::2],
    "broadcast": lambda: np.broadcast_to(np.float32(2), (N,)),
    "huge broadcast": lambda: np.broadcast_to(np.float32(2), (2**40, N)),
    "shared elements": lambda: np.lib.stride_tricks.as_strided(PLAIN, (3, 2), (4, 4)),
    "other length": lambda: np.ones(N + 1, np.float32),
    "column": lambda: np.ones((N, 1), np.float32),
    "ours": lambda: xtarget.asarray(PLAIN),
    "ours, strided": lambda: xtarget.asarray(np.arange(2 * N, dtype=np.float32))[::2],
    "ours, empty": lambda: xtarget.asarray(np.ones(0, np.float32)),
    # by protocol
    "interface": lambda: Interface(version=3, shape=(N,), typestr="<f4", data=PLAIN.tobytes()),
    "interface, nothing": lambda: Interface(),
    "interface, wrong": lambda: Interface(version=3, shape="x", typestr="<q9", data=None),
    "interface, masked": lambda: Interface(
        version=3, shape=(N,), typestr="<f4", data=PLAIN.tobytes(), mask=PLAIN > 2
    ),
    "interface, short": lambda: Interface(version=3, shape=(N,), typestr="<f4", data=b"12"),
    "interface, no dict": lambda: type("I", (), {"__array_interface__": 7})(),
    "cuda": lambda: CudaInterface(CUDA),
    "cuda, no dict": lambda: CudaInterface(7),
    "cuda, nothing": lambda: CudaInterface({}),
    "cuda, no data": lambda: CudaInterface({**CUDA, "data": None}),
    "cuda, null": lambda: CudaInterface({**CUDA, "data": (0, False)}),
    "cuda, masked": lambda: CudaInterface({**CUDA, "mask": PLAIN}),
    "cuda, text": lambda: CudaInterface({**CUDA, "typestr": "<U4"}),
    "cuda, stream": lambda: CudaInterface({**CUDA, "stream": "x"}),
    "usm": lambda: UsmInterface({**CUDA, "syclobj": "level_zero:gpu:0"}),
    "usm, nothing": lambda: UsmInterface({}),
    "deleted": Deleted,
    "tracer": Tracer,
    "dlpack": lambda: Exporter(PLAIN.__dlpack__),
    "dlpack, no capsule": lambda: Exporter(7),
    "dlpack, None": lambda: Exporter(None),
    "dlpack, no device": lambda: Exporter(PLAIN.__dlpack__, None),
    "dlpack, complex": lambda: Exporter(np.ones(N, complex).__dlpack__),
    "dlpack, elsewhere": lambda: Exporter(PLAIN.__dlpack__, (99, 0)),
    "dlpack class": lambda: Exporter,
}
#: Those whose every element can be visited.
SMALL = [name for name in VALUES if "huge" not in name]
FINE = {  # what has to work as the other of two arguments
    "int", "negative", "bool", "float", "nan", "inf", "enum", "2**31", "2**63", "2**64", "2**70",
    "2**1000", "2**1024 - 1", "numpy.bool", "numpy.int8", "numpy.uint8", "numpy.int64",
    "numpy.uint64", "numpy.float16", "numpy.float64", "numpy.bfloat16", "array of bool",
    "array of int8", "array of uint16", "array of uint32", "array of int64", "array of uint64",
    "array of float16", "array of float64", "array of bfloat16", "a field", "matrix", "subclass",
    "read-only", "from bytes", "0 dimensions", "1 element", "8 dimensions", "32 dimensions",
    "backwards", "every other", "broadcast", "column", "ours", "ours, strided", "interface",
    "dlpack",
}  # fmt: skip


def _host(value: Any) -> Any:
    if isinstance(value, xtarget.Array):
        return value.numpy()
    if isinstance(value, Interface):
        return np.asarray(value)
    if isinstance(value, Exporter):
        return PLAIN
    if isinstance(value, int) and abs(value) > 2**64:
        return np.float64(value) if abs(value) < 2**1023 else np.float32("inf")
    return value


def _expected(value: Any) -> Any:
    with np.errstate(all="ignore"):
        host = _host(value)
        if isinstance(host, np.float64) and not isinstance(value, np.float64):
            return PLAIN + np.float32(host)
        return PLAIN + host


def _one_or_two_sentences(error: XTargetError) -> None:
    text = str(error)
    assert text.endswith((".", ")")), text
    assert len(text) < 900, text
    assert "\n" not in text, text


def _tried(call: Callable[[], Any]) -> Any:
    """The result of a call; None where it is refused as it should be."""
    try:
        return call()
    except XTargetError as error:
        _one_or_two_sentences(error)
        return None


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


@pytest.mark.sample(3)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", VALUES)
def test_in_the_place_of_an_argument(device: str, name: str) -> None:
    for _ in range(2):  # the second time its class is known
        value = VALUES[name]()
        result = _tried(lambda v=value: xtarget.run("add", PLAIN, v))
        assert (result is not None) or name not in FINE
        if result is not None:
            np.testing.assert_array_equal(
                np.asarray(_host(result)).astype(np.float64), np.asarray(_expected(value), float)
            )
        _tried(lambda v=value: xtarget.run("add", v, v))
        if name in SMALL:
            _tried(lambda v=value: xtarget.run("sum", v))
        _tried(lambda v=value: xtarget.run("layer_norm", PLAIN, v))
        _tried(lambda v=value: xtarget.run("where", v, PLAIN, 0.0))
        _tried(lambda v=value: xtarget.compile("relu", v, target="cpu"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", VALUES)
def test_in_the_place_of_out(device: str, name: str) -> None:
    for _ in range(2):
        out = VALUES[name]()
        result = _tried(lambda o=out: xtarget.run("relu", PLAIN, out=o))
        if out is not None and result is not None:
            assert result is out
            np.testing.assert_array_equal(np.asarray(_host(out)), PLAIN)
    np.testing.assert_array_equal(PLAIN, np.arange(N))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SMALL)
def test_in_the_place_of_a_stream_a_device_an_option_or_a_kernel(device: str, name: str) -> None:
    value = VALUES[name]()
    ours = xtarget.asarray(PLAIN)
    # a number is taken for CUDA's own handle, which is an address that nobody can check
    handle = hasattr(type(value), "__index__") and device.startswith("nvidia")
    on_streams = (
        lambda: xtarget.run("relu", PLAIN, stream=value),
        lambda: xtarget.run("relu", ours, stream=value),
    )
    for call in (
        *(() if handle else on_streams),
        lambda: xtarget.run("relu", PLAIN, device=value),
        lambda: xtarget.run("relu", ours, device=value),
        lambda: xtarget.run("sum", PLAIN, axis=value),
        lambda: xtarget.run("sum", PLAIN, keepdims=value),
        lambda: xtarget.run("layer_norm", PLAIN, eps=value),
        lambda: xtarget.run("relu", PLAIN, nothing=value),
        lambda: xtarget.run(value, PLAIN),
        lambda: xtarget.run(value),
        lambda: xtarget.compile("relu", PLAIN, target=value),
        lambda: xtarget.compile(value, PLAIN, target="cpu"),
        lambda: xtarget.device(value),
        lambda: xtarget.asarray(PLAIN, value),
        lambda: xtarget.asarray(ours, value),
    ):
        _tried(call)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SMALL)
def test_what_asarray_takes_comes_back(device: str, name: str) -> None:
    value = VALUES[name]()
    array = _tried(lambda: xtarget.asarray(value))
    if array is not None:
        assert isinstance(array, xtarget.Array)
        host = _host(value)
        expected = PLAIN if isinstance(host, Exporter) else np.asarray(host)
        np.testing.assert_array_equal(array.numpy().astype(float), expected.astype(float))
