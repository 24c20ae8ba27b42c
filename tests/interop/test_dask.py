"""Kernels over Dask's arrays: any chunks, axes that are whole, devices by resource."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xtarget
from xtarget import ArgumentError

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
pytest.importorskip("triton")

import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from dask_clusters import cluster, one_killed  # noqa: E402

from xtarget.dask import map_blocks  # noqa: E402, behind the check that Dask is there
from xtarget.dask.blocks import _block  # noqa: E402

X = np.random.default_rng(0).standard_normal((60, 70)).astype(np.float32)


@xtarget.fuse
def chain(x: Any, bias: Any) -> Any:
    return xtarget.run("gelu", x + bias) * 2


@xtarget.fuse
def rows(x: Any, bias: Any) -> Any:
    return xtarget.run("softmax", x + bias)


@xtarget.fuse
def crossed(x: Any) -> Any:
    return x + xtarget.run("sum", x, axis=1)


@triton.jit
def overwrites(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, 1.0, mask=i < n)
    tl.store(x + i, 2.0, mask=i < n)


def test_a_block_is_not_written_by_a_store_that_nobody_has_declared() -> None:
    xtarget.kernel(
        inputs=("x",), outputs={"out": "x"}, sizes={"n": lambda c: c.x.size},
        constants={"BLOCK": 1024}, grid="cdiv(n, BLOCK)", elementwise=True, name="dask.overwrites",
    )(overwrites)  # fmt: skip
    x = np.zeros((8, 4), np.float32)
    made = map_blocks("dask.overwrites", da.from_array(x, chunks=(4, 4)), device="cpu")
    with pytest.raises(xtarget.CompileError, match="stores to x"):
        made.compute(scheduler="sync")
    assert not x.any()


@pytest.mark.parametrize("chunks", [(60, 70), (17, 70), (13, 11)])
def test_blocks_give_what_the_whole_gives(chunks: tuple[int, int], device: str) -> None:
    x, row = da.from_array(X, chunks=chunks), X[0]
    for got, right in (
        (map_blocks("gelu", x, device=device), xtarget.run("gelu", X, device=device)),
        (map_blocks("add", x, row, device=device), X + row),
        (map_blocks("mul", row, x, device=device), X * row),
        (map_blocks("softmax", x, device=device), xtarget.run("softmax", X, device=device)),
        (map_blocks("softmax", x, axis=0, device=device), xtarget.run("softmax", X, axis=0)),
        (map_blocks("sum", x, axis=1, device=device), X.sum(1)),
        (map_blocks("argmax", x, axis=0, device=device), X.argmax(0)),
        (map_blocks("sum", x, axis=1, keepdims=True, device=device), X.sum(1, keepdims=True)),
        (map_blocks("rms_norm", x, row, device=device), xtarget.run("rms_norm", X, row)),
        (map_blocks(chain, x, row, device=device), chain(X, row)),
        (map_blocks(rows, x, row, device=device), rows(X, row)),
    ):
        assert got.shape == right.shape
        assert got.dtype == right.dtype
        made = got.compute(scheduler="sync")
        np.testing.assert_allclose(made, right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: map_blocks("sum", x), "block by block"),
        (lambda x: map_blocks("matmul", x, x.T), "block by block"),
        (lambda x: map_blocks("relu", X), "Dask array"),
        (lambda x: map_blocks("frexp", x), "one result"),
        (lambda x: map_blocks(chain, x, X[0], axis=1), "options of a chain"),
        (lambda x: map_blocks(crossed, x[:, :60].rechunk((60, 60))), "something else"),
        (lambda x: map_blocks("relu", x[x[:, 0] > 0]), "compute_chunk_sizes"),
    ],
)
def test_what_blocks_cannot_do(call: Any, says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        call(da.from_array(X, chunks=(17, 70)))


def test_each_worker_takes_the_device_of_its_resources(device: str) -> None:
    cluster = distributed.LocalCluster(
        n_workers=1, processes=False, resources={device: 1, "disk": 5}, dashboard_address=None
    )
    with cluster, distributed.Client(cluster):
        x = da.from_array(X, chunks=(17, 70))
        right = xtarget.run("softmax", X, device=device)
        np.testing.assert_array_equal(map_blocks("softmax", x).compute(), right)


@pytest.mark.long
def test_a_killed_worker_costs_its_blocks_only(device: str) -> None:
    """The others do them again, and each element is right."""
    x = da.from_array(X, chunks=(4, 7))
    with cluster() as client:
        for lazy, right in (
            (map_blocks("gelu", x, device=device), xtarget.run("gelu", X, device=device)),
            (map_blocks(chain, x, X[0], device=device), chain(X, X[0])),
        ):
            client.run(lambda: None)  # the one that was killed is there again
            with one_killed(client) as killed:
                made = client.compute(lazy).result(120)
            assert killed
            np.testing.assert_allclose(made, right, rtol=1e-5, atol=1e-5)


def test_blocks_begin_at_any_address(device: str) -> None:
    """As those do that came from another worker."""
    odd = np.empty(X.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(X.shape)
    odd[:] = X
    assert not odd.flags.aligned
    made = _block(odd, work=("abs", ()), device=device)
    np.testing.assert_array_equal(made, abs(X))
