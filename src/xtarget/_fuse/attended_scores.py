"""Attention with a function of its scores (`score=`): the function is traced into steps that the
kernel does to each tile of scores."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._kernels import libraries
from .._values.errors import ArgumentError
from ..spec import ArrayType, KernelSpec, contiguous_strides
from .hidden_keys import conditions_of, needed, options_of
from .nodes import Node, Number, Value
from .sections import LETTERS, function_of, steps_of_nodes

__all__ = ["NAME", "OF_SCORES", "Scores", "check_within", "kernel_of", "scores_of", "steps_among"]

#: The option, and the operator that has it.
NAME, OF_SCORES = "score", "attention"
#: Places of the stand-ins among the function's arguments: of the scores, and of the numbers of the
#: batch, the head, the query and the key.
_SCORE, _PLACES = -5, (-4, -3, -2, -1)
_ROOM = len(LETTERS) - 1
_STEPS = re.compile(r"\[score=([^\[\]]*)\]")


class Scores:
    """Scores while the function of them is traced.

    Attributes:
        shape: batch, heads, queries, keys.
        dtype: that they are computed in.
    """

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        self.shape, self.dtype = shape, dtype

    def values_for(self, function: Callable[..., Any]) -> list[Value]:
        """The arguments of the function: scores, and the numbers of batch, head, query, key.

        Raises:
            ArgumentError: it does not take these.
        """
        try:
            inspect.signature(function).bind(*range(1 + len(_PLACES)))
        except TypeError as error:
            raise ArgumentError(
                "score= gives a function that takes the scores and the numbers of the batch, the "
                f"head, the query and the key, five arguments; this one: {error}."
            ) from None
        found = [Value(_type(self.dtype, self.shape), _SCORE)]
        for axis, place in enumerate(_PLACES):
            own = tuple(n if at == axis else 1 for at, n in enumerate(self.shape))
            found.append(Value(_type("int32", own), place))
        return found


def _type(dtype: str, shape: tuple[int, ...]) -> ArrayType:
    return ArrayType(dtype, shape, contiguous_strides(shape))


def scores_of(operands: Sequence[Value | Number], layout: object) -> Scores:
    """The scores of attention of some operands.

    Raises:
        ArgumentError: these are not the query, key and value of a batch of heads.
    """
    arrays = [own.type for own in operands if isinstance(own, Value)]
    if len(arrays) != 3 or len(operands) != 3:
        raise ArgumentError(
            "attention with score= takes the query, the key and the value alone. Put a "
            "mask or slopes into the function: where(mask, s, -inf), s - slopes * distance."
        )
    if any(own.ndim != 4 for own in arrays):
        raise ArgumentError(
            f"attention with score= takes arrays of four dimensions: batch, heads, "
            f"sequence and size; these have {', '.join(str(own.ndim) for own in arrays)}."
        )
    axis = 1 if layout == "bshd" else 2
    query, key = arrays[:2]
    heads = query.shape[3 - axis]
    dtype = "float64" if any(own.dtype == "float64" for own in arrays) else "float32"
    return Scores((query.shape[0], heads, query.shape[axis], key.shape[axis]), dtype)


def kernel_of(
    scores: Scores,
    nodes: Sequence[Node],
    result: object,
    base: KernelSpec,
    options: Mapping[str, Any],
) -> tuple[str, list[Value], dict[str, Any]]:
    """The name of the kernel that is attention with the function, the arrays that it takes behind
    the query, the key and the value, and options that say what the function does; no name: they say
    all of it.

    Args:
        nodes: the operators that the function calls.
        result: what it returns.
        options: all that attention has.

    Raises:
        ArgumentError: the kernel cannot do it.
    """
    if isinstance(result, Value) and result.index == _SCORE and result.node is None:
        return "", [], {}
    if not isinstance(result, Value) or result.type.shape != scores.shape or result.views:
        raise ArgumentError(
            f"the function that score= gives has to return the new scores, of shape "
            f"{scores.shape}, computed from the old ones by elementwise operators."
        )
    nodes = needed(nodes, [result])
    for node in nodes:
        if function_of(node) is None:
            raise ArgumentError(
                f"the function of attention's scores calls {node.spec.name}. It is "
                "done to tiles of scores, so that it takes elementwise operators only: compute "
                "the rest before the call, as an array that broadcasts to (batch, heads, queries, "
                "keys)."
            )
        if node.plan.outputs[0].dtype == "float64" and scores.dtype != "float64":
            raise ArgumentError(
                f"{node.spec.name} gives float64 among attention's scores of float32 "
                "(as int32 and float32 do, by NumPy's rules). Cast numbers of queries, keys or "
                'heads first: run("cast", i - j, dtype="float32").'
            )
    if _SCORE not in [own.index for own in _given(nodes, result) if own.node is None]:
        raise ArgumentError("the function that score= gives does not use the scores.")
    conditions, rest = conditions_of(nodes, result, _SCORE, _PLACES[2:])
    chosen = options["causal"] or options["window"] is not None
    more = {} if chosen else options_of(conditions, _PLACES[2:])
    if more:
        options = {**options, **more}
        nodes = needed(nodes, [rest])
        result = rest
    if result.node is None:
        return "", [], more
    first, *others = sorted(_given(nodes, result), key=lambda own: own.index != _SCORE)
    if len(others) > _ROOM:
        raise ArgumentError(
            f"the function of attention's scores takes {len(others)} arrays beside them, "
            f"numbers of batch, heads, queries and keys among them; it may take {_ROOM}."
        )
    steps = steps_of_nodes(nodes, [first, *others])
    beside: list[int] = []
    arrays: list[Value] = []
    for own in others:
        if own.node is None and own.index in _PLACES:
            beside.append(own.index)
        else:
            beside.append(3 + len(arrays))
            arrays.append(own)
    parts = f"{base.name} {sorted(options.items())} {beside} {steps}"
    name = f"fused {base.name} of scores {hashlib.sha256(parts.encode()).hexdigest()[:12]}"
    if not libraries.is_registered(name):
        libraries.register_of_scores(name, steps, base, options, len(arrays), tuple(beside))
    return name, arrays, more


def _given(nodes: Sequence[Node], result: Value) -> list[Value]:
    """What operators, or their result, are given from outside, each once."""
    inside = {id(node) for node in nodes}
    found: dict[tuple[Any, ...], Value] = {}
    for own in (*(own for node in nodes for own in node.operands), result):
        if isinstance(own, Value) and id(own.node) not in inside:
            found.setdefault(_name(own), own)
    return list(found.values())


def _name(own: Value) -> tuple[Any, ...]:
    return own.index, id(own.node), own.views


def check_within(nodes: Sequence[Node], results: Sequence[Value], line: str) -> None:
    """Refuse what is given to a function of scores, or made within it, where it is used outside.

    Args:
        nodes: the operators that the fused function calls.
        results: what it returns.
        line: where it is, for messages.

    Raises:
        ArgumentError: something is.
    """
    known = {id(node) for node in nodes}
    used = [(f"{node.line}: {node.spec.name} gets", own) for node in nodes for own in node.operands]
    used += [(f"{line}: the function returns", own) for own in results]
    for where, own in used:
        if isinstance(own, Value) and (
            own.index < 0 if own.node is None else id(own.node) not in known
        ):
            raise ArgumentError(
                f"{where} a value of a function of attention's scores, which there is for tiles of "
                "scores alone. Compute it outside of that function where it is needed outside."
            )


def steps_among(node: Node) -> str:
    """The steps that a node's launch does to scores; none: it has no function of these."""
    for launch in node.plan.launches:
        match = _STEPS.search(launch.source)
        if match:
            return match[1]
    return ""
