"""Kernels on JAX's arrays, under `jax.jit` as well.

    import jax, xtarget.jax

    @jax.jit
    def block(x, weight):
        return xtarget.jax.run("gelu", xtarget.jax.run("rms_norm", x, weight))

A call is a custom call of XLA (`jax.ffi`), whose handler launches the compiled kernel on the memory
that XLA gives it. Shapes and dtypes come from the kernel's plan.
"""

from __future__ import annotations

from .calls import run
from .gradients import differentiable

__all__ = ["differentiable", "run"]
