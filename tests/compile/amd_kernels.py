"""Triton kernels that test_amd.py compiles: pointers, every scalar, shared memory, fp16 and fp32
matrix products."""

import triton
import triton.language as tl


@triton.jit
def add(a, b, o, n, block: tl.constexpr):
    index = tl.program_id(0) * block + tl.arange(0, block)
    inside = index < n
    tl.store(o + index, tl.load(a + index, mask=inside) + tl.load(b + index, mask=inside), inside)


@triton.jit
def scalars(o, p1, p8, p16, p32, p64, h, b, f, d, shape):
    total = p1.to(tl.float64) + p8 + p16 + p32 + p64 + h + b + f + d + shape[0] + shape[1]
    tl.store(o, total)


@triton.jit
def softmax(x, o, stride, n, block: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, block)
    values = tl.load(x + row * stride + column, mask=column < n, other=-float("inf"))
    power = tl.exp(values - tl.max(values, 0))
    tl.store(o + row * stride + column, power / tl.sum(power, 0), mask=column < n)


@triton.jit
def product_as_tf32(a, b, o, size: tl.constexpr):
    place = tl.arange(0, size)[:, None] * size + tl.arange(0, size)[None, :]
    tl.store(o + place, tl.dot(tl.load(a + place), tl.load(b + place), input_precision="tf32"))


@triton.jit
def _product_of(a, b, n, size: tl.constexpr):
    rows, columns = tl.arange(0, size)[:, None], tl.arange(0, size)[None, :]
    total = tl.zeros((size, size), tl.float32)
    for k in range(0, n, size):
        x = tl.load(a + rows * n + k + columns)
        y = tl.load(b + (k + rows) * size + columns)
        total += tl.dot(x, y)
    return rows * size + columns, total


@triton.jit
def product(a, b, o, n, size: tl.constexpr):
    place, total = _product_of(a, b, n, size)
    tl.store(o + place, total)


@triton.jit
def product_that_prints(a, b, o, n, size: tl.constexpr):
    place, total = _product_of(a, b, n, size)
    tl.device_print("total", total)
    tl.store(o + place, total)


@triton.jit
def waits_for_another_grid(o):
    tl.extra.cuda.gdc_wait()
    tl.store(o, 1.0)


@triton.jit
def words_of_no_assembler(o):
    i = tl.arange(0, 64)
    tl.store(
        o + i, tl.inline_asm_elementwise("nonsense $0, $1", "=v,v", [i], tl.int32, True, pack=1)
    )


@triton.jit
def clock_of_nvidia(o):
    tl.store(o, tl.extra.cuda.globaltimer())
