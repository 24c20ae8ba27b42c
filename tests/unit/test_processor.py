"""Facts about this machine's processor."""

from __future__ import annotations

import pytest

from xtarget._system import processor


@pytest.mark.parametrize(
    ("flags", "vectors", "nbytes"),
    [
        ("fpu sse2 avx avx2 avx512f avx512vl", "avx512", 2048),
        ("fpu sse2 avx avx2 fma", "avx2", 512),
        ("fp asimd crc32", "asimd", 512),
        ("fpu sse2", "", 0),
        ("", "", 0),
    ],
)
def test_vectors_and_bytes_of_registers(
    monkeypatch: pytest.MonkeyPatch, flags: str, vectors: str, nbytes: int
) -> None:
    monkeypatch.delenv(processor.ARCH, raising=False)
    monkeypatch.setattr(processor, "flags", lambda: frozenset(flags.split()))
    assert processor.vectors() == vectors
    assert processor.register_bytes() == nbytes


@pytest.mark.parametrize(
    ("arch", "vectors", "nbytes"),
    [("core-avx2", "avx2", 512), ("skx", "avx512", 2048), ("of-tomorrow", "", 0)],
)
def test_the_run_time_may_make_code_for_another_processor(
    monkeypatch: pytest.MonkeyPatch, arch: str, vectors: str, nbytes: int
) -> None:
    monkeypatch.setenv(processor.ARCH, arch)
    assert processor.vectors() == vectors
    assert processor.register_bytes() == nbytes
