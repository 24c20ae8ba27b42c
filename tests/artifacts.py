"""An artifact like NVIDIA's, for tests that never launch one."""

from __future__ import annotations

from typing import Any

from xtarget._values.types import Artifact, Parameter, Resources, Scratch, Target

__all__ = ["sample_artifact"]


def sample_artifact(
    binary: bytes, *, target: str | Target = "nvidia:sm_90", **facts: Any
) -> Artifact:
    """An artifact of these bytes; `facts` replace the other facts of it."""
    sample: dict[str, Any] = {
        "format": "cubin",
        "entry": "add",
        "num_warps": 4,
        "warp_size": 32,
        "shared_bytes": 64,
        "parameters": (Parameter("a", "*fp32"), Parameter("g", "*i8", hidden="global_scratch")),
        "global_scratch": Scratch(128, 16),
        "resources": Resources(registers=33),
    }
    goal = Target.parse(target) if isinstance(target, str) else target
    return Artifact(target=goal, binary=binary, **{**sample, **facts})
