"""Random kernels on square tiles, each with the same program in NumPy.

Statements are the same text in both, but for a few functions that the two sides define each in its
own way: `dot`, `trans`, `rows` (sums of rows), `columns` (largest of columns), `larger`, `load`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

__all__ = ["Program", "reference", "source"]

_KERNEL = """\
import triton
import triton.language as tl


@triton.jit
def dot(a, b, T: tl.constexpr):
    return tl.dot(a.to(T), b.to(T), input_precision="ieee") * 0.125


@triton.jit
def trans(a):
    return tl.trans(a)


@triton.jit
def rows(a):
    return tl.sum(a, 1)[:, None] * 0.1


@triton.jit
def columns(a):
    return tl.max(a, 0)[None, :]


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def load(p, k, at, S: tl.constexpr):
    return tl.load(p + (k % 3) * S * S + at).to(tl.float32)


@triton.jit
def kernel(A, B, C, O, two, three, S: tl.constexpr, T: tl.constexpr):
    block = tl.program_id(0)
    at = tl.arange(0, S)[:, None] * S + tl.arange(0, S)[None, :]
"""
_BINARY = ("{} + {}", "{} - 0.5 * {}", "larger({}, {})", "rows({}) + {}", "columns({}) - {}")


@dataclass
class Program:
    """The body of a kernel.

    Attributes:
        size: of the tiles.
        lines: its statements.
        outputs: names of three tiles that it ends with.
    """

    seed: int
    size: int = 0
    lines: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    _count: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self.size = self._random.choice((16, 32, 32, 64))
        self.lines += (f"x{i} = load({p}, block, at, S)" for i, p in enumerate("ABC"))
        known = ["x0", "x1", "x2"]
        for _ in range(4):
            self._statement("", known, "block", 0)
        self.outputs = known[-3:]

    def _name(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def _value(self, known: list[str]) -> str:
        a, b = self._random.choice(known), self._random.choice(known)
        if self._random.random() < 0.5:
            return f"dot({self._random.choice(('{}', 'trans({})')).format(a)}, {b}, T)"
        return self._random.choice(_BINARY).format(a, b)

    def _statement(self, indent: str, known: list[str], counter: str, depth: int) -> None:
        """One more, whose result is added to what is known; loops and branches have some inside,
        whose results are not known behind them.
        """
        chance, name = self._random.random(), self._name()
        if chance < 0.3:
            self.lines.append(
                f"{indent}{name} = load({self._random.choice('ABC')}, {counter}, at, S)"
            )
        elif chance < 0.55 or depth == 2:
            self.lines.append(f"{indent}{name} = {self._value(known)}")
        else:
            self.lines.append(f"{indent}{name} = {self._random.choice(known)} * 0.5")
            (self._loop if chance < 0.85 else self._branch)(indent, name, known, counter, depth)
        known.append(name)

    def _loop(self, indent: str, name: str, known: list[str], _: str, depth: int) -> None:
        counter = f"k{self._count}"
        self.lines.append(
            f"{indent}for {counter} in range({self._random.choice(('two', 'three', '2'))}):"
        )
        inside = [*known, name]
        for _ in range(self._random.randint(1, 3)):
            self._statement(f"{indent}    ", inside, counter, depth + 1)
        self.lines.append(f"{indent}    {name} = 0.25 * {name} + 0.25 * ({self._value(inside)})")

    def _branch(self, indent: str, name: str, known: list[str], counter: str, depth: int) -> None:
        condition = self._random.choice(("two > 1", "three > 5", "block == 1", f"{counter} < 1"))
        for way in (f"if {condition}:", "else:"):
            self.lines.append(indent + way)
            inside = list(known)
            for _ in range(self._random.randint(0, 1)):
                self._statement(f"{indent}    ", inside, counter, depth + 1)
            self.lines.append(f"{indent}    {name} = {self._value(inside)}")


def source(program: Program) -> str:
    """A Python file with the kernel `kernel(A, B, C, O, two, three, S, T)`: A, B and C are three
    tiles each, O gets the program's outputs for each block.
    """
    stores = [
        f"tl.store(O + (block * 3 + {i}) * S * S + at, {name})"
        for i, name in enumerate(program.outputs)
    ]
    return _KERNEL + "".join(f"    {line}\n" for line in (*program.lines, *stores))


def reference(
    program: Program, tiles: list[np.ndarray], block: int, two: int, three: int
) -> list[np.ndarray]:
    """The outputs of one block in float64; operands of dots are rounded to the tiles' type."""
    dtype = tiles[0].dtype

    def rounded(a: np.ndarray) -> np.ndarray:
        return a.astype(np.float32).astype(dtype).astype(np.float64)

    names = {
        **dict(zip("ABC", (tile.astype(np.float64) for tile in tiles), strict=True)),
        "block": block,
        "two": two,
        "three": three,
        "S": program.size,
        "T": None,
        "at": None,
        "dot": lambda a, b, _: rounded(a) @ rounded(b) * 0.125,
        "trans": np.transpose,
        "rows": lambda a: a.sum(1)[:, None] * 0.1,
        "columns": lambda a: a.max(0)[None, :],
        "larger": np.maximum,
        "load": lambda p, k, *_: p[k % 3],
    }
    exec("\n".join(program.lines), names)  # our own text
    return [names[name] for name in program.outputs]
