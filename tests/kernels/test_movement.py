"""Operators that move elements, and constants: every option, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawing import fewer_if_emulated
from operators import places, sample
from oracle import check
from refusals import refused

import xtarget

X = sample("float32", 3, 5, 7)
Y = sample("float32", 3, 2, 7, seed=1)
Q = sample("int16", 6, 9)
IX = places(3, 4, 2)
MODES = ("constant", "edge", "reflect", "symmetric", "wrap")

#: Name, arguments, options. Those of the long tier differ from one before in their options only.
SHORT: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("concat", [X, Y[:, :, ::-1], X], {"axis": 1}),
    ("concat", [sample("int8", 3), sample("float32", 4)], {"axis": 0}),
    ("stack", [Q, Q[::-1]], {"axis": -1}),
    ("split", [Q], {"sections": (1, 0, 5), "axis": 0}),
    ("strided_slice", [X], {"starts": (2, -1), "stops": (0, -9), "steps": (-1, -2)}),
    ("flip", [X], {}),
    ("roll", [X], {"shift": (2, -3), "axis": (0, 2)}),
    ("roll", [X], {"shift": -9}),
    ("roll", [Q], {"shift": (1, -3, 3), "axis": (1, 0, -1)}),  # along an axis twice
    ("permute", [X], {"axes": (1, 2, 0)}),
    ("swapaxes", [X[::2]], {"axis1": 0, "axis2": -1}),
    ("swapaxes", [X], {"axis1": 1, "axis2": 1}),
    ("moveaxis", [X[:, ::-1]], {}),
    ("moveaxis", [X], {"source": (0, -1), "destination": (1, 0)}),
    *(("rot90", [X[:, ::-2]], {"k": k, "axes": (-1, 0)}) for k in (-1, 0, 2, 5)),
    ("rot90", [Q], {}),
    ("broadcast_to", [sample("float32", 5, 1)], {"shape": (2, 5, 3)}),
    ("tile", [X], {"reps": (2, 1, 3)}),
    ("repeat", [Q.T], {"repeats": 2}),
    ("repeat", [X], {"repeats": 2, "axis": 1}),
    ("diagonal", [Q], {"offset": -2}),
    *(("pad", [X], {"width": (1, 2, 3, 0, 4, 9), "mode": mode}) for mode in MODES),
    ("pad", [sample("bool", 4, 4)], {"width": 1, "value": 1}),
    ("reflection_pad2d", [X], {"padding": (1, 2, 3, 0)}),
    ("replication_pad1d", [Q], {"padding": (9, 0)}),
    ("diff", [X], {"n": 2, "axis": 1}),
    ("diff", [sample("bool", 9)], {}),
    ("select_scatter", [X, Y[:, 1]], {"axis": 1, "index": -2}),
    ("slice_scatter", [X, Y], {"axis": 1, "start": 1, "step": 3}),
    ("triu", [X], {"k": -2}),
    ("tril", [Q[:, ::-1]], {"k": 3}),
    ("take", [X, IX - 3], {"axis": 0}),
    ("take", [X, IX * 5 - 4], {"axis": 2, "mode": "wrap"}),
    ("index_select", [X, IX - 3], {}),
    ("embedding", [IX, sample("float16", 3, 20)], {}),
    ("gather", [X.transpose(2, 0, 1), places(3, 7, 3, 9)], {"axis": 2}),
    ("take_along_axis", [X, places(5, 1, 4, 7)], {"axis": 1}),
    ("index", [X, None, IX - 3], {}),
    ("index", [X, places(3, 4, 1), None, places(7, 2).astype("int32")], {"mode": "wrap"}),
    ("index", [X, np.array([9, -4, 1])], {"mode": "zero"}),
    ("index_put", [X, places(3, 4), np.array([9, 0, -1, 2]), sample("float32", 7)], {}),
    ("index_put", [Q, None, places(9, 30), Q[:, :1]], {"accumulate": True}),
    ("index_put", [X, places(3, 4), *[None] * 7, sample("float32", 7)], {}),
    ("embedding_backward", [X, places(9, 3, 5)], {"rows": 6, "padding": 2}),
    ("one_hot", [np.array([[0, 3, 9], [2, 2, 1]])], {"classes": 4}),
    ("full", [], {"shape": (3, 4), "value": 2.5}),
    ("ones", [], {"shape": (2, 2), "dtype": "bool"}),
    ("zeros_like", [Q], {}),
    ("eye", [], {"rows": 4, "columns": 6, "k": 1}),
    ("arange", [], {"start": 5, "stop": -5, "step": -3}),
    ("arange", [], {"start": 0.5, "stop": 3, "step": 0.25, "dtype": "float32"}),
    ("linspace", [], {"start": 3, "stop": 7, "count": 1001, "dtype": "float16"}),
]
LONG: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("split", [Q], {"sections": 3, "axis": 1}),
    ("strided_slice", [Q], {"starts": (1, 2)}),
    ("roll", [Q], {"shift": 100, "axis": 1}),
    ("tile", [Q], {"reps": (2, 2, 2, 2)}),
    ("diagonal", [X], {}),
    *(("pad", [Q], {"width": 13, "mode": mode}) for mode in MODES),
    *(("triu", [X], {"k": k}) for k in (0, 3)),
    ("eye", [], {"rows": 5, "k": -2, "dtype": "int32"}),
    ("linspace", [], {"count": 1}),
    ("linspace", [], {"count": 10, "endpoint": False, "dtype": "float64"}),
]


@pytest.mark.parametrize(
    ("name", "args", "options"),
    fewer_if_emulated(SHORT, 4),
)
def test_elements_are_where_numpy_has_them(device: str, name: str, args: Any, options: Any) -> None:
    check(name, *args, device=device, **options)


@pytest.mark.long
@pytest.mark.parametrize(("name", "args", "options"), LONG)
def test_more_options(device: str, name: str, args: Any, options: Any) -> None:
    check(name, *args, device=device, **options)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_scatters_in_the_order_of_the_indices(device: str, dtype: str) -> None:
    """Also where several go to one place, and where an index is outside, which does nothing."""
    x, source = sample(dtype, 6, 9), sample(dtype, 4, 9, seed=2)
    index = places(6, 4, 9)
    index[0, 0], index[1, 1] = 99, -99
    for name in ("scatter", "scatter_add"):
        check(name, x, index, source, axis=0, device=device)
    for how in ("amax", "amin", "prod"):
        check("scatter_reduce", x, index, source, axis=0, reduce=how, device=device)
    for word, how in (("sum", "add"), ("mul", "prod"), ("max", "amax"), ("none", "set")):
        found = xtarget.run(
            "scatter_reduce", x, index, source, axis=0, reduce=word, device=device
        )  # torch's and ONNX's words
        right = xtarget.run("scatter_reduce", x, index, source, axis=0, reduce=how, device=device)
        np.testing.assert_array_equal(found, right)
    check("index_add", x, np.array([1, 1, 5]), sample(dtype, 3, 9), axis=0, device=device)
    check("index_copy", x.T, np.array([2, 0, 2]), sample(dtype, 9, 3), axis=1, device=device)


@pytest.mark.parametrize("dtype", ["float16", pytest.param("bfloat16", marks=pytest.mark.large)])
def test_sums_of_half_types_are_rounded_once(device: str, dtype: str) -> None:
    """As torch's are, bit for bit, in the order of the indices: 2,000 ones are 2,000."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x, source, index = sample(dtype, 5, 31), sample(dtype, 64, 31, seed=2), places(5, 64, 31)
    kind = getattr(torch, dtype)

    def tensor(array: Any) -> Any:
        return torch.as_tensor(array.astype(np.float32)).to(kind)

    given = tensor(x), torch.as_tensor(index.astype(np.int64)), tensor(source)
    right = given[0].scatter_add(0, *given[1:]).float().numpy()
    found = check("scatter_add", x, index, source, axis=0, device=device)
    np.testing.assert_array_equal(found.astype(np.float32), right)
    out = np.zeros((10, 31), x.dtype)[::-2]
    check("scatter_add", x, index, source, axis=0, out=out, device=device)
    lines = index[:, 0]
    right = given[0].index_add(0, given[1][:, 0], given[2]).float().numpy()
    found = check("index_add", x, lines, source, axis=0, device=device)
    np.testing.assert_array_equal(found.astype(np.float32), right)
    none, ones = np.zeros(2000, np.int64), np.ones(2000, x.dtype)
    assert xtarget.run("scatter_add", ones[:1] * 0, none, ones, device=device)[0] == 2000
    assert xtarget.run("scatter_nd", none[:, None], ones, shape=(1,), device=device)[0] == 2000
    half = np.full(64, 0.5 if dtype == "float16" else 0.99, x.dtype)
    found = xtarget.run("scatter_reduce", ones[:1], none[:64], half, reduce="prod", device=device)
    right = np.prod(half.astype(np.float32), dtype=np.float32).astype(x.dtype)
    np.testing.assert_array_equal(found.astype(np.float32), right.astype(np.float32))
    found = xtarget.run("scatter_nd_update", ones[:1], none[:64, None], half, reduce="add",
                        device=device)  # fmt: skip
    assert found[0] == (1 + half.astype(np.float64).sum()).astype(x.dtype)


def test_no_index_leaves_the_array(device: str) -> None:
    x = np.arange(5, dtype=np.int32)
    index = np.array([0, 4, 5, -5, -6, 2**40, -(2**40)])
    for mode, right in (
        ("clip", [0, 4, 4, 0, 0, 4, 0]),
        ("zero", [0, 4, 0, 0, 0, 0, 0]),
        ("wrap", (index % 5).tolist()),
    ):
        assert xtarget.run("take", x, index, axis=0, mode=mode, device=device).tolist() == right


def test_empty_results_and_parts(device: str) -> None:
    empty = np.zeros((0, 3), np.float32)
    assert xtarget.run("concat", empty, empty, axis=0, device=device).shape == (0, 3)
    assert xtarget.run("take", X, np.zeros(0, int), axis=1, device=device).shape == (3, 0, 7)
    assert xtarget.run("zeros", shape=(0, 4), device=device).shape == (0, 4)
    assert xtarget.run("arange", start=3, stop=3, device=device).shape == (0,)
    parts = xtarget.run("split", Q, sections=2, axis=0, device=device)
    assert [part.shape for part in parts] == [(3, 9), (3, 9)]


def test_into_a_part_of_an_array(device: str) -> None:
    wide = np.full((3, 20), 7, np.int16)
    xtarget.run("concat", Q[:3], Q[3:], axis=1, out=wide[:, 1:19], device=device)
    np.testing.assert_array_equal(wide[:, 1:19], np.concatenate([Q[:3], Q[3:]], 1))
    assert (wide[:, [0, 19]] == 7).all()


def test_a_view_on_a_device_is_rolled_in_the_order_of_its_elements(device: str) -> None:
    found = xtarget.run("roll", xtarget.asarray(X, device).T, shift=5)
    np.testing.assert_array_equal(np.asarray(found), np.roll(X.T, 5))
    out = np.zeros((*X.shape, 2), X.dtype)[..., 0]
    xtarget.run("roll", X, shift=-3, out=out, device=device)
    np.testing.assert_array_equal(out, np.roll(X, -3))


WRONG = [
    ("concat", [X, Q], {"axis": 0}, "argument 2 has shape"),
    ("stack", [X, Y], {}, "they need the same"),
    ("split", [Q], {"sections": 4, "axis": 0}, "4 sections of axis 0, which has 6 elements"),
    ("permute", [X], {"axes": (0, 0, 1)}, "it has to name each of the 3 axes once"),
    ("permute", [X], {"axes": (0, 1)}, r"axes is \(0, 1\); it has to be 3 integers\.$"),
    ("one_hot", [np.arange(3)], {"classes": 2.5}, r"classes is 2\.5; it has to be an integer"),
    ("broadcast_to", [X], {"shape": (3, 5)}, "does not broadcast"),
    ("pad", [X], {"mode": "mirror"}, "mode is 'mirror'; it has to be one of"),
    ("pad", [X], {"width": (1, 2, 3)}, "it has to be one number, a pair"),
    ("pad", [Q], {"value": 0.5}, "the value 0.5 does not fit into int16"),
    ("take", [X, X], {"axis": 0}, "indices are float32; they have to be integers"),
    ("take", [X, IX], {"axis": 3}, "axis 3 is out of range"),
    ("take", [np.zeros((0, 3)), IX], {"axis": 0}, "nothing can be taken from an axis of length 0"),
    ("gather", [X, IX], {"axis": 0}, "which does not fit in x"),
    ("scatter", [Q, places(3, 6, 9), X[0]], {}, "source is float32 and x is int16"),
    ("one_hot", [IX], {"classes": 0}, "it has to be an integer from 1 on"),
    ("arange", [], {"step": 0}, "is not a sequence"),
    (
        "full",
        [],
        {"shape": (2,), "dtype": "int8", "value": 1.5},
        "the value 1.5 does not fit into int8",
    ),
    ("zeros", [], {"shape": (-1,)}, "no length may be below 0"),
    ("eye", [], {"dtype": "complex64"}, "dtype is 'complex64'; it has to be one of"),
]


test_bad_input_is_said_in_a_sentence = refused(WRONG)
