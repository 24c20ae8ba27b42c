"""Tokens drawn from logits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operators import own, sample
from oracle import check
from refusals import refused

LOGITS = sample("float32", 4, 3, 200) * 3
CASES: list[dict[str, Any]] = [
    {},
    {"top_k": 5},
    {"top_p": 0.7, "temperature": 0.8},
    {"min_p": 0.2},
    {"top_k": 150, "top_p": 0.9, "min_p": 0.01, "temperature": 1.5},
    {"top_p": 0.0},
    {"temperature": 0.0},
]


@pytest.mark.parametrize(
    "options",
    [*CASES[4:5], *(pytest.param(o, marks=pytest.mark.large) for o in CASES[:4] + CASES[5:])],
)
def test_what_is_drawn_is_what_the_reference_draws(device: str, options: Any) -> None:
    for seed in (0, 2**40 + 1):
        check("token_sample", LOGITS, seed=seed, offset=7, device=device, **options)


def test_rows_are_numbered_in_the_order_of_their_indices(device: str) -> None:
    """Whatever the layout is; one row, and rows of one token."""
    turned = np.asarray(LOGITS.transpose(2, 1, 0), order="C").transpose(2, 1, 0)
    check("token_sample", turned, seed=3, device=device)
    assert check("token_sample", LOGITS[0, 0], seed=3, device=device).shape == ()
    assert not check("token_sample", LOGITS[..., :1], device=device).any()


@pytest.mark.parametrize("dtype", ["float16", pytest.param("float64", marks=pytest.mark.long)])
def test_dtypes(device: str, dtype: str) -> None:
    check("token_sample", sample(dtype, 5, 70), top_k=20, seed=1, device=device)


def test_what_is_left_out_is_never_drawn() -> None:
    """By the reference, which the devices are compared with: shares of many draws."""
    reference: Any = own()["token_sample"].reference
    share = np.array([0.5, 0.25, 0.125, 0.0625, 0.0625])
    logits = np.broadcast_to(np.log(share), (100_000, 5))
    for options, right in (
        ({}, share),
        ({"top_k": 2}, [2 / 3, 1 / 3, 0, 0, 0]),
        ({"top_p": 0.8}, [4 / 7, 2 / 7, 1 / 7, 0, 0]),
        ({"min_p": 0.4}, [2 / 3, 1 / 3, 0, 0, 0]),
    ):
        found = np.bincount(reference(logits, seed=1, **options), minlength=5) / len(logits)
        np.testing.assert_allclose(found, right, atol=0.01)
        assert not found[np.array(right) == 0].any()


def test_logits_that_are_no_numbers(device: str) -> None:
    x = np.full((4, 70), -np.inf, np.float32)
    x[1, 5] = np.inf
    x[2, 66] = np.nan
    x[3, 9] = -3
    assert check("token_sample", x, device=device).tolist() == [0, 5, 66, 9]


def test_classes_among_the_largest(device: str) -> None:
    """Equals do not push one another out; a class that is none, or nan, is not among them."""
    x = np.array([[1, 5, 5, 0], [np.nan, 1, 2, 3], [4, 4, 4, 4], [np.nan, 2, 3, 4]], np.float32)
    found = [check("in_top_k", x, np.array([1, 3, 0, 0]), k=k, device=device).tolist()
             for k in (0, 1, 2)]  # fmt: skip
    assert found == [[False] * 4, [True, False, True, False], [True, True, True, False]]
    plain = sample("int32", 3, 5, 30)
    check("in_top_k", plain.transpose(1, 0, 2), np.arange(15).reshape(5, 3), k=9, device=device)
    check("in_top_k", sample("float64", 6, 40), np.array([0, 39, 40, -1, 7, 8]), k=20,
          device=device)  # fmt: skip


WRONG: list[tuple[str, list[Any], dict[str, Any], str]] = [
    ("token_sample", [LOGITS], {"temperature": -1.0}, "temperature is -1.0; it has to be from 0"),
    ("token_sample", [LOGITS], {"top_p": 1.5}, "top_p is 1.5; it has to be from 0 to 1"),
    ("token_sample", [LOGITS], {"top_k": -1}, "top_k is -1; it has to be above 0"),
    ("token_sample", [LOGITS[..., :0]], {}, "an element for each token"),
    ("token_sample", [np.zeros((2, 3), int)], {}, "does not take int64"),
    ("in_top_k", [LOGITS, np.zeros(3, int)], {}, "one for each row of the predictions"),
]


test_bad_input_is_said_in_a_sentence = refused(WRONG)
