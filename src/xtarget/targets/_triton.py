"""The one call into Triton: from a compile request to compiled stages, for any back end.

Only `triton.compile(ASTSource, target=GPUTarget(...))` is used: Triton's JIT and its driver allow
one vendor a process. Works with Triton 3.6 to 3.9.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .._errors import CompileError, NoCompilerError, UnknownTargetError
from .._types import (
    Artifact,
    CompileRequest,
    DtypeConstant,
    Parameter,
    Resources,
    Scratch,
    Target,
    TypeText,
)

__all__ = ["Compiled", "compile_with_triton", "fingerprint", "make_artifact"]

MIN_VERSION, END_VERSION = (3, 6), (3, 10)
_INSTALL = 'pip install "xtarget[compile]"'
#: Variables that change nothing in a binary; every other TRITON_* or LLVM switch is part of the
#: fingerprint.
_NEUTRAL = (
    "TRITON_CACHE",
    "TRITON_HOME",
    "TRITON_DUMP",
    "TRITON_PRINT",
    "TRITON_DEFAULT_BACKEND",
    "TRITON_DISABLE_LINE_INFO",
)
_SWITCHES = (
    "TRITON_",
    "LLVM_",
    "MLIR_",
    "DISABLE_LLVM_OPT",
    "DISABLE_PTXAS_OPT",
    "PTXAS_",
    "AMDGCN_",
)
_TEXT_STAGES = ("ttir", "ttgir", "llir", "ptx", "amdgcn", "spvll")

# Triton's knobs are process-wide state, so one compilation at a time.
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Compiled:
    """What came out of `triton.compile`: stages by name and Triton's metadata."""

    stages: Mapping[str, str | bytes]
    metadata: Mapping[str, Any]
    parameters: tuple[Parameter, ...]


@cache
def fingerprint() -> str:
    """Identity of the installed Triton in about a millisecond: version, digest of its RECORD, and
    the size and modification time of libtriton (which a local build changes in place). Empty when
    Triton is not installed.
    """
    spec = importlib.util.find_spec("triton")
    if spec is None or not spec.submodule_search_locations:
        return ""
    root = Path(next(iter(spec.submodule_search_locations)))
    parts = []
    # the wheel's folder by hand: importlib.metadata alone takes 15 ms to import
    for record in sorted(root.parent.glob("triton-*.dist-info/RECORD")):
        parts += [record.parent.name, hashlib.sha256(record.read_bytes()).hexdigest()]
    for library in sorted((root / "_C").glob("libtriton*.so")):
        stat = library.stat()
        parts += [library.name, str(stat.st_size), str(stat.st_mtime_ns)]
    parts += [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name.startswith(_SWITCHES) and not name.startswith(_NEUTRAL)
    ]
    return "triton " + " ".join(parts)


@cache
def _triton() -> Any:
    """Import Triton once and check its version."""
    try:
        import triton
    except KeyboardInterrupt:
        # half a package would stay behind and fail in strange words at the next call
        for name in [n for n in sys.modules if n.partition(".")[0] == "triton"]:
            del sys.modules[name]
        raise
    except ImportError as error:
        raise NoCompilerError(
            f"no compiler is installed (import triton: {error}), and no binary of this kernel is "
            f"in the cache. Install one with: {_INSTALL}"
        ) from error
    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    if not MIN_VERSION <= version < END_VERSION:
        raise CompileError(
            f"Triton {triton.__version__} is not supported; this xtarget works with "
            f"{MIN_VERSION[0]}.{MIN_VERSION[1]} to {END_VERSION[0]}.{END_VERSION[1] - 1}. "
            f"Install one with: {_INSTALL}"
        )
    return triton


def _flatten(name: str, type_: TypeText) -> list[tuple[str, str]]:
    """(name, type) of a parameter's scalars; elements of tuples are `name.0`, `name.1`..."""
    if isinstance(type_, str):
        return [] if type_ == "constexpr" else [(name, type_)]
    return [pair for i, element in enumerate(type_) for pair in _flatten(f"{name}.{i}", element)]


def _path(name: str, arg_names: Sequence[str]) -> tuple[int, ...]:
    """Triton's index path of `shape.0`."""
    head, *rest = name.split(".")
    return (arg_names.index(head), *(int(r) for r in rest))


def _constant(value: Any, triton: Any) -> Any:
    if isinstance(value, DtypeConstant):
        return getattr(triton.language, value.name if value.name != "bool" else "int1")
    if isinstance(value, tuple):
        return tuple(_constant(v, triton) for v in value)
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
    called = [f for f in fn.__globals__.values() if hasattr(f, "raw_src")]
    function = next((f for f in (fn, *called) if getattr(f, "src", "") == source), None)
    if line is None or function is None:
        return f"{path}: {message}"
    before = next(i for i, text in enumerate(function.raw_src) if text.lstrip().startswith("def "))
    file = function.fn.__code__.co_filename
    return f"{file}:{function.starting_line_number + before + line - 1}: {message}"


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

    Raises:
        CompileError: no usable Triton, or it refuses the kernel; the message has Triton's text and
            the file.
        UnknownTargetError: Triton does not know the arch.
    """
    triton = _triton()
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    fn = request.source.load()
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
    source = ASTSource(
        fn,
        signature,
        constexprs={name: _constant(value, triton) for name, value in request.constants},
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
    from . import _triton_files  # it takes tempfile: nothing for who compiles nothing

    knobs = triton.knobs
    with _lock, ExitStack() as stack:
        for scope in (knobs.cache, knobs.compilation, knobs.runtime, knobs.language):
            stack.enter_context(scope.scope())
        # our cache is the only one; line info would put paths into the binary
        knobs.cache.dir = stack.enter_context(_triton_files.folder())
        knobs.cache.manager_class = _triton_files.manager()
        stack.enter_context(_triton_files.no_key())
        knobs.compilation.disable_line_info = not (request.line_info or locations)
        if fp32_dot and not knobs.language.fp32_default:
            knobs.language.fp32_default = fp32_dot
        try:
            kernel = triton.compile(
                source, target=GPUTarget(backend, arch, warp_size), options=chosen
            )
        except Exception as error:  # Triton raises anything from AssertionError to RuntimeError
            text = str(error)
            if "unsupported target" in text.lower() or "not a recognized processor" in text:
                raise UnknownTargetError(
                    f"Triton {triton.__version__} does not know {target}: {error}"
                ) from error
            raise CompileError(
                f"kernel {request.source.name} did not compile for {target}: "
                f"{_located(error, fn, request.source.path)}"
            ) from error
        stages = {name: kernel.asm[name] for name in kernel.asm if name != "source"}
    return Compiled(stages, kernel.metadata._asdict(), parameters)


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
        resources=resources,
        texts={
            n: t
            for n, t in compiled.stages.items()
            if n in keep and n in _TEXT_STAGES and isinstance(t, str)
        },
    )
