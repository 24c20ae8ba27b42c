"""Sums and products of bfloat16 along an axis, made in float32 and rounded once.

Triton 3.9 adds in bfloat16 in `tl.sum`, `tl.cumsum` and `tl.cumprod`, where older ones converted
first: with 8 bits a sum of 64 numbers is off by percents. bfloat16 is computed in float32 here
anyway (`bfloat`), so one rounding in place of one for each step costs nothing.
"""

from __future__ import annotations

import re

__all__ = ["widen_sums"]

_STEPS = re.compile(
    r'^(?P<indent> +)(?P<result>%\w+)(?P<head> = "tt\.(?P<kind>reduce|scan)"\()(?P<operand>%[\w#]+)'
    r"(?P<open>\).*\(\{)\n"
    r"(?P<region> +\^bb0\(%\w+: bf16.*, %\w+: bf16.*\):.*\n"
    r" +(?P<step>%\w+) = arith\.(?:addf|mulf) .* : bf16.*\n"
    r" +tt\.(?P=kind)\.return (?P=step) : bf16.*\n)"
    r" +\}\) : \(tensor<(?P<shape>[\dx]+x)bf16>\) -> (?P<narrow>tensor<[\dx]+xbf16>|bf16)"
    r"(?P<location>.*)$",
    re.MULTILINE,
)


def widen_sums(text: str) -> str:
    """Triton's IR with such sums widened; the same text where there is none."""
    made = 0

    def widened(match: re.Match[str]) -> str:
        nonlocal made
        made += 1
        part = match.groupdict()
        indent, shape, location = part["indent"], part["shape"], part["location"]
        before, after = f"%xt_wide_{made}", f"%xt_sum_{made}"
        narrow = part["narrow"]
        wide = narrow.replace("bf16", "f32")
        region = part["region"].replace("bf16", "f32")
        given, taken = f"tensor<{shape}bf16>", f"tensor<{shape}f32>"
        return (
            f"{indent}{before} = arith.extf {part['operand']} : {given} to {taken}{location}\n"
            f"{indent}{after}{part['head']}{before}{part['open']}\n{region}"
            f"{indent}}}) : ({taken}) -> {wide}{location}\n"
            f"{indent}{part['result']} = arith.truncf {after} : {wide} to {narrow}{location}"
        )

    return _STEPS.sub(widened, text)
