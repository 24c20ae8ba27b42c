"""`xtarget.run`: look the call up, replay it; bind it the first time."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from . import _bind, _build, _env, _kernels, _registry, _streams
from ._arrays import is_scalar, kind_of
from ._call import BoundCall
from ._errors import ArgumentError
from ._types import Artifact, DeviceInfo, ProbeReport, Target
from .targets.base import Device

__all__ = ["compile", "default_device", "device", "devices", "probe", "run"]

#: Bound calls by kernel, layouts and options. Bounded: a server that sees ever new shapes binds
#: again after this many, which costs microseconds, not compilations.
_calls: dict[Hashable, BoundCall] = {}
_MOST_CALLS = 8192

# type -> how to describe its arrays; scalars get a describer of their own
_describers: dict[type, Any] = {}


def _describe_int(value: int) -> tuple[Any, Any]:
    # the width decides which dtypes it fits; 127 and -128 are both 7 bits wide
    return value, (int, (value if value >= 0 else ~value).bit_length(), value < 0)


def _describe_plain(value: Any) -> tuple[Any, Any]:
    return value, type(value)


def _describe_numpy_scalar(value: Any) -> tuple[Any, Any]:
    return value.item(), value.dtype


_describers[int] = _describe_int
_describers[float] = _describers[bool] = _describe_plain


def _describer(array: Any, kernel: str) -> Any:
    _kernels.find(kernel)  # a wrong name is said before a wrong argument
    cls = type(array)
    describe: Any
    if is_scalar(array) and hasattr(array, "dtype"):
        describe = _describe_numpy_scalar
    elif is_scalar(array):  # a subclass of Python's number types (an IntEnum)
        describe = _describe_int if isinstance(array, int) else _describe_plain
    else:
        describe = kind_of(array).describe
    _describers[cls] = describe
    return describe


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
        out: an array for the result. It may be a view; it must not overlap an argument.
        device: where to run data that lies on no device, by name (`nvidia:0`, `cpu`) or as a
            device object; None is `XTARGET_DEVICE`, else the first GPU, else the CPU.
        stream: where to launch: a stream object of torch, CuPy, cuda.core, dpctl, pyopencl or
            xtarget, or an integer handle. None is the stream that the caller's own work on the
            arrays goes to. While it is captured into a graph, give `out` as well, and have the
            arrays ready before: the launch waits for nothing outside of the graph.
        options: the kernel's options (`axis=0`).

    Returns:
        the result, an array of the first array argument's library on the same device (NumPy for
        NumPy), with NumPy's shape and dtype; `out` if it was given. Results on a device are
        ordered on the stream; results on the host are complete.

    Raises:
        UnknownKernelError, ArgumentError, NoDeviceError, CompileError, LoadError, LaunchError,
        OutOfMemoryError: see `xtarget.XTargetError`.
    """
    if device is not None and type(device) is not str:
        device = _registry.find_device(device)
    values = []
    key: list[Hashable] = [kernel, device]
    for value in args:
        describe = _describers.get(type(value)) or _describer(value, kernel)
        address, part = describe(value)
        values.append(address)
        key.append(part)
    if out is not None:
        describe = _describers.get(type(out)) or _describer(out, kernel)
        address, part = describe(out)
        values.append(address)
        key.append(part)
        key.append("out")
    if options:
        key.append(_options_key(options))
    known = tuple(key)
    call = _calls.get(known)
    if call is None or (
        device is None and call.synchronous and call.chosen_by != _env.default_device()
    ):
        call = _bound(known, kernel, args, out, device, options)
    on = None if stream is None else _streams.resolve(call.device, stream)
    if call.direct is None or call.current_stream is None or (stream is not None and out is None):
        return call.run(args, values, out, on)
    # the short way: one launch, arrays of one library, where it lies
    if out is None:
        result = call.new_output(call.plan.outputs[0], args)
        describe = _describers.get(type(result)) or _describer(result, kernel)
        values.append(describe(result)[0])
    else:
        result = out
        call.check_overlap(values)
    if on is None:
        on = call.current_stream() or call.device.default_stream
    call.direct(values, on)
    if call.synchronous:
        on.synchronize()
    return result


def _options_key(options: dict[str, Any]) -> Hashable:
    key = tuple(  # with the type: True and 1 and 1.0 are equal, but not the same option
        (name, type(value), tuple(value) if isinstance(value, list) else value)
        for name, value in sorted(options.items())
    )
    try:
        hash(key)
    except TypeError:
        wrong = ", ".join(f"{name}={value!r}" for name, value in options.items())
        raise ArgumentError(
            f"options are numbers, text, or tuples of these, not {wrong}. Arrays are positional "
            "arguments."
        ) from None
    return key


def _bound(
    key: Hashable,
    kernel: str,
    args: tuple[Any, ...],
    out: Any,
    device: Any,
    options: dict[str, Any],
) -> BoundCall:
    call = _bind.bind(kernel, args, out, device, options)
    if len(_calls) >= _MOST_CALLS:
        _calls.clear()
    _calls[key] = call
    return call


# A kernel that replaces another one of its name must not be served from here.
_kernels.on_change.append(_calls.clear)
_kept: list[dict[Hashable, BoundCall]] = []


def _in_forked_child() -> None:
    _kept.append(dict(_calls))
    _calls.clear()


_registry.after_fork.append(_in_forked_child)


def _drop_calls(device: str) -> None:
    for key in [k for k, call in list(_calls.items()) if call.device.info.name == device]:
        _calls.pop(key, None)


_registry.on_lost.append(_drop_calls)


def compile(
    kernel: str,
    /,
    *args: Any,
    target: str | Target,
    keep_stages: bool = False,
    **options: Any,
) -> tuple[Artifact, ...]:
    """Compile what a call would need, for any target, without its hardware.

    Args:
        kernel: name of the kernel.
        args: arrays as for `run`, or their layouts (`xtarget.spec.ArrayType`), or numbers.
        target: `nvidia:sm_90`, `amd:gfx942`, `intel:spirv64`, `h200`... (`Target.parse`).
        keep_stages: keep the text of every compiler stage in `Artifact.texts`.
        options: the kernel's options.

    Returns:
        an artifact for each launch of the call, in their order (nearly always one).

    Raises:
        UnknownKernelError, UnknownTargetError, ArgumentError, CompileError.
    """
    goal = Target.parse(target)
    registered = _kernels.find(kernel)
    requests = _bind.compile_requests(registered, args, options, goal)
    return tuple(_build.artifact(r, goal, keep_stages=keep_stages) for r in requests)


def device(name: str | None = None) -> Device:
    """A device, opened once per process; None is the default device.

    Raises:
        NoDeviceError: there is no such device; the message lists those there are.
    """
    return _registry.open_device(_registry.default_device() if name is None else name)


def default_device() -> DeviceInfo:
    """The device that data on no device runs on.

    Raises:
        NoDeviceError: there is no device at all; the message has every vendor's reason.
    """
    return _registry.open_device(_registry.default_device()).info


def probe() -> list[ProbeReport]:
    """Look for devices of every vendor, in child processes; each report has devices or a reason."""
    return _registry.probe_all()


def devices() -> list[DeviceInfo]:
    """All devices of this machine, in order of preference."""
    return [info for report in probe() for info in report.devices]
