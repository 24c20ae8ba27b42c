"""Plans by class: for any sizes, what a class gives is what planning them gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from operators import dtypes_of, own, sampled, takes

from xtarget._kernels import libraries
from xtarget._kernels.libraries import RegisteredKernel
from xtarget._launch.classes import lift
from xtarget._launch.planning import call_of, make_plan
from xtarget._launch.specializing import requests
from xtarget._values.errors import ArgumentError
from xtarget._values.programs import Program
from xtarget._values.symbols import Tracer
from xtarget._values.types import Target
from xtarget.spec import ABSENT, ArrayType, Plan, contiguous_strides

TARGETS = tuple(map(Target.parse, ("nvidia:sm_90", "amd:gfx942", "intel:spirv64", "cpu:spirv64")))
DTYPES = ("float32", "float16")
LENGTHS = (1, 2, 3, 5, 8, 16, 17, 31, 64, 100, 128, 200, 257, 1000, 1024, 4096, 5000, 70000)


Lengths = tuple[int, int, int]


def shapes_of(name: str, lengths: Lengths, form: int) -> list[tuple[int, ...]]:
    """Shapes that fit the kernel."""
    n, m, k = lengths
    if name == "matmul":
        return [(m, k), (k, n)] if form < 4 else [(3, m, k), (k, n)]
    if name == "layer_norm":
        return [(m, n), (n,), (n,)]
    if name == "rms_norm":
        return [(m, n), (n,)]
    shape = ((n,), (m, n), (3, m, n))[form % 3]
    spec = libraries.find(name).spec
    if not spec.elementwise:
        assert spec.examples is not None
        return list(spec.examples(shape))
    second = shape if form < 4 else (*shape[:-1], 1)
    return [shape, second, shape][: len(spec.inputs)]


def near(lengths: Lengths, rng: np.random.Generator) -> Lengths:
    """Lengths like these, as a server's calls have them."""

    def other(length: int) -> int:
        step = int(rng.choice((0, 0, 1, 16, 64, length // 2, length)))
        return max(1, length + step * int(rng.choice((-1, 1))))

    n, m, k = map(other, lengths)
    return n, m, k


def strides_of(shape: tuple[int, ...], kind: int) -> tuple[int, ...]:
    if kind == 1:  # of a transposed array
        return tuple(reversed(contiguous_strides(tuple(reversed(shape)))))
    packed = contiguous_strides(shape)
    return tuple(2 * step for step in packed) if kind == 2 else packed


def described(kernel: RegisteredKernel, plan: Plan, types: Any) -> Any:
    """All that a plan decides, in tuples."""

    def layout(type_: ArrayType) -> Any:
        return type_.dtype, tuple(type_.shape), tuple(type_.strides)

    made = []
    for launch, request, slots in requests(kernel, plan, types, [True] * len(types)):
        values = tuple((name, comparable(slot.value), slot.index) for name, slot in slots.items())
        chosen = (request.signature, request.constants, request.aligned, request.num_warps)
        made.append((launch.source, launch.grid, values, repr(chosen)))
    return (
        tuple(map(layout, plan.outputs)),
        tuple(map(layout, plan.temporaries)),
        tuple(made),
    )


def comparable(value: Any) -> Any:
    """nan differs from itself."""
    return "nan" if isinstance(value, float) and value != value else value


def planned(name: str, types: Any, options: Any, target: Target) -> Any:
    kernel = libraries.find(name)
    return described(kernel, make_plan(kernel, call_of(kernel, types, options, target, 132)), types)


def sizes_of(types: list[Any], plain: list[bool]) -> list[int]:
    sizes: list[int] = []
    for type_, contiguous in zip(types, plain, strict=True):
        if type_ is ABSENT:
            continue
        sizes += (*type_.shape, *(() if contiguous else type_.strides))
    return sizes


def traced(name: str, types: list[Any], plain: list[bool], options: Any, target: Target) -> Program:
    tracer = Tracer()
    lifted = [
        ABSENT if type_ is ABSENT else lift(tracer, f"x{number}", type_, contiguous)
        for number, (type_, contiguous) in enumerate(zip(types, plain, strict=True))
    ]
    return tracer.compile(planned(name, lifted, options, target))


def options_of(name: str, rng: np.random.Generator, ndim: int) -> dict[str, Any]:
    if name in ("sum", "max"):
        axis = None if rng.random() < 0.3 else int(rng.integers(-ndim, ndim))
        return {"axis": axis, "keepdims": bool(rng.integers(2))}
    if name == "softmax":
        return {"axis": int(rng.integers(-ndim, ndim))}
    return {}


@pytest.mark.sample(2, each=("name", "target"))
@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize(
    "name", [sampled(name, name) for name, spec in sorted(own().items()) if spec.inputs]
)
def test_a_class_answers_as_the_plan_does(name: str, target: Target) -> None:
    rng = np.random.default_rng(sum(map(ord, f"{name}{target}")))
    spec = libraries.find(name).spec
    taken = [one for one in spec.dtypes if takes(spec, one)] or ["int32"]
    known = [one for one in DTYPES if one in taken] or taken
    served = 0
    for _ in range(6):
        n, m, k = (int(length) for length in rng.choice(LENGTHS, 3))
        form = int(rng.integers(6))
        shapes = shapes_of(name, (n, m, k), form)
        options = options_of(name, rng, len(shapes[0]) if shapes else 0)
        kinds = [int(rng.integers(3)) for _ in shapes]
        dtype = str(rng.choice(known))

        def types_of(shapes: Any, kinds: Any = kinds, dtype: str = dtype) -> list[Any]:
            return [
                ABSENT if shape is None else ArrayType(own, shape, strides_of(shape, kind))
                for own, shape, kind in zip(dtypes_of(spec, dtype), shapes, kinds, strict=False)
            ]

        try:
            types = types_of(shapes)
            expected = planned(name, types, options, target)
        except ArgumentError:
            continue  # no such call
        plain = [kind == 0 for kind in kinds]
        program = traced(name, types, plain, options, target)
        for _ in range(40):
            others = types_of(shapes_of(name, near((n, m, k), rng), form))
            found = program(sizes_of(others, plain))
            if found is not None:
                served += 1
                assert found == planned(name, others, options, target), (types, others)
        assert program(sizes_of(types, plain)) == expected
    assert served
