"""Generated Triton functions: the steps of a fused section (`steps`) as people would write them.

Four forms are kernels of their own. `each` goes over elements as `elementwise.py` does, and so does
`picks`, where indices say which elements: those of every first of its arrays in the one behind it.
`whole` and `walk` go over rows, which a block takes in one piece or walks along, once for each fold
that needs an earlier one and once to write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .steps import (
    Fold,
    Step,
    dtype_text,
    form_of,
    name_of,
    names_of,
    operand_text,
    steps_of,
    written_of,
)

__all__ = ["functions_of", "program"]

#: Functions of our library that generated kernels call, by form.
_SHARED = {
    "": (),
    "each": ("indexing:part", "indexing:steps_of", "indexing:load", "indexing:store"),
    "picks": (
        "indexing:part",
        "indexing:steps_of",
        "indexing:load",
        "indexing:store",
        "movement:picked",
    ),
    "rows": (
        *("indexing:positions", "indexing:span", "rowwise:places", "rowwise:number"),
        *("rowwise:taken", "rowwise:spread", "rowwise:begun", "rowwise:mapped", "rowwise:joined"),
        *("rowwise:finished", "rowwise:kept", "arithmetic:accumulate", "arithmetic:settled"),
    ),
}


def functions_of(text: str) -> list[str]:
    """Every `file:function` that a text needs."""
    form = form_of(text)[0]
    shared = _SHARED["rows" if form in ("whole", "walk") else form]
    return list(
        dict.fromkeys(
            [*shared, *(step.function for step in steps_of(text) if isinstance(step, Step))]
        )
    )


def program(text: str) -> str:
    """The steps as a Triton function.

    Functions of other files go by the names under which `composed` puts them beside it.
    """
    form, arrays, _ = form_of(text)
    steps = steps_of(text)
    writer = {"": _Function, "each": _Each, "picks": _Picks, "whole": _Whole, "walk": _Walk}[form]
    lines = writer(text, steps, arrays).lines()
    return "\n".join(["@triton.jit", *lines]) + "\n"


def letters_of(steps: Sequence[Step | Fold]) -> list[str]:
    """The arguments, in order."""
    return sorted({own for step in steps for own, _ in step.operands if own.isalpha()})


def steps_between(out: str) -> str:
    """The parameter of the strides of a result."""
    return out.replace("out", "so")


class _Function:
    """A device function of elements."""

    #: How an argument's elements are named.
    letter = "{}"

    def __init__(self, text: str, steps: Sequence[Step | Fold], arrays: str) -> None:
        self.steps, self.arrays = steps, arrays
        self.letters = letters_of(steps)
        self.names = names_of(functions_of(text))
        self.last = len(steps) - 1
        #: By the parameter of a result, the step that gives it.
        self.written = {
            f"out{place + 2 if place >= 0 else ''}": number
            for place, number in enumerate((self.last, *written_of(text)), -1)
        }

    def lines(self) -> list[str]:
        head = f"def {name_of(self.steps)}({', '.join(self.letters)}):"
        return [head, *self.indented(map(self.step, range(len(self.steps)))),
                f"    return v{self.last}"]  # fmt: skip

    def step(self, number: int) -> str:
        step = self.steps[number]
        assert isinstance(step, Step), "a fold has no place among elements"
        operands = ", ".join(map(self.operand, step.operands))
        return f"v{number} = {self.names[step.function]}({operands}).to({dtype_text(step.dtype)})"

    def operand(self, own: tuple[str, tuple[str, ...]]) -> str:
        return operand_text(own, self.steps, self.letter)

    @staticmethod
    def indented(lines: Iterable[str], by: int = 1) -> list[str]:
        return ["    " * by + line for line in lines]


class _Each(_Function):
    """A kernel over elements, with the parameters of those in `elementwise.py`."""

    letter = "{}_"

    @property
    def parameters(self) -> list[str]:
        """Arguments of the section."""
        return self.letters

    @property
    def numbers(self) -> str:
        """Further parameters."""
        return ""

    def load(self, a: str) -> str:
        return f"{a}_ = load({a}, i, mask, shape, s{a}, T{a.upper()})"

    def lines(self) -> list[str]:
        own = ", ".join
        given = self.parameters
        body = [*map(self.load, self.letters), *map(self.step, range(len(self.steps)))]
        return [
            f"def {name_of(self.steps)}(",
            f"    {own(given)}, {own(self.written)}, n, {self.numbers}shape, "
            f"{own(f's{a}' for a in given)}, {own(map(steps_between, self.written))},",
            f"    {own(f'T{a.upper()}: tl.constexpr' for a in self.letters)},",
            "    BLOCK: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr, "
            "STREAM: tl.constexpr,",
            "):",
            "    for step in range(steps_of(n, shape, BLOCK, STEPS, ROWS)):",
            "        i, mask = part(n, shape, step, BLOCK, STEPS, ROWS)",
            *self.indented(body, 2),
            *(
                f"        store({out}, v{number}, i, mask, shape, {steps_between(out)}, STREAM)"
                for out, number in self.written.items()
            ),
        ]


class _Picks(_Each):
    """A kernel over elements, some of which lie where indices say."""

    @property
    def indices(self) -> dict[str, str]:
        """By array, what says which of its elements are taken."""
        return dict(zip(self.arrays[::2], self.arrays[1::2], strict=True))

    @property
    def parameters(self) -> list[str]:
        return sorted({*self.letters, *self.arrays})

    @property
    def numbers(self) -> str:
        return "".join(f"l{a}, p{a}, " for a in self.indices)

    def load(self, a: str) -> str:
        if a not in self.indices:
            return super().load(a)
        index = self.indices[a]
        own = f"{a}, {index}, i, mask, n, shape, s{a}, s{index}, l{a}, p{a}, T{a.upper()}"
        return f"{a}_ = picked({own})"


class _Rows(_Function):
    """The part that both forms over rows share.

    Attributes:
        wide: steps that have a value for each element; the others have one for each row.
        level: by step, how many passes over the row come before it can be computed.
    """

    letter = "{}_"

    def __init__(self, text: str, steps: Sequence[Step | Fold], arrays: str) -> None:
        super().__init__(text, steps, arrays)
        self.wide: set[int] = set()
        self.level: dict[int, int] = {}
        for number, step in enumerate(steps):
            before = [int(own) for own, _ in step.operands if own.isdigit()]
            self.level[number] = max((self.after(one) for one in before), default=0)
            reads = any(own in arrays for own, _ in step.operands if own.isalpha())
            if isinstance(step, Step) and (reads or self.wide & {*before}):
                self.wide.add(number)
        self.passes = 1 + max(self.level[n] for n, s in enumerate(steps) if isinstance(s, Fold))

    def after(self, number: int) -> int:
        """Passes that have to be over before a later step can use this one."""
        return self.level[number] + isinstance(self.steps[number], Fold)

    def head(self, *further: str) -> list[str]:
        own = ", ".join
        letters, arrays = self.letters, self.arrays
        lines = [
            f"def {name_of(self.steps)}(",
            f"    {own(letters)}, {own(self.written)}, m, n, shape, "
            f"{own(f's{a}' for a in letters)}, {own(map(steps_between, self.written))},",
            f"    {own(f'c{a}' for a in arrays)}, "
            f"{own(out.replace('out', 'co') for out in self.written)},",
            f"    {own(f'T{a.upper()}: tl.constexpr' for a in letters)},",
            f"    {own(f'{name}: tl.constexpr' for name in ('BLOCK_M', 'BLOCK_N', *further))},",
            "):",
            "    row, rows = positions(m, BLOCK_M)",
        ]
        for a in letters:
            if a in arrays:
                lines.append(f"    {a}_rows = places({a}, row, shape, s{a})")
            else:
                lines.append(f"    {a}_ = number({a}, s{a}, T{a.upper()})")
        return lines

    def load(self, a: str) -> str:
        return f"{a}_ = taken({a}, {a}_rows, column, mask, c{a}, T{a.upper()})"

    def operand(self, own: tuple[str, tuple[str, ...]]) -> str:
        made = super().operand(own)
        if own[0].isdigit() and int(own[0]) not in self.wide and self._in_wide:
            return f"spread({made}, mask)"
        return made

    _in_wide = False

    def step(self, number: int) -> str:
        self._in_wide = number in self.wide
        return super().step(number)

    def mapped(self, number: int) -> str:
        """The text of an element's contribution to a fold."""
        fold = self.fold(number)
        self._in_wide = False
        value, *centre = map(self.operand, fold.operands)
        aside = centre[0] if centre and fold.map in ("deviation", "exp") else "None"
        computed = dtype_text(fold.computed)
        return f'mapped({value}, {aside}, mask, {computed}, "{fold.map}", "{fold.op}")'

    def finished(self, number: int, total: str) -> str:
        fold = self.fold(number)
        self._in_wide = False
        late = fold.finish in ("log_of_exp", "ratio")
        centre = self.operand(fold.operands[1]) if late else "None"
        count = f"n - {fold.less}" if fold.less else "n"
        return (
            f'v{number} = finished({total}, {centre}, {count}, "{fold.op}", "{fold.finish}")'
            f".to({dtype_text(fold.dtype)})"
        )

    def fold(self, number: int) -> Fold:
        fold = self.steps[number]
        assert isinstance(fold, Fold)
        return fold

    def stores(self, *, wide: bool) -> list[str]:
        """The lines that write results that have a value for each element, or one for each row."""
        where = "column, mask" if wide else "None, rows[:, None]"
        return [
            f"kept({out}, v{number}, row, {where}, shape, {steps_between(out)}, "
            f"{out.replace('out', 'co')})"
            for out, number in self.written.items()
            if (number in self.wide) == wide
        ]


class _Whole(_Rows):
    """A block takes its rows in one piece."""

    def lines(self) -> list[str]:
        body = [
            "column, columns = span(0, n, BLOCK_N)",
            "mask = rows[:, None] & columns[None, :]",
            *map(self.load, self.arrays),
        ]
        for number, step in enumerate(self.steps):
            if isinstance(step, Fold):
                body.append(self.finished(number, self.mapped(number)))
            else:
                body.append(self.step(number))
        body += [*self.stores(wide=True), *self.stores(wide=False)]
        return [*self.head(), *self.indented(body)]


class _Walk(_Rows):
    """A block walks along its rows, BLOCK_N elements of each at once. Sums are added up TURN
    elements at a time (`arithmetic.accumulate`).
    """

    def lines(self) -> list[str]:
        lines = self.head("TURN")
        for level in range(self.passes):
            lines += self.indented(self.between(level))
            lines += self.indented(self.walk(level))
        lines += self.indented(self.between(self.passes))
        wide = [number for number in self.written.values() if number in self.wide]
        if wide:
            inner = [*self.needed(wide), *self.stores(wide=True)]
            lines += self.indented(self.loop("0", "n", inner))
        return [*lines, *self.indented(self.stores(wide=False))]

    def between(self, level: int) -> list[str]:
        """Steps on numbers of the row that can be computed before the pass `level`, and not
        earlier."""
        return [
            self.step(number)
            for number, step in enumerate(self.steps)
            if isinstance(step, Step) and number not in self.wide and self.level[number] == level
        ]

    def walk(self, level: int) -> list[str]:
        folds = [
            number
            for number, step in enumerate(self.steps)
            if isinstance(step, Fold) and self.level[number] == level
        ]
        sums = [n for n in folds if self.fold(n).op == "sum"]
        begun = {
            n: f'begun(BLOCK_M, BLOCK_N, {dtype_text(self.fold(n).computed)}, "{self.fold(n).op}")'
            for n in folds
        }
        inner = self.needed([int(own) for n in folds for own in self.elements(n)], folds)
        inner += [f't{n} = joined(t{n}, {self.mapped(n)}, "{self.fold(n).op}")' for n in folds]
        lines = [f"{'s' if n in sums else 't'}{n} = {begun[n]}" for n in folds]
        if sums:
            lines += [f"l{n} = {begun[n]}" for n in sums]
            lines += ["for begin in range(0, n, TURN):",
                      "    end = begin + tl.minimum(TURN, n - begin)"]  # fmt: skip
            lines += [f"    t{n} = {begun[n]}" for n in sums]
            lines += self.indented(self.loop("begin", "end", inner))
            lines += [f"    s{n}, l{n} = accumulate(s{n}, l{n}, t{n})" for n in sums]
        else:
            lines += self.loop("0", "n", inner)
        for n in folds:
            lines.append(self.finished(n, f"settled(s{n}, l{n})" if n in sums else f"t{n}"))
        return lines

    def elements(self, fold: int) -> list[str]:
        own = self.fold(fold).operands[0][0]
        return [own] if own.isdigit() else []

    def loop(self, begin: str, end: str, inner: list[str]) -> list[str]:
        return [
            f"for start in range({begin}, {end}, BLOCK_N):",
            "    column, columns = span(start, n, BLOCK_N)",
            "    mask = rows[:, None] & columns[None, :]",
            *self.indented(inner),
        ]

    def needed(self, steps: list[int], folds: Sequence[int] = ()) -> list[str]:
        """Lines that compute wide steps, and what these are made of, from the arrays on."""
        needed: set[int] = set()
        waiting = [number for number in steps if number in self.wide]
        while waiting:
            number = waiting.pop()
            needed.add(number)
            before = (int(own) for own, _ in self.steps[number].operands if own.isdigit())
            waiting += [one for one in before if one in self.wide and one not in needed]
        read = {
            own
            for number in (*needed, *folds)
            for own, _ in self.steps[number].operands
            if own in self.arrays
        }
        return [*map(self.load, sorted(read)), *map(self.step, sorted(needed))]
