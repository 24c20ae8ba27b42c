"""From call to launches: the launches of attention, once its arrays are seen as heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from xtarget import spec

from . import attention_tiles, tuned, tuning
from .attended import Fusion, without
from .elementwise import compute_dtype
from .layouts import collapse, widened

__all__ = ["Attention", "Wanted", "unit_steps"]

#: Arrays that may be there, and the parameters of their strides over the batch.
_OPERANDS = {"mask": "sm", "slopes": "ss", "table": "st", "lengths": "sn"}
#: Where sequences start that lie one after the other.
_STARTS = ("starts_q", "starts_k")
#: What stands beside what is multiplied.
_MULTIPLIED = ("query", "key", "value", "score")
#: Steps along the size of a head.
_COLUMNS = ("qd", "kd", "vd", "od")


def unit_steps(call: spec.Call, steps: Mapping[str, int], columns: Sequence[str]) -> list[str]:
    """Return which of a kernel's steps are constants, as they are 1. In a bundle these are
    `columns` where all are 1, and no others: a binary for each layout of each array would be one of
    hundreds.
    """
    ones = [name for name, step in steps.items() if step == 1]
    if not call.general:
        return ones
    plain = all(steps.get(name, 1) == 1 for name in columns)
    return [name for name in ones if (plain and name in columns) or name in ("ll", "mn")]


class Wanted(NamedTuple):
    """Results, the type that is computed in, and the window of keys as numbers and constants."""

    outs: tuple[spec.ArrayType, ...]
    computed: str
    numbers: dict[str, spec.Argument]
    flags: dict[str, Any]


class Attention:
    """A launch of `attention:attention`, and what joins its parts.

    Args:
        query, key, value, out: their last axes are sequence and size. Those before are the same, of
            which the last are heads of keys and, with steps of 0 in key and value, the query's
            heads that share one.
    """

    def __init__(
        self,
        call: spec.Call,
        query: spec.ArrayType,
        key: spec.ArrayType,
        value: spec.ArrayType,
        out: spec.ArrayType,
    ) -> None:
        self.call, self.query, self.key, self.value, self.out = call, query, key, value, out
        self.more: dict[str, tuple[spec.Input, spec.ArrayType, str, str]] = {}
        self.numbers: dict[str, spec.Argument] = {"page": 1, "pages": 1, "kp": 0, "vp": 0}
        self.sequences = 0
        self.starts: dict[str, spec.Argument] = {}
        #: what is done to the arrays and the result, which are seen as those here
        self.fusion: Fusion | None = None

    def in_sequences(self, count: int, queries: spec.Input, keys: spec.Input) -> None:
        """Queries and keys are those of `count` sequences; the inputs say where each starts."""
        self.sequences, self.starts = count, dict(zip(_STARTS, (queries, keys), strict=True))

    def add(
        self, name: str, source: spec.Input, array: spec.ArrayType, row: str, column: str
    ) -> None:
        """A further array; `row` and `column` are the parameters of its strides, if it has them."""
        self.more[name] = source, array, row, column

    def plan(self, out: spec.ArrayType) -> spec.Plan:
        call = self.call
        computed = compute_dtype(out.dtype)
        wants_lse = call.options["lse"]
        outs: tuple[spec.ArrayType, ...] = (out,)
        if wants_lse:
            if call.out is not None:
                raise spec.ArgumentError(
                    f"{call.kernel} with lse gives two arrays. Leave out= out."
                )
            heads = self.query.shape[:-1]
            shape = (*heads[:-3], heads[-3] * heads[-2], heads[-1]) if len(heads) > 2 else heads
            outs = (out, spec.ArrayType(computed, shape, spec.contiguous_strides(shape)))
        numbers, flags = self.window()
        if not out.size:
            return spec.Plan(outs, (), (), (None, float("-inf"))[: len(outs)])
        if not self.key.size:
            return spec.Plan(outs, (), (), (0, float("-inf"))[: len(outs)])
        return self._launches(Wanted(outs, computed, numbers, flags))

    def window(self) -> tuple[dict[str, spec.Argument], dict[str, Any]]:
        """The window of keys that queries see, as numbers and constants."""
        call = self.call
        causal, window = call.options["causal"], call.options["window"]
        left, right = -1, 0 if causal else -1
        if window is not None:
            pair = window if isinstance(window, tuple | list) else ()
            if len(pair) != 2 or any(
                isinstance(n, bool) or not isinstance(n, int) or n < -1 for n in pair
            ):
                raise spec.ArgumentError(
                    f"{call.kernel}: window is {window!r}; it has to be None or two integers: how "
                    "many keys before and after its own a query sees, -1 for all."
                )
            left = pair[0]
            right = 0 if causal else pair[1]
        begin = call.options.get("offset", 0)
        if self.sequences and begin is None:
            begin = 0  # and what ENDS adds
        elif "lengths" in self.more:
            begin = -self.query.shape[-2]
        elif begin is None:
            begin = self.key.shape[-2] - self.query.shape[-2]
        elif isinstance(begin, bool) or not isinstance(begin, int):
            raise spec.ArgumentError(
                f"{call.kernel}: offset is {begin!r}; it has to be the place of the first query "
                "among the keys, or None: the last query is at the last key."
            )
        numbers: dict[str, spec.Argument] = {
            "left": max(left, 0), "right": max(right, 0), "begin": begin,
        }  # fmt: skip
        ends = bool(self.sequences) and call.options["offset"] is None
        return numbers, {"ENDS": ends, "LEFT": left >= 0, "RIGHT": right >= 0}

    def scalars(self, computed: str) -> tuple[dict[str, spec.Argument], dict[str, Any]]:
        call = self.call
        scale, cap = call.options["scale"], call.options["softcap"]
        for name, value in (("scale", scale), ("softcap", cap)):
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, int | float)
            ):
                raise spec.ArgumentError(
                    f"{call.kernel}: {name} is {value!r}; it has to be a number."
                )
        if cap is not None and not 0 <= cap < float("inf"):
            raise spec.ArgumentError(
                f"{call.kernel}: softcap is {cap!r}; it has to be a number above 0, or None."
            )
        if scale is None:
            scale = float(int(self.query.shape[-1])) ** -0.5
        found: dict[str, spec.Argument] = {"scale": spec.Scalar(float(scale), computed)}
        if not cap:
            return found, {"softcap": None}
        return {**found, "softcap": spec.Scalar(float(cap), computed)}, {}

    def _launches(self, wanted: Wanted) -> spec.Plan:
        outs, computed, numbers, flags = wanted
        call, query, key, value, out = self.call, self.query, self.key, self.value, self.out
        more, fusion = dict(self.more), self.fusion
        length, along = query.shape[-2], 1
        if length == 1 and query.ndim > 3 and not self.sequences:
            # the heads of a group are the rows of a tile
            query, out = (without(array, -2) for array in (query, out))
            key, value = (without(array, -3) for array in (key, value))
            more = {n: (s, without(a, -2), r, c) for n, (s, a, r, c) in more.items()}
            if fusion is not None:
                fusion = fusion.viewed(
                    query=lambda a: without(a, -2), out=lambda a: without(a, -2),
                    key=lambda a: without(a, -3), value=lambda a: without(a, -3),
                    score=lambda a: without(a, -2),
                )  # fmt: skip
            length, along = query.shape[-2], 0
        batch, (d, dv, keys) = query.shape[:-2], (key.shape[-1], value.shape[-1], key.shape[-2])
        matrix = not tuning.outer_products(call.vendor)
        if computed == "float64" and call.vendor == "nvidia":
            # its matrix units take no float64 that less than 4 bytes have been beside (Triton 3.6)
            given = [query, key, value, *(array for _, array, _, _ in more.values())]
            given += () if fusion is None else fusion.arrays(*_MULTIPLIED).values()
            matrix = all(array.itemsize >= 4 for array in given)
        half = outs[0].dtype in ("float16", "bfloat16")
        fast = half and call.vendor in tuning.MATRIX_UNITS
        operand = outs[0].dtype if fast else computed
        block_d, block_v = (max(spec.next_power_of_2(n), 16) for n in (d, dv))
        most = max(block_d, block_v)
        rows = (*batch, length)
        lse = spec.ArrayType(computed, (*rows, 1), spec.contiguous_strides((*rows, 1)))
        # the operands' strides over the batch
        arrays = {"q": query, "k": key, "v": value, "o": out, "l": lse}
        arrays |= {_OPERANDS[name][1]: array for name, (_, array, _, _) in more.items()}
        total = 1
        for n in batch:
            total *= n
        precision = tuning.precision(call, operand)
        stages = 2 if fast else 1
        tile = attention_tiles.Tile(1, 16 if most <= 32 else 8, 1, stages)
        if matrix:
            usual = attention_tiles.tile(call.vendor, length, most, operand, stages, precision)
            sizes = {"queries": length, "keys": keys, "heads": total, "size": most}
            tile = tuned.attention(call, usual, sizes, operand, ranged=any(flags.values()))
            if fusion is not None and "score" in fusion.steps:
                tile = attention_tiles.with_scores(call.vendor, tile)
        stages, tile_s = tile.num_stages, tile.keys
        if fusion is not None:
            itemsize = spec.ArrayType(operand, (), ()).itemsize
            stages = fusion.stages(stages, tile.queries, tile_s, most, itemsize)
        blocks = spec.cdiv(length, tile.queries) + self.sequences
        parts = 1
        if not self.sequences:
            parts = tuning.splits(blocks * total, call.compute_units, keys, tile.part)
        temporaries: list[spec.ArrayType] = []
        first: spec.Output | spec.Temporary = spec.Output(0)
        first_lse: spec.Output | spec.Temporary | None = spec.Output(1) if len(outs) > 1 else None
        if parts > 1:
            chunk = spec.cdiv(spec.cdiv(keys, parts), tile_s) * tile_s
            parts = spec.cdiv(keys, chunk)
            size = total * length
            temporaries = [
                spec.ArrayType(
                    computed, (parts, size, dv), spec.contiguous_strides((parts, size, dv))
                ),
                spec.ArrayType(computed, (parts, size), spec.contiguous_strides((parts, size))),
            ]
            first, first_lse = spec.Temporary(0), spec.Temporary(1)
            shape = (*rows, dv)
            arrays["o"] = spec.ArrayType(computed, shape, spec.contiguous_strides(shape))
        else:
            chunk, size = keys, 0
        kinds = ("query", "key", "value", "score", *(("out",) if parts == 1 else ()))
        beside = {} if fusion is None else fusion.arrays(*kinds)
        seen = (array.strides[:-2] for array in (*arrays.values(), *beside.values()))
        space = collapse(batch, *seen, keep_order=True)
        if call.general:
            space = widened(space, full=True)
        over = {f"s{name}": own for name, own in zip(arrays, space.strides, strict=False)}
        steps = {
            "ql": arrays["q"].strides[-2], "qd": arrays["q"].strides[-1],
            "kn": key.strides[-2], "kd": key.strides[-1],
            "vn": value.strides[-2], "vd": value.strides[-1],
            "ol": arrays["o"].strides[-2], "od": arrays["o"].strides[-1],
            "ll": 1, "ml": 0, "mn": 0, "sr": 0, "tn": 0,
        }  # fmt: skip
        addresses: dict[str, spec.Argument] = {
            "q": spec.Input(0), "k": spec.Input(1), "v": spec.Input(2), "out": first,
        }  # fmt: skip
        constants = self.optional(_OPERANDS, more, addresses, steps, first_lse)
        addresses |= self.starts
        scalars, none = self.scalars(computed)
        ones = unit_steps(call, steps, _COLUMNS)
        launch = spec.Launch(
            "attention:attention",
            {
                **addresses,
                "L": length,
                "S": keys,
                "D": d,
                "DV": dv,
                "sequences": self.sequences,
                "chunk": chunk,
                "part": size * dv,
                "part_lse": size,
                "along": along,
                **numbers,
                **self.numbers,
                **scalars,
                "shape": space.lengths,
                **{name: own for name, own in over.items() if name not in constants},
                **{name: step for name, step in steps.items() if name not in ones},
            },
            {
                **constants,
                **none,
                **flags,
                **dict.fromkeys(ones, 1),
                "MATRIX": precision if matrix else "",
                "FAST": fast,
                "DOT": spec.dtype_constant(operand),
                "T": spec.dtype_constant(computed),
                "BLOCK_L": tile.queries,
                "BLOCK_S": tile_s,
                "BLOCK_D": block_d,
                "BLOCK_V": block_v,
            },
            (blocks * total, parts, 1),
            num_warps=tile.num_warps,
            num_stages=stages,
            options=tuning.matmul_options(call.vendor),
        )
        if fusion is not None:
            over_beside = dict(zip(beside, space.strides[len(arrays) :], strict=True))
            last = parts == 1
            launch = fusion.attention(launch, over_beside, (length, keys, d, dv), last=last)
        if self.sequences:  # tokens that are of no sequence
            return spec.Plan(outs, (launch,), (), (0, float("-inf"))[: len(outs)])
        if parts == 1:
            return spec.Plan(outs, (launch,))
        last = self._joined(outs, computed, rows, out, size, parts, dv, block_v, fusion)
        return spec.Plan(outs, (launch, last), tuple(temporaries))

    def optional(
        self,
        operands: dict[str, str],
        more: dict[str, tuple[spec.Input, spec.ArrayType, str, str]],
        addresses: dict[str, spec.Argument],
        steps: dict[str, int],
        lse: spec.Output | spec.Temporary | None,
    ) -> dict[str, Any]:
        """Add what is there of `operands` to `addresses` and `steps`.

        Returns:
            the constants of what is not there.
        """
        constants: dict[str, Any] = {}
        for name, stride in operands.items():
            if name not in more:
                constants |= {name: None, stride: 0}
                continue
            source, array, row, column = more[name]
            addresses[name] = source
            if row:
                steps[row] = array.strides[-2]
            if column:
                steps[column] = array.strides[-1]
        if lse is None:
            constants |= {"lse": None, "sl": 0}
        else:
            addresses["lse"] = lse
        return {**constants, **{name: None for name in _STARTS if name not in self.starts}}

    def _joined(
        self,
        outs: tuple[spec.ArrayType, ...],
        computed: str,
        rows: tuple[int, ...],
        out: spec.ArrayType,
        size: int,
        parts: int,
        dv: int,
        block_v: int,
        fusion: Fusion | None,
    ) -> spec.Launch:
        """The launch that makes one result of the parts'."""
        beside = {} if fusion is None else fusion.arrays("out")
        space = collapse(
            rows, out.strides[:-1], spec.contiguous_strides(rows),
            *(array.strides[:-1] for array in beside.values()), keep_order=True,
        )  # fmt: skip
        od = out.strides[-1]
        wants = len(outs) > 1
        block = 1 if tuning.outer_products(self.call.vendor) else 4
        launch = spec.Launch(
            "attention:joined",
            {
                "x": spec.Temporary(0),
                "x_lse": spec.Temporary(1),
                "out": spec.Output(0),
                **({"lse": spec.Output(1), "sl": space.strides[1]} if wants else {}),
                "rows": size,
                "parts": parts,
                "DV": dv,
                **space.named("so"),
                **({} if od == 1 else {"od": od}),
            },
            {
                **({} if wants else {"lse": None, "sl": 0}),
                **({"od": 1} if od == 1 else {}),
                "T": spec.dtype_constant(computed),
                "BLOCK": block,
                "BLOCK_V": block_v,
            },
            (spec.cdiv(size, block), 1, 1),
            num_warps=1 if block == 1 else 4,
        )
        if fusion is None:
            return launch
        over = dict(zip(beside, space.strides[2:], strict=True))
        return fusion.joined(launch, over, (size, dv))
