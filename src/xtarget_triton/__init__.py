"""The door through which Triton finds xtarget (entry point group `triton.backends`, name `spirv`).

Triton imports `compiler` and `driver` of every such package at `import triton`, and an exception
there would break it for everybody. So this package stands beside xtarget, not in it: it imports
what Triton has loaded by then and nothing else, and reaches xtarget only when a kernel is compiled
for SPIR-V, or launched with `TRITON_DEFAULT_BACKEND=spirv`. Only a process with this variable loads
more of Triton here: the class of descriptors.
"""
