"""Does a block fit the device: for run times that would say no more than "invalid"."""

from __future__ import annotations

from .._errors import LaunchError, OutOfResourcesError
from .._types import Artifact, DeviceInfo
from ._spirv_binary import EntryPoint

__all__ = ["check_block"]


def check_block(
    artifact: Artifact, entry: EntryPoint, info: DeviceInfo, kernel_threads: int
) -> None:
    """Compare a block's threads and shared memory with the limits.

    Args:
        artifact: the kernel.
        entry: what its module demands.
        info: the device.
        kernel_threads: the run time's limit for this kernel; 0 when it does not tell.

    Raises:
        OutOfResourcesError: the block does not fit.
        LaunchError: the artifact and its module disagree about the block.
    """
    threads = artifact.num_warps * artifact.warp_size
    limit = min(info.max_threads_per_block, kernel_threads or info.max_threads_per_block)
    if threads > limit:
        raise OutOfResourcesError(
            f"{artifact.entry} needs {threads} threads a block (num_warps={artifact.num_warps} x "
            f"{artifact.warp_size}), {info.name} ({info.product}) takes {limit} for it. "
            f"Use a smaller num_warps."
        )
    if artifact.shared_bytes > info.max_shared_bytes:
        raise OutOfResourcesError(
            f"{artifact.entry} needs {artifact.shared_bytes} bytes of shared memory a block, "
            f"{info.name} ({info.product}) has {info.max_shared_bytes}. "
            f"Use smaller BLOCK sizes or a smaller num_stages."
        )
    if entry.local_size is not None and entry.local_size != artifact.block:
        raise LaunchError(
            f"{artifact.entry}: the artifact's block is {artifact.block}, its module demands "
            f"{entry.local_size}. Compile the kernel again."
        )
