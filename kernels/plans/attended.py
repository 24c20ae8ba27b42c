"""From call to launches: those of attention, turned into those of `attended`, whose arrays and
result go through further operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from xtarget import spec

from .made import as_bits
from .matrices import Beside, stand

__all__ = ["Fusion", "Part", "without"]

#: By what stands beside them, the parameters of the kernels: arrays and numbers, and the axes that
#: they are walked along.
_LETTERS: Final[Mapping[str, Sequence[str]]] = {
    "out": "efuy", "query": "gh", "key": "pz", "value": "wx",
    "score": ("i0", "i1", "i2", "i3", "i4", "i5", "i6"),
}  # fmt: skip
_AXES: Final = {"out": "mn", "query": "mk", "key": "mk", "value": "mk", "score": "mn"}
#: Parameters of attention's kernels that these have not.
_PAGES: Final = frozenset(
    ("table", "lengths", "starts_q", "starts_k", "sequences", "page", "pages", "kp", "vp", "st",
     "sn", "tn", "ENDS")
)  # fmt: skip
_LEVELS: Final = frozenset(("lse", "sl", "ll"))
#: Bytes of shared memory that each target has for a block, and some to spare (sm_89 has 99 KiB).
_SHARED: Final = 96 * 1024
#: Arguments of the kernels that are attention's own.
_OWN: Final = frozenset(("q", "k", "v", "mask", "slopes", "x"))


class Part(NamedTuple):
    """An argument of the section that stands beside an array, and how it lies along that array; of
    a number its dtype. Without an argument the part numbers an axis, by strides of 1 along it."""

    operand: spec.Input | None
    layout: spec.ArrayType | spec.ScalarType


class Fusion(NamedTuple):
    """Steps for attention's arrays and its result.

    Attributes:
        places: of attention's arguments among the section's, by attention's.
        dtypes: of the section's arguments.
        steps: of `query`, `key` and `value`, of the scores, `score`, and of the result, `out`:
            those that are there.
        parts: what stands beside each.
    """

    places: Mapping[int, int]
    dtypes: Sequence[str]
    steps: Mapping[str, str]
    parts: Mapping[str, tuple[Part, ...]]

    def viewed(self, **views: Callable[[spec.ArrayType], spec.ArrayType]) -> Fusion:
        """With the arrays seen in other ways, by what they stand beside."""

        def seen(what: str, part: Part) -> Part:
            if isinstance(part.layout, spec.ScalarType) or what not in views:
                return part
            return part._replace(layout=views[what](part.layout))

        return self._replace(
            parts={what: tuple(seen(what, p) for p in own) for what, own in self.parts.items()}
        )

    def stages(self, stages: int, queries: int, keys: int, size: int, itemsize: int) -> int:
        """In how many stages a tile of keys and values is fetched: one where what they are made of
        has no room in a block's shared memory beside what it has already.

        Args:
            stages: where there is.
            size: of a head, as a tile has it.
            itemsize: of what is multiplied.
        """
        read = 0
        for place, what in enumerate(("query", "key", "value")):
            if what in self.steps and place:
                beside = (part.operand for part in self.parts[what])
                own = (self.places[place], *(one.index for one in beside if one is not None))
                read += sum(spec.ArrayType(self.dtypes[i], (), ()).itemsize for i in own)
            elif place:
                read += itemsize
        needed = size * (queries * itemsize + keys * (2 * itemsize + (stages - 1) * read))
        return stages if needed <= _SHARED else 1

    def arrays(self, *kinds: str) -> dict[str, spec.ArrayType]:
        """The arrays that stand beside, by their parameters."""
        return {
            letter: part.layout
            for what in kinds
            for letter, part in zip(_LETTERS[what], self.parts.get(what, ()), strict=False)
            if isinstance(part.layout, spec.ArrayType)
        }

    def attention(
        self, launch: spec.Launch, over: Mapping[str, tuple[int, ...]], sizes: Sequence[int], *,
        last: bool,
    ) -> spec.Launch:  # fmt: skip
        """A launch of `attention:attention`.

        Args:
            over: the strides of `arrays` over the batch.
            sizes: queries, keys, and the sizes of a head in queries and values.
            last: it stores the result, not a part of it.
        """
        length, keys, d, dv = sizes
        axes = {
            "out": (length, dv), "query": (length, d), "key": (keys, d), "value": (keys, dv),
            "score": (length, keys),
        }  # fmt: skip
        then = last and "out" in self.steps
        kinds = [what for what in ("query", "key", "value", "score") if what in self.steps]
        if not (then or kinds):
            return self._placed(launch, launch.source, frozenset(), {})
        flags = {what.upper(): what in kinds for what in ("query", "key", "value", "score")}
        source = f"attended:attention{self._text('out') if then else ''}"
        source += "".join(f"[{what}={self.steps[what]}]" for what in kinds)
        launch = self._placed(launch, source, _PAGES, {**flags, "THEN": then})
        for what, lengths in axes.items():
            shown = what in kinds or (then and what == "out")
            launch = self._with(launch, what, over, lengths, shown=shown)
        return as_bits(launch, self.dtypes)

    def joined(
        self, launch: spec.Launch, over: Mapping[str, tuple[int, ...]], lengths: tuple[int, int]
    ) -> spec.Launch:
        """A launch of `attention:joined`. Rows are among what `over` has strides over."""
        if "out" not in self.steps:
            return launch
        launch = self._placed(launch, f"attended:joined{self._text('out')}", _LEVELS, {})
        return as_bits(self._with(launch, "out", over, lengths, of_rows=True), self.dtypes)

    def outer(
        self, launch: spec.Launch, over: Mapping[str, tuple[int, ...]], lengths: tuple[int, int]
    ) -> spec.Launch:
        """A launch of `outer_attention:attention`."""
        if "out" not in self.steps:
            return as_bits(self._placed(launch, launch.source, frozenset(), {}), self.dtypes)
        source = f"attended:outer{self._text('out')}"
        launch = self._placed(launch, source, _PAGES | _LEVELS, {})
        return as_bits(self._with(launch, "out", over, lengths), self.dtypes)

    def panels(
        self, launch: spec.Launch, what: str, over: Sequence[tuple[int, ...]],
        axes: tuple[int, int], lengths: tuple[int, int],
    ) -> spec.Launch:  # fmt: skip
        """A launch of `linear:panels` of an array.

        Args:
            over: the strides over the batch of the arrays that stand beside it.
            axes: that panels are walked along and that lies across them.
        """
        if what not in self.steps:
            return as_bits(self._placed(launch, launch.source, frozenset(), {}), self.dtypes)
        source = f"attended:panels[{self.steps[what]}]"
        launch = self._placed(launch, source, frozenset({"STEPS"}), {})
        letters = self.arrays(what)
        by_letter = dict(zip(letters, over, strict=True))
        named = {g: by_letter[a] for g, a in zip("gh", _LETTERS[what], strict=True) if a in letters}
        return as_bits(
            self._with(launch, what, named, lengths, letters="gh", axes=axes), self.dtypes
        )

    def _text(self, what: str) -> str:
        return f"({self.steps[what]})"

    def _placed(
        self, launch: spec.Launch, source: str, but: frozenset[str], constants: Mapping[str, Any]
    ) -> spec.Launch:
        """The launch of another kernel, of the section's arguments."""

        def own(name: str, argument: spec.Argument) -> spec.Argument:
            if name in _OWN and isinstance(argument, spec.Input):
                return spec.Input(self.places[argument.index])
            return argument

        args = {name: own(name, a) for name, a in launch.args.items() if name not in but}
        kept = {name: value for name, value in launch.constants.items() if name not in but}
        return replace(launch, source=source, args=args, constants={**kept, **constants})

    def _with(
        self,
        launch: spec.Launch,
        what: str,
        over: Mapping[str, tuple[int, ...]],
        lengths: tuple[int, int],
        *,
        shown: bool = True,
        of_rows: bool = False,
        letters: Sequence[str] = "",
        axes: tuple[int, int] = (-2, -1),
    ) -> spec.Launch:
        """A launch with what stands beside an array.

        Args:
            shown: it stands there.
            of_rows: steps from row to row are among those over the batch.
        """
        letters = letters or _LETTERS[what]
        parts = self.parts.get(what, ()) if shown else ()
        beside, strides, steps = [], [], []
        for letter, (operand, layout) in zip(letters, parts, strict=False):
            strides.append(over.get(letter, ()))
            if isinstance(layout, spec.ScalarType):
                beside.append(Beside(operand, layout.dtype, ()))
                steps.append((0, 0))
                continue
            beside.append(Beside(operand, "", layout.strides))
            row, column = (layout.strides[axis] for axis in axes)
            steps.append((0 if of_rows else row, column))
        args, constants = dict(launch.args), dict(launch.constants)
        stand(args, constants, letters, _AXES[what], beside, strides, steps, lengths)
        if of_rows:  # one row's element is another one's place
            for letter in letters:
                if constants[letter.upper()] in ("one", "row", "column"):
                    constants[letter.upper()] = "whole"
        return replace(launch, args=args, constants=constants)


def without(array: spec.ArrayType, axis: int) -> spec.ArrayType:
    """An array without one of its axes, at its first element."""
    shape, strides = list(array.shape), list(array.strides)
    del shape[axis], strides[axis]
    return spec.ArrayType(array.dtype, tuple(shape), tuple(strides))
