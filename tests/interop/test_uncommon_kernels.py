"""Kernels whose specs have parts that few need give NumPy's results, on the first device and on
emulated GPUs."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

import uncommon_kernels
from test_adapter_kernels import floats, integers
from test_author_kernels import lines_of_spec

import xtarget

close, equal = np.testing.assert_allclose, np.testing.assert_array_equal


def test_experts_blocks_are_as_many_as_there_are(on: str) -> None:
    chosen = integers(0, 5, 9, 3)
    run, flat = xtarget.get("u.expert_blocks"), chosen.ravel()
    order, blocks = run(chosen, EXPERTS=8, TILE=4)
    padded = [-(-int((flat == e).sum()) // 4) * 4 for e in range(8)]
    assert order.shape == (sum(padded),)
    equal(blocks[: sum(padded) // 4], np.repeat(np.arange(8), [n // 4 for n in padded]))
    assert (blocks[sum(padded) // 4 :] == -1).all()
    first = 0
    for expert, length in enumerate(padded):
        mine = order[first : first + length]
        equal(mine[mine >= 0], np.flatnonzero(flat == expert))
        first += length
    names = integers(0, 99, 27, seed=9).astype(np.int32)
    again, _ = run(chosen, names, EXPERTS=8)
    equal(again[again >= 0], names[order[order >= 0]])
    with pytest.raises(xtarget.ArgumentError, match="needs EXPERTS="):
        run(chosen)


def recurrence(q: Any, k: Any, v: Any, g: Any, first: Any, scale: float, reverse: bool) -> Any:
    h = np.zeros((*q.shape[:1], *q.shape[2:], v.shape[-1])) if first is None else first.copy()
    out = np.zeros(v.shape)
    for n in range(q.shape[1]):
        t = q.shape[1] - 1 - n if reverse else n
        if g is not None:
            h = h * np.exp(g[:, t])[..., None]
        h = h + k[:, t, ..., None] * v[:, t, :, None]
        out[:, t] = np.einsum("bhk,bhkv->bhv", q[:, t] * scale, h)
    return out, h


def test_a_recurrence_with_states_that_heuristics_see(on: str) -> None:
    q, k = floats(2, 5, 3, 10), floats(2, 5, 3, 10, seed=4)
    v, g = floats(2, 5, 3, 12, seed=5), -np.abs(floats(2, 5, 3, 10, seed=6))
    first, last = floats(2, 3, 10, 12, seed=7), np.zeros((2, 3, 10, 12), np.float32)
    run = xtarget.get("u.gated_recurrence")
    right, _ = recurrence(q, k, v, None, None, 0.5, reverse=False)
    close(run(q, k, v, scale=0.5), right, rtol=2e-5, atol=2e-5)
    right, state = recurrence(q, k, v, g, first, 0.5, reverse=True)
    found = run(q, k, v, g, first, last, 0.5, REVERSE=True, config=1)
    close(found, right, rtol=2e-5, atol=2e-5)
    close(last, state, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("flags", [{}, {"REVERSE": True, "EXCLUSIVE": True}], ids=str)
def test_a_length_that_only_a_table_says(on: str, flags: dict[str, Any]) -> None:
    x, starts = floats(45, 3), [0, 20, 21, 45]

    def sums(part: Any) -> Any:
        pieces = [part[i : i + 16].astype(float) for i in range(0, len(part), 16)]
        turned = [p[::-1].cumsum(0)[::-1] if flags.get("REVERSE") else p.cumsum(0) for p in pieces]
        left = [t - p if flags.get("EXCLUSIVE") else t for t, p in zip(turned, pieces, strict=True)]
        return np.concatenate(left)

    run = xtarget.get("u.chunk_sums")
    close(run(x, **flags), sums(x), rtol=1e-5, atol=1e-5)
    table = [(s, c) for s in range(3) for c in range(-(-(starts[s + 1] - starts[s]) // 16))]
    found = run(x, np.array(starts), np.array(table, np.int32), **flags)
    right = np.concatenate([sums(x[a:b]) for a, b in itertools.pairwise(starts)])
    close(found, right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["int8", "float16"])
def test_the_caller_lays_scales_out(on: str, kind: str) -> None:
    x = floats(6, 40)
    groups = np.pad(x, ((0, 0), (0, 8))).reshape(6, 3, 16)
    scale = np.maximum(np.abs(groups).max(2), 1e-10) / np.float32(127)
    values, columns = np.empty((6, 40), kind), np.zeros((3, 6), np.float32)
    out = {"values": values, "scales": columns.T}
    xtarget.run("u.block_quantise", x, KIND=kind, out=out)
    close(columns.T, scale, rtol=1e-6)
    back = values.astype(float) * np.repeat(scale, 16, 1)[:, :40]
    close(back, x, atol=scale.max() * (0.51 if kind == "int8" else 0.05))
    found, rows = xtarget.run("u.block_quantise", x, KIND=kind, POWER=True)
    assert found.dtype == kind
    equal(np.frexp(rows)[0], np.full((6, 3), 0.5))


def test_a_tuple_is_a_flag(on: str) -> None:
    x = 3 * floats(4, 70)
    left, right = x[:, ::2].astype(float), x[:, 1::2].astype(float)
    run = xtarget.get("u.gate")
    for _ in range(2):
        close(run(x), left / (1 + np.exp(-1.702 * left)) * (right + 1), rtol=2e-5, atol=1e-6)
        low = np.minimum(left, 2)
        limited = low / (1 + np.exp(-low)) * (np.clip(right, -1, 2) + 1)
        close(run(x, 1.0, LIMITS=(-1.0, 2.0)), limited, rtol=2e-5, atol=1e-6)


def test_gradients_take_the_places_of_both_halves(on: str) -> None:
    whole, dy = floats(4, 70), floats(4, 35, seed=8)
    a, b = whole[:, :35].astype(float), whole[:, 35:].astype(float)
    share = 1 / (1 + np.exp(-a))
    right = np.concatenate([dy * b * share * (1 + a * (1 - share)), dy * a * share], 1)
    for grad in (None, np.array(0.25, np.float32)):
        x = whole.copy()
        assert xtarget.run("u.gate_gradient", dy, x[:, :35], x[:, 35:], grad) is None
        close(x, right * (1 if grad is None else 0.25), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("reduction", ["none", "batchmean"])
def test_a_flag_decides_the_shape_of_the_result(on: str, reduction: str) -> None:
    logq, target = -np.abs(floats(5, 21)), np.abs(floats(5, 21, seed=9))
    kept = np.array([1, 0, 1, 1, 0], bool)
    one = target * (np.log(target.astype(float)) - logq)
    for mask in (None, kept):
        right = one if mask is None else one * mask[:, None]
        right = right if reduction == "none" else right.sum() / 5
        found = xtarget.run("u.kl", logq, target, mask, REDUCTION=reduction)
        assert found.shape == np.shape(right)
        close(found, right, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("with_states", [False, True])
def test_a_convolution_goes_on_from_states_by_slot(on: str, with_states: bool) -> None:
    wide, weight, bias = floats(11, 40), floats(20, 4, seed=4), floats(20, seed=5)
    x, starts = wide[:, ::2], np.array([0, 2, 9, 11], np.int32)
    slots, fresh = np.array([3, 1, -1], np.int32), np.array([0, 1, 0], bool)
    states = floats(5, 3, 20, seed=6) if with_states else None
    out, before = np.full((11, 20), 7, np.float32), None if states is None else states.copy()
    rest = (states, slots, fresh) if with_states else (None, None, None)
    xtarget.run("u.causal_conv", x, weight, bias, *rest, starts, ACTIVATION="silu", out=out)
    for n, (begin, end) in enumerate(itertools.pairwise(starts)):
        if with_states and slots[n] < 0:
            equal(out[begin:end], 7)
            continue
        old = np.zeros((3, 20)) if before is None or fresh[n] else before[slots[n]]
        line = np.concatenate([old, x[begin:end]])
        total = sum(line[w : w + end - begin] * weight[:, w] for w in range(4)) + bias
        close(out[begin:end], total / (1 + np.exp(-total)), rtol=2e-5, atol=2e-5)
        if states is not None:
            close(states[slots[n]], line[-3:], rtol=1e-6)


def test_a_persistent_product_stores_parts_of_tiles(on: str) -> None:
    a, b, scale = floats(33, 24), floats(40, 24, seed=4), floats(40, seed=5)
    right = a.astype(float) @ b.T
    close(xtarget.run("u.persistent_matmul", a, b), right, atol=2e-5)
    found = xtarget.run("u.persistent_matmul", a, b, scale, KIND="float16", config=1)
    close(found, right * scale, rtol=2e-3, atol=2e-2)


def test_a_draw_says_what_it_kept_if_asked(on: str) -> None:
    logits, noise = floats(4, 30), np.random.default_rng(1).exponential(size=(4, 30))
    noise, least = noise.astype(np.float32), np.full(4, 0.1, np.float32)
    p = np.exp(logits - logits.max(1, keepdims=True))
    right = np.where(p >= 0.1, p / noise, -1).argmax(1)
    token, share = xtarget.run("u.min_p", logits, None, least, noise)
    equal(token, right)
    rows = np.arange(4)
    close(share[:, 0], p[rows, right] / np.where(p >= 0.1, p, 0).sum(1), rtol=1e-5)
    kept = np.zeros((4, 30), bool)
    xtarget.run("u.min_p", logits, least=least, noise=noise, kept=kept)
    equal(kept, p >= 0.1)


def test_each_takes_less_than_25_lines_of_spec() -> None:
    lines = lines_of_spec(Path(uncommon_kernels.__file__))
    assert len(lines) == 10
    assert max(lines.values()) < 25, lines
