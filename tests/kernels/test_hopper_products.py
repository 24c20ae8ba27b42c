"""Products by groups of warps on sm_90: which calls have them, what they need, and their results
where there is such a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

from test_choices import matrix, plan_of, product

import xtarget
from xtarget._kernels import libraries
from xtarget._launch import planning
from xtarget._values.types import Target
from xtarget.spec import ArrayType

LAYOUTS = ("NN", "NT", "TN", "TT")
SOURCE = "hopper_products:matmul_in_groups"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_these_are_of_arrays_that_the_copy_engine_moves(layout: str) -> None:
    assert product(1536, 1536, 1536, layout) == ["matmul_in_groups"]
    assert product(1536, 1536, 1536, layout, "float16") == ["matmul_in_groups"]
    copied = product(1536, 1536, 1536, layout, aligned=False)
    assert copied[:2] == ["copy", "copy"]
    assert len(copied) == 3
    for target in ("nvidia:sm_80", "nvidia:sm_100", "amd:gfx942"):
        assert product(1536, 1536, 1536, layout, target=target) == ["matmul"]
    # rows of the result begin anywhere
    assert product(1536, 1532, 1536, layout)[-1] in ("matmul_described", "matmul_in_turn")


def test_a_block_for_each_multiprocessor_makes_the_tiles_in_turn() -> None:
    for m, n in ((1536, 1536), (3072, 3072)):
        (launch,) = plan_of("matmul", *[matrix(*s, "N", "bfloat16") for s in ((m, 1536), (1536, n))]
        ).launches  # fmt: skip
        known = launch.constants
        rows = int(str(known["GROUPS"])) * int(str(known["ROWS"]))
        columns = int(str(known["BLOCK_N"])) + int(str(known["REST"]))
        tiles = -(-m // rows) * -(-n // columns)
        assert launch.source == SOURCE
        assert launch.grid == (min(132, tiles), 1, 1)
        assert set(launch.descriptors) - {"rest"} == {"a", "b", "out"}
        assert ("rest" in launch.descriptors) == bool(known["REST"])


@pytest.mark.parametrize(("n", "step", "stored"), [(1528, 1536, True), (1525, 1536, False)])
def test_rows_of_a_result_that_end_within_16_bytes_are_not_stored_by_the_copy_engine(
    n: int, step: int, stored: bool
) -> None:
    """The engine wrote what is beside them too (seen on an H100)."""
    types = matrix(1536, 1536, "N", "bfloat16"), ArrayType("bfloat16", (1536, n), (1, 1536))
    found = libraries.find("matmul")
    out = ArrayType("bfloat16", (1536, n), (step, 1))
    aligned = [True] * 3
    target = Target.parse("nvidia:sm_90")
    call = planning.call_of(found, types, {}, target, 132, out=out, aligned=aligned)
    launch = planning.make_plan(found, call).launches[-1]
    assert ("out" in launch.descriptors) is stored


def test_a_product_that_a_later_launch_rounds_is_not_made_so() -> None:
    types = [matrix(1536, 1536, "N", "bfloat16")] * 3
    assert SOURCE not in [one.source for one in plan_of("addmm", *types).launches]


@pytest.mark.sample(3, each=("layout", "size"))
@pytest.mark.parametrize("size", [1536, 3072])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_tiles_stay_in_registers_and_shared_memory(layout: str, size: int) -> None:
    a, b = (np.empty((size, size), np.float16) for _ in range(2))
    a, b = (x.T if t == "T" else x for x, t in zip((a, b), layout, strict=True))
    (made,) = xtarget.compile("matmul", a, b, target="nvidia:sm_90")
    assert made.entry == "matmul_in_groups"
    assert made.resources.local_bytes == 0
    assert made.shared_bytes <= 227 * 1024
    assert made.early


@pytest.mark.large
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [
        (1536, 1536, 1536),
        (600, 4096, 136),
        (1208, 3712, 1104),
        (3072, 3064, 200),
        (2336, 400, 2360),
    ],
)
def test_results(device: str, m: int, n: int, k: int, layout: str, dtype: str) -> None:
    """Tiles that share rows or columns with others, a K that fills no step, and nothing written
    beside the result."""
    if not device.startswith("nvidia"):
        pytest.skip("a kernel of NVIDIA's sm_90")
    torch = pytest.importorskip("torch")
    kind = getattr(torch, dtype)

    def made(rows: int, columns: int, t: str) -> Any:
        shape = (columns, rows) if t == "T" else (rows, columns)
        x = torch.randn(*shape, device="cuda", dtype=kind)
        return x.T if t == "T" else x

    a, b = made(m, k, layout[0]), made(k, n, layout[1])
    wide = torch.full((m, n + 8), 7.0, device="cuda", dtype=kind)
    xtarget.run("matmul", a, b, out=wide[:, :n])
    exact = a.double() @ b.double()
    error = float((wide[:, :n].double() - exact).norm() / exact.norm())
    assert error < (4e-3 if dtype == "bfloat16" else 1e-3)
    assert bool((wide[:, n:] == 7).all())
    assert torch.equal(wide[:, :n], xtarget.run("matmul", a, b))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("beside", [0, 3, 8])
def test_pieces_of_k_are_added_in_one_order(device: str, beside: int, dtype: str) -> None:
    """Rows of the result lie side by side or apart, and nothing is written between them."""
    if not device.startswith("nvidia"):
        pytest.skip("a kernel of NVIDIA's sm_90")
    torch = pytest.importorskip("torch")
    m, n, k = 40, 544, 3976
    a = torch.randn(m, k, device="cuda", dtype=getattr(torch, dtype))
    b = torch.randn(k, n, device="cuda", dtype=getattr(torch, dtype))
    exact = a.double() @ b.double()
    made = [torch.full((m, n + beside), 7, device="cuda", dtype=a.dtype) for _ in range(2)]
    for whole in made:
        xtarget.run("matmul", a, b, out=whole[:, :n])
    assert torch.equal(*made)
    assert bool((made[0][:, n:] == 7).all())
    error = float((made[0][:, :n].double() - exact).norm() / exact.norm())
    assert error < (4e-3 if dtype == "bfloat16" else 1e-3)


@pytest.mark.parametrize("n", [989, 1125, 2389])
def test_nothing_is_written_beside_rows_that_end_within_16_bytes(device: str, n: int) -> None:
    if not device.startswith("nvidia"):
        pytest.skip("a kernel of NVIDIA's sm_90")
    torch = pytest.importorskip("torch")
    a, b = (torch.randn(*shape, device="cuda").half() for shape in ((1264, 1504), (1504, n)))
    wide = torch.full((1264, n + -n % 8), 7.0, device="cuda").half()
    xtarget.run("matmul", a, b, out=wide[:, :n])
    assert bool((wide[:, n:] == 7).all())
