"""What a compilation for a CPU's run time says beside its target."""

from __future__ import annotations

from .dots import CPU_BYTES

__all__ = ["CPU_OPTIONS"]

#: Options of `backend.Options`.
CPU_OPTIONS: dict[str, int | bool] = {"dot_bytes": CPU_BYTES, "cpu_accesses": True}
