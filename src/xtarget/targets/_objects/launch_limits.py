"""Does a launch fit the device: for run times that would say no more than "invalid"."""

from __future__ import annotations

from ..._values.errors import LaunchError, OutOfResourcesError
from ..._values.types import Artifact, DeviceInfo

__all__ = ["check_block", "check_cooperation", "check_grid"]


def check_block(
    artifact: Artifact, info: DeviceInfo, *, most_threads: int = 0, static_shared: int = 0
) -> None:
    """Compare a block's threads and shared memory with the limits.

    Args:
        artifact: the kernel.
        info: the device.
        most_threads: the run time's limit for this kernel; 0 when it does not tell.
        static_shared: bytes of shared memory that the binary takes on top of the artifact's.

    Raises:
        OutOfResourcesError: the block does not fit.
    """
    threads = artifact.block[0]
    limit = min(info.max_threads_per_block, most_threads or info.max_threads_per_block)
    if threads > limit:
        raise OutOfResourcesError(
            f"{artifact.entry} needs {threads} threads a block (num_warps={artifact.num_warps} x "
            f"{artifact.warp_size}), {info.name} ({info.product}) takes {limit} for it. "
            f"Use a smaller num_warps."
        )
    shared = artifact.shared_bytes + static_shared
    if shared > info.max_shared_bytes:
        raise OutOfResourcesError(
            f"{artifact.entry} needs {shared} bytes of shared memory a block, "
            f"{info.name} ({info.product}) has {info.max_shared_bytes}. "
            f"Use smaller BLOCK sizes or a smaller num_stages."
        )


def check_grid(
    artifact: Artifact, info: DeviceInfo, grid: tuple[int, int, int], limits: tuple[int, int, int]
) -> None:
    """Compare a grid with the most blocks in x, y, z.

    Raises:
        OutOfResourcesError: the grid does not fit.
    """
    for axis, blocks, most in zip("xyz", grid, limits, strict=True):
        if blocks > most:
            raise OutOfResourcesError(
                f"{artifact.entry} cannot start {blocks} blocks in {axis} on {info.name} "
                f"({info.product}): the limit is {most} blocks of {artifact.block[0]} threads. Let "
                "each block do more, or split the work over several launches."
            )


def check_cooperation(artifact: Artifact, grid: tuple[int, int, int]) -> None:
    """Refuse blocks that may wait for others, where nobody promises that these run.

    Raises:
        LaunchError: the launch is cooperative and has more than one block.
    """
    x, y, z = grid
    if artifact.cooperative and x * y * z > 1:
        raise LaunchError(
            f"{artifact.entry} cannot be launched with the grid {grid} and "
            "launch_cooperative_grid=True: no OpenCL or SYCL promises that blocks run at the same "
            "time, and one that waits for another would hang. Launch one block on this device, or "
            "use one launch for each step."
        )
