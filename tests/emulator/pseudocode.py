"""Executes the pseudocode in which AMD's books say what an instruction does, for one lane.

tinygrad's wheel has that text for RDNA3, RDNA4 and CDNA. It is read by its grammar, with bits,
integers without width, and NumPy's floats of the width that the text names.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from pseudocode_functions import FUNCTIONS
from pseudocode_values import FLOATS, Bits, Unknown, integer, plain, raw, typed

__all__ = ["Bits", "Unknown", "execute"]

_TOKEN = re.compile(
    r"\s*(?:(\d+'-?(?:0x[0-9a-fA-F]+|\d+\.\d+|\d+)[UL]*|\d+'[A-Z])|(0x[0-9a-fA-F]+[UL]*)"
    r"|(\d+\.\d+F?|\d+F\b)|(\d+[UL]*)|([A-Za-z_]\w*)"
    r"|(\*\*|<<|>>|<=|>=|==|!=|<>|&&|\|\||\+=|-=|\*=|\|=|&=|[-+*/%&|^~!<>=?:.,;(){}\[\]]))"
)
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!=", "<>"), ("<", ">", "<=", ">="),
    ("<<", ">>"), ("+", "-"), ("*", "/", "%"),
)  # fmt: skip


def _tokens(text: str) -> list[str]:
    result, place = [], 0
    text = re.sub(r"//[^\n]*", "", text).rstrip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise Unknown(text[place : place + 20])
        result.append(match[0].strip())
        place = match.end()
    return result


class _Run:
    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        self.broken = False
        self.returned: Any = None

    # -------------------------------------------------------------------------------- statements

    def block(self, tokens: list[str], place: int, live: bool) -> int:
        """Statements up to one of the words that end a block."""
        while place < len(tokens) and tokens[place] not in ("else", "elsif", "endif", "endfor"):
            place = self.statement(tokens, place, live and not self.broken)
        return place

    def statement(self, tokens: list[str], place: int, live: bool) -> int:
        word = tokens[place]
        if word == ";":
            return place + 1
        if word == "if":
            return self.choice(tokens, place, live)
        if word == "declare":
            name, width = tokens[place + 1], tokens[place + 3].partition("'")[0]
            if live:
                self.names[name] = Bits(0, int(width))
            place += 4
            if place < len(tokens) and tokens[place] == "[":
                raise Unknown("an array")
            return place
        if word == "for":
            return self.loop(tokens, place, live)
        if word == "break":
            self.broken = self.broken or live
            return place + 1
        if word == "return":
            value, place = self.value(tokens, place + 1, live)
            if live:
                self.returned = value
            return place
        if word == "while" or "lambda" in tokens[place : place + 4]:
            if "lambda" in tokens[place : place + 3]:
                return self.function(tokens, place)
            raise Unknown(word)
        return self.assignment(tokens, place, live)

    def loop(self, tokens: list[str], place: int, live: bool) -> int:
        """for NAME in FIRST : LAST do ... endfor."""
        name = tokens[place + 1]
        first, place = self.value(tokens, place + 3, live)
        last, place = self.value(tokens, place + 1, live)
        body = place + 1
        end = self.block(tokens, body, False)
        if live:
            for i in range(integer(first), integer(last) + 1):
                self.names[name] = i
                self.block(tokens, body, True)
                if self.broken:
                    break
            self.broken = False
        return end + 1

    def choice(self, tokens: list[str], place: int, live: bool) -> int:
        done = False
        while True:
            word = tokens[place]
            if word == "endif":
                return place + 1
            take = live and not done
            if word in ("if", "elsif"):
                condition, place = self.value(tokens, place + 1, take)
                assert tokens[place] == "then"
                take = take and bool(plain(condition))
            place = self.block(tokens, place + 1, take)
            done = done or take

    def function(self, tokens: list[str], place: int) -> int:
        """NAME = lambda(a, b) ( expression )."""
        name, place = tokens[place], place + 4
        parameters = []
        while tokens[place] != ")":
            if tokens[place] != ",":
                parameters.append(tokens[place])
            place += 1
        start = place = place + 1
        depth = 0
        while True:
            depth += {"(": 1, ")": -1}.get(tokens[place], 0)
            place += 1
            if not depth:
                break
        body = [t for t in tokens[start + 1 : place - 1] if t != ";"]

        def call(*values: Any) -> Any:
            inner = _Run({**self.names, **dict(zip(parameters, values, strict=True))})
            if body[0] in ("if", "declare"):
                inner.block(body, 0, True)
                return inner.returned
            result, end = inner.value(body, 0, True)
            if end != len(body):
                raise Unknown("a function of statements")
            return result

        self.names[name] = call
        return place

    def assignment(self, tokens: list[str], place: int, live: bool) -> int:
        name = tokens[place]
        if not re.match(r"[A-Za-z_]", name):
            raise Unknown(name)
        place += 1
        slices: list[tuple[int, int]] = []
        kind = ""
        while tokens[place] in ("[", "."):
            if tokens[place] == ".":
                kind, place = tokens[place + 1], place + 2
                continue
            high, low, place = self.slice(tokens, place, live)
            if live:
                slices.append((integer(high), integer(low)))
        operator = tokens[place]
        if operator not in ("=", "+=", "-=", "*=", "|=", "&="):
            raise Unknown(operator)
        value, place = self.value(tokens, place + 1, live)
        if not live:
            return place
        if operator != "=":
            old = self.names[name]
            if slices:
                raise Unknown("a change of a slice")
            value = _binary(operator[0], typed(old, kind) if kind else old, value)
        if len(slices) > 1:
            raise Unknown("slices of slices")
        if slices:
            high, low = slices[0]
            bits = raw(typed(value, kind)) if kind and kind != "bf16" else raw(value)
            if kind in ("u64", "b64") and high == low:  # a lane of a mask
                bits = int(bool(plain(value)))
            mask = (1 << high - low + 1) - 1
            old = self.names.get(name, Bits(0, 32))
            if not isinstance(old, Bits):
                old = Bits(raw(old), 64)
            self.names[name] = Bits(
                old.value & ~(mask << low) | (bits & mask) << low, max(old.width, high + 1)
            )
        elif kind:
            made = typed(value, kind)
            width = int(re.sub(r"\D", "", kind))
            bits = raw(made) >> 16 if kind == "bf16" else raw(made)
            self.names[name] = Bits(bits & (1 << width) - 1, width)
        else:
            old = self.names.get(name)
            if isinstance(old, Bits) and isinstance(value, np.floating):
                value = Bits(raw(value), old.width)
            self.names[name] = value
        return place

    # ------------------------------------------------------------------------------- expressions

    def value(self, tokens: list[str], place: int, live: bool) -> tuple[Any, int]:
        condition, place = self.level(tokens, place, live, 0)
        if place < len(tokens) and tokens[place] == "?":
            take = live and bool(plain(condition))
            yes, place = self.value(tokens, place + 1, take)
            if tokens[place] != ":":
                raise Unknown("a choice")
            no, place = self.value(tokens, place + 1, live and not take)
            return (yes if take else no), place
        return condition, place

    def level(self, tokens: list[str], place: int, live: bool, level: int) -> tuple[Any, int]:
        if level == len(_LEVELS):
            return self.unary(tokens, place, live)
        left, place = self.level(tokens, place, live, level + 1)
        while place < len(tokens) and tokens[place] in _LEVELS[level]:
            operator = tokens[place]
            go = live
            if operator in ("&&", "||") and live:
                go = bool(plain(left)) == (operator == "&&")
            right, place = self.level(tokens, place + 1, go, level + 1)
            if live:
                left = _binary(operator, left, right) if go else left
        return left, place

    def unary(self, tokens: list[str], place: int, live: bool) -> tuple[Any, int]:
        word = tokens[place]
        if word in ("-", "+", "!", "~"):
            value, place = self.unary(tokens, place + 1, live)
            if not live:
                return None, place
            value = plain(value)
            return {
                "-": lambda: -value,
                "+": lambda: value,
                "!": lambda: int(not value),
                "~": lambda: ~int(value),
            }[word](), place
        value, place = self.postfix(tokens, place, live)
        if place < len(tokens) and tokens[place] == "**":
            power, place = self.unary(tokens, place + 1, live)
            if live:
                value = type(value)(math.ldexp(1.0, max(-3000, min(1023, integer(power)))))
                self.names["ldexp used"] = integer(power)
        return value, place

    def slice(self, tokens: list[str], place: int, live: bool) -> tuple[Any, Any, int]:
        """Both ends of `[high : low]`, or of `[bit]`."""
        high, place = self.value(tokens, place + 1, live)
        low = high
        if tokens[place] == ":":
            low, place = self.value(tokens, place + 1, live)
        return high, low, place + 1

    def postfix(self, tokens: list[str], place: int, live: bool) -> tuple[Any, int]:
        value, place = self.primary(tokens, place, live)
        while place < len(tokens) and tokens[place] in (".", "["):
            if tokens[place] == ".":
                kind, place = tokens[place + 1], place + 2
                if live:
                    if not re.fullmatch(r"(bf|[a-z])\d+", kind):
                        if isinstance(value, Mapping):
                            value = value[kind]
                            continue
                        raise Unknown(kind)
                    value = typed(value, kind)
                continue
            high, low, place = self.slice(tokens, place, live)
            if live:
                first, last = integer(high), integer(low)
                if first < last:
                    turned = f"{raw(value) >> first & (1 << last - first + 1) - 1:b}"
                    value = Bits(int(turned.zfill(last - first + 1)[::-1], 2), last - first + 1)
                    continue
                value = Bits(raw(value) >> last & (1 << first - last + 1) - 1, first - last + 1)
        return value, place

    def primary(self, tokens: list[str], place: int, live: bool) -> tuple[Any, int]:
        word = tokens[place]
        if word == "(":
            value, place = self.value(tokens, place + 1, live)
            if tokens[place] != ")":
                raise Unknown("parentheses")
            return value, place + 1
        if word == "{":
            value, place = self.value(tokens, place + 1, live)
            parts = [value]
            while tokens[place] == ",":
                value, place = self.value(tokens, place + 1, live)
                parts.append(value)
            if not live:
                return None, place + 1
            whole, total = 0, 0
            for part in parts:
                if not isinstance(part, Bits):
                    part = Bits(raw(part), 8 * part.itemsize if hasattr(part, "itemsize") else 32)
                whole = whole << part.width | part.value
                total += part.width
            return Bits(whole, total), place + 1
        if re.fullmatch(r"\d+'[A-Z]", word):
            width, _, kind = word.partition("'")
            value, place = self.value(tokens, place + 2, live)
            if not live:
                return None, place + 1
            if kind == "F" and isinstance(value, Bits):
                return typed(value, "f" + width), place + 1
            value = plain(value)
            if kind != "F" and isinstance(value, np.floating) and not np.isfinite(value):
                raise Unknown("an integer of no number")
            if kind == "F" and isinstance(value, int) and tokens[place - 1].startswith("0x"):
                return typed(Bits(value, int(width)), "f" + width), place + 1
            return typed(value, {"F": "f", "U": "u", "I": "i", "B": "b"}[kind] + width), place + 1
        if "'" in word:
            width, _, text = word.partition("'")
            if "." in text:
                return FLOATS[int(width)](float(text)), place + 1
            number = int(text.rstrip("UL"), 0)
            return Bits(number & (1 << int(width)) - 1, int(width)), place + 1
        if re.match(r"\d", word):
            if word.startswith("0x"):
                return int(word.rstrip("UL"), 16), place + 1
            if word.endswith("F"):
                return np.float32(word[:-1]), place + 1
            if "." in word:
                return np.float64(word), place + 1
            return int(word.rstrip("UL")), place + 1
        if not re.match(r"[A-Za-z_]", word):
            raise Unknown(word)
        if place + 1 < len(tokens) and tokens[place + 1] == "(":
            values, place = [], place + 2
            while tokens[place] != ")":
                if tokens[place] == ",":
                    place += 1
                value, place = self.value(tokens, place, live)
                values.append(value)
            return (self.call(word, values) if live else None), place + 1
        if word in ("INF", "NAN"):
            return np.float64(word.lower()), place + 1
        if word == "PI":
            return np.float64(np.pi), place + 1
        if not live:
            return None, place + 1
        if word not in self.names:
            raise Unknown(word)
        return self.names[word], place + 1

    def call(self, name: str, values: list[Any]) -> Any:
        found: Callable[..., Any] | None = self.names.get(name) or FUNCTIONS.get(name)
        if found is None and (
            match := re.fullmatch(r"v_(min|max)(imum)?(3?)(_num)?_[fiu]\d+", name)
        ):
            numbers = [plain(v) for v in values]
            if match[2] and any(v != v for v in numbers):
                return sum(numbers)
            pick = {"min": min, "max": max}[match[1]]
            numbers = [v for v in numbers if v == v] or numbers
            return pick(numbers, key=lambda v: (v, not np.signbit(v)))  # -0 < +0
        if found is None:
            raise Unknown(name + "()")
        return found(*values)


def _binary(operator: str, left: Any, right: Any) -> Any:
    a, b = plain(left), plain(right)
    if isinstance(a, np.floating) != isinstance(b, np.floating) and operator in "+-*/":
        kind = type(a if isinstance(a, np.floating) else b)
        a, b = kind(a), kind(b)
    if operator == "<>":  # neither equal nor unordered
        return int(a < b or a > b)
    if operator in ("<<", ">>"):
        a, b = int(a), int(b)
        return a << b if operator == "<<" else a >> b
    if operator in ("|", "&", "^"):
        a, b = integer(left) if not isinstance(a, np.floating) else raw(a), integer(b)
    return {
        "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b,
        "/": lambda: a / b if isinstance(a, np.floating) else a // b,
        "%": lambda: a % b, "|": lambda: a | b, "&": lambda: a & b, "^": lambda: a ^ b,
        "==": lambda: int(a == b), "!=": lambda: int(a != b), "<": lambda: int(a < b),
        ">": lambda: int(a > b), "<=": lambda: int(a <= b), ">=": lambda: int(a >= b),
        "&&": lambda: int(bool(a) and bool(b)), "||": lambda: int(bool(a) or bool(b)),
    }[operator]()  # fmt: skip


def execute(text: str, names: Mapping[str, Any]) -> dict[str, Any]:
    """Names and their values after the text, D0 among them.

    Raises:
        Unknown: the text has something that this does not read.
    """
    run = _Run(dict(names))
    tokens = _tokens(text)
    try:
        with np.errstate(all="ignore"):
            end = run.block(tokens, 0, True)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise Unknown(f"{type(error).__name__}: {error}") from error
    if end != len(tokens):
        raise Unknown("the end")
    return run.names
