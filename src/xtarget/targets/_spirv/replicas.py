"""Order between threads that hold the same element.

A scalar, and a tensor of fewer elements than the block has threads, is held by several threads: all
of them load it, and one of them stores it. On a GPU warps run side by side. A CPU runs one after
another, up to a barrier: what loads next would find what an earlier warp has stored already. And
LLVM moves a load out of a loop for those threads that do not store in it. So such a store has a
barrier before it, when all have loaded, and one behind it, before any loads again.
"""

from __future__ import annotations

import math
import re

__all__ = ["order_stores"]

_STORE = re.compile(r"^(?P<indent>\s+)(?:%[\w#]+ = )?tt\.(?:store|atomic_rmw|atomic_cas) ")
#: The type of the first operand, the pointers.
_POINTERS = re.compile(r" : \(?(?P<type>!tt\.ptr<|tensor<(?P<shape>(?:\d+x)+)!tt\.ptr<[^,]*, )")
_BLOCKED = re.compile(
    r"#ttg\.blocked<\{sizePerThread = \[([\d, ]*)\], threadsPerWarp = \[([\d, ]*)\], "
    r"warpsPerCTA = \[([\d, ]*)\]"
)
_SLICE = re.compile(r"#ttg\.slice<\{dim = (\d+), parent = (.*)\}>")
_ALIAS = re.compile(r"^(#\w+) = (#ttg\..*)$", re.M)


def order_stores(text: str, barrier: str) -> str:
    """Triton's GPU IR with barriers about what one of several threads writes for all.

    Args:
        text: the module, with layouts.
        barrier: the operation by which the block's threads meet, in this Triton's words.
    """
    layouts = dict(_ALIAS.findall(text))
    lines = []
    for line in text.splitlines():
        store = _STORE.match(line)
        if store and _is_replicated(line, layouts):
            meet = store["indent"] + barrier
            lines += [meet, line, meet]
        else:
            lines.append(line)
    return "\n".join(lines) + "\n" * text.endswith("\n")


def _is_replicated(line: str, layouts: dict[str, str]) -> bool:
    """Do several threads hold an element? Yes, where it cannot be told."""
    pointers = _POINTERS.search(line)
    if pointers is None or pointers["shape"] is None:
        return True  # a scalar
    shape: list[float] = [int(length) for length in pointers["shape"].split("x")[:-1]]
    layout = _up_to_end(line[pointers.end() :])
    layout = layouts.get(layout, layout)
    if sliced := _SLICE.fullmatch(layout):
        layout = layouts.get(sliced[2], sliced[2])
    blocked = _BLOCKED.match(layout)
    if blocked is None:
        return True
    per_thread, threads, warps = map(_numbers, blocked.groups())
    if sliced:
        dim = int(sliced[1])
        if threads[dim] * warps[dim] > 1:
            return True
        shape.insert(dim, math.inf)
    return any(
        lanes * count > 1 and size * lanes * count > length
        for size, lanes, count, length in zip(per_thread, threads, warps, shape, strict=True)
    )


def _up_to_end(text: str) -> str:
    """What stands before the `>` that closes the type."""
    depth = 0
    for place, character in enumerate(text):
        if character == ">" and not depth:
            return text[:place]
        depth += (character == "<") - (character == ">")
    return text


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]
