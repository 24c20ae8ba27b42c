"""From call to launches: attention and its gradients on NVIDIA's sm_90, where a copy engine can
fetch the arrays; other calls have the plans of every target, and so have bundles (`Call.general`).
"""

from __future__ import annotations

from math import e, log2
from typing import Any, NamedTuple

from xtarget import spec

from . import attention as plain
from . import attention_gradients as gradients
from . import tuned
from .attention_launch import Attention, Wanted
from .layouts import merge

__all__ = ["attention", "attention_backward", "multi_head"]

_LOG2E = log2(e)
#: Elements of a row that begins at a multiple of 16 bytes.
_ROW = 8
#: Queries of a tile; blocks that are worth it, for each multiprocessor.
_QUERIES, _WORTH = 128, 2
#: Heads whose keys and values the second level cache holds at once.
_TOGETHER = 48
_HALF = ("float16", "bfloat16")


class Shape(NamedTuple):
    """The layout of arrays of heads, as the kernels take it.

    Attributes:
        sizes: the parameters B, heads, group, L, S, D and DV.
        strides: by array, those of batch, head and row.
    """

    sizes: dict[str, Any]
    strides: dict[str, tuple[Any, Any, Any]]

    def named(self, *letters: str) -> dict[str, spec.Argument]:
        """The strides of arrays as arguments: `qb`, `qh`, `ql`; rows of keys are `n`."""
        found = {}
        for letter in letters:
            row = "n" if letter in "kv" else "l"
            steps = zip(("b", "h", row), self.strides[letter], strict=True)
            found |= {f"{letter}{axis}": step for axis, step in steps}
        return found


def described(arrays: dict[str, spec.ArrayType]) -> Shape | None:
    """Arrays of heads as a copy engine can fetch them; None where it cannot.

    Args:
        arrays: by letter, with the last axes heads of keys, a group's heads, sequence and size; `q`
            is the queries', `k` and `v` are the keys' and values', others like either.
    """
    query, key, value = (arrays[name] for name in "qkv")
    if len(query.shape) < 4:
        arrays = {
            name: spec.ArrayType(a.dtype, (1, 1, *a.shape), (0, 0, *a.strides))
            for name, a in arrays.items()
        }
    lengths, strides = merge(
        query.shape[:-4], [a.strides[:-4] for a in arrays.values()], keep_order=True
    )
    if len(lengths) > 1:
        return None
    batch = lengths[0] if lengths else 1
    own, group = arrays["q"].shape[-4:-2]
    sizes = {
        "B": batch, "heads": own * group, "group": group, "L": query.shape[-2],
        "S": key.shape[-2], "D": query.shape[-1], "DV": value.shape[-1],
    }  # fmt: skip
    if sizes["D"] % _ROW or sizes["DV"] % _ROW:
        return None
    found = {}
    for (name, array), over in zip(arrays.items(), strides, strict=True):
        shared = name in "kvxy"  # one for a group
        counts = (batch, own if shared else own * group, array.shape[-2])
        steps = (
            over[0] if lengths else 0,
            array.strides[-4] if shared or group == 1 else array.strides[-3],
            array.strides[-2],
        )
        regular = [_regular(n, step) for n, step in zip(counts, steps, strict=True)]
        if array.strides[-1] != 1 or not all(regular):
            return None
        found[name] = regular[0], regular[1], regular[2]
    return Shape(sizes, found)


def _regular(count: Any, step: Any) -> Any:
    """A step between rows that begin at multiples of 16 bytes; 0 if it is none."""
    if count == 1:
        return _ROW
    return step if step > 0 and step % _ROW == 0 else 0


def _half(call: spec.Call, count: int) -> bool:
    """Whether the first arguments are of one half type, and all arrays begin at 16 bytes."""
    dtypes = {call.array(index).dtype for index in range(count)}
    return len(dtypes) == 1 and dtypes <= set(_HALF) and len(call.aligned) > 0 and all(call.aligned)


def _blocks(size: Any) -> int:
    """The elements of a tile's row that holds heads of a size."""
    return 64 if size <= 64 else 128 if size <= 128 else 256


def _together(heads: Any, right: bool) -> Any:
    """How many heads' tiles are sorted by their length."""
    return heads if right and heads <= _TOGETHER else 1


def _right(
    numbers: dict[str, Any], flags: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, bool]]:
    """The last key that a query sees, from its own number on."""
    last = numbers["begin"] + numbers["right"] if flags["RIGHT"] else 0
    return {"right": last}, {"RIGHT": flags["RIGHT"]}


def _launch(
    source: str,
    args: dict[str, spec.Argument],
    constants: dict[str, Any],
    blocks: int,
    *aligned: str,
) -> spec.Launch:
    """A launch of `blocks` blocks; being a multiple of 16 helps `aligned` alone."""
    loose = tuple(name for name, value in args.items() if _is_size(value) and name not in aligned)
    return spec.Launch(source, args, constants, (blocks, 1, 1), loose=loose, on_aligned=True)


def _is_size(value: spec.Argument) -> bool:
    return not isinstance(value, spec.Input | spec.Output | spec.Temporary | spec.Scalar)


class _Forward(Attention):
    """`Attention` on sm_90."""

    def _launches(self, wanted: Wanted) -> spec.Plan:
        outs, computed, numbers, flags = wanted
        usual = super()._launches
        scalars, none = self.scalars(computed)
        scale = scalars["scale"]
        assert isinstance(scale, spec.Scalar)
        if self.more or self.sequences or flags["LEFT"] or not none or not scale.value > 0:
            return usual(wanted)
        arrays = {"q": self.query, "k": self.key, "v": self.value, "o": self.out}
        shape = described(arrays) if _half(self.call, 3) else None
        if shape is None or 2 * shape.sizes["L"] <= _QUERIES:
            return usual(wanted)
        sizes = shape.sizes
        total = sizes["B"] * sizes["heads"]
        if spec.cdiv(sizes["L"], _QUERIES) * total * _WORTH < self.call.compute_units:
            return usual(wanted)
        last, right = _right(numbers, flags)
        block_d, block_v = _blocks(sizes["D"]), _blocks(sizes["DV"])
        tile = tuned.hopper_attention(self.call, sizes, max(block_d, block_v), right["RIGHT"])
        wants = len(outs) > 1
        launch = _launch(
            "hopper_attention:attention",
            {
                "q": spec.Input(0), "k": spec.Input(1), "v": spec.Input(2), "out": spec.Output(0),
                **({"lse": spec.Output(1)} if wants else {}),
                **sizes,
                **last,
                "together": _together(total, right["RIGHT"]),
                "scale": spec.Scalar(scale.value * _LOG2E, "float32"),
                **shape.named("q", "k", "v", "o"),
            },
            {
                **({} if wants else {"lse": None}),
                **right,
                "BLOCK_L": _QUERIES,
                "BLOCK_S": tile.keys,
                "BLOCK_D": block_d,
                "BLOCK_V": block_v,
                "STAGES": tile.stages,
            },
            self.call.compute_units,
            *("ob", "oh", "ol", "DV"),
        )  # fmt: skip
        return spec.Plan(outs, (launch,))


def attention(call: spec.Call) -> spec.Plan:
    """The plan of scaled dot product attention."""
    return plain.attention(call) if call.general else plain.attention(call, _Forward)


def multi_head(call: spec.Call) -> spec.Plan:
    """The plan of attention of heads that lie side by side in the last axis."""
    return plain.multi_head(call) if call.general else plain.multi_head(call, _Forward)


class _Backward(gradients.Backward):
    """`Backward` on sm_90."""

    def plan(self) -> spec.Plan:
        call = self.call
        computed = "float32"
        asked = Attention(call, self.rows["q"], self.keys["k"], self.keys["v"], self.rows["d"])
        numbers, flags = asked.window()
        scalars, none = asked.scalars(computed)
        scale = scalars["scale"]
        assert isinstance(scale, spec.Scalar)
        if not all(a.size for a in self.outs) or flags["LEFT"] or not none or not _half(call, 5):
            return super().plan()
        arrays = {"q": self.rows["q"], **self.keys, "d": self.rows["d"]}
        goals = dict(zip(("o", "x", "y"), self.goals, strict=True))
        shape = described({**arrays, **goals})
        if shape is None:
            return super().plan()
        sizes = shape.sizes
        if max(sizes["D"], sizes["DV"]) > 128:
            return super().plan()
        heads = sizes["B"] * sizes["heads"]
        pitch = spec.cdiv(sizes["L"], _QUERIES) * _QUERIES
        if 2 * heads * pitch >= 2**31:
            return super().plan()
        last, right = _right(numbers, flags)
        block_d, block_v = _blocks(sizes["D"]), _blocks(sizes["DV"])
        common: dict[str, spec.Argument] = {
            "q": spec.Input(1), "k": spec.Input(2), "v": spec.Input(3), "d": spec.Input(0),
            "rows": spec.Temporary(0),
            **sizes, **last, "pitch": pitch,
            "scale": spec.Scalar(scale.value * _LOG2E, computed),
            **shape.named("q", "k", "v", "d"),
        }  # fmt: skip
        constants = {**right, "BLOCK_D": block_d, "BLOCK_V": block_v, "STAGES": 2}
        of_queries = _launch(
            "hopper_attention_gradients:of_queries",
            {**common, "out": spec.Output(0), **shape.named("o"),
             "together": _together(heads, right["RIGHT"])},
            {**constants, "BLOCK_L": _QUERIES, "BLOCK_S": 128},
            call.compute_units, "ob", "oh", "ol", "D",
        )  # fmt: skip
        own = heads // sizes["group"]
        steps = (*shape.strides["x"], *shape.strides["y"])
        of_keys = _launch(
            "hopper_attention_gradients:of_keys",
            {**common, "out": spec.Output(1), "out_v": spec.Output(2),
             **dict(zip(_KEYS_OUT, steps, strict=True)),
             "together": _together(own, right["RIGHT"])},
            {**constants, "BLOCK_L": 64, "BLOCK_S": _QUERIES},
            call.compute_units,
        )  # fmt: skip
        rows = spec.ArrayType(computed, (2, heads, pitch), (heads * pitch, pitch, 1))
        levels = self.scaled_levels(block_v, pitch, heads)
        return spec.Plan(self.outs, (levels, of_queries, of_keys), (rows,))


#: The strides of the results of keys and values.
_KEYS_OUT = ("ob", "oh", "ol", "wb", "wh", "wl")


def attention_backward(call: spec.Call) -> spec.Plan:
    """The plan of the gradients of attention."""
    return gradients.attention_backward(call, None if call.general else _Backward)
