"""From call to launches: floats of 8 bits where elements are only moved. Kernels see their bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from xtarget import spec

__all__ = ["NARROW", "by_bits", "kind_of", "narrow_bits", "saturated"]

#: Exponent bits and bias of each dtype; its largest number, and what is beyond that.
NARROW = {"float8_e4m3fn": (4, 7), "float8_e5m2": (5, 15)}
_LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}


def kind_of(dtype: str) -> str:
    """Return what kernels call a float of 8 bits (`e4m3`, `e5m2`); empty for other dtypes."""
    return dtype.removeprefix("float8_").removesuffix("fn") if dtype in NARROW else ""


def saturated(value: Any, dtype: str) -> Any:
    """A number that fills an array: e4m3fn, which has no infinity, stays at the largest one."""
    if dtype != "float8_e4m3fn" or math.isnan(value):
        return value
    return max(-_LARGEST[dtype], min(value, _LARGEST[dtype]))


def narrow_bits(value: float, dtype: str) -> int:
    """A number as the bits of a float of 8 bits, rounded to even as `cast` does."""
    exponent, bias = NARROW[dtype]
    mantissa = 7 - exponent
    sign = 0x80 if math.copysign(1.0, value) < 0 else 0
    if math.isnan(value):
        return sign | 0x7F
    size = abs(value)
    if not size:
        return sign
    least = 1 - bias
    power = max(math.frexp(size)[1] - 1, least) if math.isfinite(size) else 0
    step = math.ldexp(1.0, power - mantissa)
    rounded = round(size / step) * step if math.isfinite(size) else size
    if rounded > _LARGEST[dtype]:  # e4m3fn has no infinity: it stays at the largest number
        return sign | (0x7E if dtype == "float8_e4m3fn" else 0x7C)
    # one more step beyond a power of two is the next power: the bits go on by one
    first = math.frexp(rounded)[1] - 1
    if not rounded or first < least:
        return sign | int(rounded / math.ldexp(1.0, least - mantissa))
    within = int(rounded / math.ldexp(1.0, first - mantissa)) - (1 << mantissa)
    return sign | ((first + bias) << mantissa) | within


def by_bits(
    plan: Callable[[spec.Call], spec.Plan],
    inputs: Sequence[str],
    beside: Sequence[str] = (),
    *,
    last: bool = False,
) -> Callable[[spec.Call], spec.Plan]:
    """The plan of an operator that moves elements, on floats of 8 bits too.

    Args:
        inputs: names of its arguments.
        beside: those of them that are not moved: indices and conditions.
        last: the last one that is given is moved, whatever its name is.
    """
    named = {place for place, name in enumerate(inputs) if name.rstrip("?") in beside}

    def own(call: spec.Call) -> spec.Plan:
        apart = named - {len(call.args) - 1} if last else named
        moved = {  # in the arguments' order
            arg.dtype: None
            for place, arg in enumerate(call.args)
            if place not in apart and arg is not spec.ABSENT
        }
        dtype = next((one for one in moved if one in NARROW), None)
        if dtype is None:
            return plan(call)
        if call.options.get("accumulate"):
            raise spec.ArgumentError(
                f"{call.kernel}: accumulate adds, and floats of 8 bits ({dtype}) are only moved. "
                "Cast them."
            )
        numbers = any(
            isinstance(arg, spec.ScalarType) and arg is not spec.ABSENT
            for place, arg in enumerate(call.args)
            if place not in apart
        )
        if len(moved) > 1 or numbers:
            others = "a number" if numbers else ", ".join(sorted(moved.keys() - {dtype}))
            raise spec.ArgumentError(
                f"{call.kernel}: {dtype} stands beside {others}; floats of 8 bits are moved "
                "beside arrays of their own dtype only. Cast one of them."
            )
        found = plan(_as_bytes(call, apart, dtype))
        outputs = tuple(
            replace(out, dtype=dtype) if out.dtype == "uint8" else out for out in found.outputs
        )
        launches = tuple(_told(launch, call, outputs) for launch in found.launches)
        return replace(found, outputs=outputs, launches=launches)

    return own


def _as_bytes(call: spec.Call, apart: set[int], dtype: str) -> spec.Call:
    """The call with bytes in the place of the floats, and a `value` among its options as bits."""

    def bytes_of(one: Any) -> Any:
        narrow = isinstance(one, spec.ArrayType) and one.dtype in NARROW
        return replace(one, dtype="uint8") if narrow else one

    options = dict(call.options)
    value = options.get("value")
    if isinstance(value, int | float) and not isinstance(value, bool):
        options["value"] = narrow_bits(float(value), dtype)
    args = tuple(arg if place in apart else bytes_of(arg) for place, arg in enumerate(call.args))
    outs = tuple(map(bytes_of, call.outs))
    return replace(call, args=args, options=options, out=bytes_of(call.out), outs=outs)


def _told(launch: spec.Launch, call: spec.Call, outputs: Sequence[spec.ArrayType]) -> spec.Launch:
    """A launch that is told which of its arrays are floats of 8 bits."""

    def narrow(argument: spec.Argument) -> bool:
        if isinstance(argument, spec.Input):
            return call.args[argument.index].dtype in NARROW
        return isinstance(argument, spec.Output) and outputs[argument.index].dtype in NARROW

    names = tuple(name for name, argument in launch.args.items() if narrow(argument))
    return replace(launch, bits=names)
