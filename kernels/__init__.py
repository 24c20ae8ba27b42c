"""The kernel library: what each kernel is (`catalog`), how it is launched (`plans*`, `layouts`,
`tuning`), and its Triton code.

`catalog` never imports Triton; the files with `@triton.jit` functions are imported only to compile.
"""
