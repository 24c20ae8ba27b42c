"""Attention with a function of its scores (`score=`), in fused functions."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from random_functions import seeds

import xtarget
from xtarget import ArgumentError

run = xtarget.run
RANDOM = np.random.default_rng(77)
CLOSE = {"float16": 4e-3, "float32": 2e-5, "float64": 1e-12}


def floats(*shape: int, dtype: str = "float32") -> Any:
    return RANDOM.standard_normal(shape).astype(dtype)


def arrays(
    batch: int, heads: int, own: int, queries: int, keys: int, size: int, dtype: str = "float32"
) -> tuple[Any, Any, Any]:
    return (floats(batch, heads, queries, size, dtype=dtype),
            floats(batch, own, keys, size, dtype=dtype),
            floats(batch, own, keys, size, dtype=dtype))  # fmt: skip


def expected(q: Any, k: Any, v: Any, score: Callable[..., Any]) -> Any:
    """In float64; a query that sees no key has the result 0."""
    group = q.shape[1] // k.shape[1]
    q, k, v = (own.astype("float64") for own in (q, k, v))
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    s = score(s, *np.ogrid[tuple(slice(n) for n in s.shape)])
    top = s.max(-1, keepdims=True, initial=-np.inf)
    power = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = power.sum(-1, keepdims=True)
    return power / np.where(total == 0, 1, total) @ v


def close(got: Any, want: Any) -> None:
    bound = CLOSE[str(got.dtype)]
    assert got.shape == want.shape
    np.testing.assert_allclose(
        got.astype("float64"), want, rtol=bound, atol=bound * max(1, np.abs(want).max(initial=0))
    )


@xtarget.fuse
def biased(q: Any, k: Any, v: Any, bias: Any, mask: Any) -> Any:
    def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return run("where", (i >= j) & mask, s * 2 + bias, -np.inf)

    return run("attention", q, k, v, score=score)


@pytest.mark.sample(3, each=("on", "sizes", "dtype"))
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("sizes", [(2, 4, 2, 20, 33, 16), (2, 4, 1, 1, 40, 16), (1, 1, 1, 3, 2, 8)])
def test_a_bias_and_a_mask(on: str, sizes: tuple[int, ...], dtype: str) -> None:
    batch, heads, own, queries, keys, size = sizes
    if on.startswith("emu") and (dtype, queries) != ("float16", 20):
        pytest.skip("one of the cases is emulated")
    args = arrays(batch, heads, own, queries, keys, size, dtype)
    bias, mask = floats(heads, queries, keys, dtype=dtype), RANDOM.random((batch, 1, 1, keys)) > 0.3
    mask[0] = False  # no query of the first sequence sees a key
    got = biased(*args, bias, mask, device=on)
    wide = bias.astype("float64")
    want = expected(*args, lambda s, b, h, i, j: np.where((i >= j) & mask, s * 2 + wide, -np.inf))
    assert str(got.dtype) == dtype
    close(got, want)
    assert not got[0].any()


def test_numbers_of_batch_head_query_and_key_are_there(device: str) -> None:
    @xtarget.fuse
    def numbered(q: Any, k: Any, v: Any) -> Any:
        def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            apart = run("cast", i - j + 3 * h - 5 * b, dtype="float32")
            return s - apart * 0.125

        return run("attention", q, k, v, score=score)

    for sizes in ((3, 4, 2, 5, 9, 8), (2, 6, 6, 1, 7, 8), (1, 2, 1, 40, 40, 16)):
        args = arrays(*sizes)
        want = expected(*args, lambda s, b, h, i, j: s - (i - j + 3 * h - 5 * b) * 0.125)
        close(numbered(*args), want)


def test_documents_sequence_first_and_a_number(device: str) -> None:
    @xtarget.fuse
    def within(q: Any, k: Any, v: Any, of_queries: Any, of_keys: Any, by: float) -> Any:
        def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            return run("where", of_queries == of_keys, run("tanh", s / by) * by, -np.inf)

        return run("attention", q, k, v, layout="bshd", causal=True, score=score)

    args = arrays(2, 4, 2, 12, 12, 8)
    turned = [np.ascontiguousarray(own.swapaxes(1, 2)) for own in args]
    number = np.sort(RANDOM.integers(0, 3, (2, 12)))
    rows, columns = number[:, None, :, None], number[:, None, None, :]
    for by in (2.0, 30.0):
        got = within(*turned, rows, columns, by)
        want = expected(*args, lambda s, b, h, i, j, by=by: np.where(
            (rows == columns) & (j <= i), np.tanh(s / by) * by, -np.inf
        ))  # fmt: skip
        close(got, want.swapaxes(1, 2))


def test_it_lies_among_other_operators(device: str) -> None:
    def block(x: Any, w: Any, slopes: Any, gate: Any) -> Any:
        q = run("relu", x) + 1.0

        def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            return s - slopes * run("cast", run("abs", i - j), dtype="float32")

        return run("attention", q, x, w, score=score) * gate

    x, slopes, gate = floats(2, 3, 17, 8), floats(3, 1, 1) ** 2, floats(17, 1)
    fused = xtarget.fuse(block)
    want = expected(np.maximum(x, 0) + 1, x, x, lambda s, b, h, i, j: s - slopes * np.abs(i - j))
    close(fused(x, x, slopes, gate), want * gate)
    said = fused.explain(x, x, slopes, gate)
    assert "Launches: 3," in said
    assert "= sub(a.to(tl.float32), " in said  # what is done to a score


def test_scores_as_they_are_are_attention(device: str) -> None:
    @xtarget.fuse
    def same(q: Any, k: Any, v: Any) -> Any:
        return run("attention", q, k, v, score=lambda s, b, h, i, j: s)

    args = arrays(1, 2, 2, 20, 9, 8)
    np.testing.assert_array_equal(same(*args), run("attention", *args))
    empty = arrays(1, 2, 2, 0, 9, 8)
    assert same(*empty).shape == (1, 2, 0, 8)


def test_no_keys_and_no_queries(device: str) -> None:
    mask = np.ones((1, 1, 1, 1), bool)
    biased.forget()
    assert biased(*arrays(1, 2, 2, 0, 3, 8), floats(1, 1, 1), mask).shape == (1, 2, 0, 8)
    assert not biased(*arrays(1, 2, 2, 3, 0, 8), floats(1, 1, 1), mask).any()
    args, bias = arrays(1, 2, 2, 3, 4, 8), floats(1, 1, 1)
    close(biased(*args, bias, mask), expected(
        *args, lambda s, b, h, i, j: np.where(i >= j, s * 2 + bias, -np.inf)
    ))  # fmt: skip


def _numbers_of(draw: random.Random, i: Any, j: Any, how: Callable[..., Any]) -> Any:
    """A condition on the numbers of query and key."""
    kind, number = draw.randrange(5), draw.randrange(-3, 9)
    if kind == 0:
        sees = draw.choice((i, j)) + number >= draw.choice((i, j))
    elif kind == 1:
        sees = draw.choice((i - j, j - i)) + 1 < number
    elif kind == 2:
        sees = how("abs", i - j + draw.randrange(-2, 3)) <= number
    elif kind == 3:
        sees = j // 4 == i // 4
    else:
        sees = how("logical_not", how(draw.choice(("ge", "gt", "le", "lt")), i - number, j))
    return sees & _numbers_of(draw, i, j, how) if draw.random() < 0.4 else sees


def test_options_hide_what_conditions_on_numbers_hide() -> None:
    """And no more: where they say all, attention itself is what runs."""
    i, j = np.ogrid[:13, :17]
    exact = 0
    for seed in range(150):
        options = options_of_numbers(seed)
        if options is None:
            continue
        exact += 1
        left, right = options["window"] or (-1, -1)
        right = 0 if options["causal"] else right
        place = i + options["offset"]
        seen = ((left < 0) | (j >= place - left)) & ((right < 0) | (j <= place + right))
        wanted = _numbers_of(random.Random(seed), i, j, by_numpy)
        np.testing.assert_array_equal(seen, np.broadcast_to(wanted, seen.shape), str(seed))
    assert exact > 50


def options_of_numbers(seed: int) -> Any:
    """Those of attention alone, where that is what a function of scores becomes."""

    def attended(q: Any, k: Any) -> Any:
        def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            return run("where", _numbers_of(random.Random(seed), i, j, run), s, -np.inf)

        return run("attention", q, k, k, score=score)

    ((kernel, _, options, _),), _ = xtarget.fuse(attended).operators(
        np.ones((1, 1, 13, 8), np.float32), np.ones((1, 1, 17, 8), np.float32)
    )
    return options if kernel.name == "attention" else None


def by_numpy(name: str, *of: Any) -> Any:
    return getattr(np, LONG.get(name, name))(*of)


LONG = {"ge": "greater_equal", "gt": "greater", "le": "less_equal", "lt": "less"}


def refused(function: Callable[..., Any], *args: Any) -> str:
    with pytest.raises(ArgumentError) as error:
        xtarget.fuse(function)(*args)
    text = str(error.value)
    assert text.startswith(f"{__file__}, line ")
    assert text.count(", line ") == 1
    return text


def test_what_it_cannot_do_is_said_in_a_sentence(device: str) -> None:
    x = floats(1, 2, 4, 8)

    def twice(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return s * 2

    def branches(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return s if s > 0 else -s

    def attends(score: Any, name: str = "attention", **options: Any) -> Callable[..., Any]:
        return lambda q: run(name, q, q, q, score=score, **options)

    assert "multi_head_attention takes none" in refused(
        attends(twice, "multi_head_attention", heads=2), x[0]
    )
    assert "takes no lse=" in refused(attends(twice, lse=True), x)
    assert "takes no softcap=" in refused(attends(twice, softcap=2.0), x)
    assert "four dimensions" in refused(attends(twice), x[0])
    assert "a condition asks for values" in refused(attends(branches), x)
    assert "calls max" in refused(
        attends(lambda s, b, h, i, j: s - run("max", s, axis=-1, keepdims=True)), x
    )
    assert "gives float64 among attention's scores" in refused(
        attends(lambda s, b, h, i, j: s - 0.5 * (i - j)), x
    )
    assert "has to return the new scores" in refused(attends(lambda s, b, h, i, j: 3), x)
    assert "does not use the scores" in refused(
        attends(lambda s, b, h, i, j: run("cast", i + j + h + b, dtype="float32")), x
    )
    assert "five arguments" in refused(attends(lambda s: s), x)
    assert "an array that is not an argument" in refused(
        attends(lambda s, b, h, i, j: s + np.ones(4, np.float32)), x
    )
    assert "alone" in refused(lambda q: run("attention", q, q, q, q[0, 0], score=twice), x)
    wide = floats(3, 4, 4)
    assert "do not broadcast" in refused(
        lambda q, t: run("attention", q, q, q, score=lambda s, b, h, i, j: s + t), x, wide
    )
    with pytest.raises(ArgumentError, match="within a fused function only"):
        run("attention", x, x, x, score=twice)


@pytest.mark.parametrize("which", ["scores", "number", "computed"])
@pytest.mark.parametrize("returned", [True, False])
def test_what_belongs_to_the_function_of_scores_is_not_used_outside(
    device: str, which: str, returned: bool
) -> None:
    def leaks(q: Any) -> Any:
        kept: dict[str, Any] = {}

        def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            kept.update(scores=s, number=i, computed=s + 1.0)
            return s * 2.0

        made = run("attention", q, q, q, score=score)
        return (made, kept[which]) if returned else made + kept[which]

    said = refused(leaks, floats(1, 2, 4, 4))
    assert "a value of a function of attention's scores" in said
    assert returned or "add gets" in said


@pytest.mark.sample(3)
@pytest.mark.parametrize("target", ["nvidia:sm_90", "nvidia:sm_80", "amd:gfx942"])
def test_it_compiles_for_gpus(target: str) -> None:
    pytest.importorskip("triton")
    args = arrays(2, 8, 2, 512, 512, 64, "float16")
    (made,) = biased.compile(*args, floats(8, 512, 512, dtype="float16"),
                             np.ones((2, 1, 1, 512), bool), target=target)  # fmt: skip
    assert not made.resources.local_bytes


@seeds(2, 40)
def test_random_functions_of_scores(device: str, seed: int) -> None:
    draw = random.Random(seed)
    heads, own = draw.choice(((1, 1), (4, 2), (3, 3)))
    sizes = (2, heads, own, draw.choice((1, 3, 17, 40)), draw.choice((1, 5, 33, 70)),
             draw.choice((8, 20)))  # fmt: skip
    args = arrays(*sizes, draw.choice(("float32", "float16")))
    shape = (2, heads, sizes[3], sizes[4])
    given = [
        floats(*(n if draw.random() < 0.6 else 1 for n in shape[draw.randrange(4) :]))
        for _ in range(draw.randrange(4))
    ]
    names = [draw.choice(("add", "mul", "maximum", "sub")) for _ in given]
    sees, near = draw.choice(("ge", "le", "ne", "")), draw.choice((3, 9, 99))
    use = {"add": np.add, "mul": np.multiply, "maximum": np.maximum, "sub": np.subtract,
           "ge": np.greater_equal, "le": np.less_equal, "ne": np.not_equal}  # fmt: skip

    def fused(q: Any, k: Any, v: Any, x: Any, y: Any, z: Any) -> Any:
        def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            s = run("tanh", s)
            for name, one in zip(names, (x, y, z), strict=False):
                s = run(name, s, one)
            return run("where", run(sees, i + h, j + b) & (i - j < near), s, -np.inf) if sees else s

        return run("attention", q, k, v, score=score)

    def plain(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        s = np.tanh(s)
        for name, one in zip(names, given, strict=True):
            s = use[name](s, one.astype("float64"))
        return np.where(use[sees](i + h, j + b) & (i - j < near), s, -np.inf) if sees else s

    got = xtarget.fuse(fused)(*args, *[*given, *[args[0]] * 3][:3])
    close(got, expected(*args, plain))
