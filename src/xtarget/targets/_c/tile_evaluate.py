"""A Triton function whose blocks have any shape: `evaluate` with the values of `tiles`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .dialects import Dialect
from .lanes import LaneEvaluator
from .text import Function
from .tile_folds import Combine, FoldingEmitter
from .values import INT32, DType, RefusedError, Tile, Value

__all__ = ["TileEvaluator"]


class TileEvaluator(LaneEvaluator):
    emit: FoldingEmitter

    def __init__(self, dialect: Dialect, threads: int) -> None:
        super().__init__(dialect, FoldingEmitter(dialect, threads))

    def lanes(self, start: int, end: int) -> Value:
        return self.emit.tile(f"i0 + {start}", INT32, (end - start,))

    def view(self, value: Value, axes: Sequence[int | None]) -> Value:
        if not isinstance(value, Tile) or sum(a is not None for a in axes) != len(value.shape):
            raise RefusedError("an index of this")
        return self.emit.view(value, axes)

    def full(self, shape: Any, value: Any, dtype: DType) -> Value:
        if not all(isinstance(length, int) for length in shape):
            raise RefusedError("a block of a shape that is not known")
        one = self.emit.as_type(value, dtype)
        return self.emit.tile(one.code, dtype, tuple(shape), one) if shape else one

    def reduce(self, values: Sequence[Any], axis: Any, combine: Any) -> tuple[Value, ...]:
        tiles, place = self._along(values, axis, "a reduction")
        return tuple(self.emit.reduced(tiles, place, self._combine(combine, tiles)))

    def scan(
        self, values: Sequence[Any], axis: Any, combine: Any, *, reverse: bool
    ) -> tuple[Value, ...]:
        tiles, place = self._along(values, axis, "a scan")
        made = self._combine(combine, tiles)
        return tuple(self.emit.scanned(tiles, place, made, reverse=reverse))

    def _along(self, values: Sequence[Any], axis: Any, what: str) -> tuple[list[Tile], int]:
        """The values, and the number of an axis of theirs."""
        tiles = [value for value in values if isinstance(value, Tile)]
        if len(tiles) < len(values) or len({tile.shape for tile in tiles}) > 1:
            raise RefusedError(f"{what} of what is no block")
        if axis is None and len(tiles[0].shape) == 1:
            axis = 0
        if not isinstance(axis, int):
            raise RefusedError(f"{what} of all axes")
        return tiles, axis % len(tiles[0].shape)

    def _combine(self, combine: Any, tiles: Sequence[Tile]) -> Combine:
        apply = self._applied(combine)
        dtypes = [tile.dtype for tile in tiles]

        def combined(x: Sequence[Value], y: Sequence[Value]) -> list[Value]:
            made = apply(*x, *y)
            parts = made if isinstance(made, tuple) else (made,)
            return [self.emit.as_type(p, t) for p, t in zip(parts, dtypes, strict=True)]

        return combined

    def _applied(self, combine: Any) -> Callable[..., Any]:
        if isinstance(combine, Function):
            return lambda *args: self.call(combine, args, {})
        found: Callable[..., Any] = combine
        return found
