"""What the library holds: one `KernelSpec` per kernel, in `KERNELS`.

The rows stand in `operators`, a file for each category. A name that other libraries have and this
one cannot have is in `REFUSED`, with the reason.
"""

from __future__ import annotations

from xtarget.spec import KernelSpec

from .operators import (
    activations,
    angles,
    arithmetic,
    attention,
    bits,
    casts,
    compaction,
    comparisons,
    constants,
    convolutions,
    entropy,
    gates,
    gathers,
    gradients,
    images,
    losses,
    movement,
    normalizations,
    pooling,
    powers,
    products,
    randoms,
    reductions,
    resampling,
    sampling,
    scans,
    searching,
    segments,
    selection,
    sorting,
    special,
)
from .operators.refused import REFUSED
from .operators.row import spelled

__all__ = ["KERNELS", "REFUSED"]

KERNELS: tuple[KernelSpec, ...] = spelled(
    (
        *arithmetic.ROWS,
        *powers.ROWS,
        *angles.ROWS,
        *special.ROWS,
        *activations.ROWS,
        *comparisons.ROWS,
        *bits.ROWS,
        *casts.ROWS,
        *selection.ROWS,
        *reductions.ROWS,
        *scans.ROWS,
        *normalizations.ROWS,
        *gradients.ROWS,
        *entropy.ROWS,
        *gates.ROWS,
        *losses.ROWS,
        *movement.ROWS,
        *gathers.ROWS,
        *constants.ROWS,
        *sorting.ROWS,
        *searching.ROWS,
        *compaction.ROWS,
        *sampling.ROWS,
        *randoms.ROWS,
        *products.ROWS,
        *attention.ROWS,
        *convolutions.ROWS,
        *pooling.ROWS,
        *resampling.ROWS,
        *images.ROWS,
        *segments.ROWS,
    )
)
