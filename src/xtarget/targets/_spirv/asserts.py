"""device_assert: a message in memory that the host reads, and a block that stops.

SPIR-V has no trap. A thread whose assertion fails writes the message, once for all threads, behind
the address in a hidden parameter of the entry; then the whole block leaves the kernel before it
does what the assertion was to prevent. Only kernels with assertions have the parameter.
"""

from __future__ import annotations

import re

from .helpers import builtin, function
from .irtext import Draft, UnsupportedError
from .printf import quoted, strings

__all__ = ["FLAG_BYTES", "define", "inlined_where_asserting", "lower_asserts", "mark_in_regions"]

#: Layout of the memory behind the hidden parameter: 32-bit words for "there is a message", its
#: length, and the block's x, y, z; then the text. `targets/_asserts.py` reads it.
FLAG_BYTES, TEXT_AT = 4096, 32
_PARAMETER = "ptr addrspace(1) %xt.assert.memory"
_STOP = "@xt.assert.failed"

_LABEL = re.compile(r"([\w.$-]+):")
_TRAP = re.compile(r'@llvm\.trap\(\)|\basm [\w ]*"s_trap ')
_REPORT = re.compile(r"@__ockl_f?printf|@__triton_assert_fail|@xt\.amdgcn\.s\.barrier|^\s+fence ")
_CONSTANT = re.compile(r"ptr (@[\w.$]+)")
_MESSAGE = re.compile(r"device assertion failed: '(.*)', in (.*) at (.*):(\d+)\s*$", re.S)
_GOES_ON = re.compile(r"\s+br label %([\w.$-]+)(?:, !llvm\.loop !\d+)?$")
_PHI = re.compile(r"\s+%[\w.$-]+ = phi ")
_BARRIER = "  call void @xt.amdgcn.s.barrier()"

#: Begins the message of an assertion that not all threads of a block may reach together.
_ALONE = "xt.alone:"
_REGION = re.compile(r'"tt\.(?:reduce|scan|map_elementwise)"\(.*\(\{(?: loc\(.*\))?$')
_FUNCTION = re.compile(r'\s*tt\.func .*?@("[^"]+"|[\w.$-]+)\(')
_CALL = re.compile(r'tt\.call @("[^"]+"|[\w.$-]+)\(')
#: Where the message of a failed assertion is said, on Tritons that have a function for it.
_TELLS = "__triton_assert_fail"


def mark_in_regions(ttir: str) -> str:
    """Triton's IR with a mark on assertions inside of reductions and scans, and of functions that
    these call: they combine values where only some threads have one, so a block cannot meet at a
    barrier there.
    """
    lines, inside, name = ttir.split("\n"), False, ""
    asserting: list[tuple[int, str, bool]] = []  # line, function, inside of a region
    calls: list[tuple[str, str, bool]] = []  # to, from, inside of a region
    for number, line in enumerate(lines):
        if function := _FUNCTION.match(line):
            name = function[1]
        if _REGION.search(line):
            inside = True
        elif inside and line.lstrip().startswith("})"):
            inside = False
        elif "tt.assert " in line:
            asserting.append((number, name, inside))
        calls += ((call, name, inside) for call in _CALL.findall(line))
    alone = {to for to, _, within in calls if within}
    while more := {to for to, caller, _ in calls if caller in alone} - alone:
        alone |= more
    for number, function_name, within in asserting:
        if within or function_name in alone:
            lines[number] = lines[number].replace(', "', f', "{_ALONE}', 1)
    return "\n".join(lines)


def inlined_where_asserting(ir: str, entry: str) -> str | None:
    """LLVM IR whose functions, but for the kernel, shall be inlined: an assertion inside of one has
    to leave the kernel. None where there is no such assertion.
    """
    lines, name, found = ir.splitlines(), "", False
    for number, line in enumerate(lines):
        if line.startswith("define "):
            name = line.partition("@")[2].partition("(")[0]
            if name not in (entry, _TELLS):
                lines[number] = re.sub(r" #\d+ ", " alwaysinline convergent ", line)
        elif name not in (entry, _TELLS) and _is_trap(line) and not line.startswith("declare "):
            found = True
    return "\n".join(lines) if found else None


def _is_trap(line: str) -> bool:
    return "trap" in line and _TRAP.search(line) is not None


def lower_asserts(draft: Draft, entry: str) -> bool:
    """Replace messages and traps, which are in the kernel only; whether there were any."""
    if not any(_is_trap(line) and "declare " not in line for line in draft.lines):
        return False
    texts = strings(draft.lines)
    result: list[str] = []
    constants: list[str] = []
    body: list[str] = []
    for line in draft.lines:
        if line.startswith("define "):
            body = [line]
        elif body and line == "}":
            name = body[0].partition("@")[2].partition("(")[0]
            if name == entry:
                result += _lowered(draft, [*body, line], texts, constants)
            elif name != _TELLS:
                result += [*body, line]
            body = []
        elif body:
            body.append(line)
        elif not (line.startswith("declare ") and _is_trap(line)):
            result.append(line)
    draft.lines = [
        f"{_STOP} = internal addrspace(3) global i32 undef, align 4",
        *constants,
        *result,
    ]
    if not any("declare " in line and "@xt.amdgcn.s.barrier(" in line for line in result):
        draft.declarations["xt.amdgcn.s.barrier"] = "declare void @xt.amdgcn.s.barrier()"
    return True


def _lowered(
    draft: Draft, lines: list[str], texts: dict[str, str], constants: list[str]
) -> list[str]:
    """The entry's lines with a hidden parameter, and with stops instead of traps."""
    heads = [n for n, line in enumerate(lines) if n == 1 or _LABEL.match(line)]
    ends = [*heads[1:], len(lines) - 1]
    blocks = {_LABEL.match(lines[a])[1]: lines[a:b] for a, b in zip(heads, ends, strict=True)}  # type: ignore[index]
    order = list(blocks)
    renamed: dict[str, str] = {}
    for label in order:
        block = blocks[label]
        trap = next((n for n, line in enumerate(block) if _is_trap(line)), None)
        if trap is None:
            continue
        report = [line for line in block[:trap] if _REPORT.search(line)]
        named = [m[1] for line in report for m in _CONSTANT.finditer(line) if m[1] in texts]
        if not named:
            raise UnsupportedError("a trap without a message")
        kept = [line for line in block[:trap] if not _REPORT.search(line)]
        alone = _ALONE in texts[named[0]]
        said = texts[named[0]].replace(_ALONE, "")
        text = _shortened(said, lines[0]).encode()[: FLAG_BYTES - TEXT_AT]
        constant = f"@xt.assert.text.{len(constants)}"
        constants.append(f"{constant} = internal addrspace(1) constant {quoted(text)}, align 1")
        kept.append(
            "  " + draft.call("void", "xt.assert.fail", _PARAMETER,
                              f"ptr addrspace(1) {constant}", f"i32 {len(text)}")
        )  # fmt: skip
        kept.append(f"  store i32 1, ptr addrspace(3) {_STOP}, align 4")
        rest = block[trap + 1 :]
        onward = _GOES_ON.match(rest[0])
        if alone:  # the block stops at its next assertion
            blocks[label] = [*kept, *rest]
        elif onward:
            blocks[label] = [*kept, *rest]
            _stop_at_start(draft, blocks, onward[1], renamed)
        else:  # the condition was known to be false, and the block was merged with what follows
            blocks[label] = [*kept, *_stop(draft, f"{label}.xt.on"), *rest]
            renamed[label] = f"{label}.xt.on"
    first = blocks[order[0]]
    first[1:1] = [f"  store i32 0, ptr addrspace(3) {_STOP}, align 4", _BARRIER]
    opening = lines[0]
    last = opening.rindex(")")
    comma = "" if opening[:last].endswith("(") else ", "
    result = [f"{opening[:last]}{comma}{_PARAMETER}{opening[last:]}"]
    for label in order:
        result += blocks[label]
    result = [_incoming(line, renamed) if " = phi " in line else line for line in result]
    return [*result, "xt.assert.stop:", "  ret void", "}"]


def _stop_at_start(
    draft: Draft, blocks: dict[str, list[str]], label: str, renamed: dict[str, str]
) -> None:
    """Leave at the start of block `label`, where the threads of the block meet again."""
    block = blocks[label]
    at = 1
    while _PHI.match(block[at]):
        at += 1
    onward = renamed.get(label, label) + ".xt.on"
    blocks[label] = [*block[:at], *_stop(draft, onward), *block[at:]]
    renamed.setdefault(label, onward)


def _stop(draft: Draft, onward: str) -> list[str]:
    """Leave the kernel if any thread of the block failed. The second barrier keeps a fast thread
    from failing the next assertion before a slow one has read the outcome of this one.
    """
    failed, stop = draft.temporary(), draft.temporary()
    return [
        _BARRIER,
        f"  {failed} = load i32, ptr addrspace(3) {_STOP}, align 4",
        _BARRIER,
        f"  {stop} = icmp ne i32 {failed}, 0",
        f"  br i1 {stop}, label %xt.assert.stop, label %{onward}",
        f"{onward}:",
    ]


def _incoming(line: str, renamed: dict[str, str]) -> str:
    return re.sub(r", %([\w.$-]+) \]", lambda m: f", %{renamed.get(m[1], m[1])} ]", line)


def _shortened(text: str, opening: str) -> str:
    """The message without the folder, which would make binaries differ between machines."""
    match = _MESSAGE.match(text.rstrip("\0"))
    if not match:
        return text.rstrip("\0\n")
    said, name, path, line = match.groups()
    where = re.split(r"[/\\]", path)[-1]
    if name == "unknown":  # what Triton says of every function that was not inlined
        name = opening.partition("@")[2].partition("(")[0]
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
