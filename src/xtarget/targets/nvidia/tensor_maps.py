"""Launches with tensor maps among their values, for which cuda.core has no way from an address."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Final

from cuda.bindings import driver

from ..._values.types import Artifact, Parameter
from .._objects.tensor_maps import TensorMap, map_of
from .status import check

__all__ = ["launch_with_maps", "takes_maps"]

#: CUDA Driver API, `cuTensorMapEncodeTiled`: bytes of a map, and what its address is a multiple of.
_BYTES: Final = 128
_ALIGN: Final = 64
#: `CU_TENSOR_MAP_INTERLEAVE_NONE`, `_L2_PROMOTION_L2_128B`, `_FLOAT_OOB_FILL_NONE`.
_PLAIN, _PROMOTION, _ZEROS = 0, 2, 0
_ENCODE: Final = ctypes.CFUNCTYPE(
    ctypes.c_int,
    *(ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p),
    *(ctypes.c_void_p,) * 4,
    *(ctypes.c_int,) * 4,
)


def takes_maps(artifact: Artifact) -> bool:
    """Whether a parameter is a tensor map."""
    return any(map_of(parameter.type) is not None for parameter in artifact.parameters)


def launch_with_maps(
    parameters: Sequence[Parameter], encode: int, where: str
) -> Callable[..., None]:
    """A function like `cuda.core.launch`, which takes an address for each tensor map.

    Args:
        encode: address of the driver's `cuTensorMapEncodeTiled`. The binding's function makes maps
            in objects of its own, which need not lie at multiples of 64 bytes.
        where: what is launched, for messages.
    """
    maps = [(i, own) for i, p in enumerate(parameters) if (own := map_of(p.type)) is not None]
    encoder = _ENCODE(encode)
    what = f"launching {where}"

    def launch(stream: Any, config: Any, kernel: Any, *values: Any) -> None:
        kept = [
            value if isinstance(value, ctypes._SimpleCData) else ctypes.c_uint64(value)
            for value in values
        ]
        places = [ctypes.addressof(value) for value in kept]
        rooms = []
        for index, own in maps:
            room = ctypes.create_string_buffer(_BYTES + _ALIGN)
            rooms.append(room)
            places[index] = -(-ctypes.addressof(room) // _ALIGN) * _ALIGN
            numbers = [int(value.value) for value in kept[index : index + 1 + 2 * len(own.tile)]]
            status = _encode(encoder, places[index], own, numbers)
            check((driver.CUresult(status),), what)
        pointers = (ctypes.c_void_p * len(places))(*places)
        function = driver.CUfunction(int(kernel.handle))
        check(
            driver.cuLaunchKernel(
                function,
                *config.grid,
                *config.block,
                config.shmem_size,
                driver.CUstream(int(stream.handle)),
                ctypes.addressof(pointers),
                0,
            ),
            what,
        )

    return launch


def _encode(encoder: Any, place: int, own: TensorMap, numbers: Sequence[int]) -> int:
    """Make a map at `place`: the driver's status.

    Args:
        numbers: the address, lengths and strides in elements, the outermost dimension first.
    """
    rank = len(own.tile)
    address, *rest = numbers
    lengths = (ctypes.c_uint64 * rank)(*rest[rank - 1 :: -1])
    strides = (ctypes.c_uint64 * rank)(
        *(own.itemsize * n for n in rest[2 * rank - 2 : rank - 1 : -1])
    )
    box = (ctypes.c_uint32 * rank)(*own.tile[::-1])
    ones = (ctypes.c_uint32 * rank)(*(1,) * rank)
    status: int = encoder(
        place, own.dtype, rank, address, lengths, strides, box, ones,
        _PLAIN, own.swizzle, _PROMOTION, _ZEROS,
    )  # fmt: skip
    return status
