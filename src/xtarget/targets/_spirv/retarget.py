"""LLVM IR of AMD's flavour to LLVM IR that LLVM's SPIR-V back end takes: the rewrites, in order.

What a function call can express is not rewritten here but linked (see `library`).
"""

from __future__ import annotations

import re
from dataclasses import replace

from .aggregates import scalarize_vectors_of_one, split_struct_phis, use_multiply_high
from .asserts import lower_asserts
from .atomics import lower_atomics
from .bfloat import lower_bfloat
from .crosslane import specialize_dpp
from .dot_operands import place_operands
from .irtext import VALUE, Draft, Entry, UnsupportedError, split_list
from .printf import lower_printf

__all__ = ["CLOCK", "retarget"]

#: OpenCL's clock_read_device (cl_khr_kernel_clock).
CLOCK = "_Z17clock_read_devicev"
#: Numbers of our metadata: what `!nontemporal` refers to, and what says that invariants of a loop
#: stay inside (`tl.range(disable_licm=True)`); loops that say it have the numbers from there on.
_STREAMING, _NOT_HOISTED = 2, 3


def retarget(draft: Draft, entry: str) -> Entry:
    """Rewrite `draft` in place; `entry` is the name of its kernel."""
    strip_target(draft)
    use_multiply_high(draft)
    split_struct_phis(draft)
    scalarize_vectors_of_one(draft)
    asserts = lower_asserts(draft, entry)
    drop_inline_assembly(draft)
    read_clocks(draft)
    lower_printf(draft)
    specialize_dpp(draft)
    rename_address_spaces(draft)
    lower_bfloat(draft)
    lower_atomics(draft)
    return replace(make_kernel(draft, entry), asserts=asserts)


_DROPPED = re.compile(r"(?:source_filename|target |;|!|declare .*@llvm\.dbg)")
_ATTACHMENTS = re.compile(r"(?:, ![\w.]+ !\d+)+$")
#: What `.cs` of a store or load becomes: the device shall keep no room for it in its caches.
_NONTEMPORAL = re.compile(r", !nontemporal !\d+")
_LOOP = re.compile(r", !llvm\.loop !(\d+)")
_NODE = re.compile(r"!(\d+) = (?:distinct )?!\{(.*)\}$")
_LICM = '!"llvm.licm.disable"'


def strip_target(draft: Draft) -> None:
    """Remove what speaks of AMD or of debugging, and give shared memory its size."""
    size = max(-(-draft.layout.all_shared_bytes // 4) * 4, 16)  # `word_accesses` reads whole words
    loops = _loops_not_hoisted_from(draft.lines)
    result = []
    for line in draft.lines:
        if _DROPPED.match(line):
            continue
        if ", !" in line and (attachments := _ATTACHMENTS.search(line)):
            line = line[: attachments.start()] + _kept(attachments[0], loops)
        if line.startswith("@global_smem ="):
            line = f"@global_smem = internal addrspace(3) global [{size} x i8] undef, align 64"
        elif line.startswith("attributes #"):
            # Intel's CPU run time hangs on a call out of a kernel, so everything is inlined
            line = re.sub(r"\bnoinline\b", "alwaysinline", line)
        result.append(line.replace(" fastcc ", " ").replace(" amdgpu_kernel ", " "))
    draft.lines = _without_fences_of_barriers(result)
    draft.lines = place_operands(draft.lines, draft.layout.operands_at)
    if loops:
        draft.lines.append(f"!{_NOT_HOISTED} = !{{{_LICM}}}")
        draft.lines += (f"!{n} = distinct !{{!{n}, !{_NOT_HOISTED}}}" for n in loops.values())


def _kept(attachments: str, loops: dict[str, int]) -> str:
    """What stays of an instruction's metadata."""
    if _NONTEMPORAL.search(attachments):
        return f", !nontemporal !{_STREAMING}"
    loop = _LOOP.search(attachments)
    return f", !llvm.loop !{loops[loop[1]]}" if loop and loop[1] in loops else ""


def _loops_not_hoisted_from(lines: list[str]) -> dict[str, int]:
    """Our numbers of the loops whose invariants stay inside, by their numbers in `lines`."""
    nodes = {match[1]: match[2] for line in lines if (match := _NODE.match(line))}
    disabled = {f"!{number}" for number, content in nodes.items() if content == _LICM}
    loops = [n for n, content in nodes.items() if disabled.intersection(content.split(", "))]
    return {number: _NOT_HOISTED + 1 + i for i, number in enumerate(loops)}


def _without_fences_of_barriers(lines: list[str]) -> list[str]:
    """OpenCL's `barrier` orders memory by itself; a CPU would run each further fence per thread."""
    barriers = {i for i, line in enumerate(lines) if "@xt.amdgcn.s.barrier()" in line}
    fence = '  fence syncscope("workgroup") '
    beside = {i + step for i in barriers for step in (-1, 1)}
    return [line for i, line in enumerate(lines) if i not in beside or not line.startswith(fence)]


_GENERIC = re.compile(r"\bptr\b(?! addrspace)")
_CONSTANT = re.compile(r"(@(?!xt\.)[\w.$]+) = (.*?)\bconstant ")
_SCOPE = re.compile(r'syncscope\("([\w-]+)"\) ?')
#: LLVM's names of synchronisation scopes, AMD's to SPIR-V's; one without a name is the system.
_SCOPES = {
    "agent": "device",
    "workgroup": "workgroup",
    "wavefront": "subgroup",
    "singlethread": "singlethread",
}


def rename_address_spaces(draft: Draft) -> None:
    """AMD: 0 generic, 5 private. SPIR-V: 4 generic, 0 private. 1 (global) and 3 (shared) agree."""
    constants = set()
    result = []
    for line in draft.lines:
        line, quote, literal = line.partition(' c"')  # a kernel's own words may be "ptr", too
        if "ptr" in line:
            line = _GENERIC.sub("ptr addrspace(4)", line)
        line = line.replace(", addrspace(5)", "").replace(" addrspace(5)", "")
        if line[:1] == "@" and (match := _CONSTANT.match(line)):
            constants.add(match[1])
            line = f"{match[1]} = {match[2]}addrspace(1) constant {line[match.end() :]}"
        if "syncscope" in line:
            line = _SCOPE.sub(_scope, line)
        result.append(line + quote + literal)
    for name in constants:
        use = re.compile(rf"ptr addrspace\(4\) {re.escape(name)}\b")
        cast = f"ptr addrspace(4) addrspacecast (ptr addrspace(1) {name} to ptr addrspace(4))"
        result = [use.sub(cast, line) for line in result]
    draft.lines = result


def _scope(match: re.Match[str]) -> str:
    scope = match[1].removesuffix("-one-as")
    if scope in ("one-as", "system"):
        return ""
    if scope not in _SCOPES:
        raise UnsupportedError(f"the synchronisation scope {match[1]!r}", match[0].strip())
    return f'syncscope("{_SCOPES[scope]}") '


_ASSEMBLY = re.compile(r'\basm (?:sideeffect |alignstack )*"([^"]*)"')
_CLOCK = re.compile(r"s_memrealtime |s_memtime |s_sendmsg_rtn_b64 .*REALTIME|%globaltimer|%clock64")
_RESULT = re.compile(rf"(\s*{VALUE} = )(?:tail )?call i64 asm ")
_NO_EFFECT = re.compile(r"(?:s_waitcnt\w* .*|s_nop .*|;.*|\s*)")
#: AMD's message 131 asks for a counter of 100 MHz, which Triton multiplies by 10 for nanoseconds.
_MESSAGE = "amdgcn.s.sendmsg.rtn.i64"
_COUNTER = re.compile(rf"(\s*{VALUE} = )(?:tail )?call i64 @xt\.{re.escape(_MESSAGE)}\(i32 131\)")


def drop_inline_assembly(draft: Draft) -> None:
    """AMD's waits and hints mean nothing here; every other assembly but a clock's is an error."""
    result = []
    for line in draft.lines:
        match = _ASSEMBLY.search(line) if "asm " in line else None
        if match and not _CLOCK.search(match[1]):
            if not _NO_EFFECT.fullmatch(match[1]):
                raise UnsupportedError(f"inline assembly {match[1]!r}", match[1])
        else:
            result.append(line)
    draft.lines = result


def read_clocks(draft: Draft) -> None:
    """AMD's and NVIDIA's clocks are the device's, which counts nanoseconds."""
    result = []
    for line in draft.lines:
        match = _ASSEMBLY.search(line) if "asm " in line else None
        if match and (given := _RESULT.match(line)):
            result.append(f"{given[1]}{_clock(draft, match[1])}")
        elif counter := _COUNTER.match(line):
            time = draft.temporary()
            result.append(f"  {time} = {_clock(draft, f'llvm.{_MESSAGE}')}")
            result.append(f"{counter[1]}udiv i64 {time}, 10")
        else:
            result.append(line)
    named = [line for line in result if f"@xt.{_MESSAGE}(" in line]
    if all(line.startswith("declare ") for line in named):  # or it counts as called
        result = [line for line in result if line not in named]
    draft.lines = result


def _clock(draft: Draft, symbol: str) -> str:
    """The call that reads the clock, in place of `symbol`."""
    if not draft.layout.kernel_clock:
        raise UnsupportedError(
            "a clock (SPIR-V has one with the extension SPV_KHR_shader_clock only; the "
            "option kernel_clock=True says that the device has it)",
            symbol,
        )
    draft.declarations[CLOCK] = f"declare spir_func i64 @{CLOCK}()"
    return f"call spir_func i64 @{CLOCK}()"


def make_kernel(draft: Draft, entry: str) -> Entry:
    """Turn the function `entry` into a SPIR-V kernel with block and sub-group size."""
    layout = draft.layout
    opening = f"@{entry}("
    number = next(
        i for i, line in enumerate(draft.lines) if line.startswith("define ") and opening in line
    )
    line = draft.lines[number]
    start = line.index(opening) + len(opening)
    given, types, conversions = [], [], []
    aligned = dict(enumerate(layout.aligned))
    for parameter in split_list(line[start : line.rindex(")")]):
        name = parameter.split()[-1]
        pointer = re.match(r"ptr addrspace\((\d)\)", parameter)
        if pointer and (layout.integer_pointers or pointer[1] != "1"):
            type_ = "i64"
            conversions.append(f"  {name} = inttoptr i64 {name}.given to {pointer[0]}")
        elif pointer:
            type_ = pointer[0]
        elif parameter.startswith("i1 "):
            type_ = "i8"  # OpenCL's host side knows no bit
            conversions.append(f"  {name} = trunc i8 {name}.given to i1")
        else:
            type_ = parameter.split()[0]
        if not parameter.startswith(type_ + " "):
            given.append(f"{type_} {name}.given")
        elif pointer and (nbytes := aligned.get(len(given), 1)) > 1:
            given.append(f"{type_} align {nbytes} {name}")
        else:
            given.append(f"{type_} {name}")
        types.append("ptr" if type_.startswith("ptr") else type_)
    draft.lines[number] = (
        f"define spir_kernel void @{entry}({', '.join(given)}) convergent nounwind "
        "!reqd_work_group_size !0 !intel_reqd_sub_group_size !1 {"
    )
    draft.lines[number + 2 : number + 2] = conversions  # behind the label of the first block
    draft.lines += [
        f"!0 = !{{i32 {layout.num_warps * layout.warp_size}, i32 1, i32 1}}",
        f"!1 = !{{i32 {layout.warp_size}}}",
        f"!{_STREAMING} = !{{i32 1}}",
    ]
    if layout.fp_fusion:
        draft.lines.append("!opencl.enable.FP_CONTRACT = !{}")
    return Entry(entry, tuple(types), asserts=False, warp_size=layout.warp_size)
