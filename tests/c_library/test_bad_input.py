"""Wrong input of callers in C: one sentence each, and nothing is launched."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from libxtarget import (
    BAD_ARGUMENT,
    BAD_BUNDLE,
    NOT_IN_BUNDLE,
    NOT_TRUSTED,
    OPENCL,
    Argument,
    Device,
    Failed,
    Kernel,
    Library,
    Option,
    Tensor,
    argument,
    needs_compiler_and_opencl,
)

pytestmark = needs_compiler_and_opencl

FLOAT32 = 11
NO_DRIVER, OUT_OF_MEMORY = 6, 8


@pytest.fixture
def device(library: Library) -> Iterator[Device]:
    made = Device(library)
    yield made
    made.close()


@pytest.fixture(params=["first", "again"])
def relu(
    library: Library, device: Device, path: Path, request: pytest.FixtureRequest
) -> Iterator[Kernel]:
    """`again`: a right call of the same lengths was served before."""
    bundle = library.open(path)
    made = Kernel(device, bundle, "relu", "float32")
    if request.param == "again":
        made(np.arange(-4, 4, dtype="float32"))
    yield made
    made.release()
    library.close(bundle)


class Call:
    """A call of relu, one thing of which is wrong. `right` members are arrays of 8 float32."""

    def __init__(self) -> None:
        self.x, self.y = np.arange(-4, 4, dtype="float32"), np.full(8, 7, "float32")
        self.kept: list[Any] = []

    def tensor(self, array: Any, **wrong: Any) -> Tensor:
        values = {"data": array.ctypes.data, "dtype": FLOAT32, "ndim": 1, "shape": (8,), **wrong}
        for name in ("shape", "strides"):
            if values.get(name) is not None:
                self.kept.append((ctypes.c_int64 * len(values[name]))(*values[name]))
                values[name] = ctypes.cast(self.kept[-1], ctypes.POINTER(ctypes.c_int64))
        return Tensor(**values)


def status(
    kernel: Kernel, args: Any, outs: Any, counts: tuple[int, int] | None = None, **other: Any
) -> None:
    """Call by raw words."""
    many = counts or (len(args), len(outs))
    given = None if args is None else (Argument * max(len(args), 1))(*args)
    made = None if outs is None else (Tensor * max(len(outs), 1))(*outs)
    raw, stream = other.get("raw", kernel.raw), other.get("stream", kernel.device.stream)
    code = kernel.library.c.xtarget_kernel_call(
        raw, stream, given, ctypes.c_size_t(many[0]), made, ctypes.c_size_t(many[1])
    )
    kernel.library.check(code)


@pytest.mark.sample(2, each=("wrong", "place"))
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"data": None}, "has elements, and no address"),
        ({"ndim": -1}, "has -1 dimensions; an array has 0 to 16"),
        ({"ndim": 99}, "has 99 dimensions; an array has 0 to 16"),
        ({"shape": None}, "has no shape, and 1 dimension"),
        ({"shape": (-8,)}, "has a dimension of -8 elements"),
        ({"shape": (2**31,) * 3, "ndim": 3}, "has more elements than 64 bits count"),
        ({"strides": (2**62,)}, "reaches beyond the address space"),
        ({"dtype": 99}, "has the dtype 99, which is none of xtarget.h"),
        ({"dtype": -1}, "has the dtype -1"),
        ({"device_type": 2}, "lies in memory of another kind"),
        ({"odd": 1}, "is not aligned to its elements of 4 bytes"),
    ],
)
@pytest.mark.parametrize("place", ["argument 1 (x)", "output 1"])
def test_an_array(relu: Kernel, wrong: dict[str, Any], words: str, place: str) -> None:
    call = Call()
    if wrong.get("odd"):
        array = call.x if place != "output 1" else call.y
        wrong = {"data": array.ctypes.data + 1, "shape": (4,)}
    arrays = [call.tensor(call.x), call.tensor(call.y)]
    arrays[place == "output 1"] = call.tensor((call.x, call.y)[place == "output 1"], **wrong)
    with pytest.raises(Failed, match=f"^{place.replace('(', '[(]').replace(')', '[)]')} {words}"):
        status(relu, [argument(arrays[0])], arrays[1:])
    assert (call.y == 7).all()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"shape": (4,)}, r"output 1 of relu is float32\(4\), and the result is float32\(8\)"),
        ({"shape": (16,)}, r"is float32\(16\), and the result is float32\(8\)"),
        ({"shape": (8, 1), "ndim": 2}, r"is float32\(8, 1\), and the result is float32\(8\)"),
        ({"dtype": 12}, r"is float64\(8\), and the result is float32\(8\)"),
        ({"strides": (0,)}, "elements of output 1 may share memory"),
    ],
)
def test_an_output_that_is_another(relu: Kernel, wrong: dict[str, Any], words: str) -> None:
    call = Call()
    out = np.full(16, 7, "float64")
    with pytest.raises(Failed, match=words) as caught:
        status(relu, [argument(call.x)], [call.tensor(out, **wrong)])
    assert caught.value.status == BAD_ARGUMENT
    assert (out == 7).all()


def test_a_call(relu: Kernel) -> None:
    call = Call()
    x, y = argument(call.x), call.tensor(call.y)
    for given, other, words in (
        (([x], [y]), {"raw": None}, "xtarget_kernel_call needs a kernel"),
        (([x], [y]), {"stream": ctypes.c_void_p()}, "OpenCL has no default stream"),
        ((None, [y], (1, 1)), {}, "arguments is NULL, and there are 1"),
        (([x], None, (1, 1)), {}, "needs a tensor for each output"),
        (([x], [y], (2**40, 1)), {}, "up to 64 arguments, not 1099511627776"),
        (([x], [y], (1, 2**40)), {}, "up to 64 outputs, not 1099511627776"),
        (([Argument(7)], [y]), {}, "argument 1 is of the kind 7, which is none"),
        (([x], []), {}, "has 1 output for these arguments, not the 0"),
    ):
        with pytest.raises(Failed, match=words) as caught:
            status(relu, *given, **other)
        assert caught.value.status == BAD_ARGUMENT
    assert (call.y == 7).all()
    status(relu, [x], [y])  # right once more
    relu.device.synchronize()
    assert list(call.y) == [0, 0, 0, 0, 0, 1, 2, 3]


def test_a_kernel_outlives_its_bundle_and_device(library: Library, path: Path) -> None:
    device, bundle, x = Device(library), library.open(path), np.arange(-4, 4, dtype="float32")
    relu = Kernel(device, bundle, "relu", "float32")
    library.close(bundle)
    device.close()
    assert list(relu(x)) == [0, 0, 0, 0, 0, 1, 2, 3]
    relu.release()


@pytest.mark.parametrize(
    ("name", "dtype", "options", "words", "code"),
    [
        (None, b"float32", (), "needs a bundle, a device, a name", BAD_ARGUMENT),
        (b"", b"float32", (), "the name of the kernel is empty", BAD_ARGUMENT),
        (b"relu", b"flaot32", (), "flaot32 is no dtype; there are bool, int8", BAD_ARGUMENT),
        (b"relu", b"", (), '"" is no dtype', BAD_ARGUMENT),
        (b"\x1b[1mrelu\x7f", b"float32", (), r"has no \?\[1mrelu\? of float32", NOT_IN_BUNDLE),
        (b"relu", b"float32", ((None, b"1"),), "has no name or no value", BAD_ARGUMENT),
        (b"add", b"float32", ((b"axis", b"1"),), "without options only", NOT_IN_BUNDLE),
        (b"sum", b"float32", ((b"axis", b"1"),) * 2, "axis of sum is given twice", BAD_ARGUMENT),
        (b"sum", b"float32", ((b"a", b"1"),) * 65, "up to 64 options, not 65", BAD_ARGUMENT),
    ],
)
def test_a_kernel(
    library: Library, device: Device, path: Path,
    name: Any, dtype: Any, options: Any, words: str, code: int,
) -> None:  # fmt: skip
    bundle, made = library.open(path), ctypes.c_void_p()
    given = (Option * max(len(options), 1))(*[Option(*one) for one in options])
    with pytest.raises(Failed, match=words) as caught:
        library.check(
            library.c.xtarget_kernel_get(
                bundle, device.raw, name, dtype, given, ctypes.c_size_t(len(options)),
                ctypes.byref(made),
            )
        )  # fmt: skip
    assert caught.value.status == code
    assert not made
    library.close(bundle)


def test_a_bundle(library: Library, path: Path, tmp_path: Path) -> None:
    made, garbage = ctypes.c_void_p(), tmp_path / "keys"
    garbage.write_text("no key\n")
    for name, trust, words, code in (
        (None, b"", "needs a path and a place", BAD_ARGUMENT),
        (b"", b"", "needs a path and a place", BAD_ARGUMENT),
        (bytes(tmp_path), b"", "it is no regular file", BAD_BUNDLE),
        (b"/dev/zero", b"", "it is no regular file", BAD_BUNDLE),
        (bytes(tmp_path / "none"), b"", "none cannot be opened: No such file", BAD_BUNDLE),
        (b"x" * 100_000, b"", "x cannot be opened: File name too long", BAD_BUNDLE),
        (bytes(path), b"/none.pem", "the key file /none.pem cannot be read", NOT_TRUSTED),
        (bytes(path), bytes(garbage), "it is not signed, and .*keys asks for a", NOT_TRUSTED),
    ):
        with pytest.raises(Failed, match=words) as caught:
            library.check(library.c.xtarget_bundle_open(name, trust, ctypes.byref(made)))
        assert caught.value.status == code
    whole = path.read_bytes()
    for size, words in (
        (0, "it is empty"),
        (10, "it has 10 bytes, less than a header"),
        (len(whole) - 1, r"it has \d+ bytes and was written with"),
    ):
        with pytest.raises(Failed, match=words):
            library.check(
                library.c.xtarget_bundle_open_memory(
                    whole, ctypes.c_size_t(size), b"", ctypes.byref(made)
                )
            )
    assert not made


def test_a_device(library: Library, device: Device) -> None:
    c, made = library.c, ctypes.c_void_p()
    for call, words, wanted in (
        (lambda: c.xtarget_device_open(99, 0, ctypes.byref(made)), "needs a driver", BAD_ARGUMENT),
        (lambda: c.xtarget_device_open(OPENCL, -1, ctypes.byref(made)), "as -1 is", BAD_ARGUMENT),
        (lambda: c.xtarget_device_open(OPENCL, 99, ctypes.byref(made)), "number 99", NO_DRIVER),
        (lambda: c.xtarget_device_in(OPENCL, None, None, ctypes.byref(made)), "needs a context", 1),
        (lambda: c.xtarget_device_stream(None, None), "needs a device", BAD_ARGUMENT),
        (
            lambda: c.xtarget_device_allocate(
                device.raw, ctypes.c_size_t(2**62), ctypes.byref(made)
            ),
            "no 4611686018427387904 bytes of memory",
            OUT_OF_MEMORY,
        ),
        (
            lambda: c.xtarget_device_copy(device.raw, None, None, ctypes.c_size_t(2), 1),
            "a copy of 2 bytes needs two addresses",
            BAD_ARGUMENT,
        ),
    ):
        with pytest.raises(Failed, match=words) as caught:
            library.check(call())
        assert caught.value.status == wanted
    assert not made
