"""Convolutions and scans whose results go on in the same launch: what follows is done to each
element before it is stored."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ..spec import Output
from .nodes import Node, Value

__all__ = [
    "is_attention",
    "is_read_through",
    "is_scan",
    "most_beside",
    "places_of",
    "stored_among",
]

#: Arrays and numbers beside a result (`kernels/tails.py`: `at_places`; attention's `elements`).
_MOST_BESIDE, _MOST_OF_ATTENTION = 3, 4
_KERNELS = frozenset(
    ("convolution:direct", "convolution:implicit", "convolution:tapped", "shifted:shifted",
     "scans:scan", "attention:attention", "attention:joined", "outer_attention:attention")
)  # fmt: skip
#: The operators of attention whose queries and keys lie in order.
_ATTENTION = frozenset(("attention", "multi_head_attention"))


@lru_cache(maxsize=256)
def places_of(node: Node) -> tuple[int, ...] | None:
    """The places of a node's arrays among its operands, where elementwise operators can follow in
    its kernel; None: they cannot."""
    if not node.own or len(node.plan.outputs) != 1 or not node.plan.launches:
        return None
    last = [launch for launch in node.plan.launches if Output() in launch.args.values()]
    if any(launch.source not in _KERNELS for launch in last):
        return None
    if node.spec.category == "attention" and node.spec.name not in _ATTENTION:
        return None
    places = tuple(i for i, own in enumerate(node.operands) if isinstance(own, Value))
    given = [own for own in node.operands if not isinstance(own, Value)]
    if any(own.value is not None for own in given):
        return None
    return places


def stored_among(nodes: Sequence[Node]) -> Node | None:
    """The node of a section whose kernel it goes on in."""
    return next((node for node in nodes if places_of(node) is not None), None)


def is_attention(node: Node) -> bool:
    """Whether a node is attention whose arrays other nodes may give."""
    return node.spec.name in _ATTENTION and places_of(node) is not None


def most_beside(node: Node) -> int:
    """How many arrays and numbers may stand beside a node's result."""
    return _MOST_OF_ATTENTION if is_attention(node) else _MOST_BESIDE


def is_scan(node: Node) -> bool:
    """Whether a node is a scan that may read what other nodes give."""
    sources = {launch.source for launch in node.plan.launches}
    return places_of(node) == (0,) and sources == {"scans:scan"}


def is_read_through(nodes: Sequence[Node], root: Node) -> bool:
    """Whether a section ends in a scan, of what its other nodes compute."""
    first = root.operands[0] if root.operands else None
    return (
        is_scan(root)
        and isinstance(first, Value)
        and not first.views
        and any(first.node is node for node in nodes)
    )
