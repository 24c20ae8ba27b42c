"""Elementwise kernels from text templates, without any compiler."""
