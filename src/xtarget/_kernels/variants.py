"""Names of kernels that are other implementations of an operator: `bincount@in_order`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .._values.errors import XTargetError

if TYPE_CHECKING:
    from ..spec import KernelSpec

__all__ = ["OWN", "SEPARATOR", "asked", "named", "serves"]

SEPARATOR = "@"
#: What `impl=` calls the operator's own row, and words that no library may take.
OWN = "xtarget"
_TAKEN = (OWN, "host", "torch")


def asked(operator: str, impl: str) -> str:
    """The kernel's name of an implementation."""
    return f"{operator}{SEPARATOR}{impl}"


def named(spec: KernelSpec, operator: str) -> KernelSpec:
    """Another implementation under a name of its own, which leaves the operator's as it is.

    Args:
        operator: the operator's own name, of which the spec may give another one.

    Raises:
        XTargetError: `impl` is not a word, or one that means something else.
    """
    if not isinstance(spec.impl, str) or not spec.impl.isidentifier() or spec.impl in _TAKEN:
        raise XTargetError(
            f"{spec.name}: its impl is {spec.impl!r}. Give it a word of letters, digits and _ "
            f"other than {', '.join(_TAKEN)}."
        )
    targets = spec.targets
    if not isinstance(targets, tuple) or not all(isinstance(one, str) for one in targets):
        raise XTargetError(
            f"{spec.name}: its targets are {targets!r:.80}. Give a tuple of vendors and targets: "
            '("cpu", "nvidia:sm_90").'
        )
    from dataclasses import replace  # not while names are all that is asked for

    return replace(spec, name=asked(operator, spec.impl), aliases=())


def serves(targets: Sequence[str], vendor: str, arch: str) -> bool:
    """Whether a target is among these vendors and targets; of none: it is."""
    return not targets or vendor in targets or f"{vendor}:{arch}" in targets
