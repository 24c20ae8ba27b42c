"""Casts from and to floats of 8 bits that Triton's lowering for AMD gets wrong, or does not have.

Without hardware for them it makes bfloat16 of float8 by moving bits, and NaN becomes a number
(Triton 3.6 to 3.9); to float64 and to other floats of 8 bits there is no way. Each goes by float32,
which holds every float of 8 bits exactly. From float64 there is no way either: it is rounded to odd
first, so that rounding to 8 bits afterwards gives what rounding once would (Boldo and Melquiond,
"Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
"""

from __future__ import annotations

import re

__all__ = ["cast_by_float32"]

_CAST = re.compile(
    r"^(?P<indent> +)(?P<result>%\w+) = tt\.fp_to_fp (?P<operand>%[\w#]+)(?:, rounding = \w+)? : "
    r"(?P<source>(?:tensor<[\dx]+x)?f8E\w+\S*(?:.*>)?) -> "
    r"(?P<target>(?:tensor<[\dx]+x)?(?P<to>bf16|f64|f8E\w+)\S*(?:.*>)?)(?P<location> loc\(.*\))?$",
    re.MULTILINE,
)
_FROM_FLOAT64 = re.compile(
    r"^(?P<indent> +)(?P<result>%\w+) = tt\.fp_to_fp (?P<operand>%[\w#]+)"
    r"(?P<rounding>(?:, rounding = \w+)?) : (?P<source>(?:tensor<[\dx]+x)?f64(?:, .*>)?) -> "
    r"(?P<target>(?:tensor<[\dx]+x)?f8E\w+(?:, .*>)?)(?P<location> loc\(.*\))?$",
    re.MULTILINE,
)
_FLOAT8 = re.compile(r"f8E\w+")
#: The second step: an operation, and what stands between its types.
_STEPS = {"bf16": ("arith.truncf {}", "to"), "f64": ("arith.extf {}", "to")}
_TO_FLOAT8 = ("tt.fp_to_fp {}, rounding = rtne", "->")


def cast_by_float32(text: str) -> str:
    """Triton's GPU IR with such casts in two steps; the same text where there is none."""
    made = 0

    def twice(match: re.Match[str]) -> str:
        nonlocal made
        made += 1
        part = match.groupdict("")
        between = f"%xt_float_{made}"
        wide = _FLOAT8.sub("f32", part["source"], count=1)
        step, word = _STEPS.get(part["to"], _TO_FLOAT8)
        indent, location = part["indent"], part["location"]
        return (
            f"{indent}{between} = tt.fp_to_fp {part['operand']} : {part['source']} -> {wide}"
            f"{location}\n{indent}{part['result']} = {step.format(between)} : {wide} {word} "
            f"{part['target']}{location}"
        )

    def from_float64(match: re.Match[str]) -> str:
        nonlocal made
        made += 1
        part = match.groupdict("")
        lines = _rounded_to_odd(part["operand"], part["source"], f"%xt_odd_{made}")
        wide = part["source"].replace("f64", "f32", 1)
        lines.append(
            f"{part['result']} = tt.fp_to_fp %xt_odd_{made}{part['rounding']} : {wide} -> "
            f"{part['target']}"
        )
        return "\n".join(f"{part['indent']}{line}{part['location']}" for line in lines)

    return _FROM_FLOAT64.sub(from_float64, _CAST.sub(twice, text))


def _rounded_to_odd(value: str, type_: str, result: str) -> list[str]:
    """Operations that make float32 of float64: what is not exact gets the neighbour nearer to zero,
    with its last bit set.
    """

    def of(element: str) -> str:
        return type_.replace("f64", element, 1)

    nearest, back = f"{result}_nearest", f"{result}_back"
    return [
        f"{nearest} = arith.truncf {value} : {type_} to {of('f32')}",
        f"{back} = arith.extf {nearest} : {of('f32')} to {type_}",
        f"{result}_size = math.absf {value} : {type_}",
        f"{result}_reached = math.absf {back} : {type_}",
        f"{result}_beyond = arith.cmpf ogt, {result}_reached, {result}_size : {type_}",
        f"{result}_step = arith.extui {result}_beyond : {of('i1')} to {of('i32')}",
        f"{result}_other = arith.cmpf une, {back}, {value} : {type_}",
        f"{result}_sticky = arith.extui {result}_other : {of('i1')} to {of('i32')}",
        f"{result}_bits = tt.bitcast {nearest} : {of('f32')} -> {of('i32')}",
        f"{result}_below = arith.subi {result}_bits, {result}_step : {of('i32')}",
        f"{result}_odd = arith.ori {result}_below, {result}_sticky : {of('i32')}",
        f"{result} = tt.bitcast {result}_odd : {of('i32')} -> {of('f32')}",
    ]
