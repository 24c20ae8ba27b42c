"""Compiling with Triton: the one call into it, and what its result depends on."""
