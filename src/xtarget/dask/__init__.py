"""Kernels and fused chains over Dask's arrays, block by block.

    import dask.array as da, xtarget.dask

    y = xtarget.dask.map_blocks("softmax", da.from_array(x, chunks=(256, -1)))

A block is computed where Dask puts it, by that worker's xtarget.
"""

from __future__ import annotations

from .blocks import map_blocks

__all__ = ["map_blocks"]
