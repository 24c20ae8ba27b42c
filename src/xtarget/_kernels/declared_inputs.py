"""The arguments of a call of a kernel that `@xtarget.kernel` describes: what they are, and whether
they fit what its author says of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from .._values.authoring import REQUIRED, ArrayRule
from .._values.errors import ArgumentError
from .._values.float8 import first_cast
from .._values.types import DTYPES, DtypeConstant
from ..spec import ABSENT, ArrayType, Call
from .checks import is_constant
from .contexts import Context, Dtype, Questions, dtype_of, formula
from .declarations import Declaration
from .dtype_words import GROUPS

__all__ = ["Inputs"]

#: How the dtypes begin that a number annotated so may have; floats take whole numbers too.
_FITTING: Final = {int: ("int", "uint", "bool"), bool: ("bool",), float: ("",)}
_KIND_WORDS: Final = {int: "a whole number", bool: "True or False", float: "a number"}


def _plain(value: Any) -> Any:
    """A number of NumPy as Python's."""
    import numpy as np

    return value.item() if isinstance(value, np.generic) else value


def _seen(array: ArrayType) -> ArrayType:
    """An array as rules see it: `c.x.dtype == torch.float16`."""
    return replace(array, dtype=Dtype(array.dtype))


class Inputs:
    """The arguments of one call.

    Attributes:
        given: names of the arrays and numbers that were given.
        arrays: by name; None: it was left out.
        flags: as rules see them: element types by their names.
        dtypes: the flags that are element types.
        context: what rules are asked with.
        ask: asks them.
    """

    def __init__(self, declaration: Declaration, call: Call) -> None:
        self._d, self._call = declaration, call
        self.given = {
            name: arg
            for name, arg in zip(declaration.order, call.args, strict=False)
            if arg is not ABSENT
        }
        arrays: dict[str, ArrayType | None] = {}
        for index, name in enumerate(declaration.order):
            if name in declaration.arrays:
                absent = name not in self.given
                if absent and not declaration.arrays[name].optional:
                    raise ArgumentError(
                        f"{declaration.name}: {name} was left out, and the kernel needs it. Give "
                        "an array."
                    )
                arrays[name] = None if absent else _seen(call.array(index))
        self.arrays = arrays
        for name, kind in declaration.kinds.items():
            self._check_kind(name, kind)
        plain = {n: v for n, v in declaration.constants.items() if not callable(v)}
        self.dtypes: set[str] = set()
        self.flags = {name: self._flag(name) for name in declaration.flags}
        known = {**arrays, **self.flags, "vendor": call.vendor}
        known.update(compute_units=call.compute_units, arch=call.arch)
        unknown = {
            name: f"{name} is a number of the caller's, which may differ in each call. A flag "
            "(tl.constexpr) is known before; one of flags= that is no parameter of the function, "
            "too, and compiles nothing anew"
            for name in declaration.scalars
        }
        self.context = Context(known, unknown)
        self.ask = Questions(declaration.name, self.context, {**self.flags, **plain})
        self._later: list[tuple[str, int, Any]] = []

    def _check_kind(self, name: str, kind: type) -> None:
        """Refuse a number that is not what its annotation says."""
        given = getattr(self.given.get(name), "dtype", None)
        fits = _FITTING[kind]
        if given is not None and not given.startswith(fits):
            raise ArgumentError(
                f"{self._d.name}: {name} is a number of dtype {given}, and the kernel says "
                f"{name}: {kind.__name__}. Give {_KIND_WORDS[kind]}."
            )

    def _flag(self, name: str) -> Any:
        """A flag as rules see it: element types by their names."""
        given, default = _plain(self._call.options[name]), self._d.flags[name]
        if given is REQUIRED:
            raise ArgumentError(
                f"{self._d.name} needs {name}=...: it has no default. Give it by keyword."
            )
        if isinstance(default, DtypeConstant) or not is_constant(given):
            dtype = given.name if isinstance(given, DtypeConstant) else dtype_of(given)
            if dtype is None:
                what = "a dtype" if isinstance(default, DtypeConstant) else "a constant"
                way = ""
                if hasattr(given, "arg_names") or callable(given):
                    what = f"{what}: a function is none"
                    way = ' Let a word say which function is meant (ACTIVATION="relu").'
                raise ArgumentError(f"{self._d.name}: {name}={given!r:.80} is not {what}.{way}")
            self.dtypes.add(name)
            return Dtype(dtype)
        return given

    def bind_lengths(self) -> None:
        """Give names of lengths their values, and check all arrays."""
        d, context = self._d, self.context.__dict__
        later: list[tuple[str, int, Any]] = []
        dtypes: dict[str, tuple[str, str]] = {}
        for name, array in self.arrays.items():
            rule = d.arrays[name]
            if array is None:
                continue
            self._check_dtype(name, rule, array.dtype, dtypes)
            for axis, dim in self._axes(name, rule, array):
                length = array.shape[axis]
                if not isinstance(dim, str) or dim not in d.dims:
                    later.append((name, axis, dim))
                elif dim not in context:
                    context[dim] = length
                elif length != context[dim]:
                    raise self._other_length(
                        name, axis, dim, context[dim], f" in {self._said_by(dim)}"
                    )
        for name, (dtype, _) in dtypes.items():
            context.setdefault(name, dtype)
        self._later = later

    def check_formulas(self) -> None:
        for name, axis, dim in self._later:
            array = self.arrays[name]
            assert array is not None
            part = f"dimension {axis} of {name!r}"
            wanted = dim if type(dim) is int else self.ask.size(part, formula(part, dim))
            if array.shape[axis] != wanted:
                raise self._other_length(name, axis, str(dim), wanted, "")

    def _said_by(self, dim: str) -> str:
        said = [n for n, rule in self._d.arrays.items() if dim in (rule.dims or ())]
        return next((n for n in said if self.arrays[n] is not None), self._d.dims[dim])

    def _other_length(
        self, name: str, axis: int, dim: str, wanted: Any, where: str
    ) -> ArgumentError:
        array = self.arrays[name]
        assert array is not None
        what = f"{int(wanted)}" if dim == str(wanted) else f"{dim} = {int(wanted)}{where}"
        return ArgumentError(
            f"{self._d.name}: {name} has shape {tuple(map(int, array.shape))}, whose dimension "
            f"{axis} has to be {what}. Give arrays that fit together."
        )

    def _axes(self, name: str, rule: ArrayRule, array: ArrayType) -> Iterator[tuple[int, Any]]:
        """The dimensions of an array with what is said of each."""
        if rule.dims is None:
            return
        before = rule.dims.index(...) if ... in rule.dims else len(rule.dims)
        after = len(rule.dims) - before - 1 if ... in rule.dims else 0
        least = before + after
        if array.ndim < least or (... not in rule.dims and array.ndim != least):
            raise ArgumentError(
                f"{self._d.name}: {name} has shape {tuple(map(int, array.shape))}, and it takes "
                f"{', '.join('...' if d is ... else str(d) for d in rule.dims)}: {least} "
                f"dimension{'s' if least != 1 else ''}{' or more' if ... in rule.dims else ''}."
            )
        yield from enumerate(rule.dims[:before])
        for place in range(after):
            yield array.ndim - after + place, rule.dims[before + 1 + place]

    def _check_dtype(
        self, name: str, rule: ArrayRule, dtype: str, known: dict[str, tuple[str, str]]
    ) -> None:
        words = [word.strip() for word in rule.dtype.split("|")]
        allowed = frozenset().union(*(GROUPS.get(w, frozenset({w})) for w in words))
        if dtype in allowed:
            return
        (word, *more) = words
        if more or word in DTYPES or word in GROUPS:
            wanted = ", ".join(w for w in words)
        else:
            other = self.arrays.get(word)
            if isinstance(other, ArrayType):
                wanted = f"{other.dtype} as {word}"
                fits = dtype == other.dtype
            elif word in self.flags:
                wanted, fits = f"{self.flags[word]} ({word})", dtype == self.flags[word]
            else:
                first, by = known.setdefault(word, (dtype, name))
                wanted, fits = f"{first} as {by} ({word})", dtype == first
            if fits:
                return
        raise ArgumentError(
            f"{self._d.name} does not take {dtype} ({name}); it takes {wanted}. {first_cast(dtype)}"
        )
