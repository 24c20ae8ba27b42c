"""Sums and products of bfloat16 along an axis, made in float32 and rounded once.

Triton 3.9 adds in bfloat16 in `tl.sum`, `tl.cumsum` and `tl.cumprod`, where older ones converted
first: with 8 bits a sum of 64 numbers is off by percents. bfloat16 is computed in float32 here
anyway (`bfloat`), so one rounding in place of one for each step costs nothing.
"""

from __future__ import annotations

from typing import Any

from ...._values.value_classes import value_class
from .structure import Editor, Operation, type_of

__all__ = ["widen_sums"]

_COMBINERS = ("tt.reduce", "tt.scan")
_STEPS = {"arith.addf": "create_fadd", "arith.mulf": "create_fmul"}
_NARROW = "bf16"


@value_class(frozen=True, slots=True)
class _Sum:
    """A reduction or a scan of one tensor by one addition or multiplication.

    Attributes:
        operation: the whole.
        step: the addition or multiplication in its region.
        order: numbers of the region's arguments that are the operands of the step.
        axis: along which it goes.
    """

    operation: Operation
    step: Operation
    order: tuple[int, ...]
    axis: int


def widen_sums(module: Any) -> bool:
    """Widen such sums of Triton's IR, in place.

    Returns:
        whether there were any. The old ones are dead code then.
    """
    edit = Editor(module)
    inside: dict[int, list[Operation]] = {}
    for operation in edit.operations:
        inside.setdefault(operation.block, []).append(operation)
    regions = {
        steps[0].handle.get_block().get_parent().id(): steps
        for block, steps in inside.items()
        if block
    }
    found = [
        sum_
        for operation in edit.operations
        if operation.name in _COMBINERS and (sum_ := _described(edit, operation, regions))
    ]
    for sum_ in found:
        _widen(edit, sum_)
    return bool(found)


def _described(
    edit: Editor, operation: Operation, regions: dict[int, list[Operation]]
) -> _Sum | None:
    """The sum that an operation is; None if it is another one."""
    if len(operation.operands) != 1 or operation.operand_type(0).element != _NARROW:
        return None
    region = operation.handle.get_region(0)
    steps = regions[region.id()]
    if region.size() != 1 or [step.name for step in steps[1:]] != [f"{operation.name}.return"]:
        return None
    step, end = steps
    block = step.handle.get_block()
    arguments = [block.get_argument(i).id() for i in range(block.get_num_arguments())]
    used = [operand.id() for operand in step.operands]
    if (
        step.name not in _STEPS
        or [value.id() for value in end.operands] != [value.id() for value in step.results]
        or not set(used) <= set(arguments)
    ):
        return None
    order = tuple(map(arguments.index, used))
    return _Sum(operation, step, order, edit.integer(operation, "axis"))


def _widen(edit: Editor, sum_: _Sum) -> None:
    operation = sum_.operation
    (operand,), (result,) = operation.operands, operation.results
    is_scan = operation.name == "tt.scan"
    edit.go_before(operation)
    wide = edit.create_fp_ext(operand, edit.like(type_of(operand), "f32"))
    if is_scan:
        reverse = bool(operation.handle.get_bool_attr("reverse"))
        made = edit.create_scan([wide], sum_.axis, reverse)
    else:
        made = edit.create_reduce([wide], sum_.axis)
    single = edit.element("f32")
    block = edit.create_block_with_parent(made.get_region(0), [single, single])
    given = [block.get_argument(number) for number in sum_.order]
    step = getattr(edit, _STEPS[sum_.step.name])(*given)
    (edit.create_scan_ret if is_scan else edit.create_reduce_ret)(step)
    edit.builder.set_insertion_point_after(made.get_operation())
    new = edit.create_fp_trunc(made.get_result(0), result.get_type())
    result.replace_all_uses_with(new)
