"""Operators that mostly move memory: elementwise, rows, reductions, copies, scans, sorts, loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

import xtarget

from .case import Case, randn

__all__ = ["cases"]

_HALF, _SINGLE = torch.bfloat16, torch.float32


def _softmax(dtype: Any, rows: int, columns: int) -> Case:
    return Case(
        f"softmax {str(dtype).removeprefix('torch.')} {rows}x{columns}", "softmax",
        lambda: (randn(rows, columns, dtype=dtype),),
        lambda x, out=None: torch.softmax(x, -1, out=out),
        2 * rows * columns * dtype.itemsize, out=True,
        asked=1.0 if (rows, columns) == (128, 131072) else 0.98,
    )  # fmt: skip


def _elementwise() -> Iterator[Case]:
    n = 1 << 26
    one: dict[str, Callable[..., Any]] = {"exp": torch.exp, "relu": F.relu, "silu": F.silu,
                                          "gelu": F.gelu, "tanh": torch.tanh}  # fmt: skip
    for dtype in (_SINGLE, _HALF):
        label = "fp32" if dtype is _SINGLE else "bf16"
        for name, function in one.items():
            yield Case(f"{name} {label} 2^26", name, lambda dtype=dtype: (randn(n, dtype=dtype),),
                       function, 2 * n * dtype.itemsize, asked=0.98)  # fmt: skip
        yield Case(
            f"add {label} 2^26", "add",
            lambda dtype=dtype: (randn(n, dtype=dtype), randn(n, dtype=dtype)),
            torch.add, 3 * n * dtype.itemsize, out=True, asked=0.98,
        )  # fmt: skip
    yield Case("cast fp32 to bf16 2^26", "cast", lambda: (randn(n, dtype=_SINGLE),),
               lambda x: x.to(_HALF), 6 * n, options={"dtype": "bfloat16"}, asked=0.98,
               exact=lambda x: x)  # fmt: skip
    yield Case("cast bf16 to fp32 2^26", "cast", lambda: (randn(n, dtype=_HALF),),
               lambda x: x.to(_SINGLE), 6 * n, options={"dtype": "float32"},
               asked=0.98)  # fmt: skip
    yield Case("concat fp32 2 x 2^26", "concat",
               lambda: (randn(n, dtype=_SINGLE), randn(n, dtype=_SINGLE)),
               lambda x, y: torch.cat([x, y]), 16 * n, asked=0.98)  # fmt: skip
    yield Case(
        "index_select fp32 65536 of 2^17 rows of 1024", "take",
        lambda: (randn(1 << 17, 1024, dtype=_SINGLE),
                 torch.randint(0, 1 << 17, (1 << 16,), device="cuda")),
        lambda x, i: torch.index_select(x, 0, i.long()), 2 * 4 << 26, options={"axis": 0},
        exact=lambda x, i: x.index_select(0, i.long()), asked=0.98,
    )  # fmt: skip


def _norms() -> Iterator[Case]:
    rows, columns = 16384, 4096
    for dtype in (_HALF, _SINGLE):
        label = "bf16" if dtype is _HALF else "fp32"
        yield Case(
            f"layer_norm {label} {rows}x{columns}", "layer_norm",
            lambda dtype=dtype: (randn(rows, columns, dtype=dtype), randn(columns, dtype=dtype),
                                 randn(columns, dtype=dtype)),
            lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, b),
            2 * rows * columns * dtype.itemsize, asked=0.98,
        )  # fmt: skip
        yield Case(
            f"rms_norm {label} {rows}x{columns}", "rms_norm",
            lambda dtype=dtype: (randn(rows, columns, dtype=dtype), randn(columns, dtype=dtype)),
            lambda x, w: F.rms_norm(x, (x.shape[-1],), w, 1e-6),
            2 * rows * columns * dtype.itemsize, asked=0.98,
        )  # fmt: skip


def _reductions() -> Iterator[Case]:
    for power in (20, 24, 28):
        for name in ("sum", "max"):
            yield Case(
                f"{name} fp32 2^{power}", name,
                lambda power=power: (randn(1 << power, dtype=_SINGLE).abs(),),
                getattr(torch, name), 4 << power, asked=1.0,
            )  # fmt: skip
    for name in ("sum", "max", "mean"):
        function = torch.amax if name == "max" else getattr(torch, name)
        for axis in (0, 1):
            yield Case(
                f"{name} fp32 8192^2 axis {axis}", name,
                lambda: (randn(8192, 8192, dtype=_SINGLE).abs(),),
                lambda x, function=function, axis=axis: function(x, axis), 4 << 26,
                options={"axis": axis}, asked=0.98,
            )  # fmt: skip


def _order() -> Iterator[Case]:
    rows, columns = 64, 128256
    yield Case("sort fp32 64x128256", "sort", lambda: (randn(rows, columns, dtype=_SINGLE),),
               lambda x: torch.sort(x, -1).values, 8 * rows * columns, asked=1.0)  # fmt: skip
    yield Case(
        "topk(64) fp32 64x128256", "topk", lambda: (randn(rows, columns, dtype=_SINGLE),),
        lambda x: torch.topk(x, 64, -1).values, 4 * rows * columns,
        ours=lambda x, out=None: xtarget.run("topk", x, k=64)[0], asked=1.5, reuses=False,
    )  # fmt: skip


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    made = torch.compile(function, dynamic=False)
    return lambda *args: made(*args)


def _against_compiled() -> Iterator[Case]:
    """Operators of which torch.compile makes one kernel."""
    yield Case(
        "swiglu bf16 8192x14336", "silu_mul",
        lambda: (randn(8192, 14336, dtype=_HALF), randn(8192, 14336, dtype=_HALF)),
        _compiled(lambda x, y: F.silu(x) * y), 3 * 2 * 8192 * 14336,
        exact=lambda x, y: F.silu(x.double()) * y.double(), asked=1.0,
    )  # fmt: skip

    def normed(x: Any, residual: Any, weight: Any) -> Any:
        both = x + residual
        return F.rms_norm(both, (both.shape[-1],), weight, 1e-6), both

    yield Case(
        "add_rms_norm bf16 8192^2", "add_rms_norm",
        lambda: (randn(8192, 8192, dtype=_HALF), randn(8192, 8192, dtype=_HALF),
                 randn(8192, dtype=_HALF)),
        (lambda made: lambda *args: made(*args)[0])(torch.compile(normed, dynamic=False)),
        4 * 2 * 8192 * 8192,
        ours=lambda x, r, w, out=None: xtarget.run("add_rms_norm", x, r, w)[0],
        exact=lambda x, r, w: normed(x.double(), r.double(), w.double())[0],
        asked=1.0, reuses=False,
    )  # fmt: skip

    def entropy(x: Any, target: Any) -> Any:
        leaf = x.detach().requires_grad_()
        F.cross_entropy(leaf, target).backward()
        return leaf.grad

    compiled = torch.compile(lambda x, target: F.cross_entropy(x.float(), target), dynamic=False)

    def theirs(x: Any, target: Any) -> Any:
        leaf = x.detach().requires_grad_()
        (made,) = torch.autograd.grad(compiled(leaf, target), [leaf])
        return made

    one = torch.ones((), device="cuda", dtype=_HALF)

    def ours(x: Any, target: Any, out: Any = None) -> Any:
        xtarget.run("cross_entropy", x, target)
        return xtarget.run("cross_entropy_backward", one, x, target, out=out)

    yield Case(
        "cross entropy bf16 8192x128256, and its gradient", "cross_entropy",
        lambda: (randn(8192, 128256, dtype=_HALF),
                 torch.randint(0, 128256, (8192,), device="cuda")),
        theirs, 4 * 2 * 8192 * 128256, ours=ours,
        exact=lambda x, t: entropy(x.float(), t.long()), asked=1.0, allowed=5e-3,
    )  # fmt: skip


def cases() -> Iterator[Case]:
    for dtype, shape in ((_HALF, (128, 131072)), (_SINGLE, (128, 131072)), (_HALF, (4096, 32768)),
                         (_SINGLE, (4096, 32768)), (_HALF, (16384, 4096))):  # fmt: skip
        yield _softmax(dtype, *shape)
    yield from _elementwise()
    yield from _norms()
    yield from _reductions()
    for dtype in (_SINGLE, _HALF):
        yield Case(
            f"transposed copy {str(dtype).removeprefix('torch.')} 8192^2", "transpose",
            lambda dtype=dtype: (randn(8192, 8192, dtype=dtype),),
            lambda x: x.T.contiguous(), 2 * 8192**2 * dtype.itemsize, asked=2.5,
        )  # fmt: skip
    yield Case(
        "cumsum fp32 2^26", "cumsum", lambda: (randn(1 << 26, dtype=_SINGLE),),
        lambda x, out=None: torch.cumsum(x, 0, out=out), 8 << 26, out=True, asked=1.4,
    )  # fmt: skip
    yield from _order()
    yield from _against_compiled()
