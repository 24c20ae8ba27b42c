"""Call records: how calls of a kernel are made without Python, and the index that leads to them.

A call record has the forms in which a kernel of one dtype can be called (libraries, dtypes, guards
on sizes), and for each of them an integer program and launches. docs/bundle-format.md describes
every byte; `src/libxtarget` reads them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from .._values.programs import Flat
from .._values.types import DTYPES
from .._values.value_classes import value_class
from .manifest import MOST_DICTIONARY, MOST_RECORD, MOST_TARGETS, Mark

__all__ = [
    "INDEX_VERSION",
    "Binary",
    "BinaryParameter",
    "CallRecord",
    "Form",
    "FormArgument",
    "FormLaunch",
    "FormOutput",
    "Function",
    "LaunchParameter",
    "index_of",
    "read_index",
    "read_table",
    "table_of",
]

INDEX_VERSION: Final = 1
#: Of a parameter: memory, passed as a pointer, assumed to be a multiple of 16, hidden.
_MEMORY, _POINTER, _ALIGNED, _HIDDEN = 1, 2, 4, 8
#: Of a kernel: `out` may be an input of the same layout. Of an input: it is written to, and it may
#: be left out.
_ELEMENTWISE, _UPDATED, _OPTIONAL = 1, 1, 2
_CODES: Final = {name: code for code, name in enumerate(DTYPES)}
_TRITON: Final = {dtype.triton: code for code, dtype in enumerate(DTYPES.values())}


@value_class(frozen=True, slots=True)
class BinaryParameter:
    """A parameter of a binary's entry.

    Attributes:
        slot: the parameter of the launch that it takes; -1: it is hidden, and gets null.
        pointer: the entry takes a pointer, not a number.
    """

    type: str
    slot: int
    aligned: bool
    pointer: bool


@value_class(frozen=True, slots=True)
class Binary:
    """A variant of a function, as a launch takes it."""

    entry: str
    threads: int
    shared_bytes: int
    specific: bool
    parameters: tuple[BinaryParameter, ...]
    binary: bytes
    portable: bytes | None = None
    portable_arch: str = ""


@value_class(frozen=True, slots=True)
class Function:
    """A class of specializations, with its variants.

    Attributes:
        signature: lines for callers with a grid of their own, each after a newline: warps and
            stages; name and type of each slot; constants. Empty: not said.
    """

    source: str
    slots: int
    binaries: tuple[Binary, ...]
    signature: str = ""


@value_class(frozen=True, slots=True)
class FormArgument:
    """An argument of a call; its kind is `array`, `scalar` or `absent`."""

    kind: str
    dtype: str = "bool"
    ndim: int = 0
    contiguous: bool = True


@value_class(frozen=True, slots=True)
class FormOutput:
    """A result.

    Attributes:
        given: its sizes and strides are symbols of the program; else the program gives them.
        fill: what each element of it is before the launches.
    """

    dtype: str
    ndim: int
    given: bool
    fill: bytes | None


@value_class(frozen=True, slots=True)
class LaunchParameter:
    """`value`: of the call, at that place; `size`: the program's next result; `fixed`: the bits."""

    kind: str
    number: int = 0


@value_class(frozen=True, slots=True)
class FormLaunch:
    function: int
    parameters: tuple[LaunchParameter, ...]


@value_class(frozen=True, slots=True)
class Form:
    """Calls that one plan serves.

    Attributes:
        options: all of them, as text, by name.
        program: of the symbols (compute units, sizes, strides), its results in the order in which
            outputs, temporaries and launches need them.
        temporaries: what each element of them is before the launches.
    """

    options: tuple[tuple[str, str], ...]
    arguments: tuple[FormArgument, ...]
    outputs: tuple[FormOutput, ...]
    program: Flat
    temporaries: tuple[bytes | None, ...]
    launches: tuple[FormLaunch, ...]


@value_class(frozen=True, slots=True)
class CallRecord:
    """All calls of one kernel and dtype.

    Attributes:
        inputs: (name, written to, may be left out).
        defaults: of the options, as text.
    """

    kernel: str
    dtype: str
    elementwise: bool
    inputs: tuple[tuple[str, bool, bool], ...]
    defaults: tuple[tuple[str, str], ...]
    functions: tuple[Function, ...]
    forms: tuple[Form, ...]

    def encode(self, mark_of: Callable[[bytes], Mark]) -> bytes:
        """Args:
        mark_of: where the section has a binary.
        """
        made = _Writer()
        made.text(self.kernel)
        made.text(self.dtype)
        made.number("B", _ELEMENTWISE * self.elementwise)
        made.number("H", len(self.inputs))
        for name, updated, optional in self.inputs:
            made.text(name)
            made.number("B", _UPDATED * updated | _OPTIONAL * optional)
        made.pairs(self.defaults)
        made.number("H", len(self.functions))
        for function in self.functions:
            made.text(function.source + function.signature)
            made.number("H", function.slots)
            made.number("H", len(function.binaries))
            for binary in function.binaries:
                _binary(made, binary, mark_of)
        made.number("H", len(self.forms))
        for form in self.forms:
            _form(made, form)
        return made.content()


def _binary(made: _Writer, binary: Binary, mark_of: Callable[[bytes], Mark]) -> None:
    made.text(binary.entry)
    made.number("I", binary.threads)
    made.number("I", binary.shared_bytes)
    made.number("B", binary.specific)
    made.number("H", len(binary.parameters))
    for parameter in binary.parameters:
        memory = parameter.type.startswith("*")
        flags = _MEMORY * memory | _POINTER * parameter.pointer | _ALIGNED * parameter.aligned
        flags |= _HIDDEN * (parameter.slot < 0)
        made.number("B", 0 if memory else _TRITON[parameter.type])
        made.number("B", flags)
        made.number("H", max(parameter.slot, 0))
    made.mark(mark_of(binary.binary))
    made.text(binary.portable_arch)
    if binary.portable is not None:
        made.mark(mark_of(binary.portable))


def _form(made: _Writer, form: Form) -> None:
    made.pairs(form.options)
    made.number("B", len(form.arguments))
    for argument in form.arguments:
        made.number("B", ("absent", "scalar", "array").index(argument.kind))
        made.number("B", _CODES[argument.dtype])
        made.number("B", argument.ndim)
        made.number("B", argument.contiguous)
    made.number("B", len(form.outputs))
    for output in form.outputs:
        made.number("B", _CODES[output.dtype])
        made.number("B", output.ndim)
        made.number("B", output.given)
        made.blob("B", output.fill or b"")
    symbols, constants, steps, results = form.program
    made.numbers("H", (symbols, len(constants), len(steps), len(results)))
    made.numbers("q", constants)
    for step in steps:
        made.numbers("H", step)
    made.numbers("H", results)
    made.number("B", len(form.temporaries))
    for fill in form.temporaries:
        made.blob("B", fill or b"")
    made.number("B", len(form.launches))
    for launch in form.launches:
        made.number("H", launch.function)
        made.number("H", len(launch.parameters))
        for parameter in launch.parameters:
            made.number("B", ("value", "size", "fixed").index(parameter.kind))
            made.number("Q", parameter.number)


class _Writer:
    """Little-endian numbers, and text after its length."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def number(self, code: str, value: int) -> None:
        self._parts.append(struct.pack("<" + code, value))

    def numbers(self, code: str, values: Sequence[int]) -> None:
        self._parts.append(struct.pack(f"<{len(values)}{code}", *values))

    def blob(self, code: str, value: bytes) -> None:
        self.number(code, len(value))
        self._parts.append(value)

    def text(self, value: str) -> None:
        self.blob("H", value.encode())

    def pairs(self, values: Sequence[tuple[str, str]]) -> None:
        self.number("H", len(values))
        for name, value in values:
            self.text(name)
            self.text(value)

    def mark(self, mark: Mark) -> None:
        self._parts.append(_MARK.pack(mark.offset, mark.size, mark.raw, bytes.fromhex(mark.sha256)))

    def content(self) -> bytes:
        return b"".join(self._parts)


_MARK: Final = struct.Struct("<QII32s")


class _Reader:
    """The same back. What is cut is a ValueError."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def _taken(self, count: int) -> bytes:
        taken = self._content[self._at : self._at + count]
        if len(taken) != count:
            raise ValueError("it ends in the middle")
        self._at += count
        return taken

    def number(self, code: str) -> int:
        packed = struct.Struct("<" + code)
        (value,) = packed.unpack(self._taken(packed.size))
        return int(value)

    def text(self) -> str:
        return self._taken(self.number("H")).decode()

    def mark(self, most: int) -> Mark:
        offset, size, raw, digest = _MARK.unpack(self._taken(_MARK.size))
        place = {"offset": offset, "size": size, "raw": raw, "sha256": digest.hex()}
        return Mark.of(place, most)

    def end(self) -> None:
        if self._at != len(self._content):
            raise ValueError("bytes follow its end")


def index_of(listed: Sequence[Mapping[str, Any]]) -> bytes:
    """The index of a bundle, from what its manifest says of its targets; empty where no target has
    call records."""
    listed = [one for one in listed if "calls" in one]
    if not listed:
        return b""
    made = _Writer()
    made.numbers("I", (INDEX_VERSION, len(listed)))
    for one in listed:
        made.text(one["target"])
        made.numbers("Q", (one["offset"], one["size"]))
        made.mark(Mark.of(one["dictionary"]))
        made.mark(Mark.of(one["calls"]))
    return made.content()


def read_index(content: bytes) -> dict[str, tuple[int, int, Mark, Mark]]:
    """By target: offset and size of its section, dictionary, table of call records.

    Raises:
        ValueError: it is none.
    """
    found: dict[str, tuple[int, int, Mark, Mark]] = {}
    if not content:
        return found
    given = _Reader(content)
    if given.number("I") != INDEX_VERSION:
        raise ValueError("its index has another version")
    count = given.number("I")
    if count > MOST_TARGETS:
        raise ValueError(f"its index has more than {MOST_TARGETS} targets")
    for _ in range(count):
        target = given.text()
        place = given.number("Q"), given.number("Q")
        found[target] = (*place, given.mark(MOST_DICTIONARY), given.mark(MOST_RECORD))
    given.end()
    return found


def table_of(rows: Sequence[tuple[str, str, Mark]]) -> bytes:
    """The table of a target's call records: kernel, dtype, place, in this order."""
    made = _Writer()
    made.number("I", len(rows))
    for kernel, dtype, mark in sorted(rows, key=lambda row: row[:2]):
        made.text(kernel)
        made.text(dtype)
        made.mark(mark)
    return made.content()


def read_table(content: bytes) -> Iterator[tuple[str, str, Mark]]:
    """Raises ValueError: it is none."""
    given = _Reader(content)
    for _ in range(given.number("I")):
        yield given.text(), given.text(), given.mark(MOST_RECORD)
    given.end()
