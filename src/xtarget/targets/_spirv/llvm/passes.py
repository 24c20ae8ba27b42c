"""The passes over LLVM IR, in order: the one list of all rewrites.

A pass takes a module and changes it. Each has a name and the reason why it is there; what it does
is in the docstring of its function. All passes of a group run over one reading of the module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...._values.value_classes import value_class
from ..library.crosslane import specialize_dpp
from ..vectors.short import take_apart
from .aggregates import scalarize_vectors_of_one, split_struct_phis, use_multiply_high
from .asserts import lower_asserts
from .atomics import lower_atomics
from .bfloat import lower_bfloat
from .divisors import define_divisors
from .dot_operands import place_operands
from .ir import Module
from .narrow import narrow
from .odd_vectors import sums_of_disjoint_bits, widen_odd_vectors
from .pairs import define_pairs
from .printf import lower_printf
from .recurrences import separate_recurrences
from .retarget import (
    drop_fences_of_barriers,
    drop_inline_assembly,
    make_kernel,
    read_clocks,
    rename_address_spaces,
    strip_target,
)
from .signs import flip_signs_in_integers
from .text import Layout
from .wide_indices import widen_indices
from .word_accesses import access_words

__all__ = ["ALL", "FOR_DEVICES", "FOR_VECTORS", "RETARGET", "Pass", "run_passes"]


@value_class(frozen=True, slots=True)
class Pass:
    """A rewrite of LLVM IR.

    Attributes:
        name: for messages and tests.
        run: changes a module in place.
        reason: why it is needed, in a paragraph.
        wanted: whether this kernel on this device needs it.
    """

    name: str
    run: Callable[[Module], None]
    reason: str
    wanted: Callable[[Layout], bool] = lambda layout: True


def run_passes(module: Module, passes: Sequence[Pass]) -> None:
    """Run those passes that the module's layout wants, in order."""
    for one in passes:
        if one.wanted(module.layout):
            one.run(module)


#: From LLVM IR of AMD's flavour to what LLVM's SPIR-V back end takes. What a function call can
#: express is not rewritten but linked (see `library`).
RETARGET = (
    Pass(
        "strip-target",
        strip_target,
        "Triton's module speaks of AMD: its triple, calling conventions, attributes, metadata. "
        "Debug information would name a compile unit that no longer exists, and shared memory is "
        "declared outside and without a size, while SPIR-V wants it inside and sized.",
    ),
    Pass(
        "drop-fences-of-barriers",
        drop_fences_of_barriers,
        "AMD's barrier does not order memory, so Triton puts fences beside it. OpenCL's barrier "
        "does, and a CPU's run time would execute each further fence once for every thread.",
    ),
    Pass(
        "place-operands",
        place_operands,
        "Dots that became loops keep their operands in memory, whose place Triton's IR cannot "
        "name. It calls a function of ours instead, whose result is a place in shared memory.",
    ),
    Pass(
        "use-multiply-high",
        use_multiply_high,
        "The high half of a 64-bit product is 128-bit arithmetic in LLVM. SPIR-V has no such "
        "integers, and OpenCL a function for the one thing that kernels want of them.",
    ),
    Pass(
        "define-divisors",
        define_divisors,
        "A load gives no value where its mask is false. LLVM knows that nothing is divided by such "
        "a value, takes the mask to be true and drops it, and stores go past an array's end.",
    ),
    Pass(
        "split-struct-phis",
        split_struct_phis,
        "Triton makes each thread's part of a tensor a struct and carries it through loops as one "
        "value. LLVM's SPIR-V back end ends its process on a phi of structs.",
    ),
    Pass(
        "scalarize-vectors-of-one",
        scalarize_vectors_of_one,
        "Triton's loads and stores are vectors, also of one element, and a vector of SPIR-V has "
        "at least two.",
    ),
    Pass(
        "lower-asserts",
        lower_asserts,
        "SPIR-V has no trap. A failed assertion writes its message into memory of the host and "
        "the block leaves the kernel.",
    ),
    Pass(
        "drop-inline-assembly",
        drop_inline_assembly,
        "AMD's waits and hints have no meaning here. Any other assembly does something that would "
        "be lost, so it is refused by name.",
    ),
    Pass(
        "read-clocks",
        read_clocks,
        "Reading a clock is assembly or an intrinsic of a GPU. SPIR-V has it as an extension.",
    ),
    Pass(
        "lower-printf",
        lower_printf,
        "AMD's device library collects a format and its arguments in several calls, for a host "
        "that prints them. OpenCL's printf takes them all at once.",
    ),
    Pass(
        "specialize-dpp",
        specialize_dpp,
        "AMD's move across lanes is steered by constants, and a definition for all of them is "
        "long. With the constants in the callee's name each definition is short; kernels call it "
        "hundreds of times.",
    ),
    Pass(
        "rename-address-spaces",
        rename_address_spaces,
        "AMD and SPIR-V number address spaces and name synchronisation scopes differently, and "
        "constants of a module have a space of their own here.",
    ),
    Pass(
        "lower-bfloat",
        lower_bfloat,
        "SPIR-V 1.4 has no bfloat16. It is carried as an integer of 16 bits and computed as a "
        "float, which has more than twice its bits: rounding twice is rounding once.",
    ),
    Pass(
        "lower-atomics",
        lower_atomics,
        "Core SPIR-V has atomic operations on integers of 32 and 64 bits only. All others are "
        "loops of compare-and-exchange.",
    ),
    Pass(
        "make-kernel",
        make_kernel,
        "SPIR-V's kernels have a calling convention, sizes of block and sub-group, and parameters "
        "that OpenCL's host side can give: no bits, and addresses as the run time passes them.",
    ),
)


def _for_cpus(layout: Layout) -> bool:
    return layout.cpu_accesses and layout.warp_size > 1


_WIDEN_ODD_VECTORS = Pass(
    "widen-odd-vectors",
    widen_odd_vectors,
    "The optimiser makes vectors that SPIR-V cannot have, such as `<128 x i1>` in memory. The "
    "same bits are carried in wider elements.",
)

#: Before a block of one warp becomes one thread (see `vectors`).
FOR_VECTORS = (
    _WIDEN_ODD_VECTORS,
    Pass(
        "take-apart",
        take_apart,
        "Where a layout changes, a lane stores or loads several elements at once. What all lanes "
        "have becomes a vector, so a lane's own vectors are taken apart first.",
    ),
)

#: From what LLVM's optimiser made to what devices' own compilers take.
FOR_DEVICES = (
    Pass(
        "define-pairs",
        define_pairs,
        "Products of pairs of bfloat16 stay one call up to here, so that a driver whose CPU has an "
        "instruction for it finds it. Others have the function.",
    ),
    _WIDEN_ODD_VECTORS,
    Pass(
        "sums-of-disjoint-bits",
        sums_of_disjoint_bits,
        "SPIR-V cannot say that the bits of an `or` are disjoint. As a sum it stays visible to the "
        "device as address arithmetic.",
    ),
    Pass(
        "access-words",
        access_words,
        "A CPU gathers words of 32 and 64 bits in one instruction. Narrower elements that are not "
        "neighbours are loaded one by one, with a branch around each.",
        _for_cpus,
    ),
    Pass(
        "widen-indices",
        widen_indices,
        "LLVM computes indices in 32 bits and widens the result, and a CPU's run time cannot see "
        "that neighbours stay neighbours when the sum could overflow.",
        _for_cpus,
    ),
    Pass(
        "separate-recurrences",
        separate_recurrences,
        "Intel's CPU compiler dies where a phi of a loop with barriers takes another phi of it. An "
        "operation between the two ends that.",
        _for_cpus,
    ),
    Pass(
        "narrow",
        narrow,
        "A run time may lack functions of halves, or pass wide vectors to functions wrongly "
        "(PoCL 6.0). Such calls go through floats, and through parts of the vectors.",
        lambda layout: not layout.half_math or layout.function_bytes > 0,
    ),
    Pass(
        "flip-signs-in-integers",
        flip_signs_in_integers,
        "Intel's CPU compiler takes the result of a negation behind a barrier to be the same for "
        "all threads. The sign bit is flipped in integers, with a mask that it does not know.",
        lambda layout: layout.warp_size > 1,
    ),
)

#: All passes.
ALL = RETARGET + FOR_VECTORS[1:] + FOR_DEVICES
