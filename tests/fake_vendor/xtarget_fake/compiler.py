"""Makes fake binaries: any kernel that `kernels` has a NumPy form of."""

from __future__ import annotations

from xtarget._values.errors import CompileError, UnknownTargetError
from xtarget._values.types import Artifact, CompileRequest, Parameter, Target

from .format import encode
from .kernels import KERNELS

ARCHS = ("f1", "f2")
WARP_SIZE = 4


class FakeCompiler:
    """Compiles by name: the NumPy form of the kernel is what runs."""

    fingerprint = "fake 1.0"

    def archs(self) -> tuple[str, ...]:
        return ARCHS

    def compile(
        self, request: CompileRequest, target: Target, *, keep_stages: bool = False
    ) -> Artifact:
        if target.arch not in ARCHS:
            raise UnknownTargetError(f"the fake compiler does not know {target}.")
        name = request.source.name
        if name not in KERNELS:
            raise CompileError(
                f"the fake vendor has no kernel {name}; it has {', '.join(KERNELS)}."
            )
        parameters = tuple(
            Parameter(parameter, type_)
            for parameter, type_ in request.signature
            if isinstance(type_, str) and type_ != "constexpr"
        )
        constants = {key: value for key, value in request.constants if isinstance(value, int)}
        content = {
            "kernel": name,
            "constants": constants,
            "parameters": [parameter.type for parameter in parameters],
        }
        return Artifact(
            target=target,
            format="fake",
            entry=name,
            binary=encode(content),
            num_warps=request.num_warps,
            warp_size=WARP_SIZE,
            shared_bytes=0,
            parameters=(*parameters, Parameter("global_scratch", "*i8", hidden="global_scratch")),
            texts={"fake": repr(content)} if keep_stages else {},
        )
