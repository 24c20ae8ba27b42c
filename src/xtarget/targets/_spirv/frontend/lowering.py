"""Triton's IR to LLVM IR, through Triton's own passes.

Triton lowers to LLVM for NVIDIA and for AMD only. AMD's lowering serves here as that of any SIMT
machine: without matrix cores, buffer instructions and software pipelining, what is left of AMD in
the LLVM IR is a few dozen `llvm.amdgcn.*` intrinsics and calls of AMD's device library, which
`library` defines through OpenCL's built-in functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...._values.errors import CompileError
from ...._values.value_classes import value_class
from ..._triton.parsing import parse_module
from .cpu_options import DOT_ELEMENTS
from .dots import Loops, loop_over_dots
from .float8_casts import cast_by_float32
from .messages import adapted
from .reader import attribute, function_named, parameters
from .replicas import order_stores
from .structure import Editor, type_of
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


@value_class(frozen=True, slots=True)
class Lowered:
    """A kernel as LLVM IR for AMD's target, and the decisions of the lowering.

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


def _add(pm: Any, *passes: Callable[[Any], None]) -> None:
    for add in passes:
        add(pm)


def optimize_ttir(module: Any, *, debug: bool) -> Any:
    """The target-independent clean-up of Triton's IR; with `debug` there may be assertions."""
    from triton._C.libtriton import passes

    if debug:
        _inline_asserting(module)
    pm = _pass_manager(module)
    common, ttir = passes.common, passes.ttir
    common.add_inliner(pm)
    if _version() < (3, 8):
        ttir.add_rewrite_tensor_pointer(pm)
    _add(
        pm,
        ttir.add_rewrite_tensor_descriptor_to_pointer,
        common.add_canonicalizer,
        ttir.add_combine,
        ttir.add_reorder_broadcast,
        common.add_cse,
        ttir.add_triton_licm,
        common.add_symbol_dce,
        ttir.add_loop_unroll,
    )
    pm.run(module, "optimize_ttir")
    if widen_sums(module):
        _remove_dead_code(module)
    text = adapted(module, debug=debug)
    return module if text is None else parsed(text, module)


def _inline_asserting(module: Any) -> None:
    """Let Triton inline all functions if one of them has an assertion, `noinline` or not: a block
    whose assertion fails leaves the kernel, which it can do from the kernel only.
    """
    edit = Editor(module)
    entry = module.get_entry_func_name()
    beside: list[str] = []
    found, asserting = False, False
    for operation in edit.operations:  # those of a function are before it
        asserting = asserting or operation.name == "tt.assert"
        if operation.name == "tt.func":
            name = operation.handle.get_str_attr("sym_name")
            if name != entry:
                beside.append(name)
                found = found or asserting
            asserting = False
    for name in beside if found else ():
        module.get_function(name).set_attr("noinline", edit.get_bool_attr(False))


def _remove_dead_code(module: Any) -> None:
    """Remove the operations that our changes have replaced: Triton's bindings cannot erase them."""
    from triton._C.libtriton import passes

    pm = _pass_manager(module)
    passes.common.add_cse(pm)
    pm.run(module, "remove_dead_code")


def parsed(text: str, like: Any) -> Any:
    """A module of this text in the context of another."""
    return parse_module(like.context, text)


def lower_to_ttgir(
    module: Any,
    *,
    num_warps: int,
    warp_size: int,
    dot_bytes: int = 0,
    dot_elements: int = DOT_ELEMENTS,
) -> Any:
    """Give every tensor a layout over the threads of the block.

    Args:
        dot_bytes: shared memory that dots may take to be loops (see `dots`).
        dot_elements: of their sums that one thread holds.

    Triton's `coalesce` pass is left out: it gives each thread several neighbouring elements, which
    suits a GPU's wide loads, while a CPU run time makes vectors across threads and wants neighbours
    in neighbouring threads (add on 16 M floats: 9.2 GB/s without it, 3.7 with it).
    """
    from triton._C.libtriton import amd, ir, passes

    # The pass that takes scaled dots apart looks at the module's target. Integer dots must not see
    # it: it would widen their operands to floats.
    edit = Editor(module)
    names = {operation.name for operation in edit.operations}
    if "tt.dot_scaled" in names and _version() < (3, 8):
        first = next(o for o in edit.operations if o.name == "tt.dot_scaled")
        raise CompileError(
            f"tl.dot_scaled{edit.place(first)} needs Triton 3.8 or newer for SPIR-V: the pass that "
            "takes it apart is tied to tensor cores in older ones. Install a newer Triton, or "
            "scale the operands in the kernel and use tl.dot."
        )
    has_dots = not names.isdisjoint(("tt.dot", "tt.dot_scaled"))
    scaled = "tt.dot_scaled" in names or ("tt.dot" in names and not _has_bytes(edit))
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
    if dot_bytes and has_dots:
        pm.run(module, "optimize_ttgir")
        operand_bytes = loop_over_dots(module, Loops(num_warps, warp_size, dot_bytes, dot_elements))
        if operand_bytes:
            _remove_dead_code(module)
            attribute = ir.builder(module.context).get_int32_attr(operand_bytes)
            module.set_attr(_OPERAND_BYTES, attribute)
        pm = _pass_manager(module)
    common = passes.common
    _add(
        pm,
        passes.ttgpuir.add_remove_layout_conversions,
        passes.ttgpuir.add_fuse_nested_loops,
        common.add_canonicalizer,
        passes.ttir.add_triton_licm,
        common.add_canonicalizer,
        passes.ttgpuir.add_remove_layout_conversions,
        passes.ttgpuir.add_reduce_data_duplication,
        common.add_canonicalizer,
        common.add_cse,
        common.add_symbol_dce,
    )
    pm.run(module, "optimize_ttgir")
    if cast_by_float32(module, _version()):
        _remove_dead_code(module)
    order_stores(module)
    return module


def _has_bytes(edit: Editor) -> bool:
    """Return True if a tensor has 8-bit integers."""
    values = (value for operation in edit.operations for value in operation.results)
    return any(type_.shape and type_.element == "i8" for type_ in map(type_of, values))


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


def alignments(module: Any, entry: str) -> tuple[int, ...]:
    """The alignment in bytes of each parameter of a module that `lower_to_llvm` lowered."""
    function = function_named(module.str_nodebug(), "llvm.func", entry)
    found = (attribute(parameter, "tt.divisibility") for parameter in parameters(function))
    return tuple(int(number or 1) for number in found)


def with_lines(module: Any) -> str:
    """LLVM IR with the kernel's source lines, of a module that `lower_to_llvm` lowered."""
    from triton._C.libtriton import llvm, passes

    pm = _pass_manager(module)
    passes.llvmir.add_di_scope(pm)
    pm.run(module, "with_lines")
    llvm.init_targets()
    return str(llvm.to_module(module, llvm.context()))
