"""Integers between limits: guards as ranges, and limits through operations."""

from __future__ import annotations

from collections.abc import Iterator

from .programs import Operand

__all__ = ["Bounds", "Made", "Range", "interval", "through"]

Bounds = tuple[int | None, int | None]
#: An operation and its operands.
Made = tuple[str, tuple[Operand, ...]]

#: Powers of two that limits are followed through.
_MOST_BITS = 128


class Range:
    """The values that the guards on one expression leave it.

    Attributes:
        given: its lower limit without any guard.
    """

    __slots__ = ("given", "high", "low", "never")

    def __init__(self, given: int | None = None) -> None:
        self.given = self.low = given
        self.high: int | None = None
        self.never: set[int] = set()

    @property
    def guarded(self) -> bool:
        return self.low != self.given or self.high is not None or bool(self.never)

    def holds(self, value: int) -> bool:
        return (
            (self.low is None or value >= self.low)
            and (self.high is None or value <= self.high)
            and value not in self.never
        )

    def narrow(self, low: int | None, high: int | None) -> None:
        if low is not None and (self.low is None or low > self.low):
            self.low = low
        if high is not None and (self.high is None or high < self.high):
            self.high = high
        for value in sorted(self.never):
            if value == self.low:
                self.low += 1
        for value in sorted(self.never, reverse=True):
            if value == self.high:
                self.high -= 1
        low, high = self.low, self.high
        self.never = {
            value
            for value in self.never
            if (low is None or value > low) and (high is None or value < high)
        }

    def checks(self, name: str) -> Iterator[tuple[str, Operand, Operand]]:
        if self.low is not None and self.low == self.high:
            yield "==", name, self.low
        else:
            if self.low is not None and self.low != self.given:
                yield "<=", self.low, name
            if self.high is not None:
                yield "<=", name, self.high
        for value in sorted(self.never):
            yield "!=", name, value

    def text(self, name: str) -> Iterator[str]:
        if self.low is not None and self.low == self.high:
            yield f"{name} == {self.low}"
        elif self.high is not None and self.low is not None and self.low != self.given:
            yield f"{self.low} <= {name} <= {self.high}"
        elif self.high is not None:
            yield f"{name} <= {self.high}"
        elif self.low is not None and self.low != self.given:
            yield f"{name} >= {self.low}"
        for value in sorted(self.never):
            yield f"{name} != {value}"


def interval(how: str, a: Bounds, b: Bounds = (None, None)) -> Bounds:
    """Between what a result is when its operands are within theirs; None where it has no limit."""
    (al, ah), (bl, bh) = a, b
    if how == "neg":
        return None if ah is None else -ah, None if al is None else -al
    if how == "add":
        return _sum(al, bl), _sum(ah, bh)
    if how == "sub":
        return _sum(al, None if bh is None else -bh), _sum(ah, None if bl is None else -bl)
    if how == "mod" and bl is not None and bl > 0:
        return 0, None if bh is None else bh - 1
    if how == "floordiv" and bl is not None and bl > 0:
        return _quotient(a, b)
    if how == "mul" and not (al is None or ah is None or bl is None or bh is None):
        products = (al * bl, al * bh, ah * bl, ah * bh)
        return min(products), max(products)
    if al is None or al < 0 or (how != "bits" and (bl is None or bl < 0)):
        return None, None
    if how == "bits":
        return al.bit_length(), None if ah is None else ah.bit_length()
    assert bl is not None
    if how == "mul":
        return al * bl, None
    if how == "lshift" and bl <= _MOST_BITS:
        if ah is None or bh is None or bh > _MOST_BITS:
            return al << bl, None
        return al << bl, ah << bh
    if how == "rshift":
        return 0 if bh is None else al >> bh, None if ah is None else ah >> bl
    return 0, None


def _quotient(a: Bounds, b: Bounds) -> Bounds:
    """Of `a // b` for positive b."""
    (al, ah), (bl, bh) = a, b
    assert bl is not None
    low = high = None
    if al is not None:
        low = al // bl if al < 0 else 0 if bh is None else al // bh
    if ah is not None:
        high = ah // bl if ah >= 0 else -1 if bh is None else ah // bh
    return low, high


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _up(a: int | None, b: int) -> int | None:
    return None if a is None else -(-a // b)


def through(
    made: Made, low: int | None, high: int | None, least: int | None
) -> tuple[Operand, int | None, int | None] | None:
    """Limits of an operand that say the same as limits of the result; None: there are none.

    Args:
        made: the operation and its operands.
        least: lower limit of its first operand.
    """
    how, operands = made
    x, c = operands[0], operands[-1]

    if how == "neg":
        return x, None if high is None else -high, None if low is None else -low
    if how == "sub" and type(x) is int:
        return c, None if high is None else x - high, None if low is None else x - low
    if how == "lshift" and x == 1:
        most = None if high is None or high < 1 else high.bit_length() - 1
        return c, None if low is None or low <= 1 else (low - 1).bit_length(), most
    wide = max(low or 0, high or 0) > _MOST_BITS
    if how == "bits" and least is not None and least >= 0 and not wide:
        most = None if high is None else (1 << high) - 1
        return x, None if low is None or low <= 0 else 1 << (low - 1), most
    if type(c) is not int:
        return None
    if how == "add":
        return x, _sum(low, -c), _sum(high, -c)
    if how == "sub":
        return x, _sum(low, c), _sum(high, c)
    if how == "mul" and c > 0:
        return x, _up(low, c), None if high is None else high // c
    if (how == "floordiv" and c > 0) or (how == "rshift" and 0 < c <= _MOST_BITS):
        step = c if how == "floordiv" else 1 << c
        return (
            x,
            None if low is None else low * step,
            None if high is None else high * step + step - 1,
        )
    return None
