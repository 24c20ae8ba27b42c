"""Triton to SPIR-V: the compiler of every vendor that takes SPIR-V.

In the order of the data:

    compiler    the contract's `Compiler`; checks the result's parameters
    backend     what Triton sees: options and stages; `versions` says with which llvmlite
    lowering    Triton's passes, down to LLVM IR with AMD's intrinsics
    dots        large dots as loops, in Triton's GPU IR; `dot_operands` places what they read
    client      hands LLVM IR to a child process
    worker      the child: a fork for every request, because LLVM may end the process or keep state
    codegen     reads, renames, rewrites, links, optimises, emits (llvmlite)
    vectors     one thread with vectors of 16 instead of 16 lanes, for a CPU's blocks of one warp;
                its parts are the files `vector_*`, and `odd_vectors` and `short_vectors` go before
    literals    floating-point literals of newer LLVMs
    retarget    the rewrites in their order: AMD's flavour of LLVM IR to OpenCL's;
                `aggregates`, `printf`, `crosslane`, `bfloat`, `atomics` are the larger ones
    diagnose    runs a failed pass again to read its reason; `places` finds lines of the kernel
    capabilities  compares what a module wants with what the target's options say there is
    library     defines, in LLVM IR, what a kernel calls and OpenCL does not have; its families are
                `intrinsics`, `crosslane`, `libdevice` (AMD's), `libdevice_nv`, `special`,
                `arithmetic`, `bfloat`, `atomics`, `asserts`
"""
