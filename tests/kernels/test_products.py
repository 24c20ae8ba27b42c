"""Products of arrays of any dimensions, what is added to them, and einsum, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from operators import sample
from oracle import check
from refusals import refused

import xtarget


def f(*shape: int, seed: int = 0, dtype: str = "float32") -> Any:
    return sample(dtype, *shape, seed=seed)


def _pairs(*shapes: tuple[int, ...]) -> list[Any]:
    return [f(*shape, seed=seed) for seed, shape in enumerate(shapes)]


#: Subscripts and shapes; those of the long tier have other strides of the same kernels.
SHORT = [
    ("ij,jk", [(5, 7), (7, 9)]),
    ("bqhd,bkhd->bhqk", [(2, 5, 3, 8), (2, 4, 3, 8)]),
    ("...ij,...jk->...ik", [(2, 3, 4), (4, 5)]),
    ("ij->ji", [(5, 6)]),
    ("ii->i", [(5, 5)]),
    ("iij->j", [(3, 3, 4)]),
    ("ij,ij->ij", [(5, 6), (5, 6)]),
    ("ijk,kji->", [(3, 4, 5), (5, 4, 3)]),
    ("ij,kj->k", [(3, 4), (5, 4)]),
    ("abc,cd,be->ade", [(3, 4, 5), (5, 6), (4, 7)]),
    ("i,ij,j->", [(4,), (4, 5), (5,)]),
    ("ij,jk->ik", [(3, 1), (4, 5)]),
    ("ij,jk->ik", [(3, 0), (0, 5)]),
]
LONG = [
    ("bij,bkj->bki", [(3, 5, 7), (3, 9, 7)]),
    ("bhqd,bhkd->bhqk", [(2, 3, 5, 8), (2, 3, 4, 8)]),
    ("ijk,ikj->i", [(3, 4, 5), (3, 5, 4)]),
    ("ij->", [(5, 6)]),
    ("i,j->ij", [(5,), (6,)]),
    ("i,i->", [(5,), (5,)]),
    ("...->...", [(3, 4)]),
    ("ij,jk,kl->il", [(3, 4), (4, 5), (5, 6)]),
    ("ab...,b...->a...", [(2, 3, 4, 5), (3, 4, 5)]),
]


@pytest.mark.large
@pytest.mark.parametrize(
    ("subscripts", "shapes"), SHORT + [pytest.param(*c, marks=pytest.mark.long) for c in LONG]
)
def test_einsum(device: str, subscripts: str, shapes: Any) -> None:
    check("einsum", *_pairs(*shapes), subscripts=subscripts, device=device)


def test_einsum_of_transposed_and_reversed_views(device: str) -> None:
    a, b = f(7, 5, 3).transpose(2, 0, 1), f(9, 7, 3)[::-1, :, ::-1].T
    check("einsum", a, b, subscripts="bij,bik->bjk", device=device)


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16"])
def test_einsum_of_three_in_other_dtypes(device: str, dtype: str) -> None:
    """Half types are rounded once, at the end; bool is or of and."""
    arrays = [f(*shape, seed=seed, dtype=dtype) for seed, shape in enumerate(_CHAIN)]
    check("einsum", *arrays, subscripts="ij,jk,kl->il", device=device)


@pytest.mark.parametrize("p", [0, 1, 2.0, 2.5, np.inf])
def test_distances_of_rows(device: str, p: float) -> None:
    x, y = f(2, 1, 5, 4).swapaxes(2, 3), f(3, 6, 5, seed=1)[:, ::-1]
    check("cdist", x, y, p=p, device=device)
    check("pdist", x[0, 0], p=p, device=device)
    with pytest.raises(xtarget.ArgumentError, match="rows need as many elements"):
        xtarget.run("cdist", x, y[..., 1:], device=device)


_CHAIN = ((5, 7), (7, 9), (9, 4))


@st.composite
def _subscripts(draw: Any) -> tuple[str, list[Any]]:
    """Subscripts of two arrays or three, and arrays in any order of memory."""
    lengths = {label: draw(st.integers(1, 4)) for label in "abcde"}
    terms = draw(st.lists(st.text("abcde", min_size=0, max_size=3), min_size=1, max_size=3))
    known = sorted({label for term in terms for label in term})
    result = draw(st.permutations(known))[: draw(st.integers(0, len(known)))]
    arrays = []
    for seed, term in enumerate(terms):
        order = draw(st.permutations(range(len(term))))
        stored = f(*(lengths[term[axis]] for axis in order), seed=seed)
        arrays.append(stored.transpose(np.argsort(order)) if term else np.asarray(stored))
    return f"{','.join(terms)}->{''.join(result)}", arrays


@pytest.mark.large
@examples(8)
@given(given_=_subscripts())
def test_any_subscripts(device: str, given_: tuple[str, list[Any]]) -> None:
    check("einsum", *given_[1], subscripts=given_[0], device=device)


@pytest.mark.long
@pytest.mark.large
@examples(200, same=False)
@given(given_=_subscripts())
def test_many_subscripts(device: str, given_: tuple[str, list[Any]]) -> None:
    check("einsum", *given_[1], subscripts=given_[0], device=device)


OTHERS: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("tensordot", _pairs((3, 4, 5), (5, 4, 6)), {"axes": ((1, 2), (1, 0))}),
    ("tensordot", _pairs((3, 4), (5,)), {"axes": 0}),
    ("dot", _pairs((3, 4, 5), (2, 5, 6)), {}),
    ("inner", _pairs((3, 4, 5), (2, 5)), {}),
    ("outer", _pairs((3, 4), (2, 5)), {}),
    ("vdot", [f(3, 4).T, f(4, 3, seed=1)], {}),
    ("kron", _pairs((3,), (2, 5)), {}),
    ("trace", [f(3, 4, 5)], {"axis1": 2, "axis2": 0}),
    ("matrix_power", [f(2, 9, 9) / 3], {"n": 7}),
    ("matrix_power", [f(9, 9, dtype="int32")], {"n": 1}),
    ("addmm", _pairs((9,), (5, 7), (7, 9)), {"alpha": 2.5, "beta": 0.5}),
    ("addmm", [np.full(9, np.nan, np.float32), *_pairs((5, 7), (7, 9))], {"beta": 0}),
    ("addmm", _pairs((9,), (5, 0), (0, 9)), {"beta": 2}),
    ("addmm", [f(5, 9, dtype="int64"), f(5, 7, dtype="int64"), f(7, 9, dtype="int64")],
     {"alpha": -3}),
    ("addbmm", _pairs((5, 9), (3, 5, 7), (3, 7, 9)), {}),
    ("gemm", _pairs((7, 5), (9, 7), (5, 1)), {"trans_a": 1, "trans_b": 1, "alpha": 0.5}),
    ("gemm", _pairs((5, 7), (7, 9)), {}),
    ("linear", _pairs((7,), (9, 7)), {"activation": "relu"}),
    ("linear", _pairs((2, 3, 7), (9, 7), (9,)), {"activation": "gelu"}),
    ("linear", _pairs((6, 7), (9, 7), (9,)), {"activation": "gelu_tanh"}),
    ("linear", _pairs((6, 7), (9, 7), (9,)), {"activation": "silu"}),
    ("linear", _pairs((6, 7), (9, 7)), {"activation": "sigmoid"}),
    ("fused_gemm_swiglu", _pairs((2, 3, 7), (7, 9), (7, 9)), {}),
    ("matmul_integer", [f(5, 300, dtype="int8"), f(300, 6, dtype="uint8")], {}),
    ("quantized_matmul", [f(5, 300, dtype="int8"), f(300, 6, dtype="int8"),
                          abs(f(5)), abs(f(6))], {}),
    ("quantized_matmul", [f(5, 30, dtype="int8"), f(30, 6, dtype="int8").copy("F"),
                          abs(f(5, 1)), abs(f(1))], {}),
]  # fmt: skip


@pytest.mark.large
@pytest.mark.parametrize(("name", "args", "options"), OTHERS)
def test_products_and_their_options(device: str, name: str, args: Any, options: Any) -> None:
    check(name, *args, device=device, **options)


@pytest.mark.large
def test_a_layer_of_half_type_rounds_once(device: str) -> None:
    x, w, bias = (f(*s, seed=i, dtype="bfloat16") for i, s in enumerate([(130, 520), (70, 520),
                                                                         (70,)]))  # fmt: skip
    check("linear", x, w, bias, activation="gelu", device=device)


@pytest.mark.usefixtures("a_cpu")
def test_pairs_of_bfloat16_on_a_cpu() -> None:
    """Words of two elements: of an odd k, of rows at odd places, of columns, of batches."""
    a, b = f(40, 67, dtype="bfloat16"), f(67, 50, seed=1, dtype="bfloat16")
    many = f(2, 3, 40, 66, dtype="bfloat16")
    whole = f(66, 50, seed=1, dtype="bfloat16")
    for x, y in (
        (a, b),
        (a[:, 1:], b[1:]),
        (f(66, 40, dtype="bfloat16").T, whole),
        (many[0, 0], f(50, 66, seed=1, dtype="bfloat16").T),
        (many[:, :1], whole),
        (many, f(3, 66, 50, seed=1, dtype="bfloat16")),
    ):
        check("matmul", x, y, device="cpu:0")


def test_a_result_of_other_strides(device: str) -> None:
    a, b = f(5, 7), f(7, 9)
    out = np.zeros((9, 5), np.float32).T
    check("einsum", a, b, subscripts="ij,jk->ik", out=out, device=device)
    check("linear", a, b.T, device=device, out=np.zeros((5, 18), np.float32)[:, ::2])


def test_no_elements(device: str) -> None:
    a = np.zeros((3, 0), np.float32)
    for name in ("inner", "kron", "outer"):
        check(name, a, a, device=device)
    check("trace", a, device=device)
    check("tensordot", a, a.T, axes=1, device=device)


WRONG: list[tuple[str, list[tuple[int, ...]], dict[str, Any], str]] = [
    ("einsum", [(3, 4), (5, 6)], {}, "axis 'j' has length 4 in argument 1 and 5 in argument 2"),
    ("einsum", [(3, 4)], {}, "are of 2 arrays, and the call has 1"),
    ("einsum", [(3, 4)], {"subscripts": "i"}, "argument 1 has 2 dimensions, and its subscripts"),
    ("einsum", [(3, 4)], {"subscripts": "ii"}, "have the lengths 3 and 4"),
    ("einsum", [(3, 4)], {"subscripts": "ij->k"}, "'k' in the result and in no array"),
    ("einsum", [(3, 4)], {"subscripts": "ij->ii"}, "'i' twice in the result"),
    ("einsum", [(3, 4)], {"subscripts": "i1"}, "contain '1'; they are letters"),
    ("einsum", [(3, 4)], {"subscripts": "i...->i"}, "the result has none"),
    ("einsum", [(3, 4)], {"subscripts": 3}, "it has to be a text like"),
    ("tensordot", [(3, 4), (3, 4)], {"axes": 1}, "axis 1 of the first has length 4, axis 0"),
    ("tensordot", [(3, 4), (3, 4)], {"axes": 3}, "it may be from 0 to the smaller"),
    ("tensordot", [(3, 4), (3, 4)], {"axes": ((0, 1), 0)}, "are 2 of a and 1 of b"),
    ("dot", [(3, 4), (5, 6)], {}, "axis 1 of the first has length 4, axis 0 of the second 5"),
    ("vdot", [(3, 4), (4, 3)], {}, "they need to be the same"),
    ("trace", [(3,)], {}, "it needs two dimensions or more"),
    ("trace", [(3, 3)], {"axis2": 0}, "both axis 0; they need to differ"),
    ("matrix_power", [(3, 4)], {}, "its last two axes need the same length"),
    ("matrix_power", [(3, 3)], {"n": -1}, "a negative power is one of the inverse"),
    ("addmm", [(3, 4), (3, 5), (6, 4)], {}, "axis 1 of argument 2 has length 5, and axis 0 of"),
    ("addmm", [(3, 4), (3,), (6, 4)], {}, "argument 2 has 1 dimensions; it needs 2"),
    ("addmm", [(2, 4), (3, 5), (5, 4)], {}, r"does not broadcast to \(3, 4\)"),
    ("addmm", [(4,), (3, 5), (5, 4)], {"alpha": "x"}, "alpha is 'x'; it has to be a number"),
    ("gemm", [(3, 4), (4, 5)], {"trans_a": 2}, "trans_a is 2; it has to be 0 or 1"),
    ("linear", [(3, 4), (5, 4), (4,)], {}, r"bias has shape \(4,\); it needs \(5,\)"),
    ("fused_gemm_swiglu", [(3, 4), (4, 5), (4, 6)], {}, r"gate has shape \(4, 5\) and up"),
    ("matmul_integer", [(3, 4), (4, 5)], {}, "matmul_integer does not take float32"),
    ("linear", [(3, 4), (5, 4)], {"activation": "elu"}, "activation is 'elu'; it has to be one"),
]  # fmt: skip


test_what_does_not_fit_is_said = refused(
    (name, _pairs(*shapes), options, said) for name, shapes, options, said in WRONG
)


def test_a_factor_of_integers_is_one(device: str) -> None:
    arrays = [f(3, 3, seed=i, dtype="int32") for i in range(3)]
    with pytest.raises(xtarget.ArgumentError, match=r"alpha is 0\.5, and the result is int32"):
        xtarget.run("addmm", *arrays, alpha=0.5, device=device)
