"""`config=` of a call: what the caller wants in the place of what a plan of a library would choose.

A plan asks which of several ways it takes (`_values.choosing`), and the numbers of a way have names
(`block`, `num_warps`). The caller gives some of them; the others are as they would be without.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from .._values.choosing import CONFIG, Chooser, Question
from .._values.errors import (
    ArgumentError,
    CompileError,
    LoadError,
    OutOfResourcesError,
    shortened,
)
from ..spec import Launch, Plan
from .tunings import note_asked

__all__ = ["AskedChoices", "as_text", "of_options", "told_of"]

#: What every launch has, also of a plan that does not ask for them.
_EVERYWHERE: Final = ("num_warps", "num_stages")
#: How the files of kernels begin whose layouts are made for a number of warps (Triton's Gluon).
_GLUON: Final = "hopper_"
#: The most warps of a block (1,024 threads of 32), and digits of any number.
_WARPS, _DIGITS = 32, 9
#: What numbers can bring about.
_OF_NUMBERS: Final = (CompileError, LoadError, OutOfResourcesError)


def as_text(kernel: str, given: Any) -> Any:
    """A mapping as text, by which calls are told apart (`block=256, num_warps=8`); None: it is
    empty. What is no mapping stays.

    Raises:
        ArgumentError: a name or a value is none that a choice has.
    """
    if not isinstance(given, Mapping):
        return given
    parts = []
    for name, value in sorted(given.items(), key=lambda item: str(item[0])):
        words = value if isinstance(value, tuple | list) else (value,)
        if not isinstance(name, str) or not all(map(_is_value, words)):
            raise ArgumentError(
                f"{kernel}: config= has {shortened(name)}: {shortened(value)}. Give numbers and "
                'words by name: config={"num_warps": 8}.'
            )
        parts.append(f"{name}={'x'.join(map(_plain, words))}")
    return ", ".join(parts) or None


def _is_value(value: Any) -> bool:
    if isinstance(value, str):
        return value.isprintable() and not {",", "="} & set(value)
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _plain(value: Any) -> str:
    return str(value) if isinstance(value, str | bool) else str(operator.index(value))


def of_options(kernel: str, own: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, str]:
    """The numbers that a call asks for, by name, as text; none where `config` is the kernel's own
    option.

    Args:
        own: the options that the kernel has.

    Raises:
        ArgumentError: it is not such text.
    """
    text = as_text(kernel, options.get(CONFIG))
    if CONFIG in own or text is None:
        return {}
    parts = [part.partition("=") for part in text.split(",")] if isinstance(text, str) else []
    found = {name.strip(): value.strip() for name, _, value in parts}
    if len(found) != len(parts) or not all(found) or not all(found.values()) or not found:
        raise ArgumentError(
            f"{kernel}: config={shortened(text)} is not known. Give numbers by name, for example "
            'config={"num_warps": 8}; `xtarget explain` shows the names that a call has.'
        )
    return found


@contextlib.contextmanager
def told_of(kernel: str, own: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[None]:
    """Within it, an error of what is made with the numbers that a call asks for says them first.

    Args:
        own, options: as of `of_options`.
    """
    try:
        yield
    except _OF_NUMBERS as error:
        wanted = of_options(kernel, own, options)
        if not wanted or type(error) not in _OF_NUMBERS:  # others say what else is missing
            raise
        shown = ", ".join(f"{name}={value}" for name, value in wanted.items())
        first, *others = str(error).splitlines()
        said = f"{first} {others[-1].strip()}" if others else first
        raise type(error)(
            f"{kernel} cannot be made with {shown}, which config= asks for ({said}). Give other "
            f"numbers, or leave config= out."
        ) from error


class AskedChoices:
    """Answers a plan's questions with what the caller asks for.

    Args:
        vendor: for whose device.
        wanted: numbers by name, as text.
        usual: answers what is not asked for.
    """

    def __init__(self, kernel: str, vendor: str, wanted: Mapping[str, str], usual: Chooser) -> None:
        self._kernel, self._vendor, self._wanted, self._usual = kernel, vendor, dict(wanted), usual
        self._left = set(wanted)
        self._offered: dict[str, Any] = {}

    def __call__(self, asked: Question) -> Any:
        found = self._usual(asked)
        choice = asked.default if found is None else found
        fields = choice._asdict() if hasattr(choice, "_asdict") else {}
        own = [name for name in fields if name in self._wanted]
        self._left -= set(own)
        self._offered.update(fields)
        if not own:
            return choice
        several = [asked.default, *asked.variants()]
        values = {name: self._value(name, fields[name], several) for name in own}
        wanted = choice._replace(**values)
        if wanted != asked.default and asked.holds is not None and not asked.holds(wanted):
            shown = ", ".join(f"{name}={self._wanted[name]}" for name in own)
            raise ArgumentError(
                f"{self._kernel}: config= asks for {shown}, which cannot serve this call. What can "
                f"is, for example, {asked.text(several[-1])}."
            )
        note_asked(wanted)
        return wanted

    def _value(self, name: str, usual: Any, several: Sequence[Any]) -> Any:
        """What was asked for, as the plan has it."""
        text = self._wanted[name]
        known = dict.fromkeys([getattr(one, name) for one in several])
        if text == str(usual):
            return usual
        same = [value for value in known if str(value) == text]
        if same:
            return same[0]
        if type(usual) is int and (len(known) > 1 or name in _EVERYWHERE):
            return self._number(name)
        can = " or ".join(map(str, known))
        raise ArgumentError(
            f"{self._kernel}: config= asks for {name}={text}. This call can have {can} there."
        )

    def _number(self, name: str) -> int:
        if name in _EVERYWHERE and self._vendor == "cpu":
            raise ArgumentError(
                f"{self._kernel}: config= asks for {name}, and a CPU computes a "
                "block in one thread. Leave it out here."
            )
        text = self._wanted[name]
        number = int(text) if text.isdecimal() and len(text) <= _DIGITS else 0
        if name == "num_warps" and (number & (number - 1) or number > _WARPS):
            number = 0
        if not number:
            can = "a whole number from 1 on"
            if name == "num_warps":
                can = f"a power of two from 1 to {_WARPS}"
            raise ArgumentError(f"{self._kernel}: config= asks for {name}={text}. Give {can}.")
        return number

    def applied(self, plan: Plan) -> Plan:
        """The plan with what its questions do not have: the warps and stages of its launches.

        Raises:
            ArgumentError: something that was asked for changes nothing.
        """
        numbers = [name for name in _EVERYWHERE if name in self._left]
        strange = sorted(self._left - set(numbers))
        names = dict.fromkeys([*self._offered, *_EVERYWHERE])
        if strange:
            raise ArgumentError(
                f"{self._kernel}: config= asks for {strange[0]}, which this call does not have. It "
                f"has {', '.join(names)}."
            )
        if not numbers:
            return plan
        given: dict[str, int] = {name: self._number(name) for name in numbers}
        launches = [self._launch(one, given) for one in plan.launches]
        return replace(plan, launches=tuple(launches))

    def _launch(self, launch: Launch, numbers: Mapping[str, int]) -> Launch:
        if launch.source.startswith(_GLUON):
            raise ArgumentError(
                f"{self._kernel}: config= asks for {next(iter(numbers))}, and {launch.source}, "
                "which serves this call, is made for the numbers that it has. Leave it out."
            )
        return replace(
            launch,
            num_warps=numbers.get("num_warps", launch.num_warps),
            num_stages=numbers.get("num_stages", launch.num_stages),
        )
