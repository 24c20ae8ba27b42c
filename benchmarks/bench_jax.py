"""Calls of `xtarget.jax.run` beside functions of JAX, in and out of `jax.jit`: microseconds, the
least of rounds that take turns. Needs jax.

    python benchmarks/bench_jax.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import xtarget.jax

_ROUNDS, _CALLS = 12, 100


def _seconds(call: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    for _ in range(_CALLS):
        result = call()
    jax.block_until_ready(result)
    return (time.perf_counter() - begun) / _CALLS


def main() -> None:
    x = jnp.ones((64, 64), jnp.float32)
    own, theirs = jax.jit(lambda x: xtarget.jax.run("softmax", x)), jax.jit(jax.nn.softmax)
    ways: dict[str, Callable[[], Any]] = {
        'xtarget.jax.run("softmax", x)': lambda: xtarget.jax.run("softmax", x),
        "jax.nn.softmax(x)": lambda: jax.nn.softmax(x),
        "jit of the first": lambda: own(x),
        "jit of the second": lambda: theirs(x),
    }
    for call in ways.values():
        jax.block_until_ready(call())
    least = dict.fromkeys(ways, float("inf"))
    for _ in range(_ROUNDS):
        for name, call in ways.items():
            least[name] = min(least[name], _seconds(call))
    for name, seconds in least.items():
        print(f"{name:32} {seconds * 1e6:8.1f} µs")


if __name__ == "__main__":
    main()
