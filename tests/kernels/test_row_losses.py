"""Losses of rows and of sequences, and cross entropy of probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operators import places, sample
from oracle import check
from refusals import refused

import xtarget
from xtarget._launch import known


def _sequences(dtype: str, steps: int, samples: int, classes: int, longest: int) -> list[Any]:
    """Log-probabilities, labels (0 is the blank), and ragged lengths: of none, and of all."""
    logits = sample("float64", steps, samples, classes)
    given = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    inputs = steps - places(steps // 2 + 1, samples)
    labels = places(longest + 1, samples)
    inputs[0], labels[0], labels[-1] = steps, longest, 0
    return [given.astype(dtype), 1 + places(classes - 1, samples, longest), inputs, labels]


@pytest.mark.parametrize(
    "dtype", ["float32", *(pytest.param(d, marks=pytest.mark.long) for d in ("float16", "float64"))]
)
def test_ctc_of_ragged_sequences_is_torchs(device: str, dtype: str) -> None:
    for sizes in ((9, 3, 7, 3), (40, 2, 20, 40), (1, 2, 3, 1)):
        given = _sequences(dtype, *sizes)
        for options in ({}, {"reduction": "none"}, {"reduction": "sum", "zero_infinity": True}):
            check("ctc_loss", *given, device=device, **options)


def test_ctc_of_packed_labels_other_blanks_views_and_one_sample(device: str) -> None:
    x, targets, inputs, labels = _sequences("float32", 9, 3, 7, 3)
    packed = np.concatenate([own[:count] for own, count in zip(targets, labels, strict=True)])
    none = {"reduction": "none", "device": device}
    given = [packed.astype(np.int32), inputs.astype(np.int32), labels.astype(np.int32)]
    check("ctc_loss", x, *given, blank=6, **none)
    check("ctc_loss", x.transpose(1, 0, 2).copy().transpose(1, 0, 2)[::-1], targets[:, ::-1],
          inputs, labels[::-1][::-1], **none)  # fmt: skip
    one = xtarget.run("ctc_loss", x[:, 0], targets[0], inputs[:1], labels[:1], device=device)
    whole = xtarget.run("ctc_loss", x, targets, inputs, labels, **none)
    np.testing.assert_allclose(one, whole[0] / labels[0], rtol=1e-6)


def test_ctc_of_nothing_and_of_what_cannot_be(device: str) -> None:
    """No step is as likely as no label; lengths and labels that are none give nan and read
    nothing."""
    x, targets, _, _ = _sequences("float32", 4, 5, 7, 3)
    inputs, labels = np.array([0, 0, 5, 4, 4]), np.array([0, 1, 1, -1, 1])
    targets[4, 0] = 2**40
    found = xtarget.run("ctc_loss", x, targets, inputs, labels, reduction="none", device=device)
    np.testing.assert_array_equal(found, np.float32([0, np.inf, np.nan, np.nan, np.nan]))
    assert np.isnan(xtarget.run("ctc_loss", x[:, :0], targets[:0], inputs[:0], labels[:0],
                                device=device))  # fmt: skip


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (1, 7, r"targets\[1, 0\] is 7. It has to be from 0 to 6"),
        (2, 5, r"input_lengths\[1\] is 5. It has to be from 0 to 4"),
        (3, 4, r"target_lengths\[1\] is 4. It has to be from 0 to 3"),
        (3, -1, r"target_lengths\[1\] is -1. It has to be from 0 to 3"),
    ],
)
def test_ctc_says_what_is_beyond_its_arrays_where_that_is_asked(
    device: str, place: int, value: int, says: str
) -> None:
    given = _sequences("float32", 4, 2, 7, 3)
    xtarget.run("ctc_loss", *given, device=device, check=True)
    given[place][1] = value
    with pytest.raises(xtarget.ArgumentError, match=says):
        xtarget.run("ctc_loss", *given, device=device, check=True)


def test_losses_of_rows_by_reduction(device: str) -> None:
    x, y = sample("float32", 3, 5, 7), sample("float32", 3, 5, 7, seed=1)
    for options in ({"reduction": "none"}, {"reduction": "sum"}):
        check("mean_pairwssqerr_loss", x, y[:, ::-1], device=device, **options)
        check("cosine_distance_loss", x, y, axis=1, device=device, **options)
    assert xtarget.run("cosine_distance_loss", x, y, reduction="none").shape == (3, 5, 1)
    check("mean_pairwssqerr_loss", x[:, 0, 0], y[:, 0, 0], reduction="none", device=device)


def test_moments_with_and_without_a_shift(device: str) -> None:
    counts = np.float32([4, 1, 0])
    total, squares, shift = (sample("float32", 2, 3, seed=seed) for seed in range(3))
    for more in ((), (None,), (shift,)):
        given = [one for one in more if one is not None]
        found = xtarget.run("normalize_moments", counts, total, squares, *more, device=device)
        check("normalize_moments", counts, total, squares, *given, device=device)
        with np.errstate(all="ignore"):
            mean = total / counts
        np.testing.assert_array_equal(found[0], mean + given[0] if given else mean)


_SHAPES = ((9, 70), (3, 11, 5), (70,))


@pytest.mark.parametrize(
    ("options", "shapes"),
    [
        ({}, _SHAPES[2:]),
        pytest.param({}, _SHAPES, marks=pytest.mark.long),
        ({"reduction": "none"}, _SHAPES[1:2]),
        ({"reduction": "sum", "label_smoothing": 0.2}, _SHAPES[:1]),
        pytest.param({"reduction": "none"}, _SHAPES, marks=pytest.mark.long),
        pytest.param({"reduction": "sum", "label_smoothing": 0.2}, _SHAPES, marks=pytest.mark.long),
    ],
)
def test_cross_entropy_of_probabilities_and_its_gradient(
    device: str, options: Any, shapes: Any
) -> None:
    for shape in shapes:
        classes = shape[min(1, len(shape) - 1)]
        x, target = sample("float32", *shape), np.abs(sample("float32", *shape, seed=1))
        rows = shape[:1] + shape[2:] if len(shape) > 1 else ()
        weight = np.abs(sample("float32", classes))
        grad = np.ones(rows if options.get("reduction") == "none" else (), np.float32)
        for more in ([], [weight]):
            check("cross_entropy", x, target, *more, device=device, **options)
            check("cross_entropy_backward", grad, x, target, *more, device=device, **options)


X, TARGETS, LENGTHS = np.zeros((4, 2, 3)), np.ones((2, 3), int), np.array([2, 2])
test_bad_input_is_said_in_a_sentence = refused(
    [
        ("ctc_loss", [X[0, 0], TARGETS, LENGTHS, LENGTHS], {}, r"it needs \(steps, samples"),
        ("ctc_loss", [X, TARGETS, LENGTHS, LENGTHS], {"blank": 3}, "a class, from 0 to 2"),
        ("ctc_loss", [X, TARGETS[:1], LENGTHS, LENGTHS], {}, r"it needs \(2, labels\)"),
        ("ctc_loss", [X, TARGETS, LENGTHS[:1], LENGTHS], {}, "input_lengths has shape"),
        ("ctc_loss", [X, X[0], LENGTHS, LENGTHS], {}, "labels are int32 or int64"),
        ("mean_pairwssqerr_loss", [X, X[:1]], {}, "they need the same"),
        ("cross_entropy", [X[0], X[0]], {"ignore_index": 1}, "of which none is ignored"),
        ("nll_loss", [X[0], X[0]], {}, "classes are int64 or int32"),
        ("huber_loss", [X, X], {"delta": 0.0}, r"delta is 0\.0; it has to be above 0"),
        ("huber_loss", [X, X], {"delta": np.nan, "reduction": "none"}, "delta is nan; it has to"),
        ("smooth_l1_loss", [X, X], {"beta": -1.0}, r"beta is -1\.0; it has to be from 0 on"),
    ]
)


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.large)])
@pytest.mark.usefixtures("a_cpu")
def test_cross_entropy_of_rows_that_are_read_once(
    dtype: str, library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way of GPUs, on the CPU: rows that begin with -inf, ignored targets and such as are no
    class, weights, smoothing."""
    tables = library("plans.tuning")
    sizes = tables.rows("cpu")._replace(group=tables.Group(32, 4, 1))
    monkeypatch.setattr(tables, "rows", lambda vendor: sizes)
    known.forget_calls()
    x = sample(dtype, 5, 700)
    x[0, :300] = -np.inf
    target, weight = places(700, 5), np.abs(sample(dtype, 700))
    target[0], target[1] = 500, -100
    for options in ({}, {"reduction": "none", "label_smoothing": 0.25}):
        given = x if not options else sample(dtype, 5, 700)
        check("cross_entropy", given, target, weight, device="cpu", **options)
        d = sample(dtype, *((5,) if options else ()))
        check("cross_entropy_backward", d, given, target, weight, device="cpu", **options)
    target[2] = 700
    found = xtarget.run("cross_entropy_backward", sample(dtype, 5), x, target, reduction="none")
    assert np.isnan(found[2].astype(float)).all()
    assert not found[1].astype(float).any()
    known.forget_calls()
