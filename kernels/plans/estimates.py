"""How long a matrix product takes by a model of the device: what is not worth a trial, and the
order of choices for archs that nothing was measured on.

A block of a tile needs registers and shared memory, so that a multiprocessor holds so many at once.
Blocks go over the device in waves. A step of a block along k takes the longest of: the products on
the matrix units; the operands from the L2; and their latency, of which the other stages hide a
part. No product is faster than its operands come from memory, nor than the host can launch it.

The efficiencies are fitted to 667 results of 25 products in halves on an H200
(`benchmarks/tuned/nvidia-h200.json`); tests/kernels/test_estimates.py checks the order.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from xtarget.spec import cdiv

from .tuning_matmul import MatmulTile, Wanted

__all__ = ["CORES", "Chip", "chip", "outer_cycles", "seconds"]


class Chip(NamedTuple):
    """An arch, by its vendor's documents and the fit.

    Attributes:
        units: multiprocessors of its largest device.
        rate: operations of a multiprocessor's matrix units a second, on halves.
        memory, cache: bytes a second of the device's memory, and from its L2.
        shared: bytes of shared memory of a multiprocessor.
        latency: seconds until operands are in shared memory.
    """

    units: int
    rate: float
    memory: float
    cache: float
    shared: int
    latency: float


#: H200 as fitted. A100 by its data sheet: 312 TFLOP/s and 2.0 TB/s, of which the same part is
#: reached; its L2 by the ratio of clocks and slices.
_CHIPS: Final = {
    ("nvidia", "sm_90"): Chip(132, 7.7e12, 4.3e12, 6.7e12, 227 << 10, 1.7e-6),
    ("nvidia", "sm_80"): Chip(108, 3.0e12, 1.8e12, 4.6e12, 163 << 10, 1.7e-6),
}
_REGISTERS: Final = 65536
_WARPS: Final = 64
_BLOCKS: Final = 32
_SIZE: Final = 2  # bytes of a half
#: Registers of a thread beside the sums.
_OTHERS: Final = 36
#: Seconds of a block beside its steps, and of each step.
_BLOCK, _STEP = 8.3e-7, 2.7e-8
#: Seconds that the host takes for a launch: as it is, with descriptors, and of two.
_HOST: Final = (4e-6, 4.9e-5, 7.7e-5)
#: What a part of the matrix units' rate is reached with 4 warps of many sums; with tiles of less
#: than 128 rows; by addresses instead of descriptors, where the second operand lies by columns; and
#: by blocks that stay.
_FOUR_WARPS, _FEW_ROWS, _ADDRESSES, _BY_COLUMNS, _IN_TURN = 0.86, 0.69, 1.13, 0.78, 0.61
#: The same of products in groups, whatever the tile.
_IN_GROUPS: Final = 0.9
#: A choice that does not fit a multiprocessor takes so many times as long: it spills.
_TOO_LARGE: Final = 3.0


#: A CPU's vectors: elements of float32 in one, and how many registers hold them.
CORES: Final = {"avx2": (8, 16), "avx512": (16, 32)}
#: Instructions of one kind that a core begins each cycle, cycles from one sum to the next of the
#: same register, and those of a vector that goes through memory and back for want of one.
_AT_ONCE, _CHAIN, _SPILL = 2, 4, 2


def outer_cycles(wanted: Wanted, tile: MatmulTile, vectors: str) -> float:
    """Cycles of a product of float32 on one of a CPU's cores, as a sum of outer products.

    A step of a tile is a sum for each of its vectors, which reads the columns' vectors and an
    element of each row; what the registers do not hold goes through memory.
    """
    lanes, registers = CORES[vectors]
    columns = cdiv(tile.n, lanes)
    sums = tile.m * columns
    step = max(sums / _AT_ONCE, (columns + tile.m) / _AT_ONCE, _CHAIN)
    step += _SPILL * max(0, sums + columns + 1 - registers) + 2 / tile.k
    return wanted.blocks(tile) * wanted.k * step


def chip(vendor: str, arch: str) -> Chip | None:
    return _CHIPS.get((vendor, arch))


def seconds(wanted: Wanted, tile: MatmulTile, way: str, parts: int) -> float:
    """Of a product of halves by a choice.

    Args:
        parts: pieces of k; 0: as many as fill the device.
    """
    on = _CHIPS[wanted.vendor, wanted.arch]
    through = way in ("in turn", "described", "in groups")
    blocks = wanted.blocks(tile)
    if not parts:
        fills = through or 4 * blocks >= 3 * on.units
        parts = 1 if fills else max(1, min(cdiv(on.units, blocks), wanted.k // 512))
    held = _held(tile, on)
    resident = 1 if way == "in turn" else max(1, held)
    here = min(resident, cdiv(blocks * parts, on.units))  # blocks that share a multiprocessor
    steps = cdiv(cdiv(wanted.k, parts), tile.k)
    products = 2.0 * tile.m * tile.n * tile.k / (on.rate * _reached(wanted, tile, way)) * here
    to_cache = on.cache / on.units
    operands = (tile.m + tile.n) * tile.k * _SIZE / to_cache * here
    waiting = on.latency / max(1, tile.num_stages - 1)
    step = max(products, operands, waiting) + _STEP
    waves = cdiv(blocks * parts, on.units * resident)
    end = tile.m * tile.n * _SIZE / to_cache * here * (0.5 if way == "in turn" else 1.0)
    busy = waves * (steps * step + _BLOCK + end)
    in_flight = min(blocks * parts, on.units * resident) * max(1, tile.num_stages - 1)
    in_flight *= (tile.m + tile.n) * tile.k * _SIZE
    memory = on.memory * min(1.0, in_flight / (on.memory * _BLOCK))
    m, n, k = wanted.m, wanted.n, wanted.k
    total = wanted.batch * (m * k + k * n + m * n) * _SIZE
    time = max(busy, total / memory) * (1.0 if held else _TOO_LARGE)
    if parts > 1:
        time += 8.0 * parts * m * n * wanted.batch / on.cache
    host = _HOST[2 if parts > 1 else 1 if through else 0]
    return max(time, host) + 0.01 * time


def _held(tile: MatmulTile, on: Chip) -> int:
    """Blocks that a multiprocessor holds at once."""
    threads = 32 * tile.num_warps
    registers = min(255, tile.m * tile.n // threads + _OTHERS)
    shared = (tile.m + tile.n) * tile.k * _SIZE * tile.num_stages
    return min(
        on.shared // max(shared, 1),
        _REGISTERS // (registers * threads),
        _WARPS // tile.num_warps,
        _BLOCKS,
    )


def _reached(wanted: Wanted, tile: MatmulTile, way: str) -> float:
    """The part of the matrix units' rate that a tile reaches."""
    part = min(1.0, 0.35 + 0.65 * (tile.m * tile.n / (128 * 256)) ** 0.384)
    part *= min(1.0, tile.m / 64)
    if way == "in groups":
        return _IN_GROUPS
    if tile.m < 128:
        part *= _FEW_ROWS
    if tile.num_warps == 4 and tile.m * tile.n >= 128 * 128:
        part *= _FOUR_WARPS
    if way == "in turn":
        return part * _IN_TURN
    if way == "described":
        return part
    return part * _ADDRESSES * (_BY_COLUMNS if wanted.b == "columns" else 1.0)
