"""From call to launches: kernels whose results go through further operators before they are stored,
and scans of what operators give (`tails.at_places`), for fused functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from xtarget import spec

from .alongside import PLACES, PLACES_BEFORE
from .elementwise import shape_of
from .layouts import broadcast_strides
from .made import Made, computed_first
from .tails import apart

__all__ = ["TAKES_CHANNELS", "own_arguments", "placed", "read_through", "scanned", "stored_through"]

#: The kernels that take steps, and whether they know the channel of an element.
TAKES_CHANNELS: Final[Mapping[str, bool]] = {
    "convolution:direct": True,
    "convolution:implicit": True,
    "convolution:tapped": True,
    "shifted:shifted": True,
    "scans:scan": False,
}


def own_arguments(call: spec.Call, places: Sequence[int]) -> tuple[list[Any], list[bool]]:
    """The first arguments of a call at their places among a kernel's own, and whether each is
    aligned.
    """
    own: list[Any] = [spec.ABSENT] * (max(places) + 1)
    aligned = [False] * len(own)
    for index, place in enumerate(places):
        own[place] = call.args[index]
        aligned[place] = index < len(call.aligned) and call.aligned[index]
    return own, aligned


def inner_call(
    call: spec.Call,
    base: spec.KernelSpec,
    options: Mapping[str, Any],
    own: Sequence[Any],
    aligned: Sequence[bool],
) -> spec.Call:
    """The call of the kernel `base` within another one.

    Args:
        own: its arguments.
        aligned: whether each of them is, and then whether its outputs are.
    """
    return replace(
        call,
        kernel=base.name,
        args=tuple(own),
        options=options,
        out=None,
        outs=(),
        aligned=tuple(aligned) if call.aligned else (),
    )


def stored_through(
    steps: str,
    result: str,
    base: spec.KernelSpec,
    options: Mapping[str, Any],
    places: Sequence[int],
) -> Callable[[spec.Call], spec.Plan]:
    """The plan of a kernel of the first arguments whose result goes through `steps`, with the other
    arguments beside it.

    Args:
        steps: of the result, `a`, and of the others, `c` to `e`.
        result: dtype of what they give.
        options: of the kernel.
        places: of the first arguments among the kernel's own.
    """

    def plan(call: spec.Call) -> spec.Plan:
        heads = len(places)
        own, aligned = own_arguments(call, places)
        aligned += call.aligned[len(call.args) :]
        inner = inner_call(call, base, options, own, aligned)
        first = base.plan(replace(inner, aligned=inner.aligned[: len(own)]))
        made = first.outputs[0]
        out = call.output(
            shape_of(call, made.shape, *(arg.shape for arg in call.args[heads:])), result
        )
        if not out.size:
            return spec.Plan((out,), ())
        if out.shape == made.shape and first.launches:
            whole = base.plan(replace(inner, out=replace(out, dtype=made.dtype)))
            channels = out.ndim - 1 if options.get("channels_last") else 1
            beside = [_beside(call, index, out, channels) for index in range(heads, len(call.args))]
            moved = (placed(launch, places, spec.Output()) for launch in whole.launches)
            launches = [_through(launch, steps, beside) for launch in moved]
            found = tuple(launch for launch in launches if launch is not None)
            if len(found) == len(launches):
                return replace(whole, outputs=(out,), launches=found)
        # what stands elsewhere than the result, or goes on in no kernel: in a launch of its own
        between = spec.Temporary(len(first.temporaries))
        last = apart(call, steps, between, made, out, heads)
        return replace(
            first,
            outputs=(out,),
            launches=(*(placed(one, places, between) for one in first.launches), last),
            temporaries=(*first.temporaries, made),
            init=(),
            cleared=(*(None for _ in first.temporaries), *first.init) if first.init else (),
        )

    return plan


def read_through(
    steps: str,
    dtype: str,
    base: spec.KernelSpec,
    options: Mapping[str, Any],
    computed: Callable[[spec.Call], spec.Plan],
) -> Callable[[spec.Call], spec.Plan]:
    """The plan of a scan of what `steps` give.

    Args:
        steps: of the arguments, `a` to `d`.
        dtype: of what they give.
        base, options: the scan.
        computed: the plan of the steps alone.
    """

    def plan(call: spec.Call) -> spec.Plan:
        shape = shape_of(call, *(arg.shape for arg in call.args))
        x, count = call.args[0], len(call.args)
        inner = replace(call, kernel=base.name, options=options, aligned=())
        if isinstance(x, spec.ArrayType) and x.shape == shape:
            whole = base.plan(replace(inner, args=(replace(x, dtype=dtype),)))
            beside = [_beside(call, index, x, -1) for index in range(1, count)]
            known = all(way in ("number", "one", "alike") for way, *_ in beside)
            before = [one for one in whole.launches if one.source == "scans:scan"]
            if known and len(before) == len(whole.launches):
                launches = (_before(one, steps, beside) for one in before)
                return replace(whole, launches=tuple(launches))
        first = computed(replace(call, options={}, out=None, outs=()))
        own = base.plan(replace(inner, args=first.outputs))
        between = spec.Temporary(len(own.temporaries))
        launches = [
            *(_given(launch, spec.Output(), between) for launch in first.launches),
            *(_given(launch, spec.Input(0), between) for launch in own.launches),
        ]
        return replace(
            own, launches=tuple(launches), temporaries=(*own.temporaries, *first.outputs)
        )

    return plan


def scanned(
    made: Made,
    first: Callable[[spec.Call], spec.Plan],
    whole: Callable[[spec.Call], spec.Plan],
    steps: str,
    result: str,
    base: spec.KernelSpec,
    options: Mapping[str, Any],
) -> Callable[[spec.Call], spec.Plan]:
    """The plan of a scan of what operators give, whose result goes through `steps`.

    Args:
        made: what is scanned.
        first: the plan of the operators that give it, alone.
        whole: that of the scan and what follows, of what is scanned and the arguments behind.
        steps, result, base, options: as of `stored_through`.
    """
    behind = 1 + made.count

    def plan(call: spec.Call) -> spec.Plan:
        x = call.args[0]
        shape = shape_of(call, *(arg.shape for arg in call.args[:behind]))
        if options["axis"] is None and len(shape) != 1:  # the result is a vector
            return computed_first(call, made, 1, first, whole)
        out = call.output(shape_of(call, shape, *(a.shape for a in call.args[behind:])), result)
        known = ("number", "one", "alike")
        if isinstance(x, spec.ArrayType) and x.shape == shape == out.shape and out.size:
            given = replace(x, dtype=made.dtype)
            inner = replace(
                call,
                kernel=base.name,
                options=options,
                args=(given,),
                aligned=(),
                out=None,
                outs=(),
            )
            goal = replace(out, dtype=base.plan(inner).outputs[0].dtype)
            own = base.plan(replace(inner, out=goal))
            before = [_beside(call, index, x, -1) for index in range(1, behind)]
            after = [_beside(call, index, out, -1) for index in range(behind, len(call.args))]
            scans = all(launch.source == "scans:scan" for launch in own.launches)
            if scans and own.launches and all(way in known for way, *_ in (*before, *after)):
                launches = [_through(launch, steps, after) for launch in own.launches]
                found = tuple(_before(one, made.steps, before) for one in launches if one)
                return replace(own, outputs=(out,), launches=found)
        return computed_first(call, made, 1, first, whole)

    return plan


def _given(launch: spec.Launch, old: spec.Argument, new: spec.Argument) -> spec.Launch:
    """A launch with another array in the place of one."""
    args = {name: new if own == old else own for name, own in launch.args.items()}
    return replace(launch, args=args)


def placed(
    launch: spec.Launch, places: Sequence[int], goal: spec.Output | spec.Temporary
) -> spec.Launch:
    """A launch of the kernel's own plan, of the section's arguments, whose result is `goal`."""

    def own(argument: spec.Argument) -> spec.Argument:
        if isinstance(argument, spec.Input):
            return spec.Input(places.index(argument.index))
        return goal if isinstance(argument, spec.Output) else argument

    return replace(launch, args={name: own(arg) for name, arg in launch.args.items()})


def _beside(
    call: spec.Call, index: int, out: spec.ArrayType, channels: int
) -> tuple[str, spec.Argument, Any]:
    """How an argument stands beside the result, the argument, and the dtype of a number; `apart`:
    in a way that kernels do not know.

    Args:
        channels: the axis of a convolution's channels.
    """
    arg = call.args[index]
    if isinstance(arg, spec.ScalarType):
        return "number", spec.Input(index), spec.dtype_constant(arg.dtype)
    strides = broadcast_strides(arg, out.shape)
    pairs = list(zip(out.shape, strides, out.strides, strict=True))
    way = "apart"
    if all(n == 1 or own == step for n, own, step in pairs):
        way = "alike"
    elif all(n == 1 or own == 0 for n, own, _ in pairs):
        way = "one"
    elif len(pairs) > 2 and all(
        n == 1 or own == (1 if axis == channels else 0) for axis, (n, own, _) in enumerate(pairs)
    ):
        way = "channel"
    return way, spec.Input(index), None


def _through(
    launch: spec.Launch, steps: str, beside: Sequence[tuple[str, spec.Argument, Any]]
) -> spec.Launch | None:
    """A launch that stores what the steps give; as it is, where it does not store the result. None:
    its kernel cannot."""
    if spec.Output() not in launch.args.values():
        return launch
    channels = TAKES_CHANNELS.get(launch.source)
    known = ("number", "one", "alike", *(("channel",) if channels else ()))
    if channels is None or any(way not in known for way, *_ in beside):
        return None
    return _with(launch, f"({steps})", PLACES, beside)


def _before(
    launch: spec.Launch, steps: str, beside: Sequence[tuple[str, spec.Argument, Any]]
) -> spec.Launch:
    """A launch of a scan that reads what the steps give."""
    found = _with(launch, f"[{steps}]", PLACES_BEFORE, beside)
    return replace(found, constants={**found.constants, "BEFORE": True})


def _with(
    launch: spec.Launch,
    text: str,
    letters: str,
    beside: Sequence[tuple[str, spec.Argument, Any]],
) -> spec.Launch:
    """A launch with steps and what stands beside them.

    Args:
        text: of the steps, as its source has them.
        letters: of the parameters.
    """
    args: dict[str, spec.Argument] = dict(launch.args)
    constants: dict[str, Any] = dict(launch.constants)
    for letter, (way, argument, dtype) in zip(letters, beside, strict=False):
        del constants[letter]
        args[letter] = argument
        constants |= {f"s{letter}": dtype, letter.upper(): way}
    return replace(launch, source=f"{launch.source}{text}", args=args, constants=constants)
