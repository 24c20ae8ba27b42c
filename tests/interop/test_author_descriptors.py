"""Kernels of `@xtarget.kernel` that take tensor descriptors, and configurations with hooks."""
# ruff: noqa: F821 - the words in annotations are lengths, as `xtarget.spec.In` has them

from typing import Any

import numpy as np
import pytest

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

import xtarget  # noqa: E402
from xtarget.spec import Config, In, Out, Workspace, cdiv, step  # noqa: E402


def tiles(nargs: Any) -> None:
    """As hooks of Triton's own tutorials do it."""
    nargs["a"].block_shape = [nargs["BM"], nargs["BK"]]
    nargs["b"].block_shape = [nargs["BK"], nargs["BN"]]
    nargs["out"].block_shape = [nargs["BM"], nargs["BN"]]
    nargs["blocks"].zero_()


@xtarget.kernel(name="test.tiled", grid="cdiv(M, BM), cdiv(N, BN)")
@triton.autotune(
    [
        triton.Config({"BM": 16, "BN": 32, "BK": 16}, num_warps=1, pre_hook=tiles),
        triton.Config({"BM": 32, "BN": 16, "BK": 32}, num_ctas=2, pre_hook=tiles),
    ],
    key=["M"],
    pre_hook=lambda nargs, reset_only=False: None,
    post_hook=lambda nargs, exception=None: None,
)
@triton.jit
def described(a: In["T", "M", "K"].descriptor(), b: In["T", "K", "N"].descriptor(),
              out: Out["T", "M", "N"].descriptor(), blocks: Out["int32", 1], M, K,
              BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # fmt: skip
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        total += tl.dot(a.load([row, k]), b.load([k, column]), input_precision="ieee")
    out.store([row, column], total.to(out.dtype))
    tl.atomic_add(blocks, 1)


@triton.jit
def shifted(x, bias, between, B: tl.constexpr):
    v = x.load([tl.program_id(0) * B, 0])
    if bias is not None:
        v += bias.load([0])[None, :]
    between.store([tl.program_id(0) * B, 0], v.to(tl.float32))


@triton.jit
def doubled(between, out, B: tl.constexpr):
    at = tl.program_id(0) * B
    out.store([at, 0], (between.load([at, 0]) * 2).to(out.dtype))


@xtarget.kernel(
    name="test.tiled_steps",
    inputs={"x": In["float16|float32", "M", "N"].descriptor("B", 64),
            "bias": (In["x", "N"] | None).descriptor(64)},
    outputs={"out": Out["x", "M", "N"].descriptor("B", 64)},
    workspaces={"between": Workspace["float32", "M", "N"].descriptor("B", 64)},
    constants={"B": 16},
    complete=True,
)  # fmt: skip
def described_steps(c: Any) -> Any:
    yield step(shifted, (cdiv(c.M, c.B),))
    yield step(doubled, (cdiv(c.M, c.B),))


def floats(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(3).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("config", [0, 1])
def test_descriptors_of_arrays_views_and_results(device: str, config: int) -> None:
    kernel, given = xtarget.get("test.tiled"), floats(20, 64)
    given[0, 0] = np.inf  # past the view
    a, b = given[1:, 8:40], floats(32, 40)
    blocks = cdiv(19, (16, 32)[config]) * cdiv(40, (32, 16)[config])
    for out in (None, (np.zeros((19, 40), np.float32), np.full(1, 9, np.int32))):
        for _ in range(3):  # the hook fills what is counted, each time
            made, counted = kernel(a, b, out=out, config=config)
            np.testing.assert_allclose(made, a.astype(np.float64) @ b, atol=1e-5)
            assert counted == [blocks]


def test_descriptors_of_steps_and_of_arrays_that_are_left_out(device: str) -> None:
    bias = floats(64)
    for rows in (5, 16, 37):
        x = floats(rows, 64)
        np.testing.assert_array_equal(xtarget.run("test.tiled_steps", x), 2 * x)
        right = 2 * (x + bias)
        np.testing.assert_array_equal(xtarget.run("test.tiled_steps", x, bias), right)


@pytest.mark.parametrize("shape", [(1, 36, 40), (0, 4, 4), (5, 0, 4), (5, 4, 0)])
def test_descriptors_of_few_elements_and_of_none(device: str, shape: tuple[int, ...]) -> None:
    m, k, n = shape
    a, b = floats(2 * m + 1, 37)[:m, :k], floats(k, n)  # one row may have any stride
    if m > 1 and a.size:
        a = a.copy()
    made, _ = xtarget.run("test.tiled", a, b)
    np.testing.assert_allclose(made, a.astype(np.float64) @ b, atol=1e-5)


@pytest.mark.parametrize(("target", "engine"), [("cuda:90", True), ("cuda:80", False)])
def test_the_copy_engine_is_used_where_there_is_one(target: str, engine: bool) -> None:
    a, b = floats(64, 64, dtype=np.float16), floats(64, 64, dtype=np.float16)
    code = xtarget.get("test.tiled").show("ptx", a, b, target=target, config=1)
    assert ("cp.async.bulk.tensor" in code) == engine
    (made,) = xtarget.compile("test.tiled", a, b, target=target, config=1)
    assert made.cluster == (2 if engine else 1)
    assert [p.access for p in made.parameters[:3]] == ["r", "r", "wm"]


def test_arrays_that_no_descriptor_describes_are_refused(device: str) -> None:
    if not xtarget.device(device).info.host_memory:
        pytest.skip("views of the host's arrays are copied, and copies have no gaps")
    run, b = xtarget.get("test.tiled"), floats(32, 40)
    for a, word in (
        (floats(4, 33)[:, :32], r"strides are \(33, 1\) elements of 4 bytes\. The last"),
        (floats(4, 64)[:, ::2], r"strides are \(64, 2\)"),
        (floats(32, 4).T, r"strides are \(1, 4\)"),
    ):
        with pytest.raises(xtarget.ArgumentError, match=word):
            run(a, b)
    with pytest.raises(xtarget.ArgumentError, match="not at a multiple of 16 bytes"):
        run(floats(4, 64)[:, 1:33], b)


@pytest.mark.parametrize(
    ("tile", "word"),
    [
        ((), "no lengths, and the array 2"),
        ((4, 2), "at least 4 elements of float32, 16 bytes"),
        ((4, 12), "powers of 2"),
        (("4", "nothing"), "there is no 'nothing'"),
    ],
)
def test_tiles_that_cannot_be(device: str, tile: Any, word: str) -> None:
    @xtarget.kernel(
        name="test.wrong_tile", grid="1", complete=True, outputs={"out": "x"},
        inputs={"x": In["float32", "M", "N"].descriptor(*tile)},
    )  # fmt: skip
    @triton.jit
    def wrong(x, out):
        tl.store(out, tl.sum(tl.sum(x.load([0, 0]), 0), 0))

    with pytest.raises(xtarget.ArgumentError, match=word):
        xtarget.run("test.wrong_tile", floats(8, 8))


def test_a_store_by_the_descriptor_of_an_input_is_told_with_its_line(device: str) -> None:
    @xtarget.kernel(name="test.wrong_store", grid="1", complete=True, outputs={"out": "x"},
                    inputs={"x": In["float32", "M", "N"].descriptor(4, 4)})  # fmt: skip
    @triton.jit
    def wrong(x, out):
        tl.store(out, 0.0)
        x.store([0, 0], x.load([0, 0]) * 2)

    x, line = np.ones((8, 8), np.float32), wrong.starting_line_number + 5
    with pytest.warns(RuntimeWarning, match=rf"stores to x \(.*test_author_descriptors.py:{line}"):
        xtarget.run("test.wrong_store", x, device=device)
    assert (x[:4, :4] == 2).all()
    assert x.sum() == 64 + 16


@pytest.mark.parametrize(
    ("hook", "word"),
    [
        (lambda nargs: nargs["x"].zero_(), "fills x, which is an input"),
        (lambda nargs: nargs["out"].copy_(nargs["x"]), "asks for copy_ of out"),
        (lambda nargs: nargs["y"], "KeyError: 'y'"),
        (5, "pre_hook of its configuration is 5"),
    ],
)
def test_hooks_that_do_something_else(device: str, hook: Any, word: str) -> None:
    def made() -> None:
        @xtarget.kernel(name="test.hook", grid="1", configs=[Config({"B": 4}, pre_hook=hook)])
        @triton.jit
        def hooked(x: In["float32", "N"], out: Out["x"], B: tl.constexpr):
            tl.store(out, tl.load(x))

        xtarget.run("test.hook", floats(4))

    with pytest.raises(xtarget.ArgumentError, match=word):
        made()


@xtarget.kernel(name="test.together", grid="BLOCKS", options={"launch_cooperative_grid": True},
                flags={"BLOCKS": 1}, constants={"B": 32})  # fmt: skip
@triton.jit
def together(x: In["float32", "N"], out: Out["float32", "BLOCKS"],
             parts: Workspace["float32", "BLOCKS"], there: Workspace["int32", 1].filled(0),
             N, BLOCKS: tl.constexpr, B: tl.constexpr):  # fmt: skip
    block, i = tl.program_id(0), tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    for start in range(block * B, N, BLOCKS * B):
        total += tl.load(x + start + i, start + i < N, 0)
    tl.store(parts + block, tl.sum(total, 0))
    tl.atomic_add(there, 1)
    while tl.atomic_add(there, 0) < BLOCKS:
        pass
    all_parts = tl.load(parts + tl.arange(0, BLOCKS))
    tl.store(out + block, tl.sum(all_parts, 0))


def test_blocks_that_wait_for_each_other_run_together_or_are_refused(device: str) -> None:
    x = np.ones(1000, np.float32)
    assert xtarget.run("test.together", x) == [1000]
    if xtarget.device(device).info.vendor in ("cpu", "intel"):  # nobody promises that both run
        with pytest.raises(xtarget.LaunchError, match="waits for another would hang"):
            xtarget.run("test.together", x, BLOCKS=2)
    else:
        assert (xtarget.run("test.together", x, BLOCKS=2) == 1000).all()
