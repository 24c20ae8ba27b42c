"""From a case of `spirv_kernels` to a request, shared by the tests of the SPIR-V compiler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xtarget._values.types import CompileRequest, DtypeConstant, KernelSource

_DTYPES = {
    "fp16": "float16",
    "fp32": "float32",
    "fp64": "float64",
    "int16": "int16",
    "int32": "int32",
    "int64": "int64",
}


def request(case: Any, **options: Any) -> CompileRequest:
    """The case as a request; `options` are added to those of the back end."""
    constants = {
        name: DtypeConstant(_DTYPES[value.name]) if hasattr(value, "primitive_bitwidth") else value
        for name, value in case.constants.items()
    }
    return CompileRequest(
        source=KernelSource(
            name=case.fn.fn.__name__,
            digest="0" * 64,
            path=str(Path(__file__).with_name("spirv_kernels.py")),
            load=lambda: case.fn,
        ),
        signature=tuple(
            (name, case.signature.get(name, "constexpr")) for name in case.fn.arg_names
        ),
        constants=tuple(constants.items()),
        num_warps=case.num_warps,
        options=(("warp_size", case.warp_size), *options.items()),
    )
