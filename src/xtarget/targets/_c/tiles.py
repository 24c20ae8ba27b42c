"""Blocks of any shape: each operation is done for all elements of its result, which the block's
threads share.

Operations of one shape that follow each other share a loop. A value that is needed in another loop
is kept in an array: of several threads, in the memory that they share if one needs another one's
elements, else each keeps its own. What has no shape is computed by all threads alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .dialects import Dialect
from .emit import Emitter
from .tile_arrays import TileArrays, common_shape, flat
from .values import DType, RefusedError, Tile, Value

__all__ = ["TileEmitter", "for_each"]

_BARRIER = "xt_barrier();"
#: In front of a line that is written only if its value is kept.
_KEPT = "@keep "


class _BeginAnewError(Exception):
    """Another element of what the loop makes is needed: the loop has to be complete before."""


class TileEmitter(Emitter):
    """The text of a kernel's body, in which values have shapes.

    Args:
        threads: of a block.
    """

    def __init__(self, dialect: Dialect, threads: int) -> None:
        super().__init__(dialect)
        self._threads = threads
        self._arrays = TileArrays(threads, dialect.shared_bytes, dialect.asked_bytes)
        self._scalars: list[str] = []
        self._loop: tuple[int, ...] = ()
        self._begin = 0
        self._inside: set[str] = set()
        self._apart: set[str] = set()
        self._formulas: dict[str, tuple[str, tuple[Value, ...]]] = {}
        self._known: dict[tuple[str, tuple[str, ...]], str] = {}
        self._loading = False
        self._stored = False
        self._by_hand = False

    # ------------------------------------------------------------------------------------- text

    @property
    def asked(self) -> int:
        """Bytes of shared memory that the launch has to ask for, once `finished`."""
        return self._arrays.asked

    def finished(self) -> list[str]:
        """The lines, with the arrays in front.

        Raises:
            RefusedError: they are too large.
        """
        self._end()
        found = self._arrays.declared()
        found += [f"  {line}" for line in self._scalars]
        for line in self.lines:
            mark, _, text = line.partition(_KEPT)
            if text:
                name, _, statement = text.partition(" ")
                if name in self._arrays.kept:
                    found.append(mark + statement)
            else:
                found.append(line)
        return [self._arrays.placed(line) for line in found]

    def open(self, text: str) -> None:
        self._end()
        super().open(text)

    def close(self) -> None:
        self._end()
        super().close()

    def open_by_hand(self, text: str) -> None:
        """`open` within a loop over elements that is written by hand."""
        super().open(text)

    def close_by_hand(self) -> None:
        super().close()

    def _within(self, shape: tuple[int, ...]) -> None:
        """Be in the loop over the elements of a shape."""
        if self._loop == shape:
            return
        self._end()
        self._begin, self._loop = len(self.lines), shape
        if self._threads == 1:
            for axis, length in enumerate(shape):
                super().open(for_each(f"i{axis}", length))
            return
        super().open(self._shared_for("e", math.prod(shape)))
        rest = math.prod(shape)
        for axis, length in enumerate(shape):
            rest //= length
            self.line(f"const int i{axis} = e / {rest} % {length};")

    def _end(self) -> None:
        """Be in no loop over elements."""
        if self._loop and self._threads > 1:
            super().close()
            self._wait()
        elif self._loop:
            for _ in self._loop:
                super().close()
        self._loop, self._stored = (), False
        for inside in (self._inside, self._apart, self._known):
            inside.clear()

    # ----------------------------------------------------------------------------------- values

    def value(self, code: str, dtype: DType, *parts: Value, base: str = "") -> Value:
        return self.tile(code, dtype, common_shape([p for p in parts if p.dims]), *parts, base=base)

    def tile(
        self, code: str, dtype: DType, shape: tuple[int, ...], *parts: Value, base: str = ""
    ) -> Value:
        """A new value of a shape; its code may name the indices `i0`, `i1`."""
        name = self.name()
        self.double = self.double or dtype.is_fp64()
        type_ = self.dialect.type(dtype)
        text = f"{'' if dtype.is_ptr() else 'const '}{type_} {name} = "
        if not shape:
            if self._by_hand or not self._loop:
                self.line(f"{text}{code};")
            else:  # it needs nothing of the loop's elements
                self.lines.insert(self._begin, f"{'  ' * self._depth}{text}{code};")
                self._begin += 1
            return Value(name, dtype, base=base)
        made = self._array(name, dtype, shape, base)
        if self._is_cheap(dtype, parts):
            self._formulas[name] = code, tuple(parts)
            return made
        self._within(shape)
        self.line(f"{text}{self._anew(code, parts)};")
        self.line(f"{_KEPT}{name} {name}_@own[{flat(shape)}] = {name};")
        self._inside.add(name)
        return made

    def _is_cheap(self, dtype: DType, parts: Sequence[Value]) -> bool:
        """Return whether a value is computed where it is needed: indices, masks and addresses."""
        tiles = [part for part in parts if isinstance(part, Tile)]
        return (
            not self._loading
            and not dtype.is_floating()
            and all(tile.array in self._formulas for tile in tiles)
        )

    def _array(self, name: str, dtype: DType, shape: tuple[int, ...], base: str = "") -> Tile:
        """The value that an array of this name may keep."""
        type_ = self.dialect.type(dtype)
        self._arrays.add(name, type_, math.prod(shape), dtype)
        axes = tuple(range(len(shape)))
        return Tile(self._token(), dtype, True, base, name, shape, shape, axes)

    def _token(self) -> str:
        return f"@{self.name('v')}@"

    def view(self, value: Tile, axes: Sequence[int | None]) -> Tile:
        """The same elements with other axes; None is a new one of length 1."""
        shape = tuple(1 if axis is None else value.shape[axis] for axis in axes)
        own = tuple(None if axis is None else value.axes[axis] for axis in axes)
        return Tile(
            self._token(), value.dtype, True, value.base, value.array, value.sizes, shape, own
        )

    def _anew(self, code: str, parts: Sequence[Value]) -> str:
        """`_indexed`; in a new loop if it needs other elements of what this one makes."""
        try:
            return self._indexed(code, parts)
        except _BeginAnewError:
            shape = self._loop
            self._end()
            self._within(shape)
            return self._indexed(code, parts)

    def _indexed(self, code: str, parts: Sequence[Value]) -> str:
        """The code with the elements of its parts at the loop's indices."""
        index = [f"i{axis}" for axis in range(len(self._loop))]
        return self._with_parts(code, parts, index)

    def _with_parts(self, code: str, parts: Sequence[Value], index: Sequence[str]) -> str:
        for part in parts:
            if isinstance(part, Tile):
                ahead = len(index) - len(part.shape)
                code = code.replace(part.code, self._element(part, index[ahead:]))
        return code

    def _element(self, part: Tile, index: Sequence[str], *, mine_too: bool = False) -> str:
        """The element of a value at an index, for each of its axes.

        Args:
            mine_too: outside of a loop over elements, the thread is the one that made it.
        """
        places = ["0"] * len(part.sizes)
        for axis, own in enumerate(part.axes):
            if own is not None and part.sizes[own] != 1:
                places[own] = index[axis]
        formula = self._formulas.get(part.array)
        if formula is not None:
            return self._computed(part, *formula, places)
        mine = [f"i{axis}" if size != 1 else "0" for axis, size in enumerate(self._loop)]
        own = part.sizes == self._loop and places == mine
        if part.array in self._inside:
            if own:
                return part.array
            raise _BeginAnewError
        self._arrays.kept.add(part.array)
        if own or mine_too:
            return f"{part.array}_@own[{flat(part.sizes, places)}]"
        self._apart.add(part.array)
        self._arrays.shared.add(part.array)
        return f"{part.array}_[{flat(part.sizes, places)}]"

    def _computed(
        self, part: Tile, code: str, parts: Sequence[Value], places: Sequence[str]
    ) -> str:
        """A cheap value at a place, once in each loop."""
        about = part.array, tuple(places)
        if about not in self._known:
            text = self._with_parts(code, parts, places)
            if not parts:  # `lanes`
                text = text.replace("i0", places[0])
            name = self.name()
            self.line(f"{self.dialect.type(part.dtype)} {name} = {text};")
            self._known[about] = name
        return self._known[about]

    # ----------------------------------------------------------------------------------- memory

    def load(self, address: Value, mask: Value | None, where: str) -> Value:
        if self._stored:
            self._end()
        self._loading = True
        made = super().load(address, mask, where)
        self._loading = False
        return made

    def store(self, address: Value, value: Value, mask: Value | None, where: str) -> None:
        element = address.dtype.element_ty
        assert element is not None
        made = self.cast(value, element)
        parts = [address, made] if mask is None else [address, made, mask]
        shape = common_shape([part for part in parts if part.dims])
        if math.prod(shape) != math.prod(address.dims):
            raise RefusedError("a store of several elements to one address")
        self.writes.setdefault(address.base, where)
        guard = "" if mask is None else f"if ({mask.code}) "
        text = f"{guard}*{address.code} = {self._stored_as(made.code, element)};"
        if shape:
            self._within(shape)
            self.line(self._anew(text, parts))
            self._stored = True
        else:
            self._end()
            self.line(text if self._threads == 1 else f"if (xt_thread == 0) {{ {text} }}")
            self._wait()

    # ------------------------------------------------------------------- loops of the kernel, rows

    def leave_unless(self, condition: Value) -> None:
        if condition.dims:
            raise RefusedError("a while of what differs between elements")
        self._end()
        super().leave_unless(condition)

    def variable(self, before: Value) -> Value:
        """A variable that begins with a value."""
        name = self.name("v")
        if not isinstance(before, Tile):
            self._end()
            self.line(f"{self.dialect.type(before.dtype)} {name} = {before.code};")
            return Value(name, before.dtype, False, before.base)
        made = self._array(name, before.dtype, before.shape, before.base)
        self._arrays.kept.add(name)
        self.assign([(made, before)])
        return made

    def current(self, variable: Value) -> Value:
        return variable if isinstance(variable, Tile) else super().current(variable)

    def assign(self, pairs: Sequence[tuple[Value, Value]]) -> None:
        arrays = {variable.array for variable, _ in pairs if isinstance(variable, Tile)}
        settled = [
            (variable, self._apart_from(arrays, variable, after)) for variable, after in pairs
        ]
        for variable, after in settled:
            if variable.dims != after.dims and (after.dims or not variable.dims):
                raise RefusedError("a value that is of another shape after the loop's body")
            if not isinstance(variable, Tile):
                self._end()
                self.line(f"{variable.code} = {after.code};")
                continue
            if variable.array in self._apart:
                self._end()
            self._within(variable.shape)
            code = self._anew(after.code, [after])
            self.line(f"{variable.array}_@own[{flat(variable.shape)}] = {code};")

    def _apart_from(self, arrays: set[str], variable: Value, after: Value) -> Value:
        """A copy of what another variable has before any of them changes."""
        if not isinstance(after, Tile) or after.array not in arrays:
            return after
        if isinstance(variable, Tile) and variable.array == after.array:
            return after
        copy = self._array(self.name(), after.dtype, after.shape, after.base)
        self._arrays.kept.add(copy.array)
        self._within(after.shape)
        code = self._anew(after.code, [after])
        self.line(f"{copy.array}_@own[{flat(after.shape)}] = {code};")
        self._end()
        return copy

    def _wait(self) -> None:
        """For all threads of the block."""
        if self._threads > 1:
            self.line(_BARRIER)

    def _shared_for(self, name: str, length: int | str) -> str:
        """A loop whose steps the threads share."""
        if self._threads == 1:
            return for_each(name, length)
        return f"for (int {name} = xt_thread; {name} < {length}; {name} += {self._threads})"


def for_each(name: str, length: int | str) -> str:
    return f"for (int {name} = 0; {name} < {length}; ++{name})"
