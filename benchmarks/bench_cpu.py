"""The CPU's kernels against torch's, both with `out=` where torch has it, in one process.

    python benchmarks/bench_cpu.py                  # two threads: least time of calls in a row
    taskset -c 0 python benchmarks/bench_cpu.py     # one core: least processor time of a call

Both ways take turns, each for some calls in a row after a pause: torch's threads go on in a loop
behind a call, and would take a core from the other way. On one core a pause is of no use, and
processor time is what other work on the machine changes least.
"""

from __future__ import annotations

import argparse
import functools
import os
import time
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

import xtarget

#: As a user's program has it who launches in Triton's own way.
os.environ.setdefault("TRITON_DEFAULT_BACKEND", "spirv")
Call = Callable[[], object]
CORES = len(os.sched_getaffinity(0))
PAUSE = 0.15


def least(ways: tuple[Call, Call], rounds: int, calls: int) -> list[float]:
    """Least microseconds of a call of each way."""
    best = [float("inf")] * 2
    for way in ways * 2:
        way()
    for _ in range(rounds):
        for number, way in enumerate(ways):
            if CORES > 1:
                time.sleep(PAUSE)
                way()
            begin = time.process_time()
            for _ in range(calls):
                start = time.perf_counter()
                way()
                if CORES > 1:
                    best[number] = min(best[number], time.perf_counter() - start)
            if CORES == 1:
                best[number] = min(best[number], (time.process_time() - begin) / calls)
    return [1e6 * seconds for seconds in best]


def first_rows(n: int) -> Iterator[tuple[str, Call, Call, int]]:
    a, b, out = (torch.randn(n, n) for _ in range(3))
    w, c = torch.randn(n), torch.randn(n)

    def ours(name: str, *args: object) -> Call:
        return lambda: xtarget.run(name, *args, out=out, device="cpu:0")

    yield "add", lambda: torch.add(a, b, out=out), ours("add", a, b), 20
    yield "exp", lambda: torch.exp(a, out=out), ours("exp", a), 20
    yield "gelu", lambda: torch.ops.aten.gelu.out(a, out=out), ours("gelu", a), 20
    yield "layer_norm", lambda: F.layer_norm(a, (n,), w, c), ours("layer_norm", a, w, c), 20
    yield "rms_norm", lambda: F.rms_norm(a, (n,), w), ours("rms_norm", a, w), 20
    yield "softmax", lambda: torch.softmax(a, -1, out=out), ours("softmax", a), 20


def elementwise(n: int) -> Iterator[tuple[str, Call, Call, int]]:
    a, b, out = torch.rand(n) + 0.5, torch.rand(n) + 0.5, torch.empty(n)
    mask = a > b
    aten = torch.ops.aten
    ways: tuple[tuple[str, Callable[..., object], tuple[object, ...]], ...] = (
        ("add", torch.add, (a, b)),
        ("relu", aten.relu.out, (a,)),
        ("mul", torch.mul, (a, b)),
        ("sigmoid", torch.sigmoid, (a,)),
        ("tanh", torch.tanh, (a,)),
        ("silu", aten.silu.out, (a,)),
        ("where", aten.where.self_out, (mask, a, b)),
        ("pow", torch.pow, (a, b)),
    )
    for name, theirs, given in ways:
        yield f"{name} 2^{n.bit_length() - 1}", *both(name, theirs, given, out), calls_of(n)


def both(
    name: str,
    theirs: Callable[..., object],
    given: tuple[object, ...],
    out: torch.Tensor,
    **options: object,
) -> tuple[Call, Call]:
    return (
        lambda: theirs(*given, out=out),
        lambda: xtarget.run(name, *given, out=out, device="cpu:0", **options),
    )


def calls_of(n: int) -> int:
    """How many calls in a row take long enough to be timed."""
    return max(2, min(400, (1 << 24) // n))


def reductions(shape: tuple[int, ...]) -> Iterator[tuple[str, Call, Call, int]]:
    x = torch.randn(shape)
    axis = len(shape) - 1
    out = torch.empty(shape[:-1])
    size = "x".join(map(str, shape))
    for name, theirs in (("max", torch.amax), ("sum", torch.sum)):
        way = functools.partial(theirs, dim=axis)
        yield f"{name} {size}", *both(name, way, (x,), out, axis=axis), calls_of(x.numel())


def normalized(
    rows: int, n: int, dtype: torch.dtype = torch.float32
) -> Iterator[tuple[str, Call, Call, int]]:
    """What goes along rows. torch's norms take no `out=`, and its memory is used again."""
    x, w, c = (torch.randn(shape).to(dtype) for shape in ((rows, n), (n,), (n,)))
    out = torch.empty_like(x)
    ways: tuple[tuple[str, Call, tuple[object, ...]], ...] = (
        ("layer_norm", lambda: F.layer_norm(x, (n,), w, c), (x, w, c)),
        ("rms_norm", lambda: F.rms_norm(x, (n,), w), (x, w)),
        ("softmax", lambda: torch.softmax(x, -1, out=out), (x,)),
    )
    for name, theirs, given in ways:
        ours = both(name, torch.empty, given, out)[1]
        yield f"{name} {rows}x{n} {str(dtype)[6:]}", theirs, ours, calls_of(rows * n)


@triton.jit
def tutorial(a, b, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A user's product, as Triton's tutorial has it."""
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    pa, pb = a + row[:, None] * K + k[None, :], b + k[:, None] * N + column[None, :]
    total = tl.zeros([BM, BN], tl.float32)
    for _ in range(0, K, BK):
        total = tl.dot(tl.load(pa), tl.load(pb), total, input_precision="ieee")
        pa += BK
        pb += BK * N
    tl.store(out + row[:, None] * N + column[None, :], total.to(out.dtype.element_ty))


def users_product(n: int, tile: tuple[int, int, int]) -> tuple[str, Call, Call, int]:
    """By Triton's own launching."""
    a, b, out = torch.randn(n, n), torch.randn(n, n), torch.empty(n, n)
    grid = (n // tile[0], n // tile[1])
    name = f"user's matmul {n}^3, tiles {'x'.join(map(str, tile))}"

    def ours() -> None:  # complete when it returns
        tutorial[grid](a, b, out, n, n, n, *tile, num_warps=1)  # type: ignore[index]

    return name, lambda: torch.matmul(a, b, out=out), ours, 4


def product(m: int, n: int, k: int, dtype: torch.dtype, layout: str) -> tuple[str, Call, Call, int]:
    shapes = (m, k) if layout[0] == "N" else (k, m), (k, n) if layout[1] == "N" else (n, k)
    a, b = (torch.randn(shape).to(dtype) for shape in shapes)
    a, b = (x.T if way == "T" else x for x, way in zip((a, b), layout, strict=True))
    out = torch.empty(m, n, dtype=dtype)
    return (
        f"matmul {m}x{n}x{k} {layout} {str(dtype)[6:]}",
        lambda: torch.matmul(a, b, out=out),
        lambda: xtarget.run("matmul", a, b, out=out, device="cpu:0"),
        4,
    )


def attention(
    heads: int, length: int, size: int, dtype: torch.dtype, *, causal: bool
) -> tuple[str, Call, Call, int]:
    q, k, v = (torch.randn(1, heads, length, size).to(dtype) for _ in range(3))
    out = torch.empty_like(q)
    return (
        f"attention {heads}x{length}x{size} {str(dtype)[6:]}{' causal' * causal}",
        lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal),
        lambda: xtarget.run("attention", q, k, v, causal=causal, out=out, device="cpu:0"),
        4,
    )


def convolution(
    xs: tuple[int, ...], ws: tuple[int, ...], dtype: torch.dtype, padding: int
) -> tuple[str, Call, Call, int]:
    x, w = torch.randn(xs).to(dtype), torch.randn(ws).to(dtype)
    options = {"padding": padding, "stride": 2 if ws[2] == 7 else 1, "groups": xs[1] // ws[1]}
    out = torch.empty_like(F.conv2d(x, w, **options))
    return (
        f"conv2d {'x'.join(map(str, xs))} {'x'.join(map(str, ws))} {str(dtype)[6:]}",
        lambda: F.conv2d(x, w, **options),
        lambda: xtarget.run("conv2d", x, w, out=out, device="cpu:0", **options),
        4,
    )


def cases() -> Iterator[tuple[str, Call, Call, int]]:
    single, half = torch.float32, torch.bfloat16
    yield from first_rows(1024)
    for dtype in (single, half):
        yield product(1024, 1024, 1024, dtype, "NN")
        yield product(512, 512, 512, dtype, "NN")
        yield attention(8, 512, 64, dtype, causal=False)
        yield convolution((1, 64, 56, 56), (64, 64, 3, 3), dtype, 1)
        yield convolution((4, 128, 28, 28), (128, 128, 3, 3), dtype, 1)
    for layout in ("NT", "TN"):
        yield product(1024, 1024, 1024, half, layout)
    yield product(333, 777, 1001, half, "NN")
    yield attention(8, 128, 64, single, causal=False)
    yield attention(8, 2048, 64, single, causal=False)
    yield attention(4, 1024, 128, single, causal=True)
    yield convolution((1, 256, 14, 14), (256, 256, 3, 3), single, 1)
    yield convolution((8, 512, 7, 7), (512, 512, 3, 3), single, 1)
    yield convolution((1, 3, 224, 224), (64, 3, 7, 7), single, 3)
    yield convolution((1, 32, 112, 112), (32, 1, 3, 3), single, 1)
    for n in (1 << 12, 1 << 20, 1 << 24):
        yield from elementwise(n)
    for shape in ((1 << 20,), (1 << 24,), (1024, 1024), (65536, 64), (16, 1 << 18)):
        yield from reductions(shape)
    for rows, n in ((16384, 64), (4096, 256), (64, 16384), (4, 1 << 18)):
        yield from normalized(rows, n)
    for dtype in (torch.float16, half):
        yield from normalized(1024, 1024, dtype)
    for tile in ((64, 64, 32), (128, 128, 32)):
        yield users_product(512, tile)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--only", default=("",), nargs="*", help="beginnings of names of cases")
    parser.add_argument("--rounds", type=int, default=6)
    given = parser.parse_args()
    torch.set_num_threads(CORES)
    what = "processor time" if CORES == 1 else "time"
    print(f"{CORES} cores, load {os.getloadavg()[0]:.1f}; least {what}, us: torch, xtarget, ratio")
    for name, theirs, ours, calls in cases():
        if name.startswith(tuple(given.only)):
            torchs, own = least((theirs, ours), given.rounds, calls)
            print(f"{name:46} {torchs:9.0f} {own:9.0f} {torchs / own:6.2f}", flush=True)


if __name__ == "__main__":
    main()
