"""Matrix products: real shapes in every layout, few bits, one matrix for each part of the rows."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import torch

import xtarget

from .case import Case, randn

__all__ = ["cases"]


def _product(
    m: int, n: int, k: int, layout: str, dtype: Any, asked: float = 0.0, *,
    memory: bool = False, name: str = "",
) -> Case:  # fmt: skip
    def inputs() -> tuple[Any, ...]:
        a = randn(k, m, dtype=dtype).T if layout[0] == "T" else randn(m, k, dtype=dtype)
        b = randn(n, k, dtype=dtype).T if layout[1] == "T" else randn(k, n, dtype=dtype)
        return a, b

    size = dtype.itemsize
    work = (m * k + k * n + m * n) * size if memory else 2 * m * n * k
    label = f"{name or ('bf16' if size == 2 else 'fp32')} {layout} {m}x{n}x{k}"
    return Case(
        label, "matmul", inputs, torch.matmul, work, not memory, out=True, asked=asked
    )  # fmt: skip


def _fp8() -> Case:
    size = 8192

    def inputs() -> tuple[Any, ...]:
        a = randn(size, size, dtype=torch.float32).to(torch.float8_e4m3fn)
        b = randn(size, size, dtype=torch.float32).to(torch.float8_e4m3fn)
        return a, b.T, torch.ones(1, device="cuda"), torch.ones(1, device="cuda")

    def ours(a: Any, b: Any, s: Any, t: Any, out: Any = None) -> Any:
        bits = a.view(torch.uint8), b.T.view(torch.uint8).T
        return xtarget.run("fp8_matmul", *bits, s, t, dtype="bfloat16", out=out)

    return Case(
        "fp8 e4m3 NT 8192^3", "fp8_matmul", inputs,
        lambda a, b, s, t: torch._scaled_mm(a, b, s, t, out_dtype=torch.bfloat16),
        2 * size**3, True, ours=ours, exact=lambda a, b, s, t: a.double() @ b.double(),
        asked=0.95,
    )  # fmt: skip


def _int8() -> Case:
    size = 8192

    def inputs() -> tuple[Any, ...]:
        a, b = (torch.randint(-128, 128, (size, size), device="cuda").to(torch.int8)
                for _ in range(2))  # fmt: skip
        return a, b.T

    return Case(
        "int8 NT 8192^3", "matmul_integer", inputs, torch._int_mm, 2 * size**3, True,
        exact=lambda a, b: a.double() @ b.double(), asked=1.0,
    )  # fmt: skip


def _int4(m: int) -> Case:
    n, k, group = 14336, 4096, 128

    def inputs() -> tuple[Any, ...]:
        bits = torch.randint(0, 256, (n, k // 2), device="cuda").to(torch.uint8)
        scales = randn(n, k // group, dtype=torch.bfloat16).abs() + 0.5
        x = randn(m, k, dtype=torch.bfloat16)
        return x, bits, scales, _wide(bits, scales).to(torch.bfloat16)

    def _wide(bits: Any, scales: Any) -> Any:
        both = torch.stack([bits & 15, bits >> 4], -1).reshape(n, k).double() - 8
        return both * scales.double().repeat_interleave(group, 1)

    return Case(
        f"int4 weights m={m} {n}x{k}", "linear_int4", inputs,
        lambda x, bits, scales, w: torch.nn.functional.linear(x, w),
        n * k // 2 + n * k // group * 2 + m * (n + k) * 2,
        ours=lambda x, bits, scales, w, out=None: xtarget.run(
            "linear_int4", x, bits, scales, out=out),
        exact=lambda x, bits, scales, w: x.double() @ _wide(bits, scales).T,
        asked=2.5,
    )  # fmt: skip


def _grouped() -> Case:
    parts, rows, n, k = 64, 16384, 2048, 4096

    def inputs() -> tuple[Any, ...]:
        cuts = torch.randint(0, rows + 1, (parts - 1,)).sort().values
        starts = torch.cat([torch.tensor([0]), cuts, torch.tensor([rows])])
        starts = starts.to("cuda", torch.int32)
        return randn(rows, k, dtype=torch.bfloat16), randn(
            parts, k, n, dtype=torch.bfloat16
        ), starts  # fmt: skip

    def exact(x: Any, weight: Any, starts: Any) -> Any:
        ends = starts.tolist()
        parts_of = [x[a:b].float() @ weight[i].float()
                    for i, (a, b) in enumerate(itertools.pairwise(ends))]  # fmt: skip
        return torch.cat(parts_of)

    return Case(
        "grouped bf16 64 experts, 16384x2048x4096", "grouped_matmul", inputs,
        lambda x, weight, starts: torch._grouped_mm(x, weight, offs=starts[1:]),
        2 * rows * n * k, True, exact=exact, allowed=5e-3, asked=0.95,
    )  # fmt: skip


def random_shapes(count: int = 50) -> Iterator[Case]:
    """Any sizes and layouts; the same ones each time."""
    chosen = random.Random(15)
    for _ in range(count):
        m, n, k = (chosen.randint(33, 5000) for _ in range(3))
        layout = chosen.choice(("NN", "NT", "TN", "TT"))
        yield _product(m, n, k, layout, torch.bfloat16, 0.75, name="random bf16")


def cases() -> Iterator[Case]:
    half, single = torch.bfloat16, torch.float32
    for n, k, asked in ((4096, 4096, 1.5), (14336, 4096, 1.25)):
        for m in (1, 4, 16, 32, 64):
            yield _product(m, n, k, "NT", half, 0 if m == 32 else asked, memory=True)
        yield _product(16, n, k, "NN", half, memory=True)
    for size, asked in ((512, 0.95), (1024, 0.95), (2048, 1.0)):
        for layout in ("NN", "NT", "TN", "TT"):
            yield _product(size, size, size, layout, half, asked)
    for layout in ("NN", "NT", "TN", "TT"):
        for m, n, k in ((4096,) * 3, (8192,) * 3, (4096, 4096, 14336), (8192, 8192, 1024)):
            yield _product(m, n, k, layout, half, 1.0 if m == n == k else 0)
    yield _product(4096, 4096, 64, "NT", half, memory=True)
    for m, n, k in ((333, 1001, 777), (1500, 1500, 1500), (3001, 4111, 2777)):
        for layout in ("NN", "NT"):
            yield _product(m, n, k, layout, half)
    for size in (1024, 2048, 4096):
        for layout in ("NN", "NT"):
            yield _product(size, size, size, layout, single)
    yield from random_shapes()
    yield _fp8()
    yield _int8()
    for m in (1, 8, 32):
        yield _int4(m)
    yield _grouped()
