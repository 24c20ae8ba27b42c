"""Attention on sm_90: which calls have kernels of their own, what these need, and their results
where there is such a GPU."""

from __future__ import annotations

from importlib import metadata
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from operators import sample
from oracle import check, expected

import xtarget
from xtarget._kernels import implementations, libraries
from xtarget._launch import planning
from xtarget._launch.planning import plan_of_layouts
from xtarget._values.types import Target
from xtarget.spec import ArrayType, contiguous_strides

SM_90 = Target("nvidia", "sm_90")


def layout(*shape: int, dtype: str = "bfloat16", strides: Any = None) -> ArrayType:
    return ArrayType(dtype, shape, strides or contiguous_strides(shape))


def three(
    heads: int = 64, own: int = 16, length: int = 512, keys: int = 700, size: int = 128,
    dtype: str = "bfloat16",
) -> list[Any]:  # fmt: skip
    return [
        layout(2, heads, length, size, dtype=dtype),
        *[layout(2, own, keys, size, dtype=dtype)] * 2,
    ]


def sources(operator: str, args: Any, target: Target = SM_90, **options: Any) -> list[str]:
    """The kernels that a call launches on a target."""
    kernel = implementations.serving(libraries.find(operator), target.vendor, target.arch)
    plan, _, _ = plan_of_layouts(kernel, args, {**kernel.spec.options, **options}, target)
    return [launch.source for launch in plan.launches]


OWN, USUAL = ["hopper_attention:attention"], "attention:attention"
_SWAPPED = (512 * 128, 128, 16 * 128, 1)
TAKEN: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("attention", three(), {"causal": True, "lse": True}),
    ("attention", three(dtype="float16", size=72), {"offset": None, "window": (-1, 4)}),
    ("attention", three(size=256), {}),
    ("attention", [layout(9000, 64)] * 3, {"causal": True}),
    ("attention", [layout(2, 512, 16, 128)] * 3, {"layout": "bshd", "causal": True}),
    ("multi_head_attention", [layout(4, 512, 2048)] * 3, {"heads": 16, "causal": True}),
]
LEFT: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("attention", three(dtype="float32"), {}),
    ("attention", [*three()[:2], three(dtype="float16")[2]], {}),
    ("attention", [*three(), layout(512, 700, dtype="bool")], {}),
    ("attention", [*three(), layout(512, 700), layout(64, dtype="float32")], {}),
    ("attention", three(size=100), {}),
    ("attention", three(), {"softcap": 5.0}),
    ("attention", three(), {"scale": -1.0}),
    ("attention", three(), {"window": (3, 0)}),
    ("attention", three(length=1), {}),
    ("attention", three(heads=2, own=1, length=100), {}),
    ("attention", [three()[0], *[layout(2, 16, 700, 128, strides=(0, 0, 0, 1))] * 2], {}),
    ("attention", [three()[0], *[layout(2, 16, 700, 128, strides=(9, 130, 132, 1))] * 2], {}),
    ("attention", [three()[0], *[layout(2, 16, 700, 128, strides=(9, 9, 1, 704))] * 2], {}),
]


@pytest.mark.parametrize(("operator", "args", "options"), TAKEN)
def test_these_calls_have_a_kernel_of_their_own(operator: str, args: Any, options: Any) -> None:
    assert sources(operator, args, **options) == OWN
    assert USUAL in sources(operator, args, Target("nvidia", "sm_80"), **options)


def test_bundles_hold_the_kernels_of_every_target() -> None:
    """They have few forms: a call that misses its own plan there finds these."""
    operator, args, options = TAKEN[0]
    kernel = implementations.serving(libraries.find(operator), SM_90.vendor, SM_90.arch)
    requests = planning.compile_requests(kernel, args, options, SM_90, general=True)
    assert {request.source.name for request in requests} == {"attention"}
    assert all("hopper" not in str(request.source.path) for request in requests)


@pytest.mark.parametrize(("operator", "args", "options"), LEFT)
def test_these_calls_are_every_targets(operator: str, args: Any, options: Any) -> None:
    assert USUAL in sources(operator, args, **options)


def backward(q: ArrayType, k: ArrayType, v: ArrayType) -> list[Any]:
    out = layout(*q.shape[:-1], v.shape[-1], dtype=q.dtype)
    return [out, q, k, v, out, layout(*q.shape[:-1], dtype="float32")]


def test_gradients_have_kernels_of_their_own() -> None:
    own = [
        "attention_gradients:scaled_levels",
        "hopper_attention_gradients:of_queries",
        "hopper_attention_gradients:of_keys",
    ]
    assert sources("attention_backward", backward(*three()), causal=True) == own
    usual = [f"attention_gradients:{name}" for name in ("levels", "of_queries", "of_keys")]
    for args, options in (
        (backward(*three(size=256)), {}),
        (backward(*three(dtype="float32")), {}),
        (backward(*three()), {"window": (4, -1)}),
    ):
        assert sources("attention_backward", args, **options) == usual


#: Bytes of local memory: a few numbers that are there before the walk and not used in it.
_ASIDE = 128


_TRITON = metadata.version("triton") if find_spec("triton") is not None else ""
#: The larger one takes a minute, so that one of CI's two Tritons compiles each.
_SHORT = (128, True) if _TRITON.startswith("3.6.") else (64, True)
_TILES = ((128, True), (128, False), (64, True))


@pytest.mark.parametrize(
    ("size", "causal"),
    [pytest.param(*c, marks=[] if c == _SHORT else pytest.mark.long) for c in _TILES],
)
def test_tiles_stay_in_registers_and_shared_memory(size: int, causal: bool) -> None:
    arrays = [np.zeros(a.shape, np.float16) for a in three(size=size, length=256)]
    sums = np.zeros(arrays[0].shape[:-1], np.float32)
    given = [arrays[0], *arrays, arrays[0], sums]
    found = [
        *xtarget.compile("attention", *arrays, causal=causal, target="nvidia:sm_90"),
        *xtarget.compile("attention_backward", *given, causal=causal, target="nvidia:sm_90"),
    ]
    assert [artifact.entry for artifact in found] == [
        "attention", "scaled_levels", "of_queries", "of_keys",
    ]  # fmt: skip
    for artifact in found:
        assert artifact.resources.local_bytes <= _ASIDE
        assert artifact.shared_bytes <= 227 * 1024
        assert artifact.num_warps == (4 if artifact.entry == "scaled_levels" else 12)


RESULTS: list[tuple[tuple[int, ...], str, dict[str, Any]]] = [
    ((1, 80, 20, 300, 461, 128, 128), "bfloat16", {"causal": True, "offset": None}),
    ((1, 72, 8, 257, 129, 64, 64), "float16", {"window": (-1, 33)}),
    ((2, 40, 40, 130, 300, 96, 80), "bfloat16", {"causal": True, "offset": -50}),
    ((2, 20, 20, 512, 333, 256, 192), "float16", {}),
]


@pytest.mark.large
@pytest.mark.parametrize(("shape", "dtype", "options"), RESULTS)
def test_results(device: str, shape: Any, dtype: str, options: Any) -> None:
    if not device.startswith("nvidia"):
        pytest.skip("these shapes are there for the kernels of sm_90")
    batch, heads, own, length, keys, size, size_v = shape
    arrays = [
        sample(dtype, batch, heads, length, size),
        sample(dtype, batch, own, keys, size, seed=1),
        sample(dtype, batch, own, keys, size_v, seed=2),
    ]
    check("attention", *arrays, device=device, lse=True, **options)
    made, sums = xtarget.run("attention", *arrays, device=device, lse=True, **options)
    grad = sample(dtype, batch, heads, length, size_v, seed=3)
    given = (grad, *arrays, made, sums)
    found = xtarget.run("attention_backward", *given, device=device, **options)
    right = expected("attention_backward", given, options, floating=True)
    for one, exact in zip(found, right, strict=True):
        # weights and their changes are rounded to the operands' dtype before the last products
        error = np.linalg.norm(one.astype(float) - exact) / np.linalg.norm(exact)
        assert error <= {"bfloat16": 1e-2, "float16": 2e-3}[dtype]
