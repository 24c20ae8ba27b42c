"""Kernels of third parties' kinds are right, and none is said to race or to use what nobody wrote.

Beside those written for this, all kernels of the other tests of users' kernels and of the language.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_language
import test_more_user_kernels
import test_published_kernels
from harness import ARCHS, SHORT_ARCHS, by_arch, compiled, run

_FILE = Path(__file__).with_name("third_party_kernels.py")
_ROWS, _N, _PAD = 3, 100, 128
_SHORT = {"rms_norm_kept", "rope", "layer_norm", "quantise_groups", "split_k_last_adds"}


def _floats(*shape: int, seed: int = 1) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _numbers(top: int, *shape: int) -> Any:
    return np.random.default_rng(5).integers(0, top, shape).astype(np.int32)


def _soft(x: Any, axis: int = -1) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


_X, _Y, _G = (_floats(_ROWS, _N, seed=seed).astype(np.float64) for seed in (1, 2, 3))
_W, _B = (_floats(_N, seed=seed).astype(np.float64) for seed in (4, 5))
_O = np.zeros((_ROWS, _N))
_ROW = np.zeros(_ROWS)
_P, _Q = _soft(_X), _soft(_Y)
_LABEL = np.array([3, 99, 0], np.int32)
_SCALE = 1 / np.sqrt((_X * _X).mean(1) + 1e-5)
_MEAN, _RSTD = _X.mean(1), 1 / np.sqrt(_X.var(1) + 1e-5)
_HAT = (_X - _MEAN[:, None]) * _RSTD[:, None]
_PADDED, _WIDE = {"block": _PAD}, {"block": 32}
_SIGMOID = 1 / (1 + np.exp(-_X))
_LOSS = np.log(np.exp(_X).sum(1)) - _X[range(_ROWS), _LABEL]


def _expected_dx() -> Any:
    wdy = _W * _G
    c1, c2 = (_HAT * wdy).mean(1, keepdims=True), wdy.mean(1, keepdims=True)
    return (wdy - (_HAT * c1 + c2)) * _RSTD[:, None]


def _erf(x: Any) -> Any:
    from math import erf

    return np.vectorize(erf)(x)


_GEGLU = 0.5 * _X * (1 + _erf(_X * 0.7071067811865476)) * _Y
_HEADS, _HALF = 3, 24
_QUERY = _floats(_ROWS, _HEADS, 2, _HALF).astype(np.float64)
_COS, _SIN = np.cos(_floats(_ROWS, _HALF)), np.sin(_floats(_ROWS, _HALF))
_TILES = _floats(_ROWS, 4, 2, 16).astype(np.float64)


def _rotated(q: Any, c: Any, s: Any) -> Any:
    c, s = c[:, None].astype(np.float64), s[:, None].astype(np.float64)
    a, b = q[:, :, 0], q[:, :, 1]
    return np.stack([a * c - b * s, b * c + a * s], 2)


_TABLE = _floats(9, _N).astype(np.float64)
_INDEX = np.array([4, 4, 8], np.int32)
_TABLE_GRADIENT = np.zeros((9, _N))
np.add.at(_TABLE_GRADIENT, _INDEX, _G)
_BOUND = np.abs(_X).max(1) / 127
_GROUPED = _floats(_ROWS, 4, 16).astype(np.float64)
_GROUP_BOUND = np.abs(_GROUPED).max(2) / 127
_A, _C = _floats(16, 96).astype(np.float64), _floats(96, 16, seed=2).astype(np.float64)
_TOKENS = _numbers(8, 100)
_HOT = np.eye(8, dtype=np.int32)[_TOKENS]
_RANK = ((_HOT.cumsum(0) - 1) * _HOT).sum(1).astype(np.int32)
_KEYS, _VALUES = (_floats(64, 32, seed=s).astype(np.float64) for s in (7, 8))
_QUERIES = _floats(64, 32, seed=6).astype(np.float64)
_SCORE = np.where(np.tri(64, dtype=bool), _QUERIES @ _KEYS.T * 0.25, -np.inf)
_LENGTH = np.array([40, 64, 7], np.int32)
_STARTS = np.array([0, 2, 2, 3], np.int32)
_SLOT = np.array([5, -1, 2], np.int32)
_CACHE = np.zeros((7, _N))
_FILLED = _CACHE.copy()
_FILLED[[5, 2]] = _X[[0, 2]]
_TAPS = _floats(_ROWS, 4).astype(np.float64)
_CONVOLVED = sum(
    np.pad(_X, ((0, 0), (3, 0)))[:, j : j + _N] * _TAPS[:, j : j + 1] for j in range(4)
)
_SEEN = _numbers(2, _ROWS, _N)
_U = np.array([0.1, 0.5, 0.9])
_TOP = np.argsort(-_X, 1, kind="stable")[:, :4].astype(np.int32)
_ROW_D, _DOWN, _UP = _floats(3, 32), _floats(2, 16, 32, seed=2), _floats(2, 32, 16, seed=3)
_ADAPTER = np.array([1, -1, 0], np.int32)
_ADDED = np.stack([
    0 * v if k < 0 else _UP[k].astype(np.float64) @ (_DOWN[k].astype(np.float64) @ v)
    for v, k in zip(_ROW_D, _ADAPTER, strict=True)
])  # fmt: skip
_FIRST, _SECOND = _X * 0.1, np.abs(_Y) * 0.1
_NEW_FIRST, _NEW_SECOND = _FIRST * 0.9 + _G * 0.1, _SECOND * 0.99 + _G * _G * 0.01

#: Kernel to its grid, arguments (arrays of float64 become float32), constants, and the arguments
#: that it changes (by their place), with what they are afterwards.
_CASES: dict[str, tuple[Any, ...]] = {
    "rms_norm": (3, (_X, _W, _O, _N, 1e-5), _PADDED, {2: _X * _SCALE[:, None] * _W}),
    "rms_norm_in_place": (3, (_X, _W, _O, _N, 1e-5), _WIDE, {2: _X * _SCALE[:, None] * _W}),
    "rms_norm_kept": (
        3, (_X, _W, _O, _ROW, _N, 1e-5), _PADDED, {2: _X * _SCALE[:, None] * _W, 3: _SCALE}),
    "fused_add_rms_norm": (
        3, (_X, _Y, _W, _N, 1e-5), _PADDED,
        {1: _X + _Y, 0: (_X + _Y) / np.sqrt(((_X + _Y) ** 2).mean(1)[:, None] + 1e-5) * _W}),
    "layer_norm": (
        3, (_X, _W, _B, _O, _ROW, _ROW, _N, 1e-5), _PADDED,
        {3: _HAT * _W + _B, 4: _MEAN, 5: _RSTD}),
    "layer_norm_backward": (
        3, (_G, _X, _W, _MEAN, _RSTD, _O, _W * 0, _N), _PADDED,
        {5: _expected_dx(), 6: (_G * _HAT).sum(0)}),
    "rope": (3, (_QUERY, _COS, _SIN, _HEADS, _HALF), {"pad": 32},
             {0: _rotated(_QUERY, _COS, _SIN)}),
    "rope_tiles": (3, (_TILES, _COS[:, :16], _SIN[:, :16]), {"half": 16, "heads": 4},
                   {0: _rotated(_TILES, _COS[:, :16], _SIN[:, :16])}),
    "softmax": (3, (_X, _O, _N), _PADDED, {1: _P}),
    "online_softmax": (3, (_X, _O, _N), _WIDE, {1: _P}),
    "log_softmax": (3, (_X, _O, _N), _PADDED, {1: np.log(_P)}),
    "causal_softmax": (
        3, (_X, _O, _N), _PADDED, {1: _soft(np.where(np.tri(_ROWS, _N, dtype=bool), _X, -np.inf))}),
    "softmax_backward": (
        3, (_P, _G, _O, _N), _PADDED, {2: _P * (_G - (_P * _G).sum(1, keepdims=True))}),
    "cross_entropy": (3, (_X, _LABEL, _ROW, _N), _PADDED, {2: _LOSS}),
    "cross_entropy_in_place": (
        3, (_X, _LABEL, _ROW, _N), _PADDED, {2: _LOSS, 0: _P - np.eye(_N)[_LABEL]}),
    "swiglu": (10, (_X, _Y, _O, 300), _WIDE, {2: _X * _SIGMOID * _Y}),
    "swiglu_backward": (
        10, (_G, _X, _Y, 300), _WIDE,
        {1: _G * _Y * (_SIGMOID + _X * _SIGMOID * (1 - _SIGMOID)), 2: _G * _X * _SIGMOID}),
    "geglu": (10, (_X, _Y, _O, 300), _WIDE, {2: _GEGLU}),
    "embedding": (3, (_TABLE, _INDEX, _O, _N), _PADDED, {2: _TABLE[_INDEX]}),
    "embedding_backward": (3, (_G, _INDEX, _TABLE * 0, _N), _PADDED, {2: _TABLE_GRADIENT}),
    "seeded_dropout": (10, (_X, _O, 300, 0.3, 7), _WIDE, {1: _X}),
    "quantise_rows": (3, (_X, _O.astype(np.int8), _ROW, _N), _PADDED,
                      {1: np.floor(_X / _BOUND[:, None] + 0.5), 2: _BOUND}),
    "quantise_groups": (3, (_GROUPED, _GROUPED.astype(np.int8) * 0, _GROUP_BOUND * 0),
                        {"group": 16, "groups": 4},
                        {1: np.floor(_GROUPED / _GROUP_BOUND[..., None] + 0.5), 2: _GROUP_BOUND}),
    "dequantise": (3, (_SEEN.astype(np.int8), _BOUND, _O, _N), _PADDED,
                   {2: _SEEN * _BOUND[:, None]}),
    "flash_attention": (
        4, (_QUERIES, _KEYS, _VALUES, _QUERIES * 0, np.zeros(64), 64, 0.25),
        {"m": 16, "bn": 16, "d": 32},
        {3: _soft(_SCORE) @ _VALUES, 4: np.log(np.exp(_SCORE).sum(1))}),
    "decode_attention": (
        3, (_QUERIES[:3], _KEYS, _VALUES, _QUERIES[:3] * 0, _LENGTH, 0.25), {"bn": 16, "d": 32},
        {3: np.stack([_soft(_QUERIES[i] @ _KEYS[:n].T * 0.25) @ _VALUES[:n]
                      for i, n in enumerate(_LENGTH)])}),
    "split_k": (3, (_A, _C, np.zeros((16, 16)), 96), {"m": 16, "n": 16, "bk": 16}, {2: _A @ _C}),
    "split_k_last_adds": (
        3, (_A, _C, np.zeros((3, 16, 16)), np.zeros(1, np.int32), np.zeros((16, 16)), 96),
        {"m": 16, "n": 16, "bk": 32}, {4: _A @ _C}),
    "running_sum": (3, (_X, _O, _N), _WIDE, {1: _X.cumsum(1)}),
    "top_of_row": (3, (_X, np.zeros((3, 4)), np.zeros((3, 4), np.int32), _N),
                   {"k": 4, "block": _PAD}, {1: np.take_along_axis(_X, _TOP, 1), 2: _TOP}),
    "count_experts": (4, (_TOKENS, np.zeros(8, np.int32), 100), {"experts": 8, "block": 32},
                      {1: _HOT.sum(0)}),
    "align_experts": (1, (_TOKENS, _TOKENS * 0, np.zeros(8, np.int32), 100),
                      {"experts": 8, "block": 128}, {1: _RANK, 2: _HOT.sum(0)}),
    "transposed": ((1, 4), (_X, _O.T.copy(), 3, 100), _WIDE, {1: _X.T}),
    "adam": (10, (_X, _G, _FIRST, _SECOND, 300, 0.5, 0.9, 0.99, 1e-3), _WIDE,
             {0: _X - 0.5 * _NEW_FIRST / (np.sqrt(_NEW_SECOND) + 1e-3), 2: _NEW_FIRST,
              3: _NEW_SECOND}),
    "norm_of_all": (10, (_X, np.zeros(10), np.zeros(1, np.int32), np.zeros(1), 300), _WIDE,
                    {3: np.sqrt((_X * _X).sum())}),
    "fill_cache": (3, (_X, _SLOT, _CACHE, _N), _PADDED, {2: _FILLED}),
    "convolve_causal": (3, (_X, _TAPS, _O, _N), {"width": 4, "block": _PAD},
                        {2: _CONVOLVED / (1 + np.exp(-_CONVOLVED))}),
    "pooled": (3, (_X, _STARTS, _O, _N), _PADDED, {2: np.stack([_X[:2].sum(0), _X[0] * 0, _X[2]])}),
    "kl_divergence": (3, (_P, _Q, _ROW, _N), _PADDED, {2: (_P * np.log(_P / _Q)).sum(1)}),
    "penalised": (3, (_X, _SEEN, _O, _N, 1.5), _PADDED,
                  {2: np.where(_SEEN != 0, np.where(_X > 0, _X / 1.5, _X * 1.5), _X)}),
    "sampled": (3, (_P, _U, np.zeros(3, np.int32), _N), _PADDED,
                {2: (_P.cumsum(1) <= _U[:, None]).sum(1)}),
    "lora": (3, (_ROW_D, _DOWN, _UP, np.ones((3, 32)), _ADAPTER), {"d": 32, "r": 16},
             {3: 1 + _ADDED}),
    "sorted_rows": (3, (_X, _O, _N), _PADDED, {1: np.sort(_X, 1)}),
}  # fmt: skip
_TYPES = {np.dtype(np.float32): "*fp32", np.dtype(np.int32): "*i32", np.dtype(np.int8): "*i8"}
_OTHERS: tuple[Callable[[str], None], ...] = (
    *test_published_kernels.CASES,
    *test_more_user_kernels.CASES,
    *test_language.CASES,
)


def _third_party(name: str, arch: str) -> None:
    import inspect

    import third_party_kernels

    grid, given, constants, changed = _CASES[name]
    arguments = [
        a.astype(np.float32) if isinstance(a, np.ndarray) and a.dtype == np.float64 else a
        for a in given
    ]
    names = list(inspect.signature(getattr(third_party_kernels, name).fn).parameters)
    kinds = [
        _TYPES[a.dtype] if isinstance(a, np.ndarray) else "i32" if isinstance(a, int) else "fp32"
        for a in arguments
    ]
    signature = " ".join(f"{n}:{k}" for n, k in zip(names, kinds, strict=False))
    code = compiled(name, signature, arch, constants=tuple(constants.items()), path=_FILE)
    out = run(code, grid if isinstance(grid, tuple) else (grid,), *arguments)
    arrays = [i for i, a in enumerate(arguments) if isinstance(a, np.ndarray)]
    for place, expected in changed.items():
        got = out[arrays.index(place)]
        if got.dtype == np.int8:  # a quotient next to a half may go either way
            assert np.abs(got - expected).max() <= 1
        else:
            np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5)


@pytest.fixture(autouse=True)
def _looked_for(look_for_races: Callable[[int], None]) -> None:
    look_for_races(10**11)


def test_every_kernel_here_has_a_case() -> None:
    import third_party_kernels
    import triton

    kernels = {
        name
        for name, found in vars(third_party_kernels).items()
        if isinstance(found, triton.runtime.JITFunction)
    }
    assert kernels == set(_CASES)
    print(f"{len(_CASES)} kernels, and {len(_OTHERS)} of other tests, on {len(ARCHS)} archs")
    assert len(_CASES) + len(_OTHERS) >= 90


def _is_short(name: str, arch: str) -> bool:
    return name in _SHORT and arch in SHORT_ARCHS


@pytest.mark.parametrize(("name", "arch"), by_arch(_CASES, _is_short))
def test_a_third_partys_kernel_is_right_and_has_no_races(name: str, arch: str) -> None:
    _third_party(name, arch)


@pytest.mark.long
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("case", _OTHERS, ids=lambda case: case.__name__)
def test_kernels_of_other_tests_have_no_races(case: Callable[[str], None], arch: str) -> None:
    case(arch)
