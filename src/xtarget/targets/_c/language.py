"""The meaning of Triton's language and of Python's names in a kernel that is translated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

from ..._values.value_classes import value_class
from .operations import Operations
from .values import BOOL, INT32, DType, RefusedError, Value, common, dtype_of, pointer_to

__all__ = ["Builtin", "Member", "Translation", "member", "named"]


class Translation(Protocol):
    """The part of a kernel that functions of the language need when it calls them."""

    @property
    def emit(self) -> Operations: ...

    @property
    def place(self) -> str:
        """File and line of the statement that is translated."""
        ...

    def lanes(self, start: int, end: int) -> Value:
        """The numbers of a block's lanes."""
        ...

    def full(self, shape: Any, value: Any, dtype: DType) -> Value:
        """A block of one value."""
        ...

    def reduce(self, values: Sequence[Any], axis: Any, combine: Any) -> tuple[Value, ...]:
        """Combine the elements along an axis by a function."""
        ...

    def scan(
        self, values: Sequence[Any], axis: Any, combine: Any, *, reverse: bool
    ) -> tuple[Value, ...]:
        """Combine each element along an axis with all before it."""
        ...


@value_class(frozen=True, slots=True)
class Builtin:
    """A function that the language has."""

    name: str

    def call(self, to: Translation, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        known = _FUNCTIONS.get(self.name)
        if known is not None:
            return known(to, *args, **keywords)
        if self.name.startswith("libdevice.") and not keywords:
            return _libdevice(to, self.name.partition(".")[2], args)
        raise RefusedError(f"the function {self.name}")


@value_class(frozen=True, slots=True)
class Member:
    """A method of a value."""

    owner: Value
    name: str

    def call(self, to: Translation, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        if self.name == "to":
            return _to(to, self.owner, *args, **keywords)
        raise RefusedError(f"the method {self.name}")


@value_class(frozen=True, slots=True)
class Kind:
    """A Python type that `isinstance` is asked about, or an enumeration of the language."""

    name: str


@lru_cache(maxsize=1024)
def named(library: str, name: str) -> Any:
    """The meaning of a name of Triton's language, of libdevice or of Python.

    Raises:
        RefusedError: it is not translated.
    """
    if library == "libdevice":
        return Builtin(f"libdevice.{name}")
    if library == "python":
        if name in _PYTHON:
            return Builtin(name)
    elif library in ("tl", "triton"):
        if name in ("tuple", "PropagateNan"):
            return Kind(name)
        for own in (f"tl.{name}", name):
            if own in _LANGUAGE:
                return Builtin(own)
        try:
            return dtype_of(name)
        except RefusedError:
            pass
    raise RefusedError(f"the name {name}")


def member(owner: Any, name: str) -> Any:
    """An attribute of a value or of a type."""
    if isinstance(owner, DType) and not name.startswith("_"):
        return getattr(owner, name)
    if isinstance(owner, Value):
        if name in ("dtype", "type"):
            return owner.dtype
        if name == "shape":
            return owner.dims
        if name == "to":
            return Member(owner, name)
    if owner == Kind("PropagateNan"):
        return name
    raise RefusedError(f"the attribute {name}")


# ---------------------------------------------------------------------------------------- functions


def _to(to: Translation, value: Value, dtype: Any, *, bitcast: bool = False) -> Value:
    if not isinstance(dtype, DType):
        raise RefusedError("a conversion to no type")
    return to.emit.cast(value, dtype, bitcast=bitcast)


def _full(to: Translation, shape: Any, value: Any, dtype: DType) -> Value:
    return to.full(shape, value, dtype)


def _broadcast_to(to: Translation, value: Any, *shape: Any) -> Value:
    lengths = shape[0] if isinstance(shape[0], tuple) else shape
    one = to.emit.tensor(value)
    return to.full(lengths, one, one.dtype)


def _zeros_like(to: Translation, value: Value) -> Value:
    return to.full(value.dims, 0, value.dtype)


def _larger(to: Translation, x: Any, y: Any, *, propagate_nan: str = "NONE") -> Any:
    """`tl.maximum`: the other one, if one is nan; or (ALL) nan."""
    return _chosen(to, ">", x, y, propagate_nan)


def _smaller(to: Translation, x: Any, y: Any, *, propagate_nan: str = "NONE") -> Any:
    return _chosen(to, "<", x, y, propagate_nan)


def _chosen(to: Translation, sign: str, x: Any, y: Any, propagate_nan: str) -> Any:
    if not isinstance(x, Value) and not isinstance(y, Value):
        return max(x, y) if sign == ">" else min(x, y)
    emit = to.emit
    first = emit.binary(sign, x, y)
    if common(x, y).is_floating():
        sure = x if propagate_nan == "ALL" else y
        first = emit.binary("|", first, emit.binary("!=", sure, sure))
    return emit.where(first, x, y)


def _added(to: Translation, x: Value, y: Value) -> Value:
    return to.emit.binary("+", x, y)


def _reduction(combine: Callable[[Translation, Any, Any], Any]) -> Callable[..., Value]:
    def made(to: Translation, value: Value, axis: Any = None, *, keep_dims: Any = False) -> Value:
        if keep_dims:
            raise RefusedError("a reduction that keeps the axis")
        value = _of_sums(to, value)
        (result,) = to.reduce((value,), axis, lambda x, y: combine(to, x, y))
        return result

    return made


def _of_sums(to: Translation, value: Value) -> Value:
    """A value in the type that sums of it have: short integers get 32 bits."""
    if value.dtype.is_int() and value.dtype.bits < 32:
        return to.emit.cast(value, dtype_of("uint32" if value.dtype.kind == "u" else "int32"))
    return value


def _cumsum(to: Translation, value: Value, axis: Any = 0, *, reverse: Any = False) -> Value:
    own = _of_sums(to, value)
    (result,) = to.scan((own,), axis, lambda x, y: _added(to, x, y), reverse=bool(reverse))
    return result


def _scan(to: Translation, values: Any, axis: Any, combine: Any, *, reverse: Any = False) -> Any:
    if isinstance(values, tuple):
        return to.scan(values, axis, combine, reverse=bool(reverse))
    return to.scan((values,), axis, combine, reverse=bool(reverse))[0]


def _umulhi(to: Translation, x: Any, y: Any) -> Value:
    """The upper half of a product of unsigned numbers."""
    emit, wide = to.emit, dtype_of("uint64")
    dtype = common(x, y)
    if dtype.bits != 64:
        product = emit.binary("*", emit.as_type(x, wide), emit.as_type(y, wide))
        return emit.cast(emit.binary(">>", product, dtype.bits), dtype)
    halves = []
    for one in (emit.as_type(x, wide), emit.as_type(y, wide)):
        halves += [emit.binary("&", one, 0xFFFFFFFF), emit.binary(">>", one, 32)]
    a, b, c, d = halves
    carried = emit.binary(
        "+", emit.binary("*", b, c), emit.binary(">>", emit.binary("*", a, c), 32)
    )
    rest = emit.binary("+", emit.binary("&", carried, 0xFFFFFFFF), emit.binary("*", a, d))
    top = emit.binary("+", emit.binary("*", b, d), emit.binary(">>", carried, 32))
    return emit.cast(emit.binary("+", top, emit.binary(">>", rest, 32)), dtype)


#: Philox 4x32: what counters are multiplied by, and what keys grow by.
_PHILOX = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)


def _philox(to: Translation, seed: Any, *counters: Any, n_rounds: int = 10) -> tuple[Value, ...]:
    """Source: J. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11, 3.3."""
    emit, word, wide = to.emit, dtype_of("uint32"), dtype_of("uint64")
    if any(emit.tensor(one).dtype.bits != 32 for one in counters):
        raise RefusedError("philox of counters that have not 32 bits")
    c = [emit.as_type(one, word) for one in counters]
    key = emit.as_type(seed, wide)
    k = [emit.cast(key, word), emit.cast(emit.binary(">>", key, 32), word)]
    (a, b), grown = _PHILOX
    for _ in range(n_rounds):
        first, third = (
            emit.binary("*", emit.cast(one, wide), by) for one, by in ((c[0], a), (c[2], b))
        )
        high = [emit.cast(emit.binary(">>", one, 32), word) for one in (third, first)]
        mixed = [
            emit.binary("^", emit.binary("^", h, o), x)
            for h, o, x in zip(high, c[1::2], k, strict=True)
        ]
        c = [mixed[0], emit.cast(third, word), mixed[1], emit.cast(first, word)]
        k = [emit.binary("+", one, by) for one, by in zip(k, grown, strict=True)]
    return tuple(c)


def _reduce(to: Translation, values: Any, axis: Any, combine: Any) -> Any:
    if isinstance(values, tuple):
        return to.reduce(values, axis, combine)
    return to.reduce((values,), axis, combine)[0]


def _load(
    to: Translation,
    address: Value,
    mask: Any = None,
    other: Any = None,
    *,
    cache_modifier: str = "",
    eviction_policy: str = "",
) -> Value:
    loaded = to.emit.load(address, _mask(to, mask), to.place)
    if other is None or mask is None:
        return loaded
    return to.emit.where(mask, loaded, to.emit.as_type(other, loaded.dtype))


def _store(
    to: Translation,
    address: Value,
    value: Any,
    mask: Any = None,
    *,
    cache_modifier: str = "",
    eviction_policy: str = "",
) -> None:
    to.emit.store(address, to.emit.tensor(value), _mask(to, mask), to.place)


def _mask(to: Translation, mask: Any) -> Value | None:
    return None if mask is None else to.emit.as_type(mask, BOOL)


def _abs(to: Translation, value: Value) -> Value:
    if value.dtype.is_floating():
        return to.emit.math("fabs", value)
    if value.dtype.is_int_signed():
        return to.emit.where(to.emit.binary("<", value, 0), to.emit.negative(value), value)
    return value


def _fma(to: Translation, x: Any, y: Any, z: Any) -> Value:
    return to.emit.math("fma", x, y, z)


def _precise(name: str) -> Callable[..., Value]:
    def made(to: Translation, *operands: Any) -> Value:
        return to.emit.math(name, *operands)

    return made


def _divided(to: Translation, x: Any, y: Any) -> Value:
    return to.emit.binary("/", x, y)


def _libdevice(to: Translation, name: str, args: Sequence[Any]) -> Value:
    if name == "ldexp":
        x, exponent = args
        return to.emit.scaled(x, to.emit.as_type(exponent, INT32))
    return to.emit.math(name, *args)


def _group(what: str) -> Callable[[Translation, int], Value]:
    def made(to: Translation, axis: int) -> Value:
        return to.emit.grid(what, axis)

    return made


def _is_instance(to: Translation, value: Any, kind: Any) -> bool:
    if kind != Kind("tuple"):
        raise RefusedError("isinstance of this")
    return isinstance(value, tuple)


def _ceiling_divided(to: Translation, x: Any, y: Any) -> Any:
    if isinstance(y, Value):
        return to.emit.binary("//", to.emit.binary("+", x, to.emit.binary("-", y, 1)), y)
    if isinstance(x, Value):
        return to.emit.binary("//", to.emit.binary("+", x, y - 1), y)
    return -(-x // y)


_MATH = ("exp", "exp2", "log", "log2", "sin", "cos", "floor", "ceil", "sqrt", "rsqrt", "erf")
_LANGUAGE: Mapping[str, Callable[..., Any]] = {
    "where": lambda to, condition, x, y: to.emit.where(condition, x, y),
    "abs": _abs,
    "broadcast_to": _broadcast_to,
    "zeros_like": _zeros_like,
    "zeros": lambda to, shape, dtype: to.full(shape, 0, dtype),
    "minimum": _smaller,
    "maximum": _larger,
    "sum": _reduction(_added),
    "tl.max": _reduction(_larger),  # Python has these names too
    "tl.min": _reduction(_smaller),
    "reduce": _reduce,
    "associative_scan": _scan,
    "cumsum": _cumsum,
    "philox": _philox,
    "umulhi": _umulhi,
    "full": _full,
    "fma": _fma,
    "broadcast": lambda to, x, y: (to.emit.tensor(x), to.emit.tensor(y)),
    "arange": lambda to, start, end: to.lanes(start, end),
    "program_id": _group("block"),
    "num_programs": _group("blocks"),
    "pointer_type": lambda to, element: pointer_to(element),
    "constexpr": lambda to, value: value,
    "static_range": lambda to, *limits: range(*limits),
    "load": _load,
    "store": _store,
    "div_rn": _divided,
    "sqrt_rn": _precise("sqrt"),
    "cdiv": _ceiling_divided,
    "static_assert": lambda to, condition, *text: None,
    **{name: _precise(name) for name in _MATH},
}
_PYTHON: Mapping[str, Callable[..., Any]] = {
    "len": lambda to, items: len(items),
    "range": lambda to, *limits: range(*limits),
    "float": lambda to, value: float(value),
    "int": lambda to, value: int(value),
    "min": lambda to, *items: min(*items),
    "max": lambda to, *items: max(*items),
    "isinstance": _is_instance,
}
_FUNCTIONS = {**_LANGUAGE, **_PYTHON}
