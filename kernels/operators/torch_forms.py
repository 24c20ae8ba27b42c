"""Operators under torch's names that take more there than the rows do: `alpha`, `rounding_mode`, a
second array, bool and integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from xtarget.spec import ABSENT, ArgumentError, ArrayType, Call, KernelSpec, Plan

from ..plans.elementwise import Elementwise
from ..plans.folds import extreme_and_place
from ..plans.torch_types import by_torchs_types, dtypes_that_count
from . import activations, arithmetic, reductions, selection, torch_types
from .row import BY_LIBRARY
from .rules import INTEGERS, PROMOTED
from .spellings import spellings

__all__ = ["ROWS"]

_ROWS: Mapping[str, KernelSpec] = {
    row.name: row
    for family in (activations, arithmetic, reductions, selection)
    for row in reversed(family.ROWS)
}
_TORCHS: Mapping[str, KernelSpec] = {row.name: row for row in torch_types.ROWS}


def _scaled(name: str) -> KernelSpec:
    """torch's sums and differences multiply the second one by a number, `rsub` the first one."""
    row, of = _TORCHS[f"torch.{name}"], _ROWS[name]
    assert isinstance(of.plan, Elementwise)
    scaled = Elementwise(
        lambda _: f"functions.arithmetic:{name}_scaled", of.plan.rule, of.plan.dtypes,
        ("alpha",), dtypes_that_count,
    )  # fmt: skip
    multiplied = by_torchs_types(scaled)

    def plan(call: Call) -> Plan:
        alpha = call.options["alpha"]
        floats = any("float" in arg.dtype for arg in call.args)
        if not isinstance(alpha, int | float if floats else int):
            wanted = "a number" if floats else "an integer, as the arrays are"
            raise ArgumentError(f"{call.kernel}: alpha is {alpha!r}; it has to be {wanted}.")
        if all(arg.dtype == "bool" for arg in call.args):
            alpha = int(alpha != 0)
        if alpha == 1:
            return row.plan(replace(call, options={}))
        return multiplied(replace(call, options={"alpha": +alpha}))

    def reference(a: Any, b: Any, alpha: Any = 1) -> Any:
        import numpy as np

        assert row.reference is not None
        kinds = {np.asarray(one).dtype.kind for one in (a, b)}
        if kinds == {"b"}:
            alpha = alpha != 0
        elif kinds <= set("biu"):  # a product of narrow integers wraps in the result's dtype alone
            a, b = (np.asarray(one).astype(np.int64) for one in (a, b))
        return row.reference(alpha * a, b) if name == "rsub" else row.reference(a, alpha * b)

    said = {"add": "a + alpha b", "sub": "a - alpha b", "rsub": "b - alpha a"}[name]
    return replace(
        row, plan=plan, reference=reference, options={"alpha": 1}, tolerance=(2, 2),
        summary=f"{said}, in torch's result dtype",
    )  # fmt: skip


def _division() -> KernelSpec:
    """torch's division rounds, where it is asked to."""
    row, floored = _TORCHS["torch.div"], _TORCHS["torch.floor_divide"]
    truncated = torch_types.of_torch("trunc_divide")
    ways = {None: row, "floor": floored, "trunc": truncated}

    def plan(call: Call) -> Plan:
        mode = call.options["rounding_mode"]
        if mode not in ways:
            known = " or ".join(map(repr, ways))
            raise ArgumentError(f"{call.kernel}: rounding_mode is {mode!r}; it has to be {known}.")
        return ways[mode].plan(replace(call, options={}))

    def reference(a: Any, b: Any, rounding_mode: str | None = None) -> Any:
        chosen = ways[rounding_mode].reference
        assert chosen is not None
        return chosen(a, b)

    return replace(
        row, plan=plan, reference=reference, options={"rounding_mode": None}, weak=None,
        exact=True, tolerance=(4, 0),
        summary="a / b, rounded to an integer as rounding_mode says: None, 'floor' or 'trunc'",
    )  # fmt: skip


def _extreme(name: str) -> KernelSpec:
    """torch's max and min of one array give the indices too, where they go along an axis; of two
    they are maximum and minimum.
    """
    row, largest = _ROWS[name], name == "max"
    values, places = row.reference, _ROWS[f"arg{name}"].reference
    of_two = _TORCHS["torch.maximum" if largest else "torch.minimum"]
    assert values is not None
    assert places is not None
    reduced, larger = extreme_and_place(largest), of_two.reference
    assert larger is not None

    def plan(call: Call) -> Plan:
        if len(call.args) < 2 or call.args[1] is ABSENT:
            return reduced(replace(call, args=call.args[:1]))
        if not isinstance(call.args[1], ArrayType):
            raise ArgumentError(
                f"{call.kernel}: its second argument is a number. Give dim by name: dim=1."
            )
        if call.options["axis"] is not None or call.options["keepdims"]:
            raise ArgumentError(
                f"{call.kernel}: of two arrays there is no axis. Leave dim and keepdim out."
            )
        return of_two.plan(replace(call, options={}))

    def reference(x: Any, other: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
        if other is not None:
            return larger(x, other)
        found = values(x, axis=axis, keepdims=keepdims)
        return found if axis is None else (found, places(x, axis=axis, keepdims=keepdims))

    return replace(
        row, name=f"torch.{name}", aliases=(f"torch.{name}",), inputs=("x", "other?"), apart=(),
        plan=plan, reference=reference, options={"axis": None, "keepdims": False}, along="",
        category=BY_LIBRARY, words=spellings(row), ahead=None, c=None,
        summary=f"{name} over all; along an axis, {name} and arg{name}; of two arrays, the "
        f"{'larger' if largest else 'smaller'} of each two elements",
    )  # fmt: skip


def _wider(name: str, names: str, more: tuple[str, ...], function: str) -> KernelSpec:
    """A row that takes more dtypes under torch's names.

    Args:
        function: for these, `file:function`, with the numbers of the row if it has its function.
    """
    row = _ROWS[name]
    own, right = row.plan, row.reference
    assert isinstance(own, Elementwise)
    assert right is not None
    whole = own.numbers if function.endswith(f":{name}") else ()
    wide = Elementwise(lambda _: f"functions.{function}", PROMOTED, (*more, *row.dtypes), whole)

    def plan(call: Call) -> Plan:
        if call.args[0].dtype not in more:
            return own(call)
        numbers = {option: int(call.options[option]) for option in whole}
        return wide(replace(call, options={**call.options, **numbers}))

    def reference(x: Any, **options: Any) -> Any:
        import numpy as np

        kept = np.asarray(x).dtype.name in more and not whole
        return np.asarray(x) if kept else right(x, **options)

    return replace(
        row, name=names.split()[0], aliases=tuple(names.split()), plan=plan, exact=True,
        dtypes=(*more, *row.dtypes), reference=reference, category=BY_LIBRARY,
        words=spellings(row), ahead=None, c=None, summary=f"{name}, of {', '.join(more)} too",
    )  # fmt: skip


_OWN = (
    _scaled("add"),
    _scaled("sub"),
    _scaled("rsub"),
    _division(),
    _extreme("max"),
    _extreme("min"),
    _wider("sign", "torch.sign torch.sgn", ("bool",), "arithmetic:positive"),
    _wider("nan_to_num", "torch.nan_to_num", ("bool", *INTEGERS), "arithmetic:positive"),
    _wider("hardtanh", "torch.hardtanh", INTEGERS[:4], "activations:hardtanh"),
)
_NAMES = {row.name for row in _OWN}
ROWS: tuple[KernelSpec, ...] = (
    *_OWN,
    *(row for row in torch_types.ROWS if row.name not in _NAMES),
)
