"""Calls of the library's kernels, from its table: for suites that go over all of them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xtarget
from xtarget._arrays.dtypes import numpy_dtype
from xtarget._kernels import libraries
from xtarget._kernels.interfaces import INPUT_DTYPES
from xtarget._launch import planning
from xtarget._values.types import CompileRequest, Target
from xtarget._verify.cases import meaningful
from xtarget.spec import ABSENT, ArrayType, KernelSpec, contiguous_strides

_KERNELS = Path(__file__).resolve().parent.parent / "kernels"
#: Rows that stand for all in suites where one row costs seconds: each has other code around it.
_PATTERNS = ("add", "div", "exp", "gelu", "where", "sum", "max", "softmax", "layer_norm",
             "rms_norm", "argmax", "cumsum", "cross_entropy", "sort")  # fmt: skip
#: Categories of which these stand for the others.
_SAMPLED = frozenset(("reduction", "scan", "normalization", "gradient", "loss", "movement",
                      "gate", "position", "constant", "random", "convolution", "pooling",
                      "image", "segment", "recurrent", "product", "attention", "sampling",
                      "search", "sorting", "cache", "quantized"))  # fmt: skip


@cache
def own() -> dict[str, KernelSpec]:
    """The library's kernels; other tests of the same process register some of their own."""
    catalog = xtarget.catalog()
    return {name: catalog[name] for name in own_names()}


@cache
def own_names() -> list[str]:
    """The list that `ci/operators_page.py` writes, but for operators that are there once more with
    the defaults of one library."""
    families = json.loads((_KERNELS / "names.json").read_text(encoding="utf-8"))
    del families["by_library"]
    return sorted(name for names in families.values() for name in names)


def stands_for_others(name: str) -> bool:
    """Rows of which suites take all: other elementwise ones differ in one function only."""
    spec = own()[name]
    alike = spec.plan.__module__.endswith(".plans.elementwise")  # of one or two results
    return name in _PATTERNS or not (alike or spec.elementwise or spec.category in _SAMPLED)


def sampled(name: str, *values: Any, also: bool = False) -> Any:
    """A parameter of a test for one row: of the long tier where others stand for it."""
    long = also or not stands_for_others(name)
    return pytest.param(*values, marks=[pytest.mark.long] if long else [])


def request_of(name: str, dtype: str, target: Target) -> CompileRequest:
    """The one specialization that a row's call on small arrays needs."""
    args = layouts(own()[name], dtype, (7, 129))
    (found,) = planning.compile_requests(libraries.find(name), args, {}, target)
    return found


def dtypes_of(spec: KernelSpec, dtype: str) -> list[str]:
    """Of each input, where the others are of `dtype`."""
    return [INPUT_DTYPES.get(name.rstrip("?"), dtype) for name in spec.inputs]


def takes(spec: KernelSpec, dtype: str) -> bool:
    """Does the row take arguments that are all of `dtype`, by its own plan?"""
    return _taken(spec.name, dtype) if own().get(spec.name) is spec else _takes(spec, dtype)


@cache
def _taken(name: str, dtype: str) -> bool:
    return _takes(own()[name], dtype)


def _takes(spec: KernelSpec, dtype: str) -> bool:
    from xtarget import ArgumentError
    from xtarget._kernels import libraries
    from xtarget._launch.planning import call_of, make_plan
    from xtarget._values.types import Target

    try:
        kernel, types = libraries.find(spec.name), for_plans(layouts(spec, dtype, (2, 3)))
        make_plan(kernel, call_of(kernel, types, {}, Target("cpu", "spirv64"), 2))
    except ArgumentError:
        return False
    return True


def layouts(spec: KernelSpec, dtype: str, shape: tuple[int, ...]) -> list[Any]:
    """Layouts of contiguous arguments; None of what is left out."""
    assert spec.examples is not None
    return [
        None if own is None else ArrayType(kind, own, contiguous_strides(own))
        for kind, own in zip(dtypes_of(spec, dtype), spec.examples(shape), strict=False)
    ]


def for_plans(types: list[Any]) -> list[Any]:
    """The same, as plans see what is left out."""
    return [ABSENT if type_ is None else type_ for type_ in types]


def sample(dtype: str, *shape: int, seed: int = 0) -> Any:
    """Normal deviates, whole numbers with sign where there is one, or coin tosses."""
    rng = np.random.default_rng([seed, *shape])
    kind = numpy_dtype(dtype).kind
    if kind == "b":
        return rng.random(shape) < 0.5
    if kind in "iu":
        return rng.integers(-100 if kind == "i" else 0, 101, shape).astype(dtype)
    return np.asarray(rng.standard_normal(shape)).astype(numpy_dtype(dtype))


def arrays(spec: KernelSpec, dtype: str, shape: tuple[int, ...]) -> list[Any]:
    """Arguments with values: by their names, indices and probabilities are what they have to be."""
    assert spec.examples is not None
    made = []
    inputs = zip(spec.inputs, dtypes_of(spec, dtype), spec.examples(shape), strict=False)
    for seed, (name, kind, own) in enumerate(inputs):
        given = None if own is None else sample(kind, *own, seed=seed)
        if given is not None:
            given = meaningful(name.rstrip("?"), given, min(shape, default=1))
        made.append(given)
    return made


def places(most: int, *shape: int) -> Any:
    """Indices below `most`."""
    return np.random.default_rng([most, *shape]).integers(0, max(most, 1), shape)
