"""device_assert: a message in memory that the host reads, and a block that stops.

SPIR-V has no trap. A thread whose assertion fails writes the message, once for all threads, behind
the address in a hidden parameter of the entry; then the whole block leaves the kernel before it
does what the assertion was to prevent. Only kernels with assertions have the parameter.
"""

from __future__ import annotations

import re

from ..library.helpers import builtin, function
from .ir import Block, Function, Instruction, Line, Module
from .operands import parameters_end
from .printf import quoted, strings
from .reader import instructions
from .text import ALONE, UnsupportedError

__all__ = ["FLAG_BYTES", "define", "lower_asserts"]

#: Layout of the memory behind the hidden parameter: 32-bit words for "there is a message", its
#: length, and the block's x, y, z; then the text. `targets/_objects/asserts.py` reads it.
FLAG_BYTES, TEXT_AT = 4096, 32
_PARAMETER = "ptr addrspace(1) %xt.assert.memory"
_STOP = "@xt.assert.failed"

_MESSAGE = re.compile(r"device assertion failed: '(.*)', in (.*) at (.*):(\d+)\s*$", re.S)
_BARRIER = "  call void @xt.amdgcn.s.barrier()"
#: Functions that say the message of a failed assertion, and what stands around them.
_REPORTS = ("__ockl_printf", "__ockl_fprintf", "__triton_assert_fail", "xt.amdgcn.s.barrier")

#: Where the message of a failed assertion is said, on Tritons that have a function for it.
_TELLS = "__triton_assert_fail"


def _is_trap(one: Instruction) -> bool:
    if one.op != "call" or "trap" not in one.text:
        return False
    return one.callee == "llvm.trap" or (one.assembly or "").startswith("s_trap ")


def lower_asserts(module: Module) -> None:
    """Replace messages and traps.

    Raises:
        UnsupportedError: one is in a function beside the kernel, which a block cannot leave.
    """
    if not any(map(_is_trap, module.code())):
        return
    for one in module.functions:
        if one.name not in (module.entry, _TELLS) and any(map(_is_trap, one.code())):
            raise UnsupportedError(
                f"an assertion in the function {one.name}, which is not inlined", one.name
            )
    module.asserts = True
    constants = _lowered(module, strings(module))
    module.items = [
        item
        for item in module.items
        if item.name != (_TELLS if isinstance(item, Function) else "llvm.trap")
    ]
    flag = f"{_STOP} = internal addrspace(3) global i32 undef, align 4"
    module.items[:0] = [Line("global", text, text.split(" ")[0][1:]) for text in (flag, *constants)]
    if not any(line.name == "xt.amdgcn.s.barrier" for line in module.lines("declare")):
        module.declarations["xt.amdgcn.s.barrier"] = "declare void @xt.amdgcn.s.barrier()"


def _is_report(one: Instruction) -> bool:
    return one.op == "fence" or (one.op == "call" and one.callee.startswith(_REPORTS))


def _lowered(module: Module, texts: dict[str, str]) -> list[str]:
    """Give the kernel a hidden parameter, and stops instead of traps; constants for messages."""
    kernel = module.kernel
    constants: list[str] = []
    # what became of each block: a stop takes it apart, and the last part has its end
    parts = {block.label: [block] for block in kernel.blocks}
    for label in list(parts):
        block = parts[label][-1]
        trap = next((n for n, one in enumerate(block.code) if _is_trap(one)), None)
        if trap is None:
            continue
        report = [one for one in block.code[:trap] if _is_report(one)]
        named = [name for one in report for name in one.symbols() if name in texts]
        if not named:
            raise UnsupportedError("a trap without a message")
        kept = [one for one in block.code[:trap] if not _is_report(one)]
        alone = ALONE in texts[named[0]]
        said = texts[named[0]].replace(ALONE, "")
        text = _shortened(said, kernel.name).encode()[: FLAG_BYTES - TEXT_AT]
        constant = f"@xt.assert.text.{len(constants)}"
        constants.append(f"{constant} = internal addrspace(1) constant {quoted(text)}, align 1")
        kept += instructions(
            "  " + module.call("void", "xt.assert.fail", _PARAMETER,
                               f"ptr addrspace(1) {constant}", f"i32 {len(text)}"),
            f"  store i32 1, ptr addrspace(3) {_STOP}, align 4",
        )  # fmt: skip
        rest = block.code[trap + 1 :]
        block.code = [*kept, *rest]
        if alone:  # the block stops at its next assertion
            continue
        if rest[0].op == "br" and not rest[0].operands:
            _stop_at(module, parts[rest[0].parts.labels[0][1:]], 0)
        else:  # the condition was known to be false, and the block was merged with what follows
            _stop_at(module, parts[label], len(kept), last=True)
    first = kernel.blocks[0]
    first.code[:0] = instructions(f"  store i32 0, ptr addrspace(3) {_STOP}, align 4", _BARRIER)
    end = parameters_end(kernel.head)
    comma = "" if kernel.head[end - 1] == "(" else ", "
    kernel.head = f"{kernel.head[:end]}{comma}{_PARAMETER}{kernel.head[end:]}"
    kernel.blocks = [block for pieces in parts.values() for block in pieces]
    ends = {
        f"%{label}": f"%{pieces[-1].label}" for label, pieces in parts.items() if len(pieces) > 1
    }
    kernel.rewrite(lambda one: _incoming(one, ends), ops=("phi",))
    stop = Block(["xt.assert.stop:"], "xt.assert.stop", instructions("  ret void"))
    kernel.blocks.append(stop)
    return constants


def _stop_at(module: Module, pieces: list[Block], at: int, *, last: bool = False) -> None:
    """Take a block apart and leave the kernel there: in its last part at an instruction, or at the
    start, behind the phis, where the threads of the block meet again.
    """
    number = len(pieces) - 1 if last else 0
    block = pieces[number]
    at = at if last else block.phis()
    onward = f"{pieces[-1].label}.xt.on"
    behind = Block([f"{onward}:"], onward, block.code[at:])
    block.code = [*block.code[:at], *_stop(module, onward)]
    pieces.insert(number + 1, behind)


def _stop(module: Module, onward: str) -> list[Instruction]:
    """Leave the kernel if any thread of the block failed. The second barrier keeps a fast thread
    from failing the next assertion before a slow one has read the outcome of this one.
    """
    failed, stop = module.temporary(), module.temporary()
    return instructions(
        _BARRIER,
        f"  {failed} = load i32, ptr addrspace(3) {_STOP}, align 4",
        _BARRIER,
        f"  {stop} = icmp ne i32 {failed}, 0",
        f"  br i1 {stop}, label %xt.assert.stop, label %{onward}",
    )


def _incoming(one: Instruction, ends: dict[str, str]) -> list[Instruction] | None:
    """A phi with the blocks from which control comes now."""
    if not any(label in ends for label in one.parts.labels):
        return None
    pairs = ", ".join(
        f"[ {value}, {ends.get(label, label)} ]"
        for value, label in zip(one.values, one.parts.labels, strict=True)
    )
    flags = "".join(f"{flag} " for flag in one.parts.flags)
    return instructions(f"{one.indented}phi {flags}{one.type} {pairs}")


def _shortened(text: str, kernel: str) -> str:
    """The message without the folder, which would make binaries differ between machines."""
    match = _MESSAGE.match(text.rstrip("\0"))
    if not match:
        return text.rstrip("\0\n")
    said, name, path, line = match.groups()
    where = path.replace("\\", "/").rpartition("/")[2]
    if name == "unknown":  # what Triton says of every function that was not inlined
        name = kernel
    return f"device_assert failed in {name} ({where}:{line}): {said}"


def define(name: str, _warp_size: int) -> str | None:
    """The definition of `name`, None if it is not of this family."""
    if name != "xt.assert.fail":
        return None
    word = "getelementptr i32, ptr addrspace(1) %memory, i32"
    blocks = "\n".join(
        f"""%g{axis} = {builtin("get_group_id", "i64", f"u32 {axis}")}
        %n{axis} = trunc i64 %g{axis} to i32
        %p{axis} = {word} {axis + 2}
        store i32 %n{axis}, ptr addrspace(1) %p{axis}, align 4"""
        for axis in range(3)
    )
    return function(
        name,
        "void",
        "ptr addrspace(1) %memory, ptr addrspace(1) %text, i32 %length",
        f"""%given = icmp ne ptr addrspace(1) %memory, null
        br i1 %given, label %claim, label %end
        claim:
        %seen = cmpxchg ptr addrspace(1) %memory, i32 0, i32 1 \
syncscope("device") acq_rel acquire, align 4
        %first = extractvalue {{ i32, i1 }} %seen, 1
        br i1 %first, label %write, label %end
        write:
        %size = {word} 1
        store i32 %length, ptr addrspace(1) %size, align 4
        {blocks}
        br label %copy
        copy:
        %i = phi i32 [ 0, %write ], [ %next, %copy ]
        %from = getelementptr i8, ptr addrspace(1) %text, i32 %i
        %byte = load i8, ptr addrspace(1) %from, align 1
        %at = add i32 %i, {TEXT_AT}
        %to = getelementptr i8, ptr addrspace(1) %memory, i32 %at
        store i8 %byte, ptr addrspace(1) %to, align 1
        %next = add i32 %i, 1
        %more = icmp ult i32 %next, %length
        br i1 %more, label %copy, label %end
        end:
        ret void""",
    )
