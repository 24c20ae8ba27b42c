"""Kernels on JAX's arrays: results, transforms, arrays that are updated, what is refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # a GPU is for others too

jax = pytest.importorskip("jax", reason="jax is not installed")
pytest.importorskip("triton")

import author_kernels  # noqa: E402
import jax.numpy as jnp  # noqa: E402

import xtarget  # noqa: E402
import xtarget.jax as xj  # noqa: E402

X = jnp.asarray(np.random.default_rng(0).random((4, 6)), jnp.float32)


def same(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("way", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_a_program_of_kernels(way: Callable[..., Any]) -> None:
    def block(x: Any) -> Any:
        return xj.run("gelu", xj.run("add", xj.run("softmax", x, axis=0), 2.5))

    found = way(block)(X)
    same(found, jax.nn.gelu(jax.nn.softmax(X, axis=0) + 2.5, approximate=False))
    assert found.dtype == jnp.float32


def test_dtypes_shapes_and_several_results() -> None:
    assert xj.run("exp", X.astype(jnp.bfloat16)).dtype == jnp.bfloat16
    assert xj.run("cast", X, dtype=jnp.float16).dtype == jnp.float16
    assert xj.run("exp", jnp.ones((0, 3))).shape == (0, 3)
    least, most = jax.jit(lambda x: xj.run("aminmax", x, axis=1))(X)
    same(least, X.min(1))
    same(most, X.max(1))
    assert xj.run("full", shape=(3,), value=2.5).tolist() == [2.5] * 3


def test_transforms() -> None:
    add = lambda a, b: xj.run("add", a, b)  # noqa: E731
    same(jax.vmap(add, (0, None))(X, X[0]), X + X[0])
    wide, narrow = jnp.ones((4, 5, 6)), X
    same(jax.vmap(add)(wide, narrow), wide + narrow[:, None])  # not of equal dimensions
    same(jax.vmap(lambda row: xj.run("softmax", row))(X), jax.nn.softmax(X))
    steps = jax.jit(lambda x: jax.lax.scan(lambda c, _: (add(c, 1.0), None), x, None, length=5)[0])
    same(steps(X), X + 5)


@jax.custom_vjp
def exp(x: Any) -> Any:
    return xj.run("exp", x)


exp.defvjp(lambda x: (y := exp(x), y), lambda y, g: (g * y,))


def test_a_gradient_by_custom_vjp() -> None:
    same(jax.jit(jax.grad(lambda x: exp(x).sum()))(X), jnp.exp(X))
    with pytest.raises(ValueError, match="cannot be differentiated"):
        jax.grad(lambda x: xj.run("exp", x).sum())(X)


def test_an_author_s_kernel_that_updates_gives_a_new_array() -> None:
    q = jnp.asarray(np.random.default_rng(1).random((3, 2, 8)), jnp.float32)
    before = np.array(q)
    cos, sin = jnp.zeros((3, 4)), jnp.ones((3, 4))
    turned = jax.jit(lambda q: xj.run(author_kernels.rotary, q, cos, sin))(q)
    same(turned, np.concatenate([-before[..., 4:], before[..., :4]], -1))
    same(q, before)
    values, scales = xj.run("a.quantise", X)
    same(values * scales[:, None], xtarget.run("a.quantise", np.array(X))[0] * scales[:, None])


def test_a_program_that_was_exported() -> None:
    exported = jax.export.export(
        jax.jit(lambda x: xj.run("softmax", x)),
        disabled_checks=[jax.export.DisabledSafetyCheck.custom_call("xtarget.run")],
    )(X)
    same(exported.call(X), jax.nn.softmax(X))


def scaled(x: Any, factor: Any) -> Any:
    return xj.run("a.persistent_scale", x, factor)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: xj.run("argmax", X), "gives int64, which JAX has only after .*enable_x64"),
        (lambda: xj.run("nonzero", X), "size of its result is known when it has run"),
        (lambda: xj.run("add", X, X, out=X), "never written, .* leave out= out"),
        (lambda: xj.run("sofmax", X), "Did you mean softmax"),
        (lambda: jax.jit(lambda x: xj.run("matmul", x, x))(X), "shapes .* do not fit"),
        (lambda: jax.jit(scaled)(X, 2.0), "factor is a number that jax.jit traces"),
    ],
)
def test_what_does_not_fit_is_said_when_it_is_traced(call: Any, message: str) -> None:
    with pytest.raises(xtarget.XTargetError, match=message):
        call()
    same(jax.jit(scaled, static_argnums=1)(X, 2.0), 2 * X)


def test_what_fails_while_it_runs_is_an_error_of_jax(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("XTARGET_COMPILE", "error")
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path))
    with pytest.raises(jax.errors.JaxRuntimeError, match="XTARGET_COMPILE"):
        xj.run("atanh", X.reshape(2, 12)[:, :7]).block_until_ready()
