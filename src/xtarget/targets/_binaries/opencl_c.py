"""OpenCL C as a binary: text that a run time compiles when it is loaded."""

from __future__ import annotations

from ..._values.errors import LoadError
from ..._values.types import Artifact, Target
from .spirv import EntryPoint

__all__ = ["FORMAT", "check_opencl_c"]

#: `Artifact.format`.
FORMAT = "cl"


def check_opencl_c(artifact: Artifact, target: Target, device: str) -> EntryPoint:
    """The artifact's entry.

    Raises:
        LoadError: it was compiled for another vendor, or it is not text with this entry.
    """
    what = f"{artifact.entry} cannot be loaded on {device}"
    if artifact.target.vendor != target.vendor:
        raise LoadError(
            f"{what}: it was compiled for {artifact.target}. Compile the kernel for {target}."
        )
    try:
        text = artifact.binary.decode()
    except UnicodeDecodeError as error:
        raise LoadError(f"{what}: it is not text. Compile the kernel again.") from error
    if f"{artifact.entry}(" not in text:
        raise LoadError(f"{what}: the text has no such entry. Compile the kernel again.")
    parameters = tuple("pointer" if p.is_pointer else p.type for p in artifact.parameters)
    return EntryPoint(artifact.entry, parameters, artifact.block, None)
