"""Options of Triton's back ends, by any of its versions that we work with, and of ours: what each
of them takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from .._values.sizes import whole

__all__ = ["wrong_options"]

_MOST: Final = 2**31 - 1


class _Kind(NamedTuple):
    words: str
    fits: Callable[[Any], bool]


def _from(least: int) -> Callable[[Any], bool]:
    def fits(value: Any) -> bool:
        number = whole(value)
        return number is not None and least <= number <= _MOST

    return fits


def _texts(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(one, str) for one in value)


_SWITCH = _Kind("True or False", lambda value: isinstance(value, bool))
_COUNT = _Kind("a whole number from 0", _from(0))
_FROM_1 = _Kind("a whole number from 1", _from(1))
_TEXT = _Kind("a text", lambda value: isinstance(value, str))
_TEXTS = _Kind("a tuple of texts", _texts)
_PAIRS = _Kind("a text or a tuple of pairs", lambda value: isinstance(value, str | tuple))
_FILES = _Kind(
    "a mapping or pairs of names and paths", lambda value: isinstance(value, Mapping | tuple)
)


def _or_none(kind: _Kind) -> _Kind:
    return _Kind(f"{kind.words}, or None", lambda value: value is None or kind.fits(value))


_KINDS: Final[dict[str, _Kind]] = {
    **dict.fromkeys(("debug", "enable_fp_fusion", "launch_cooperative_grid"), _SWITCH),
    **dict.fromkeys(("sanitize_overflow", "fpsan_homomorphic_casts"), _SWITCH),
    **dict.fromkeys(("default_dot_input_precision", "instrumentation_mode"), _TEXT),
    **dict.fromkeys(("allowed_dot_input_precisions", "supported_fp8_dtypes"), _TEXTS),
    "deprecated_fp8_dot_operand_dtypes": _TEXTS,
    "extern_libs": _or_none(_FILES),
    "ir_override": _or_none(_TEXT),
    "num_ctas": _FROM_1,
    "warp_size": _FROM_1,
    "max_num_imprecise_acc_default": _or_none(_COUNT),
    **dict.fromkeys(("arch", "base_arch"), _or_none(_TEXT)),
    "backend_name": _TEXT,
    # NVIDIA
    **dict.fromkeys(("enable_reflect_ftz", "launch_pdl", "sched4reg", "clc"), _SWITCH),
    **dict.fromkeys(("maxnreg", "ptx_version"), _or_none(_FROM_1)),
    "min_shared_mem": _or_none(_COUNT),
    "ptx_options": _or_none(_TEXT),
    # AMD
    "allow_flush_denorm": _SWITCH,
    "kpack": _FROM_1,
    **dict.fromkeys(("matrix_instr_nonkdim", "waves_per_eu"), _COUNT),
    **dict.fromkeys(("schedule_hint", "wgp_cu_mode"), _TEXT),
    "llvm_fn_attrs": _PAIRS,
    # Intel's fork of Triton
    "generate_native_code": _SWITCH,
    "grf_mode": _TEXT,
    # our own back end for SPIR-V (`targets/_spirv/frontend/backend.py`)
    **dict.fromkeys(("fp64", "fp16", "int64_atomics", "half_math"), _SWITCH),
    **dict.fromkeys(("kernel_clock", "cpu_accesses"), _SWITCH),
    **dict.fromkeys(("function_bytes", "dot_bytes", "thread_elements"), _COUNT),
    "dot_elements": _FROM_1,
    **dict.fromkeys(("pointers", "lanes"), _TEXT),
}


def wrong_options(options: Mapping[Any, Any]) -> Iterator[str]:
    """A sentence's end for each option that is none, or has a value of another kind."""
    for name, value in options.items():
        kind = _KINDS.get(name) if isinstance(name, str) else None
        if kind is None:
            import difflib

            near = difflib.get_close_matches(str(name), [*_KINDS, "num_warps", "num_stages"], n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            yield (
                f"no back end of Triton has an option {name!r:.80}.{hint} num_warps and num_stages "
                "are arguments of their own."
            )
        elif not kind.fits(value):
            yield f"its option {name} is {value!r:.80}. Give {kind.words}."
