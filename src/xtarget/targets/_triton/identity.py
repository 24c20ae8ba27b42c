"""Read from the loaded objects what a compiled function is made from: the source texts of the
function and of all functions that it calls, and the values of the globals, closure cells,
attributes and defaults that they read.

Triton's own `cache_key` leaves out attributes (`mod.SIZE`), globals that are not `constexpr`,
values of defaults, and functions that somebody has replaced in Triton. Here a value that has no
text of its own makes the whole unidentified: what is made from it is not kept.

Nothing here imports Triton. Triton's own objects go by their names: what they are is part of the
tool chain (`toolchain`).
"""

from __future__ import annotations

import builtins
import hashlib
import inspect
import os
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..._values.conditions import all_of
from .code_names import code_digest, names_imported, names_of_code, names_of_source
from .value_kinds import (
    DECORATORS,
    is_data,
    is_holder,
    is_in_triton,
    is_jit,
    is_pure,
    is_tritons,
    may_change,
    root_of,
)
from .value_texts import IMPURE, Texts, Unidentified

__all__ = ["Manifest", "Unidentified", "manifest_of", "text_of_value"]

_ABSENT: Any = object()
_SHOWN = 200  # characters
#: Attributes of classes that say nothing of what the class does.
_NOISE = frozenset(
    (
        *("__abstractmethods__", "__annotations__", "__dict__", "__doc__", "__firstlineno__"),
        *("__hash__", "__match_args__", "__module__", "__orig_bases__", "__parameters__"),
        *("__qualname__", "__slots__", "__static_attributes__", "__weakref__", "_abc_impl"),
    )
)


@dataclass(slots=True)
class Manifest:
    """The sources and values that a function is made from.

    Attributes:
        parts: (label, text) in the order in which they are reached.
        places: file and line of each function, for binaries that contain them.
        unidentified: why nothing made from this may be kept; empty where all has a text.
    """

    parts: list[tuple[str, str]] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    unidentified: str = ""
    _guards: list[tuple[Any, str, Any]] = field(default_factory=list)
    _mutable: list[tuple[Any, str]] = field(default_factory=list)
    _asked: list[tuple[Any, str, str | None]] = field(default_factory=list)

    @property
    def digest(self) -> str:
        """sha256 (hex) of the parts."""
        total = hashlib.sha256()
        for part in self.parts:
            for text in part:
                data = text.encode("utf-8", "surrogatepass")
                total.update(len(data).to_bytes(8, "little") + data)
        return total.hexdigest()

    def shown(self) -> tuple[tuple[str, str], ...]:
        """The parts as they are written down: short texts as they are, others by their digests."""
        return tuple(
            (label, text)
            if len(text) <= _SHOWN and "\n" not in text
            else (label, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest())
            for label, text in self.parts
        )

    def holds(self) -> Callable[[], bool]:
        """A function that tells whether every name still leads to the same object. It costs tens
        of nanoseconds for each name, so that it can be asked at every launch.
        """
        unique = {(id(holder), name): (holder, name, value) for holder, name, value in self._guards}
        names: dict[str, Any] = {}
        checks = []
        for index, (holder, name, value) in enumerate(unique.values()):
            if isinstance(value, types.ModuleType):
                continue
            names[f"h{index}"], names[f"v{index}"] = holder, value
            if value is _ABSENT:
                checks.append(f"{name!r} not in h{index}")
            elif isinstance(holder, dict):
                checks.append(f"h{index}[{name!r}] is v{index}")
            else:  # a closure's cell, a function's defaults, a class
                checks.append(f"h{index}.{name} is v{index}")
        for index, (value, text) in enumerate(self._mutable):
            names[f"m{index}"], names[f"t{index}"] = value, text
            checks.append(f"text(m{index}) == t{index}")
        for index, (holder, name, answer) in enumerate(self._asked):
            names[f"o{index}"], names[f"a{index}"] = holder, answer
            checks.append(f"answer(o{index}, {name!r}) == a{index}")
        names["text"], names["answer"] = _text_or_nothing, _text_of_attribute
        return all_of(checks, names)


def manifest_of(function: Any) -> Manifest:
    """Return the manifest of a `@triton.jit` function as it is now."""
    walk = _Walk()
    try:
        walk.value(function, "")
        walk.finish()
    except Unidentified as why:
        walk.manifest.unidentified = str(why)
        # another object of this process must not be taken for it
        walk.manifest.parts.append(("unidentified", f"{why} {_token(function)}"))
    except RecursionError:
        walk.manifest.unidentified = "it refers to itself in too many steps"
        walk.manifest.parts.append(("unidentified", _token(function)))
    return walk.manifest


def text_of_value(value: Any, what: str) -> str:
    """A value's text, with those of all functions in it.

    Raises:
        Unidentified: it has none.
    """
    walk = _Walk(watched=False)
    text = walk.value(value, what)
    walk.finish()
    if not walk.manifest.parts:
        return text
    return f"{text} {walk.manifest.digest}"


def _text_or_nothing(value: Any) -> str | None:
    try:
        return text_of_value(value, "")
    except (Unidentified, RecursionError):
        return None


def _text_of_attribute(holder: Any, name: str) -> str | None:
    """The text of an attribute that is computed when it is read (a property, `__getattr__`)."""
    value = getattr(holder, name, _ABSENT)
    return None if value is _ABSENT else _text_or_nothing(value)


_tokens: dict[int, tuple[Any, str]] = {}


def _token(value: Any) -> str:
    """Return a token that no other object has in any process. Keeps the object alive."""
    return _tokens.setdefault(id(value), (value, os.urandom(16).hex()))[1]


# ------------------------------------------------------------------------------------- the walk


class _Walk(Texts):
    """Collects functions as it meets them; each is looked into once.

    Args:
        watched: note what may change in place, for `Manifest.holds`. A walk for the text of such a
            value notes nothing: a class may hold a list that leads back to the class.
    """

    def __init__(self, watched: bool = True) -> None:
        self.manifest = Manifest()
        self._watched = watched
        self._labels: dict[int, str] = {}
        self._todo: list[tuple[str, Any]] = []
        self._used: dict[str, int] = {}
        self._kept: list[Any] = []  # ids stay theirs while the walk goes on

    def finish(self) -> None:
        while self._todo:
            label, function = self._todo.pop(0)
            if is_jit(function):
                self._jit(label, function)
            elif isinstance(function, type):
                self._class(label, function)
            else:
                self._python(label, function)

    def part(self, label: str, text: str) -> None:
        self.manifest.parts.append((label, text))

    def _later(self, value: Any, kind: str) -> str:
        """A label for a function or class, which is looked into later."""
        known = self._labels.get(id(value))
        if known is None:
            name = getattr(value, "__name__", type(value).__name__)
            number = self._used[name] = self._used.get(name, 0) + 1
            known = self._labels[id(value)] = f"{kind} {name}" + (f"#{number}" * (number > 1))
            self._kept.append(value)
            self._todo.append((known, value))
        return known

    def _guard(self, holder: Any, name: str, value: Any) -> None:
        self.manifest._guards.append((holder, name, value))

    # -------------------------------------------------------------------------- looking inside

    def _jit(self, label: str, jit: Any) -> None:
        fn = jit.fn
        source = jit.src
        lines, params, chains = names_of_source(source)
        if "_src" in vars(jit):
            self._guard(vars(jit), "_src", vars(jit)["_src"])
        facts = [type(jit).__name__, getattr(jit, "noinline", None), getattr(jit, "debug", None)]
        self.part(label, f"{facts}\n{source}")
        if lines:
            self.manifest.places.append(f"{fn.__code__.co_filename}:{jit.starting_line_number}")
            self.part(f"{label}: line", str(jit.starting_line_number))
        named = getattr(jit, "_repr", None)
        if named is not None:
            self.part(f"{label}: repr", self.value(named, f"repr of {label}"))
        if type(jit).__name__ == "ConstexprFunction":
            self._python(label, fn)
            return
        self._parameters(label, jit.signature)
        for chain in chains:
            self._chain(label, fn, chain, params)

    def _python(self, label: str, fn: types.FunctionType) -> None:
        """A function that runs when a kernel is compiled."""
        for name in ("__code__", "__defaults__", "__kwdefaults__"):
            self._guard(fn, name, getattr(fn, name))
        for name, value in {"": fn.__defaults__, " by name": fn.__kwdefaults__}.items():
            if value is not None:
                self._found(f"{label}: defaults{name}", value, f"a default of {label}")
        given = {name: value for name, value in vars(fn).items() if name != "__wrapped__"}
        if given:
            self._found(f"{label}: attributes", given, f"an attribute of {label}")
        self.part(f"{label}: code", f"python {sys.version_info[:2]} {code_digest(fn.__code__)}")
        for name in names_imported(fn.__code__):
            if not is_tritons(name) and not is_pure(name):
                raise Unidentified(f"{label} imports {name} when it is called")
        for chain in names_of_code(fn.__code__):
            self._chain(label, fn, chain, frozenset())

    def _parameters(self, label: str, signature: inspect.Signature) -> None:
        for parameter in signature.parameters.values():
            if parameter.annotation is not inspect.Parameter.empty:
                self.part(f"{label}({parameter.name})", _annotation(parameter.annotation))
            if parameter.default is not inspect.Parameter.empty:
                where = f"the default of {parameter.name} of {label}"
                self._found(f"{label}({parameter.name}=)", parameter.default, where)

    def _class(self, label: str, cls: type) -> None:
        """Every member: which of them is used is known only when it is compiled."""
        for base in cls.__mro__:
            root = root_of(base.__module__)
            if is_pure(root) or root == "builtins":
                self.part(label, f"is a {base.__qualname__}")
                continue
            if is_tritons(base.__module__) and not getattr(base, "__triton_aggregate__", False):
                self.part(label, f"is a {base.__qualname__}")
                continue
            annotations = vars(base).get("__annotations__", {})
            self.part(label, f"{base.__name__} {_annotation(annotations)}")
            for name, member in list(vars(base).items()):
                if name in _NOISE or name.startswith(("__dataclass_", "_abc", "__pydantic")):
                    continue
                if isinstance(member, types.GetSetDescriptorType | types.MemberDescriptorType):
                    continue
                plain = isinstance(member, types.FunctionType)
                file = member.__code__.co_filename if plain else ""
                if file in DECORATORS or is_in_triton(file):
                    continue  # what a decorator or Triton's adds
                if self._watched and getattr(base, name, _ABSENT) is member:
                    self._guard(base, name, member)
                self._found(f"{label}.{name}", member, f"{label}.{name}")

    def _chain(self, label: str, fn: Any, chain: tuple[str, ...], params: frozenset[str]) -> None:
        """A name with its attributes, as written in a function."""
        name, *attributes = chain
        if name in params:
            return
        holder, value = _look_up(fn, name)
        if value is _ABSENT:
            if name in IMPURE and not params:  # Triton's functions can call none of them
                raise Unidentified(f"{label} calls {name}()")
            if hasattr(builtins, name) and isinstance(holder[0], dict):
                self._guard(*holder, _ABSENT)
            return  # a local name, or one of Python's own
        shown = f"{label}: {name}"
        self._guard(*holder, value)
        for attribute in attributes:
            if isinstance(value, types.ModuleType):
                inner = vars(value).get(attribute, _ABSENT)
                if inner is _ABSENT:
                    inner = getattr(value, attribute, _ABSENT)
                    if not is_tritons(value.__name__):
                        self._ask(value, attribute, inner, shown)
                elif not is_tritons(value.__name__):
                    self._guard(vars(value), attribute, inner)
                goes_on = isinstance(inner, types.ModuleType) or is_data(inner)
                if is_tritons(value.__name__) and not goes_on:
                    self.part(f"{shown}.{attribute}", f"{value.__name__}.{attribute}")
                    return
            elif is_holder(value):
                inner = getattr(value, attribute, _ABSENT)
                if inspect.getattr_static(value, attribute, _ABSENT) is inner is not _ABSENT:
                    self._guard(value, attribute, inner)
                else:
                    self._ask(value, attribute, inner, shown)
            else:
                break
            shown = f"{shown}.{attribute}"
            if inner is _ABSENT:
                self.part(shown, "there is none")
                return
            value = inner
        self._found(shown, value, shown.replace(": ", " reads "))

    def _ask(self, holder: Any, name: str, value: Any, shown: str) -> None:
        """Attributes that are computed are asked for again, and compared by their texts."""
        if self._watched and not isinstance(value, types.ModuleType):
            text = None if value is _ABSENT else text_of_value(value, shown)
            self.manifest._asked.append((holder, name, text))

    def _found(self, label: str, value: Any, what: str) -> None:
        text = self.value(value, what)
        self.part(label, text)
        if self._watched and may_change(value):
            self.manifest._mutable.append((value, text_of_value(value, what)))


def _look_up(fn: Any, name: str) -> tuple[tuple[Any, str], Any]:
    """Return what a name refers to in a function, and where that is held."""
    free = fn.__code__.co_freevars
    if name in free and fn.__closure__ is not None:
        cell = fn.__closure__[free.index(name)]
        try:
            return (cell, "cell_contents"), cell.cell_contents
        except ValueError:  # not assigned yet
            return (cell, "cell_contents"), _ABSENT
    return (fn.__globals__, name), fn.__globals__.get(name, _ABSENT)


def _annotation(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return str({name: _annotation(v) for name, v in value.items()})
    return getattr(value, "__qualname__", None) or str(value).partition(" at 0x")[0]
