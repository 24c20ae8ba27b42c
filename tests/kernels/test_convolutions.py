"""Convolutions: every option, against a reference in NumPy, and that against torch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawing import few_and_many
from hypothesis import assume
from hypothesis import strategies as st
from operators import sample
from oracle import check
from refusals import refused

import xtarget

#: Name, shapes of x and weight, options, dtype. Few channels go by outer products on every device,
#: more by matrix units where there are some.
SHORT: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any], str]] = [
    ("conv2d", (2, 3, 9, 11), (4, 3, 3, 3), {"stride": 2, "padding": 1}, "float32"),
    ("conv2d", (2, 4, 9, 7), (6, 2, 3, 2),
     {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "groups": 2}, "float32"),
    ("conv2d", (2, 20, 5, 9), (33, 20, 3, 3), {"padding": "same", "stride": 2}, "float16"),
    ("conv1d", (2, 20, 33), (40, 20, 5), {"padding": (3, 0)}, "float32"),
    ("conv3d", (1, 3, 5, 6, 7), (4, 3, 2, 3, 3), {"padding": (1, 0, 0, 2, 1, 1)}, "float64"),
    ("depthwise_conv2d", (2, 5, 9, 11), (10, 1, 3, 3), {"padding": 1}, "bfloat16"),
    ("conv", (0, 3, 9), (2, 3, 3), {}, "float32"),
    ("conv_transpose2d", (2, 4, 5, 6), (4, 3, 3, 3),
     {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2}, "float32"),
    ("conv_transpose1d", (2, 20, 17), (20, 18, 4),
     {"stride": 3, "padding": 2, "dilation": 2}, "float32"),
]  # fmt: skip
LONG = [
    ("conv2d", (1, 3, 33, 65), (64, 3, 7, 7), {"stride": 2, "padding": 3}, "float16"),
    ("conv2d", (1, 64, 15, 17), (70, 64, 3, 3), {"padding": 1}, "bfloat16"),
    ("conv2d", (1, 64, 15, 17), (70, 64, 1, 1), {}, "float64"),
    (
        "conv3d",
        (2, 32, 4, 5, 6),
        (34, 16, 3, 1, 2),
        {"groups": 2, "dilation": (1, 1, 3)},
        "float32",
    ),
    ("conv_transpose3d", (1, 17, 3, 4, 2), (17, 16, 2, 3, 3), {"stride": (2, 1, 3)}, "float16"),
]  # fmt: skip


def _given(xs: Any, ws: Any, rows: int, dtype: str) -> list[Any]:
    return [sample(dtype, *xs), sample(dtype, *ws, seed=1), sample(dtype, rows, seed=2)]


def _rows(name: str, ws: Any, options: dict[str, Any]) -> int:
    return int(ws[1] * options.get("groups", 1) if "transpose" in name else ws[0])


def _check(device: str, name: str, xs: Any, ws: Any, options: Any, dtype: str) -> None:
    x, weight, bias = _given(xs, ws, _rows(name, ws, options), dtype)
    check(name, x, weight, bias, device=device, **options)


@pytest.mark.parametrize(
    ("name", "xs", "ws", "options", "dtype"),
    [  # a specialization costs a second: the long tier takes the other half
        pytest.param(*one, marks=[pytest.mark.long] if number % 2 else [pytest.mark.large])
        for number, one in enumerate(SHORT)
    ],
)
def test_options(device: str, name: str, xs: Any, ws: Any, options: Any, dtype: str) -> None:
    _check(device, name, xs, ws, options, dtype)


@pytest.mark.long
@pytest.mark.parametrize(("name", "xs", "ws", "options", "dtype"), LONG)
def test_larger_ones(device: str, name: str, xs: Any, ws: Any, options: Any, dtype: str) -> None:
    _check(device, name, xs, ws, options, dtype)


def test_channels_last_and_views(device: str) -> None:
    """In memory, and by an option that says so; no bias."""
    x, weight, _ = _given((2, 9, 11, 3), (4, 3, 3, 3), 4, "float32")
    turned = np.ascontiguousarray(weight.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    found = xtarget.run("conv2d", x, turned, channels_last=True, padding=1, device=device)
    view = x.transpose(0, 3, 1, 2)
    right = check("conv2d", view, weight, padding=1, device=device)
    np.testing.assert_array_equal(found, right.transpose(0, 2, 3, 1))
    check("conv2d", view[:, :, ::-1, ::2], weight, device=device)
    wide = np.zeros((2, 4, 20, 9), np.float32)
    check("conv2d", view, weight, out=wide[:, :, 1::2, ::-1][:, :, :7], device=device)
    assert not wide[:, :, ::2].any()
    assert not wide[:, :, 15:].any()


#: Shapes of x, its channels last, and of weight, options, dtype: enough channels for matrix units.
INSIDE: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any], str]] = [
    ((2, 9, 8, 32), (20, 16, 3, 2), {"stride": (2, 1), "padding": 1, "groups": 2}, "float16"),
    ((1, 17, 19), (33, 19, 3), {"padding": "same", "dilation": 2}, "float32"),
    ((1, 3, 4, 5, 16), (16, 16, 2, 1, 3), {"padding": (1, 0, 2)}, "float64"),
]


@pytest.mark.parametrize(("xs", "ws", "options", "dtype"), INSIDE)
def test_many_channels_side_by_side(
    device: str, xs: Any, ws: Any, options: Any, dtype: str
) -> None:
    x, weight, bias = _given(xs, ws, ws[0], dtype)
    inside = np.moveaxis(np.ascontiguousarray(np.moveaxis(weight, 1, -1)), -1, 1)
    for own in (weight, inside):
        check("conv", x, own, bias, device=device, channels_last=True, **options)


@pytest.mark.long
def test_many_channels_apart(device: str) -> None:
    """Arrays whose channels are put side by side first."""
    x, weight, bias = _given((2, 40, 33, 30), (48, 40, 3, 3), 48, "float16")
    check("conv2d", x, weight, bias, device=device, padding=1, stride=2)
    x, weight, bias = _given((2, 40, 17, 16), (40, 48, 3, 3), 48, "bfloat16")
    check("conv_transpose2d", x, weight, bias, device=device, padding=1, stride=2)


@pytest.mark.sample(3)
@pytest.mark.usefixtures("a_cpu")
@pytest.mark.parametrize(
    ("ws", "options"),
    [((16, 5, 3, 3), {"padding": 1}), ((24, 5, 1, 4), {"groups": 1, "stride": (1, 2)})],
)
def test_weights_of_many_positions_on_a_cpu(ws: Any, options: Any) -> None:
    """Those of a tile's rows lie side by side then: of a view, too."""
    x, weight, bias = _given((2, 5, 49, 51), ws, ws[0], "float32")
    apart = np.ascontiguousarray(weight.transpose(2, 3, 1, 0)).transpose(3, 2, 0, 1)
    for own in (weight, apart):
        check("conv2d", x, own, bias, device="cpu:0", **options)
    grouped = sample("float32", 2, 10, 49, 51), sample("float32", 16, *ws[1:], seed=1)
    check("conv2d", *grouped, device="cpu:0", **{**options, "groups": 2})


@pytest.mark.usefixtures("a_cpu")
@pytest.mark.parametrize(
    ("xs", "ws", "options"),
    [
        ((2, 4, 23, 17), (68, 4, 3, 3), {"padding": 1}),  # positions go on from row to row
        ((3, 3, 45, 45), (34, 3, 4, 2), {"stride": (1, 2), "padding": (9, 1)}),
        ((2, 12, 31, 40), (12, 1, 3, 3), {"padding": 1, "groups": 12}),
    ],
)
def test_many_tiles_of_many_samples_on_a_cpu(xs: Any, ws: Any, options: Any) -> None:
    _check("cpu", "conv2d", xs, ws, options, "float32")


@pytest.mark.parametrize(("stride", "dilation"), [((2, 3), (1, 3)), ((4, 2), (2, 2)), ((3, 3), 1)])
def test_strides_of_transposed_ones(device: str, stride: Any, dilation: Any) -> None:
    """Elements of the result that no tap reaches, and too many different ones of them."""
    x, weight, bias = _given((1, 3, 4, 5), (3, 2, 2, 3), 2, "float32")
    check("conv_transpose2d", x, weight, bias, device=device, stride=stride, dilation=dilation)


def _any_convolution(device: str, data: Any) -> None:
    rank = data.draw(st.integers(1, 3))

    def each(least: int, most: int) -> tuple[int, ...]:
        return tuple(data.draw(st.integers(least, most)) for _ in range(rank))

    groups = data.draw(st.sampled_from((1, 3)))
    lengths, kernel = each(1, 9 - 2 * rank), each(1, 3)
    options: dict[str, Any] = {"stride": each(1, 3), "dilation": each(1, 2), "padding": each(0, 2)}
    back = data.draw(st.booleans())
    x_channels, more = groups * data.draw(st.integers(1, 3)), 6 // groups
    ws = (x_channels, more) if back else (6, x_channels // groups)
    for n, k, s, d, p in zip(lengths, kernel, *options.values(), strict=True):
        reach = d * (k - 1) + 1
        assume((n - 1) * s + reach > 2 * p if back else n + 2 * p >= reach)
    name = "conv_transpose" if back else "conv"
    options["groups"] = groups
    samples = data.draw(st.integers(1, 2))
    x, weight, bias = _given((samples, x_channels, *lengths), (*ws, *kernel), 6, "float32")
    check(name, x, weight, bias, device=device, **options)


test_any_sizes, test_many_sizes = few_and_many(_any_convolution, 20, 250)


@pytest.mark.parametrize(("name", "xs", "ws", "options", "dtype"), SHORT)
def test_the_reference_is_what_torch_gives(
    name: str, xs: Any, ws: Any, options: dict[str, Any], dtype: str
) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    arrays = _given(xs, ws, _rows(name, ws, options), "float64")
    made = xtarget.catalog()[name].reference(*arrays, **options)
    x, weight, bias = map(torch.as_tensor, arrays)
    padding = options.get("padding", 0)
    more = dict(options)
    if padding == "same" or (isinstance(padding, tuple) and len(padding) == 2 * (x.ndim - 2)):
        pairs = padding if padding != "same" else (1, 1, 1, 1)
        reverse = [n for i in range(x.ndim - 2) for n in pairs[2 * i : 2 * i + 2]]
        last_first = [n for i in reversed(range(x.ndim - 2)) for n in reverse[2 * i : 2 * i + 2]]
        x, more["padding"] = torch.nn.functional.pad(x, last_first), 0
    if name == "depthwise_conv2d":
        more["groups"] = x.shape[1]
    plain = {"conv": "conv1d", "depthwise_conv2d": "conv2d"}.get(name, name)
    right = getattr(torch.nn.functional, plain)(x, weight, bias, **more).numpy()
    np.testing.assert_allclose(made, right, rtol=1e-12, atol=1e-12)


X, W = np.zeros((2, 6, 8, 8), np.float32), np.zeros((4, 6, 3, 3), np.float32)
WRONG = [
    ("conv2d", [X[0], W], {}, "x has 3 dimensions; it needs 4"),
    ("conv", [X[0, 0], W], {}, "x has 2 dimensions; it needs 3 to 5"),
    ("conv2d", [X, W[:, :5]], {}, "for 1 groups that is 5 channels, and x has 6"),
    ("conv2d", [X, W], {"groups": 4}, "x has 6 channels, which 4 groups do not divide"),
    ("conv2d", [X, W[:3, :3]], {"groups": 2}, "whose 3 channels 2 groups do not divide"),
    ("conv2d", [X, W], {"groups": 0}, "groups is 0; it has to be an integer from 1 on"),
    ("conv2d", [X, W[0]], {}, "it needs 4 dimensions, as x has"),
    ("conv2d", [X, W.astype(float)], {}, "x is float32 and weight is float64"),
    ("conv2d", [X, W, np.zeros(3, np.float32)], {}, r"bias has shape \(3,\) of float32"),
    ("conv2d", [X, W], {"stride": 0}, "stride is 0; no number may be below 1"),
    ("conv2d", [X, W], {"stride": (1, 2, 3)}, "stride has 3 numbers for 2 axes"),
    ("conv2d", [X, W], {"padding": -1}, "padding is -1; no number may be below 0"),
    ("conv2d", [X, W], {"padding": "half"}, "padding is 'half'; it has to be 'same', 'valid'"),
    ("conv2d", [X, W], {"padding": (1, 2, 3)}, "padding has 3 numbers for 2 axes"),
    ("conv2d", [X, W], {"dilation": 4}, "reaches over 9, and the axis has 8 with its padding"),
    ("conv2d", [X[:, :, :2], W], {}, "a window of 3 elements with dilation 1 reaches over 3"),
    ("conv_transpose2d", [X, W], {}, "for 4 channels, and x has 6"),
    ("conv_transpose2d", [X[:, :4], W], {"output_padding": 1}, "has to be below one of them"),
    ("conv_transpose2d", [X[:, :4], W], {"padding": 9}, "the result is empty"),
    ("conv2d", [X.astype(int), W], {}, "conv2d does not take int64"),
]


test_bad_input_is_said_in_a_sentence = refused(WRONG)


def test_a_bias_whose_elements_lie_apart_is_told_to_be_copied(device: str) -> None:
    # an array of the device's own: those of the host are copied, and copies have no gaps
    x, weight, bias = (xtarget.asarray(v, device=device) for v in (X, W, np.zeros(8, "f4")))
    with pytest.raises(xtarget.ArgumentError, match=r"elements of bias are 2 apart; .* a contig"):
        xtarget.run("conv2d", x, weight, bias[::2])
