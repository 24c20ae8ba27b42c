"""Read what a PTX text says of itself: its target and its kernels.

Source: PTX ISA, `.target`, `.entry`, `.local` and `griddepcontrol`.
"""

from __future__ import annotations

__all__ = ["entries", "local_arrays", "target", "waits"]

_MOST_DIGITS = 6


def target(ptx: str) -> tuple[int, str] | None:
    """The number of the arch that a text is for (90), and the letter that ties it to that arch
    (`a`) or its family (`f`), if there is one; None where the text names no arch.
    """
    for line in ptx.splitlines():
        words = line.replace(",", " ").split(maxsplit=2)
        if words[:1] != [".target"] or len(words) < 2 or not words[1].startswith("sm_"):
            continue
        number = words[1].removeprefix("sm_")
        letter = number[-1:] if number[-1:].isalpha() else ""
        number = number.removesuffix(letter)
        if number.isdecimal() and len(number) <= _MOST_DIGITS:
            return int(number), letter
    return None


def entries(ptx: str) -> tuple[str, ...]:
    """The names of a text's kernels, in its order."""
    behind = (rest.split(maxsplit=1) for rest in ptx.split(".entry")[1:] if rest[:1].isspace())
    return tuple(words[0].partition("(")[0].partition("{")[0] for words in behind if words)


def local_arrays(ptx: str, entry: str) -> int:
    """The bytes of a thread's memory that a kernel's text declares, as an array with an index that
    is computed needs them: registers that are kept in memory come to these."""
    found, inside = 0, False
    for line in ptx.splitlines():
        if ".entry" in line or ".func" in line:
            inside = entries(line) == (entry,)
        words = line.split()
        if not inside or words[:1] != [".local"] or not line.endswith("];"):
            continue
        number = words[-1].partition("[")[2].removesuffix("];")
        found += int(number) if number.isdecimal() and len(number) <= _MOST_DIGITS else 0
    return found


def waits(ptx: str) -> bool:
    """Whether something in a text waits for the launches in front of it."""
    return any(line.split(";")[0].split() == ["griddepcontrol.wait"] for line in ptx.splitlines())
