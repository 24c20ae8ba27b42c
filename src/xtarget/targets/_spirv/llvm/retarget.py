"""Turn LLVM IR for AMD's target into LLVM IR for SPIR-V: the parts that concern the whole module.

What a function call can express is not rewritten here but linked (see `library`).
"""

from __future__ import annotations

from .ir import Block, Function, Instruction, Line, Module
from .reader import instructions, read_instruction
from .text import UnsupportedError
from .words import map_pointers, map_words

__all__ = [
    "CLOCK",
    "drop_fences_of_barriers",
    "drop_inline_assembly",
    "make_kernel",
    "read_clocks",
    "rename_address_spaces",
    "strip_target",
]

#: OpenCL's clock_read_device (cl_khr_kernel_clock).
CLOCK = "_Z17clock_read_devicev"
#: Numbers of our metadata: what `!nontemporal` refers to, and what says that invariants of a loop
#: stay inside (`tl.range(disable_licm=True)`); loops that say it have the numbers from there on.
_STREAMING, _NOT_HOISTED = 2, 3


def strip_target(module: Module) -> None:
    """Remove attributes and metadata of AMD and of debugging, and set the size of shared memory."""
    # `word_accesses` reads whole words
    size = max(-(-module.layout.all_shared_bytes // 4) * 4, 16)
    loops = _loops_not_hoisted_from(module)
    module.drop(
        lambda line: (
            line.kind in ("target", "comment", "metadata")
            or (line.kind == "declare" and line.name.startswith("llvm.dbg"))
        )
    )
    for item in module.items:
        if isinstance(item, Function):
            item.head = _common(item.head)
            for block in item.blocks:
                block.head = [line for line in block.head if line[:1] != ";"]
        elif item.kind == "global" and item.name == "global_smem":
            item.text = f"@global_smem = internal addrspace(3) global [{size} x i8] undef, align 64"
        elif item.kind == "attributes":
            # Intel's CPU run time hangs on a call out of a kernel, so everything is inlined
            item.text = map_words(
                item.text, lambda word: "alwaysinline" if word == "noinline" else word
            )
        else:
            item.text = _common(item.text)
    module.rewrite(lambda one: _stripped(one, loops), having=", !")
    module.rewrite(
        lambda one: [read_instruction(_common(one.text))], ops=("call",), having=" fastcc "
    )
    if loops:
        nodes = {_NOT_HOISTED: f"!{{{_LICM}}}"}
        nodes |= {n: f"distinct !{{!{n}, !{_NOT_HOISTED}}}" for n in loops.values()}
        _add_metadata(module, {str(n): text for n, text in nodes.items()})


def _common(text: str) -> str:
    """A line without AMD's calling conventions."""
    return text.replace(" fastcc ", " ").replace(" amdgpu_kernel ", " ")


def _add_metadata(module: Module, nodes: dict[str, str]) -> None:
    module.items += (Line("metadata", f"!{name} = {text}", name) for name, text in nodes.items())


def _stripped(one: Instruction, loops: dict[str, int]) -> list[Instruction] | None:
    text = one.text
    if ", !" in text:
        text, attached = one.attachments()
        if "nontemporal" in attached:
            text += f", !nontemporal !{_STREAMING}"
        elif (loop := attached.get("llvm.loop", "")[1:]) in loops:
            text += f", !llvm.loop !{loops[loop]}"
    return None if text == one.text else [read_instruction(text)]


def _loops_not_hoisted_from(module: Module) -> dict[str, int]:
    """Our numbers of the loops whose invariants stay inside, by their numbers in the module."""
    nodes = {}
    for line in module.lines("metadata"):
        content = line.text.partition(" = ")[2].removeprefix("distinct ")
        if content.startswith("!{"):
            nodes[line.name] = content[2:-1]
    disabled = {f"!{number}" for number, content in nodes.items() if content == _LICM}
    loops = [n for n, content in nodes.items() if disabled.intersection(content.split(", "))]
    return {number: _NOT_HOISTED + 1 + i for i, number in enumerate(loops)}


def drop_fences_of_barriers(module: Module) -> None:
    """OpenCL's `barrier` orders memory by itself; a CPU would run each further fence per thread."""
    for function in module.functions:
        for block in function.blocks:
            if any(one.op == "fence" for one in block.code):
                _drop_fences(block)


def _drop_fences(block: Block) -> None:
    barriers = {n for n, one in enumerate(block.code) if "@xt.amdgcn.s.barrier()" in one.text}
    beside = {n + step for n in barriers for step in (-1, 1)}
    block.code = [
        one
        for n, one in enumerate(block.code)
        if n not in beside
        or one.op != "fence"
        or not one.parts.rest.startswith('syncscope("workgroup") ')
    ]


_LICM = '!"llvm.licm.disable"'
#: LLVM's names of synchronisation scopes, AMD's to SPIR-V's; one without a name is the system.
_SCOPES = {
    "agent": "device",
    "workgroup": "workgroup",
    "wavefront": "subgroup",
    "singlethread": "singlethread",
}


#: SPIR-V's numbers of address spaces by AMD's; 1 (global) and 3 (shared) agree.
_SPACES = {0: 4, 5: 0}


def rename_address_spaces(module: Module) -> None:
    """AMD: 0 generic, 5 private. SPIR-V: 4 generic, 0 private. 1 (global) and 3 (shared) agree."""
    constants: dict[str, str] = {}
    for line in module.lines("global"):
        head, constant, rest = line.text.partition("constant ")
        if constant and not line.name.startswith("xt."):
            line.text = f"{head}addrspace(1) {constant}{rest}"
            cast = f"(ptr addrspace(1) @{line.name} to ptr addrspace(4))"
            constants[f"@{line.name}"] = f"ptr addrspace(4) addrspacecast {cast}"

    def renamed(text: str) -> str:
        if "ptr" in text:
            text = map_pointers(text, _SPACES, constants)
        return text

    for item in module.items:
        if isinstance(item, Function):
            item.head = renamed(item.head)
        elif item.kind in ("declare", "global"):
            item.text = renamed(item.text).replace(" addrspace(5)", "")

    def change(one: Instruction) -> list[Instruction] | None:
        text = renamed(one.text)
        if one.op == "alloca":
            text = text.replace(", addrspace(5)", "")
        if 'syncscope("' in text:
            text = _with_scope(text)
        return None if text == one.text else [read_instruction(text)]

    module.rewrite(change, having="ptr")
    module.rewrite(lambda one: None if "ptr" in one.text else change(one), ops=("alloca", "fence"))


def _with_scope(text: str) -> str:
    start = text.index('syncscope("')
    end = text.index('")', start)
    scope = text[start + len('syncscope("') : end]
    rest = text[end + 2 :].removeprefix(" ")
    plain = scope.removesuffix("-one-as")
    if plain in ("one-as", "system"):
        return text[:start] + rest
    if plain not in _SCOPES:
        raise UnsupportedError(f"the synchronisation scope {scope!r}", f'syncscope("{scope}")')
    return f'{text[:start]}syncscope("{_SCOPES[plain]}") {rest}'


#: Of AMD's assembly: waits and hints, which have no effect on values.
_WAITS = ("s_waitcnt", "s_nop ", ";")
#: Of AMD's and NVIDIA's assembly: words of instructions that read a clock.
_CLOCKS = ("s_memrealtime ", "s_memtime ", "%globaltimer", "%clock64")
#: AMD's message 131 asks for a counter of 100 MHz, which Triton multiplies by 10 for nanoseconds.
_MESSAGE = "amdgcn.s.sendmsg.rtn.i64"


def _is_clock(assembly: str) -> bool:
    if "s_sendmsg_rtn_b64 " in assembly and "REALTIME" in assembly:
        return True
    return any(word in assembly for word in _CLOCKS)


def drop_inline_assembly(module: Module) -> None:
    """AMD's waits and hints mean nothing here; every other assembly but a clock's is an error."""

    def change(one: Instruction) -> list[Instruction] | None:
        assembly = one.assembly
        if assembly is None or _is_clock(assembly):
            return None
        if assembly.strip() and not assembly.startswith(_WAITS):
            raise UnsupportedError(f"inline assembly {assembly!r}", assembly)
        return []

    module.rewrite(change, ops=("call",), having="asm ")


def read_clocks(module: Module) -> None:
    """AMD's and NVIDIA's clocks are the device's, which counts nanoseconds."""

    def change(one: Instruction) -> list[Instruction] | None:
        assembly = one.assembly
        if assembly is not None and one.name and one.type == "i64":
            return instructions(f"{one.indented}{_clock(module, assembly)}")
        if one.callee == f"xt.{_MESSAGE}" and one.values == ["131"]:
            time = module.temporary()
            return instructions(
                f"  {time} = {_clock(module, f'llvm.{_MESSAGE}')}",
                f"{one.indented}udiv i64 {time}, 10",
            )
        return None

    module.rewrite(change, ops=("call",), having="asm ")
    if any(line.name == f"xt.{_MESSAGE}" for line in module.lines("declare")):
        module.rewrite(change, ops=("call",), having=_MESSAGE)
        if not any(_MESSAGE in one.text for one in module.code()):  # or it counts as called
            module.drop(lambda line: line.kind == "declare" and line.name == f"xt.{_MESSAGE}")


def _clock(module: Module, symbol: str) -> str:
    """The call that reads the clock, in place of `symbol`."""
    if not module.layout.kernel_clock:
        raise UnsupportedError(
            "a clock (SPIR-V has one with the extension SPV_KHR_shader_clock only; the "
            "option kernel_clock=True says that the device has it)",
            symbol,
        )
    module.declarations[CLOCK] = f"declare spir_func i64 @{CLOCK}()"
    return f"call spir_func i64 @{CLOCK}()"


def make_kernel(module: Module) -> None:
    """Turn the entry into a SPIR-V kernel with block and sub-group size."""
    layout, kernel = module.layout, module.kernel
    given, types, conversions = [], [], []
    aligned = dict(enumerate(layout.aligned))
    for parameter in kernel.parameters():
        name, type_ = parameter.name, str(parameter.type)
        is_pointer = parameter.type.is_pointer
        if is_pointer and (layout.integer_pointers or parameter.type.space != 1):
            type_ = "i64"
            conversions.append(f"  {name} = inttoptr i64 {name}.given to {parameter.type}")
        elif type_ == "i1":
            type_ = "i8"  # OpenCL's host side knows no bit
            conversions.append(f"  {name} = trunc i8 {name}.given to i1")
        if parameter.type != type_:
            given.append(f"{type_} {name}.given")
        elif is_pointer and (nbytes := aligned.get(len(given), 1)) > 1:
            given.append(f"{type_} align {nbytes} {name}")
        else:
            given.append(f"{type_} {name}")
        types.append("ptr" if type_.startswith("ptr") else type_)
    kernel.head = (
        f"define spir_kernel void @{module.entry}({', '.join(given)}) convergent nounwind "
        "!reqd_work_group_size !0 !intel_reqd_sub_group_size !1 {"
    )
    kernel.blocks[0].code[:0] = instructions(*conversions)
    nodes = {
        "0": f"!{{i32 {layout.num_warps * layout.warp_size}, i32 1, i32 1}}",
        "1": f"!{{i32 {layout.warp_size}}}",
        str(_STREAMING): "!{i32 1}",
    }
    if layout.fp_fusion:
        nodes["opencl.enable.FP_CONTRACT"] = "!{}"
    _add_metadata(module, nodes)
    module.parameters = tuple(types)
