"""Device functions: what an elementwise operator does with one element, on computed types.

Rows of `operators` name them; a kernel of `elementwise` is compiled with one of them.
"""
