"""From call to launches: rows in order, and what is read off them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xtarget import spec

from . import digits, tuned, tuning, tuning_order
from .folds import outputs
from .lanes import lanes, parted
from .layouts import collapse, without_axes
from .narrowing import Lines, narrow
from .radix import by_digits, radix
from .vectors import array_and_axis, flat

__all__ = [
    "Sorting",
    "array_and_axis",
    "flat",
    "key_dtype",
    "lane_launch",
    "sort",
]


def key_dtype(dtype: str) -> str:
    """Of the integers that elements are compared as."""
    return "int64" if dtype in ("int64", "uint64", "float64") else "int32"


def lane_launch(
    call: spec.Call,
    source: str,
    size: int,
    args: dict[str, spec.Argument | None],
    constants: dict[str, Any] | None = None,
    *,
    walks: bool = False,
) -> spec.Launch:
    """One launch of a kernel whose lanes are independent: BLOCK of `size` a block.

    Args:
        walks: each lane takes many elements, one after the other, so that on a CPU those that have
            none cost as much as the others.
    """
    sizes = tuning_order.sorts(call.vendor)
    block = sizes.block
    if walks and tuning.outer_products(call.vendor):
        block = min(block, spec.next_power_of_2(size))
    return lanes(source, size, block, args, constants or {}, num_warps=sizes.num_warps)


class Sorting:
    """The launches that put the rows of an array in order.

    Attributes:
        n: elements of a row.
        m: rows.
        order: where the indices of the elements are in their order, `total` for each row; None
            where a row is one run.
    """

    def __init__(
        self,
        call: spec.Call,
        x: spec.ArrayType,
        axis: int,
        out: spec.ArrayType,
        *,
        source: spec.Argument = spec.Input(0),  # noqa: B008  it is frozen
        descending: bool = False,
        keep: int | None = None,
        temporaries: tuple[spec.ArrayType, ...] = (),
        whole: bool = True,
        in_order: bool = False,
    ) -> None:
        """Plan all but the end.

        Args:
            out: a result, whose rows are those of `x`.
            keep: elements of each row that matter, the first ones; None: all.
            temporaries: those that the plan has already.
            whole: `finish` is all that is made of the order: a short row needs no array of it.
            in_order: rows are numbered in the order of their indices.
        """
        self._call, self._x, self._source = call, x, source
        self._descending = descending
        self._pairs: list[tuple[spec.Temporary, spec.Temporary]] = []
        self.launches: list[spec.Launch] = []
        self.temporaries: list[spec.ArrayType] = list(temporaries)
        self.n = x.shape[axis]
        rows = (without_axes(v, (axis,)) for v in (x.shape, x.strides, out.strides))
        space = collapse(*rows, keep_order=in_order)
        self.m, self.lengths = space.size, space.lengths
        self._sizes = tuned.sorts(call, self.m, self.n)
        self._sx, self._so = space.strides
        self._cx, self._co = x.strides[axis], out.strides[axis]
        self.keep = self.n if keep is None else keep
        self.order: spec.Temporary | None = None
        self.total = self.n
        self._later = False
        if self.n > self._sizes.run or not whole:
            self._in_tiles = digits.in_tiles(call, self.m, self.n, self.keep)
            # the last pass writes to where `finish` says
            self._later = self._in_tiles and whole and self.keep == self.n
            if not self._later:
                self._make_order()

    def _pair(self, total: int) -> tuple[spec.Temporary, spec.Temporary]:
        """Memory for keys, and for indices. Two pairs are enough, as runs do not become more."""
        if len(self._pairs) == 2:
            self._pairs.reverse()
            return self._pairs[1]
        shape = (self.m, total)
        places = "int32" if self.n < 2**31 else "int64"
        for dtype in (key_dtype(self._x.dtype), places):
            self.temporaries.append(spec.ArrayType(dtype, shape, spec.contiguous_strides(shape)))
        count = len(self.temporaries)
        self._pairs.append((spec.Temporary(count - 2), spec.Temporary(count - 1)))
        return self._pairs[-1]

    def _rank(
        self,
        goals: dict[str, spec.Argument | None],
        tiles: int,
        cap: int,
        total: int,
        at: tuple[int, int],
        narrowed: tuple[spec.Temporary, spec.Temporary] | None = None,
        n: int | None = None,
    ) -> None:
        """Runs in order: of the elements, or of `n` keys and places of each row, `narrowed`."""
        n = self.n if n is None else n
        block_n = min(tuning.length_of_tile(self._call, n), self._sizes.run)
        rows = self.m * tiles
        block_m = tuning.rows_of_tile(self._call, self._sizes.tile // block_n, rows)
        args: dict[str, spec.Argument | None] = {
            "x": self._source if narrowed is None else narrowed[0],
            "own": None if narrowed is None else narrowed[1],
            **goals,
            "m": self.m,
            "n": n,
            "tiles": tiles,
            "cap": cap,
            "total": total,
            "first": at[0],
            "count": at[1],
            "shape": self.lengths if narrowed is None else (),
            "sx": self._sx if narrowed is None else (n,),
            "so": self._so,
            "cx": self._cx if narrowed is None else 1,
            "co": self._co,
        }
        given, absent = parted(args)
        self.launches.append(
            spec.Launch(
                "sorting:rank",
                given,
                {
                    **absent,
                    "DESCENDING": self._descending and narrowed is None,
                    "K": spec.dtype_constant(key_dtype(self._x.dtype)),
                    "BLOCK_M": block_m,
                    "BLOCK_N": block_n,
                },
                (spec.cdiv(rows, block_m), 1, 1),
                num_warps=self._sizes.num_warps,
            )
        )

    def _lines(self) -> Lines:
        return Lines(self.m, self.lengths, self._sx, self.n, self._cx)

    def _digits(self, goal: digits.Goal) -> None:
        self.launches += digits.launches(
            self._call,
            self._x,
            self._source,
            self._lines(),
            key_dtype(self._x.dtype),
            goal,
            self.temporaries,
            descending=self._descending,
        )

    def _make_order(self) -> None:
        if self._in_tiles:
            self.keys, self.order = self._pair(self.n)
            self._digits(digits.Goal(self.keys, self.order, keys=True))
            return
        if by_digits(self._call, self.n, self.keep):
            launches, (self.keys, self.order) = radix(
                self._call,
                self._x,
                self._source,
                (self.m, self.lengths, self._sx),
                (self.n, self._cx),
                key_dtype(self._x.dtype),
                self.temporaries,
                self._pair,
                descending=self._descending,
            )
            self.launches += launches
            self.total = self.n
            return
        run = self._sizes.run
        cap = min(run, self.keep)
        launches, n, narrowed = narrow(
            self._call, self._x, self._source, self._lines(), self.keep,
            key_dtype(self._x.dtype), self._pair, descending=self._descending,
        )  # fmt: skip
        self.launches += launches
        tiles, rest = n // run, n % run
        total = tiles * cap + min(rest, cap)
        keys, places = self._pair(total)
        goals = {"keys": keys, "places": places, "out": None, "at": None}
        self._rank(goals, spec.cdiv(n, run), cap, total, (0, 0), narrowed, n)
        while total > cap:
            wide = min(2 * cap, self.keep)
            after = total // (2 * cap) * wide + min(total % (2 * cap), wide)
            new_keys, new_places = self._pair(after)
            self.launches.append(
                lane_launch(
                    self._call,
                    "sorting:merge",
                    self.m * total,
                    {
                        "keys": keys,
                        "places": places,
                        "keys_out": new_keys,
                        "places_out": new_places,
                        "n": self.m * total,
                        "total": total,
                        "cap": cap,
                        "steps": cap.bit_length(),
                        "total_out": after,
                        "cap_out": wide,
                    },
                )
            )
            keys, places, total, cap = new_keys, new_places, after, wide
        self.order, self.keys, self.total = places, keys, total

    def finish(
        self,
        out: spec.Output | spec.Temporary | None,
        at: spec.Output | None,
        *,
        first: int = 0,
        count: int | None = None,
    ) -> None:
        """Write the elements in the places from `first` on, and their indices."""
        count = self.n if count is None else count
        if self._later and count == self.n:
            self._digits(digits.Goal(out, at, self._so, self._co))
            return
        if self._later:
            self._make_order()
        if self.order is None:
            goals = {"keys": None, "places": None, "out": out, "at": at}
            self._rank(goals, 1, self.n, self.n, (first, count))
            return
        self.launches.append(
            lane_launch(
                self._call,
                "sorting:put",
                self.m * count,
                {
                    "x": self._source,
                    "places": self.order,
                    "out": out,
                    "at": at,
                    "n": self.m * count,
                    "count": count,
                    "total": self.total,
                    "first": first,
                    "shape": self.lengths,
                    "sx": self._sx,
                    "so": self._so,
                    "cx": self._cx,
                    "co": self._co,
                },
            )
        )

    def plan(
        self, outs: tuple[spec.ArrayType, ...], before: tuple[spec.Launch, ...] = ()
    ) -> spec.Plan:
        return spec.Plan(outs, (*before, *self.launches), tuple(self.temporaries))


def sort(
    *, values: bool, indices: bool, axis: int | None = None
) -> Callable[[spec.Call], spec.Plan]:
    """The plan of sort: the elements in order along `axis` (None: of all), their indices, or both.

    Args:
        axis: the one that the operator always takes; None: the option.
    """

    def plan(call: spec.Call) -> spec.Plan:
        x, along, source, before, temporaries = array_and_axis(call, axis)
        if values and indices:
            outs = outputs(call, x.shape, x.dtype, "int64")
        else:
            outs = (call.output(x.shape, x.dtype if values else "int64"),)
        if not outs[0].size:
            return spec.Plan(outs, ())
        sorting = Sorting(
            call,
            x,
            along,
            outs[0],
            source=source,
            descending=bool(call.options["descending"]),
            temporaries=temporaries,
        )
        last = spec.Output(len(outs) - 1)
        sorting.finish(spec.Output(0) if values else None, last if indices else None)
        return sorting.plan(outs, before)

    return plan
