"""Fused functions around attention: what gives its arrays is done as it reads them, and what
follows before its result is stored."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from random_functions import seeds

import xtarget
from xtarget._arrays.dtypes import NumpyRules, numpy_dtype
from xtarget._fuse.launches import layouts_of
from xtarget._kernels import libraries
from xtarget.spec import Call

run = xtarget.run
RANDOM = np.random.default_rng(21)
#: Of results, in the least step of their dtype.
CLOSE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-12}


def floats(*shape: int, dtype: str = "float32") -> Any:
    return (RANDOM.standard_normal(shape) / 2).astype(numpy_dtype(dtype))


def close(found: Any, wanted: Any, times: float = 1) -> None:
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    near(found, wanted, CLOSE[str(found.dtype)] * times)


_SIZES = [
    ("float32", 37, 41),
    ("float16", 1, 67),
    ("float16", 37, 41),
    ("bfloat16", 5, 67),
    ("float64", 37, 41),
    ("float32", 3, 600),
]
#: Sizes and numbers of `cases` that are not of the long tier.
_QUICK = [(_SIZES[0], 3), (_SIZES[0], 6), (_SIZES[0], 8), (_SIZES[1], 0), (_SIZES[1], 5)]


def near(found: Any, wanted: Any, bound: float) -> None:
    own, other = (np.asarray(one).astype("float64") for one in (found, wanted))
    np.testing.assert_allclose(own, other, rtol=bound, atol=bound * np.abs(other).max(initial=1))


def gated(q: Any, k: Any, v: Any, gate: Any, residual: Any) -> Any:
    return run("add", run("attention", q, k, v, causal=True) * gate, residual)


def rotated(q: Any, k: Any, v: Any, cos: Any, sin: Any) -> Any:
    return run("attention", q * cos + sin, k * cos + sin, v)


def scaled(q: Any, k: Any, v: Any, by: Any, bias: Any) -> Any:
    keys = run("tanh", k) + bias
    made = run("attention", run("mul", q, by), keys, run("silu", v), causal=True)
    return run("relu", made * q)


def dequantised(q: Any, k: Any, v: Any, of_keys: Any, of_values: Any) -> Any:
    kind = str(q.dtype)
    keys = run("cast", k, dtype=kind) * of_keys
    return run("attention", q, keys, run("cast", v, dtype=kind) * of_values)


def masked(q: Any, k: Any, v: Any, mask: Any, slopes: Any) -> Any:
    return run("attention", run("mul", q, 2.0), k, v, mask, slopes) + q


def side_by_side(q: Any, k: Any, v: Any, gate: Any, by: Any) -> Any:
    made = run("multi_head_attention", q * by, k, v, heads=4, kv_heads=2)
    return made * gate


def laid_out(q: Any, k: Any, v: Any, gate: Any, by: Any) -> Any:
    return run("attention", q, k * by, v, layout="bshd") * gate


def cases(dtype: str, length: int, keys: int) -> list[tuple[Callable[..., Any], tuple[Any, ...]]]:
    def f(*shape: int) -> Any:
        return floats(*shape, dtype=dtype)

    q, k, v = f(2, 4, length, 24), f(2, 2, keys, 24), f(2, 2, keys, 24)
    k8, v8 = (RANDOM.integers(-8, 8, (2, 2, keys, 24)).astype(np.int8) for _ in range(2))
    seen = RANDOM.random((length, keys)) < 0.8
    return [
        (gated, (q, k, f(2, 2, keys, 16), f(4, 1, 1), f(2, 4, length, 16))),
        (gated, (q, k, v, f(2, 4, length, 1), 0.25)),
        (rotated, (q, f(2, 4, length, 24), f(2, 4, length, 40), f(length, 24), f(length, 24))),
        (scaled, (q, k, v, 0.5, f(24))),
        (scaled, (q, k, v, f(4, 1, 1), f(keys, 1))),
        (dequantised, (q, k8, v8, f(2, 2, keys, 1), f(2, 1, 24))),
        (masked, (q, k, v, seen, f(4))),
        (masked, (q, k, v, f(2, 1, length, keys), f(4))),
        (side_by_side, (f(2, length, 32), f(2, keys, 16), f(2, keys, 24), f(48), f(length, 32))),
        (laid_out, (f(2, length, 4, 8), f(2, keys, 2, 8), f(2, keys, 2, 8), f(4, 1), f(2, 1))),
    ]


@pytest.mark.sample(3, each=("dtype",))
@pytest.mark.parametrize(
    ("dtype", "length", "keys", "number"),
    [
        pytest.param(*own, number, marks=() if (own, number) in _QUICK else pytest.mark.long)
        for own in _SIZES
        for number in range(10)
    ],
)
def test_attention_and_what_is_around_it_are_one_kernel(
    device: str, launched: list[str], dtype: str, length: int, keys: int, number: int
) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    function, args = cases(dtype, length, keys)[number]
    wanted = function(*args)
    fused = xtarget.fuse(function)
    launched.clear()
    close(fused(*args), wanted)
    assert {name.split()[0] for name in launched} == {"fused"}
    assert "Launches: 1, of which 1 are fused" in fused.explain(*args)


def test_results_are_those_of_float64(device: str) -> None:
    reference = libraries.find("attention").spec.reference
    assert reference is not None
    for dtype in ("float32", "float16"):
        own = [floats(*s, dtype=dtype) for s in ((2, 3, 33, 24), (2, 3, 50, 24), (2, 3, 50, 24))]
        beside = floats(24, dtype=dtype), floats(50, 1, dtype=dtype), floats(3, 1, 1, dtype=dtype)

        @xtarget.fuse
        def block(q: Any, k: Any, v: Any, c: Any, s: Any, g: Any) -> Any:
            return run("attention", q * c, k + s, v) * g + q

        q, k, v, c, s, g = (one.astype("float64") for one in (*own, *beside))
        wanted = reference(q * c, k + s, v) * g + q
        # its factors are rounded to their dtype
        near(block(*own, *beside), wanted, 2 * CLOSE[dtype])


def test_what_stands_beside_it_may_lie_in_any_way_and_out_too(device: str) -> None:
    fused = xtarget.fuse(gated)
    q, k, v = floats(2, 4, 20, 16), floats(2, 2, 24, 16), floats(2, 2, 24, 16)
    residual = floats(2, 4, 20, 16)
    for gate in (
        floats(2, 4, 20, 16),
        floats(2, 20, 4, 16).transpose(0, 2, 1, 3),
        floats(2, 4, 16, 20).swapaxes(-1, -2),
        floats(16),
        floats(20, 1),
        floats(2, 1, 1, 1),
        floats(1),
        floats(3, 1, 1, 1, 1),  # the result is repeated
    ):
        close(fused(q, k, v, gate, residual), gated(q, k, v, gate, residual))
    wanted = gated(q, k, v, floats(1) * 0 + 1, residual)
    out = np.empty((2, 4, 20, 32), np.float32)[..., ::2]
    assert fused(q, k, v, np.ones(1, np.float32), residual, out=out) is out
    close(out, wanted)
    assert fused(q, k, v, np.ones(1, np.float32), residual, out=residual) is residual
    close(residual, wanted)


def test_arrays_that_are_repeated_are_made_of_all_that_stands_beside_them(device: str) -> None:
    q, k, v = (floats(1, 1, n, 16, dtype="float16") for n in (20, 24, 24))
    q, k, v = (np.broadcast_to(one, (2, 3, *one.shape[2:])) for one in (q, k, v))
    by, of_keys = floats(2, 1, 1, 1, dtype="float16"), floats(2, 3, 24, 1, dtype="float16")

    def made(q: Any, k: Any, v: Any, by: Any, of_keys: Any) -> Any:
        return run("attention", q * by, k * of_keys, v + of_keys)

    fused = xtarget.fuse(made)
    close(fused(q, k, v, by, of_keys), made(q, k, v, by, of_keys))


def test_other_sizes_of_the_same_trace_are_right(device: str) -> None:
    fused = xtarget.fuse(scaled)
    for length, keys in ((1, 1), (40, 5), (3, 0), (0, 4)):
        q, k, v = floats(1, 4, length, 8), floats(1, 4, keys, 8), floats(1, 4, keys, 8)
        close(fused(q, k, v, 0.5, floats(8) * 0), scaled(q, k, v, 0.5, floats(8) * 0))
    q, k, v = floats(1, 1, 9, 8), floats(1, 1, 1, 8), floats(1, 1, 12, 8)
    bias = floats(1, 1, 12, 8)  # keys are repeated in this call
    close(fused(q, k, v, 0.5, bias), scaled(q, k, v, 0.5, bias))


def test_without_heads_it_is_one_kernel_too(device: str) -> None:
    q, k, v = floats(20, 8), floats(30, 8), floats(30, 8)
    fused = xtarget.fuse(gated)
    close(fused(q, k, v, 2.0, q), gated(q, k, v, 2.0, q))
    assert "Launches: 1, of which 1 are fused" in fused.explain(q, k, v, 2.0, q)


def test_floats_of_8_bits_give_keys_and_values(device: str) -> None:
    pytest.importorskip("ml_dtypes")
    kind = numpy_dtype("float8_e4m3fn")
    for length in (20,):
        q = floats(1, 4, length, 16)
        k, v = (RANDOM.normal(size=(1, 2, 33, 16)).astype(kind) for _ in range(2))
        args = q, k, v, floats(33, 1), floats(1, 2, 1, 1)
        fused = xtarget.fuse(dequantised)
        close(fused(*args), dequantised(*args))
        assert "Launches: 1, of which 1 are fused" in fused.explain(*args)


def test_explain_says_why_something_is_a_launch_of_its_own(device: str) -> None:
    x = floats(2, 20, 8)

    def said(function: Callable[..., Any], *args: Any) -> str:
        fused = xtarget.fuse(function)
        close(fused(*args), function(*args))
        return fused.explain(*args)

    def of_itself(x: Any) -> Any:
        y = run("tanh", x)
        return run("attention", y, y, y)

    assert "tanh (as it is). Its result is written: attention reads it, and attention" in said(
        of_itself, x
    )

    def with_sums(x: Any) -> Any:
        made, _ = run("attention", x, x, x, lse=True)
        return made * 2.0

    assert "attention is a kernel of its own" in said(with_sums, x)

    def two(x: Any) -> Any:
        return run("attention", run("attention", x, x, x), x, x)

    assert "a launch has one product of matrices, convolution, scan or attention" in said(two, x)

    def of_rows(x: Any) -> Any:
        return run("softmax", run("attention", x, x, x))

    assert "rows that are reduced are not those of a tile of a product" in said(of_rows, x)

    def in_8_bits(x: Any) -> Any:
        return run("cast", run("attention", x, x, x), dtype="float8_e4m3fn")

    assert "among these or before a product or attention" in xtarget.fuse(in_8_bits).explain(x)

    def many(x: Any, a: Any, b: Any, c: Any) -> Any:
        return run("attention", x * a + b - c, x, x)

    assert "attention: what it reads is made of no more than 3 operands" in said(many, x, x, x, x)


#: Where keys are cut into parts: what follows is done where these are joined.
JOINED = "attended:joined"


def sources(function: Callable[..., Any], args: Any, target: str) -> list[str]:
    """The kernels that a call launches on a target, without their steps."""
    vendor, _, arch = target.partition(":")
    found: list[str] = []
    for launch in xtarget.fuse(function)._trace(list(args)).launches:
        spec, types = libraries.find(launch.kernel).spec, layouts_of(launch)
        call = Call(
            launch.kernel, types, {**spec.options, **launch.options}, None, vendor, 108,
            NumpyRules(), arch=arch, aligned=(True,) * (len(types) + 1),
        )  # fmt: skip
        found += [re.split(r"[(\[.]", one.source)[0] for one in spec.plan(call).launches]
    return found


def test_keys_that_many_queries_read_are_made_first_on_gpus() -> None:
    def made(q: Any, k: Any, v: Any, by: Any) -> Any:
        return run("attention", q * by, k, v * by) * by

    def args(length: int) -> Any:
        return *(floats(1, 4, n, 64, dtype="float16") for n in (length, 512, 512)), 0.5

    few, many = args(64), args(1024)
    assert sources(made, few, "nvidia:sm_80") == ["attended:attention", JOINED]
    assert sources(made, many, "nvidia:sm_80") == [
        "elementwise:binary",
        "attended:attention",
        JOINED,
    ]
    assert sources(made, many, "cpu:spirv64")[-1] == "attended:outer"
    assert "elementwise:binary" not in sources(made, many, "cpu:spirv64")


def test_where_sm_90_has_a_kernel_of_its_own_that_one_serves() -> None:
    def made(q: Any, k: Any, v: Any, by: Any) -> Any:
        return run("attention", q * by, k, v) * by

    q, k, v = (floats(2, 32, 1024, 64, dtype="float16") for _ in range(3))
    assert sources(made, (q, k, v, 0.5), "nvidia:sm_90") == [
        "elementwise:binary", "hopper_attention:attention", "each",
    ]  # fmt: skip
    whole = [one.astype("float32") for one in (q, k, v)]
    assert sources(made, (*whole, 0.5), "nvidia:sm_90") == ["attended:attention"]


def test_float64_that_bytes_give_is_made_first_on_nvidia() -> None:
    k = np.ones((1, 2, 64, 16), np.int8)
    args = floats(1, 2, 8, 16, dtype="float64"), k, k, 0.5, 0.25
    found = sources(dequantised, args, "nvidia:sm_80")
    assert [one.partition(":")[0] for one in found] == ["elementwise", "elementwise", "attention"]
    assert sources(dequantised, args, "amd:gfx942") == ["attended:attention"]


@pytest.mark.parametrize("narrow", [0, 2])
def test_attention_of_float64_and_half_types_compiles_for_nvidia(narrow: int) -> None:
    """Triton 3.6 has no products of float64 by matrix units where 16 bits have been beside."""
    pytest.importorskip("triton")
    args = [floats(1, 1, 16, 16, dtype="float64") for _ in range(3)]
    args[narrow] = args[narrow].astype("float16")
    call = xtarget.fuse(lambda q, k, v: run("attention", q, k, v) * 2.0)
    (made,) = call.compile(*args, target="nvidia:sm_80")
    assert made.resources.registers


@seeds(1, 40)
def test_random_functions_around_attention(device: str, seed: int) -> None:
    draw = random.Random(seed)
    dtype = draw.choice(("float32", "float16"))
    length, keys = draw.choice((1, 3, 17, 40)), draw.choice((1, 5, 33, 70))
    heads, own = draw.choice(((1, 1), (4, 2), (3, 3)))
    size, last = draw.choice((8, 20, 32)), draw.choice((8, 20))
    shapes = (2, heads, length, size), (2, own, keys, size), (2, own, keys, last)
    arrays = [floats(*shape, dtype=dtype) for shape in shapes]
    whole = (2, heads, length, last)

    def beside(shape: tuple[int, ...]) -> Any:
        return draw.choice((
            floats(*shape, dtype=dtype), floats(shape[-1], dtype=dtype),
            floats(shape[-2], 1, dtype=dtype), floats(shape[1], 1, 1, dtype=dtype), 0.5,
        ))  # fmt: skip

    steps = [[draw.choice(("add", "mul", "maximum")) for _ in range(draw.randrange(3))]
             for _ in range(4)]  # fmt: skip
    given = [
        [beside(shape) for _ in own_steps]
        for shape, own_steps in zip((*shapes, whole), steps, strict=True)
    ]
    options = {"causal": draw.random() < 0.5, "offset": draw.choice((0, None))}

    def function(q: Any, k: Any, v: Any, *others: Any) -> Any:
        left = list(others)

        def through(x: Any, names: list[str]) -> Any:
            for name in names:
                x = run(name, x, left.pop(0))
            return x

        q, k, v = (through(x, own) for x, own in zip((q, k, v), steps, strict=False))
        return through(run("attention", q, k, v, **options), steps[3])

    flat = [one for own_given in given for one in own_given]
    names = [f"a{i}" for i in range(len(flat))]
    scope = {"function": function}
    exec(  # a fused function takes no `*others`
        f"def made(q, k, v{''.join(', ' + n for n in names)}):\n"
        f"    return function(q, k, v{''.join(', ' + n for n in names)})",
        scope,
    )
    made: Any = scope["made"]
    close(xtarget.fuse(made)(*arrays, *flat), made(*arrays, *flat), 3)
