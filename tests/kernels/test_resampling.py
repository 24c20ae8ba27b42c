"""Resizing, grids of places, crops, and channels that become places: every option, against
references in NumPy, and those against torch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from drawing import few_and_many
from hypothesis import strategies as st
from operators import sample
from oracle import check
from refusals import refused

import xtarget

X = sample("float32", 2, 3, 5, 7)
SHORT: list[tuple[str, Any, dict[str, Any]]] = [
    ("interpolate", X, {}),
    ("interpolate", X.astype(np.float16), {"size": (4, 9), "mode": "bilinear"}),
    ("interpolate", X, {"size": (3, 9), "mode": "nearest-exact"}),
    ("interpolate", sample("float64", 1, 2, 3, 4, 5),
     {"scale": (2, 1, 1.5), "mode": "trilinear", "align_corners": True}),
    ("resize_nearest", sample("int8", 2, 6, 5, 3), {"size": (3, 9), "channels_last": True}),
    ("resize_bilinear", X, {"size": (11, 1), "align_corners": True}),
    ("resize_bilinear", X[:, :, 0], {"size": 3}),
    ("resize_bicubic", X, {"size": (9, 4)}),
    ("resize_bicubic", X, {"size": (3, 12), "align_corners": True}),
    ("depth_to_space", sample("int16", 2, 12, 3, 5), {}),
    ("depth_to_space", sample("bool", 2, 3, 5, 18), {"block_size": 3, "mode": "CRD",
                                                    "channels_last": True}),
    ("space_to_depth", X[:, :, :4, :6], {}),
    ("pixel_shuffle", sample("float16", 2, 12, 3, 5), {}),
    ("pixel_unshuffle", X[:, ::-1, :4, 1:], {}),
    ("channel_shuffle", sample("float32", 2, 6, 4), {"groups": 2}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "x", "options"),
    [  # a specialization costs a second: the long tier takes the other half
        pytest.param(*one, marks=[pytest.mark.long] if number % 2 else [pytest.mark.large])
        for number, one in enumerate(SHORT)
    ],
)
def test_options(device: str, name: str, x: Any, options: Any) -> None:
    check(name, x, device=device, **options)


@pytest.mark.parametrize(
    "name", ["resize_bilinear", pytest.param("resize_bicubic", marks=pytest.mark.large)]
)
def test_what_is_no_number_stays_where_it_is(device: str, name: str) -> None:
    """As torch has it: only what is made of it is nan."""
    x = X.copy()
    x[0, 1, 2, 3], x[1, 0, 0, 6] = np.nan, np.inf
    found = check(name, x, scale=2, device=device)
    reach = 4 if name == "resize_bilinear" else 8
    assert np.isnan(found[0, 1]).sum() == reach**2
    assert np.isfinite(found[0, 0]).all()
    for aligned in (False, True):
        for size, n in (((5, 14), 5), ((10, 7), 2), ((5, 2), 2)):
            part = x[:, :, :n, : size[1] if n == 2 else 7]
            check(name, part, size=size, align_corners=aligned, device=device)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear"])
def test_a_scale_says_the_places_and_not_only_the_lengths(device: str, mode: str) -> None:
    """As torch's and ONNX' do, where it leads to no whole lengths. Worked out by hand."""
    x = np.arange(4, dtype="float32")[None, None]
    right = {
        "nearest": [0, 0, 1, 1, 2, 2],  # o / 1.7
        "nearest-exact": [0, 0, 1, 2, 2, 3],  # (o + 0.5) / 1.7
        "linear": [max((o + 0.5) / 1.7 - 0.5, 0) for o in range(6)],
    }
    found = xtarget.run("interpolate", x, scale_factor=1.7, mode=mode, device=device)
    assert np.allclose(found.ravel(), right[mode], atol=1e-6), found
    check("interpolate", X, scale=(1.7, 0.6), mode=mode.replace("li", "bili"), device=device)


def _grid(*shape: int, dtype: str = "float32") -> Any:
    """Places in the array and around it."""
    return (sample(dtype, *shape, seed=3).astype(np.float64) * 0.9).astype(dtype)


PADDINGS = ("zeros", "border", "reflection")


@pytest.mark.parametrize("padding", [pytest.param(p, marks=[pytest.mark.large] if p == "border"
                                                  else []) for p in PADDINGS])  # fmt: skip
def test_grids_of_places(device: str, padding: str) -> None:
    for mode, aligned in (("bilinear", False), ("nearest", True)):
        check("grid_sample", X, _grid(2, 4, 6, 2), mode=mode, padding_mode=padding,
              align_corners=aligned, device=device)  # fmt: skip


@pytest.mark.parametrize("padding", [pytest.param(p, marks=[pytest.mark.large] if p == "border"
                                                  else []) for p in PADDINGS])  # fmt: skip
def test_grids_of_places_between_four_elements(device: str, padding: str) -> None:
    one = sample("float32", 2, 2, 1, 1)
    for x, aligned in ((X, False), (X, True), (one, True)):
        check("grid_sample", x, 3 * _grid(2, 4, 6, 2), mode="bicubic", padding_mode=padding,
              align_corners=aligned, device=device)  # fmt: skip


@pytest.mark.large
def test_grids_over_three_axes_and_of_one_element(device: str) -> None:
    x = sample("float64", 2, 2, 3, 4, 5)
    grid = _grid(2, 2, 3, 4, 3, dtype="float64")
    for padding in PADDINGS:
        check("grid_sample", x, grid, padding_mode=padding, align_corners=True, device=device)
    one = sample("float32", 2, 2, 1, 1)
    check("grid_sample", one, _grid(2, 3, 3, 2), padding_mode="reflection", align_corners=True,
          device=device)  # fmt: skip


def test_the_weights_on_a_long_axis_keep_their_digits(device: str) -> None:
    """A place of thousands in float32 has three digits behind the point."""
    x, grid = sample("float32", 1, 2, 1, 4097), _grid(1, 5, 33, 2)
    for padding in ("zeros", "reflection"):
        check("grid_sample", x, grid, padding_mode=padding, device=device)


def test_places_that_are_no_numbers_read_nothing(device: str) -> None:
    grid = np.full((2, 1, 3, 2), np.nan, np.float32)
    grid[0, 0, 0], grid[0, 0, 1] = np.inf, 1e30
    assert not xtarget.run("grid_sample", X, grid, device=device).any()
    found = xtarget.run("grid_sample", X, grid, padding_mode="border", device=device)
    assert np.isfinite(found).all()


def test_four_elements_around_no_number_give_nan_as_torch_has_it(device: str) -> None:
    grid = np.zeros((2, 1, 3, 2), np.float32)
    grid[0, 0, 0, 0], grid[0, 0, 1, 1], grid[1] = np.nan, np.inf, 1e30
    for padding in PADDINGS:
        found = xtarget.run("grid_sample", X, grid, mode="bicubic", padding_mode=padding,
                            device=device)  # fmt: skip
        assert np.isnan(found[0, :, 0, :2]).all()
        assert np.isfinite(found[0, :, 0, 2]).all()
        assert np.isfinite(found[1]).all()
        with np.errstate(invalid="ignore"):
            right = xtarget.catalog()["grid_sample"].reference(
                X.astype(float), grid, mode="bicubic", padding_mode=padding
            )
        np.testing.assert_allclose(found[0], right[0], rtol=1e-5, atol=1e-5)
    far = xtarget.run("grid_sample", X, grid, mode="bicubic", padding_mode="border", device=device)
    assert np.array_equal(far[1, :, 0, 0], X[1, :, -1, -1])


BOXES = np.array([[0, 0, 1, 1], [0.1, 0.9, 0.7, 0.3], [-0.5, 0, 0.5, 1.5], [0.3, 0.3, 0.3, 0.3]])


@pytest.mark.parametrize("options", [{"size": (3, 4)}, {"size": (1, 5), "method": "nearest"},
                                     {"extrapolation_value": -1.5}])  # fmt: skip
def test_crops(device: str, options: Any) -> None:
    images = sample("float32", 3, 6, 5, 2)
    index = np.array([0, 2, 1, 7])
    check("crop_and_resize", images, BOXES.astype(np.float32), index, device=device, **options)


def test_empty_results(device: str) -> None:
    for name in ("resize_bilinear", "depth_to_space", "resize_nearest"):
        assert xtarget.run(name, np.zeros((0, 4, 2, 2), np.float32), device=device).size == 0
    none = np.zeros((0, 4), np.float32), np.zeros(0, np.int64)
    assert xtarget.run("crop_and_resize", X, *none, device=device).shape == (0, 2, 2, 7)


def _any_size(device: str, data: Any) -> None:
    rank = data.draw(st.integers(1, 3))
    lengths, size = (
        tuple(data.draw(st.integers(1, 12 - 3 * rank)) for _ in range(rank)) for _ in range(2)
    )
    modes = ["nearest", "nearest-exact", "linear", *(["cubic"] if rank < 3 else [])]
    mode = data.draw(st.sampled_from(modes))
    aligned = mode in ("linear", "cubic") and data.draw(st.booleans())
    x = sample("float32", 1, 2, *lengths)
    check("interpolate", x, size=size, mode=mode, align_corners=aligned, device=device)


test_any_sizes, test_many_sizes = few_and_many(_any_size, 20, 250)


# --------------------------------------------------------------- what torch says of the references


def _same(name: str, right: Any, *args: Any, **options: Any) -> None:
    made = xtarget.catalog()[name].reference(*args, **options)
    np.testing.assert_allclose(made, right.numpy(), rtol=1e-12, atol=1e-12)


def test_resizing_is_what_torch_gives() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = sample("float64", 2, 3, 8, 12)
    for mode in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        for size in ((4, 18), (16, 3), (8, 24)):
            for aligned in (False, True) if mode.startswith("bi") else (None,):
                right = torch.nn.functional.interpolate(
                    torch.as_tensor(x), size=size, mode=mode, align_corners=aligned
                )
                _same("interpolate", right, x, size=size, mode=mode, align_corners=bool(aligned))
    x[0, 0, 3, 4], x[1, 2, 0, 0], x[1, 2, 5, 11] = np.nan, np.inf, -np.inf
    for mode in ("bilinear", "bicubic"):
        right = torch.nn.functional.interpolate(torch.as_tensor(x), size=(8, 7), mode=mode)
        with np.errstate(invalid="ignore"):
            _same("interpolate", right, x, size=(8, 7), mode=mode)


def test_grids_are_what_torch_gives() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x, grid = sample("float64", 2, 3, 5, 7), _grid(2, 4, 6, 2, dtype="float64") * 3
    for padding in PADDINGS:
        for mode in ("bilinear", "nearest", "bicubic"):
            for aligned in (False, True):
                options = {"mode": mode, "padding_mode": padding, "align_corners": aligned}
                right = torch.nn.functional.grid_sample(
                    torch.as_tensor(x), torch.as_tensor(grid), **options
                )
                _same("grid_sample", right, x, grid, **options)


def test_blocks_are_what_torch_gives() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = sample("float64", 2, 12, 4, 6)
    functions = torch.nn.functional
    _same("pixel_shuffle", functions.pixel_shuffle(torch.as_tensor(x), 2), x)
    _same("pixel_unshuffle", functions.pixel_unshuffle(torch.as_tensor(x), 2), x)
    _same("channel_shuffle", torch.channel_shuffle(torch.as_tensor(x), 3), x, groups=3)


INDEX = np.array([0])
WRONG = [
    ("interpolate", [X], {"mode": "area"}, "mode is 'area'; it has to be"),
    ("interpolate", [X], {"align_corners": True}, "align_corners has no meaning"),
    ("interpolate", [X.astype(int)], {"mode": "linear"}, "mode 'linear' does not take int64"),
    ("interpolate", [X], {"scale": 0}, "scale is 0 for 2 axes; it has to be a number above 0"),
    ("interpolate", [X], {"scale": 0.1}, "leaves nothing of an axis"),
    ("interpolate", [X], {"size": (0, 3)}, "no number may be below 1"),
    ("resize_bicubic", [X[..., None]], {}, "takes one axis or two, not 3"),
    ("resize_nearest", [X[:, :, :0]], {}, "there is nothing to resize"),
    ("grid_sample", [X, X], {}, "of which the last has a number for each of these axes"),
    ("grid_sample", [X, _grid(1, 2, 2, 2)], {}, "they need the same"),
    ("grid_sample", [X, _grid(2, 2, 2, 2)], {"padding_mode": "wrap"}, "padding_mode is 'wrap'"),
    ("grid_sample", [X[..., None], _grid(2, 2, 2, 2, 3)], {"mode": "bicubic"}, "takes two axes"),
    ("crop_and_resize", [X, X, INDEX], {}, r"they have to be \(boxes, 4\)"),
    ("depth_to_space", [X], {}, "4 do not divide 3 channels"),
    ("pixel_unshuffle", [X], {}, "2 does not divide 5 and 7 places"),
    ("channel_shuffle", [X], {"groups": 2}, "x has 3 channels, which 2 groups do not divide"),
]


test_bad_input_is_said_in_a_sentence = refused(WRONG)
