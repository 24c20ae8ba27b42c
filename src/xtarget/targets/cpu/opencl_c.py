"""The route `opencl`: OpenCL C, which the CPU's run time compiles. It needs no Triton."""

from __future__ import annotations

from ..._values.errors import CompileError, LoadError
from ..._values.types import Artifact, CompileRequest, Target
from .._binaries.opencl_c import FORMAT
from .._c import route
from .._c.dialects import OPENCL

__all__ = ["OpenclRoute"]

#: Threads of a warp: one vector register of 16 floats.
_WARP_SIZE = 16
_OWN = ("targets/_c/*.py", "targets/cpu/opencl_c.py", "targets/cpu/program.py")


class OpenclRoute:
    """`targets.optional.Route`."""

    name = "opencl"

    @property
    def fingerprint(self) -> str:
        return route.fingerprint(_OWN)

    def archs(self) -> tuple[str, ...]:
        return ("spirv64",)

    def refusal(self, request: CompileRequest, target: Target) -> str:
        return route.refusal(request, OPENCL, _WARP_SIZE)

    def compile(
        self, request: CompileRequest, target: Target, *, keep_stages: bool = False
    ) -> Artifact:
        made = route.translated(request, OPENCL, _WARP_SIZE)
        artifact = Artifact(
            target=target,
            format=FORMAT,
            entry=made.entry,
            binary=made.text.encode(),
            num_warps=max(1, made.threads // _WARP_SIZE),
            warp_size=min(made.threads, _WARP_SIZE),
            shared_bytes=0,
            parameters=made.parameters,
            route=self.name,
        )
        try:
            from .module import tried

            tried(artifact)
        except ModuleNotFoundError as error:
            if error.name != "pyopencl":  # without it the text is compiled where it is loaded
                raise
        except LoadError as error:
            said = f": {error}"
            if any(one.suffix in OPENCL.suffixes for one in request.source.written):
                from .status import LOG

                said = f". Correct its source:\n{str(error).rpartition(LOG)[2]}"
            raise CompileError(
                f"kernel {request.source.name} did not compile for {target} by the route "
                f"{self.name}{said}"
            ) from error
        return artifact
