"""Prepared launches: `launch = xtarget.get("add").prepare(a, b, out=o)`, then `launch()`.

A prepared launch holds its arrays, its binary and its grid. Each launch asks only what can have
changed since: that the arrays are where they were, and that the device is still there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .._arrays import Movable, TracksWrites, adopt, kind_of, view_of
from .._devices import registry, streams
from .._kernels import libraries
from .._system.locks import Lock
from .._values.errors import ArgumentError, DeviceLostError, shortened
from .._values.value_classes import value_class
from ..targets.base import Stream
from ..targets.optional import Capturable
from . import lookup, native
from . import run as _run
from .arguments import placed
from .chosen import chosen
from .interrupts import settle, unfinished
from .lifetimes import keep_until_passed
from .lookup import Found
from .outs import Outs

if TYPE_CHECKING:
    from .._values.aliases import Args

__all__ = ["Prepared"]

#: Another object after each loss of a device (it was closed, or this is the child of a fork): the
#: next launch looks whether its own device is still open.
_losses = object()
_losses_lock = Lock()
#: Launches in the place of a prepared launch while somebody observes (`_launch.observe`).
_observed: Callable[..., Any] | None = None


def observe_with(function: Callable[..., Any] | None) -> None:
    """Have a function make the launches; None: they make themselves again."""
    global _observed
    _observed = function


def _count_loss(device: str = "") -> None:
    global _losses
    with _losses_lock:
        _losses = object()
        if _run._native is not None:
            _run._native.lose(_losses)


_count_loss()
registry.on_lost.append(_count_loss)
registry.after_fork.append(_count_loss)


@value_class(frozen=True, slots=True)
class _Held:
    """The state of a prepared launch. It is replaced as a whole, so that a thread that launches
    meanwhile has the old or the new one.

    Attributes:
        found: the call. Its `out` is the caller's, or the array that was made for the result.
        result: what a launch returns; None: what the call itself returns.
        places: what gives an array's address, the address that is launched with, and its name.
        written: tells the library of `out` that it is written to.
        losses: what `_losses` was when the device was known to be open.
    """

    found: Found
    result: Any
    places: tuple[tuple[Callable[[], int], int, str], ...]
    written: Callable[[Any], None] | None
    losses: object


class _InPython:
    """A prepared launch without the compiled core."""

    _launch: Callable[..., Any]

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self._launch(*given, **named)


class Prepared(_run.launcher or _InPython):  # type: ignore[misc]
    """A launch with its arrays: call it to launch.

    It keeps its arrays alive, and the code that it was prepared with: values that the kernel reads
    beside its arguments are as they were then. Threads may share it.

    Attributes:
        kernel: the kernel's name.
        device: the name of the device that it launches on.
        out: what a launch returns: the caller's `out`, or the array that it made for the result.
            None for kernels without a result, and for those with several, which are new arrays at
            each launch.
    """

    def __init__(
        self,
        kernel: str,
        args: Args,
        out: Any,
        device: Any,
        stream: Any,
        options: Mapping[str, Any],
    ) -> None:
        self._device, self._options = device, dict(options)
        self.kernel = kernel = chosen(kernel, self._options)
        self._lock = Lock()
        args, self._options = placed(kernel, args, self._options)
        losses = _losses
        found = lookup.find(kernel, args, out, device, self._options, stream)
        spec = libraries.find(kernel).spec
        self._names = [name.rstrip("?") for name in spec.inputs[: len(args)]]
        self._written = [name for name in self._names if name in spec.updates]
        self._given_out = out is not None
        self._stream = None if stream is None else streams.resolve(found.call.device, stream)
        result = out
        if out is None and len(found.call.outputs) == 1:
            found, result = self._with_result(found)
        found.check()
        self._keep(self._hold(found, result, losses))

    def _keep(self, held: _Held) -> None:
        """Launch with this from now on."""
        self._held = held
        if _run.launcher is not None:
            found, offered = held.found, None
            arrays = found.arrays
            if self._stream is None and len(arrays) == found.call.takes:
                offered = native.described(found.call, arrays, given=True, written=held.written)
            given = (found.args, found.out, held.result, found.all_values)
            self._arm(_run._native, held.losses, offered, *given)

    def _with_result(self, found: Found) -> tuple[Found, Any]:
        """Make the array that each launch writes, in memory that earlier work is done with."""
        call = found.call
        made = call.new_output(call.outputs[0], found.args)
        result = made
        finish = getattr(call.kind, "finish", None)  # kinds that can only take arrays in
        if finish is not None and call.like is not None:
            result = finish(made, found.args[call.like])
        out = adopt(made)
        # work of the stream that gave the memory may still be using it for what was there before,
        # and a launch may go to any stream
        source = None if call.synchronous else kind_of(out).current_stream(call.device, out)
        if source is not None and not (isinstance(source, Capturable) and source.capturing()):
            source.synchronize()
        values = (*found.values, kind_of(out).describe(out)[0])
        return replace(found, out=out, values=values), result

    def _hold(self, found: Found, result: Any, losses: object) -> _Held:
        places = []
        arrays = [*zip(self._names, found.args, strict=True), ("out", found.out)]
        values = list(found.values)
        if type(found.out) is Outs:
            arrays[-1:] = [(f"out[{number}]", array) for number, array in enumerate(found.out)]
            values[-1:] = found.values[-1]
        for (name, array), address in zip(arrays, values, strict=False):
            kind = lookup.kind_if_array(array)
            if isinstance(kind, Movable):
                places.append((kind.address_now(array), address, name))
        written = None
        if found.out is not None and type(found.out) is not Outs:
            kind = kind_of(found.out)
            written = kind.written if isinstance(kind, TracksWrites) else None
        return _Held(found, result, tuple(places), written, losses)

    @property
    def device(self) -> str:
        return self._held.found.call.device.info.name

    @property
    def out(self) -> Any:
        return self._held.result

    def _launch(self, *given: Any, stream: Any = None, **named: Any) -> Any:
        """Launch.

        Args:
            given, named: refused; a call of the launch takes `stream` alone.
            stream: where, for this time; None is the stream that it was prepared with, else the one
                that the caller's own work on the arrays goes to.

        Returns:
            `out`.

        Raises:
            ArgumentError: an array has other memory than when it was prepared, or the stream is
                none of the device.
            TypeError: it is given anything but a stream.
            DeviceLostError: the device was lost or closed.
            LaunchError, OutOfMemoryError: see `xtarget.run`.
        """
        if given or named:
            raise self._not_taken(given, named)
        held = self._held
        if held.losses is not _losses:
            held = self._checked()
        found = held.found
        call = found.call
        for address_now, address, name in held.places:
            if address_now() != address:
                raise self._moved(name)
        args, out = found.args, found.out
        for consent in call.consents:
            consent(args, out)
        if held.written is not None:
            held.written(out)
        on = self._stream if stream is None else streams.resolve(call.device, stream)
        current = call.current_stream
        if _observed is not None:
            returned = _observed(self.kernel, found, on, self._options, time.perf_counter())
            return returned if out is None else held.result
        if call.direct is None or out is None or (on is not None and current is None):
            return self._launch_whole(held, on)
        kept = None
        if current is None:
            on = call.one_stream(args, out)
            if on is None:
                return self._launch_whole(held, None)
        elif on is None:
            on = current() or call.device.default_stream
        elif not call.synchronous:
            kept = call.hold(args, (out,), on, explicit=True)
        try:
            call.direct(found.values, on)
            if call.synchronous:
                on.synchronize()
            elif kept and not (isinstance(on, Capturable) and on.capturing()):
                keep_until_passed(on, kept)
        except BaseException:
            unfinished.append(entry := [on, args, out])
            settle(entry)
            raise
        return held.result

    def _launch_whole(self, held: _Held, on: Stream | None) -> Any:
        found = held.found
        returned = found.call.run(found.args, list(found.values), found.out, on)
        return returned if found.out is None else held.result

    def waits(self) -> tuple[Callable[[], None], Stream | None]:
        """A function that waits for all launches, and their stream; None: launches are complete
        when they return, or each array has a stream of its own."""
        call = self._held.found.call
        if call.synchronous:
            return lambda: None, None
        stream = self._stream
        if stream is None and call.current_stream is not None:
            stream = call.current_stream() or call.device.default_stream
        return call.device.synchronize, stream

    def update(self, /, **changed: Any) -> Prepared:
        """Put other arrays, or other numbers, in the place of those that it has.

        Args:
            changed: by the names of the kernel's arguments, and `out` (of several results, all of
                them): arrays of the same library, dtype, layout and device.

        Returns:
            this launch.

        Raises:
            ArgumentError: there is no such argument, or the array differs in more than its place
                and its values: prepare a launch again. The launch is then as it was.
        """
        with self._lock:
            held = self._held
            losses, found = _losses, held.found
            args, out, values, result = list(found.args), found.out, list(found.values), held.result
            parts, again = list(found.parts), False
            for name, value in changed.items():
                index = self._index(name)
                old = out if index == len(args) else args[index]
                new = (
                    lookup.adopted_out(self.kernel, value)
                    if index == len(args)
                    else lookup.adopted(self.kernel, name, value, written=name in self._written)
                )
                values[index], part = lookup.described(new)
                kinds = map(lookup.kind_if_array, (old, new))
                if part != parts[index] or len(set(kinds)) > 1:
                    again |= self._check_like(name, old, new)
                parts[index] = part
                if index == len(args):
                    out, result = new, value
                else:
                    args[index] = new
            if again:  # a number of another size or type
                given = out if self._given_out else None
                call = lookup.find(self.kernel, tuple(args), given, self._device, self._options)
                if call.call.outputs != found.call.outputs:
                    raise ArgumentError(
                        f"{self.kernel}: with these numbers the result is of another dtype or "
                        "shape. Prepare the launch again."
                    )
                found = replace(found, call=call.call)
            found = replace(
                found, args=tuple(args), out=out, values=tuple(values), parts=tuple(parts)
            )
            found.check()
            self._check_device()
            self._keep(self._hold(found, result, losses))
        return self

    def _index(self, name: str) -> int:
        """The place of an argument's value; that of `out` comes after those of the arguments."""
        if name in self._names:
            return self._names.index(name)
        if name == "out" and self._given_out:
            return len(self._names)
        if name == "out":
            raise ArgumentError(
                f"{self.kernel}: this launch was prepared without out. Prepare it again, with out=."
            )
        known = ", ".join([*self._names, *(["out"] if self._given_out else [])])
        raise ArgumentError(
            f"{self.kernel}: this launch has no argument {shortened(name)}; it has {known}."
        )

    def _check_like(self, name: str, old: Any, new: Any) -> bool:
        """Refuse what is not of the same layout; say whether the call has to be looked up again."""
        if lookup.kind_if_array(old) is None and lookup.kind_if_array(new) is None:
            return True
        was, now = _told(old), _told(new)
        if was == now:
            now = f"{now}, but aligned otherwise in memory, or not writable"
        raise ArgumentError(
            f"{self.kernel}: {name} was prepared as {was}, and is now {now}. Prepare the launch "
            "again for it."
        )

    def _checked(self) -> _Held:
        """The state after a loss of a device that was not its own."""
        with self._lock:
            losses = _losses
            self._check_device()
            held = replace(self._held, losses=losses)
            self._keep(held)
        return held

    def _check_device(self) -> None:
        device = self._held.found.call.device
        if registry.is_lost(device):
            raise DeviceLostError(
                f"{self.kernel}: the launch was prepared on {device.info.name}, which was closed "
                "or lost, with all that was on it. Make its arrays again, and prepare it again."
            )

    def _moved(self, name: str) -> ArgumentError:
        return ArgumentError(
            f"{self.kernel}: the memory of {name} was freed or moved since the launch was prepared "
            "(by a resize of the array, for one). Give the array again: "
            f"launch.update({name.partition('[')[0]}=...)."
        )

    def _not_taken(self, given: Args, named: Mapping[str, Any]) -> TypeError:
        what = next(iter(named), None) or shortened(given[0])
        name = next(iter(self._names), "out")
        return TypeError(
            f"{self.kernel}: a prepared launch is called without arguments, but for stream=, not "
            f"with {what}. Change what it has: launch.update({name}=...)."
        )

    def __repr__(self) -> str:
        found = self._held.found
        arguments = [f"{n}={_told(a)}" for n, a in zip(self._names, found.args, strict=True)]
        if self._given_out:
            arguments.append(f"out={_told(found.out)}")
        arguments += [f"{name}={value!r}" for name, value in self._options.items()]
        return f"<xtarget.Prepared {self.kernel}({', '.join(arguments)}) on {self.device}>"

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{self.kernel}: a prepared launch cannot be pickled or copied: it holds memory and "
            "code of this process. Prepare another one."
        )


def _told(value: Any) -> str:
    """An argument for people: `float32 (4, 5) of NumPy`."""
    if type(value) is Outs:
        return f"({', '.join(map(_told, value))})"
    if lookup.kind_if_array(value) is None:
        return repr(value)
    view = view_of(value)
    type_ = view.type
    strides = "" if type_.contiguous else f", strides {type_.strides} elements"
    where = "" if view.place is None else f" on {view.place}"
    return f"{type_.dtype} {type_.shape}{strides} of {view.kind.name}{where}"
