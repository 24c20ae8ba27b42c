"""The one call into Triton: from a compile request to compiled stages, for any back end.

Only `triton.compile(ASTSource, target=GPUTarget(...))` is used (`GluonASTSource` for Gluon's
kernels): Triton's JIT and its driver allow one vendor a process. Works with Triton 3.6 to 3.9.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from ..._system import spans
from ..._system.life import in_forked_child
from ..._system.locks import Lock
from ..._system.signals import handler_kept, raised_by_handler
from ..._values.errors import CompileError, UnknownTargetError
from ..._values.float8 import FLOAT8
from ..._values.types import (
    Artifact,
    CompileRequest,
    DtypeConstant,
    Parameter,
    Resources,
    Scratch,
    Target,
    TypeText,
)
from ..._values.value_classes import value_class
from .._objects.tensor_maps import map_of, map_type
from . import toolchain
from .front_end_fixes import mend_front_end
from .importing import import_triton
from .lines import def_line, functions_of, line_in_function

if TYPE_CHECKING:
    from .accesses import Access

__all__ = ["Compiled", "compile_with_triton", "constant_of", "make_artifact"]

_DESCRIPTOR = "tensordesc<"
_TEXT_STAGES = ("ttir", "ttgir", "llir", "ptx", "amdgcn", "spvll")

# Triton's knobs are process-wide state, so one compilation at a time.
_lock = Lock()
#: The knobs as they were before the compilation that runs now.
_before: list[ExitStack] = []


def _in_forked_child() -> None:
    """Undo the knobs of another thread's compilation, which does not continue here."""
    if not _lock.mine:
        while _before:
            _before.pop().close()


in_forked_child(_in_forked_child)


@value_class(frozen=True, slots=True)
class Compiled:
    """The result of `triton.compile`: stages by name, the seconds that each took, and Triton's
    metadata."""

    stages: Mapping[str, str | bytes]
    metadata: Mapping[str, Any]
    parameters: tuple[Parameter, ...]
    stage_seconds: Mapping[str, float] = field(default_factory=dict)


def _flatten(name: str, type_: TypeText) -> list[tuple[str, str]]:
    """(name, type) of a parameter's scalars; elements of tuples are `name.0`, `name.1`..."""
    if isinstance(type_, str):
        if type_.startswith(_DESCRIPTOR):
            return _with_numbers(name, type_)
        return [] if type_ == "constexpr" else [(name, type_)]
    return [pair for i, element in enumerate(type_) for pair in _flatten(f"{name}.{i}", element)]


def _with_numbers(name: str, type_: str) -> list[tuple[str, str]]:
    """A tensor descriptor, and behind it its lengths and strides, which are parameters too."""
    axes = range(type_.count(",") + 1)
    lengths = [(f"{name}.shape.{axis}", "i32") for axis in axes]
    return [(name, type_), *lengths, *((f"{name}.stride.{axis}", "i64") for axis in axes)]


def _path(name: str, arg_names: Sequence[str]) -> tuple[int, ...]:
    """Triton's index path of `shape.0`."""
    head, *rest = name.split(".")
    return (arg_names.index(head), *(int(r) for r in rest))


def constant_of(value: Any, triton: Any) -> Any:
    """A constant as Triton's functions take it: dtypes are those of `triton.language`."""
    if isinstance(value, DtypeConstant):
        return getattr(triton.language, {"bool": "int1", **FLOAT8}.get(value.name, value.name))
    if isinstance(value, tuple):
        return tuple(constant_of(v, triton) for v in value)
    return value


def _located(error: BaseException, fn: Any, path: str) -> str:
    """Triton's message, led by the file and line where the exception knows them.

    The front end counts lines from a function's `def`; the function is the kernel, or one that it
    calls.
    """
    found = error
    while getattr(found.__cause__, "node", None) is not None:  # the innermost one says most
        assert found.__cause__ is not None
        found = found.__cause__
    message = str(found).strip() or type(found).__name__
    line = getattr(getattr(found, "node", None), "lineno", None)
    source = getattr(found, "src", None)
    function = next((f for f in functions_of(fn) if getattr(f, "src", "") == source), None)
    if line is None or function is None:
        return f"{path}: {message}"
    return f"{function.fn.__code__.co_filename}:{def_line(function) + line - 1}: {message}"


def compile_with_triton(
    request: CompileRequest,
    target: Target,
    *,
    backend: str,
    arch: int | str,
    warp_size: int,
    options: Mapping[str, Any],
    locations: bool = False,
    fp32_dot: str = "",
    mended: AbstractContextManager[None] | None = None,
    check_assembly: Callable[[str, str], None] | None = None,
) -> Compiled:
    """Run `triton.compile` for one specialization.

    Args:
        request: kernel, signature, constants, alignment.
        target: ours, for messages.
        backend, arch, warp_size: Triton's `GPUTarget`.
        options: options of Triton's back end, on top of the request's.
        locations: Triton's IR knows source lines in any case; the back end keeps them out of the
            binary.
        fp32_dot: the input precision of an fp32 `tl.dot` that names none, where the user's
            environment (TRITON_F32_DEFAULT) names none either; empty for Triton's own choice.
        mended: entered while Triton compiles: a work-around for what it gets wrong.
        check_assembly: refuses text and constraints of inline assembly by a CompileError, before
            LLVM sees them.

    Raises:
        CompileError: no usable Triton, or it refuses the kernel; the message has Triton's text and
            the file.
        UnknownTargetError: Triton does not know the arch.
    """
    if _lock.mine:
        raise CompileError(
            f"kernel {request.source.name} has to be compiled for {target} while this thread is "
            "compiling another: a signal handler or a finalizer (__del__) has called for it. Run "
            "the kernel once before, or do not run kernels in there."
        )
    triton = import_triton()
    mend_front_end()
    from triton.backends.compiler import GPUTarget

    fn = request.source.load()
    if type(fn).__name__ == "InterpretedFunction":
        raise CompileError(
            f"kernel {request.source.name} cannot be compiled for {target}: TRITON_INTERPRET is "
            "set, so Triton made a Python function of it. Unset that before Triton is imported."
        )
    given = dict(request.signature)
    unknown = [name for name in given if name not in fn.arg_names]
    missing = [name for name in fn.arg_names if name not in given]
    if unknown or missing:
        raise CompileError(
            f"kernel {request.source.name} ({request.source.path}): spec and parameters differ"
            + (f"; not in the function: {', '.join(unknown)}" if unknown else "")
            + (f"; not in the spec: {', '.join(missing)}" if missing else "")
            + ". Give every parameter of the function a value in the spec."
        )
    signature = {name: given[name] for name in fn.arg_names}
    parameters = tuple(
        Parameter(n, t) for name, type_ in signature.items() for n, t in _flatten(name, type_)
    )
    source = _source_class(fn)(
        fn,
        _with_layouts(signature) if _is_gluon(fn) else signature,
        constexprs={name: constant_of(value, triton) for name, value in request.constants},
        attrs={_path(name, fn.arg_names): [["tt.divisibility", 16]] for name in request.aligned},
    )
    chosen = {
        "num_warps": request.num_warps,
        "num_stages": request.num_stages,
        "enable_fp_fusion": True,
        "debug": bool(fn.debug or triton.knobs.runtime.debug),
        **options,
        **dict(request.options),
    }
    from . import files, reason

    knobs = triton.knobs
    with _lock, toolchain.settings_of_a_compilation(), ExitStack() as stack:
        before = stack.enter_context(ExitStack())
        _before.append(before)
        stack.callback(_before.remove, before)
        for scope in (knobs.cache, knobs.compilation, knobs.runtime, knobs.language):
            before.enter_context(scope.scope())
        looked: list[list[Access] | None] = []
        begun: list[str] = []
        checking: list[bool] = []
        seconds: dict[str, float] = {}
        since = time.perf_counter()

        def look(stage: str, made: Any) -> None:
            nonlocal since
            now = time.perf_counter()
            if stage != "json":  # that is Triton's metadata
                seconds[stage] = now - since
                spans.tell(f"stage {stage}", request.source.name, since, now - since)
            since = now
            keep(stage, made)

        def keep(stage: str, made: Any) -> None:
            if stage == "source":
                begun.append(str(made.str()))
                return
            if stage == "ttir":
                looked.append(_accesses_in(made, len(parameters)))
                if check_assembly is not None:
                    checking.append(True)
                    for text, constraints in _assembly_in(made):
                        check_assembly(text, constraints)
                    checking.clear()
            # from here on line info would put paths into the binary
            knobs.compilation.disable_line_info = not (request.line_info or locations)

        stack.enter_context(files.in_memory(knobs, look))  # our cache is the only one
        knobs.compilation.disable_line_info = False
        if fp32_dot and not knobs.language.fp32_default:
            knobs.language.fp32_default = fp32_dot
        if mended is not None:
            stack.enter_context(mended)
        stack.enter_context(handler_kept())
        try:
            kernel = triton.compile(
                source, target=GPUTarget(backend, arch, warp_size), options=chosen
            )
        except Exception as error:  # Triton raises anything from AssertionError to RuntimeError
            interrupted = raised_by_handler(error)
            if interrupted is not None:
                raise interrupted from interrupted.__cause__
            if checking and isinstance(error, CompileError):
                raise
            text = str(error)
            if "unsupported target" in text.lower() or "not a recognized processor" in text:
                raise UnknownTargetError(
                    f"Triton {triton.__version__} does not know {target}: {error}"
                ) from error
            said = _located(error, fn, request.source.path)
            if begun and reason.says_nothing(text):
                why = reason.reason(
                    begun[0], backend=backend, arch=arch, warp_size=warp_size, options=chosen
                )
                said = f"{request.source.path}: {why}" if why else said
            raise CompileError(
                f"kernel {request.source.name} did not compile for {target}: {said}"
            ) from error
        stages = {name: kernel.asm[name] for name in kernel.asm if name != "source"}
    parameters = _mapped(parameters, kernel.metadata, request, target)
    found = looked[0] if looked else None
    if found is not None:
        parameters = tuple(
            replace(p, access=a.text, stored=a.stored and line_in_function(fn, a.stored))
            if p.is_pointer or map_of(p.type) is not None
            else p
            for p, a in zip(parameters, found, strict=True)
        )
    return Compiled(stages, kernel.metadata._asdict(), parameters, seconds)


def _mapped(
    parameters: tuple[Parameter, ...], metadata: Any, request: CompileRequest, target: Target
) -> tuple[Parameter, ...]:
    """The parameters, of which those that are tensor descriptors say how the host makes them.

    Raises:
        CompileError: the target has none that the host makes.
    """
    if not any(parameter.type.startswith(_DESCRIPTOR) for parameter in parameters):
        return parameters
    found = iter(getattr(metadata, "tensordesc_meta", None) or ())
    made = []
    for parameter in parameters:
        if parameter.type.startswith(_DESCRIPTOR):
            own = next(found, None)
            if own is None or own["fp4_padded"]:
                raise CompileError(
                    f"kernel {request.source.name} takes {parameter.name} as a tensor descriptor, "
                    f"and {target} has none that the host makes. Give it an array there."
                )
            parameter = replace(parameter, type=map_type(own))
        made.append(parameter)
    return tuple(made)


def _is_gluon(fn: Any) -> bool:
    found: bool = getattr(fn, "is_gluon", lambda: False)()
    return found


def _with_layouts(signature: Mapping[str, TypeText]) -> dict[str, TypeText]:
    """A kernel's types, of which those of tensor descriptors say how a tile lies in shared memory,
    as those of Gluon do: in the layout that Gluon has for it."""
    from triton.experimental.gluon.language import NVMMASharedLayout
    from triton.language import str_to_ty

    found = dict(signature)
    for name, type_ in signature.items():
        if isinstance(type_, str) and type_.startswith(_DESCRIPTOR):
            tile = str_to_ty(type_, None).block_type
            layout = NVMMASharedLayout.get_default_for(tile.shape, tile.element_ty)
            found[name] = f"{type_[:-1]},{layout!r}>"
    return found


def _source_class(fn: Any) -> Any:
    """Return what Triton compiles: a kernel in its own language, or one in Gluon."""
    if _is_gluon(fn):
        from triton.experimental.gluon._runtime import GluonASTSource

        return GluonASTSource
    from triton.compiler import ASTSource

    return ASTSource


def _accesses_in(module: Any, parameters: int) -> list[Access] | None:
    """Return the accesses to the kernel's parameters in Triton's module after the first stage."""
    from triton._C.libtriton import ir

    from .accesses import accesses

    return accesses(module, ir.builder(module.context), parameters)


def _assembly_in(module: Any) -> list[tuple[str, str]]:
    """Return text and constraints of the inline assembly in Triton's module."""
    found: list[tuple[str, str]] = []

    def take(op: Any) -> None:
        if op.get_name() == "tt.elementwise_inline_asm":
            found.append((str(op.get_str_attr("asm_string")), str(op.get_str_attr("constraints"))))

    module.walk(take)
    return found


def make_artifact(
    compiled: Compiled,
    target: Target,
    *,
    format: str,
    keep: Sequence[str],
    resources: Resources,
    binary: bytes | None = None,
) -> Artifact:
    """An artifact of Triton's output; `keep` names the text stages to keep in it."""
    metadata = compiled.metadata
    hidden = tuple(Parameter(n, "*i8", hidden=n) for n in ("global_scratch", "profile_scratch"))
    data = compiled.stages[format] if binary is None else binary
    assert isinstance(data, bytes)
    return Artifact(
        target=target,
        format=format,
        entry=metadata["name"],
        binary=data,
        num_warps=metadata["num_warps"],
        warp_size=metadata["warp_size"],
        shared_bytes=metadata["shared"],
        parameters=compiled.parameters + hidden,
        global_scratch=Scratch(
            metadata.get("global_scratch_size", 0), metadata.get("global_scratch_align", 1)
        ),
        profile_scratch=Scratch(
            metadata.get("profile_scratch_size", 0), metadata.get("profile_scratch_align", 1)
        ),
        cluster=metadata.get("num_ctas", 1),
        cooperative=bool(metadata.get("launch_cooperative_grid", False)),
        early=bool(metadata.get("launch_pdl", False)),
        resources=resources,
        texts={
            n: t
            for n, t in compiled.stages.items()
            if n in keep and n in _TEXT_STAGES and isinstance(t, str)
        },
        stage_seconds=compiled.stage_seconds,
    )
