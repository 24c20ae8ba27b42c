"""tl.atomic_min and tl.atomic_max of signed integers on gfx942 and gfx950, which Triton gets wrong.

There Triton 3.6 to 3.9 merges the lanes of a wavefront that meet at one address before the atomic
operation, and compares them as unsigned numbers (v_min_u32 before global_atomic_smin). Numbers of
one sign are ordered alike both ways. So the lanes with negative values get an operation of their
own, as Triton's own lowering gives them for floats.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["lanes_by_sign"]

_ARCHS = ("gfx942", "gfx950")
_NAMES = ("atomic_min", "atomic_max")


@contextmanager
def lanes_by_sign(arch: str) -> Iterator[None]:
    """A compilation for an arch, with these operations as two. Others that compile meanwhile, for
    another arch, notice nothing."""
    if arch not in _ARCHS:
        yield
        return
    from triton.language.semantic import TritonSemantic

    before = {name: getattr(TritonSemantic, name) for name in _NAMES}
    for name, original in before.items():
        setattr(TritonSemantic, name, _split(original, name.removeprefix("atomic_")))
    try:
        yield
    finally:
        for name, original in before.items():
            setattr(TritonSemantic, name, original)


def _split(original: Any, operation: str) -> Any:
    def atomic(self: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:
        element = ptr.type.scalar.element_ty if ptr.type.scalar.is_ptr() else None
        concerned = (
            getattr(self.builder.options, "arch", None) in _ARCHS
            and ptr.type.is_block()  # one lane has nothing to merge with
            and element is not None
            and element.is_int_signed()
        )
        if not concerned:
            return original(self, ptr, val, mask, sem, scope)
        ptr, val, mask = self.atom_red_typechecking_impl(ptr, val, mask, operation)
        negative = self.less_than(val, self.to_tensor(0))
        positive = self.not_(negative)
        one = original(self, ptr, val, self.and_(mask, positive), sem, scope)
        other = original(self, ptr, val, self.and_(mask, negative), sem, scope)
        return self.where(positive, one, other)

    return atomic
