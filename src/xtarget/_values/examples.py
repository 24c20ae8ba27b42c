"""Descriptions of a kernel for ahead-of-time builds.

A catalog imports these names from `xtarget.spec`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from .types import Constant
from .value_classes import value_class

__all__ = ["CInterface", "CVariant", "Example"]


@value_class(frozen=True, slots=True)
class Example:
    """A call that stands for others of its kind when kernels are built ahead of time.

    Attributes:
        shapes: of the arguments, in their order; None is a number by value.
        options: of the kernel.
        dtypes: of arguments whose dtype is always the same, as that of indices: by their places;
            None, or none there: the dtype that is built for.
    """

    shapes: tuple[tuple[int, ...] | None, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    dtypes: tuple[str | None, ...] = ()


@value_class(frozen=True, slots=True)
class CVariant:
    """A choice of binaries that the C function of a kernel may use, and the arguments for them.

    Formulas are C expressions over the interface's sizes, the binary's integer constants by their
    names, and the macro XT_CDIV(a, b); they are 64-bit. A binary is skipped if it has parameters
    besides the interface's arrays and `values`.

    Attributes:
        source: `file:function`, as in `Launch.source`.
        values: formula of every parameter that is not an array of the interface.
        grid: formulas of x, y and z.
        fixed: constants that a binary must have, by name.
        requires: formula that is true if the binary gives right results.
        prefers: formula that is true if the binary is also fast; binaries whose formula is false
            are used only after all others.
        order: names of constants; binaries with larger values are tried first, or with smaller
            values for a name that begins with `-`.
    """

    source: str
    values: Mapping[str, str]
    grid: tuple[str, str, str]
    fixed: Mapping[str, Constant] = field(default_factory=dict)
    requires: str = "1"
    prefers: str = "1"
    order: tuple[str, ...] = ()


@value_class(frozen=True, slots=True)
class CInterface:
    """A kernel as a C function on C-contiguous arrays of one dtype.

    Attributes:
        arrays: names of the array parameters in the C function's order; the last is the result.
        sizes: its int64_t parameters.
        variants: the ways to compute it, first choice first.
        empty: formula that is true where there is nothing to compute.
        extents: factors of each number that decides between 32-bit and 64-bit indices.
        valid: formula that is true for sizes that have a result.
        scalars: parameters passed by value as double, with what they are called in C.
        summary: what the arrays' shapes are, for the header.
        masks: those of `arrays` that are bool whatever the dtype.
    """

    arrays: tuple[str, ...]
    sizes: tuple[str, ...]
    variants: tuple[CVariant, ...]
    empty: str
    extents: tuple[tuple[str, ...], ...]
    valid: str = "1"
    scalars: tuple[str, ...] = ()
    summary: str = ""
    masks: tuple[str, ...] = ()
