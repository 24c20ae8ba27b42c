"""Tensors in memory, row by row: their addresses, loads and stores, in Triton's GPU IR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .structure import Editor
from .types import Layout, Type

__all__ = ["Writer", "blocked", "sliced"]


class Writer(Editor):
    """An editor that writes what loops over tensors in memory consist of."""

    def scaled(self, value: Any, factor: int) -> Any:
        return self.create_mul(value, self.get_int32(factor))

    def of(self, element: Any, shape: tuple[int, ...], layout: Layout) -> Any:
        """A tensor type; the element type is the builder's."""
        return self.tensor(element, shape, self.layout(layout, shape))

    def indices(self, shape: tuple[int, ...], axis: int, layout: Layout, stride: int) -> Any:
        """A tensor of the index along `axis` times `stride`."""
        others = [a for a in range(len(shape)) if a != axis]
        line = layout
        for a in reversed(others):
            line = sliced(a, line)
        size = shape[axis]
        type_ = self.of(self.element("i32"), (size,), line)
        value = self.create_make_range(type_, 0, size)
        if stride != 1:
            factor = self.create_splat(type_, self.get_int32(stride))
            value = self.create_mul(value, factor)
        for a in others:
            value = self.create_expand_dims(value, a)
        if any(shape[a] != 1 for a in others):
            value = self.create_broadcast(value, self.of(self.element("i32"), shape, layout))
        return value

    def places(self, base: Any, of: Any, shape: tuple[int, ...], layout: Layout, row: int) -> Any:
        """Pointers to all elements of a tensor whose last axis has neighbours side by side, and the
        one before it rows `row` elements apart; a tensor with one axis has only these rows.
        """
        strides = [row, 1] if len(shape) > 1 else [row]
        for axis in range(len(shape) - 3, -1, -1):
            strides.insert(0, strides[0] * shape[axis + 1])
        offsets = None
        for axis, stride in enumerate(strides):
            term = self.indices(shape, axis, layout, stride)
            offsets = term if offsets is None else self.create_add(offsets, term)
        many = self.create_splat(self.of(self.pointer(of), shape, layout), base)
        return self.create_addptr(many, offsets)

    def converted(self, value: Any, old: Type, new: str) -> Any:
        """Elements of another type."""
        if old.element == new:
            return value
        to = self.like(old, new)
        if old.element.startswith("f8"):
            return self.create_fp_to_fp(value, to, None)
        if old.element == "i8":
            return self.create_int_cast(value, to, True)
        return (self.create_fp_trunc if old.element == "f32" else self.create_fp_ext)(value, to)

    def load(self, places: Any) -> Any:
        return self.create_load(places, *self._policy, False)

    def store(self, places: Any, value: Any) -> None:
        self.create_store(places, value, *self._policy)

    @property
    def _policy(self) -> tuple[Any, ...]:
        """The cache policy of an access: none."""
        if self.has_cache_policies:
            return (self.get_cache_policy("none", "evict_normal"),)
        from triton._C.libtriton import ir

        return ir.CACHE_MODIFIER.NONE, ir.EVICTION_POLICY.NORMAL


def sliced(axis: int, layout: Layout) -> Layout:
    return Layout("ttg.slice", (("dim", axis), ("parent", layout)))


def blocked(threads: Sequence[int], warps: Sequence[int], order: Sequence[int]) -> Layout:
    return Layout(
        "ttg.blocked",
        (
            ("sizePerThread", (1,) * len(order)),
            ("threadsPerWarp", tuple(threads)),
            ("warpsPerCTA", tuple(warps)),
            ("order", tuple(order)),
        ),
    )
