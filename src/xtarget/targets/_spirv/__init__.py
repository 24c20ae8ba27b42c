"""Triton to SPIR-V: the compiler of every vendor that takes SPIR-V.

In the order of the data:

    compiler            the contract's `Compiler`; checks the result's parameters
    frontend.backend    what Triton sees: options and stages, libdevice's functions, a check of
                        capabilities; `versions` says with which llvmlite
    frontend.lowering   Triton's passes, and ours between them, down to LLVM IR with AMD's
                        intrinsics
    frontend.dots       large dots as loops, in Triton's GPU IR; `llvm.dot_operands` places what
                        they read, and `frontend.carriers` says whose sum stays there
    worker.client       hands LLVM IR to a child process
    worker.main         the child: a fork for every request, because LLVM may end the process or
                        keep state
    llvm.codegen        reads, renames, rewrites, links, optimises, emits (llvmlite)
    llvm.retarget       the rewrites in their order: AMD's flavour of LLVM IR to OpenCL's
    llvm.literals       floating-point literals of newer LLVMs
    llvm.recurrences, llvm.signs
                        what Intel's CPU compiler crashes on, or gets wrong, written in another way
    library             defines, in LLVM IR, what a kernel calls and OpenCL does not have
    vectors             one thread with vectors of 16 instead of 16 lanes, for a CPU's blocks of one
                        warp; `llvm.odd_vectors` and `vectors.short` go before
    frontend.structure  Triton's IR as objects; `frontend.types` and `frontend.reader` read
                        what Triton's bindings give as text only
    frontend.diagnose   runs a failed pass again to read its reason; `frontend.places` finds lines
                        of the kernel
"""
