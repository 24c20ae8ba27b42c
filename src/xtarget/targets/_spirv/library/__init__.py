"""Functions that kernels call and OpenCL lacks, defined in LLVM IR."""
