"""Casts from floats of 8 bits that Triton's lowering for AMD gets wrong, or does not have.

Without hardware for them it makes bfloat16 of float8 by moving bits, and NaN becomes a number
(Triton 3.6 to 3.9); to float64 and to other floats of 8 bits there is no way. Each goes by float32,
which holds every float of 8 bits exactly.
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

    return _CAST.sub(twice, text)
