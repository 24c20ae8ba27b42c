"""Shapes and values on the command line."""

from __future__ import annotations

import click
import numpy as np
import pytest
from command_line import here

from xtarget._cli import values

CONTEXT = click.Context(click.Command("run"))


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("5", (5,)),
        ("5,", (5,)),
        ("(5,)", (5,)),
        ("( 5, )", (5,)),
        ("4x5", (4, 5)),
        ("4, 5", (4, 5)),
        ("(4, 5,)", (4, 5)),
        ("()", ()),
        ("0", (0,)),
    ],
)
def test_shapes(text: str, shape: tuple[int, ...]) -> None:
    assert values.shapes(CONTEXT, click.Option(["--shape"]), (text,)) == (shape,)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("1e-3", 1e-3),
        ("None", None),
        ("inf", float("inf")),
        ("-Inf", float("-inf")),
        ("[0, 1]", (0, 1)),
        ("(0, 1)", (0, 1)),
        ("tanh", "tanh"),
        ("+-nan", "+-nan"),
        ("{[]: 1}", "{[]: 1}"),
        ("(" * 10_000, "(" * 10_000),
    ],
)
def test_values_are_numbers_tuples_or_text(text: str, value: object) -> None:
    given = values.pairs(CONTEXT, click.Option(["--option"]), (f"eps={text}",))
    assert given == {"eps": value}
    assert type(given["eps"]) is type(value)


def test_nan_is_a_number() -> None:
    given = values.pairs(CONTEXT, click.Option(["--option"]), ("eps=nan",))
    assert np.isnan(given["eps"])


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (("attention", "--shape", "1x2x8x128"), "attention makes query 1x2x8x64, key 1x2x8x64"),
        (("attention", *("--shape", "1x2x8x128") * 3), ""),
        (("attention", "--shape", "1x2x8x32"), ""),
        (("matmul", "--shape", "64x32x16"), ""),
    ],
)
def test_a_shape_that_is_not_taken_as_it_is_is_told(
    words: tuple[str, ...], note: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, errors = here(capsys, "explain", *words, "--target", "nvidia:sm_90")
    assert code == 0, errors
    assert note in errors if note else not errors
