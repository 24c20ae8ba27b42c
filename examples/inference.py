"""Inference of an MLP and of a transformer block on any device, checked against NumPy.

Run it with: python examples/inference.py [DEVICE]     (a name that `xtarget devices` lists)
"""

import sys

import numpy as np

import xtarget

device = sys.argv[1] if len(sys.argv) > 1 else xtarget.default_device().name
rng = np.random.default_rng(0)
TOKENS, WIDTH, HEADS = 48, 128, 4


def random(*shape):
    return (rng.standard_normal(shape) / shape[-1] ** 0.5).astype(np.float32)


x = random(TOKENS, WIDTH)
q, k, v, o = (random(WIDTH, WIDTH) for _ in range(4))
up, down = random(WIDTH, 4 * WIDTH), random(4 * WIDTH, WIDTH)
gain, shift = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)


def mlp(run, x):
    return run("matmul", run("gelu", run("matmul", x, up)), down)


def split(run, x):
    """To (heads, tokens, width of a head); a view, no copy."""
    return x.reshape(TOKENS, HEADS, WIDTH // HEADS).transpose(1, 0, 2)


def block(run, x):
    """Attention and MLP, each after a norm and added to what came in."""
    y = run("layer_norm", x, gain, shift)
    heads = [split(run, run("matmul", y, w)) for w in (q, k, v)]
    scores = run("matmul", heads[0], heads[1].transpose(0, 2, 1))
    scores = run("mul", scores, np.float32((WIDTH // HEADS) ** -0.5))
    mixed = run("matmul", run("softmax", scores), heads[2])
    joined = np.ascontiguousarray(mixed.transpose(1, 0, 2)).reshape(TOKENS, WIDTH)
    x = run("add", x, run("matmul", joined, o))
    return run("add", x, mlp(run, run("layer_norm", x, gain, shift)))


def ours(name, *args):
    return xtarget.run(name, *args, device=device)


def numpy(name, *args):  # the catalog's references, in float64
    return xtarget.catalog()[name].reference(*(np.asarray(a, np.float64) for a in args))


for what in (mlp, block):
    result, expected = what(ours, x), what(numpy, x)
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-3)
    print(f"{what.__name__}: right on {device}, {np.abs(result - expected).max():.1e} off at most")
