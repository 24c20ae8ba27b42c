"""Properties of any bytes. Left out where hypothesis is not installed (a bare GPU machine)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("hypothesis")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xtarget import LoadError

_each_example = settings(
    max_examples=25,
    deadline=None,
    # the fixtures are one device for all examples, on purpose
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@_each_example
@given(data=st.binary(max_size=5000), spare=st.integers(0, 100))
def test_write_then_read_gives_the_bytes(device: Any, stream: Any, data: bytes, spare: int) -> None:
    buffer = device.alloc(len(data) + spare)
    buffer.write(memoryview(data), stream)
    got = bytearray(len(data))
    buffer.read(memoryview(got), stream)
    assert bytes(got) == data
    buffer.close()


@_each_example
@given(first=st.binary(min_size=64, max_size=64), second=st.binary(max_size=64))
def test_a_short_write_leaves_the_rest(
    device: Any, stream: Any, first: bytes, second: bytes
) -> None:
    buffer = device.alloc(64)
    buffer.write(memoryview(first), stream)
    buffer.write(memoryview(second), stream)
    got = bytearray(64)
    buffer.read(memoryview(got), stream)
    assert bytes(got) == second + first[len(second) :]
    buffer.close()


@_each_example
@given(share=st.floats(0.0, 0.999))
def test_truncated_anywhere_is_refused(vendor: Any, share: float) -> None:
    artifact = vendor.vector_add()
    cut = artifact.binary[: int(len(artifact.binary) * share)]
    with pytest.raises(LoadError):
        vendor.device.load(replace(artifact, binary=cut)).function()
