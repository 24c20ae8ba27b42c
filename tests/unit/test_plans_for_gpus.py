"""The plan of every kernel can be made for GPUs that are not here."""

from __future__ import annotations

import pytest
from operators import for_plans

from xtarget import ArgumentError, Target
from xtarget._kernels import libraries
from xtarget._launch import planning
from xtarget._verify.compiled import layouts
from xtarget._verify.verify import NoAnswerError
from xtarget.spec import ArrayType, contiguous_strides


@pytest.mark.parametrize("target", ["nvidia:sm_90", "amd:gfx942", "intel:spirv64"])
def test_examples_of_every_kernel_are_planned(target: str) -> None:
    """Few and many rows, short and long ones: what is refused says why."""
    made = 0
    for name in libraries.catalog():
        kernel = libraries.find(name)
        if kernel.spec.examples is None:
            continue
        dtype = next(
            d for d in ("float32", "int32", *kernel.spec.dtypes) if d in kernel.spec.dtypes
        )
        for shape in ((13, 21), (4, 5, 33), (3, 70000), (1 << 20,)):
            try:
                args = for_plans(layouts(kernel.spec, dtype, shape))
            except NoAnswerError:
                continue
            call = planning.call_of(kernel, args, {}, Target.parse(target), 132)
            try:
                planning.make_plan(kernel, call)
            except ArgumentError as error:
                if "cannot be planned" in str(error):
                    pytest.fail(f"{name} of {shape}: {error}")
            else:
                made += 1
    assert made > 800


@pytest.mark.parametrize("options", [{}, {"lse": True}, {"causal": True, "lse": True}], ids=str)
@pytest.mark.parametrize("queries", [1, 5, 300])
def test_attention_of_few_queries_is_cut_into_parts(queries: int, options: dict[str, bool]) -> None:
    shapes = [(1, 4, queries, 16), *[(1, 2, 8000, 16)] * 2]
    args = [ArrayType("float32", shape, contiguous_strides(shape)) for shape in shapes]
    kernel = libraries.find("attention")
    call = planning.call_of(kernel, args, options, Target.parse("nvidia:sm_90"), 132)
    assert len(planning.make_plan(kernel, call).launches) == 2
