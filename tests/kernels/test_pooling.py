"""Pooling, im2col, col2im: every option, against references in NumPy, and those against torch."""

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

SHORT: list[tuple[str, tuple[int, ...], dict[str, Any], str]] = [
    ("max_pool2d", (2, 3, 9, 11), {"kernel": (3, 2), "stride": 2, "padding": 1}, "float32"),
    ("max_pool2d", (2, 3, 9, 11),
     {"kernel": 3, "dilation": 2, "ceil_mode": True, "return_indices": True}, "float16"),
    ("max_pool1d", (2, 3, 33), {"kernel": 5, "padding": 2, "stride": 1}, "int32"),
    ("max_pool3d", (1, 2, 5, 6, 7), {"kernel": (1, 2, 3), "return_indices": True}, "float64"),
    ("max_pool", (2, 9, 8, 3), {"kernel": 2, "channels_last": True}, "float32"),
    ("avg_pool2d", (2, 3, 9, 11), {"kernel": 3, "padding": 1, "ceil_mode": True}, "float32"),
    ("avg_pool2d", (2, 3, 9, 11),
     {"kernel": (3, 5), "stride": 2, "padding": (1, 2), "ceil_mode": True,
      "count_include_pad": False}, "bfloat16"),
    ("avg_pool1d", (2, 3, 20), {"kernel": 4, "padding": "same", "stride": 3}, "float32"),
    ("avg_pool3d", (1, 2, 5, 6, 7), {"kernel": 2, "stride": 1}, "float64"),
    ("max_pool2d", (2, 3, 2, 9),
     {"kernel": 3, "stride": 4, "ceil_mode": True, "return_indices": True}, "float32"),
    ("avg_pool2d", (2, 3, 2, 1),
     {"kernel": 3, "stride": (4, 3), "padding": (0, 1), "ceil_mode": True}, "float32"),
    ("lp_pool", (2, 3, 9, 10), {"kernel": 3, "p": 3.0}, "float32"),
    ("adaptive_max_pool2d", (2, 3, 9, 11), {"size": (4, 5), "return_indices": True}, "float32"),
    ("adaptive_avg_pool2d", (2, 3, 9, 11), {"size": (4, 14)}, "float32"),
    ("adaptive_avg_pool3d", (2, 3, 4, 5, 6), {}, "float16"),
    ("adaptive_avg_pool1d", (2, 3, 12), {"size": 4}, "float64"),
    ("global_max_pool", (2, 3, 9, 11), {}, "int16"),
    ("global_avg_pool", (2, 9, 11, 3), {"channels_last": True}, "float32"),
    ("im2col", (2, 3, 6, 7), {"kernel": (2, 3), "padding": 1, "stride": (2, 1)}, "float32"),
    ("im2col", (2, 3, 9), {"kernel": 3, "dilation": 2}, "bool"),
    ("col2im", (2, 18, 24),
     {"size": (6, 7), "kernel": (2, 3), "padding": 1, "stride": (2, 1)}, "float32"),
]  # fmt: skip


def _x(shape: tuple[int, ...], options: dict[str, Any], name: str, dtype: str) -> Any:
    if name == "col2im":
        count = xtarget.catalog()["im2col"].reference(
            np.zeros((1, 1, *options["size"])),
            **{key: value for key, value in options.items() if key != "size"},
        )
        shape = (shape[0], 3 * count.shape[1], count.shape[2])
    return sample(dtype, *shape)


@pytest.mark.parametrize(
    ("name", "shape", "options", "dtype"),
    [  # a specialization costs a second: the long tier takes the other half
        pytest.param(*one, marks=[pytest.mark.long] if number % 2 else [pytest.mark.large])
        for number, one in enumerate(SHORT)
    ],
)
def test_options(device: str, name: str, shape: Any, options: Any, dtype: str) -> None:
    x = _x(shape, options, name, dtype)
    check(name, x, device=device, **options)
    check(name, x[:0], device=device, **options)


def test_views(device: str) -> None:
    x = sample("float32", 3, 9, 11, 2).transpose(0, 3, 2, 1)[:, :, ::-1, 1:]
    check("max_pool2d", x, device=device)
    check("im2col", x, device=device)
    check(
        "col2im", sample("float32", 9, 8, 4).transpose(1, 0, 2)[:, 1:], size=(3, 3), device=device
    )
    wide = np.zeros((3, 2, 5, 9), np.float32)
    check("avg_pool2d", x, out=wide[:, :, ::-1, ::2][..., :4], device=device)
    assert not wide[..., 1::2].any()


def test_nan_and_infinities(device: str) -> None:
    x = np.full((1, 1, 4, 4), -np.inf, np.float32)
    x[0, 0, 1, 1] = x[0, 0, 1, 0] = np.nan
    x[0, 0, 2, 2] = np.inf
    for name, options in (("max_pool2d", {}), ("adaptive_max_pool2d", {"size": 2})):
        check(name, x, return_indices=True, device=device, **options)
        _, index = xtarget.run(name, x, return_indices=True, device=device, **options)
        assert index.ravel()[0] == 5  # of several NaN the last, as torch has it


POOLS = ("max_pool", "avg_pool", "lp_pool", "im2col", "col2im", "adaptive_avg_pool",
         "adaptive_max_pool")  # fmt: skip


def _any_windows(device: str, data: Any) -> None:
    name = data.draw(st.sampled_from(POOLS))
    rank = data.draw(st.integers(1, 3))

    def each(least: int, most: int) -> tuple[int, ...]:
        return tuple(data.draw(st.integers(least, most)) for _ in range(rank))

    lengths = each(1, 9 - 2 * rank)
    shape = (data.draw(st.integers(1, 2)), data.draw(st.integers(1, 3)), *lengths)
    if name.startswith("adaptive"):
        check(name, sample("float32", *shape), size=each(1, 5), device=device)
        return
    kernel = each(1, 4)
    options: dict[str, Any] = {"kernel": kernel, "stride": each(1, 3)}
    known = xtarget.catalog()[name].options
    dilation = each(1, 2) if "dilation" in known else (1,) * rank
    if "dilation" in known:
        options["dilation"] = dilation
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    options["padding"] = tuple(data.draw(st.integers(0, r // 2)) for r in reach)
    if "ceil_mode" in known:
        options["ceil_mode"] = data.draw(st.booleans())
    sides = zip(lengths, reach, options["padding"], options["stride"], strict=True)
    for n, r, p, s in sides:
        # with ceil_mode, the only window may reach past the padding
        assume(n + 2 * p > r - (s if options.get("ceil_mode") else 1))
    if name == "col2im":
        options["size"] = lengths
        check(name, _x(shape, options, name, "float32"), device=device, **options)
        return
    check(name, sample("float32", *shape), device=device, **options)


test_any_sizes, test_many_sizes = few_and_many(_any_windows, 20, 600)


_TORCH = {"kernel": "kernel_size", "size": "output_size"}


@pytest.mark.parametrize(("name", "shape", "options", "dtype"), SHORT)
def test_the_reference_is_what_torch_gives(
    name: str, shape: Any, options: dict[str, Any], dtype: str
) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if name.startswith("global") or options.get("channels_last") or "same" in options.values():
        pytest.skip("torch has none of these")
    x = _x(shape, options, name, "float64")
    given_options = {"size": (1,) * (x.ndim - 2), **options} if "adaptive" in name else options
    made = xtarget.catalog()[name].reference(x, **given_options)
    functions = torch.nn.functional
    plain = {"im2col": "unfold", "col2im": "fold", "max_pool": "max_pool2d"}.get(name, name)
    more = {_TORCH.get(key, key): value for key, value in given_options.items()}
    if name == "lp_pool":
        right = functions.lp_pool2d(torch.as_tensor(abs(x)), more.pop("p"), **more)
    elif name == "im2col":
        wide = torch.as_tensor(x if x.ndim == 4 else x[:, :, None])
        one = {k: (0 if k == "padding" else 1, v) for k, v in more.items()} if x.ndim == 3 else more
        right = functions.unfold(wide, **one)
    else:
        right = getattr(functions, plain)(torch.as_tensor(x), **more)
    pairs = zip(made, right, strict=True) if isinstance(made, tuple) else [(made, right)]
    for one, other in pairs:
        np.testing.assert_allclose(one, other.numpy(), rtol=1e-12, atol=1e-12)


X = np.zeros((2, 3, 8, 8), np.float32)
WRONG = [
    ("max_pool2d", [X[0]], {}, "x has 3 dimensions; it needs 4"),
    ("max_pool2d", [X], {"kernel": 0}, "kernel is 0; no number may be below 1"),
    ("max_pool2d", [X], {"kernel": 9}, "reaches over 9, and the axis has 8 with its padding"),
    (
        "max_pool2d",
        [X],
        {"kernel": 11, "stride": 3, "ceil_mode": True},
        "reaches over 11, and the axis has 8 with its padding",
    ),
    ("max_pool2d", [X], {"kernel": 3, "padding": 2}, "it may be half of a window at most"),
    ("max_pool2d", [X], {"kernel": (2, 2, 2)}, "kernel has 3 numbers for 2 axes"),
    ("avg_pool2d", [X.astype(int)], {}, "avg_pool2d does not take int64"),
    ("lp_pool", [X], {"p": 0.0}, "p is 0.0; it has to be a number above 0"),
    ("adaptive_avg_pool2d", [X], {"size": 0}, "size is 0; no number may be below 1"),
    ("adaptive_max_pool2d", [X[:, :, :0]], {"size": 2}, "there is nothing to pool"),
    ("global_max_pool", [X[0, 0]], {}, "x has 2 dimensions; it needs 3 to 5"),
    ("col2im", [X], {}, "x has to be"),
    ("col2im", [X[0]], {"size": (6, 6)}, "so it has to be"),
]


test_bad_input_is_said_in_a_sentence = refused(WRONG)
