"""Kernels on JAX's arrays: results, transforms, arrays that are updated, what is refused."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # a GPU is for others too

pytest.importorskip("jax", reason="jax is not installed")

import jax

pytest.importorskip("triton")

import author_kernels
import jax.numpy as jnp
import triton
import triton.language as tl

import xtarget
import xtarget.jax as xj
from xtarget._kernels import libraries

# JAX's callback runs in collections of the tests that come later in this process, and loses what is
# raised in it: the interrupts that some of them wait for
gc.callbacks[:] = [one for one in gc.callbacks if not one.__module__.startswith("jax.")]

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
    with pytest.raises(NotImplementedError, match="sinc of xtarget has no gradient under JAX"):
        jax.grad(lambda x: xj.run("sinc", x).sum())(X)


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


@triton.jit
def overwrites(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, 1.0, mask=i < n)
    tl.store(x + i, 2.0, mask=i < n)


def test_an_exported_program_does_not_write_to_its_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    xtarget.kernel(
        inputs=("x",), outputs={"out": "x"}, sizes={"n": lambda c: c.x.size},
        constants={"BLOCK": 64}, grid=lambda c: (1,), name="jax.overwrites",
    )(overwrites)  # fmt: skip
    exported = jax.export.export(
        jax.jit(lambda x: xj.run("jax.overwrites", x)),
        disabled_checks=[jax.export.DisabledSafetyCheck.custom_call("xtarget.run")],
    )(X)
    monkeypatch.setattr(libraries, "_relied_on", set())  # as in a process that has not traced it
    before = np.array(X)
    with pytest.raises(jax.errors.JaxRuntimeError, match="stores to x"):
        exported.call(X).block_until_ready()
    same(X, before)


def scaled(x: Any, factor: Any) -> Any:
    return xj.run("a.persistent_scale", x, factor)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: xj.run("argmax", X), "gives int64, which JAX has only after .*enable_x64"),
        (lambda: xj.run("nonzero", X), "size of its result is known when it has run"),
        (lambda: xj.run("one_hot", jnp.arange(4)), "classes is not given.* Give classes="),
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
    @xtarget.kernel(name="test.alone", inputs=("x",), outputs={"out": "x"}, grid="1", complete=True)
    @triton.jit
    def doubled(x, out, LANES: tl.constexpr = 32):
        i = tl.arange(0, LANES)
        tl.store(out + i, 2 * tl.load(x + i, i < 24, 0), i < 24)

    monkeypatch.setenv("XTARGET_COMPILE", "error")
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path))
    with pytest.raises(jax.errors.JaxRuntimeError, match="XTARGET_COMPILE"):
        xj.run(doubled, X).block_until_ready()
    monkeypatch.delenv("XTARGET_COMPILE")
    same(xj.run(doubled, X), 2 * X)


def of(name: str) -> tuple[Callable[..., Any], list[Any]]:
    """A kernel as a function, and arrays that it is smooth at."""
    rng, names = np.random.default_rng(1), xtarget.catalog()[name].inputs
    shapes = {"matmul": [(3, 4), (4, 2)], "fma": [(3, 4), (4,), ()]}.get(name)
    shapes = shapes or [(3, 4), (4,), (4,)][: len(names)]
    args = [jnp.asarray(rng.random(s) * 0.6 + (1.2 if name == "acosh" else 0.2)) for s in shapes]
    if name in ("sum", "mean", "max", "min"):
        where = jnp.asarray(np.arange(12).reshape(3, 4) % 3 != 0)
        return lambda x: xj.run(name, x, where, axis=1, **INITIAL.get(name, {})), args[:1]
    if name in ("where", "select"):
        return lambda a, b: xj.run(name, args[0] > 0.4, a, b), args[1:]
    return lambda *given: xj.run(name, *given), args


INITIAL: dict[str, Any] = {"max": {"initial": 0.5}, "min": {"initial": 0.5}}
SAMPLE = ["add", "gelu", "layer_norm", "matmul", "max", "where"]


@pytest.fixture
def wide() -> Any:
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in SAMPLE else pytest.mark.long)
        for name in xj.differentiable()
    ],
)
def test_gradients_are_those_of_the_kernel(name: str, wide: None) -> None:
    from jax.test_util import check_grads

    function, args = of(name)
    check_grads(function, args, order=2, modes=["rev"], atol=1e-5, rtol=1e-5)


def test_gradients_under_transforms() -> None:
    loss = lambda x, w: xj.run("rms_norm", x, w).sum()  # noqa: E731
    found = jax.jit(jax.vmap(jax.grad(loss, (0, 1)), (0, None)))(X, X[0] + 1)
    right = [jax.grad(loss, (0, 1))(row, X[0] + 1) for row in X]
    same(found[0], [of_x for of_x, _ in right])
    same(found[1], [of_w for _, of_w in right])
    taken = jax.value_and_grad(lambda x: (xj.run("add", x.astype(jnp.bfloat16), 1) ** 2).sum())
    assert taken(X)[1].dtype == jnp.float32
    asked = jax.grad(lambda x: xj.run("sin", x, config={"block": 256}).sum())
    same(asked(X), jnp.cos(X))


def test_a_users_kernel_has_no_gradient_of_its_own() -> None:
    with pytest.raises(NotImplementedError, match=r"a\.quantise of xtarget has no gradient"):
        jax.grad(lambda x: xj.run("a.quantise", x)[1].sum())(X)
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(lambda x: xj.run("exp", x), (X,), (X,))
