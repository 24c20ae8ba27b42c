"""Kernels as authors write them give NumPy's results, on the first device and on emulated GPUs."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import here

pytest.importorskip("triton")


import author_kernels as kernels

import xtarget
from xtarget._kernels import libraries

SOURCE = Path(kernels.__file__)


def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def floats(*shape: int, dtype: Any = np.float32) -> Any:
    return rng().standard_normal(shape).astype(dtype)


def gelu(v: Any) -> Any:
    return 0.5 * v * (1 + np.tanh(0.7978845608 * (v + 0.044715 * v**3)))


def test_bias_gelu_dropout(on: str) -> None:
    x, bias = floats(9, 33), floats(33)
    out = xtarget.run("a.bias_gelu_dropout", x, bias, 0.0)
    np.testing.assert_allclose(out, gelu(x + bias), atol=2e-6)
    half = xtarget.run("a.bias_gelu_dropout", x, bias, 0.5, seed=7)
    kept = half != 0
    assert 0.3 < kept.mean() < 0.7
    np.testing.assert_allclose(half[kept], 2 * gelu(x + bias)[kept], atol=4e-6)
    again = xtarget.run("a.bias_gelu_dropout", x, bias=bias, p=0.5, seed=8, APPROXIMATE=False)
    assert ((again != 0) != kept).any()


def test_int4_matmul(on: str) -> None:
    m, n, k, group = 5, 40, 64, 32
    x, scale = floats(m, k), np.abs(floats(k // group, n))
    weight = rng().integers(0, 16, (k, n))
    words = np.zeros((k // 8, n), np.uint32)
    for place in range(8):
        words |= weight[place::8].astype(np.uint32) << np.uint32(4 * place)
    right = x.astype(np.float64) @ ((weight - 8) * np.repeat(scale, group, 0))
    out = xtarget.run("a.int4_matmul", x, words.view(np.int32), scale)
    np.testing.assert_allclose(out, right, rtol=2e-5, atol=2e-4)


def test_rotary_in_place_on_a_view(on: str) -> None:
    fused = floats(3, 2 * 3, 16)
    before, queries = fused.copy(), fused[:, :2]
    cos, sin = np.cos(floats(3, 8)), np.sin(floats(3, 8))
    assert xtarget.run("a.rotary", queries, cos, sin) is None
    a, b = before[:, :2, :8], before[:, :2, 8:]
    c, s = cos[:, None], sin[:, None]
    np.testing.assert_allclose(
        queries, np.concatenate([a * c - b * s, b * c + a * s], 2), atol=1e-6
    )
    np.testing.assert_array_equal(fused[:, 2:], before[:, 2:])


def test_cache_write(on: str) -> None:
    keys, values = floats(4, 20), floats(4, 20) + 1
    slots = np.array([5, -1, 0, 7], np.int32)
    key_cache, value_cache = np.zeros((8, 20), np.float32), np.ones((8, 20), np.float32)
    right_keys, right_values = key_cache.copy(), value_cache.copy()
    right_keys[slots[slots >= 0]] = keys[slots >= 0]
    right_values[slots[slots >= 0]] = values[slots >= 0]
    xtarget.run("a.cache_write", keys, values, slots, key_cache=key_cache, value_cache=value_cache)
    np.testing.assert_array_equal(key_cache, right_keys)
    np.testing.assert_array_equal(value_cache, right_values)


def softmax(x: Any) -> Any:
    power = np.exp(x - x.max(-1, keepdims=True))
    return power / power.sum(-1, keepdims=True)


def test_paged_decode_in_two_launches(on: str) -> None:
    sequences, d, page, pages = 2, 16, 4, 5
    lengths, table = np.array([17, 3], np.int32), rng().permutation(10).reshape(2, 5)
    q, keys, values = floats(sequences, d), floats(10, page, d), floats(10, page, d)[::-1].copy()
    out = xtarget.run("a.paged_decode", q, keys, values, table.astype(np.int32), lengths, 0.3)
    for row in range(sequences):
        mine = table[row, : -(-lengths[row] // page)]
        k, v = (a[mine].reshape(-1, d)[: lengths[row]] for a in (keys, values))
        np.testing.assert_allclose(out[row], softmax(q[row] @ k.T * 0.3) @ v, atol=2e-6)
    assert pages == table.shape[1]


def test_top_k_softmax(on: str) -> None:
    scores = floats(3, 16)
    weights, chosen = xtarget.run("a.top_k_softmax", scores, K=4)
    right = np.argsort(-scores, 1)[:, :4]
    np.testing.assert_array_equal(chosen, right)
    np.testing.assert_allclose(weights, softmax(np.take_along_axis(scores, right, 1)), atol=1e-6)


def test_cross_entropy_writes_its_gradient_in_place(on: str) -> None:
    logits, labels = floats(4, 50), np.array([3, -100, 49, 0])
    x, share = logits.copy(), softmax(logits)
    losses = xtarget.run("a.cross_entropy", x, labels)
    there = labels != -100
    right = np.where(there, -np.log(share[np.arange(4), np.maximum(labels, 0)]), 0)
    np.testing.assert_allclose(losses, right, atol=2e-6)
    gradient = share.copy()
    gradient[np.arange(4), np.maximum(labels, 0)] -= 1
    np.testing.assert_allclose(x, np.where(there[:, None], gradient, 0), atol=1e-6)
    x = logits.copy()
    xtarget.run("a.cross_entropy", x, labels, GRADIENT=False)
    np.testing.assert_array_equal(x, logits)


@pytest.mark.parametrize("config", [None, 1])
def test_matmul(on: str, config: int | None) -> None:
    a, b, bias = floats(20, 24), floats(30, 24).T, floats(30)
    options = {} if config is None else {"config": config}
    right = a.astype(np.float64) @ b
    np.testing.assert_allclose(xtarget.run("a.matmul", a, b, **options), right, atol=1e-5)
    relu = xtarget.run("a.matmul", a, b, bias, ACTIVATION="relu", **options)
    np.testing.assert_allclose(relu, np.maximum(right + bias, 0), atol=1e-5)


def test_layer_norm_with_and_without_weight_and_bias(on: str) -> None:
    x, weight, bias = floats(2, 3, 40), floats(40), floats(40) - 1
    right = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    run = xtarget.get("a.layer_norm")
    np.testing.assert_allclose(run(x), right, atol=2e-6)
    np.testing.assert_allclose(run(x, None, bias), right + bias, atol=2e-6)
    np.testing.assert_allclose(run(x, weight), right * weight, atol=4e-6)
    wide = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 3.0)
    np.testing.assert_allclose(
        run(x, bias=bias, weight=weight, eps=3.0), wide * weight + bias, atol=4e-6
    )


def test_split_k_begins_with_zeros(on: str) -> None:
    a, b = floats(7, 150), floats(150, 18)
    out = np.full((7, 18), 100, np.float32)
    for result in (
        xtarget.run("a.split_k", a, b),
        xtarget.run("a.split_k", a, b, out=out, SPLITS=2),
    ):
        np.testing.assert_allclose(result, a.astype(np.float64) @ b, atol=3e-5)


def test_histogram(on: str) -> None:
    x = rng().integers(0, 20, 700)
    for bins in (32, 8):
        right = np.bincount(x[x < bins], minlength=bins)
        np.testing.assert_array_equal(xtarget.run("a.histogram", x, BINS=bins), right)


@pytest.mark.parametrize("causal", [False, True])
def test_varlen_attention(on: str, causal: bool) -> None:
    starts = np.array([0, 5, 6, 25], np.int32)
    q, k, v = (floats(25, 2, 16) * f for f in (1, 2, 3))
    out = xtarget.run("a.varlen_attention", q, k, v, starts, 0.25, CAUSAL=causal)
    for first, end in itertools.pairwise(starts):
        for head in range(2):
            x, y, z = (a[first:end, head] for a in (q, k, v))
            score = x @ y.T * 0.25
            if causal:
                score = np.where(np.tri(end - first, dtype=bool), score, -np.inf)
            np.testing.assert_allclose(out[first:end, head], softmax(score) @ z, atol=1e-5)


def test_linear_attention_in_three_launches(on: str) -> None:
    q, k, v = floats(2, 48, 16), floats(2, 48, 16) / 4, floats(2, 48, 16)
    score = np.tril(np.einsum("btd,bsd->bts", q, k).astype(np.float64))
    np.testing.assert_allclose(xtarget.run("a.linear_attention", q, k, v), score @ v, atol=1e-4)


def test_quantise_gives_values_and_scales(on: str) -> None:
    x = floats(3, 50)
    scale = np.abs(x).max(1) / np.float32(127)
    values = np.floor(x / scale[:, None] + 0.5)
    given = (np.empty((3, 50), np.int8), np.empty(3, np.float32))
    for out in (xtarget.run("a.quantise", x), xtarget.run("a.quantise", x, out=given)):
        np.testing.assert_allclose(out[1], scale, rtol=1e-6)
        assert np.abs(out[0] - values).max() <= 1
        assert (out[0] == values).mean() > 0.95


def test_nonzero_has_as_many_places_as_there_are(on: str) -> None:
    x = rng().integers(0, 3, 600).astype(np.int8)
    np.testing.assert_array_equal(xtarget.run("a.nonzero", x), np.flatnonzero(x))
    assert xtarget.run("a.nonzero", x * 0).shape == (0,)
    places, found = np.zeros(600, np.int32), np.zeros(1, np.int32)
    xtarget.run("a.nonzero", x, out={"places": places, "found": found})
    np.testing.assert_array_equal(places[: found[0]], np.flatnonzero(x))


def test_a_captured_nonzero_wants_arrays_for_all_that_it_gives(on: str) -> None:
    values = rng().integers(0, 3, 600).astype(np.int8)
    x = xtarget.asarray(values, device=on)
    places, found = (xtarget.asarray(np.zeros(n, np.int32), device=on) for n in (600, 1))
    with xtarget.capture(on) as graph:
        with pytest.raises(xtarget.ArgumentError, match="Give out= for all of its outputs"):
            xtarget.run("a.nonzero", x)
        # this one has no out= for a count
        with pytest.raises(xtarget.ArgumentError, match="Call it before, outside of what is capt"):
            xtarget.run("nonzero", x)
        xtarget.run("a.nonzero", x, out={"places": places, "found": found})
    graph.replay()
    np.testing.assert_array_equal(places[: int(found[0])].numpy(), np.flatnonzero(values))


def test_persistent_kernel(on: str) -> None:
    x = floats(1300)
    np.testing.assert_array_equal(xtarget.run("a.persistent_scale", x, 2.0), x * 2)


@pytest.mark.parametrize("shape", [(40, 72), (33, 5)])
def test_transpose_with_descriptors_or_without(on: str, shape: tuple[int, int]) -> None:
    x = floats(*shape).astype(np.float16)
    np.testing.assert_array_equal(xtarget.run("a.transpose", x), x.T)


def test_later_calls_take_their_own_arrays_and_numbers(device: str) -> None:
    """Calls that come again: with arrays left out, numbers among arrays, arguments by name."""
    x, weight, bias = floats(4, 40), floats(40), floats(40) + 2
    norm = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    run, out = xtarget.get("a.layer_norm"), np.empty_like(x)
    for n in range(1, 6):
        np.testing.assert_allclose(run(x, None, n * bias, out=out), norm + n * bias, atol=2e-5)
        np.testing.assert_allclose(run(x, n * weight, out=out), norm * (n * weight), atol=2e-5)
        np.testing.assert_allclose(run(x, bias=n * bias), norm + n * bias, atol=2e-5)
        wide = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + n)
        np.testing.assert_allclose(run(x, None, None, float(n), out=out), wide, atol=2e-6)
        np.testing.assert_allclose(run(x, eps=float(n)), wide, atol=2e-6)
    for n in range(1, 6):
        result = xtarget.run("test.numbers_first", n, x, 2.0, n * x)
        np.testing.assert_array_equal(result, 2 * x + n * (n * x))


def test_a_prepared_launch_keeps_arrays_for_several_results(device: str) -> None:
    x = floats(3, 50)
    values, scales = np.empty((3, 50), np.int8), np.empty(3, np.float32)
    launch = xtarget.get("a.quantise").prepare(x, out=(values, scales))
    for factor in (1, 2):
        x *= factor
        launch()
        np.testing.assert_allclose(scales, np.abs(x).max(1) / np.float32(127), rtol=1e-6)
    norm = xtarget.get("a.layer_norm").prepare(x, None, eps=1.0)
    away = x - x.mean(-1, keepdims=True)
    np.testing.assert_allclose(norm(), away / np.sqrt(x.var(-1, keepdims=True) + 1), atol=2e-6)


LIBRARY = """
import triton
import triton.language as tl
import xtarget
from xtarget.spec import In, Out


def reference(x, y=None, z=None, scale=1.0):
    return x * scale + (0 if z is None else z)


@xtarget.kernel(
    name="test.of_a_library", grid="cdiv(M * N, B)", complete=True, constants={"B": 256},
    reference=reference, examples=lambda shape: [shape, None, shape],
)
@triton.jit
def scale(x: In["T", "M", "N"], y: In["T"] | None, z: In["x", "M", "N"] | None, out: Out["x"],
          M, N, scale=1.0, B: tl.constexpr = 256):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, i < M * N) * scale
    if z is not None:
        v += tl.load(z + i, i < M * N)
    tl.store(out + i, v, i < M * N)
"""


def test_the_command_line_runs_and_checks_kernels_of_a_library(
    device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kernels.py").write_text(LIBRARY)
    (tmp_path / "catalog.py").write_text("from . import kernels\n\nKERNELS = ()\n")
    xtarget.load_library(tmp_path)
    code, said, wrong = here(
        capsys, "run", "test.of_a_library", "--shape", "10x30", "--scalar", "scale=2.0", "--check",
        "--device", device,
    )  # fmt: skip
    assert code == 0, wrong
    assert "(float32[10, 30], None, float32[10, 30], 2.0)" in said
    assert "right: max error" in said
    code, said, wrong = here(
        capsys, "verify", "test.of_a_library", "--dtype", "float32", "--quick", "--device", device
    )
    assert code == 0, wrong
    assert "right: float32" in said
    code, said, wrong = here(capsys, "explain", "test.of_a_library", "--target", "nvidia:sm_90")
    assert code == 0, wrong
    assert "scale(x *fp32, z *fp32" in said
    code, said, wrong = here(capsys, "kernels", "test.of_a_library")
    assert code == 0, wrong


SHAPES: dict[str, tuple[Any, ...]] = {
    "bias_gelu_dropout": ("8,32", "32", 0.5),
    "int4_matmul": ("8,64", "i8,32", "2,32"),
    "rotary": ("3,2,16", "3,8", "3,8"),
    "cache_write": ("4,16", "4,16", "i4", "8,16", "8,16"),
    "paged_decode": ("2,16", "8,4,16", "8,4,16", "i2,4", "i2", 1.0),
    "top_k_softmax": ("3,16",),
    "cross_entropy": ("4,50", "i4"),
    "matmul": ("32,32", "32,32"),
    "layer_norm": ("4,64", "64"),
    "split_k": ("16,64", "64,16"),
    "histogram": ("i700",),
    "varlen_attention": ("25,2,16", "25,2,16", "25,2,16", "i4", 0.25),
    "linear_attention": ("2,48,16", "2,48,16", "2,48,16"),
    "quantise": ("3,50",),
    "nonzero": ("i600",),
    "persistent_scale": ("1300", 2.0),
    "transpose": ("40,72",),
}


def layout(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    shape = tuple(map(int, text.lstrip("i").split(",")))
    dtype = "int32" if text.startswith("i") else "float32"
    return xtarget.spec.ArrayType(dtype, shape, xtarget.spec.contiguous_strides(shape))


@pytest.mark.sample(3, each=("name", "target"))
@pytest.mark.parametrize("target", ["nvidia:sm_90", "nvidia:sm_80"])
@pytest.mark.parametrize("name", SHAPES)
def test_every_kernel_compiles_for_nvidia(name: str, target: str) -> None:
    made = xtarget.compile(f"a.{name}", *map(layout, SHAPES[name]), target=target)
    steps = {"paged_decode": 2, "linear_attention": 3}
    assert len(made) == steps.get(name, 1)
    if name == "transpose":  # with descriptors where there are some
        assert bool(made[0].global_scratch.nbytes) == (target == "nvidia:sm_90")


def lines_of_spec(path: Path) -> dict[str, int]:
    """Lines that a Triton function does not have by itself, by kernel: `@xtarget.kernel`, the
    parameters with their annotations, and the whole of what yields launches.

    `python -c "import test_author_kernels as t; print(t.lines_of_spec(t.SOURCE))"` prints them.
    """
    found = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.FunctionDef):
            continue
        specs = [one for one in node.decorator_list if "xtarget.kernel" in ast.unparse(one)]
        compiled = any("triton.jit" in ast.unparse(one) for one in node.decorator_list)
        for spec in specs:
            name = next(k.value for k in spec.keywords if k.arg == "name")
            last = node.body[0].lineno - 1 if compiled else node.end_lineno
            of_spec = (spec.end_lineno or spec.lineno) - spec.lineno + 1
            found[ast.literal_eval(name)] = of_spec + (last or 0) - node.lineno + 1
    return found


def test_every_kernel_of_the_list_takes_less_than_25_lines_of_spec() -> None:
    lines = lines_of_spec(SOURCE)
    assert {f"a.{name}" for name in SHAPES} <= set(lines)
    assert max(lines.values()) < 25, lines


def test_annotations_leave_a_kernel_identified_so_that_its_binaries_are_kept() -> None:
    for name in SHAPES:
        if name not in ("paged_decode", "linear_attention"):
            registered = libraries.find(f"a.{name}")
            assert not registered.source(f"a.{name}").unidentified


def test_every_kernel_of_the_list_is_tried() -> None:
    named = {name.removeprefix("a.") for name in xtarget.catalog() if name.startswith("a.")}
    assert named == set(SHAPES)
    assert xtarget.get(kernels.paged_decode).name == "a.paged_decode"
    assert xtarget.get(kernels.matmul).name == "a.matmul"
