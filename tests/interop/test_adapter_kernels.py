"""Kernels of adapters, masks, sampling, losses and recurrences give NumPy's results, on the first
device and on emulated GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

import adapter_kernels
from test_author_kernels import lines_of_spec

import xtarget
from xtarget import ArgumentError
from xtarget._kernels import libraries

close = np.testing.assert_allclose


def floats(*shape: int, seed: int = 3) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def integers(low: int, high: int, *shape: int, seed: int = 5) -> Any:
    return np.random.default_rng(seed).integers(low, high, shape)


def softmax_logs(x: Any) -> Any:
    x = x.astype(np.float64)
    top = x.max(-1, keepdims=True)
    return x - top - np.log(np.exp(x - top).sum(-1, keepdims=True))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_adapters_are_added_in_place(on: str, dtype: str) -> None:
    whole, x = floats(5, 60).astype(dtype), floats(5, 70, seed=4).astype(dtype)
    a, b = floats(3, 16, 70, seed=5).astype(dtype), floats(3, 30, 16, seed=6).astype(dtype)
    which = np.array([2, -1, 0, 2, 1], np.int32)
    y = whole[:, :30]  # rows lie apart
    kept, right = whole[:, 30:].copy(), y.astype(np.float64)
    for token, adapter in enumerate(which):
        if adapter >= 0:
            right[token] += 0.5 * (b[adapter].astype(float) @ (a[adapter].astype(float) @ x[token]))
    assert xtarget.run("b.lora", y, x, a, b, which, scale=0.5) is None
    close(y, right, rtol=4e-3, atol=0.05 if dtype == "float16" else 1e-3)
    np.testing.assert_array_equal(whole[:, 30:], kept)


@pytest.mark.parametrize("softcap", [0.0, 5.0])
def test_cross_entropy_without_logits(on: str, softcap: float) -> None:
    x, weight, label = floats(19, 40), floats(70, 40, seed=4), integers(0, 70, 19)
    label[[3, 11]] = -100
    scores = x.astype(np.float64) @ weight.T
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    logs = softmax_logs(scores)
    right = np.where(label < 0, 0, -logs[np.arange(19), label % 70])
    loss, lse = xtarget.run("b.linear_cross_entropy", x, weight, label, softcap=softcap)
    close(loss, right, rtol=1e-4, atol=1e-4)
    close(lse, (scores - logs)[:, 0], rtol=1e-5)


@pytest.mark.parametrize("scaled", [False, True])
def test_products_of_int8(on: str, scaled: bool) -> None:
    x, w = integers(-128, 128, 20, 50).astype(np.int8), integers(-128, 128, 33, 50, seed=6)
    x_scale, w_scale = np.abs(floats(20)) / 1e3, np.abs(floats(33, seed=4))
    bias = floats(33, seed=5)
    right = (x.astype(np.int64) @ w.T) * x_scale[:, None].astype(np.float64)
    if scaled:
        right = right * w_scale + bias
    given = (w_scale, bias) if scaled else (None, None)
    found = xtarget.run(
        "b.int8_matmul", x, w.astype(np.int8), x_scale, *given, KIND=np.dtype(np.float32)
    )
    assert found.dtype == np.float32
    close(found, right, rtol=1e-5, atol=1e-4)
    assert xtarget.run("b.int8_matmul", x, w.astype(np.int8), x_scale).dtype == np.float16


@pytest.mark.parametrize("window", [None, 7])
@pytest.mark.parametrize("sunk", [False, True])
def test_attention_with_a_window_and_sinks(on: str, window: int | None, sunk: bool) -> None:
    q, k, v = floats(4, 37, 16), floats(2, 37, 16, seed=4), floats(2, 37, 16, seed=5)
    sinks = floats(4, seed=6) if sunk else None
    places = np.arange(37)
    apart = places[:, None] - places[None, :]
    seen = (apart >= 0) & (True if window is None else apart < window)
    scores = np.einsum("htd,hsd->hts", q, k.repeat(2, 0)) * 0.25
    e = np.exp(np.where(seen, scores, -np.inf))
    total = e.sum(-1, keepdims=True) + (np.exp(sinks)[:, None, None] if sunk else 0)
    right = (e / total) @ v.repeat(2, 0)
    flags = {} if window is None else {"WINDOW": window}
    close(
        xtarget.run("b.sink_attention", q, k, v, sinks, 0.25, **flags), right, rtol=1e-4, atol=1e-5
    )


def test_blocks_of_two_caches_are_copied(on: str) -> None:
    keys, values = floats(7, 3, 20), integers(0, 200, 7, 3, 20).astype(np.uint8)
    pairs = np.array([[0, 5], [2, 6]])
    right = keys.copy(), values.copy()
    for one in right:
        one[[5, 6]] = one[[0, 2]]
    xtarget.run("b.copy_blocks", keys, values, pairs)
    np.testing.assert_array_equal(keys, right[0])
    np.testing.assert_array_equal(values, right[1])
    with pytest.raises(ArgumentError, match=r"writes to, overlaps argument 2 \(values"):
        xtarget.run("b.copy_blocks", keys, keys, pairs)


@pytest.mark.parametrize("referred", [False, True])
@pytest.mark.parametrize("wanted", [False, True])
def test_a_loss_of_policies(on: str, referred: bool, wanted: bool) -> None:
    logits, chosen = floats(9, 40), integers(0, 40, 9)
    said = softmax_logs(logits)[np.arange(9), chosen]
    old, reference = (said + floats(9, seed=s) / 3 for s in (4, 5))
    gain = floats(9, seed=6)
    ratio = np.exp(said - old.astype(np.float32))
    right = -np.minimum(ratio * gain, np.clip(ratio, 0.8, 1.3) * gain)
    kl = np.exp(reference - said) - (reference - said) - 1
    room = np.full(9, 7, np.float32) if wanted else None
    loss, clipped = xtarget.run(
        "b.policy_loss", logits, chosen, old.astype(np.float32),
        reference.astype(np.float32) if referred else None, gain, room, high=0.3,
    )  # fmt: skip
    close(loss, right + (0.04 * kl if referred else 0), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(
        clipped, ((ratio < 0.8) & (gain < 0)) | ((ratio > 1.3) & (gain > 0))
    )
    if room is not None:
        close(room, kl if referred else 7, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("chosen", [False, True])
def test_what_a_grammar_forbids_is_masked(on: str, chosen: bool) -> None:
    logits = floats(4, 70)[:, :67]
    rows = np.array([3, 1], np.int32) if chosen else None
    bits = integers(-(2**31), 2**31, 2, 3).astype(np.int32)
    allowed = (bits.view(np.uint32)[:, np.arange(67) // 32] >> (np.arange(67) % 32)) & 1
    right = logits.copy()
    for row, own in zip([0, 1] if rows is None else rows, allowed, strict=True):
        right[row][own == 0] = -np.inf
    xtarget.run("b.token_mask", logits, bits, rows)
    np.testing.assert_array_equal(logits, right)
    with pytest.raises(ArgumentError, match=r"bits.*dimension 1"):
        xtarget.run("b.token_mask", logits, bits[:, :2], rows)


def test_tokens_are_drawn_by_their_shares(on: str) -> None:
    logits = np.tile(np.log(np.array([0.5, 0.3, 0.15, 0.05], np.float32)), (1000, 1))
    token, logp = xtarget.run("b.sample", logits, None, 11)
    assert token.dtype == np.int64
    close(np.bincount(token, minlength=4) / 1000, [0.5, 0.3, 0.15, 0.05], atol=0.06)
    close(logp, logits[0][token], rtol=1e-4)
    again, _ = xtarget.run("b.sample", logits, None, 11)
    np.testing.assert_array_equal(again, token)
    assert (xtarget.run("b.sample", logits, None, 12)[0] != token).any()
    cold, _ = xtarget.run("b.sample", logits, np.zeros(1000, np.float32), 13)
    assert not cold.any()


def test_drafts_are_what_followed_the_last_time(on: str) -> None:
    tokens = np.zeros((3, 12), np.int32)
    tokens[0, :9] = [1, 2, 3, 4, 1, 2, 5, 1, 2]
    tokens[1, :5] = [7, 8, 9, 7, 1]
    tokens[2, :12] = [4] * 12
    drafts, found = xtarget.run("b.propose", tokens, np.array([9, 5, 12], np.int32))
    assert drafts.tolist() == [[5, 1, 2, -1], [-1] * 4, [4, -1, -1, -1]]
    assert found.tolist() == [3, 0, 1]
    drafts, found = xtarget.run(
        "b.propose", tokens, np.array([9, 5, 12], np.int32), GRAM=1, COUNT=1
    )
    assert drafts.tolist() == [[5], [-1], [4]]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("stated", [False, True])
def test_a_recurrence_from_and_to_a_state(on: str, backwards: bool, stated: bool) -> None:
    x, gate = floats(2, 13, 11), 1 / (1 + np.exp(-floats(2, 13, 11, seed=4)))
    begin, end = (floats(2, 11, seed=5), np.zeros((2, 11), np.float32)) if stated else (None, None)
    h, right = np.zeros((2, 11)) if begin is None else begin.astype(float), np.zeros((2, 13, 11))
    for t in range(12, -1, -1) if backwards else range(13):
        h = right[:, t] = gate[:, t] * h + x[:, t]
    found = xtarget.run(
        "b.gated_recurrence", x, gate.astype(np.float32), begin, end, REVERSED=backwards
    )
    close(found, right, rtol=1e-4, atol=1e-5)
    if end is not None:
        close(end, h, rtol=1e-4, atol=1e-5)


def test_each_takes_less_than_25_lines_of_spec_and_its_binaries_are_kept() -> None:
    lines = lines_of_spec(Path(str(adapter_kernels.__file__)))
    assert len(lines) == 10
    assert max(lines.values()) < 25, lines
    for name in lines:
        if name != "b.lora":  # whose functions are known when it is planned
            assert not libraries.find(name).source(name).unidentified
