"""Calls that stand for all others of their kind, for building ahead of time.

What decides a specialization is which lengths and strides are multiples of 16, how many of them
there are once shapes were made simple (`layouts`), and the tile sizes that a plan takes from the
lengths. So lengths come as powers of two (multiples of 16 from 16 on) and as numbers just below
(no multiples), first alone in front, then everywhere; a length of 2**32 stands for 64-bit indices
(and rows as many as a grid takes), one of 2**26 for results that go past the caches.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from xtarget.spec import Example

from .plans import choices

__all__ = ["elementwise", "matmul", "reduction", "rows"]

_Ahead = Callable[[bool], Iterable[Example]]
_HUGE = 2**32
#: The most rows that a grid takes with a block for each, as a multiple of 16.
_MOST_ROWS = 2**31 - 16
#: Longer than any vendor's caches (`tuning.Flat.stream`), in elements of whatever size.
_STREAMED = 2**26
#: Longest axis whose own tile size is built; longer ones share theirs with it.
_LONGEST = 32768
#: An axis that every target walks in steps.
_WALKED = 4 * _LONGEST
#: Products of a matmul that are added in pieces (`tuning_matmul.folds`), where the operands are no
#: halves.
_SUMMED = 8192


def _powers(first: int, last: int) -> list[int]:
    return [1 << n for n in range(first.bit_length() - 1, last.bit_length())]


def elementwise(count: int, *options: dict[str, Any]) -> _Ahead:
    """Arrays alike, with numbers among them, or with a row or column that is repeated."""

    def ahead(full: bool) -> Iterator[Example]:
        for given in options or ({},):
            for n in (4096, 4095, _STREAMED, _STREAMED - 1, _HUGE, _HUGE - 1):
                yield Example(((n,),) * count, given)
                for place in range(count):
                    if count > 1:
                        yield Example((*((n,),) * place, None, *((n,),) * (count - 1 - place)))
            yield Example(((256, 512),) * count, given)  # also laid out otherwise
            lengths = [(256, 512), (255, 512), (255, 511), (256, 8), (255, 7)]
            lengths += [(_HUGE, 512), (_HUGE - 1, 511)] if full else []
            for m, n in lengths if count > 1 else ():
                for place in range(count):
                    for other in ((n,), (m, 1), (1, 1)):
                        whole = [(m, n)] * count
                        whole[place] = other
                        yield Example(tuple(whole), given)

    return ahead


def _row_lengths(full: bool) -> Iterator[tuple[int, int]]:
    """(rows, length of a row)."""
    for n in _powers(2, 8) if not full else ():
        yield 16, n
        yield 1023, n
    for n in _powers(1 if full else 16, _LONGEST):
        for m in _powers(1, 1024) if full else (1, 16, 64, 1024):
            yield m, n
            if full and m > 1:
                yield m - 1, n
                yield m - 1, n - 1 or n
        yield 1023, n
        yield 1023, n - 1 or n
        if full or n == 4096:
            yield _MOST_ROWS, n
    # rows that are walked: so few that each is shared by more threads, many, and a matrix that
    # needs 64-bit indices (the logits of a batch do)
    for n in (_WALKED, _WALKED - 1):
        yield 16, n
        yield 1023, n
        yield 2**16, n


def rows(vectors: int) -> _Ahead:
    """A matrix, and from none to `vectors` vectors as long as its rows."""

    def ahead(full: bool) -> Iterator[Example]:
        for given in range(vectors + 1):
            for m, n in _row_lengths(full):
                yield Example(((m, n), *((n,),) * given))
                if not vectors:
                    yield Example(((n, m),), {"axis": 0})

    return ahead


def reduction(full: bool) -> Iterator[Example]:
    """Over all of an array, its rows, its columns, and (full) the middle of three axes."""
    for n in (1, 255, 4096, 4095, 2**20, 2**20 - 1, 2**24, _HUGE):
        yield Example(((n,),))
    for m, n in _row_lengths(full):
        yield Example(((m, n),), {"axis": 1})
        yield Example(((n, m),), {"axis": 0})
        if full and m >= 16:
            yield Example(((16, n, m),), {"axis": 1})
            yield Example(((15, n, m),), {"axis": 1})
    for m in (1, 16, 64, 1023, 1024):  # few rows have code of their own
        for few in (2, 4, 8):
            yield Example(((few, m),), {"axis": 0})
    for few in (2, 4, 8, 12, 16, 32, 64, 128):  # so have few columns, and short rows
        for m in (60, 200, 1024, 4096, 8192, 16000, _STREAMED):
            yield Example(((m, few),), {"axis": 0})
            yield Example(((m, few),), {"axis": 1})
    for few, m in itertools.product((4, 300), (8, 200)):  # the middle of three axes
        yield Example(((16, few, m),), {"axis": 1})
    for n in (4096, 8192, 16384):  # and few pieces of long columns
        yield Example(((4096, n),), {"axis": 0})


def matmul(full: bool) -> Iterator[Example]:
    """Matrices and vectors of all proportions; (full) stacks of matrices."""
    sides = _powers(16, 4096) if full else [16, 64, 128, 512, 4096]
    lengths = (64, 4096, 512) if full else (64, 4096)
    tuned = [(one["m"], one["n"], one["k"]) for one in choices.tuned_sizes("matmul")]
    small = (
        (1, 2),
        (1, 4),
        (1, 8),
        (8, 1),
        (2, 16),
        (4, 32),
        (2, 512),
        (4, 512),
        (80, 160),
        (144, 80),
    )
    pieces = ((1, 1), (2, 1), (4, 1), (6, 1), (12, 1), (1, 32), (4, 32), (16, 16))
    shapes = [
        *itertools.product((1, *sides), (1, *sides), lengths),
        *((32, n, k) for n in sides for k in lengths),
        *((m, n, k) for m, n in small for k in lengths),
        *((m, n, 4 * _SUMMED) for m, n in pieces),
        *((m, n, _SUMMED) for one in sides for m, n in ((one, one), (1, one), (one, 1))),
        *tuned,
    ]
    for m, n, k in dict.fromkeys(shapes):
        for less in (0, 1):
            a, b = (m, k - less), (k - less, n)
            yield Example((a, b))
            yield Example((a[1:] if m == 1 else a, b[:1] if n == 1 else b))
            if less:
                yield Example(((max(1, m - 1), a[1]), (b[0], max(1, n - 1))))
            if full:
                yield Example(((16, *a), (16, *b)))
                yield Example(((15, *a), (15, *b)))
    yield Example(((65536, 65536), (65536, 65536)))
