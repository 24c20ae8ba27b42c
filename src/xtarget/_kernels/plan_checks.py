"""Mistakes in the plan that a catalog's function made of a call, as `checks` says them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .._values.errors import ArgumentError
from .._values.sizes import is_number, whole
from .._values.types import COMPUTED, DTYPES
from ..spec import ArrayType, Descriptor, Input, Launch, Output, Plan, Scalar, Temporary
from .checks import is_constant, is_count, wrong_numbers, wrong_options

__all__ = ["check_plan"]


def check_plan(kernel: str, plan: Any, arguments: int) -> Plan:
    """Check the plan that a catalog's function returned.

    Raises:
        ArgumentError: it is not a plan, or refers to something that does not exist.
    """

    def wrong(what: str) -> ArgumentError:
        return ArgumentError(f"{kernel}: its plan {what}. Correct `plan` in the kernel's spec.")

    if not isinstance(plan, Plan):
        raise wrong(f"gave {plan!r:.80}, not an xtarget.spec.Plan")
    for part, kind in (("outputs", ArrayType), ("temporaries", ArrayType), ("launches", Launch)):
        found = getattr(plan, part)
        if not isinstance(found, tuple) or not all(isinstance(item, kind) for item in found):
            raise wrong(f"has {part} {found!r:.80}, not a tuple of xtarget.spec.{kind.__name__}")
    for type_ in (*plan.outputs, *plan.temporaries):
        if not _is_layout(type_):
            raise wrong(f"has an output or a temporary of no known layout, {type_!r:.120}")
    if not isinstance(plan.init, tuple) or len(plan.init) > len(plan.outputs):
        raise wrong(f"has init {plan.init!r:.80}, not a tuple of a number for each output")
    if not isinstance(plan.cleared, tuple) or len(plan.cleared) > len(plan.temporaries):
        raise wrong(f"has cleared {plan.cleared!r:.80}, not a tuple of a number for each temporary")
    for number, value in enumerate((*plan.init, *plan.cleared)):
        if value is not None and not is_number(value):
            raise wrong(f"has {value!r:.80} as init of output {number}, which is not a number")
    limits = {Input: arguments, Output: len(plan.outputs), Temporary: len(plan.temporaries)}
    for launch in plan.launches:
        _check_launch(launch, limits, wrong)
    return plan


def _is_layout(type_: ArrayType) -> bool:
    shape, strides = type_.shape, type_.strides
    return (
        isinstance(type_.dtype, str)
        and type_.dtype in DTYPES
        and isinstance(shape, tuple)
        and isinstance(strides, tuple)
        and len(shape) == len(strides)
        and all(map(is_count, shape))
        and None not in map(whole, strides)
    )


def _check_launch(
    launch: Launch, limits: Mapping[type, int], wrong: Callable[[str], ArgumentError]
) -> None:
    grid, source = launch.grid, launch.source
    if not isinstance(source, str):
        raise wrong(f"launches {source!r:.80}, which is not text")
    if not isinstance(grid, tuple) or len(grid) != 3 or not all(map(is_count, grid)):
        raise wrong(f"launches {source} with the grid {grid!r:.80}, not three integers from 0")
    for field in ("args", "constants", "options", "descriptors"):
        if not isinstance(getattr(launch, field), Mapping):
            raise wrong(f"launches {source} with {field} that are not a mapping")
    for name, value in launch.constants.items():
        if not is_constant(value):
            raise wrong(f"launches {source} with the constant {name} of {value!r:.80}")
    for what in wrong_numbers(launch.num_warps, launch.num_stages):
        raise wrong(f"launches {source}: {what.rstrip('.')}")
    for what in wrong_options(launch.options):
        raise wrong(f"launches {source}: {what.rstrip('.')}")
    for name, argument in launch.args.items():
        if isinstance(argument, Input | Output | Temporary):
            count = limits[type(argument)]
            if not 0 <= argument.index < count:
                raise wrong(f"gives {name} {argument!r}, and there are only {count} of these")
        elif isinstance(argument, Scalar):
            if argument.dtype not in COMPUTED or not is_number(argument.value):
                raise wrong(f"gives {name} {argument!r:.80}, which is not a number of a dtype")
        elif not isinstance(argument, int | float) and not (
            isinstance(argument, tuple) and all(isinstance(n, int) for n in argument)
        ):
            raise wrong(f"gives {name} {argument!r:.80}, which is not an argument of a launch")
    _check_descriptors(launch, wrong)
    parameters = ("aligned_by", launch.aligned_by), ("loose", launch.loose), ("bits", launch.bits)
    for field, named in parameters:
        if named is None and field == "aligned_by":
            continue
        known = isinstance(named, tuple) and all(
            isinstance(name, str)
            and (name.partition(".")[0] in launch.args or name in launch.constants)
            for name in named
        )
        if not known:
            raise wrong(
                f"launches {source} with {field}={named!r:.80}, not names of its parameters"
            )


def _check_descriptors(launch: Launch, wrong: Callable[[str], ArgumentError]) -> None:
    for name, described in launch.descriptors.items():
        known = isinstance(described, Descriptor) and isinstance(
            launch.args.get(name), Input | Output | Temporary
        )
        if known:
            numbers = [launch.args.get(own) for own in (*described.lengths, *described.steps)]
            rank = len(described.tile)
            lengths = len(described.lengths), len(described.steps)
            known = all(isinstance(n, int) for n in numbers) and lengths == (rank, rank - 1)
        if not known:
            raise wrong(
                f"launches {launch.source} with {described!r:.200} of {name}, which is none"
            )
    for option, usual in (("num_ctas", 1), ("launch_cooperative_grid", False)):
        if launch.descriptors and launch.options.get(option, usual) != usual:
            raise wrong(
                f"launches {launch.source} with descriptors and "
                f"{option}={launch.options[option]!r}: launches with tensor maps of the host have "
                "neither clusters nor cooperative grids. Make the descriptors in the kernel"
            )
