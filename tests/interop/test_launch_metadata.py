"""`@triton.jit(launch_metadata=...)` of our kernels is asked while hooks are set."""
# ruff: noqa: F821 - the words in annotations are lengths

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import xtarget
from xtarget.spec import In, InOut, Out, step
from xtarget_triton.hooks import tell_changes

pytest.importorskip("triton", reason="Triton is not installed here")

import triton
import triton.language as tl

asked: list[tuple[Any, Any, dict[str, Any]]] = []


def _said(grid: Any, metadata: Any, args: dict[str, Any]) -> dict[str, Any]:
    asked.append((grid, metadata, args))
    return {
        "name": f"{metadata.name}_{args['N']}",
        "bytes": 3 * args["x"].numel() * args["x"].element_size(),
    }


@xtarget.kernel(name="said_scaled", grid="cdiv(N, BLOCK)", constants={"BLOCK": 64}, num_warps=2)
@triton.jit(launch_metadata=_said)
def said_scaled(x: In["T", "N"], y: In["T", "N"] | None, out: Out["T", "N"], scale: float, N,
                BLOCK: tl.constexpr, KIND: tl.constexpr = tl.float32):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, i < N) * scale
    if y is not None:
        v += tl.load(y + i, i < N)
    tl.store(out + i, v.to(KIND), i < N)


@triton.jit(launch_metadata=_said)
def _moved(x, y, N):
    tl.store(y + tl.program_id(0), tl.load(x + tl.program_id(0)) + 1)


@xtarget.kernel(
    name="said_twice",
    inputs={"x": InOut["float32", "N"]},
    workspaces={"room": Out["float32", "N"]},
)
def said_twice(c: Any) -> Any:
    yield step(_moved, c.N, y=c.room)
    yield step(_moved, c.N, x=c.room, y=c.x)


@pytest.fixture
def told() -> Iterator[list[dict[str, Any]]]:
    """The metadata that a hook of Triton's is given."""
    tell_changes()  # as Triton has it done where xtarget is installed
    found: list[dict[str, Any]] = []
    asked.clear()

    def enter(metadata: Any) -> None:
        found.append(metadata.get())

    hooks = triton.knobs.runtime.launch_enter_hook
    hooks.add(enter)
    yield found
    if enter in hooks.calls:
        hooks.remove(enter)


def test_it_is_asked_with_the_arguments_by_name(device: str, told: list[dict[str, Any]]) -> None:
    x, y = np.ones(100, np.float32), np.ones(100, np.float32)
    xtarget.run("said_scaled", x, y, 2.0, device=device)
    assert (told[0]["name"], told[0]["bytes"]) == ("said_scaled_100", 1200)
    ((grid, metadata, args),) = asked
    assert grid == (2, 1, 1)
    assert (metadata.num_warps, metadata.num_ctas) == (2, 1)
    assert list(args) == ["x", "y", "out", "scale", "N", "BLOCK", "KIND"]
    for name in ("x", "y", "out"):
        assert (args[name].shape, args[name].dtype, args[name].nbytes) == ((100,), "float32", 400)
    assert [args[name] for name in ("scale", "N", "BLOCK")] == [2.0, 100, 64]
    assert args["KIND"] is tl.float32


def test_it_is_asked_by_kernel_objects_and_prepared_launches(
    device: str, told: list[dict[str, Any]]
) -> None:
    x, out = np.ones(70, np.float32), np.zeros(70, np.float32)
    kernel: Any = xtarget.get("said_scaled")
    kernel(x, None, 2.0, out=out, device=device)
    assert asked[0][2]["y"] is None
    kernel.prepare(x, None, 3.0, device=device)()
    kernel(x[:50], None, 4.0, device=device)
    assert [one["name"] for one in told] == ["said_scaled_70", "said_scaled_70", "said_scaled_50"]
    assert [args["scale"] for _, _, args in asked] == [2.0, 3.0, 4.0]


def test_it_is_asked_for_each_of_several_launches(device: str, told: list[dict[str, Any]]) -> None:
    x = np.zeros(5, np.float32)
    xtarget.run("said_twice", x, device=device)
    assert x.tolist() == [2.0] * 5
    assert [one["name"] for one in told] == ["_moved_5", "_moved_5"]
    (_, _, first), (_, _, second) = asked
    for args in (first, second):
        assert args["x"].shape == args["y"].shape == (5,)


def test_tensors_are_what_it_is_given(place: str, told: list[dict[str, Any]]) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed here")
    x = torch.ones(6, device=place)
    result = xtarget.run("said_scaled", x, None, 2.0)
    ((_, _, args),) = asked
    assert args["x"] is x
    assert args["out"] is result
    assert told[0]["bytes"] == 72


def test_it_is_not_asked_without_hooks(device: str) -> None:
    asked.clear()
    x = np.ones(8, np.float32)
    with xtarget.profile():
        xtarget.run("said_scaled", x, x, 1.0, device=device)
    assert not asked


def test_an_error_of_it_is_logged_and_the_call_goes_on(
    device: str, told: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    @triton.jit(launch_metadata=lambda grid, metadata, args: {"flops": args["x"].no_such})
    def said_wrong(x, out):
        tl.store(out + tl.program_id(0), tl.load(x + tl.program_id(0)))

    xtarget.kernel(name="said_wrong", grid=lambda c: c.x.size, inputs=("x",), outputs={"out": "x"})(
        said_wrong
    )
    assert xtarget.run("said_wrong", np.ones(3, np.float32), device=device).tolist() == [1.0] * 3
    assert not told
