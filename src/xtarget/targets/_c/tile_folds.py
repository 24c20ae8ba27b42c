"""Blocks of any shape whose elements along an axis are combined: reductions and scans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from .tile_arrays import flat
from .tiles import TileEmitter, for_each
from .values import DType, RefusedError, Tile, Value

__all__ = ["Combine", "FoldingEmitter"]

#: Makes one of two: of each of several values the earlier element and the later one.
Combine: TypeAlias = Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]]


class FoldingEmitter(TileEmitter):
    """`TileEmitter` with what needs all elements along an axis."""

    def reduced(self, values: Sequence[Tile], axis: int, combine: Combine) -> list[Value]:
        """Combine the elements along an axis by `combine`: halves, so that the error of a sum
        grows with the logarithm of their number."""
        self._end()
        shape = values[0].shape
        length = shape[axis]
        rest = (*shape[:axis], *shape[axis + 1 :])
        if length & (length - 1):
            raise RefusedError(f"a reduction of {length} elements")
        works = [self._work(value.dtype, length) for value in values]
        results = [self._result(value.dtype, rest) for value in values]
        with self._rows(rest):
            index = [f"i{place}" for place in range(len(rest))]
            index.insert(axis, "j")
            alike = axis == len(rest) and (not rest or length % self._threads == 0)
            self._take(works, values, index, length, alike=alike)
            self.open_by_hand(f"for (int h = {length // 2}; h > 0; h >>= 1)")
            self.open_by_hand(self._shared_for("j", "h"))
            self._combined(works, works, values, ("j", "j + h"), combine)
            self.close_by_hand()
            self._wait()
            self.close_by_hand()
            for work, result in zip(works, results, strict=True):
                if isinstance(result, Tile):
                    self._arrays.kept.add(result.array)
                    self.line(f"{result.array}_[{flat(rest)}] = {work}_[0];")
                else:
                    self.line(f"{result.code} = {work}_[0];")
            self._wait()
        return results

    def scanned(
        self, values: Sequence[Tile], axis: int, combine: Combine, *, reverse: bool
    ) -> list[Value]:
        """Combine each element along an axis with all before it: by one thread in their order, by
        several at distances of 1, 2, 4..."""
        self._end()
        shape = values[0].shape
        length, rest = shape[axis], (*shape[:axis], *shape[axis + 1 :])
        works = [self._work(value.dtype, length) for value in values]
        results = [self._result(value.dtype, shape) for value in values]
        with self._rows(rest):
            index = [f"i{place}" for place in range(len(rest))]
            index.insert(axis, f"({length - 1} - j)" if reverse else "j")
            self._take(works, values, index, length)
            if self._threads == 1:
                self.open_by_hand(f"for (int j = 1; j < {length}; ++j)")
                self._combined(works, works, values, ("j - 1", "j"), combine)
                self.close_by_hand()
            else:
                self._scanned_together(works, values, length, combine)
            self.open_by_hand(self._shared_for("j", length))
            for result, work in zip(results, works, strict=True):
                assert isinstance(result, Tile)
                self._arrays.kept.add(result.array)
                self.line(f"{result.array}_[{flat(shape, index)}] = {work}_[j];")
            self.close_by_hand()
            self._wait()
        return results

    def _scanned_together(
        self, works: Sequence[str], values: Sequence[Tile], length: int, combine: Combine
    ) -> None:
        nexts = [self._work(value.dtype, length) for value in values]
        self.open_by_hand(f"for (int h = 1; h < {length}; h <<= 1)")
        self.open_by_hand(self._shared_for("j", length))
        for after, work in zip(nexts, works, strict=True):
            self.line(f"{after}_[j] = {work}_[j];")
        self.open_by_hand("if (j >= h)")
        self._combined(nexts, works, values, ("j - h", "j"), combine)
        self.close_by_hand()
        self.close_by_hand()
        self._wait()
        self.open_by_hand(self._shared_for("j", length))
        for after, work in zip(nexts, works, strict=True):
            self.line(f"{work}_[j] = {after}_[j];")
        self.close_by_hand()
        self._wait()
        self.close_by_hand()

    def _take(
        self, works: Sequence[str], values: Sequence[Tile], index: Sequence[str], length: int,
        *, alike: bool = False,
    ) -> None:  # fmt: skip
        """Put the elements at an index into arrays of work, at `j`.

        Args:
            alike: each thread takes those that it made, of a value as it is kept.
        """
        self.open_by_hand(self._shared_for("j", length))
        self._known.clear()
        for work, value in zip(works, values, strict=True):
            whole = value.sizes == value.shape and value.axes == tuple(range(len(value.shape)))
            code = self._element(value, index, mine_too=alike and whole)
            self.line(f"{work}_[j] = {code};")
        self.close_by_hand()
        self._known.clear()
        self._wait()

    def _combined(
        self, into: Sequence[str], works: Sequence[str], values: Sequence[Value],
        places: tuple[str, str], combine: Combine,
    ) -> None:  # fmt: skip
        """Put what two elements of each make into `j`."""
        sides = [
            [Value(f"{w}_[{at}]", v.dtype) for w, v in zip(works, values, strict=True)]
            for at in places
        ]
        for work, made in zip(into, list(combine(*sides)), strict=True):
            self.line(f"{work}_[j] = {made.code};")

    def _work(self, dtype: DType, length: int) -> str:
        name = self.name("w")
        self._arrays.add(name, self.dialect.type(dtype), length, dtype)
        self._arrays.kept.add(name)
        self._arrays.shared.add(name)
        return name

    def _result(self, dtype: DType, shape: tuple[int, ...]) -> Value:
        name, type_ = self.name("r"), self.dialect.type(dtype)
        if not shape:
            self._scalars.append(f"{type_} {name};")
            return Value(name, dtype)
        self._arrays.shared.add(name)
        return self._array(name, dtype, shape)

    @contextmanager
    def _rows(self, shape: tuple[int, ...]) -> Iterator[None]:
        """A loop whose body is written by hand."""
        for axis, length in enumerate(shape):
            self.open_by_hand(for_each(f"i{axis}", length))
        self._by_hand = True
        yield
        self._by_hand = False
        self._known.clear()
        for _ in shape:
            self.close_by_hand()
