"""An artifact like NVIDIA's, and a device like a CPU, for tests that never launch one."""

from __future__ import annotations

from typing import Any

from xtarget._values.types import Artifact, DeviceInfo, Parameter, Resources, Scratch, Target

__all__ = ["SAMPLE_DEVICE", "sample_artifact"]

SAMPLE_DEVICE = DeviceInfo(
    name="cpu:0",
    target=Target.parse("cpu:spirv64"),
    product="Acme One",
    memory_bytes=2**30,
    compute_units=2,
    driver_version="1",
    warp_size=16,
    max_threads_per_block=1024,
    max_shared_bytes=65536,
)


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
