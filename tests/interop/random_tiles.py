"""Random kernels of exact arithmetic: every operation before and behind reductions, scans and dots.

A program has the same text for Triton and for NumPy; the functions in it are defined once for each.
All floats are integers, and stay below what their type holds exactly (the generator knows a bound
of each), so results are equal, whatever the order of additions. Integers wrap around in both.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Tiles", "reference", "source"]

#: For each type of floats: its name, the integer of its size, and to where integers are exact.
FLOATS = {
    "float32": ("int32", 2**23),
    "float16": ("int16", 2**10),
    "float64": ("int64", 2**40),
    "bfloat16": ("int16", 2**7),
}

#: Functions of one expression: how each is called, and what it returns.
_FUNCTIONS = {
    "larger(a, b)": "tl.maximum(a, b)",
    "smaller(a, b)": "tl.minimum(a, b)",
    "both_bits(a, b)": "a ^ b",
    "choose(c, a, b)": "tl.where(c, a, b)",
    "magnitude(a)": "tl.abs(a)",
    "half_down(a)": "tl.floor(a.to(tl.float32) * 0.5).to(a.dtype)",
    "half_up(a)": "tl.ceil(a.to(tl.float32) * 0.5).to(a.dtype)",
    "to_int(a)": "a.to(tl.int32)",
    "to_long(a)": "a.to(tl.int64)",
    "low_byte(a)": "a.to(tl.int8).to(tl.int32)",
    "unsigned_half(a)": "a.to(tl.uint16).to(tl.int32)",
    "to_float(a)": "(a & 31).to(tl.{real})",
    "bit_to_float(a)": "a.to(tl.{real})",
    "bit_to_int(a)": "a.to(tl.int32)",
    "through_half(a)": "a.to(tl.float16).to(a.dtype)",
    "through_single(a)": "a.to(tl.float32).to(a.dtype)",
    "largest(a, AXIS: tl.constexpr)": "tl.max(a, AXIS, keep_dims=True).to(a.dtype)",
    "smallest(a, AXIS: tl.constexpr)": "tl.min(a, AXIS, keep_dims=True).to(a.dtype)",
    "total(a, AXIS: tl.constexpr)": "tl.sum(a, AXIS, keep_dims=True).to(a.dtype)",
    "where_largest(a, AXIS: tl.constexpr)": "tl.argmax(a, AXIS, keep_dims=True)",
    "parity(a, AXIS: tl.constexpr)": "tl.xor_sum(a, AXIS, keep_dims=True)",
    "running_total(a, AXIS: tl.constexpr, REVERSE: tl.constexpr)": (
        "tl.cumsum(a, AXIS, reverse=REVERSE).to(a.dtype)"
    ),
    "running_largest(a, AXIS: tl.constexpr, REVERSE: tl.constexpr)": (
        "tl.associative_scan(a, AXIS, larger, reverse=REVERSE)"
    ),
    "dot(a, b)": 'tl.dot(a.to({operand}), b.to({operand}), input_precision="ieee").to(tl.{real})',
    "byte_dot(a, b)": "tl.dot(a.to(tl.int8), b.to(tl.int8), out_dtype=tl.int32)",
    "trans(a)": "tl.trans(a)",
    "flipped_order(a)": "tl.flip(a)",
    "sorted_up(a)": "tl.sort(a)",
}

_KERNEL = """\
import triton
import triton.language as tl


{functions}@triton.jit
def flipped(a):
    sign = tl.full(a.shape, 1, tl.{word}) << (a.dtype.primitive_bitwidth - 1)
    return (a.to(tl.{word}, bitcast=True) ^ sign).to(a.dtype, bitcast=True)


@triton.jit
def below_zero(a):
    sign = tl.full(a.shape, 1, tl.{word}) << (a.dtype.primitive_bitwidth - 1)
    return (a.to(tl.{word}, bitcast=True) | sign).to(a.dtype, bitcast=True)


@triton.jit
def barrier():
    tl.debug_barrier()


@triton.jit
def kernel(F, G, I, OF, OI, three, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    f = tl.load(F + at)
    g = tl.load(G + at)
    i = tl.load(I + at)
"""

#: Unary operations: the text, and what it makes of a bound.
_UNARY_FLOAT = (
    *(("-{}", 1),) * 3,
    ("magnitude({})", 1),
    ("-magnitude({})", 1),
    ("flipped({})", 1),
    ("below_zero({})", 1),
    ("half_down(-{})", 1),
    ("half_up({})", 1),
    ("-2.0 * {}", 2),
    ("{} * -1.0", 1),
    ("0.0 - {}", 1),
    ("through_half({})", 1),
    ("-through_single({})", 1),
    ("to_float(to_int(-{}))", 0),
)
_BINARY_FLOAT = (
    ("{} + {}", "sum"),
    ("{} - {}", "sum"),
    ("-{} - {}", "sum"),
    ("larger(-{}, {})", "max"),
    ("smaller({}, -{})", "max"),
    ("choose({} < {}, {a}, -{b})", "max"),
    ("choose({} == {}, -{a}, {b})", "max"),
    ("{} * {}", "product"),
    ("to_float(bit_to_int({} <= {}))", "bit"),
    ("bit_to_float({} > {})", "bit"),
)
_UNARY_INT = (
    *("-{}", "~{}", "magnitude({})", "{} & 77", "{} | 5", "{} ^ -2147483648", "{} >> 3"),
    *("{} << 2", "{} * 3", "low_byte({})", "unsigned_half({})", "to_int(to_long({}) * 5 >> 2)"),
    *("to_int(-to_float({}))", "0 - {}", "to_int(-to_long({}))"),
)
_BINARY_INT = (
    *("{} + {}", "{} - {}", "{} ^ {}", "{} & ~{}", "larger({}, -{})", "smaller(-{}, {})"),
    *("choose({} < {}, {a}, -{b})", "{} * {}", "bit_to_int({} >= {})"),
    "bit_to_int(({} < {}) ^ ({a} > 3))",
)


@dataclass
class Tiles:
    """A program.

    Attributes:
        rows, columns: of all tiles; of one row a tile is a vector.
        real: the type of its floats.
        lines: its statements.
        floats, integers: names of the results.
    """

    seed: int
    rows: int = 0
    columns: int = 0
    real: str = ""
    lines: list[str] = field(default_factory=list)
    floats: list[str] = field(default_factory=list)
    integers: list[str] = field(default_factory=list)
    _count: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self.rows, self.columns = self._random.choice(
            ((1, 32), (1, 128), (1, 512), (16, 16), (16, 16), (32, 32), (8, 32), (64, 4), (16, 64))
        )
        self.real = self._random.choice(
            ("float32", "float32", "float32", "float16", "float64", "bfloat16")
        )
        self._limit = FLOATS[self.real][1]
        #: Bounds of floats; integers have none.
        self._known: dict[str, int | None] = {"f": 4, "g": 4, "i": None}
        for _ in range(self._random.randint(5, 9)):
            self._statement("")
        names = list(self._known)
        self.floats = [name for name in names if self._known[name] is not None][-4:]
        self.integers = [name for name in names if self._known[name] is None][-4:]

    @property
    def word(self) -> str:
        return FLOATS[self.real][0]

    def _fresh(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def _a(self, floats: bool) -> str:
        """A value that is known, rather a late one."""
        names = [name for name, bound in self._known.items() if (bound is not None) == floats]
        return self._random.choice(names[-3:] if self._random.random() < 0.6 else names)

    def _assign(self, indent: str, text: str, bound: int | None) -> str:
        """A new value; a float is cut where its bound is too large to go on with."""
        name = self._fresh()
        self.lines.append(f"{indent}{name} = {text}")
        if bound is not None and bound > 16:
            self.lines.append(f"{indent}{name} = larger(smaller({name}, 4.0), -4.0)")
            bound = 4
        self._known[name] = bound
        return name

    def _statement(self, indent: str) -> None:
        chance = self._random.random()
        if chance < 0.28:
            self._unary(indent)
        elif chance < 0.5:
            self._binary(indent)
        elif chance < 0.82:
            self._across(indent)
        elif chance < 0.88:
            self.lines.append(f"{indent}barrier()")
        elif not indent:
            (self._loop if chance < 0.95 else self._branch)()

    def _unary(self, indent: str) -> None:
        if self._random.random() < 0.6:
            text, factor = self._random.choice(_UNARY_FLOAT)
            a = self._a(True)
            bound = (self._known[a] or 0) * factor + 1 if factor else 31
            self._assign(indent, text.format(a), bound)
        elif self._random.random() < 0.3:
            self._assign(indent, f"to_int({self._a(True)})", None)
        else:
            self._assign(indent, self._random.choice(_UNARY_INT).format(self._a(False)), None)

    def _binary(self, indent: str) -> None:
        floats = self._random.random() < 0.6
        a, b = self._a(floats), self._a(floats)
        if not floats:
            self._assign(indent, self._random.choice(_BINARY_INT).format(a, b, a=a, b=b), None)
            return
        text, kind = self._random.choice(_BINARY_FLOAT)
        x, y = self._known[a] or 0, self._known[b] or 0
        bound = {"sum": x + y, "max": max(x, y), "product": x * y, "bit": 1}[kind]
        if bound < self._limit:
            self._assign(indent, text.format(a, b, a=a, b=b), bound)

    def _across(self, indent: str) -> None:
        """Something over the elements, and what was there before with it."""
        floats = self._random.random() < 0.6
        a, b = self._a(floats), self._a(floats)
        bound, before = self._known[a], self._known[b]
        axis = self._random.choice((0, 1)) if self.rows > 1 else 1
        length = (self.rows, self.columns)[axis]
        reverse = self._random.choice((False, True))
        texts = [
            (f"largest({a}, {axis})", 1),
            (f"smallest({a}, {axis})", 1),
            (f"largest(-{a}, {axis})", 1),
            (f"total({a}, {axis})", length),
            (f"running_total({a}, {axis}, {reverse})", length),
            (f"running_largest({a}, {axis}, {reverse})", 1),
            (f"flipped_order({a})", 1),
            (f"sorted_up({a})", 1),
        ]
        if self.rows == self.columns:
            texts += [(f"trans({a})", 1), (f"{'dot' if floats else 'byte_dot'}({a}, {b})", 0)] * 3
        if not floats:
            texts += [(f"parity({a}, {axis})", 1), (f"where_largest({a}, {axis})", 1)]
        text, factor = self._random.choice(texts)
        sign = self._random.choice(
            ("{b} - {text}", "-{b} + {text}", "{text} - {b}", "{b} + {text}")
        )
        text = sign.format(b=b, text=text)
        if bound is None or before is None:
            self._assign(indent, text, None)
            return
        bound = bound * (factor or 1) if factor else self.rows * bound * before
        if bound + before < self._limit:
            self._assign(indent, text, bound + before)

    def _loop(self) -> None:
        name = self._assign("", f"-{self._a(True)}", 16)
        self.lines.append(f"for k{self._count} in range(three):")
        self._inside(name)

    def _branch(self) -> None:
        name = self._assign("", f"{self._a(True)} * -1.0", 16)
        self.lines.append(f"if three > {self._random.choice((1, 5))}:")
        self._inside(name)

    def _inside(self, name: str) -> None:
        """Statements whose values are not known behind it, and one for the value `name`."""
        before = dict(self._known)
        for _ in range(self._random.randint(1, 3)):
            self._statement("    ")
        a = self._a(True)
        self.lines.append(f"    {name} = larger(smaller({a} - {name}, 4.0), -4.0)")
        self._known = before


def source(program: Tiles) -> str:
    """A Python file with the kernel `kernel(F, G, I, OF, OI, three, ROWS, COLUMNS)`: one tile each
    of floats in F and G and of int32 in I, and the results in OF and OI.
    """
    stores = [
        f"tl.store(O{kind} + {number} * ROWS * COLUMNS + at, {name})"
        for kind, names in (("F", program.floats), ("I", program.integers))
        for number, name in enumerate(names)
    ]
    operand = f"tl.{program.real}" if program.real != "bfloat16" else "tl.float32"
    functions = (f"@triton.jit\ndef {c}:\n    return {r}\n\n\n" for c, r in _FUNCTIONS.items())
    text = _KERNEL.replace("{functions}", "".join(functions))
    for name, value in (("word", program.word), ("real", program.real), ("operand", operand)):
        text = text.replace(f"{{{name}}}", value)
    return text + "".join(f"    {line}\n" for line in (*program.lines, *stores))


def _reverse_or_not(function: Any) -> Any:
    def scanned(a: Any, axis: int, reverse: bool) -> Any:
        flipped = np.flip(a, axis) if reverse else a
        return (scan := function(flipped, axis=axis, dtype=a.dtype), np.flip(scan, axis))[reverse]

    return scanned


def _scan_largest(a: Any, axis: int, dtype: Any) -> Any:
    return np.maximum.accumulate(a, axis=axis, dtype=dtype)


def _cut(a: Any, dtype: Any) -> Any:
    return a.astype(dtype).astype(np.int32)


def reference(program: Tiles, f: Any, g: Any, i: Any, three: int) -> tuple[list[Any], list[Any]]:
    """The results: floats in float64, and integers in int32."""
    names: dict[str, Any] = {
        "f": f.astype(np.float64),
        "g": g.astype(np.float64),
        "i": i,
        "three": three,
        "larger": np.maximum,
        "smaller": np.minimum,
        "choose": np.where,
        "trans": np.transpose,
        "magnitude": np.abs,
        "flipped": np.negative,
        "below_zero": lambda a: -np.abs(a),
        "half_down": lambda a: np.floor(a * 0.5),
        "half_up": lambda a: np.ceil(a * 0.5),
        "to_int": lambda a: a.astype(np.int32),
        "to_long": lambda a: a.astype(np.int64),
        "low_byte": lambda a: _cut(a, np.int8),
        "unsigned_half": lambda a: _cut(a, np.uint16),
        "to_float": lambda a: (a & 31).astype(np.float64),
        "bit_to_float": lambda a: a.astype(np.float64),
        "bit_to_int": lambda a: a.astype(np.int32),
        "through_half": lambda a: a,
        "through_single": lambda a: a,
        "largest": lambda a, axis: a.max(axis, keepdims=True),
        "smallest": lambda a, axis: a.min(axis, keepdims=True),
        "total": lambda a, axis: a.sum(axis, keepdims=True, dtype=a.dtype),
        "where_largest": lambda a, axis: a.argmax(axis, keepdims=True).astype(np.int32),
        "parity": lambda a, axis: np.bitwise_xor.reduce(a, axis, keepdims=True),
        "running_total": _reverse_or_not(np.cumsum),
        "running_largest": _reverse_or_not(_scan_largest),
        "dot": lambda a, b: a @ b,
        "byte_dot": lambda a, b: _cut(a, np.int8) @ _cut(b, np.int8),
        "flipped_order": lambda a: np.flip(a, -1),
        "sorted_up": lambda a: np.sort(a, -1),
        "barrier": lambda: None,
    }
    with np.errstate(over="ignore"):
        exec("\n".join(program.lines), names)  # our own text
    shape = (program.rows, program.columns)
    floats = [np.broadcast_to(names[name], shape) for name in program.floats]
    return floats, [np.broadcast_to(names[name], shape) for name in program.integers]
