"""Triton's IR (TTIR, TTGIR): Triton's passes down to LLVM IR, and ours between them."""
