"""From call to launches: what every reduction shares."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from xtarget import spec

from . import tuned, tuning
from .layouts import Space, collapse, is_huge, widened

__all__ = ["Step", "Work", "reduction_launch"]

#: Steps, or lanes, that are there for fewer elements too, so that one kernel serves them all.
_LEAST = 16
#: But not for so few: sixteen steps over up to eight rows take 2 to 6 times as long (H200).
_FEW = (2, 4, 8)
#: Kept elements that fit into one block have little to do: it takes one kernel for up to as many
#: rows, and another for more.
_SHORT = 64
#: Lanes along the kept elements that few kernels take: so many, or all that the table says.
_FEW_LANES = 16
#: As many as a tile has room for.
_ALL = 2**30
#: Functions whose blocks take all tiles of rows, however few blocks there are, where steps lie
#: side by side; rows that are short for a block, and blocks that are enough.
_IN_ROWS = ("sum", "total", "max", "fold")
_SHORT_ROW = 1 << 12
_MANY = 32
#: By whether lanes go along the kept elements, what has no part in how memory is read.
_LOOSE = {
    True: ("reduced", "reduced_shape", "chunk"),
    False: ("kept", "kept_shape", "part"),
}


def reduction_launch(
    source: str,
    x: spec.Input | spec.Temporary,
    out: spec.Output | spec.Temporary,
    kept: Space,
    reduced: Space,
    dtype: str,
    vendor: str,
    *,
    parts: int = 1,
    part: int = 0,
    addresses: Mapping[str, spec.Argument] | None = None,
    numbers: Mapping[str, spec.Argument] | None = None,
    constants: Mapping[str, Any] | None = None,
    sizes: tuning.Reduction | None = None,
    general: bool = False,
) -> spec.Launch:
    """One launch of a function of `reduction.py`.

    Args:
        kept: what stays, with the strides of the input and of the output.
        reduced: what goes, with the strides of the input.
        dtype: the type to compute in.
        parts: pieces to cut the reduced elements into.
        part: elements of `out` from one piece's results to the next's.
        addresses, numbers, constants: further parameters of the function.
        sizes: of tiles; None: the vendor's.
        general: by one of the few kernels that serve all (`tuning.is_general`).
    """
    sizes = sizes or tuning.reduction(vendor)
    if source == "arg" and sizes.pairs:
        sizes = sizes._replace(tile=sizes.pairs)
    least = 1
    if kept.size == 1:  # what is compiled for the rows of a matrix does for a single one too
        kept, least = Space(1, (), ((0,), ())), _LEAST
    if general:
        kept, reduced = _general(kept, reduced)
    # lanes lie side by side on whichever index runs along memory
    along_kept = runs_along_memory(kept) and not runs_along_memory(reduced)
    if along_kept:
        few = kept.size <= sizes.columns
        if general:
            block_k = sizes.columns if kept.size > _FEW_LANES else _FEW_LANES
            few = reduced.size > max(_FEW)
        else:
            block_k = tuning.columns(kept.size, sizes.columns)
        block_r = min(_steps(reduced.size, few=few), sizes.tile // block_k)
        if general:
            block_r = max(_FEW) if not few else min(_SHORT, sizes.tile // block_k)
        if 0 < sizes.alone <= kept.size:
            block_r = 1
    else:
        whole = max(spec.next_power_of_2(reduced.size), least)
        if general:
            whole = tuning.coarse(reduced.size, quarters=True)
        block_r = min(whole, sizes.tile)
        block_k = max(1, sizes.tile // 4 // block_r)  # the same for few as for many
    chunk = spec.cdiv(spec.cdiv(reduced.size, parts), block_r) * block_r
    in_turn = tuning.in_turn(vendor) * (2 if block_r == 1 else 1)
    long = in_turn if dtype.startswith("float") and chunk > in_turn * block_r else 0
    if general and dtype.startswith("float"):
        long = in_turn
    blocks = spec.cdiv(kept.size, block_k)
    in_rows = sizes.alone > 0 and not reduced.strides[0] and source in _IN_ROWS
    if in_rows and sizes.tiles_per_block and reduced.size <= _SHORT_ROW:
        many = blocks // (_MANY * sizes.tiles_per_block)
        # without a comparison, so that a bundle's calls are the same for few rows and for many
        blocks = spec.cdiv(blocks, 1 + (sizes.tiles_per_block - 1) * spec.cdiv(many, many + 1))
    return spec.Launch(
        f"reduction:{source}",
        {
            "x": x,
            **(addresses or {}),
            "out": out,
            "kept": kept.size,
            "reduced": reduced.size,
            "chunk": chunk,
            "part": part,
            **(numbers or {}),
            "kept_shape": kept.lengths,
            "kx": kept.strides[0],
            "ko": kept.strides[1],
            "reduced_shape": reduced.lengths,
            "rx": reduced.strides[0],
        },
        {
            "T": spec.dtype_constant(dtype),
            "BLOCK_K": block_k,
            "BLOCK_R": block_r,
            "STEPS": sizes.alone > 0,
            **({"LONG": long} if source in ("sum", "total") else {}),
            **(constants or {}),
        },
        (blocks, spec.cdiv(reduced.size, chunk) if parts > 1 else 1, 1),
        num_warps=min(sizes.num_warps, max(1, block_k * block_r // 512)),
        aligned_by=tuning.aligned_by(vendor, across=("kept",))
        if along_kept
        else ()
        if general and not runs_along_memory(reduced)
        else tuning.aligned_by(vendor, "reduced"),
        loose=_LOOSE[along_kept],
    )


def _general(kept: Space, reduced: Space) -> tuple[Space, Space]:
    """The spaces in forms that few kernels serve: rows or columns of a matrix, or anything else."""
    if is_huge(kept.size * reduced.size):
        return widened(kept, (4, 8), full=True), widened(reduced, (4, 8), full=True)
    if runs_along_memory(reduced):
        if not kept.lengths and not kept.strides[1]:
            return kept, reduced if not reduced.lengths else widened(reduced, (4, 8))
        reduced = reduced if not reduced.lengths else widened(reduced, (4, 8))
        return widened(kept, (4, 8), full=True), reduced
    if runs_along_memory(kept) and not kept.strides[1]:
        if not kept.lengths and not reduced.lengths:
            return kept, reduced
        return widened(kept, (4, 8)), widened(reduced, (1, 4, 8), full=True)
    return widened(kept, (4, 8), full=True), widened(reduced, (1, 4, 8), full=True)


def _steps(length: int, *, few: bool) -> int:
    """Rows that a block takes at once where lanes go along the kept elements.

    Args:
        few: so are these.
    """
    if few:
        return _SHORT if length <= _SHORT else _ALL
    for count in _FEW:
        if length <= count:
            return count
    return max(spec.next_power_of_2(length), _LEAST)


def runs_along_memory(space: Space) -> bool:
    """Whether the input's innermost stride is 1."""
    strides = space.strides[0]
    return space.size > 1 and (not strides or len(strides) == len(space.lengths))


class Step(NamedTuple):
    """A function of `reduction.py` with what it takes beside the elements and their places.

    Attributes:
        dtype: the type to compute in.
        addresses, numbers, constants: as of `reduction_launch`.
    """

    source: str
    dtype: str
    addresses: Mapping[str, spec.Argument] = MappingProxyType({})
    numbers: Mapping[str, spec.Argument] = MappingProxyType({})
    constants: Mapping[str, Any] = MappingProxyType({})


_FIRST = spec.Input(0)


class Work:
    """The launches and temporaries of a plan that reduces an array, perhaps several times.

    Attributes:
        x: what is reduced.
        kept, reduced: as of `reduction_launch`. What a launch leaves for a later one has one
            element for each kept index, in the order of these indices.
    """

    def __init__(
        self, call: spec.Call, kept: Space, reduced: Space, x: spec.Input | spec.Temporary = _FIRST
    ) -> None:
        self.call, self.x, self.kept, self.reduced = call, x, kept, reduced
        along_kept = runs_along_memory(kept) and not runs_along_memory(reduced)
        self.sizes = tuned.reduction(call, kept, reduced, along_kept=along_kept)
        self.launches: list[spec.Launch] = []
        self.temporaries: list[spec.ArrayType] = []

    def read(self, x: spec.Input | spec.Temporary, kept: Space, reduced: Space) -> None:
        """Go on with another array."""
        self.x, self.kept, self.reduced = x, kept, reduced

    def temporary(self, dtype: str, parts: int = 1) -> spec.Temporary:
        """Memory for `parts` elements for each kept index."""
        shape = (parts, self.kept.size)
        self.temporaries.append(spec.ArrayType(dtype, shape, spec.contiguous_strides(shape)))
        return spec.Temporary(len(self.temporaries) - 1)

    def parts(self, step: Step) -> int:
        """Into how many pieces to cut the reduced elements, so that there are blocks enough to fill
        the device; each has some.
        """
        sizes = self.sizes
        grid = self.first(step, spec.Output()).grid[0]
        block_k = spec.cdiv(self.kept.size, grid)
        wanted, elements = (
            self.call.compute_units * sizes.blocks_per_unit,
            self.reduced.size * block_k,
        )
        if elements <= sizes.whole:
            return 1
        parts = tuning.splits(grid, wanted, elements, sizes.shortest)
        return 1 if parts == 1 else self.first(step, spec.Temporary(), parts).grid[1]

    def first(self, step: Step, out: spec.Output | spec.Temporary, parts: int = 1) -> spec.Launch:
        """The launch over the input's elements."""
        kept = self.kept
        if isinstance(out, spec.Temporary):  # strides () number the kept elements in order
            kept = Space(kept.size, kept.lengths, (kept.strides[0], ()))
        part = 0 if parts == 1 else kept.size
        return self._launch(step, self.x, out, kept, self.reduced, parts=parts, part=part)

    def rest(
        self, step: Step, x: spec.Temporary, out: spec.Output | spec.Temporary, parts: int
    ) -> spec.Launch:
        """The launch over what `parts` pieces have left: one row for each piece."""
        kept = self.kept
        strides = () if isinstance(out, spec.Temporary) else kept.strides[1]
        rows = Space(kept.size, kept.lengths, ((), strides))
        return self._launch(step, x, out, rows, collapse((parts,), (kept.size,)))

    def reduce(
        self, out: spec.Output | spec.Temporary, whole: Step, piece: Step, rest: Step
    ) -> None:
        """One launch, or two where one has too few blocks to fill the device.

        Args:
            whole: what makes results of the elements.
            piece, rest: what makes a number of each piece of them, and results of these.
        """
        parts = self.parts(whole)
        if parts == 1:
            self.launches.append(self.first(whole, out))
            return
        between = self.temporary(piece.dtype, parts)
        self.launches.append(self.first(piece, between, parts))
        self.launches.append(self.rest(rest, between, out, parts))

    def plan(self, *outs: spec.ArrayType) -> spec.Plan:
        """The plan whose results are `outs`, made by the launches so far."""
        return spec.Plan(outs, tuple(self.launches), tuple(self.temporaries))

    def _launch(
        self,
        step: Step,
        x: spec.Input | spec.Temporary,
        out: spec.Output | spec.Temporary,
        kept: Space,
        reduced: Space,
        **pieces: int,
    ) -> spec.Launch:
        return reduction_launch(
            step.source,
            x,
            out,
            kept,
            reduced,
            step.dtype,
            self.call.vendor,
            addresses=step.addresses,
            numbers=step.numbers,
            constants=step.constants,
            sizes=self.sizes,
            general=tuning.is_general(self.call),
            **pieces,
        )
