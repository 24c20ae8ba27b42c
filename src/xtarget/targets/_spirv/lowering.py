"""Triton's IR to LLVM IR, through Triton's own passes.

Triton lowers to LLVM for NVIDIA and for AMD only. AMD's lowering serves here as that of any SIMT
machine: without matrix cores, buffer instructions and software pipelining, what is left of AMD in
the LLVM IR is a few dozen `llvm.amdgcn.*` intrinsics and calls of AMD's device library, which
`library` defines through OpenCL's built-in functions.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from typing import Any

from ..._errors import CompileError
from .asserts import mark_in_regions
from .dots import Loops, loop_over_dots
from .float8_casts import cast_by_float32
from .places import place_of_operation
from .printf import plain_prefixes
from .replicas import order_stores
from .wide_sums import widen_sums

__all__ = [
    "Lowered",
    "alignments",
    "lower_to_llvm",
    "lower_to_ttgir",
    "optimize_ttir",
    "parsed",
    "with_lines",
]

#: Given to AMD's accelerate-matmul pass: an arch without matrix cores, so that the pass does no
#: more than widen the operands of dots to what plain multiply-add takes.
_ARCH_WITHOUT_MATRIX_CORES = "gfx900"
#: Given to the common accelerate-matmul pass: no tensor cores, so that it does no more than take
#: scaled dots apart.
_TARGET_WITHOUT_TENSOR_CORES = "cuda:60"
#: Attribute of a module: shared memory for its dots that are loops. It stands in the module, so
#: that IR which was dumped and is compiled again still has it.
_OPERAND_BYTES = "ttg.operand-bytes"


@dataclass(frozen=True, slots=True)
class Lowered:
    """A kernel as LLVM IR of AMD's flavour, and what the lowering decided about it.

    Attributes:
        text: LLVM IR.
        bitcode: the same; empty where this Triton cannot write it (before 3.9).
        shared_bytes: shared memory of a block.
        operand_bytes: further shared memory, for dots that are loops.
        num_warps: warps of a block.
        warp_size: threads of a warp.
        scratch_bytes, scratch_align: global memory that the kernel wants for each block.
    """

    text: str
    bitcode: bytes
    shared_bytes: int
    operand_bytes: int
    num_warps: int
    warp_size: int
    scratch_bytes: int
    scratch_align: int


def _version() -> tuple[int, int]:
    import triton

    major, minor = triton.__version__.split(".")[:2]
    return int(major), int(minor)


def _arch() -> str:
    """Chooses the patterns of the lowering: waves of 32 and few special instructions. For other
    archs Triton 3.8 asserts on warps of less than 32 where a layout changes.
    """
    return "gfx1201" if _version() == (3, 8) else "gfx1100"


def _pass_manager(module: Any) -> Any:
    from triton._C.libtriton import ir

    pm = ir.pass_manager(module.context)
    pm.enable_debug()  # as Triton's own back ends do: MLIR_ENABLE_DUMP and its like work
    return pm


def optimize_ttir(module: Any, *, debug: bool) -> Any:
    """The target-independent clean-up of Triton's IR; with `debug` there may be assertions."""
    from triton._C.libtriton import passes

    pm = _pass_manager(module)
    passes.common.add_inliner(pm)
    if _version() < (3, 8):
        passes.ttir.add_rewrite_tensor_pointer(pm)
    passes.ttir.add_rewrite_tensor_descriptor_to_pointer(pm)
    passes.common.add_canonicalizer(pm)
    passes.ttir.add_combine(pm)
    passes.ttir.add_reorder_broadcast(pm)
    passes.common.add_cse(pm)
    passes.ttir.add_triton_licm(pm)
    passes.common.add_symbol_dce(pm)
    passes.ttir.add_loop_unroll(pm)
    pm.run(module, "optimize_ttir")
    before = module.str()
    text = plain_prefixes(widen_sums(before))
    if debug:
        text = mark_in_regions(text)
    return module if text == before else parsed(text, module)


def parsed(text: str, like: Any) -> Any:
    """A module of this text in the context of another."""
    from triton._C.libtriton import ir

    with tempfile.NamedTemporaryFile("w", suffix=".ttir", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        module = ir.parse_mlir_module(file.name, like.context)
    module.context = like.context
    return module


def lower_to_ttgir(module: Any, *, num_warps: int, warp_size: int, dot_bytes: int = 0) -> Any:
    """Give every tensor a layout over the threads of the block.

    Args:
        dot_bytes: shared memory that dots may take to be loops (see `dots`).

    Triton's `coalesce` pass is left out: it gives each thread several neighbouring elements, which
    suits a GPU's wide loads, while a CPU run time makes vectors across threads and wants neighbours
    in neighbouring threads (add on 16 M floats: 9.2 GB/s without it, 3.7 with it).
    """
    from triton._C.libtriton import amd, passes

    # The pass that takes scaled dots apart looks at the module's target. Integer dots must not see
    # it: it would widen their operands to floats.
    text = str(module)
    if "tt.dot_scaled" in text and _version() < (3, 8):
        place = place_of_operation(re.compile(r"tt\.dot_scaled"), module.str())
        raise CompileError(
            f"tl.dot_scaled{place} needs Triton 3.8 or newer for SPIR-V: the pass that takes it "
            "apart is tied to tensor cores in older ones. Install a newer Triton, or scale the "
            "operands in the kernel and use tl.dot."
        )
    scaled = "tt.dot_scaled" in text or ("tt.dot " in text and "xi8" not in text)
    scaled = scaled and _version() >= (3, 8)
    pm = _pass_manager(module)
    target = _TARGET_WITHOUT_TENSOR_CORES if scaled else f"hip:{_arch()}"
    passes.ttir.add_convert_to_ttgpuir(pm, target, num_warps, warp_size, 1)
    pm.run(module, "convert_to_ttgir")

    pm = _pass_manager(module)
    passes.ttgpuir.add_f32_dot_tc(pm, False)
    passes.ttgpuir.add_remove_layout_conversions(pm)
    passes.ttgpuir.add_optimize_thread_locality(pm)
    if scaled:
        passes.ttgpuir.add_accelerate_matmul(pm)
    amd.passes.ttgpuir.add_accelerate_matmul(pm, _ARCH_WITHOUT_MATRIX_CORES, 0, 1)
    barrier = "ttg.barrier all" if _version() >= (3, 7) else "gpu.barrier"
    if dot_bytes and "tt.dot" in text:
        pm.run(module, "optimize_ttgir")
        before = module.str()
        after, operand_bytes = loop_over_dots(
            before, Loops(num_warps, warp_size, dot_bytes, barrier)
        )
        if operand_bytes:
            module = parsed(_marked(after, operand_bytes), module)
        pm = _pass_manager(module)
    passes.ttgpuir.add_remove_layout_conversions(pm)
    passes.ttgpuir.add_fuse_nested_loops(pm)
    passes.common.add_canonicalizer(pm)
    passes.ttir.add_triton_licm(pm)
    passes.common.add_canonicalizer(pm)
    passes.ttgpuir.add_remove_layout_conversions(pm)
    passes.ttgpuir.add_reduce_data_duplication(pm)
    passes.common.add_canonicalizer(pm)
    passes.common.add_cse(pm)
    passes.common.add_symbol_dce(pm)
    pm.run(module, "optimize_ttgir")
    before = module.str()
    after = cast_by_float32(order_stores(before, barrier))
    if after != before:
        module = parsed(after, module)
    return module


def _marked(text: str, operand_bytes: int) -> str:
    """A module's text with the attribute `_OPERAND_BYTES`."""
    start = "module attributes {"
    return text.replace(start, f'{start}"{_OPERAND_BYTES}" = {operand_bytes} : i32, ', 1)


def lower_to_llvm(module: Any, *, num_warps: int, fp_fusion: bool) -> Lowered:
    """LLVM IR, not yet optimised (Triton's own LLVM would make vectors that SPIR-V cannot have)."""
    from triton._C.libtriton import amd, llvm, passes

    version, arch = _version(), _arch()
    gpu = amd.passes.ttgpuir
    pm = _pass_manager(module)
    passes.convert.add_scf_to_cf(pm)
    passes.gluon.add_inliner(pm)
    passes.convert.add_index_to_llvmir(pm)
    # The passes' parameters are private to Triton and differ: read off the bindings of 3.6 to 3.9.
    if version >= (3, 8):
        gpu.add_allocate_shared_memory(pm, arch)
    else:
        gpu.add_allocate_shared_memory(pm)
    if version >= (3, 9):
        gpu.add_membar(pm, arch)
    passes.ttgpuir.add_allocate_global_scratch_memory(pm)
    gpu.add_to_llvmir(pm, arch, False)
    if version >= (3, 7):
        gpu.add_warp_specialize_to_llvm(pm, arch)
    passes.common.add_canonicalizer(pm)
    passes.common.add_cse(pm)
    passes.convert.add_cf_to_llvmir(pm)
    passes.convert.add_arith_to_llvmir(pm)
    passes.common.add_canonicalizer(pm)
    passes.common.add_cse(pm)
    passes.common.add_symbol_dce(pm)
    if version >= (3, 7):
        gpu.add_builtin_func_to_llvmir(pm, arch, False)
    else:
        gpu.add_builtin_func_to_llvmir(pm, False)
    if version >= (3, 8):
        passes.convert.add_reconcile_unrealized_casts(pm)
    pm.run(module, "lower_to_llvm")

    def attribute(name: str, default: int) -> int:
        value = module.get_int_attr(name)
        return default if value is None else int(value)

    llvm.init_targets()
    context = llvm.context()
    text = str(llvm.to_module(module, context))
    return Lowered(
        text=text,
        bitcode=llvm.to_bitcode(text, fp_fusion) if version >= (3, 9) else b"",
        shared_bytes=attribute("ttg.shared", 0),
        operand_bytes=attribute(_OPERAND_BYTES, 0),
        num_warps=attribute("ttg.total-num-warps", attribute("ttg.num-warps", num_warps)),
        warp_size=attribute("ttg.threads-per-warp", 32),
        scratch_bytes=attribute("ttg.global_scratch_memory_size", 0),
        scratch_align=attribute("ttg.global_scratch_memory_alignment", 1),
    )


_PARAMETER = re.compile(r"%[\w.]+: [^{,]*(?:\{([^}]*)\})?")


def alignments(module: Any, entry: str) -> tuple[int, ...]:
    """To how many bytes each parameter of a module that `lower_to_llvm` lowered is aligned."""
    opening = f"llvm.func @{entry}("
    line = next(line for line in module.str_nodebug().splitlines() if opening in line)
    found = []
    for attributes in _PARAMETER.findall(line[line.index(opening) + len(opening) :]):
        match = re.search(r"tt\.divisibility = (\d+)", attributes)
        found.append(int(match[1]) if match else 1)
    return tuple(found)


def with_lines(module: Any) -> str:
    """LLVM IR with the kernel's source lines, of a module that `lower_to_llvm` lowered."""
    from triton._C.libtriton import llvm, passes

    pm = _pass_manager(module)
    passes.llvmir.add_di_scope(pm)
    pm.run(module, "with_lines")
    llvm.init_targets()
    return str(llvm.to_module(module, llvm.context()))
