"""LLVM's disassembler for AMD's machine code, by LLVM's C interface: a process of its own.

    llvm_disassemble.py LIBRARY <REQUESTS

LIBRARY is a libLLVM of 20 or newer (gfx950 and gfx1201 are not in older ones). REQUESTS are lines
"ARCH HEX". For each of them comes a line of JSON: [[size, text], ...]; a size of 0 is what LLVM
does not know, after which it goes on 4 bytes behind. Standard library only: another C library than
this machine's may load it (`second_opinion`).
"""

import ctypes
import json
import sys

_TRIPLE = b"amdgcn-amd-amdhsa"
_ROOM = 512


def main(library: str) -> None:
    llvm = ctypes.CDLL(library)
    for part in ("TargetInfo", "Target", "TargetMC", "Disassembler"):
        getattr(llvm, f"LLVMInitializeAMDGPU{part}")()
    create, one = llvm.LLVMCreateDisasmCPUFeatures, llvm.LLVMDisasmInstruction
    create.restype, one.restype = ctypes.c_void_p, ctypes.c_size_t
    create.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p,
                       ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]  # fmt: skip
    one.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64,
                    ctypes.c_char_p, ctypes.c_size_t]  # fmt: skip
    known = {}
    text = ctypes.create_string_buffer(_ROOM)
    for line in sys.stdin:
        arch, code = line.split()
        if arch not in known:
            # RDNA's instructions on halves name halves of registers
            features = b"+real-true16" if arch.startswith("gfx1") else b""
            known[arch] = create(_TRIPLE, arch.encode(), features, None, 0, None, None)
        data = bytes.fromhex(code)
        here = ctypes.create_string_buffer(data, len(data))
        start, at, found = ctypes.addressof(here), 0, []
        while at < len(data):
            size = one(known[arch], start + at, len(data) - at, at, text, _ROOM)
            found.append((size, text.value.decode().strip() if size else ""))
            at += size or 4
        print(json.dumps(found), flush=True)


main(sys.argv[1])
