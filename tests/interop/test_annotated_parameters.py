"""Annotations of strides and numbers, and annotations that say too little."""
# ruff: noqa: F821 - the words in annotations are lengths

import logging
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

import triton
import triton.language as tl

import xtarget
from xtarget.spec import ArrayType, In, InOut, Out, Stride, Workspace


@xtarget.kernel(name="p.row_sums", grid="M")
@triton.jit
def row_sums(x: In["float32", "M", "N"], row: Stride["x", 0], out: Out["float32", "M"],
             apart: Stride["out", 0], N, BLOCK: tl.constexpr = 16):  # fmt: skip
    i = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * row + i, i < N, 0)
    tl.store(out + tl.program_id(0) * apart, tl.sum(v, 0))


@xtarget.kernel(name="p.shifted", grid="N", complete=True)
@triton.jit
def shifted(x: In["floating", "N"], out: Out["x"], shift: int, scale: float = 1, up: bool = True):
    v = tl.load(x + tl.program_id(0))
    if up:
        v += shift
    tl.store(out + tl.program_id(0), tl.exp(v * 0) * v * tl.sqrt(scale))


def test_a_stride_that_is_a_parameter_may_be_any(device: str) -> None:
    table = np.arange(60, dtype=np.float32).reshape(5, 12)
    np.testing.assert_array_equal(
        xtarget.run("p.row_sums", table[:, :7], device=device), table[:, :7].sum(1)
    )
    np.testing.assert_array_equal(
        xtarget.run("p.row_sums", table[::2], device=device), table[::2].sum(1)
    )
    places = np.zeros((5, 3), np.float32)
    xtarget.run("p.row_sums", table, out=places[:, 1], device=device)  # strides of results, too
    np.testing.assert_array_equal(places[:, 1], table.sum(1))
    assert not places[:, ::2].any()


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (ArrayType("float32", (5, 6), (12, 2)),
         r'x has a stride of 2 in dimension 1 .* relies on 1 there.* Stride\["x", 1\]'),
        (ArrayType("float32", (6, 5), (1, 6)), "stride of 6 in dimension 1"),
        (ArrayType("float32", (6, 5), (0, 0)), "stride of 0 in dimension 1"),
    ],
)  # fmt: skip
def test_another_stride_has_to_be_that_of_a_contiguous_array(x: ArrayType, message: str) -> None:
    with pytest.raises(xtarget.ArgumentError, match=message):
        xtarget.compile("p.row_sums", x, target="cpu")
    one = ArrayType("float32", (6, 1), (9, 5))  # a dimension of one element has any
    assert xtarget.compile("p.row_sums", one, target="cpu")


def test_a_kernel_without_strides_says_how_it_would_have_them() -> None:
    every_other = ArrayType("float32", (8,), (2,))
    with pytest.raises(xtarget.ArgumentError, match=r'x is not C-contiguous.*Stride\["x", 0\]'):
        xtarget.compile("p.shifted", every_other, 1, target="cpu")


def test_numbers_are_what_their_annotations_say(device: str) -> None:
    x = np.ones(3, np.float32)
    assert xtarget.run("p.shifted", x, 2, device=device).tolist() == [3] * 3
    assert (
        xtarget.run("p.shifted", x, np.int8(2), 4, device=device).tolist() == [6] * 3
    )  # of a float is a float
    assert xtarget.run("p.shifted", x, 2, 4.0, up=False, device=device).tolist() == [2] * 3
    assert xtarget.run("p.shifted", x, 2, np.int64(9), device=device).tolist() == [9] * 3
    wide = xtarget.run("p.shifted", x.astype(np.float64), 2, 2, device=device)
    assert wide.dtype == np.float64
    assert (wide == 3 * np.sqrt(2.0)).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"shift": 1.5}, "shift is a number of dtype float32.* shift: int. Give a whole number"),
        ({"shift": np.float64(2)}, "shift is a number of dtype float64"),
        ({"shift": 1, "up": 3}, "up is a number of dtype int32.* up: bool. Give True or False"),
        ({"shift": 1, "scale": "2"}, "scale is '2'. Give a number"),
    ],
)
def test_a_number_that_is_another_is_refused(given: Any, message: str, device: str) -> None:
    x = np.ones(3, np.float32)
    xtarget.run("p.shifted", x, 1, device=device)  # what is known already does not take it
    with pytest.raises(xtarget.ArgumentError, match=message):
        xtarget.run("p.shifted", x, **given, device=device)


def _bare(word: str) -> Any:
    def function(x, y, n):
        pass

    function.__annotations__ = {"x": 'In["float32", "N"]', "y": 'Out["x"]', "n": word}
    return triton.jit(function)


@pytest.mark.parametrize("word", [In, InOut, Out, Stride])
@pytest.mark.parametrize("as_text", [True, False])
def test_a_word_without_brackets_is_told_what_is_missing(word: Any, as_text: bool) -> None:
    name = word.__name__
    message = rf"'n' \(.*\.py:\d+\) is {name}, without brackets. Write {name}\["
    with pytest.raises(xtarget.ArgumentError, match=message):
        xtarget.kernel(name="p.bare", grid="1")(_bare(name if as_text else word))


@pytest.mark.parametrize("word", [In, InOut, Stride, Workspace])
def test_a_word_with_the_wrong_brackets_is_told_so(word: Any) -> None:
    with pytest.raises(xtarget.ArgumentError, match=rf"{word.__name__}\(.*with brackets"):
        word("x", 0)


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ('Stride["q", 0]', r"is Stride\[\"q\", 0\], and 'q' is none of its inputs and outputs"),
        ('Stride["x", 2]', "and x has 1 dimension"),
        ('Out["x"] | None', r"each call makes it. Leave `\| None` out, or write InOut"),
        ('Out["d"]', "says no shape"),
    ],
)
def test_annotations_that_fit_nothing_are_named_with_their_line(
    annotation: str, message: str
) -> None:
    with pytest.raises(xtarget.ArgumentError, match=rf"\(.*\.py:\d+\).*{message}"):
        xtarget.kernel(name="p.strange", grid="1")(_bare(annotation))


def test_an_output_like_what_is_no_array_says_why() -> None:
    function = _bare("int")
    function.fn.__annotations__["x"] = object
    with pytest.raises(xtarget.ArgumentError, match=r"'x' is a number, as nothing says"):
        xtarget.kernel(name="p.like_a_number", grid="1")(function)


def test_the_decorator_needs_its_arguments() -> None:
    with pytest.raises(xtarget.ArgumentError, match=r"write @xtarget.kernel\(grid="):
        xtarget.kernel(row_sums)  # type: ignore[arg-type]


def test_a_function_is_no_flag() -> None:
    x = ArrayType("float32", (3,), (1,))
    with pytest.raises(xtarget.ArgumentError, match=r"a function is none\. Let a word say"):
        xtarget.compile("p.row_sums", ArrayType("float32", (3, 3), (3, 1)), target="cpu",
                        BLOCK=shifted)  # fmt: skip
    assert xtarget.compile("p.shifted", x, 1, target="cpu")


def test_a_name_that_another_function_takes_is_told(caplog: pytest.LogCaptureFixture) -> None:
    def first(x: In["float32", "N"], out: Out["x"]):
        pass

    def second(x: In["float32", "N"], out: Out["x"]):
        pass

    taken = xtarget.kernel(name="p.taken", grid="1")
    with caplog.at_level(logging.WARNING, "xtarget"):
        taken(triton.jit(first))
        taken(triton.jit(first))  # once more, as in a notebook
        assert not caplog.records
        taken(triton.jit(second))
    (told,) = caplog.records
    assert "p.taken" in told.getMessage()
    assert "the function first there" in told.getMessage()
