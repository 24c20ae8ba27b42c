"""Fused functions give what their operators give one after another, in fewer launches."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import run_python
from random_functions import seeds

import xtarget
from xtarget import ArgumentError
from xtarget._kernels import libraries

run = xtarget.run
RANDOM = np.random.default_rng(5)


def floats(*shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return RANDOM.normal(size=shape).astype(dtype)


def test_a_chain_is_one_launch(device: str, launched: list[str]) -> None:
    @xtarget.fuse
    def chain(x: Any, bias: Any, residual: Any) -> Any:
        return run("gelu", np.exp(x * 0.5) - bias) * 3 + residual

    x, bias, residual = floats(33, 70), floats(70), floats(33, 1)
    found = chain(x, bias, residual)
    assert len(launched) == 1
    wanted = run("gelu", run("sub", run("exp", run("mul", x, 0.5)), bias))
    np.testing.assert_array_equal(found, run("add", run("mul", wanted, 3), residual))
    assert "Operators: 6. Launches: 1, of which 1 are fused." in chain.explain(x, bias, residual)
    assert "def fused_mul_exp_sub_gelu_mul_add(a, b, c):" in chain.explain(x, bias, residual)


UNARY = ("abs", "neg", "sign", "relu", "exp", "sigmoid", "isnan", "logical_not", "square", "sqrt")
BINARY = ("add", "sub", "mul", "div", "maximum", "lt", "eq", "logical_and", "floor_divide", "pow")
DTYPES = ("float32", "float16", "float64", "int32", "uint8", "bool", "int64")


def chain_of(seed: int) -> Callable[..., Any]:
    """A function of random operators on two arrays and a number. An operator that does not take
    what it would get is passed over."""

    def function(x: Any, y: Any, number: Any) -> Any:
        draw = random.Random(seed)
        made = [x, y]
        while len(made) < 9:
            try:
                if draw.random() < 0.4:
                    made.append(run(draw.choice(UNARY), draw.choice(made)))
                else:
                    others = [*made, number, draw.choice([2, 0.25, True])]
                    pair = [draw.choice(made), draw.choice(others)]
                    draw.shuffle(pair)
                    made.append(run(draw.choice(BINARY), *pair))
            except ArgumentError:
                continue
        return made[-1], made[-2], made[5]

    return function


@pytest.mark.sample(3)
@seeds(6, 60)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_fused_and_unfused_are_equal_bit_by_bit(device: str, seed: int) -> None:
    draw = random.Random(1000 + seed)
    function = chain_of(seed)
    fused = xtarget.fuse(function)
    for _ in range(2):
        x, y = (
            (RANDOM.normal(size=shape) * 4).astype(draw.choice(DTYPES))
            for shape in ((5, 1, 7), (draw.choice([1, 5]), 3, 7))
        )
        number = draw.choice([3, 0.5, 2.0, np.float32(1.5)])
        for found, wanted in zip(fused(x, y, number), function(x, y, number), strict=True):
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)


def test_other_sizes_are_not_traced_again(device: str) -> None:
    times: list[int] = []
    traced = 0

    @xtarget.fuse
    def scaled(x: Any, y: Any, factor: float) -> Any:
        times.append(1)
        return (x + y) * factor

    for length in (3, 70, 1025):
        for factor in (2.0, -1.0):
            x, y = floats(length), floats(length)
            np.testing.assert_array_equal(scaled(x, y, factor), (x + y) * np.float32(factor))
            traced = traced or len(times)
    assert len(times) == traced == 1
    assert scaled(floats(0), floats(0), 1.0).shape == (0,)
    assert scaled(floats(2, 3), floats(3), factor=1.0).shape == (2, 3)
    assert scaled(floats(2), floats(2, dtype="float64"), 1.0).dtype == np.float64


def test_a_shape_that_is_asked_for_is_part_of_the_trace(device: str) -> None:
    @xtarget.fuse
    def mean(x: Any) -> Any:
        return run("sum", x * 2, axis=0) / x.shape[0]

    for rows in (4, 8, 4):
        x = np.ones((rows, 3), np.float32)
        np.testing.assert_array_equal(mean(x), [2, 2, 2])
    assert "asks for a shape" in mean.explain(x)


def test_numbers_keep_to_the_range_of_their_dtype(device: str) -> None:
    @xtarget.fuse
    def more(x: Any, number: int) -> Any:
        return (x + number) * 1

    x = np.arange(4, dtype=np.uint8)
    np.testing.assert_array_equal(more(x, 250), [250, 251, 252, 253])
    with pytest.raises(ArgumentError, match="does not fit uint8"):
        more(x, 300)
    with pytest.raises(ArgumentError, match="does not fit uint8"):
        more(x, -1)


def test_a_number_may_decide_what_is_computed(device: str) -> None:
    @xtarget.fuse
    def power(x: Any, order: int, axis: int = 0) -> Any:
        for _ in range(order):
            x = x * x + 1
        return run("sum", x, axis=axis)

    x = np.full((2, 3), 2, np.float32)
    np.testing.assert_array_equal(power(x, 1), [10, 10, 10])
    np.testing.assert_array_equal(power(x, 2), [52, 52, 52])
    np.testing.assert_array_equal(power(x, 0, axis=1), [6, 6])
    assert "order is part of the code" in power.explain(x, 2)


def test_what_is_returned_beside_is_written_by_the_launch(device: str, launched: list[str]) -> None:
    @xtarget.fuse
    def softmax(x: Any, scale: float) -> tuple[Any, Any]:
        top = run("max", x * scale, axis=-1, keepdims=True)
        power = np.exp(x * scale - top)
        return power / run("sum", power, axis=-1, keepdims=True), top

    x = floats(9, 40)
    found, top = softmax(x, 3.0)
    assert len(launched) == 1
    np.testing.assert_allclose(found, run("softmax", x * np.float32(3)), rtol=1e-5)
    np.testing.assert_array_equal(top, (x * np.float32(3)).max(-1, keepdims=True))


def test_what_two_sections_need_is_computed_once(device: str, launched: list[str]) -> None:
    @xtarget.fuse
    def both(x: Any) -> list[Any]:
        shared = np.exp(x) + 1
        return [shared * 2 - 1, shared * 3 - 2, x]

    x = floats(30)
    first, second, same = both(x)
    assert len(launched) == 1
    assert same is x
    np.testing.assert_array_equal(first, run("sub", run("mul", run("add", run("exp", x), 1), 2), 1))
    np.testing.assert_array_equal(second, (run("exp", x) + 1) * 3 - 2)


SCALE = 2.0


def test_a_value_beside_the_arguments_may_change(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @xtarget.fuse
    def f(x: Any) -> Any:
        return x * SCALE + 1

    x = np.ones(3, np.float32)
    np.testing.assert_array_equal(f(x), 3)
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 5.0)
    np.testing.assert_array_equal(f(x), 6)


def test_a_kernel_that_is_replaced_is_served(device: str) -> None:
    """A kernel that is not our library's is launched as it is, also where it is called as ours."""
    pytest.importorskip("triton")

    @xtarget.fuse
    def f(x: Any) -> Any:
        return run("fuse_test.first", x * 2) + 1

    source = libraries.find("exp")
    for name, factor in (("neg", -1), ("positive", 1)):
        spec = replace(xtarget.catalog()[name], name="fuse_test.first", aliases=())
        libraries.register(spec, source.source, "a library of a user")
        np.testing.assert_array_equal(f(np.ones(3, np.float32)), 2 * factor + 1)
    assert "(as it is)" in f.explain(np.ones(3, np.float32))


def test_a_fused_function_may_call_another(device: str, launched: list[str]) -> None:
    @xtarget.fuse
    def inner(x: Any, *, scale: float) -> Any:
        return x * scale + 1

    @xtarget.fuse
    def outer(x: Any) -> Any:
        return inner(x, scale=3.0) * 2

    np.testing.assert_array_equal(outer(np.ones(3, np.float32)), 8)
    assert len(launched) == 1


def test_zeros_of_either_sign_are_not_the_same_constant(device: str) -> None:
    @xtarget.fuse
    def f(x: Any, zero: float) -> Any:
        return x / (x * 0 + abs(zero) if zero > 0 else zero * 1)

    one = np.ones(2, np.float32)
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(f(one, 0.0), np.inf)
        np.testing.assert_array_equal(f(one, -0.0), -np.inf)


def test_more_operands_than_a_launch_takes_are_cut(device: str, launched: list[str]) -> None:
    @xtarget.fuse
    def total(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any, i: Any) -> Any:
        return a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + g * 7 + h * 8 + i * 9

    arrays = [np.full(8, 10.0**n, np.float64) for n in range(9)]
    np.testing.assert_array_equal(total(*arrays), 987654321.0)
    assert len(launched) == 2
    bias = arrays[2][:1]  # of one element, and of a number
    found = total(*arrays[:2], bias, *arrays[3:7], 1e7, arrays[8])
    np.testing.assert_array_equal(found, 987654321.0)


def _line(error: BaseException) -> int:
    return int(str(error).partition(", line ")[2].partition(":")[0])


def test_side_effects_are_said_with_their_line() -> None:
    kept = []

    def keeps(x: Any) -> Any:
        kept.append(np.exp(x))
        return x + 1

    def prints(x: Any) -> Any:
        print(x * 2)
        return x

    def item(x: Any) -> Any:
        return x * run("sum", x).item()

    def unknown(x: Any) -> Any:
        return run("gelv", x)

    x = floats(4)
    for function, said in (
        (unknown, "there is no kernel 'gelv'. Did you mean"),
        (keeps, "what exp gives here is kept outside"),
        (prints, "text of it"),
        (item, "item asks for values"),
    ):
        with pytest.raises(xtarget.XTargetError, match=said) as raised:
            xtarget.fuse(function)(x)
        first = function.__code__.co_firstlineno
        assert _line(raised.value) == first + 1
        assert __file__ in str(raised.value)
    kept.clear()

    def circle(x: Any) -> Any:
        def again(n: int) -> Any:
            return x * n if n < 2 else again(n - 1)

        y = x + 1
        return again(3) + y

    np.testing.assert_array_equal(xtarget.fuse(circle)(x), x + (x + 1))


def test_results_go_where_out_says(device: str) -> None:
    @xtarget.fuse
    def both(x: Any) -> tuple[Any, Any]:
        return x * 2 + 1, x * 3 + 1

    x = floats(20)
    outs = np.zeros_like(x), np.zeros_like(x)
    found = both(x, out=outs)
    assert found[0] is outs[0]
    np.testing.assert_array_equal(outs[1], x * 3 + 1)
    with pytest.raises(ArgumentError, match="gives 2 results, and out has 1"):
        both(x, out=outs[0])
    with pytest.raises(ArgumentError, match=r"out\[0\] may share memory"):
        both(x, out=(x, outs[1]))  # the second launch reads x
    with pytest.raises(ArgumentError, match=r"out\[0\] may share memory"):
        both(x, out=(outs[0], outs[0][::-1]))
    for returned in (lambda x: (x + 1, x), lambda x: (x + 1,) * 2):
        with pytest.raises(ArgumentError, match="nothing to write to out"):
            xtarget.fuse(returned)(x, out=outs)


def test_one_of_a_kernels_several_results_goes_where_out_says(device: str) -> None:
    x = floats(6, 20)
    spread, mean = run("var_mean", run("mul", x, 2), axis=1)

    @xtarget.fuse
    def second(x: Any) -> Any:
        return run("var_mean", x * 2, axis=1)[1]

    @xtarget.fuse
    def turned(x: Any) -> Any:
        return run("var_mean", x * 2, axis=1)[::-1]

    out, other = np.zeros(6, np.float32), np.zeros(6, np.float32)
    assert second(x, out=out) is out
    np.testing.assert_array_equal(out, mean)
    turned(x, out=(other, out))
    np.testing.assert_array_equal(other, mean)
    np.testing.assert_array_equal(out, spread)
    with pytest.raises(ArgumentError, match="has shape"):
        second(x, out=np.zeros(5, np.float32))


def test_arrays_of_other_libraries_stay_what_they_are(device: str, place: str) -> None:
    @xtarget.fuse
    def f(x: Any, y: Any) -> Any:
        return np.tanh(x + y) * x

    torch = pytest.importorskip("torch")
    x = torch.randn(3, 5, device=place)
    found = f(x, x.T.contiguous().T)
    assert isinstance(found, torch.Tensor)
    torch.testing.assert_close(found, torch.tanh(x + x) * x)
    own = xtarget.asarray(floats(4), device=device)
    assert isinstance(f(own, own), xtarget.Array)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda x: x + 1 if x > 0 else x, "a condition asks for values"),
        (lambda x: x * run("sum", x).item(), "item asks for values"),
        (lambda x: x * bytes.fromhex(x), "none of xtarget's or NumPy's operators gets an array"),
        (lambda x: x + float(x), r"float\(\) asks for values"),
        (lambda x: x[x > 0] + 1, "an index asks for values"),
        (lambda x: sum(x), "iteration asks for values"),
        (lambda x: np.asarray(x) + 1, "a conversion to NumPy asks for values"),
        (lambda x: x + np.ones(3), "an array that is not an argument of the fused function"),
        (lambda x: run("add", x, x, out=np.ones(3)), "add has out="),
        (lambda x: run("nothing", x), "there is no kernel"),
        (lambda x: run("nonzero", x), "is known when it has run"),
        (lambda x: np.add.reduce(x), "np.add.reduce asks for values"),
        (lambda x: x @ x[[0, 1]], r"this element \(not of slices\) asks for values"),
        (lambda x: run("sum", x, axis=5), "axis 5 is out of range"),
        (lambda x: 3, "returns 3, which is not computed from its arrays"),
    ],
)
def test_what_cannot_be_traced_names_its_line(function: Any, says: str) -> None:
    with pytest.raises(xtarget.XTargetError, match=says) as caught:
        xtarget.fuse(function)(np.ones(3, np.float32))
    line = function.__code__.co_firstlineno
    if "kernel" not in says and "returns" not in says:
        assert f"test_fuse.py, line {line}" in str(caught.value)


def test_a_change_in_place_is_refused() -> None:
    @xtarget.fuse
    def f(x: Any) -> Any:
        x += 1
        return x

    with pytest.raises(ArgumentError, match=r"Write x = x \+ y in the place of x \+= y"):
        f(np.ones(3))


def test_arguments_are_counted() -> None:
    @xtarget.fuse
    def f(x: Any, *, scale: float = 2) -> Any:
        return x * scale

    np.testing.assert_array_equal(f(np.ones(3)), 2)
    np.testing.assert_array_equal(f(np.ones(3), scale=4), 4)
    with pytest.raises(ArgumentError, match="too many positional arguments"):
        f(1, 2)
    with pytest.raises(ArgumentError, match="takes any number of arguments"):
        xtarget.fuse(lambda *xs: xs[0])
    with pytest.raises(ArgumentError, match="takes a function of Python, not 3"):
        xtarget.fuse(3)  # type: ignore[arg-type]
    with pytest.raises(xtarget.XTargetError):
        f([1, 2, 3])


@pytest.mark.parametrize("target", ["nvidia:sm_90", "amd:gfx942", "intel:spirv64"])
def test_it_compiles_for_every_vendor(target: str) -> None:
    pytest.importorskip("triton")

    @xtarget.fuse
    def f(x: Any, bias: Any, scale: float) -> Any:
        y = run("gelu", x + bias) * scale
        return y / run("sum", y, axis=-1, keepdims=True)

    x = floats(8, 64, dtype="float16")
    made = f.compile(x, x[0], 2.0, target=target)
    assert [artifact.entry for artifact in made] == ["fused_add_gelu_mul_sum_div"]
    assert all(str(artifact.target) == target and artifact.binary for artifact in made)


@pytest.mark.long
@pytest.mark.parametrize("emulated", ["emu:gfx942", "emu:gfx1100"])
def test_it_runs_on_amds_machine_code(emulated: str) -> None:
    @xtarget.fuse
    def f(x: Any, bias: Any) -> Any:
        return run("gelu", x * 0.5 + bias) - x

    x, bias = floats(5, 33, dtype="float16"), floats(33, dtype="float16")
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(f(x, bias, device=emulated), f(x, bias), rtol=2e-3, atol=1e-3)


FUSED = """
import numpy as np, xtarget
@xtarget.fuse
def f(x, y):
    return np.exp(x * 2 + y) - 1
x = np.linspace(0, 1, 50, dtype=np.float32)
np.testing.assert_allclose(f(x, x), np.exp(3 * x) - 1, rtol=1e-5)
"""


def test_another_process_needs_no_compiler(device: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(FUSED)
    common = {"XTARGET_CACHE_DIR": str(tmp_path / "cache"), "XTARGET_DEVICE": device}
    # compiled in a child process, which finds the function by its text
    first = run_python(script, **common, XTARGET_COMPILE_SECONDS="300")
    assert first.returncode == 0, first.stderr
    second = run_python(script, **common, XTARGET_COMPILE="error")
    assert second.returncode == 0, second.stderr
