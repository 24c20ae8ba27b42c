"""From call to launches: gradients of attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xtarget import spec

from . import tuning
from .attention import floating, grouped, moved, refuse_large, split_heads
from .attention_launch import Attention, unit_steps
from .elementwise import compute_dtype
from .layouts import collapse, widened
from .options import heads_first

__all__ = ["Backward", "attention_backward"]

#: Tiles on devices with matrix units, by the size of a head; half types, and others.
_TILES = {True: ((128, 32), (256, 16)), False: ((32, 32), (256, 16))}
#: AMD's chips without matrix units of their own multiply in registers.
_SMALL = {True: ((64, 32), (256, 16)), False: ((256, 16),)}
_NAMES = ("grad", "query", "key", "value", "output")


def attention_backward(call: spec.Call, way: type[Backward] | None = None) -> spec.Plan:
    """The plan of the gradients of attention: of query, key and value; `way` makes the launches."""
    heads_before = heads_first(call)
    if call.out is not None:
        raise spec.ArgumentError(f"{call.kernel} gives three arrays. Leave out= out.")
    arrays = [call.array(index) for index in range(5)]
    ndim, least = arrays[1].ndim, 2 if heads_before else 3
    for name, array in zip(_NAMES, arrays, strict=True):
        if array.ndim != ndim or ndim < least:
            raise spec.ArgumentError(
                f"{call.kernel}: query has {ndim} dimensions and {name} {array.ndim}; they need "
                f"as many, and {least} or more."
            )
    dtype = floating(call, 5)
    outs = tuple(
        spec.ArrayType(dtype, a.shape, spec.contiguous_strides(a.shape)) for a in arrays[1:4]
    )
    order = list(range(ndim))
    if not heads_before:
        order[-3], order[-2] = order[-2], order[-3]
    seen = [_with_heads(moved(array, order)) for array in (*arrays, *outs)]
    return (way or Backward)(call, dtype, seen, outs).plan()


def _with_heads(array: spec.ArrayType) -> spec.ArrayType:
    if array.ndim > 2:
        return array
    return spec.ArrayType(array.dtype, (1, *array.shape), (0, *array.strides))


class Backward:
    """The launches: `seen` are the arguments but for the last one, then the results, with the axes
    heads, sequence and size at last.
    """

    def __init__(
        self,
        call: spec.Call,
        dtype: str,
        seen: list[spec.ArrayType],
        outs: tuple[spec.ArrayType, ...],
    ) -> None:
        self.call, self.outs, self.dtype = call, outs, dtype
        grad, query, key, value, out = seen[:5]
        lse = call.array(5)
        heads = query.shape[:-1]
        for name, array, shape in (
            ("key", key, (*key.shape[:-1], query.shape[-1])),
            ("value", value, (*key.shape[:-1], value.shape[-1])),
            ("output", out, (*heads, value.shape[-1])),
            ("grad", grad, (*heads, value.shape[-1])),
        ):
            if array.shape != shape:
                raise spec.ArgumentError(
                    f"{call.kernel}: {name} has shape {array.shape}, heads and sequence as the "
                    f"last axes but one; it needs {shape}."
                )
        if lse.shape != (heads if call.array(1).ndim > 2 else heads[1:]):
            raise spec.ArgumentError(
                f"{call.kernel}: lse has shape {lse.shape}; it needs one number for each query of "
                f"each head: {heads if call.array(1).ndim > 2 else heads[1:]}."
            )
        refuse_large(call, query.shape[-1], value.shape[-1])
        own = key.shape[-3]
        if call.array(1).ndim < 3:
            lse = spec.ArrayType(lse.dtype, (1, *lse.shape), (0, *lse.strides))
        wide = spec.ArrayType(lse.dtype, (*lse.shape, 1), (*lse.strides, 0))
        flat = spec.contiguous_strides((*heads, 1))
        level = spec.ArrayType(compute_dtype(dtype), (*heads, 1), flat)
        #: the queries' arrays, by letter, with the axes of heads and of a group's heads
        self.rows = {
            "q": split_heads(query, own),
            "l": split_heads(wide, own),
            "d": split_heads(grad, own),
            "e": split_heads(level, own),
        }
        self.forward = split_heads(out, own)
        self.keys = {"k": grouped(call, query, key, "key"), "v": grouped(call, query, value, "v")}
        self.goals = split_heads(seen[5], own), _in_group(seen[6]), _in_group(seen[7])
        self.own, self.level = own, level

    def plan(self) -> spec.Plan:
        call, outs = self.call, self.outs
        if not all(array.size for array in outs):
            return spec.Plan(outs, (), (), (0, 0, 0))
        computed = compute_dtype(self.dtype)
        q, k, v = self.rows["q"], self.keys["k"], self.keys["v"]
        asked = Attention(call, q, k, v, self.rows["d"])
        numbers, flags = asked.window()
        flags.pop("ENDS")
        scalars, none = asked.scalars(computed)
        half = self.dtype in ("float16", "bfloat16") and call.vendor in tuning.MATRIX_UNITS
        matrix = not tuning.outer_products(call.vendor)
        d, dv = q.shape[-1], v.shape[-1]
        block_d, block_v = (max(spec.next_power_of_2(n), 16) for n in (d, dv))
        most = max(block_d, block_v)
        tiles = _SMALL if call.arch.startswith("gfx1") else _TILES
        side = next(tile for size, tile in tiles[half] if most <= size) if matrix else 1
        other = side if matrix else 16 if most <= 32 else 8
        shared: dict[str, Any] = {
            **none,
            **flags,
            "MATRIX": tuning.precision(call, computed) if matrix else "",
            "DOT": spec.dtype_constant(self.dtype if half else computed),
            "T": spec.dtype_constant(computed),
            "BLOCK_D": block_d,
            "BLOCK_V": block_v,
        }
        given: dict[str, spec.Argument] = {
            "L": q.shape[-2],
            "S": k.shape[-2],
            "D": d,
            "DV": dv,
            **scalars,
            **numbers,
        }
        queries = self._walk(
            "of_queries", len(q.shape) - 2, {"o": self.goals[0]}, {}, given,
            {**shared, "BLOCK_L": side, "BLOCK_S": other}, spec.cdiv(q.shape[-2], side),
        )  # fmt: skip
        group = {f"g{name}": array.strides[-3] for name, array in self.rows.items()}
        keys = self._walk(
            "of_keys", len(q.shape) - 3, {"o": self.goals[1], "w": self.goals[2]}, group,
            {**given, "group": q.shape[-3]},
            {**shared, "BLOCK_L": other, "BLOCK_S": side}, spec.cdiv(k.shape[-2], side),
        )  # fmt: skip
        flat = self.level.size
        temporary = spec.ArrayType(computed, (flat,), (1,))
        return spec.Plan(outs, (self._levels(computed, block_v), queries, keys), (temporary,))

    def _walk(
        self,
        name: str,
        axes: int,
        goals: Mapping[str, spec.ArrayType],
        group: Mapping[str, int],
        numbers: Mapping[str, spec.Argument],
        constants: Mapping[str, Any],
        tiles: int,
    ) -> spec.Launch:
        """A launch over tiles of the queries or the keys, for each index of the first `axes`."""
        arrays = {**self.rows, **self.keys, **goals}
        shape = self.rows["q"].shape[:axes]
        strides = {n: a.strides[:axes] for n, a in arrays.items()}
        space = collapse(shape, *strides.values(), keep_order=True)
        if self.call.general:
            space = widened(space, full=True)
        steps: dict[str, int] = {}
        for letter, array in arrays.items():
            if letter == "e":
                continue
            row, column = _STEPS[letter]
            steps[row] = array.strides[-2]
            if column:
                steps[column] = array.strides[-1]
        addresses: dict[str, spec.Argument] = {
            "q": spec.Input(1), "k": spec.Input(2), "v": spec.Input(3), "lse": spec.Input(5),
            "d": spec.Input(0), "level": spec.Temporary(0),
        }  # fmt: skip
        ones = unit_steps(self.call, steps, [column for _, column in _STEPS.values()])
        results = [spec.Output(0)] if name == "of_queries" else [spec.Output(1), spec.Output(2)]
        addresses |= dict(zip(("out", "out_v"), results, strict=False))
        return spec.Launch(
            f"attention_gradients:{name}",
            {
                **addresses,
                **numbers,
                "shape": space.lengths,
                **{f"s{n}": own for n, own in zip(strides, space.strides, strict=True)},
                **group,
                **{n: step for n, step in steps.items() if n not in ones},
            },
            {**constants, **dict.fromkeys(ones, 1)},
            (tiles * space.size, 1, 1),
            num_warps=8 if constants["MATRIX"] else 1,
            num_stages=1,
            options=tuning.matmul_options(self.call.vendor),
        )

    def scaled_levels(self, block_v: int, pitch: int, heads: int) -> spec.Launch:
        """The launch that makes two numbers of each query, and of those up to `pitch`."""
        d, out, lse = self.rows["d"], self.forward, self.rows["l"]
        space = collapse(d.shape[:-2], d.strides[:-2], out.strides[:-2], lse.strides[:-2],
                         keep_order=True)  # fmt: skip
        block = 4
        steps = {
            "dl": d.strides[-2], "dd": d.strides[-1], "ol": out.strides[-2],
            "od": out.strides[-1], "ll": lse.strides[-2],
        }  # fmt: skip
        return spec.Launch(
            "attention_gradients:scaled_levels",
            {
                "out": spec.Input(4),
                "d": spec.Input(0),
                "lse": spec.Input(5),
                "rows": spec.Temporary(0),
                "L": d.shape[-2],
                "DV": d.shape[-1],
                "pitch": pitch,
                "size": heads * pitch,
                "shape": space.lengths,
                "sd": space.strides[0],
                "so": space.strides[1],
                "sl": space.strides[2],
                **{name: step for name, step in steps.items() if step != 1},
            },
            {
                **{name: 1 for name, step in steps.items() if step == 1},
                "BLOCK": block,
                "BLOCK_V": block_v,
            },
            (spec.cdiv(heads * pitch, block), 1, 1),
        )

    def _levels(self, computed: str, block_v: int) -> spec.Launch:
        """The launch that sums the products of the result and its gradient."""
        d, out = self.rows["d"], self.forward
        space = collapse(d.shape[:-1], self.rows["e"].strides[:-1], out.strides[:-1],
                         d.strides[:-1], keep_order=True)  # fmt: skip
        if self.call.general:
            space = widened(space, full=True)
        block = 1 if tuning.outer_products(self.call.vendor) else 4
        steps = {"ov": out.strides[-1], "dv_step": d.strides[-1]}
        ones = unit_steps(self.call, steps, tuple(steps))
        return spec.Launch(
            "attention_gradients:levels",
            {
                "out": spec.Input(4),
                "d": spec.Input(0),
                "level": spec.Temporary(0),
                "rows": space.size,
                "DV": d.shape[-1],
                "shape": space.lengths,
                "so": space.strides[1],
                "sd": space.strides[2],
                **{name: step for name, step in steps.items() if name not in ones},
            },
            {
                **dict.fromkeys(ones, 1),
                "T": spec.dtype_constant(computed),
                "BLOCK": block,
                "BLOCK_V": block_v,
            },
            (spec.cdiv(space.size, block), 1, 1),
            num_warps=1 if block == 1 else 4,
        )


#: Parameters of the strides of an array's last axes.
_STEPS = {
    "q": ("ql", "qd"), "k": ("kn", "kd"), "v": ("vn", "vd"), "l": ("ll", ""), "d": ("dl", "dd"),
    "o": ("ol", "od"), "w": ("wl", "wd"),
}  # fmt: skip


def _in_group(array: spec.ArrayType) -> spec.ArrayType:
    """A result of the keys, with an axis of one head for those of a group."""
    *front, length, size = array.shape
    *over, step, inner = array.strides
    return spec.ArrayType(array.dtype, (*front, 1, length, size), (*over, 0, step, inner))
