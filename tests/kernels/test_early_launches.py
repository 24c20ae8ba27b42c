"""Kernels that may start before the launch in front of them has ended: they wait for it before they
touch memory, and no other kernel is launched so."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

import triton
import triton.language as tl
from test_choices import HOPPER, plan_of
from test_plans import array
from triton.language.extra.cuda import gdc_wait

import xtarget
from xtarget.spec import ArrayType

#: PTX that reads or writes memory of the launches in front, or makes the copy engine do it.
_TOUCHES = re.compile(r"\b(ld\.global|st\.global|cp\.async|tensormap|atom|red\.global|ld\.v)")


def matrices(m: int, n: int, k: int, *, turned: bool = True) -> tuple[Any, Any]:
    a, b = np.empty((m, k), np.float16), np.empty((n, k) if turned else (k, n), np.float16)
    return a, b.T if turned else b


CALLS = [
    ("matmul", matrices(4, 4096, 4096), "few"),
    ("matmul", matrices(60, 4096, 4096, turned=False), "matmul"),
    ("matmul", matrices(512, 512, 1024), "matmul_described"),
    ("matmul", matrices(40, 544, 3976), "matmul_described_parts added"),
    ("matmul", matrices(4096, 4096, 96, turned=False), "matmul_in_turn"),
    ("matmul", matrices(4096, 4096, 96), "matmul_in_turn"),
    ("matmul", matrices(1536, 1536, 1536), "matmul_in_groups"),
    (
        "linear_int4",
        (
            np.empty((8, 4096), np.float16),
            np.empty((4096, 2048), np.uint8),
            np.empty((4096, 32), np.float16),
        ),
        "matmul",
    ),
]  # fmt: skip


@pytest.mark.sample(3, each=("name", "entries"))
@pytest.mark.parametrize(("name", "args", "entries"), CALLS)
def test_they_wait_before_they_touch_memory(name: str, args: Any, entries: str) -> None:
    made = {one.entry: one for one in xtarget.compile(name, *args, target=HOPPER)}
    for entry in entries.split():
        assert made[entry].early
        text = made[entry].texts["ptx"]
        waits, touches = text.index("griddepcontrol.wait"), _TOUCHES.search(text)
        assert touches is not None
        assert waits < touches.start()
    assert not any(one.early for other, one in made.items() if other not in entries.split())


@triton.jit
def waiting(x, out, n, WAIT: tl.constexpr, BLOCK: tl.constexpr):
    if WAIT:
        gdc_wait()
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


@pytest.mark.parametrize("wait", [True, False])
def test_a_users_kernel_that_never_waits_is_launched_like_any_other(wait: bool) -> None:
    name = f"early.waiting_{wait}"
    xtarget.kernel(
        name=name, inputs=("x",), outputs={"out": "x"}, sizes={"n": lambda c: c.x.size},
        constants={"WAIT": wait, "BLOCK": 256}, grid=lambda c: (-(-c.n // 256),),
        options={"launch_pdl": True},
    )(waiting)  # fmt: skip
    (made,) = xtarget.compile(name, np.empty(1000, np.float32), target=HOPPER)
    assert made.early is wait


@pytest.mark.parametrize("target", ["nvidia:sm_80", "amd:gfx942", "cpu:spirv64"])
def test_other_targets_have_none(target: str) -> None:
    for m, n, k in ((4, 4096, 4096), (1024, 1024, 1024), (200, 1304, 1000)):
        types = array("bfloat16", m, k), array("bfloat16", k, n)
        for launch in plan_of("matmul", *types, target=target).launches:
            assert "launch_pdl" not in launch.options
            assert not launch.source.startswith("hopper")


def test_a_kernel_that_does_not_wait_is_not_started_early() -> None:
    (artifact,) = xtarget.compile("add", *(np.empty(4096, np.float32),) * 2, target=HOPPER)
    assert not artifact.early
    assert "griddepcontrol" not in artifact.texts["ptx"]


def test_few_rows_of_whole_blocks_have_a_kernel_of_their_own() -> None:
    def source(m: int, n: int, k: int) -> str:
        turned = ArrayType("bfloat16", (k, n), (1, k))
        return str(plan_of("matmul", array("bfloat16", m, k), turned).launches[0].source)

    assert source(1, 4096, 4096) == source(48, 14336, 4096) == "hopper_linear:few"
    assert source(16, 4097, 4096) != "hopper_linear:few"  # not whole blocks
    assert source(16, 4096, 4100) != "hopper_linear:few"  # nor whole steps
    assert source(80, 4096, 4096) != "hopper_linear:few"


@pytest.mark.large
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("m", [1, 7, 16, 33, 64])
def test_a_chain_has_the_results_of_launches_one_by_one(device: str, dtype: str, m: int) -> None:
    """Each launch reads what the one in front wrote, and writes what that one read."""
    if not device.startswith("nvidia"):
        pytest.skip("launches of other vendors start in their order")
    torch = pytest.importorskip("torch")
    kind = getattr(torch, dtype)
    w = torch.randn(4096, 4096, device="cuda", dtype=kind) / 64
    first = torch.randn(m, 4096, device="cuda", dtype=kind)

    def chain(*, wait: bool) -> Any:
        x, buffers = first, [torch.empty_like(first), torch.empty_like(first)]
        for step in range(20):
            out = buffers[step % 2]
            xtarget.run("matmul", x, w.T if step % 3 else w, out=out)
            if wait:
                torch.cuda.synchronize()
            if step % 5 == 2:
                out.mul_(1.25)
            x = out
        return x

    right = chain(wait=True)
    exact = (first.double() @ w.double()).to(kind)
    one = xtarget.run("matmul", first, w)
    assert float((one.double() - exact.double()).norm() / exact.double().norm()) < 5e-3
    for _ in range(10):
        assert torch.equal(chain(wait=False), right)
