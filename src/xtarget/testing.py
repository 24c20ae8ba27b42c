"""Checks for the tests of kernels: `assert_close`, with the tolerances that the library has itself.

The fixtures that go with it (`xtarget_device`) are in `xtarget.pytest_plugin`, which pytest finds.
"""

from __future__ import annotations

from typing import Any

__all__ = ["assert_close"]


def assert_close(
    result: Any,
    expected: Any,
    *,
    kernel: str | None = None,
    tolerance: tuple[float, float] | None = None,
) -> None:
    """Assert that a result is the right answer within what its dtype allows.

    Integers and bools have to be equal, NaN and infinities in the same places. Floats may be off by
    `tolerance`; of none, by some units in the last place of the result's dtype.

    Args:
        result: an array of any library.
        expected: the answer, computed in float64 if it is a float.
        kernel: its name: the tolerance of its spec.
        tolerance: units in the last place of the type that is computed in (float32 for half types)
            relative to the value, and relative to the largest value (`KernelSpec.tolerance`).

    Raises:
        AssertionError: how many elements are off, and the worst of them.
    """
    import xtarget

    from ._verify.comparison import difference, on_the_host

    if kernel is not None and tolerance is None:
        tolerance = xtarget.get(kernel).spec.tolerance
    said = difference(on_the_host(result), expected, tolerance)
    if said:
        raise AssertionError(said)
