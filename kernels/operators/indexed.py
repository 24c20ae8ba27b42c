"""NumPy's indexing by arrays. Indices below 0 count from the end, and none leads outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from xtarget.spec import KernelSpec

from ..plans import indexed as plans
from .row import moving, row
from .rules import ALL

__all__ = ["ROWS"]

_Shape = tuple[int, ...]
#: As many indices as arrays have dimensions.
_INDICES = " ".join(f"index{number}?" for number in range(8))
_APART = tuple(_INDICES.replace("?", "").split())


def _key(x: Any, indices: Sequence[Any]) -> tuple[tuple[Any, ...], Any]:
    """A key for NumPy's brackets with all indices inside, and the mask of those that were so."""
    import numpy as np

    key: list[Any] = []
    inside: Any = np.ones((), bool)
    for given, length in zip(indices, x.shape, strict=False):
        if given is None:
            key.append(slice(None))
            continue
        own = np.asarray(given).astype(np.int64)
        own = np.where(own < 0, own + length, own)
        inside = inside & (own >= 0) & (own < length)
        key.append(np.clip(own, 0, length - 1))
    return tuple(key), inside


def _index(x: Any, *indices: Any, mode: str = "clip") -> Any:
    import numpy as np

    if mode == "wrap":
        indices = tuple(
            None if own is None else np.asarray(own) % n
            for own, n in zip(indices, x.shape, strict=False)
        )
    key, inside = _key(x, indices)
    found = x[key]
    if mode == "zero" and not inside.all():
        marked = np.broadcast_to(np.arange(x.size).reshape(x.shape), x.shape)[key]
        allowed = np.zeros(x.shape, bool)[key] | _spread(x, key, inside, marked)
        found = np.where(allowed, found, np.zeros((), found.dtype))
    return found


def _spread(x: Any, key: Any, inside: Any, marked: Any) -> Any:
    """`inside` along the axes of the result that the indices make."""
    import numpy as np

    arrays = [at for at, own in enumerate(key) if not isinstance(own, slice)]
    inside = np.broadcast_to(inside, np.broadcast_shapes(*(key[at].shape for at in arrays)))
    together = arrays[-1] - arrays[0] == len(arrays) - 1
    before = arrays[0] if together else 0
    after = marked.ndim - before - inside.ndim
    return inside.reshape((1,) * before + inside.shape + (1,) * after)


def _index_put(x: Any, *rest: Any, accumulate: bool = False) -> Any:
    """One after the other, as the kernel: the last one stays."""
    import numpy as np

    *indices, source = rest
    key, inside = _key(x, indices)
    out = np.array(x, order="C")
    places = np.arange(x.size).reshape(x.shape)[key]
    allowed = np.broadcast_to(_spread(x, key, inside, places), places.shape)
    source = np.broadcast_to(source, places.shape)
    arrays = [at for at, own in enumerate(key) if not isinstance(own, slice)]
    together = arrays[-1] - arrays[0] == len(arrays) - 1
    before = arrays[0] if together else 0
    depth = len(np.broadcast_shapes(*(key[at].shape for at in arrays)))
    order = (*range(before, before + depth), *range(before), *range(before + depth, places.ndim))
    flat = out.reshape(-1)
    for place, value, may in zip(
        places.transpose(order).ravel(),
        source.transpose(order).ravel(),
        allowed.transpose(order).ravel(),
        strict=True,
    ):
        if may:
            flat[place] = flat[place] + value if accumulate else value
    return out


def _bounds(
    shapes: Sequence[_Shape], options: Mapping[str, Any], last: int = 0
) -> Mapping[int, _Shape]:
    """Of each index the axis that it is for."""
    if options.get("mode", "clip") != "clip":
        return {}
    return {at: (shapes[0][at - 1],) for at in range(1, len(shapes) - last) if shapes[at]}


def _rows_of(shape: _Shape) -> Sequence[_Shape]:
    whole = shape or (1,)
    return [whole, (3,), *(((2, 1),) if len(whole) > 1 else ())]


def _with_source(shape: _Shape) -> Sequence[Any]:
    whole = shape or (1,)
    return [whole, (3,), *[None] * 7, (3, *whole[1:])]


_ALL: Any = {"category": "movement", "dtypes": ALL}

_ROWS = (
    row("index", f"x {_INDICES}", plans.index, "x[index0, index1, ...] as of NumPy's arrays; one "
        "that is left out is all of its axis", _index, _rows_of, "advanced_index",
        options={"mode": "clip"}, bounds=_bounds, apart=_APART, **_ALL),
    row("index_put", f"x {_INDICES} index8?", plans.index_put, "x with x[index0, index1, ...] = "
        "the last argument, or += with accumulate, one after the other", _index_put, _with_source,
        options={"accumulate": False}, tolerance=(512, 512), bounds=partial(_bounds, last=1),
        apart=_APART, **_ALL),
)  # fmt: skip

ROWS: tuple[KernelSpec, ...] = moving(_ROWS, last=("index_put",))
