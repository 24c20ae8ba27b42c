"""A serving loop: every request has another length, and none of them compiles.

Warm up with a few lengths, forbid compiling, serve 500 requests of lengths never seen before.
Run it with: python examples/serving.py
"""

import os
import time

import numpy as np

import xtarget

HIDDEN = 128
rng = np.random.default_rng(0)
weight = rng.standard_normal((HIDDEN, HIDDEN)).astype(np.float32) / HIDDEN**0.5
gain = np.ones(HIDDEN, np.float32)


def request(tokens):
    """A server's work for a request of some tokens: normalise, project, activate."""
    x = xtarget.run("rms_norm", tokens, gain)
    x = xtarget.run("matmul", x, weight)
    return xtarget.run("silu", x)


def tokens(count):
    return rng.standard_normal((count, HIDDEN)).astype(np.float32)


start = time.perf_counter()
# ranges of lengths share binaries, so these serve all lengths up to 500
for length in (1, 2, 3, 5, 8, 16, 17, 32, 33, 64, 65, 128, 129, 256, 257, 500):
    request(tokens(length))
print(f"warm-up: {time.perf_counter() - start:.1f} s")

os.environ["XTARGET_COMPILE"] = "error"  # from here on, a compilation is an error that says why
took = []
for length in rng.integers(1, 500, 500):
    given = tokens(length)
    start = time.perf_counter()
    result = request(given)
    took.append((time.perf_counter() - start) / length)
    assert result.shape == (length, HIDDEN)

normal = given / np.sqrt((given.astype(np.float64) ** 2).mean(1, keepdims=True) + 1e-6)
expected = normal @ weight
np.testing.assert_allclose(result, expected / (1 + np.exp(-expected)), rtol=1e-3, atol=1e-3)
print(f"served 500 new lengths on {xtarget.default_device().product}, nothing was compiled")
print(f"median {np.median(took) * 1e6:.1f} us for each token; the last result is right")
