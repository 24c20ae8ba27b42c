"""Find the specializations that a catalog's calls reach, for a bundle, without compiling."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from ..._kernels.checks import calls_of
from ..._kernels.interfaces import input_dtypes
from ..._kernels.libraries import RegisteredKernel, find
from ..._launch import planning
from ..._launch.ranges import valid_for
from ..._launch.specializing import requests
from ..._values.errors import ArgumentError, CompileError, XTargetError
from ..._values.types import CompileRequest, Target
from ..._values.value_classes import value_class
from ...spec import ABSENT, ArrayType, Example, KernelSpec, Plan, ScalarType, contiguous_strides
from .exploring import explore

__all__ = [
    "COMPUTE_UNITS",
    "COVERAGE",
    "BuiltCall",
    "Caller",
    "Class",
    "KnownCall",
    "asked",
    "cases",
    "classes",
    "classes_of_calls",
    "relaid",
]

#: Device sizes that plans are asked for: they decide how far work is cut up, and so the tile sizes.
COMPUTE_UNITS: Final = (1, 64, 160)

#: Multiples of 16 that a variant may lack to count among those that assume most of its class.
_NEAR: Final = 2

#: Characters of a condition that is listed.
_LONG: Final = 50

#: What `--list` says of the layouts, by what is asked for.
COVERAGE: Final = {
    "contiguous": "C-contiguous arrays of one dtype, numbers in the place of arrays, and rows or "
    "columns that are repeated; matrices also transposed; on GPUs elementwise kernels, softmax, "
    "norms, reductions and matmul in any layout",
    "views": "the same; also views: every argument, and the result, with gaps between neighbours, "
    "with axes in another order, or padded rows, in 1 to 4 dimensions",
}


@value_class(frozen=True, slots=True)
class Caller:
    """A program without Python that makes a call.

    Attributes:
        dtype: for which it took the kernel.
        units: compute units of its device.
        out: its array for the result, where that lies otherwise than a new one.
    """

    dtype: str
    units: int
    out: ArrayType | None = None


@value_class(frozen=True, slots=True)
class KnownCall:
    """A call of a kernel that is built for, beside what the kernel's spec says: of a launch of a
    fused function, or of a program that asks a compile server.

    Attributes:
        options: in a fixed order, so that equal calls have equal text.
        caller: it gets a call record; None: Python makes the call.
    """

    kernel: str
    args: tuple[ArrayType | ScalarType, ...]
    options: tuple[tuple[str, Any], ...] = ()
    caller: Caller | None = None


@dataclass(slots=True)
class Class:
    """A class of specializations for a target.

    Attributes:
        request: one of the class; which values it takes for multiples of 16 means nothing.
        variants: every set of these that is to be built; the empty one serves all others.
        kernels: (name, dtype) of the catalog's calls that need it.
        valid_for: the conditions on sizes for the first of these calls, those on multiples of 16
            and the longest left out.
    """

    source: str
    origin: str
    request: CompileRequest
    variants: set[tuple[str, ...]] = field(default_factory=set)
    kernels: set[tuple[str, str]] = field(default_factory=set)
    valid_for: tuple[str, ...] = ()

    def requests(self) -> list[CompileRequest]:
        """Every variant as a request, in a fixed order."""
        return [replace(self.request, aligned=variant) for variant in sorted(self.variants)]


@value_class(frozen=True, slots=True)
class BuiltCall:
    """A call that is built for.

    Attributes:
        out: how its result lies.
    """

    kernel: RegisteredKernel
    target: Target
    example: Example
    args: Sequence[ArrayType | ScalarType]
    out: str | ArrayType = "C"

    def plan(self, units: int, aligned: Sequence[bool], *, general: bool = True) -> Plan | None:
        """Its plan on a device of so many compute units; None: there is none."""
        kernel, out = self.kernel, self.out
        try:
            call = planning.call_of(
                kernel, self.args, self.example.options, self.target, units, aligned=aligned,
                local=False, general=general,
            )  # fmt: skip
            plan = planning.make_plan(kernel, call)
            if out != "C":
                result = relaid(plan.outputs[0], out) if isinstance(out, str) else out
                assert isinstance(result, ArrayType)
                plan = planning.make_plan(kernel, replace(call, out=result))
        except ArgumentError:
            return None  # no call has these arguments
        return plan

    def valid_for(self, units: int) -> tuple[str, ...]:
        """The conditions on sizes that `Class` has."""
        options = self.example.options
        texts = valid_for(self.kernel, self.args, options, self.target, units, general=True)
        return tuple(text for text in texts if "% 16" not in text and len(text) <= _LONG)


def classes(
    kernel: RegisteredKernel, dtype: str, target: Target, *, views: bool, full: bool
) -> list[Class]:
    """The classes of one kernel that its calls on arrays of one dtype reach.

    Raises:
        CompileError: the kernel gives no calls to build for.
    """
    found: dict[CompileRequest, Class] = {}
    spec = kernel.spec
    if spec.ahead is None and spec.examples is None:
        raise CompileError(
            f"{spec.name} cannot be built ahead of time: its spec gives neither `ahead` nor "
            "`examples`, so nobody knows what calls to build for. Give one of them in its catalog."
        )
    for example, args, out in cases(spec, dtype, views=views, full=full):
        call = BuiltCall(kernel, target, example, args, out)
        _reach(found, call, dtype, COMPUTE_UNITS)
        if full:
            _reach(found, call, dtype, COMPUTE_UNITS, general=False)
    if spec.ahead is None:

        def reach(example: Example, args: Sequence[ArrayType | ScalarType], units: int) -> bool:
            before = len(found)
            _reach(found, BuiltCall(kernel, target, example, args), dtype, (units,))
            return len(found) > before

        explore(kernel, target, COMPUTE_UNITS, partial(asked, spec, dtype), reach)
    if not full:
        for one in found.values():
            one.variants = _few(one)
    return list(found.values())


def _few(one: Class) -> set[tuple[str, ...]]:
    """Of the sets of multiples of 16 of a class: nothing, and what nearly all have in common of
    those that assume most; with 64-bit indices, nothing alone."""
    types = dict(one.request.signature)
    if any("i64" in (t if isinstance(t, tuple) else (t,)) for t in types.values()):
        return {()}
    arrays = {name for name, type_ in types.items() if str(type_).startswith("*")}
    sets = [variant for variant in one.variants if not arrays.issuperset(variant)]
    sets = sets or list(one.variants)
    much = max(map(len, sets))
    near = [variant for variant in sets if len(variant) >= much - _NEAR]
    return {(), tuple(name for name in near[0] if all(name in other for other in near))}


def classes_of_calls(calls: Sequence[KnownCall], target: Target) -> list[Class]:
    """The classes that calls reach, on their caller's device, else on devices of every size."""
    found: dict[CompileRequest, Class] = {}
    for call in calls:
        kernel, by = find(call.kernel), call.caller
        dtype = next((arg.dtype for arg in call.args if isinstance(arg, ArrayType)), "")
        out = "C" if by is None or by.out is None else by.out
        units = COMPUTE_UNITS if by is None else (by.units,)
        example = Example((), dict(call.options))
        _reach(found, BuiltCall(kernel, target, example, call.args, out), dtype, units)
    return list(found.values())


def _reach(
    found: dict[CompileRequest, Class],
    call: BuiltCall,
    dtype: str,
    sizes: Sequence[int],
    *,
    general: bool = True,
) -> None:
    """Note the classes that a call reaches on devices of these numbers of compute units."""
    known: list[Plan] = []  # nearly all plans are the same on devices of every size
    for units in sizes:
        for aligned in (True, False):
            given = [aligned] * len(call.args)
            plan = call.plan(units, given, general=general)
            if plan is None:
                break
            if plan not in known:
                known.append(plan)
                for one in _add(found, call, dtype, plan):
                    one.valid_for = call.valid_for(units)
            if not any(launch.on_aligned for launch in plan.launches):
                break  # it is the same for arrays that begin anywhere


def cases(
    spec: KernelSpec, dtype: str, *, views: bool, full: bool
) -> Iterator[tuple[Example, Sequence[ArrayType | ScalarType], str]]:
    """The calls that are built for: example, layouts of its arguments, how its result lies."""
    for example in _examples(spec, full):
        types = _types(spec, example, dtype, absent=spec.ahead is None)
        for args, out in _layouts(types, views):
            yield example, args, out
        for fewer in _without_optional(spec, types):
            for args, out in _layouts(fewer, False):
                yield example, args, out


def _without_optional(
    spec: KernelSpec, types: Sequence[ArrayType | ScalarType]
) -> Iterator[Sequence[ArrayType | ScalarType]]:
    """A call's arguments without its last one, its last two, and so on, while they may be left
    out."""
    for count in range(len(types) - 1, 0, -1):
        if not spec.inputs[count].endswith("?"):
            return
        yield types[:count]


def _add(
    found: dict[CompileRequest, Class], call: BuiltCall, dtype: str, plan: Plan
) -> Iterator[Class]:
    """Note what a plan's launches need.

    Yields:
        the classes that were not known.
    """
    kernel = call.kernel
    try:
        reached = requests(kernel, plan, call.args, [True] * len(call.args))
    except ArgumentError:
        return  # more blocks than a grid may have: no call runs this
    for launch, request, _ in reached:
        if 0 in launch.grid:
            continue
        bare = replace(request, aligned=())
        into = found.get(bare)
        if into is None:
            into = found[bare] = Class(launch.source, kernel.origin, bare)
            yield into
            into.variants.add(())
            if launch.aligned_by is None:  # arrays may help by themselves
                arrays = {name for name, type_ in request.signature if str(type_).startswith("*")}
                into.variants.add(tuple(n for n in request.aligned if n in arrays))
        into.variants.add(request.aligned)
        into.kernels.add((kernel.spec.name, dtype))


def _examples(spec: KernelSpec, full: bool) -> list[Example]:
    if spec.ahead is not None:
        return calls_of(spec, "ahead", full)
    shapes = ((4096,), (4095,), (256, 512), (255, 512), (255, 511), (2**32,))
    return [one for shape in shapes for one in calls_of(spec, "examples", shape)]


def _types(
    spec: KernelSpec, example: Example, dtype: str, *, absent: bool
) -> list[ArrayType | ScalarType]:
    """The layouts of a call's arguments.

    Args:
        absent: None in the place of an input that may be left out means that it is, as everywhere
            in `examples`; in `ahead` it is a number.
    """
    types: list[ArrayType | ScalarType] = []
    own = input_dtypes(spec)
    given = itertools.chain(example.dtypes, itertools.repeat(None))
    for name, shape, fixed in zip(spec.inputs, example.shapes, given, strict=False):
        element = fixed or own.get(name.rstrip("?"), dtype)
        if shape is None and absent and name.endswith("?") and name[:-1] not in spec.scalars:
            types.append(ABSENT)
        elif shape is None or name.rstrip("?") in spec.scalars:
            types.append(ScalarType(element))
        else:
            types.append(ArrayType(element, shape, contiguous_strides(shape)))
    return types


def asked(
    spec: KernelSpec, dtype: str, shape: tuple[int, ...]
) -> tuple[Example, tuple[ArrayType | ScalarType, ...]] | None:
    """The call of the examples for a shape; None: there is none."""
    try:
        (example,) = calls_of(spec, "examples", shape)
    except XTargetError:
        return None
    return example, tuple(_types(spec, example, dtype, absent=True))


def _layouts(
    types: Sequence[ArrayType | ScalarType], views: bool
) -> Iterator[tuple[Sequence[ArrayType | ScalarType], str]]:
    """Arguments in their layouts, and the result's."""
    yield types, "C"
    matrices = [isinstance(t, ArrayType) and t.ndim >= 2 and min(t.shape[-2:]) > 1 for t in types]
    for changed in itertools.product((False, True), repeat=len(types)):
        if any(changed) and all(m or not c for c, m in zip(changed, matrices, strict=True)):
            yield [relaid(t, "T") if c else t for t, c in zip(types, changed, strict=True)], "C"
    cut = [_split(t, 3) for t in types]
    if all(isinstance(t, ArrayType) and t.ndim == 3 for t in cut) and all(matrices):
        yield [relaid(t, "T") for t in cut], "C"  # axes that no fewer describe
    if not views:
        return
    for some in itertools.product(("C", "gaps", "padded"), repeat=len(types)):
        for out in ("C", "gaps", "padded"):
            if {*some, out} != {"C"}:
                yield [relaid(t, how) for t, how in zip(types, some, strict=True)], out
    for rank in (3, 4):
        split = [_split(t, rank) for t in types]
        for some in itertools.product(("C", "T", "gaps"), repeat=len(types)):
            for out in ("C", "gaps"):
                yield [relaid(t, how) for t, how in zip(split, some, strict=True)], out


def _split(type_: ArrayType | ScalarType, rank: int) -> ArrayType | ScalarType:
    """The array with its first axis cut into several, where it can be."""
    if isinstance(type_, ScalarType) or type_.ndim >= rank:
        return type_
    first = type_.shape[0] if type_.ndim else 1
    more = rank - type_.ndim
    if first % 2**more:
        return type_
    shape = (first // 2**more, *(2,) * more, *type_.shape[1:])
    return ArrayType(type_.dtype, shape, contiguous_strides(shape))


def relaid(type_: ArrayType | ScalarType, how: str) -> ArrayType | ScalarType:
    """The same shape in another layout: T swaps the last two axes in memory, gaps leaves every
    second element out, padded makes rows longer than they are."""
    if isinstance(type_, ScalarType) or how == "C" or not type_.ndim:
        return type_
    shape = type_.shape
    if how == "T":
        if type_.ndim < 2:
            return type_
        swapped = contiguous_strides((*shape[:-2], shape[-1], shape[-2]))
        strides = (*swapped[:-2], swapped[-1], swapped[-2])
    elif how == "gaps":
        strides = tuple(2 * s for s in contiguous_strides(shape))
    else:
        strides = contiguous_strides((*shape[:-1], shape[-1] + 16))
    return replace(type_, strides=strides)
