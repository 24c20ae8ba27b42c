"""From call to launches: kernels whose lanes are independent, and arguments that may be absent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from xtarget import spec

__all__ = ["lanes", "parted"]


def parted(args: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments of a launch that there are, and those that are None, which are constants."""
    given = {name: value for name, value in args.items() if value is not None}
    return given, dict.fromkeys(name for name in args if name not in given)


def lanes(
    source: str,
    size: int,
    block: int,
    args: Mapping[str, spec.Argument | None],
    constants: Mapping[str, Any],
    *,
    num_warps: int,
    loose: Iterable[str] = (),
) -> spec.Launch:
    """One launch of a kernel that takes `block` of `size` elements a block, as its BLOCK."""
    given, absent = parted(args)
    return spec.Launch(
        source,
        given,
        {**absent, **constants, "BLOCK": block},
        (spec.cdiv(size, block), 1, 1),
        num_warps=num_warps,
        loose=tuple(loose),
    )
