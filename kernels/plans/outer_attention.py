"""From call to launches: attention on devices that multiply by outer products."""

from __future__ import annotations

from typing import Any, Final

from xtarget import spec

from . import tuned
from .attended import Fusion
from .attention_launch import Attention, Wanted
from .layouts import collapse
from .panels import panels_launch

__all__ = ["WORTH", "OuterAttention"]

#: Queries that are worth laying keys and values out as panels.
WORTH: Final = 16
_OPERANDS: Final = {"mask": "sm", "slopes": "ss"}


class OuterAttention(Attention):
    """`Attention` of enough queries by `outer_attention:attention`."""

    def _launches(self, wanted: Wanted) -> spec.Plan:
        outs, computed, numbers, flags = wanted
        call, query, key, value = self.call, self.query, self.key, self.value
        batch, length, keys = query.shape[:-2], query.shape[-2], key.shape[-2]
        if length < WORTH or "lengths" in self.more:
            return super()._launches(wanted)
        total = 1
        for n in batch:
            total *= n
        tile = tuned.outer_attention(
            call, computed, {"L": length, "S": keys, "heads": total, "size": query.shape[-1]}
        )
        queries, width = tile.queries, tile.width
        tiles = spec.cdiv(length, queries) + self.sequences
        blocks, programs = tiles * total, tile.programs * call.compute_units
        if blocks < call.compute_units:
            return super()._launches(wanted)
        if blocks < programs:
            programs = blocks
        d, dv = key.shape[-1], value.shape[-1]
        columns = max(spec.next_power_of_2(dv), width)
        temporaries: list[spec.ArrayType] = []
        launches: list[spec.Launch] = []

        fusion = self.fusion

        def copied(number: int, array: spec.ArrayType, panels: tuple[Any, ...]) -> spec.ArrayType:
            return _copied(launches, temporaries, number, array, panels, computed, fusion)

        q_source: spec.Input | spec.Temporary = spec.Input(0)
        if query.dtype != computed or (fusion is not None and "query" in fusion.steps):
            q_source = spec.Temporary(0)
            query = copied(0, query, (-1, -2, width, d, False))
        k_source = spec.Temporary(len(temporaries))
        key = copied(1, key, (-2, -1, width, d * width, True))
        v_source = spec.Temporary(len(temporaries))
        value = copied(2, value, (-1, -2, width, keys * width, True))
        scratch = spec.Temporary(len(temporaries))
        room = (programs, queries * (tile.keys + columns))
        temporaries.append(spec.ArrayType(computed, room, spec.contiguous_strides(room)))

        rows = (*batch, length)
        lse = spec.ArrayType(computed, (*rows, 1), spec.contiguous_strides((*rows, 1)))
        arrays = {"q": query, "k": key, "v": value, "o": self.out, "l": lse}
        arrays |= {_OPERANDS[name][1]: array for name, (_, array, _, _) in self.more.items()}
        beside = {} if fusion is None else fusion.arrays("out")
        seen = (array.strides[:-2] for array in (*arrays.values(), *beside.values()))
        space = collapse(batch, *seen, keep_order=True)
        over = {f"s{name}": own for name, own in zip(arrays, space.strides, strict=False)}
        steps = {
            "ql": query.strides[-2], "qd": query.strides[-1],
            "ol": self.out.strides[-2], "od": self.out.strides[-1],
            "ll": 1, "ml": 0, "mn": 0, "sr": 0,
        }  # fmt: skip
        addresses: dict[str, spec.Argument] = {
            "q": q_source, "k": k_source, "v": v_source, "out": spec.Output(0), "scratch": scratch,
        }  # fmt: skip
        wanted = spec.Output(1) if len(outs) > 1 else None
        constants = self.optional(_OPERANDS, self.more, addresses, steps, wanted)
        scalars, none = self.scalars(computed)
        launch = spec.Launch(
            "outer_attention:attention",
            {
                **addresses,
                **self.starts,
                "blocks": blocks,
                "programs": programs,
                "L": length,
                "S": keys,
                "D": d,
                "DV": dv,
                "sequences": self.sequences,
                "along": 1,
                **numbers,
                **scalars,
                "shape": space.lengths,
                **{name: own for name, own in over.items() if name not in constants},
                **{name: step for name, step in steps.items() if step != 1},
            },
            {
                **constants,
                **none,
                **flags,
                **{name: 1 for name, step in steps.items() if step == 1},
                "T": spec.dtype_constant(computed),
                "BLOCK_L": queries,
                "KEYS": tile.keys,
                "WIDTH": width,
                "COLUMNS": columns,
                "STEP": tile.step,
            },
            (programs, 1, 1),
            num_warps=1,
        )
        if fusion is not None:
            over_beside = dict(zip(beside, space.strides[len(arrays) :], strict=True))
            launch = fusion.outer(launch, over_beside, (length, dv))
        fill = (0, float("-inf"))[: len(outs)] if self.sequences else None
        if fill is None:
            return spec.Plan(outs, (*launches, launch), tuple(temporaries))
        return spec.Plan(outs, (*launches, launch), tuple(temporaries), fill)


def _copied(
    launches: list[spec.Launch],
    temporaries: list[spec.ArrayType],
    number: int,
    array: spec.ArrayType,
    panels: tuple[Any, ...],
    computed: str,
    fusion: Fusion | None,
) -> spec.ArrayType:
    """A copy of an argument in the type that is computed with, and the launch that makes it.

    Args:
        panels: the axis that lies side by side in the copy and the one that it is walked along,
            elements side by side, from panel to panel, and whether the last panel is filled.
    """
    across, along, width, to_panel, fill = panels
    count, length = array.shape[across], array.shape[along]
    size = spec.cdiv(count, width) * width * length if fill else count * length
    to_k = width if fill else count
    what = ("query", "key", "value")[number]
    beside = {} if fusion is None else fusion.arrays(what)
    over = [one.strides[:-2] for one in (array, *beside.values())]
    # heads that several queries share are copied once
    alike = [all(step == 0 for step in steps) for steps in zip(*over, strict=True)]
    own = tuple(1 if same else n for n, same in zip(array.shape[:-2], alike, strict=True))
    space = collapse(own, *over, keep_order=True)
    copies = 1
    for n in own:
        copies *= n
    launch = panels_launch(
        spec.Input(number), spec.Temporary(len(temporaries)),
        (count, array.strides[across]), (length, array.strides[along]),
        space, space.strides[0], computed, width,
        steps=(to_panel if fill else width, to_k, size), fill=fill,
    )  # fmt: skip
    if fusion is not None:
        launch = fusion.panels(launch, what, space.strides[1:], (along, across), (length, count))
    launches.append(launch)
    shape = (copies, size)
    temporaries.append(spec.ArrayType(computed, shape, spec.contiguous_strides(shape)))
    steps = tuple(size * step for step in spec.contiguous_strides(own))
    strides = tuple(0 if same else step for same, step in zip(alike, steps, strict=True))
    return spec.ArrayType(computed, array.shape, (*strides, *((count, 1) if not fill else (0, 0))))
