"""Triton's own launching (`kernel[grid](...)`) on xtarget's cpu and intel drivers.

Triton comes in by `xtarget_triton`, which it knows from the entry-point group `triton.backends`.
`driver` is what it asks for devices, `launcher` one compiled kernel, `arguments` what a kernel is
called with, `autotuning` what its autotuner does to arrays, `timing` the clock of
`triton.testing.do_bench`. The compiler is `targets._spirv`.
"""
