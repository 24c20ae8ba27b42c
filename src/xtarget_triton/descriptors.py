"""Triton's `TensorDescriptor` takes arrays that are no torch tensors, as launches do."""

from __future__ import annotations

from typing import Any

__all__ = ["accept_arrays"]


def accept_arrays() -> None:
    """Let descriptors be made of arrays, in this process. One of a tensor costs nothing more.

    Programs make descriptors before they launch anything, so before there is a driver.
    """
    from triton.tools.tensor_descriptor import TensorDescriptor

    checked, from_tensor = TensorDescriptor.__post_init__, TensorDescriptor.from_tensor
    if getattr(checked, "takes_arrays", False):
        return

    def base_of(given: Any) -> Any:
        if hasattr(given, "data_ptr"):
            return given
        from xtarget._triton_backend.descriptors import base_of

        return base_of(given)

    def __post_init__(self: Any) -> None:
        self.base = base_of(self.base)
        checked(self)

    def from_array(tensor: Any, *args: Any, **options: Any) -> Any:
        return from_tensor(base_of(tensor), *args, **options)

    __post_init__.takes_arrays = True  # type: ignore[attr-defined]  # the mark
    TensorDescriptor.__post_init__ = __post_init__
    TensorDescriptor.from_tensor = staticmethod(from_array)
