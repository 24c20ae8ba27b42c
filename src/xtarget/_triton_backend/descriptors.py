"""Triton's `TensorDescriptor` over arrays that Triton does not know.

Triton's class asks its base for `data_ptr()`, `stride()` and a dtype that tells its size, as
torch's tensors have them. `xtarget_triton.descriptors` makes the class ask here first.
"""

from __future__ import annotations

from typing import Any

from triton.runtime import driver

from .._arrays import kind_of
from .._values.errors import ArgumentError
from .._values.types import DTYPES
from .arguments import ArrayArgument, is_array

__all__ = ["base_of"]


class _Dtype(str):
    """A dtype's name, which says what a descriptor asks of torch's dtypes."""

    __slots__ = ()

    @property
    def itemsize(self) -> int:
        return DTYPES[self].itemsize

    @property
    def is_floating_point(self) -> bool:
        return "float" in self


class _Described(ArrayArgument):
    """The base of a descriptor."""

    __slots__ = ("_strides", "shape")

    def __init__(self, array: Any) -> None:
        super().__init__(array)
        self.dtype = _Dtype(self.dtype)
        adopted = getattr(self, "_adopted", array)  # unset: an ordinary one of NumPy's
        layout = kind_of(adopted).view(adopted).type
        self.shape, self._strides = layout.shape, layout.strides

    def stride(self) -> tuple[int, ...]:
        """In elements, as torch's."""
        return self._strides


def base_of(given: Any) -> Any:
    """Return what a descriptor has for its base: an array is wrapped, all else stays as it is.

    Raises:
        ArgumentError: another back end than this one launches.
    """
    if not is_array(given):
        return given
    if driver.active.get_current_target().backend != "spirv":
        kind = type(given)
        raise ArgumentError(
            f"a TensorDescriptor of a {kind.__module__}.{kind.__name__} is for "
            "TRITON_DEFAULT_BACKEND=spirv. Here, pass a torch tensor of the device."
        )
    return _Described(given)
