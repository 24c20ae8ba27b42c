"""The part that Triton sees: a back end for `GPUTarget("spirv", "spirv64", sub-group size)`.

This module imports Triton; import it only where something is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType, ModuleType
from typing import Any, NoReturn, Self

import triton
from triton.backends import Backend, backends
from triton.backends.compiler import BaseBackend, Language
from triton.backends.driver import DriverBase

from ...._system.locks import Lock
from ...._values.errors import CompileError
from ..._triton.front_end_fixes import mend_front_end
from ..llvm.text import Layout
from ..sources import digest
from ..versions import check, llvmlite_version
from ..worker.client import EmitError, UnsupportedCodeError, worker
from . import blocks, lowering
from .diagnose import Stage, optimized, reason
from .float8 import convert_fp8e4b15
from .options import CAPABILITIES, HINTS, NAME, Options
from .structure import place_of_first

__all__ = ["NAME", "Options", "SpirvBackend", "register"]

#: Of a SPIR-V module. Source: SPIR-V Specification 1.6, section 3.31 (capabilities).
_HEADER_WORDS = 5
_OP_CAPABILITY = 17 | 2 << 16
#: Capability: the option that says whether the device has it, what needs it, and how the name of
#: such an operation of Triton's IR begins, and which types it has.
_OPTIONAL = {
    10: ("fp64", "64-bit floats", "", ("f64",)),
    9: ("fp16", "16-bit floats", "", ("f16",)),
    12: ("int64_atomics", "64-bit atomic operations", "tt.atomic_", ("i64", "f64")),
}

_registering = Lock()


class SpirvBackend(BaseBackend):  # type: ignore[misc]  # Triton has no types
    """Triton's way through `lowering` and the child process."""

    #: Tells xtarget's back ends from others of the name; `xtarget_triton` has one too.
    OWNER = "xtarget"
    supports_native_tensor_specialization = False
    binary_ext = "spirv"
    #: Options of compilations that do not say them.
    defaults: Mapping[str, Any] = MappingProxyType({})
    #: LLVM is wanted in this process's own child, not in another process's.
    _starts_llvm = True

    @classmethod
    def checked(cls, target: Any, defaults: Mapping[str, Any]) -> Self:
        """A back end for Triton's own compiling and launching (`xtarget_triton`), with these
        options where a kernel does not say them.

        Raises:
            CompileError: this Triton and llvmlite were not tested together.
        """
        check(triton.__version__)
        mend_front_end()
        backend = cls(target)
        backend.defaults = defaults
        return backend

    @staticmethod
    def supports_target(target: Any) -> bool:
        return bool(target.backend == NAME)

    def hash(self) -> str:
        return f"{NAME}-{digest()}-llvmlite-{llvmlite_version()}"

    def parse_options(self, options: dict[str, Any]) -> Options:
        # `xtarget._triton_backend` knows the device; triton.compile is given a plain target
        device = getattr(self.target, "compile_options", {})
        known = {
            name: value
            for name, value in {**self.defaults, **device, **options}.items()
            if name in Options.__dataclass_fields__ and value is not None
        }
        known.setdefault("warp_size", int(self.target.warp_size))  # triton.tools gives a text
        known["arch"] = str(self.target.arch)
        known["num_ctas"] = 1  # SPIR-V has no clusters, which only spread the work of a block
        known["extern_libs"] = tuple(dict(known.get("extern_libs", {})).items())
        language = triton.knobs.language
        known.setdefault("enable_fp_fusion", language.default_fp_fusion)
        if getattr(language, "force_disable_fp_fusion", False):  # from Triton 3.9 on
            known["enable_fp_fusion"] = False
        made = Options(**known)
        # Triton refuses a keyword that no attribute is named after
        vars(made).update({name: options[name] for name in options.keys() & HINTS})
        return made

    def pack_metadata(self, metadata: Any) -> tuple[int, int, int]:
        return (metadata.num_warps, metadata.num_ctas, metadata.shared)

    def get_codegen_implementation(self, options: Options) -> dict[str, Any]:
        return {
            "min_dot_size": lambda lhs, rhs: (1, 1, 1),
            "convert_custom_types": convert_fp8e4b15,
        }

    def get_module_map(self) -> dict[str, Any]:
        return {"triton.language.extra.libdevice": _libdevice()}

    def load_dialects(self, context: Any) -> None:
        from triton._C.libtriton import amd

        amd.load_dialects(context)

    def add_stages(
        self, stages: dict[str, Any], options: Options, language: Any = Language.TRITON
    ) -> None:
        if language != Language.TRITON:
            raise CompileError(
                "Gluon kernels cannot be compiled for SPIR-V: they name a GPU's own."
            )
        if triton.knobs.compilation.store_binary_only:
            raise CompileError(
                "TRITON_STORE_BINARY_ONLY cannot be used for SPIR-V: of the files of a kernel it "
                "keeps those named cubin, hsaco or json, and the SPIR-V would be lost. Unset it."
            )
        if self._starts_llvm:
            worker.start()  # it loads LLVM while Triton works

        def ttir(module: Any, metadata: dict[str, Any]) -> Any:
            source.append(module.str())
            with _explained("ttir", source, options, options.num_warps, options.warp_size):
                return lowering.optimize_ttir(module, debug=options.debug)

        def with_layouts(module: Any, block: tuple[int, int], metadata: dict[str, Any]) -> Any:
            metadata["num_warps"], metadata["warp_size"] = block
            with _explained("ttgir", source, options, *block):
                return lowering.lower_to_ttgir(
                    module,
                    num_warps=block[0],
                    warp_size=block[1],
                    dot_bytes=options.dot_bytes,
                    dot_elements=options.dot_elements,
                )

        def ttgir(module: Any, metadata: dict[str, Any]) -> Any:
            block = _block(module, options)
            if options.lanes == "vectors" and options.num_warps == 1:
                threads = _block(module, replace(options, lanes="threads"))
                if threads != block:
                    fallback.append((module.str(), threads))
            return with_layouts(module, block, metadata)

        def spirv(text: str, metadata: dict[str, Any]) -> bytes:
            binary = made.pop(text, b"") or worker.emit(text)
            has = {name: getattr(options, name) for name in CAPABILITIES}
            _check_capabilities(binary, has, lambda: optimized("".join(source), options.debug))
            return binary

        source: list[str] = []  # the front end's IR with locations, for messages
        stages["ttir"] = ttir
        stages["ttgir"] = ttgir
        made: dict[str, bytes] = {}
        #: Triton's IR, and the block that it gets if the one asked for stays one of many threads.
        fallback: list[tuple[str, tuple[int, int]]] = []

        def to_llvm(module: Any, metadata: dict[str, Any]) -> tuple[str, bytes]:
            num_warps = metadata["num_warps"]
            with _explained("llir", source, options, num_warps, metadata["warp_size"]):
                entry = module.get_entry_func_name()
                lowered = lowering.lower_to_llvm(
                    module, num_warps=num_warps, fp_fusion=options.enable_fp_fusion
                )
            return self._llir(module, entry, lowered, metadata, options)

        def llir(module: Any, metadata: dict[str, Any]) -> str:
            text, binary = to_llvm(module, metadata)
            if fallback and metadata["warp_size"] != 1:  # it could not become one thread
                ttir_text, block = fallback.pop()
                again = with_layouts(lowering.parsed(ttir_text, module), block, metadata)
                text, binary = to_llvm(again, metadata)
            made[text] = binary
            return text

        stages["llir"] = llir
        stages["spirv"] = spirv

    def _llir(
        self,
        module: Any,
        entry: str,
        lowered: lowering.Lowered,
        metadata: dict[str, Any],
        options: Options,
    ) -> tuple[str, bytes]:
        layout = Layout(
            num_warps=lowered.num_warps,
            warp_size=lowered.warp_size,
            shared_bytes=lowered.shared_bytes,
            operand_bytes=lowered.operand_bytes,
            integer_pointers=options.pointers == "integer",
            fp_fusion=options.enable_fp_fusion,
            fp64=options.fp64,
            half_math=options.half_math,
            function_bytes=options.function_bytes,
            kernel_clock=options.kernel_clock,
            vectors=options.lanes == "vectors",
            aligned=lowering.alignments(module, entry) if "!nontemporal" in lowered.text else (),
            cpu_accesses=options.cpu_accesses,
        )
        try:
            try:
                text, kernel, binary = worker.build(lowered.text, lowered.bitcode, entry, layout)
            except EmitError:
                if not (layout.vectors and layout.num_warps == 1):
                    raise
                # LLVM 22 ends on some operations of vectors: without, then
                layout = replace(layout, vectors=False)
                text, kernel, binary = worker.build(lowered.text, lowered.bitcode, entry, layout)
        except UnsupportedCodeError as error:
            from .places import place_of  # it loads the reader of LLVM IR

            place = place_of(error.symbol, lowering.with_lines(module))
            raise UnsupportedCodeError(error.what, error.symbol, place) from error
        metadata.update(
            name=entry,
            shared=layout.all_shared_bytes,
            num_warps=lowered.num_warps,
            warp_size=kernel.warp_size,
            tensordesc_meta=[],
            global_scratch_size=lowered.scratch_bytes,
            global_scratch_align=lowered.scratch_align,
            profile_scratch_size=0,
            profile_scratch_align=1,
            entry_parameters=kernel.parameters,
            asserts=kernel.asserts,
            only_read=kernel.only_read,
        )
        return text, binary


def _block(module: Any, options: Options) -> tuple[int, int]:
    """Warps of the block and threads of a warp."""
    work = blocks.work_of(module)
    warp_size = blocks.warp_size(work, options.warp_size)
    if options.lanes == "vectors" and options.num_warps == 1:
        return 1, warp_size  # or it would not be one thread
    elements = options.thread_elements
    return blocks.num_warps(
        work, options.num_warps, warp_size=warp_size, thread_elements=elements
    ), warp_size


@contextmanager
def _explained(
    name: str, source: list[str], options: Options, num_warps: int, warp_size: int
) -> Iterator[None]:
    """Add the reason to a failure of Triton's passes, whose exception has none."""
    try:
        yield
    except RuntimeError as error:
        stage = Stage(
            name,
            "".join(source),
            num_warps,
            warp_size,
            options.dot_bytes,
            options.enable_fp_fusion,
            options.debug,
        )
        why = reason(stage) or "Triton gave no reason"
        raise CompileError(f"Triton's passes cannot lower the kernel to {name}: {why}.") from error


class _NoDriver(DriverBase):  # type: ignore[misc]  # Triton has no types
    """Never active: Triton's own launching goes on with the machine's GPU. xtarget launches."""

    @staticmethod
    def is_active() -> bool:
        return False

    def get_current_target(self) -> NoReturn:
        raise NotImplementedError("SPIR-V kernels are launched by xtarget, not by Triton.")

    get_active_torch_device = map_python_to_cpp_type = get_benchmarker = get_current_target
    get_device_interface = get_empty_cache_for_benchmark = get_current_target


def register() -> None:
    """Make the back end known to Triton. May be called again, and from any thread.

    Raises:
        CompileError: this Triton and llvmlite were not tested together, or another package already
            gave Triton a back end of this name.
    """
    check(triton.__version__)
    with _registering:
        present = backends.setdefault(NAME, Backend(compiler=SpirvBackend, driver=_NoDriver))
    ours = getattr(present.compiler, "OWNER", None) == SpirvBackend.OWNER
    if not ours:
        raise CompileError(
            f"Triton already has a back end named {NAME!r} ({present.compiler.__module__}), so "
            "xtarget cannot add its own. Uninstall the package it comes from."
        )


def _libdevice() -> ModuleType:
    """Return a module in place of `triton.language.extra.libdevice`: AMD's functions, and
    NVIDIA's where AMD has none of the name. `library` defines them in LLVM IR, which only LLVM's
    child process reads.
    """
    from triton.language.extra.cuda import libdevice as nvidia
    from triton.language.extra.hip import libdevice as amd

    both = ModuleType("xtarget.libdevice")
    for source in (nvidia, amd):
        both.__dict__.update({k: v for k, v in vars(source).items() if not k.startswith("_")})
    return both


def _check_capabilities(
    binary: bytes, options: Mapping[str, bool], ttir: Callable[[], Any]
) -> None:
    """Refuse a module that uses capabilities which the options exclude.

    Args:
        binary: SPIR-V.
        options: by name.
        ttir: gives the kernel's module of Triton, with locations.

    Raises:
        CompileError: it wants it; the message has the line.
    """
    words = memoryview(binary).cast("I")
    at = _HEADER_WORDS
    while at < len(words) and words[at] == _OP_CAPABILITY:
        option, what, prefix, types = _OPTIONAL.get(words[at + 1], ("", "", "", ()))
        if option and not options[option]:
            place = place_of_first(ttir(), prefix, types)
            raise CompileError(
                f"the kernel uses {what}{place}, and the option "
                f"{option}=False says that the device has none. Use narrower types, or compile "
                f"for a device that has them with {option}=True."
            )
        at += 2
