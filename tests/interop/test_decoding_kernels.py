"""Kernels of samplers, losses, norms and scans give NumPy's results, on the first device and on
emulated GPUs; and what does not fit them is said in a sentence."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

import decoding_kernels

import xtarget
from xtarget import ArgumentError

assert decoding_kernels
close = np.testing.assert_allclose


def floats(*shape: int, seed: int = 3) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def shares(*shape: int, seed: int = 3) -> Any:
    e = np.exp(2 * floats(*shape, seed=seed))
    return (e / e.sum(-1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("certain", [False, True])
def test_drafts_are_taken_until_one_is_rejected(on: str, certain: bool) -> None:
    starts = np.array([0, 3, 3, 7], np.int32)
    made = np.random.default_rng(7)
    drafts, recovered = (made.integers(0, 20, 7).astype(np.int32) for _ in range(2))
    draft_p, target_p = shares(7, 20), shares(7, 20, seed=4)
    uniform = made.random(7).astype(np.float32) * (0.1 if certain else 1)
    bonus = np.array([30, 31, 32], np.int32)
    right = np.full((3, 5), -1)
    for request, (begin, end) in enumerate(itertools.pairwise(starts)):
        row = []
        for at in range(begin, end):
            drawn = 1.0 if certain else draft_p[at, drafts[at]]
            taken = target_p[at, drafts[at]] >= uniform[at] * drawn
            row.append(drafts[at] if taken else recovered[at])
            if not taken:
                break
        else:
            row.append(bonus[request])
        right[request, : len(row)] = row
    given = drafts, starts, None if certain else draft_p, target_p, bonus, recovered, uniform
    np.testing.assert_array_equal(xtarget.run("d.reject", *given), right)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_sum_and_norm_in_place(on: str, dtype: str) -> None:
    whole, residual, weight = floats(5, 300), floats(5, 120, seed=4), floats(120, seed=5)
    whole, residual, weight = (one.astype(dtype) for one in (whole, residual, weight))
    x = whole[:, :120]  # rows lie apart
    total = x.astype(np.float64) + residual
    scale = np.sqrt((total**2).mean(-1, keepdims=True) + 1e-6)
    kept = whole[:, 120:].copy()
    assert xtarget.run("d.add_rms_norm", x, residual, weight) is None
    close(residual, total, rtol=2e-3)
    close(x, total / scale * weight, rtol=5e-3, atol=1e-3)
    np.testing.assert_array_equal(whole[:, 120:], kept)
    with pytest.raises(ArgumentError, match=r"which it writes to, overlaps argument 2 \(residual"):
        xtarget.run("d.add_rms_norm", residual, residual, weight)


def test_rotary_by_sections(on: str) -> None:
    q = floats(4, 3, 24)
    angle = floats(3, 4, 12, seed=9)
    section = np.repeat([0, 1, 2], [4, 5, 3])
    chosen = angle[section, :, np.arange(12)].T[:, None]
    first, second = q[..., :12], q[..., 12:]
    c, s = np.cos(chosen), np.sin(chosen)
    right = np.concatenate([first * c - second * s, second * c + first * s], -1)
    xtarget.run("d.mrope", q, np.cos(angle), np.sin(angle), TIME=4, HEIGHT=5)
    close(q, right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("labelled", [False, True])
def test_divergence_and_its_gradient(on: str, labelled: bool) -> None:
    q, p = shares(6, 50).astype(np.float64), shares(6, 50, seed=8).astype(np.float64)
    m = 0.3 * p + 0.7 * q
    loss = (0.3 * p * np.log(p / m) + 0.7 * q * np.log(q / m)).sum(-1)
    slope = 0.7 * q * np.log(q / m)
    label = np.array([1, -100, 3, 4, -100, 5]) if labelled else None
    if labelled:
        loss[[1, 4]], slope[[1, 4]] = 0, 0
    x = np.log(q).astype(np.float32)
    found = xtarget.run("d.jsd", x, np.log(p).astype(np.float32), label, beta=0.3)
    close(found, loss, rtol=1e-4, atol=1e-6)
    close(x, slope, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rows", [1, 3, 9])
def test_gradients_of_a_norm_by_partial_sums(on: str, rows: int) -> None:
    x, dy, w = floats(rows, 70) + 5, floats(rows, 70, seed=4), floats(70, seed=5)
    v = x.astype(np.float64)
    apart = v - v.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt((apart**2).mean(-1, keepdims=True) + 1e-5)
    normal, wg = apart * inverse, w * dy
    c1, c2 = (normal * wg).mean(-1, keepdims=True), wg.mean(-1, keepdims=True)
    dx, dw, db = xtarget.run("d.layer_norm_gradient", x, dy, w)
    close(dx, (wg - normal * c1 - c2) * inverse, rtol=1e-4, atol=1e-5)
    close(dw, (dy * normal).sum(0), rtol=1e-4, atol=1e-5)
    close(db, dy.sum(0), rtol=1e-4, atol=1e-5)


def test_the_fewest_that_reach_a_limit(on: str) -> None:
    p = -np.sort(-shares(5, 33))
    limit = np.array([0.5, 0.9, 0.01, 1.5, 0.75], np.float32)
    taken = p.cumsum(-1) - p < limit[:, None]
    kept, counts = xtarget.run("d.top_p", p, limit)
    np.testing.assert_array_equal(counts, taken.sum(-1))
    cut = np.where(taken, p, 0)
    close(kept, cut / cut.sum(-1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("skipping", [False, True])
def test_a_scan_goes_on_from_its_state(on: str, skipping: bool) -> None:
    u, delta, a = floats(2, 9, 20), np.abs(floats(2, 9, 20, seed=4)), -np.abs(floats(20, 8, seed=5))
    b, c = floats(2, 9, 8, seed=6), floats(2, 9, 8, seed=7)
    skip = floats(20, seed=8) if skipping else None
    h, right = np.zeros((2, 20, 8)), np.zeros((2, 9, 20))
    for t in range(9):
        d = delta[:, t, :, None]
        h = np.exp(d * a) * h + d * u[:, t, :, None] * b[:, t, None]
        right[:, t] = (h * c[:, t, None]).sum(-1) + (skip * u[:, t] if skipping else 0)
    state, found = np.zeros((2, 20, 8), np.float32), []
    for part in (slice(0, 4), slice(4, 9)):
        own = [np.ascontiguousarray(one[:, part]) for one in (u, delta, b, c)]
        found.append(
            xtarget.run("d.selective_scan", own[0], own[1], a, own[2], own[3], skip, state)
        )
    close(np.concatenate(found, 1), right, rtol=1e-4, atol=1e-4)
    close(state, h, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("prompted", [False, True])
def test_penalties_in_place(on: str, prompted: bool) -> None:
    logits, made = floats(3, 100), np.random.default_rng(6)
    counts = made.integers(0, 3, (3, 100)).astype(np.int32)
    in_prompt = made.random((3, 100)) < 0.2 if prompted else None
    repetition = np.array([1.0, 1.5, 2.0], np.float32)
    seen = (counts > 0) | (in_prompt if prompted else False)
    factor = np.where(seen, repetition[:, None], 1)
    right = np.where(logits > 0, logits / factor, logits * factor)
    right -= 0.25 * counts + 0.5 * (counts > 0)
    xtarget.run("d.penalties", logits, in_prompt, counts, repetition, 0.25, presence=0.5)
    close(logits, right, rtol=1e-5, atol=1e-5)


def test_states_of_two_parts_are_joined(on: str) -> None:
    first, second = floats(4, 2, 24), floats(4, 2, 24, seed=4)
    x, y = floats(2, 4, seed=5), floats(2, 4, seed=6)
    p, q = np.exp(x).T[..., None], np.exp(y).T[..., None]
    out, lse = xtarget.run("d.merge_states", first, x, second, y)
    close(out, (first * p + second * q) / (p + q), rtol=1e-5, atol=1e-6)
    close(lse, np.logaddexp(x, y), rtol=1e-5, atol=1e-6)
    outs = np.empty_like(first), np.empty_like(x)
    assert xtarget.run("d.merge_states", first, x, second, y, out=outs) is outs
    close(outs[0], out)
    with pytest.raises(ArgumentError, match=r"out\['lse'\].*overlaps argument 2 \(first_lse\)"):
        xtarget.run("d.merge_states", first, x, second, y, out=(outs[0], x))


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_of_experts_are_added(on: str, weighted: bool) -> None:
    x, rows = floats(10, 50), np.array([[0, 9], [3, -1], [7, 7]], np.int64)
    weights = floats(3, 2, seed=5) if weighted else None
    scale = np.where(rows >= 0, weights if weighted else 1, 0)[..., None]
    close(
        xtarget.run("d.moe_sum", x, rows, weights), (x[rows] * scale).sum(1), rtol=1e-5, atol=1e-5
    )


THREE = floats(3, 4, 12)


@pytest.mark.parametrize(
    ("kernel", "args", "words"),
    [
        ("d.top_p", (floats(2, 8), floats(3)), r"limit.*dimension 0.*2"),
        ("d.top_p", (floats(2, 8), None), "limit"),
        ("d.mrope", (floats(4, 3, 24), THREE, THREE), "TIME"),
        ("d.mrope", (floats(4, 3, 24), THREE[:2], THREE), r"cos.*dimension 0.*3"),
        ("d.merge_states", (floats(4, 2, 24), floats(2, 4)), "second"),
        ("d.moe_sum", (floats(4, 5), floats(2, 2), None), "float32 .rows.; it takes int32, int64"),
        ("d.penalties", (THREE[0], None, THREE[0], floats(4), 1, 1), "float32 .counts.*int32"),
    ],
)
def test_what_does_not_fit_is_said(device: str, kernel: str, args: Any, words: str) -> None:
    flags = {"TIME": 4, "HEIGHT": 5} if "dimension" in words and kernel == "d.mrope" else {}
    with pytest.raises(ArgumentError, match=f"(?s)^{kernel}.*{words}"):
        xtarget.run(kernel, *args, **flags)
