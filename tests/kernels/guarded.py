"""Run kernels on the CPU with every buffer against a page that nobody may touch.

    python guarded.py KERNEL:DTYPE...

Each kernel runs twice, with all its arrays (inputs, outputs, temporaries) ending where a forbidden
page begins, and beginning where one ends. A single byte read or written outside of an array ends
this process by SIGSEGV; the last line printed says where. Results are compared with NumPy.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from operators import sample
from oracle import DTYPES, FLOATS, INTEGERS, check

import xtarget
from xtarget.targets.cpu.device import CpuDevice
from xtarget.targets.cpu.memory import CpuBuffer

_PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]

BINARY = ("add", "sub", "mul", "div", "maximum")
UNARY = ("relu", "gelu", "exp")
ROWS = ("softmax", "layer_norm", "rms_norm")
FLOAT_ONLY = ("gelu", *ROWS)
#: With indices far outside of what they are for.
INDEXED = ("take", "embedding", "gather", "gather_nd", "scatter_add", "scatter_nd_update")
KERNELS = (*BINARY, "where", *UNARY, "sum", "max", *ROWS, "matmul", *INDEXED)


def place(nbytes: int, at_end: bool) -> int:
    """Address of memory with a forbidden page right after (`at_end`) or right before it. Never
    given back: the address stays forbidden around it.
    """
    inside = max(1, -(-nbytes // _PAGE)) * _PAGE
    private_anonymous = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    base = _libc.mmap(None, inside + 2 * _PAGE, 0, private_anonymous, -1, 0)
    assert base not in (None, ctypes.c_void_p(-1).value), "mmap failed"
    read_write = mmap.PROT_READ | mmap.PROT_WRITE
    assert _libc.mprotect(base + _PAGE, inside, read_write) == 0
    ctypes.memset(base + _PAGE, 0xA5, inside)
    return base + _PAGE + (inside - nbytes if at_end else 0)


def guarded(array: Any, at_end: bool) -> Any:
    """A copy of an array in such memory, its elements in the same order."""
    if array.flags.f_contiguous and not array.flags.c_contiguous:
        return guarded(array.T, at_end).T
    address = place(array.nbytes, at_end)
    memory = (ctypes.c_char * array.nbytes).from_address(address)
    copy = np.frombuffer(memory, array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def guard_allocations(at_end: Callable[[], bool]) -> None:
    """The device's own memory, for temporaries, is of that kind too. It has to be aligned, which
    leaves up to 15 bytes before the page.
    """

    def allocate(self: CpuDevice, raw: Any, nbytes: int) -> CpuBuffer:
        whole = -(-nbytes // 16) * 16
        return CpuBuffer(place(whole, at_end()), nbytes, self.where, self._retired)

    CpuDevice._allocate = allocate  # type: ignore[method-assign]


def calls(name: str, dtype: str) -> list[tuple[list[Any], dict[str, Any]]]:
    """Arguments and options: odd sizes, whole and broken tiles."""
    if name == "matmul":
        return [
            ([sample(dtype, m, k), sample(dtype, k, n, seed=1)], {})
            for m, k, n in ((13, 33, 9), (64, 32, 32), (1, 1, 1), (33, 257, 3), (35, 65, 41))
        ]
    if name in INDEXED:
        return _indexed(name, dtype)
    if name in ("sum", "max"):
        return [
            *(([sample(dtype, 7, size)], {"axis": 1}) for size in (1, 77, 1024, 1025)),
            ([sample(dtype, 77, 5)], {"axis": 0}),
            ([sample(dtype, 70_001)], {}),
        ]
    if name in ROWS:
        weights = {"softmax": 0, "layer_norm": 2, "rms_norm": 1}[name]
        return [
            (
                [
                    sample(dtype, rows, size),
                    *(sample(dtype, size, seed=seed + 1) for seed in range(weights)),
                ],
                {},
            )
            for rows, size in ((7, 77), (3, 1), (2, 1024), (3, 9_001))
        ]
    result: list[tuple[list[Any], dict[str, Any]]] = []
    for shape in ((1,), (7,), (1000,), (1024,), (1025,), (33, 65)):
        count = 2 if name in BINARY else 1
        values = [sample(dtype, *shape, seed=seed) for seed in range(count)]
        if name == "where":
            values = [sample("bool", *shape), values[0], sample(dtype, *shape, seed=1)]
        if name == "exp" and dtype in INTEGERS:
            values[0] = values[0] // 10
        result.append((values, {}))
        if len(shape) == 2 and name != "where":  # another order of the elements
            result.append(([values[0].T, *values[1:]] if count == 1 else values, {}))
    return result


def _indexed(name: str, dtype: str) -> list[tuple[list[Any], dict[str, Any]]]:
    x = sample(dtype, 9, 77)
    far = np.array([8, 9, -1, -9, -10, 2**31, -(2**31) - 1, 2**62, -(2**63)])
    whole = np.resize(far, (9, 77))
    if name == "gather_nd":
        return [([x, np.stack([far, far[::-1]], -1)], {}), ([x, far[:, None]], {"mode": "zero"})]
    if name == "scatter_nd_update":
        return [([x, far[:, None], sample(dtype, 9, 77, seed=1)], {})]
    if name == "scatter_add":
        return [([x, whole, sample(dtype, 9, 77, seed=1)], {"axis": axis}) for axis in (0, 1)]
    if name == "embedding":
        return [([far, x], {})]
    index = far if name == "take" else whole
    return [([x, index], {"axis": axis, "mode": mode})
            for axis in (0, 1) for mode in ("clip", "wrap")]  # fmt: skip


def cases() -> list[str]:
    """KERNEL:DTYPE of the whole library."""
    return [
        f"{name}:{dtype}"
        for name in KERNELS
        for dtype in (FLOATS if name in FLOAT_ONLY else DTYPES)
        if dtype != "bool" or name not in ("sub", "relu", "scatter_add")
    ]


def main(wanted: list[str]) -> None:
    """Run the cases, saying each before it starts."""
    at_end = True
    device = xtarget.device("cpu:0").info.name
    guard_allocations(lambda: at_end)
    warnings.simplefilter("ignore")
    for case in wanted:
        name, _, dtype = case.partition(":")
        for at_end in (True, False):
            for args, options in calls(name, dtype):
                shapes = " ".join("x".join(map(str, a.shape)) for a in args)
                where = "end" if at_end else "start"
                print(f"{case} {shapes} {options or ''} guarded at the {where}", flush=True)
                out = guarded(xtarget.run(name, *args, device=device, **options), at_end)
                ctypes.memset(out.ctypes.data, 0xA5, out.nbytes)
                inputs = [guarded(a, at_end) for a in args]
                check(name, *inputs, out=out, device=device, **options)
    print(f"all {len(wanted)} cases", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
