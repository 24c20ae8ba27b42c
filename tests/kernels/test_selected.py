"""Reductions of the elements that `where` chooses, as NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operators import sample
from oracle import FLOATS, INTEGERS, check
from refusals import refused

import xtarget

#: With what NumPy needs where nothing is chosen.
NAMES: dict[str, dict[str, Any]] = {
    "sum": {}, "prod": {}, "mean": {}, "any": {}, "all": {}, "max": {"initial": -3},
    "min": {"initial": 3},
}  # fmt: skip


def _dtypes(name: str) -> list[Any]:
    every = ("bool", *INTEGERS, *FLOATS)
    short = {"max": "int8", "mean": "int32", "all": "bool"}.get(name, "float32")
    dtypes = [d for d in every if not (d == "bool" or d.startswith("uint")) or name != "max"]
    return [
        pytest.param(name, d, marks=[] if d == short else [pytest.mark.long, pytest.mark.large])
        for d in dtypes
    ]


@pytest.mark.sample(3, each=("name",))
@pytest.mark.parametrize(("name", "dtype"), [one for name in NAMES for one in _dtypes(name)])
def test_elements_that_count(device: str, name: str, dtype: str) -> None:
    """Of arrays and views; some rows have none; masks that broadcast."""
    x = sample(dtype, 5, 40)
    if name == "prod":
        x = np.where(x > 0, 2, 1).astype(x.dtype)
    chosen = sample("bool", 5, 40)
    chosen[1:3] = False
    options = NAMES[name]
    for axis in (None, 1):
        check(name, x, chosen, axis=axis, device=device, **options)
    check(name, x.T[::-1], chosen.T, axis=0, keepdims=True, device=device, **options)
    check(name, x, chosen[:1], axis=1, device=device, **options)
    check(name, x[:, :0], chosen[:, :0], axis=1, device=device, **options)
    for scalar in (True, False):
        right = getattr(np, name)(np.float64(x), axis=1, where=scalar, **options)
        found = xtarget.run(name, x, where=scalar, axis=1, device=device, **options)
        with np.errstate(over="ignore"):
            right = np.asarray(right).astype(found.dtype)  # 2**20 is inf in float16
        np.testing.assert_allclose(np.float64(found), np.float64(right), rtol=2e-2)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_does_not_count_is_not_seen(device: str) -> None:
    """Neither nan nor an infinity; nothing of a number without dimensions."""
    x = np.float32([[np.nan, 1, np.inf], [2, -np.inf, 3]])
    chosen = np.array([[False, True, False], [True, False, True]])
    for name in ("sum", "max", "mean", "any"):
        options = NAMES[name]
        check(name, x, chosen, axis=1, device=device, **options)
        check(name, x, ~chosen, axis=1, device=device, **options)
        check(name, np.array(7, np.float32), np.array(False), device=device, **options)
    assert xtarget.run("sum", x, where=chosen, initial=10, device=device) == 16


def test_a_gradient_of_what_counts(device: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not device.startswith("cpu"):
        pytest.skip("the tensors are on the CPU")
    chosen = torch.tensor([[True, False, True], [False, True, False]])
    pytest.importorskip("xtarget.torch")
    for name in ("sum", "mean", "max"):
        x = torch.tensor([[1.0, 5.0, 2.0], [3.0, 4.0, 0.0]], requires_grad=True)
        options = {"initial": -9.0} if name == "max" else {}
        getattr(torch.ops.xtarget, name)(x, chosen, axis=[1], **options).sum().backward()
        right = {"sum": chosen.float(), "mean": chosen / chosen.sum(1, keepdim=True),
                 "max": torch.tensor([[0.0, 0, 1], [0, 1, 0]])}  # fmt: skip
        torch.testing.assert_close(x.grad, right[name])


X = np.zeros((3, 4))
test_bad_input_is_said_in_a_sentence = refused(
    [
        ("max", [X, X > 0], {}, "Give initial= too"),
        ("sum", [X, np.zeros((3, 4), int)], {}, "where is int64; it has to be bool"),
        ("prod", [np.zeros((3, 0), "float32"), 1], {}, "where is int64; it has to be bool"),
        ("max", [X, 1], {}, "where is int64; it has to be bool"),
        ("sum", [X, 0], {}, "Options are given by name: axis=0"),
        ("mean", [X, np.zeros((2, 3, 4), bool)], {}, "does not broadcast"),
    ]
)
