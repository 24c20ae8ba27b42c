"""`targets.base.Compiler` for every vendor that takes SPIR-V."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..._values.errors import CompileError, UnknownTargetError
from ..._values.types import Artifact, CompileRequest, Constant, Parameter, Resources, Target
from ..._values.value_classes import value_class
from .._objects.asserts import ASSERT_MEMORY
from .._triton import toolchain
from .frontend.cpu_options import PLAIN_OPTIONS
from .versions import llvmlite_identity, llvmlite_version

if TYPE_CHECKING:
    from .._triton.compile import Compiled

__all__ = ["SpirvCompiler"]

ARCH = "spirv64"
_ALLOWED = {"warp_size": (8, 16, 32), "num_warps": tuple(1 << bit for bit in range(11))}
_STAGES = ("ttir", "ttgir", "llir")

#: LLVM types of parameters by Triton's, as the host hands them over.
_HOST_TYPES = {
    **{f"{sign}{bits}": f"i{bits}" for sign in "iu" for bits in (8, 16, 32, 64)},
    "i1": "i8",
    "bf16": "i16",
    "fp16": "half",
    "fp32": "float",
    "f32": "float",
    "fp64": "double",
}

#: Folders of this package: what a binary is made with is in all of them.
_ROOMS = ("frontend", "library", "llvm", "vectors", "worker")


@value_class(frozen=True, slots=True)
class SpirvCompiler:
    """Compiles for `vendor`.

    Options of a request: `warp_size` (8, 16 or 32: the sub-group size); `lanes`: `threads`, or
    `vectors` to make one thread of a block of one warp where that can be done (the artifact then
    has warps of 1); `pointers`: `real`, or `integer` for a run time that cannot pass addresses it
    did not allocate; the artifact then lists those parameters as `u64`; `fp64`, `fp16`,
    `int64_atomics`, `half_math`, `function_bytes` and `kernel_clock`: what the device has.

    `line_info` adds nothing to the binary: LLVM 22's SPIR-V back end writes no OpLine, whatever the
    debug metadata (with `--spv-emit-nonsemantic-debug-info` no more than the file's name). Lines
    are in the errors, and in the stage `ttgir`.

    Attributes:
        vendor: first half of the targets.
        warp_size, lanes: of requests that say neither.
        options: further options of requests that do not say them.
    """

    vendor: str
    warp_size: int
    lanes: str = "threads"
    options: tuple[tuple[str, Constant], ...] = ()

    @property
    def fingerprint(self) -> str:
        triton = toolchain.fingerprint(own=self._own)
        return f"{triton}\nllvmlite {llvmlite_identity()}" if triton else ""

    @property
    def _own(self) -> tuple[str, ...]:
        """Files of xtarget that decide this compiler's output, besides those of `toolchain`."""
        return (
            "targets/_objects/asserts.py",
            "targets/_spirv/*.py",
            *(f"targets/_spirv/{room}/*.py" for room in _ROOMS),
            "targets/_binaries/spirv.py",
            f"targets/{self.vendor}/compiler.py",
        )

    def unsettled(self) -> str:
        return toolchain.unsettled(own=self._own)

    def archs(self) -> tuple[str, ...]:
        return (ARCH,)

    def compile(
        self, request: CompileRequest, target: Target, *, keep_stages: bool = False
    ) -> Artifact:
        if target.arch != ARCH:
            raise UnknownTargetError(
                f"{target} cannot be compiled for: one portable form serves all devices of "
                f"{self.vendor}. Write {self.vendor}:{ARCH}."
            )
        warp_size = _one_of(
            request, target, "warp_size", dict(request.options).get("warp_size", self.warp_size)
        )
        _one_of(request, target, "num_warps", request.num_warps)
        lanes = "threads" if "warp_size" in dict(request.options) else self.lanes
        try:
            if llvmlite_version() and toolchain.is_installed():  # else there is a sentence to come
                from .worker.client import worker

                worker.start()  # it loads LLVM while this process imports Triton
            from .frontend.backend import register
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "triton":
                raise
        else:
            register()
            _refuse_gluon(request, target)
        from .._triton.compile import compile_with_triton, make_artifact

        compiled = compile_with_triton(
            request,
            target,
            backend="spirv",
            arch=ARCH,
            warp_size=warp_size,
            options={"lanes": lanes, **PLAIN_OPTIONS, **dict(self.options)},
            locations=True,
        )
        artifact = make_artifact(
            compiled,
            target,
            format="spirv",
            keep=_STAGES if keep_stages else (),
            resources=Resources(static_shared_bytes=compiled.metadata["shared"]),
        )
        if compiled.metadata["asserts"]:
            message = Parameter(ASSERT_MEMORY, "*i8", hidden=ASSERT_MEMORY)
            artifact = replace(artifact, parameters=(*artifact.parameters, message))
        artifact = replace(artifact, parameters=_checked(artifact, compiled))
        if keep_stages and (assembly := disassemble(artifact.binary)):
            artifact = replace(artifact, texts={**artifact.texts, "spvasm": assembly})
        return artifact


def _refuse_gluon(request: CompileRequest, target: Target) -> None:
    fn = request.source.load()
    if getattr(fn, "is_gluon", lambda: False)():
        raise CompileError(
            f"kernel {request.source.name} ({request.source.path}) is written in Gluon, which "
            "names a GPU's own layouts and instructions, so it cannot be compiled for "
            f"{target}. Write it in Triton."
        )


def _one_of(request: CompileRequest, target: Target, name: str, value: Any) -> int:
    """The value of an option, if it is one of those there are."""
    allowed = _ALLOWED[name]
    if type(value) is not int or value not in allowed:
        raise CompileError(
            f"kernel {request.source.name}: the option {name} is {value!r}; for {target} it must "
            f"be one of {', '.join(map(str, allowed))}."
        )
    return value


def _checked(artifact: Artifact, compiled: Compiled) -> tuple[Parameter, ...]:
    """The artifact's parameters, after a comparison with those the module really has."""
    actual = tuple(compiled.metadata["entry_parameters"])
    integer = compiled.metadata["pointers"] == "integer"
    listed = []
    for parameter in artifact.parameters:
        listed.append(
            replace(parameter, type="u64") if integer and parameter.is_pointer else parameter
        )
    expected = tuple("ptr" if p.is_pointer else _HOST_TYPES.get(p.type, p.type) for p in listed)
    if actual != expected:
        raise CompileError(
            f"kernel {artifact.entry}: the compiled entry takes ({', '.join(actual)}), the "
            f"signature says ({', '.join(expected)}). This is a fault of xtarget's SPIR-V "
            "compiler with this Triton; please report both lists."
        )
    return tuple(listed)


def disassemble(binary: bytes) -> str:
    """SPIR-V assembly by `spirv-dis`; empty where that tool is not installed."""
    import subprocess

    from ..._system.tools import find_tool

    tool = find_tool("spirv-dis")
    if tool is None:
        return ""
    done = subprocess.run(
        [tool, "--no-color", "-"], input=binary, capture_output=True, timeout=60, check=False
    )
    return done.stdout.decode(errors="replace")
