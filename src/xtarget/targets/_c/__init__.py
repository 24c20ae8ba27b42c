"""From a kernel's Triton text to C-like source, without Triton: OpenCL C and CUDA C++."""
