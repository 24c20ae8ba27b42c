"""Triton to SPIR-V: the compiler of every vendor that takes SPIR-V.

In the order of the data: `compiler` (the contract), `backend` (what Triton sees), `lowering`
(Triton's passes, to LLVM IR with AMD's intrinsics), `client` and `worker` (a child process, because
LLVM's SPIR-V back end ends the process on input it does not know), `codegen` (LLVM IR to SPIR-V),
`retarget` and its rewrites (AMD's flavour of LLVM IR to OpenCL's), `library` and its families (what
AMD's intrinsics and device libraries mean).
"""
