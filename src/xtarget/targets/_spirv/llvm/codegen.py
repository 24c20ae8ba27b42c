"""llvmlite's part, in the child process: read, rename, rewrite, link, optimise, emit SPIR-V."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from ..library import definitions as library
from ..library.arithmetic import NEEDS_DEFINITION
from ..library.exponentials import CPU_EXP2, EXP2
from ..vectors.code import LANES
from ..vectors.vectorize import NotVectorizableError, vectorize
from .literals import in_old_style
from .passes import FOR_DEVICES, FOR_VECTORS, RETARGET, run_passes
from .printer import printed
from .reader import read
from .retarget import CLOCK
from .text import Entry, Layout, UnsupportedError

__all__ = ["EXAMPLE", "emit", "prepare", "warm_up"]

TRIPLE = "spirv64v1.4-unknown-unknown"
DATA_LAYOUT = (
    "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-"
    "n8:16:32:64-G1"
)


@cache
def _target() -> Any:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(TRIPLE)


def _machine(opt: int = 3) -> Any:
    """Make a new target machine for each use: LLVM 22's SPIR-V machine remembers the types of its
    last module."""
    return _target().create_target_machine(opt=opt)


#: A kernel with a helper of `library`, for `warm_up` and tests.
EXAMPLE = """
define void @example(ptr addrspace(1) %0) {
  %2 = call i32 @llvm.amdgcn.workitem.id.x()
  %3 = getelementptr i32, ptr addrspace(1) %0, i32 %2
  store i32 %2, ptr addrspace(1) %3, align 4
  ret void
}
declare i32 @llvm.amdgcn.workitem.id.x()
"""


def warm_up() -> None:
    """Load and initialise LLVM before the first request, with the tables of its passes and our
    patterns. It emits nothing, because that would leave state behind."""
    prepare(EXAMPLE, b"", "example", Layout(num_warps=1, warp_size=16, shared_bytes=0))


def prepare(text: str, bitcode: bytes, entry: str, layout: Layout) -> tuple[str, Entry]:
    """Optimised LLVM IR that LLVM's SPIR-V back end takes.

    Args:
        text, bitcode: Triton's LLVM IR in both forms; bitcode may be empty. It is tried first:
            LLVM reads bitcode of a newer LLVM more often than its text.
        entry: name of the kernel.
        layout: what else is known of it.

    Raises:
        UnsupportedError: the kernel needs something that SPIR-V does not have here.
    """
    module = _read(text, bitcode)
    _rename_intrinsics(module, cpu=layout.cpu_accesses)
    _run(module, "instruction_namer")
    rewritten = read(str(module), entry, layout)
    run_passes(rewritten, RETARGET)
    kernel = Entry(entry, rewritten.parameters, rewritten.asserts, layout.warp_size)

    module = llvm.parse_assembly(printed(rewritten))
    module.triple, module.data_layout = TRIPLE, DATA_LAYOUT
    for function in module.functions:
        if not function.is_declaration and function.name != entry:
            function.linkage = "internal"
            function.add_function_attribute("alwaysinline")
    _link_library(module, layout.warp_size)
    module.verify()
    one_thread = layout.vectors and layout.num_warps == 1 and layout.warp_size == LANES
    _optimise(module, 1 if one_thread else 2 if layout.vectors else 3)
    if _rename_intrinsics(module, cpu=layout.cpu_accesses):  # those that the optimiser has made
        _link_library(module, layout.warp_size)
        _run(module, "always_inliner", "instruction_combine", "global_dead_code_eliminate")
    if any(_undefined(module)):
        _link_library(module, layout.warp_size, late=True)
        _run(module, "always_inliner", "global_dead_code_eliminate")
    _refuse_foreign(module)
    kernel = replace(kernel, only_read=_only_read(module.get_function(entry)))
    if one_thread:
        try:
            module = _vectorized(module, entry, asserts=kernel.asserts)
        except NotVectorizableError:  # it stays one of many lanes
            _optimise(module, 2)
        else:
            kernel = replace(kernel, warp_size=1)
    final = read(str(module), entry, replace(layout, warp_size=kernel.warp_size))
    run_passes(final, FOR_DEVICES)
    return printed(final), kernel


def _only_read(function: Any) -> tuple[int, ...]:
    """Return the numbers of parameters whose memory is not written, as the optimiser knows."""
    known = (b"readonly", b"readnone")
    return tuple(
        number
        for number, argument in enumerate(function.arguments)
        if any(attribute in known for text in argument.attributes for attribute in text.split())
    )


def _vectorized(module: Any, entry: str, *, asserts: bool) -> Any:
    if asserts and _claims_messages(module.get_function(entry)):
        raise NotVectorizableError("an assertion")
    _run(module, "instruction_namer")
    rewritten = read(str(module), entry)
    run_passes(rewritten, FOR_VECTORS)
    module = llvm.parse_assembly(vectorize(rewritten))
    module.verify()
    clean = ("instruction_combine", "simplify_cfg", "sinking", "simplify_cfg")
    _run(module, *clean, "dead_code_elimination")
    return module


def _claims_messages(kernel: Any) -> bool:
    """Return whether an assertion is left: the first thread that fails claims the message."""
    return any(one.opcode == "cmpxchg" for block in kernel.blocks for one in block.instructions)


def emit(text: str) -> bytes:
    """Return SPIR-V for the result of `prepare`. LLVM ends the process if it fails."""
    if CLOCK in text:
        llvm.set_option("", "--spirv-ext=+SPV_KHR_shader_clock")
    # optimising again here would take four fifths of the time, and make the modules larger
    machine = _machine(opt=0)
    module = llvm.parse_assembly(text)
    module.verify()
    for function in module.functions:
        for block in function.blocks:
            # to keep a block's name, LLVM 22 marks an unrelated register of the function
            block.name = ""
    return bytes(machine.emit_object(module))


def _read(text: str, bitcode: bytes) -> Any:
    _target()
    if bitcode:
        try:
            return llvm.parse_bitcode(bitcode)
        except RuntimeError:
            pass  # the text may still be readable, and its error says more
    return llvm.parse_assembly(in_old_style(text))


def _rename_intrinsics(module: Any, *, cpu: bool) -> bool:
    """Turn the intrinsics that `library` defines into plain functions. Returns whether there were
    any."""
    found = False
    for function in module.functions:
        name = function.name
        if cpu and name in EXP2:
            function.name = CPU_EXP2
            found = True
        elif name.startswith("llvm.amdgcn.") or NEEDS_DEFINITION.match(name) or _on_bfloat(name):
            function.name = "xt." + name.removeprefix("llvm.")
            found = True
    return found


def _on_bfloat(name: str) -> bool:
    return name.startswith("llvm.") and name.endswith(".bf16")


def _undefined(module: Any) -> list[str]:
    return [f.name for f in module.functions if f.is_declaration and library.is_ours(f.name)]


def _refuse_foreign(module: Any) -> None:
    """Refuse calls of functions without a definition, which would fail or crash when the module is
    loaded."""
    for function in module.functions:
        name = function.name
        if function.is_declaration and not name.startswith(("_Z", "llvm.")) and name != "printf":
            raise UnsupportedError(f"the external function {name}", name)


def _link_library(module: Any, warp_size: int, *, late: bool = False) -> None:
    names = [name for name in _undefined(module) if late or not name.startswith("xt.late.")]
    text, unknown = library.assemble(names, warp_size, late=late)
    if unknown:
        names = [library.original_name(name) for name in unknown]
        raise UnsupportedError(", ".join(names), names[0])
    definitions = llvm.parse_assembly(text)
    definitions.triple, definitions.data_layout = TRIPLE, DATA_LAYOUT
    module.link_in(definitions)


def _optimise(module: Any, level: int) -> None:
    """LLVM's O1 to O3, but no vectors: a SPIR-V vector has at most 16 elements, and a device makes
    its vectors across the lanes of a sub-group.

    Where lanes become vectors here it is O1: O3 also makes two loops of one with a condition
    inside, and lanes would go through different ones; O2 takes twice the time of O1, and the same
    comes out of nearly all kernels.
    """
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.loop_vectorization = False
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(_machine(), options)
    builder.getModulePassManager().run(module, builder)


def _run(module: Any, *passes: str) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    builder = llvm.create_pass_builder(_machine(), options)
    manager = llvm.create_new_module_pass_manager()
    for name in passes:
        getattr(manager, f"add_{name}_pass")()
    manager.run(module, builder)
