"""Parameters that are tensor maps: what a copy engine (NVIDIA's TMA) has to know of an array in
memory and of the tiles that it moves. The host makes them, for each launch, from the array's
address and from lengths and strides, which are the parameters that follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

__all__ = ["TensorMap", "map_of", "map_type"]

_PREFIX: Final = "tensormap:"
#: From PTX's numbers of dtypes, which Triton gives, to `CUtensorMapDataType` (cuda.h) where these
#: differ: float32 with flushed subnormals, float64, bfloat16.
_DTYPES: Final = {8: 10, 9: 8, 10: 9}


@dataclass(frozen=True, slots=True)
class TensorMap:
    """The part of a tensor map that does not depend on the array.

    Attributes:
        dtype: the driver's number of it.
        itemsize: bytes of an element.
        swizzle: the driver's number of it.
        tile: lengths of what is moved at once, powers of 2, the outermost first.
    """

    dtype: int
    itemsize: int
    swizzle: int
    tile: tuple[int, ...]

    @property
    def word(self) -> int:
        """As `read_map` in `_core/launch.c` reads it."""
        word = self.dtype | self.itemsize << 8 | self.swizzle << 16 | len(self.tile) << 20
        for axis, length in enumerate(self.tile):
            word |= (length.bit_length() - 1) << (24 + 8 * axis)
        return word


def map_type(found: Mapping[str, Any]) -> str:
    """The type of a parameter, as text, from what Triton says of it."""
    tile = "x".join(map(str, found["block_size"]))
    dtype = _DTYPES.get(found["elem_type"], found["elem_type"])
    return f"{_PREFIX}{dtype}:{found['elem_size']}:{found['swizzle']}:{tile}"


@cache
def map_of(type_: str) -> TensorMap | None:
    """Return what a parameter's type says; None: it is no tensor map.

    Raises:
        ValueError: it says nothing that a map can be.
    """
    if not type_.startswith(_PREFIX):
        return None
    dtype, itemsize, swizzle, tile = type_.removeprefix(_PREFIX).split(":")
    made = TensorMap(int(dtype), int(itemsize), int(swizzle), tuple(map(int, tile.split("x"))))
    fits = 0 <= made.dtype < 256 and 0 < made.itemsize < 256 and 0 <= made.swizzle < 16
    if not fits or len(made.tile) > 5 or any(n.bit_count() != 1 for n in made.tile):
        raise ValueError(f"{type_!r:.80} is no tensor map")
    return made
