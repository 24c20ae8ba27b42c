"""LLVM IR: read, rewritten, linked, optimised, and written as SPIR-V."""
