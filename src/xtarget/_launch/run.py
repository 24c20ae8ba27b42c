"""`xtarget.run`: look the call up, replay it; bind it the first time."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, overload

from .. import _core
from .._arrays import Traced, adopt, is_scalar, kind_of
from .._arrays.native import read_natively, read_scalars_natively
from .._compile.apart import apart
from .._devices import registry, streams
from .._kernels import libraries
from .._system.importing import check_imported
from .._system.spans import span
from .._values import environment
from .._values.errors import ArgumentError, CompileError, FrozenError, shortened
from ..targets.optional import Capturable
from . import binding, native
from .arguments import deferred_among, placed, take
from .call import BoundCall, device_text
from .chosen import WORDS, run_by_host, run_chosen
from .classes import layouts_of
from .frozen_calls import frozen_call
from .interrupts import settle, unfinished
from .known import calls as _calls
from .known import checked as _checked
from .known import classes as _classes
from .known import first_time, forget, forget_calls, remember
from .lifetimes import keep_until_passed
from .outs import Outs, check_writable, describe_outs, outs_of
from .untold import UntoldError, found_in

if TYPE_CHECKING:
    from .._values.aliases import Args, Key, Options

__all__ = ["forget_calls", "run"]

#: Runs calls in the place of `run` while somebody observes them (`_launch.observe`).
observed: Callable[..., Any] | None = None
_Out = TypeVar("_Out")
#: Types of options whose equals are the same option.
_EXACT = frozenset((bool, int, str, type(None)))

# type -> how to describe its arrays; scalars get a describer of their own
_describers: dict[type, Any] = {}


def _describe_int(value: int) -> tuple[Any, Any]:
    # the width decides which dtypes it fits; 127 and -128 are both 7 bits wide
    bits = (value if value >= 0 else ~value).bit_length()
    if bits > 64:  # no integer dtype holds it: what is left is a float
        return _as_float(value), (int, bits, value < 0)
    return value, (int, bits, value < 0)


def _as_float(value: int) -> float:
    """Infinite where it is too large, as NumPy's conversion to its floats."""
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, 1 if value > 0 else -1)


def _describe_plain(value: Any) -> tuple[Any, Any]:
    return value, type(value)


def _describe_numpy_scalar(value: Any) -> tuple[Any, Any]:
    return value.item(), value.dtype


_describers[int] = _describe_int
_describers[float] = _describers[bool] = _describers[type(None)] = _describe_plain


_describers[Outs] = partial(describe_outs, _describers)


def _describe(value: Any) -> Any:
    """Return the object that represents an argument; register a describer for its class."""
    if is_scalar(value):
        if hasattr(value, "dtype"):
            _describers[type(value)] = _describe_numpy_scalar
            if _native is not None:
                read_scalars_natively(_native, type(value))
        else:  # a subclass of Python's number types (an IntEnum)
            is_int = isinstance(value, int)
            _describers[type(value)] = _describe_int if is_int else _describe_plain
        return value
    array = adopt(value)
    kind = kind_of(array)
    if isinstance(kind, Traced):
        kind.opaque(_run_in_python)
    _describers[type(array)] = kind.describe
    if _native is not None:
        read_natively(_native, array)
    return array


def _check_lasting(kernel: str, name: str, value: Any, adopted: Any) -> None:
    """Refuse to write to what offers a copy of its elements, where the result would be lost.

    Args:
        adopted: an array of what the value has offered, which holds that memory.

    Raises:
        ArgumentError: asked again, it offers other memory.
    """
    if adopted is value or is_scalar(value) or hasattr(value, "__cuda_array_interface__"):
        return  # that protocol tells where memory of a device lies
    again = adopt(value)
    if kind_of(again).describe(again)[0] != kind_of(adopted).describe(adopted)[0]:
        raise ArgumentError(
            f"{kernel}: {name} is a {type(value).__name__} that offers new memory each time it is "
            "asked for its elements, so what the kernel writes would be lost. Give an array."
        )


def _check_updated(
    kernel: str, args: Args, adopted: Sequence[Any], known: tuple[str, ...] = ()
) -> None:
    """`_check_lasting` of what a kernel updates.

    Args:
        known: of these, those that were checked.
    """
    spec = libraries.find(kernel).spec
    if spec.updates == known:
        return
    for written, value, array in zip(spec.inputs, args, adopted, strict=False):
        name = written.rstrip("?")
        if name in spec.updates and name not in known:
            _check_lasting(kernel, name, value, array)


def _run_adopted(
    kernel: str, args: Args, out: Any, device: Any, stream: Any, options: Options
) -> Any:
    """Run with what stands for the arguments; it lives until the launch is done with it."""
    args, options = placed(kernel, args, options)  # a wrong name is said before a wrong argument
    deferred = deferred_among(args)
    if deferred is not None:
        return take(deferred, kernel, args, out, device, stream, options)
    spec = libraries.find(kernel).spec
    adopted = [value if value is None else _describe(value) for value in args]
    adopted_out = out
    if isinstance(out, tuple | list | Mapping):
        adopted_out = outs_of(spec, out, partial(_adopted_to_write, kernel))
    elif out is not None:
        check_writable(kernel, "out", out)
        adopted_out = _describe(out)
    _check_updated(kernel, args, adopted)
    if out is not None and type(adopted_out) is not Outs:
        _check_lasting(kernel, "out", out, adopted_out)
    result = run(kernel, *adopted, out=adopted_out, device=device, stream=stream, **options)
    # stores that were not declared till now
    _check_updated(kernel, args, adopted, spec.updates)
    return result if out is None else out


def _run_apart(
    kernel: str, args: Args, out: Any, device: Any, stream: Any, options: Options
) -> Any:
    """Run with `compile=`."""
    mode = options.pop("compile")
    if mode != "async":
        raise ArgumentError(
            f'compile={shortened(mode)} is not known. compile="async" compiles in a process of its '
            "own; leave it out to compile here."
        )
    with apart():
        return run(kernel, *args, out=out, device=device, stream=stream, **options)


def _adopted_to_write(kernel: str, name: str, value: Any) -> Any:
    array = _describe(value)
    _check_lasting(kernel, name, value, array)
    return array


@overload
def run(
    kernel: str, /, *args: Any, out: _Out, device: Any = None, stream: Any = None, **options: Any
) -> _Out: ...
@overload
def run(
    kernel: str,
    /,
    *args: Any,
    out: None = None,
    device: Any = None,
    stream: Any = None,
    **options: Any,
) -> Any: ...
def run(
    kernel: str,
    /,
    *args: Any,
    out: Any = None,
    device: Any = None,
    stream: Any = None,
    **options: Any,
) -> Any:
    """Run a kernel of the catalog.

    Args:
        kernel: its name (`xtarget kernels` lists them).
        args: arrays of NumPy, torch, CuPy, dpctl or dpnp, `xtarget.asarray`, or anything with
            DLPack, `__cuda_array_interface__` or `__sycl_usm_array_interface__`; numbers where an
            array would broadcast. Views are used as they are; nothing on a device is copied.
        out: an array for the result. It may be a view. It must not overlap an argument, but may be
            an argument of an elementwise kernel, which then works in place.
        device: where to run data that lies on no device, by name (`nvidia:0`, `cpu`) or as a
            device object; None is `XTARGET_DEVICE`, else the first GPU, else the CPU.
        stream: where to launch: a stream object of torch, CuPy, cuda.core, dpctl, pyopencl or
            xtarget, or an integer handle. None is the stream that the caller's own work on the
            arrays goes to. While it is captured into a graph, give `out` as well, and have the
            arrays ready before: the launch waits for nothing outside of the graph.
        options: the kernel's options (`axis=0`). `compile="async"` is for every kernel: what has to
            be compiled is compiled in child processes, all launches of the call at the same time,
            and the call waits for these alone: neither for what other threads compile, nor for
            another process that compiles the same. It returns what it always does. `impl="..."`
            asks for another implementation of the operator (`xtarget kernels NAME` lists them;
            `impl="torch"` is torch's own call, `impl="host"` NumPy's reference), and
            `fallback="host"` lets NumPy's reference serve what the device lacks, which is said
            once. `config={"num_warps": 8}` asks for a configuration: some of the numbers that
            `xtarget explain` shows of the call, or the warps and stages of its launches.

    Returns:
        the result, an array of the first array argument's library on the same device (NumPy for
        NumPy), with NumPy's shape and dtype; `out` if it was given. Results on a device are
        ordered on the stream; results on the host are complete.

    Raises:
        UnknownKernelError, ArgumentError, NoDeviceError, CompileError, LoadError, LaunchError,
        OutOfMemoryError: see `xtarget.XTargetError`.
    """
    if options and type(kernel) is str:
        if not WORDS.isdisjoint(options):
            return run_chosen(run, kernel, args, out, device, stream, options)
        args, options = placed(kernel, args, options)
    if observed is not None:
        if "compile" in options:
            return _run_apart(kernel, args, out, device, stream, options)
        return observed(kernel, args, out, device, stream, options)
    if device is not None and type(device) is not str:
        device = registry.find_device(device)
    values = []
    key: list[Hashable] = [kernel, device]
    for value in args if out is None else (*args, out):
        describe = _describers.get(type(value))
        if describe is None:
            return _run_adopted(kernel, args, out, device, stream, options)
        address, part = describe(value)
        values.append(address)
        key.append(part)
    if out is not None:
        key.append("out")
    if options:
        if "compile" in options:
            return _run_apart(kernel, args, out, device, stream, options)
        key.append(_options_key(options))
    known = tuple(key)
    try:
        call = _calls.get(known)
    except Exception:  # whatever a hash raises
        libraries.find(kernel)  # refuses what is not a name, and may have no hash
        raise
    if call is None or (device is None and call.synchronous and call.chosen_by != device_text()):
        try:
            call = _bound(known, kernel, args, out, device, options, stream)
        except CompileError as error:
            return run_by_host(error, kernel, args, out, options)
        except UntoldError:
            told = found_in(kernel, args, device, stream, options)
            return run(kernel, *args, out=out, device=device, stream=stream, **told)
    for consent in call.consents:
        consent(args, out)
    on = None if stream is None else streams.resolve(call.device, stream)
    if out is not None:
        call.check_overlap(values)
        if call.written is not None:
            call.written(out)
    current = call.current_stream
    if call.direct is None or (stream is not None and (out is None or current is None)):
        return call.run(args, values, out, on)
    if current is None:
        on = call.one_stream(args, out)
        if on is None:
            return call.run(args, values, out, None)
    # the short way: one launch, arrays of one library, where it lies
    if out is None:
        result = call.new_output(call.outputs[0], args)
        values.append(call.kind.describe(result)[0])
    else:
        result = out
    held = None
    if on is None:
        on = current() or call.device.default_stream  # type: ignore[misc]  # `on` is set where there is none
    elif stream is not None and not call.synchronous:
        held = call.hold(args, (result,), on, explicit=True)
    try:
        call.direct(values, on)
        if call.synchronous:
            on.synchronize()
        elif held and not (isinstance(on, Capturable) and on.capturing()):
            keep_until_passed(on, held)
    except BaseException:
        unfinished.append(entry := [on, args, result])
        settle(entry)
        raise
    return result


def observe_with(function: Callable[..., Any] | None) -> None:
    """Have a function make the calls, and prepared launches be made by Python; None: no longer."""
    global observed
    observed = function
    if _native is not None:
        _native.observe(function is not None)


_run_in_python = run
#: The compiled core; None: there is none.
_native = _core.native()
#: The base class of prepared launches in the core.
launcher: Any = None if _native is None else _native.Launcher
#: That of kernel objects, which is made of `run` and a name, as a partial is.
named: Any = None if _native is None else _native.Kernel
if _native is not None:
    run, _in_core = native.install(_native, run, globals())


def _option_part(value: Any) -> tuple[Any, ...]:
    """Tell an option from what Python takes for its equal: True, 1 and 1.0, or -0.0 and 0.0."""
    kind = type(value)
    if kind is list or kind is tuple:
        return (kind, *map(_option_part, value))
    if isinstance(value, float):
        return kind, repr(value)
    return (kind, value) if kind in _EXACT else (kind, value, repr(value))


def _options_key(options: Options) -> Hashable:
    try:
        key = tuple((name, *_option_part(value)) for name, value in sorted(options.items()))
        hash(key)
    except Exception:  # TypeError, a ValueError of a memoryview, and what a class makes of it
        wrong = ", ".join(f"{name}={shortened(value)}" for name, value in options.items())
        raise ArgumentError(
            f"options are numbers, text, or tuples of these, not {wrong}. Arrays are arguments: "
            "give them by their places, or by the names that `help` shows."
        ) from None
    return key


def call_of(
    key: Key, kernel: str, args: Args, out: Any, device: Any, options: Options, stream: Any = None
) -> BoundCall:
    """The bound call of a key, as `run` finds it, for who keeps it (`lookup`, `native`)."""
    call = _calls.get(key)
    if call is None or (device is None and call.synchronous and call.chosen_by != device_text()):
        call = _bound(key, kernel, args, out, device, options, stream, lasting=True)
    return call


def _bound(
    key: Key,
    kernel: str,
    args: Args,
    out: Any,
    device: Any,
    options: Options,
    stream: Any,
    *,
    lasting: bool = False,
) -> BoundCall:
    """Bind a call, or resize one of its class.

    Args:
        stream: where it is going to be launched, as `run` is given it.
        lasting: it is going to be kept.
    """
    checked = _checked.get(key)
    if checked is not None and all(holds() for holds in checked.checks):
        stays = device is not None or not checked.synchronous
        if stays or checked.chosen_by == device_text():
            return checked
    arrays = args if out is None else (*args, out)
    layouts = layouts_of(key, arrays, device_text() if device is None else None)
    if layouts is not None:
        once = not lasting and first_time(key)
        call = _classes.find(layouts, once=once)
        if call is not None:
            return call if once else remember(key, call)
    check_imported()
    registered = libraries.find(kernel)
    if layouts is not None and not _classes.wanted(layouts):
        layouts = None
    if registered.spec.configs and environment.tune_calls():
        # by name: it makes launches of its own, so it stands above this file
        tuning = import_module(f"{__package__}.tuning")
        tuning.tune_first(kernel, args, out, device, stream, dict(options))
    try:
        with span("bind", kernel):
            call, entry = binding.bind(kernel, args, out, device, options, layouts)
    except FrozenError as error:
        bound = _classes.tracers(layouts)
        raise frozen_call(error, kernel, args, out, options, bound) from error
    remember(key, call)
    if entry is not None and layouts is not None:
        _classes.add(layouts, entry)
    if libraries.find(kernel) is not registered:  # it was replaced meanwhile
        forget(registered.spec.name)
    return call


if "triton.knobs" in sys.modules:  # its hooks may be older than this module
    # by name: observers stand above this file
    import_module(f"{__package__}.triton_hooks").follow()
