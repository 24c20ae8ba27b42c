"""Products of matrices and of arrays of any dimensions, and what is added to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xtarget.spec import KernelSpec

from .. import ahead, c_interfaces
from ..plans import einsum as einsums
from ..plans import products
from ..plans.matmul import matmul
from .references import by_torch, numpy
from .row import row
from .rules import ALL, FLOATS, NUMBERS

__all__ = ["ROWS"]

_Shape = tuple[int, ...]


def _matrices(shape: _Shape) -> Sequence[_Shape]:
    """(M, K) gives (M, K) @ (K, M); further axes in front are a batch."""
    if len(shape) < 2:
        return [shape, shape]
    return [shape, (*shape[:-2], shape[-1], shape[-2])]


def _pair(shape: _Shape) -> Sequence[_Shape]:
    """(..., M, K) and its transpose."""
    return _matrices(shape) if len(shape) > 1 else [shape, shape]


def _plain(shape: _Shape) -> tuple[int, int]:
    """The last two lengths."""
    *_, rows, columns = (1, 1, *shape)
    return rows, columns


def _of(*terms: str) -> Callable[[_Shape], Sequence[_Shape]]:
    """Examples by letters: m and k are the lengths of a matrix; n is m, b is 3."""

    def examples(shape: _Shape) -> Sequence[_Shape]:
        m, k = _plain(shape)
        lengths = {"m": m, "n": m, "k": k, "b": 3, "1": 1}
        return [tuple(lengths[letter] for letter in term) for term in terms]

    return examples


def _numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reference that calls a function of (numpy, arrays)."""

    def reference(*arrays: Any, **options: Any) -> Any:
        import numpy as np

        with np.errstate(all="ignore"):
            return function(np, *arrays, **options)

    return reference


def _added(subscripts: str) -> Callable[..., Any]:
    def reference(np: Any, c: Any, a: Any, b: Any, alpha: float = 1, beta: float = 1) -> Any:
        product = alpha * np.einsum(subscripts, a, b)
        return product + (beta * c if beta else np.zeros_like(c))

    return _numpy(reference)


def _gemm(
    np: Any, a: Any, b: Any, c: Any = None, alpha: float = 1, beta: float = 1,
    trans_a: int = 0, trans_b: int = 0,
) -> Any:  # fmt: skip
    product = alpha * ((a.T if trans_a else a) @ (b.T if trans_b else b))
    return product if c is None or not beta else product + beta * c


def _linear(turned: bool) -> Callable[..., Any]:
    def reference(torch: Any, x: Any, w: Any, bias: Any = None, activation: str = "none") -> Any:
        functional = torch.nn.functional
        y = functional.linear(x, w if turned else w.T, bias)
        if activation == "gelu_tanh":
            return functional.gelu(y, approximate="tanh")
        return y if activation == "none" else getattr(functional, activation)(y)

    return by_torch(reference)


def _quantized(np: Any, a: Any, b: Any, a_scale: Any, b_scale: Any) -> Any:
    rows = np.reshape(a_scale, (-1, 1)) * np.reshape(b_scale, (1, -1))
    return (a.astype(np.int64) @ b.astype(np.int64)) * rows.astype(np.float64)


#: One unit for each product in the worst case; random signs give about its root.
_ALL: Any = {"category": "product", "dtypes": ALL, "tolerance": (8, 64)}
_FACTORS: Any = {**_ALL, "dtypes": NUMBERS, "options": {"beta": 1, "alpha": 1}}
_BIAS: Any = {**_ALL, "dtypes": FLOATS, "options": {"activation": "none"}}
#: The most arrays that einsum takes.
_MANY = " ".join(f"x{number}{'?' if number else ''}" for number in range(8))

ROWS: tuple[KernelSpec, ...] = (
    KernelSpec(
        "matmul",
        ("a", "b"),
        matmul,
        category="linear algebra",
        summary="a @ b: matrices, vectors, and stacks of matrices that broadcast",
        dtypes=ALL,
        reference=numpy("matmul"),
        examples=_matrices,
        complete=True,
        ahead=ahead.matmul,
        c=c_interfaces.matmul(),
        aliases=("MatMul", "mm", "bmm", "mv", "gemv", "mmul", "batch_matmul", "BatchMatMul",
                 "BatchMatMulV2", "batched_gemm"),
        # one unit per product in the worst case; random signs give about its root
        tolerance=(8, 64),
    ),
    row("einsum", _MANY, einsums.einsum, "sums of products by subscripts, from the left to the "
        "right", _numpy(lambda np, *x, subscripts="ij,jk->ik": np.einsum(subscripts, *x)),
        _of("mk", "km"), options={"subscripts": "ij,jk->ik"}, **_ALL),
    row("tensordot", "a b", einsums.tensordot, "sums over axes of both: a number of last and first "
        "ones, or those of a and those of b",
        _numpy(lambda np, a, b, axes=2: np.tensordot(a, b, axes)), _of("mk", "mk"),
        "tensormmul TensorMmul",
        options={"axes": 2}, **_ALL),
    row("dot", "a b", einsums.dot, "sums over the last axis of a and the second last of b",
        numpy("dot"), _of("mk", "km"), **_ALL),
    row("vdot", "a b", einsums.vdot, "the sum of all products", numpy("vdot"), _of("mk", "mk"),
        **_ALL),
    row("inner", "a b", einsums.inner, "sums over the last axes of both", numpy("inner"),
        _of("mk", "nk"), "innerproduct", **_ALL),
    row("outer", "a b", einsums.outer, "all products of an element of a and one of b, as a matrix",
        numpy("outer"), _of("m", "k"), "ger", **_ALL),
    row("kron", "a b", einsums.kron, "a with each element replaced by its product with b",
        numpy("kron"), _of("bb", "mk"), **_ALL),
    row("trace", "x", einsums.trace, "the sum of the diagonal of two axes",
        _numpy(lambda np, x, axis1=0, axis2=1: np.trace(x, 0, axis1, axis2)), _of("mk"),
        options={"axis1": 0, "axis2": 1}, **_ALL),
    row("matrix_power", "x", products.matrix_power, "a square matrix multiplied by itself, n times",
        _numpy(lambda np, x, n=2: np.linalg.matrix_power(x, n)), _of("mm"), options={"n": 2},
        **{**_ALL, "dtypes": NUMBERS}),
    row("addmm", "c a b", products.added("mk", "kn", "mn"), "beta c + alpha (a @ b), of matrices",
        _added("mk,kn->mn"), _of("mn", "mk", "kn"), **_FACTORS),
    row("addmv", "c a b", products.added("mk", "k", "m"), "beta c + alpha (a @ b), of a matrix and "
        "a vector", _added("mk,k->m"), _of("m", "mk", "k"), **_FACTORS),
    row("addr", "c a b", products.added("m", "n", "mn"), "beta c + alpha outer(a, b)",
        _added("m,n->mn"), _of("mn", "m", "n"), **_FACTORS),
    row("baddbmm", "c a b", products.added("bmk", "bkn", "bmn"), "beta c + alpha (a @ b), of "
        "stacks of matrices", _added("bmk,bkn->bmn"), _of("bmn", "bmk", "bkn"), **_FACTORS),
    row("addbmm", "c a b", products.added("bmk", "bkn", "mn"), "beta c + alpha (the sum of the "
        "products of two stacks of matrices)", _added("bmk,bkn->mn"), _of("mn", "bmk", "bkn"),
        **_FACTORS),
    row("gemm", "a b c?", products.gemm, "alpha (a @ b) + beta c, with a or b transposed",
        _numpy(_gemm), _of("mk", "kn", "n"),
        options={"alpha": 1, "beta": 1, "trans_a": 0, "trans_b": 0},
        **{**_ALL, "dtypes": NUMBERS}),
    row("linear", "x weight bias?", products.linear("nk"), "activation(x @ weight.T + bias)",
        _linear(True), _of("mk", "nk", "n"), "fused_linear fully_connected", **_BIAS),
    row("xw_plus_b", "x weight bias?", products.linear("kn"), "activation(x @ weight + bias)",
        _linear(False), _of("mk", "kn", "n"), "dense", **_BIAS),
    row("fused_gemm_swiglu", "x gate up", products.gated, "silu(x @ gate) * (x @ up)",
        by_torch(lambda torch, x, gate, up: torch.nn.functional.silu(x @ gate) * (x @ up)),
        _of("mk", "kn", "kn"), "gated_linear", category="product", dtypes=FLOATS,
        tolerance=(64, 64)),
    row("matmul_integer", "a b", products.integers, "a @ b of 8-bit integers, in int32",
        _numpy(lambda np, a, b: a.astype(np.int32) @ b.astype(np.int32)), _of("mk", "kn"),
        "int_mm _int_mm MatMulInteger", category="product", dtypes=("int8", "uint8")),
    row("quantized_matmul", "a b a_scale b_scale", products.scaled_integers, "(a @ b) a_scale "
        "b_scale of 8-bit integers, in float32; a scale for each row of a and column of b, or one",
        _numpy(_quantized), _of("mk", "kn", "m", "n"), "scaled_int_mm",
        apart=("a_scale", "b_scale"), category="product", dtypes=("int8", "uint8", "float32"),
        tolerance=(8, 0)),
)  # fmt: skip
