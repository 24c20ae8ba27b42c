"""Fused functions that reduce rows: one launch, with the results of their operators one by one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import xtarget
from xtarget import ArgumentError
from xtarget._fuse import launches
from xtarget._fuse.fused import Fused
from xtarget._fuse.scores import Report
from xtarget._values.types import Resources, Target

run = xtarget.run
RANDOM = np.random.default_rng(7)


def sampled(first: Any, *others: Any) -> list[Any]:
    """Parameters of which the long tests take all."""
    return [first, *(pytest.param(one, marks=pytest.mark.long) for one in others)]


def floats(*shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return RANDOM.normal(size=shape).astype(dtype)


def close(found: Any, wanted: Any, dtype: str = "float32") -> None:
    """Equal but for the order of sums."""
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    bound = {"float16": 2e-3, "float64": 1e-12}.get(dtype, 2e-5)
    np.testing.assert_allclose(
        found.astype("float64"), wanted.astype("float64"), rtol=bound, atol=bound
    )


def softmax(x: Any, r: Any, w: Any) -> Any:
    y = run("mul", x, 3.0)
    power = run("exp", run("sub", y, run("max", y, axis=-1, keepdims=True)))
    return run("div", power, run("sum", power, axis=-1, keepdims=True))


def norm_gelu(x: Any, r: Any, w: Any) -> Any:
    return run("add", run("gelu", run("layer_norm", x, w, w)), r)


def add_norm(x: Any, r: Any, w: Any) -> Any:
    return run("mul", run("rms_norm", run("add", x, r), w), 2)


def distance(x: Any, r: Any, w: Any) -> Any:
    apart = run("sub", x, r)
    return run("sqrt", run("mean", run("mul", apart, apart), axis=-1))


def standardized(x: Any, r: Any, w: Any) -> Any:
    """Two folds that do not need each other, and one that needs both."""
    centred = run("sub", x, run("mean", x, axis=-1, keepdims=True))
    spread = run("std", x, axis=-1, keepdims=True, ddof=1)
    y = run("div", centred, run("add", spread, 0.5))
    return run("sub", run("logsumexp", run("add", y, w), axis=-1, keepdims=True), y)


def entropy(x: Any, r: Any, w: Any) -> Any:
    logs = run("log_softmax", run("add", x, w))
    return run("sum", run("mul", run("softmax", r), logs), axis=-1, keepdims=True)


@pytest.mark.parametrize(
    "function", sampled(softmax, norm_gelu, add_norm, distance, standardized, entropy)
)
def test_it_is_one_launch(device: str, launched: list[str], function: Any) -> None:
    fused = xtarget.fuse(function)
    for shape in ((9, 5), (2, 3, 300)):
        x, r, w = floats(*shape), floats(*shape), floats(shape[-1])
        launched.clear()
        found = fused(x, r, w)
        assert len(launched) == 1, launched
        close(found, function(x, r, w))


@pytest.mark.parametrize("dtype", sampled("float16", "float64"))
@pytest.mark.parametrize("n", sampled(7, 900))
def test_half_types_add_up_in_float32_and_doubles_in_double(
    device: str, dtype: str, n: int
) -> None:
    x, r, w = (floats(*shape, dtype=dtype) for shape in ((4, n), (4, n), (n,)))
    for function in (distance, softmax)[: 1 + (n > 7)]:
        close(xtarget.fuse(function)(x, r, w), function(x, r, w), dtype)
    if dtype == "float16":  # whose own sum would be infinite
        large = np.full((2, n), 2e4, "float16")
        mean = xtarget.fuse(lambda x: run("mean", x * 1, axis=-1))(large)
        np.testing.assert_array_equal(mean, np.float16(2e4))


def test_another_number_of_rows_or_columns_is_not_traced_again(device: str) -> None:
    times = []

    @xtarget.fuse
    def f(x: Any) -> Any:
        times.append(1)
        return x - run("mean", x, axis=-1, keepdims=True)

    f(floats(2, 3))
    traced = len(times)
    for shape in ((5, 3), (7, 9), (1, 9), (40, 300)):
        x = floats(*shape)
        close(f(x), x - x.mean(-1, keepdims=True))
    assert len(times) == traced


def broadcast(x: Any, y: Any) -> Any:
    total = run("sum", run("add", x, y), axis=-1, keepdims=True)
    return run("mul", run("sub", run("max", y, axis=-1, keepdims=True), total), x)


def apart(x: Any, y: Any) -> Any:
    return run("add", run("sum", run("abs", x), axis=-1), run("sum", run("neg", y), axis=-1))


def dropped(x: Any, y: Any) -> Any:
    return run("sub", run("mul", x, y), run("mean", x, axis=-1))


def twice(x: Any, y: Any) -> Any:
    top = run("max", x, axis=-1, keepdims=True)
    return run("sub", run("sum", run("mul", top, 2), axis=-1, keepdims=True), y)


@pytest.mark.parametrize("function", sampled(apart, dropped, broadcast, twice))
def test_sizes_of_1_and_rows_of_other_lengths(device: str, function: Any) -> None:
    """In any order: what is traced for one of them serves others, or does not."""
    shapes = [((4, 4), (4, 4)), ((4, 1), (4, 1)), ((4, 4), (4, 1))]
    if function is apart:
        shapes += [((4, 5), (4, 9)), ((4, 9), (4, 5))]
    else:
        shapes += [((4, 1), (4, 4)), ((1, 4), (4, 4)), ((4, 4), (1,)), ((4,), (4, 4)), ((1,), (1,))]
    fused = xtarget.fuse(function)
    for x, y in ([floats(*shape) for shape in pair] for pair in shapes + shapes[::-1]):
        try:
            wanted = function(x, y)
        except ArgumentError:
            with pytest.raises(ArgumentError):
                fused(x, y)
            continue
        close(fused(x, y), wanted)


def test_kernels_of_other_kinds_come_between() -> None:
    def function(x: Any, w: Any, b: Any, spread: Any) -> Any:
        y = run("softmax", run("linear", run("mul", x, 2), w, b))
        y = run("batch_norm", run("add", y, 1), b, spread, b)
        squares = run("sum", run("mul", y, y), axis=1, keepdims=True)
        return run("matmul", run("mul", y, squares), w)

    fused = xtarget.fuse(function)
    arrays = floats(3, 8), floats(8, 8), floats(8), np.ones(8, np.float32)
    # mul + linear, softmax + add, batch_norm, mul + sum + mul, matmul
    assert "Operators: 9. Launches: 5, of which 4 are fused." in fused.explain(*arrays)


def test_explain_says_what_is_saved_and_why_a_launch_ends(device: str) -> None:
    @xtarget.fuse
    def f(x: Any, w: Any) -> Any:
        y = np.exp(x * 2 + 1)
        z = run("softmax", run("matmul", y, w)) * 3
        return z, run("cumsum", y - 1)

    for rows in (8, 16):  # of this call, not of the one that was traced
        said = f.explain(np.ones((rows, 16), np.float32), np.ones((16, 16), np.float32))
        # two of the chain, the softmax and what cumsum reads, written and read
        nodes = 4 * rows * 16 * 2 * (2 + 1 + 1)
        assert (
            f"Operators: 8. Launches: 4, of which 3 are fused. Bytes that are not moved: {nodes:,}."
            in said
        )
        assert "mul add exp, from float32. Launches saved: 2." in said
        assert "Its result is written: several launches need it." in said
        assert "matmul (as it is). Its result is written: rows that are reduced are not" in said
        assert "sub cumsum, from float32. Launches saved: 1." in said
        assert "v5 = mul(v2, spread(v4, mask)).to(tl.float32)" in said


def test_explain_has_the_compilers_report() -> None:
    pytest.importorskip("triton")
    x = np.zeros((64, 128), np.float16)
    said = xtarget.fuse(norm_gelu).explain(x, x, x[0], target="nvidia:sm_90")
    (line,) = (line for line in said.splitlines() if "On nvidia:sm_90:" in line)
    for part in ("blocks of", "registers a thread", "0 bytes of memory for want of them", "shared"):
        assert part in line


def test_a_gpus_first_call_traces_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its compiler is asked about what was traced, and what spills is cut again from that."""
    targets = []

    def reports(kernel: str, types: Any, options: Any, target: Target) -> list[Report]:
        targets.append(str(target))
        own = 4000 if len(kernel.split()) > 4 else 0
        return [Report(4, 4, 128, 0, Resources(registers=255, local_bytes=own))]

    monkeypatch.setattr(launches, "reports", reports)
    monkeypatch.setattr(Fused, "_target", lambda *_: Target.parse("nvidia:sm_90"))
    times = []

    @xtarget.fuse
    def function(x: Any) -> Any:
        times.append(1)
        return run("sum", run("exp", run("permute", x)) * 2, axis=0)

    for shape in ((3, 5), (6, 2)):
        x = floats(*shape)
        close(function(x), run("sum", np.exp(x.T) * np.float32(2), axis=0))
    assert len(times) == 1
    assert set(targets) == {"nvidia:sm_90"}


@pytest.mark.parametrize(
    ("resources", "bytes_of_a_thread"),
    [
        (Resources(local_bytes=32, spilled_registers=0), 0),  # an array of its own
        (Resources(local_bytes=48, spilled_registers=4), 16),
        (Resources(local_bytes=48), 48),
        (Resources(spilled_registers=3), 12),
        (Resources(), 0),
    ],
)
def test_memory_for_want_of_registers(resources: Resources, bytes_of_a_thread: int) -> None:
    report = Report(10, 4, 128, 0, resources)
    assert report.spilled == 2 * bytes_of_a_thread * 10 * 128
    known = Report(10, 4, 128, 0, replace(resources, registers=40))
    assert f"40 registers a thread, {bytes_of_a_thread} bytes of memory" in str(known)


def test_what_keeps_registers_in_memory_is_cut_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where that costs more than a section saves."""
    asked = []

    def reports(kernel: str, *_: Any) -> list[Report]:
        operators = len(kernel.split()) - 2  # "fused", the names, a digest
        asked.append(operators)
        own = 4000 if operators > 2 else 1
        return [Report(4, 4, 128, 0, Resources(registers=255, local_bytes=own))]

    monkeypatch.setattr(launches, "reports", reports)
    function = lambda x: run("sqrt", run("exp", run("neg", run("abs", run("mul", x, 2)))))  # noqa: E731
    x = floats(1000)
    fused = xtarget.fuse(function)
    said = fused.explain(x, target="nvidia:sm_90")
    assert "Operators: 5. Launches: 3, of which 2 are fused." in said
    assert "would keep registers in memory, which costs more" in said
    assert asked == [5, 3, 2, 2]
    close(fused(x), function(x))


def test_few_long_rows_are_cut() -> None:
    fused = xtarget.fuse(softmax)
    for shape, wanted in (((2, 40_000), 5), ((2, 50), 1), ((100, 40_000), 1), ((2, 40_000), 5)):
        x = np.broadcast_to(np.float32(1), shape)
        assert f"Launches: {wanted}, " in fused.explain(x, x, x[0])


def test_rows_that_are_broadcast_are_not_reduced_for_each() -> None:
    fused = xtarget.fuse(lambda x, y: run("add", run("softmax", run("mul", x, 2)), y))
    said = fused.explain(floats(40), floats(30, 40))
    assert "mul softmax, from float32." in said
    assert "add (as it is)" in said


def test_nothing(device: str) -> None:
    double_sum = xtarget.fuse(lambda x: run("sum", x * 2, axis=-1) + 1)
    np.testing.assert_array_equal(double_sum(floats(3, 4) * 0), [1, 1, 1])
    np.testing.assert_array_equal(double_sum(floats(3, 0)), [1, 1, 1])
    assert double_sum(floats(0, 4)).shape == (0,)
    assert xtarget.fuse(softmax)(floats(0, 4), floats(0, 4), floats(4)).shape == (0, 4)
    largest = xtarget.fuse(lambda x: run("max", x * 2, axis=-1))
    close(largest(floats(3, 4) * 0), np.zeros(3, "float32"))
    with pytest.raises(ArgumentError, match="of nothing is not defined"):
        largest(floats(3, 0))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("n", sampled(6, 150))
def test_nan_and_infinity(device: str, n: int) -> None:
    x = floats(6, n)
    x[1, 2], x[2, 3], x[3, :], x[4, n - 1], x[5, 0] = np.nan, np.inf, -np.inf, np.nan, -np.inf
    names = ("max", "logsumexp", "min", "prod", "sum", "nanmax", "nanmean", "count_nonzero")
    for name in names if n > 6 else names[:2]:
        function = lambda x, name=name: run("neg", run(name, run("neg", x), axis=-1))  # noqa: E731
        close(xtarget.fuse(function)(x), function(x))
    close(xtarget.fuse(softmax)(x, x, x[0]), softmax(x, x, x[0]))


@pytest.mark.parametrize("dtype", sampled("int8", "bool", "uint8", "int32", "int64"))
def test_integers_add_up_in_the_dtype_of_sum(device: str, dtype: str) -> None:
    x = RANDOM.integers(0, 2 if dtype == "bool" else 120, (5, 90)).astype(dtype)
    names = ("sum", "mean", "prod", "max", "min", "all", "square_sum")
    for name in names if dtype != "int8" else names[:1]:
        function = lambda x, name=name: run("add", run(name, run("maximum", x, 1), axis=-1), 1)  # noqa: E731
        close(xtarget.fuse(function)(x), function(x))


def test_out_may_be_an_argument(device: str) -> None:
    x, r, w = floats(8, 300), floats(8, 300), floats(300)
    wanted = norm_gelu(x, r, w)
    wide = np.zeros((8, 600), "float32")
    xtarget.fuse(norm_gelu)(x, r, w, out=wide[:, ::2])
    close(wide[:, ::2].copy(), wanted)
    assert not wide[:, 1::2].any()
    assert xtarget.fuse(norm_gelu)(x, r, w, out=x) is x
    close(x, wanted)


@pytest.mark.parametrize("n", sampled(200, 17))
def test_arrays_may_lie_in_any_way(device: str, n: int) -> None:
    base = floats(2 * n, 40)
    x, r, w = base.T[:, ::2], base[:n, :40].T[::-1], np.broadcast_to(np.float32(2), (n,))
    for function in (distance, norm_gelu)[: 1 + (n < 200)]:
        close(xtarget.fuse(function)(x, r, w), function(x, r, w))


UNARY = ("tanh", "sigmoid", "abs", "neg", "sin", "relu", "softmax", "log_softmax", "rms_norm")
BINARY = ("add", "sub", "mul", "maximum", "minimum")
FOLDS = ("sum", "mean", "max", "min", "var", "logsumexp", "mean_square", "l1_norm")


def program_of(seed: int) -> Callable[..., Any]:
    """A function of random operators, none of which makes a small error a large one."""

    def function(x: Any, y: Any, number: Any) -> Any:
        draw = random.Random(seed)
        made = [x, y]
        while len(made) < 10:
            own = draw.choice(made[-4:])
            kind = draw.random()
            if kind < 0.3:
                made.append(run(draw.choice(UNARY), own))
            elif kind < 0.55:
                name = draw.choice(FOLDS)
                made.append(run("tanh", run(name, own, axis=-1, keepdims=True)))
            else:
                other = draw.choice([*made, number])
                made.append(run(draw.choice(BINARY), own, other))
        last = run(draw.choice(FOLDS), made[-1], axis=-1) if draw.random() < 0.3 else made[-1]
        return last, made[draw.randrange(4, 9)]

    return function


@pytest.mark.parametrize("seed", sampled(*range(80)))
def test_random_programs(device: str, seed: int) -> None:
    draw = random.Random(2000 + seed)
    function = program_of(seed)
    fused = xtarget.fuse(function)
    for _ in range(2):
        rows, n = draw.choice([1, 2, 5]), draw.choice([1, 3, 33, 170])
        dtype = draw.choice(["float32", "float32", "float64"])
        x = floats(rows, n, dtype=dtype)
        y = floats(*draw.choice([(rows, n), (n,), (rows, 1), (1, n)]), dtype=dtype)
        number = draw.choice([0.5, 2.0, np.float32(1.5)])
        for found, wanted in zip(fused(x, y, number), function(x, y, number), strict=True):
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
            scale = max(1.0, float(np.abs(wanted).max()))
            np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=1e-4 * scale)


@pytest.mark.parametrize("target", ["nvidia:sm_90", "amd:gfx942"])
@pytest.mark.parametrize("n", sampled(64, 100_000))
def test_it_compiles_for_every_vendor(target: str, n: int) -> None:
    pytest.importorskip("triton")
    x, w = (np.broadcast_to(np.float16(1), shape) for shape in ((80, n), (n,)))
    (made,) = xtarget.fuse(norm_gelu).compile(x, x, w, target=target)
    assert made.entry.startswith("fused_sum_mean")
    assert str(made.target) == target
    assert made.binary


@pytest.mark.long
@pytest.mark.parametrize("emulated", ["emu:gfx942", "emu:gfx1100"])
@pytest.mark.parametrize("n", [33, 9000])
def test_it_runs_on_amds_machine_code(emulated: str, n: int) -> None:
    x, w = floats(3, n), floats(n)
    for function in (softmax, norm_gelu):
        close(xtarget.fuse(function)(x, x, w, device=emulated), function(x, x, w))
