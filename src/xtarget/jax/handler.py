"""The handler of XLA's custom calls: it launches what the call's text says on XLA's memory.

It is one C function for all kernels, and stands on XLA's C interface alone: nothing is compiled
here. The kernel's name, numbers and options are an attribute of the call, so a program that JAX has
kept on disk means the same in another process. On a GPU the launch is on XLA's stream.

Source: `xla/ffi/api/c_api.h`, version 0.3 (structures grow at their ends); jax.ffi.
"""

from __future__ import annotations

import ctypes
import json
import math
from functools import cache
from threading import Lock
from typing import Any, Final

import jax
import numpy as np

from .._arrays import View, know
from .._arrays.cuda_interface import KIND as CUDA
from .._arrays.cuda_interface import CudaArray
from .._arrays.dtypes import numpy_dtype
from .._kernels import libraries
from .._launch.run import run
from .._values.errors import ArgumentError, XTargetError
from ..spec import ArrayType, contiguous_strides

__all__ = ["TARGET", "register"]

TARGET: Final = "xtarget.run"
_EXECUTE: Final = 3  # XLA_FFI_ExecutionStage_EXECUTE
_METADATA: Final = 1  # XLA_FFI_Extension_Metadata
_INVALID_ARGUMENT, _INTERNAL = 3, 13  # XLA_FFI_Error_Code
#: XLA_FFI_DataType to ours.
_DTYPES: Final = {
    1: "bool",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "uint8",
    7: "uint16",
    8: "uint32",
    9: "uint64",
    10: "float16",
    11: "float32",
    12: "float64",
    16: "bfloat16",
}

_Size, _Pointer = ctypes.c_size_t, ctypes.c_void_p
_BASE: Final = (("struct_size", _Size), ("extension_start", _Pointer))


class _Extension(ctypes.Structure):
    _fields_ = (("struct_size", _Size), ("type", ctypes.c_int), ("next", _Pointer))


class _Version(ctypes.Structure):
    _fields_ = (*_BASE, ("major", ctypes.c_int), ("minor", ctypes.c_int))


class _Metadata(ctypes.Structure):
    _fields_ = (
        ("struct_size", _Size),
        ("version", _Version),
        ("traits", ctypes.c_uint32),
        ("state_type", ctypes.c_int64),
    )


class _MetadataExtension(ctypes.Structure):
    _fields_ = (("base", _Extension), ("metadata", ctypes.POINTER(_Metadata)))


class _Buffer(ctypes.Structure):
    _fields_ = (
        *_BASE,
        ("dtype", ctypes.c_int),
        ("data", _Pointer),
        ("rank", ctypes.c_int64),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
    )


class _Span(ctypes.Structure):
    _fields_ = (("ptr", _Pointer), ("len", _Size))


class _Buffers(ctypes.Structure):
    """XLA_FFI_Args and XLA_FFI_Rets."""

    _fields_ = (
        *_BASE,
        ("size", ctypes.c_int64),
        ("types", _Pointer),
        ("items", ctypes.POINTER(ctypes.POINTER(_Buffer))),
    )


class _Attributes(ctypes.Structure):
    _fields_ = (
        *_BASE,
        ("size", ctypes.c_int64),
        ("types", _Pointer),
        ("names", _Pointer),
        ("items", ctypes.POINTER(ctypes.POINTER(_Span))),
    )


class _Frame(ctypes.Structure):
    _fields_ = (
        *_BASE,
        ("api", _Pointer),
        ("context", _Pointer),
        ("stage", ctypes.c_int),
        ("args", _Buffers),
        ("rets", _Buffers),
        ("attrs", _Attributes),
    )


class _ErrorArgs(ctypes.Structure):
    _fields_ = (*_BASE, ("message", ctypes.c_char_p), ("code", ctypes.c_int))


class _StreamArgs(ctypes.Structure):
    _fields_ = (*_BASE, ("context", _Pointer), ("stream", _Pointer))


_Function = ctypes.CFUNCTYPE(_Pointer, _Pointer)


class _Api(ctypes.Structure):
    """The first of XLA's functions."""

    _fields_ = (
        *_BASE,
        ("version", _Version),
        ("internal", _Pointer),
        ("error_create", _Function),
        ("error_get_message", _Pointer),
        ("error_destroy", _Pointer),
        ("handler_register", _Pointer),
        ("stream_get", _Function),
    )


@cache
def _read(text: bytes) -> tuple[str, list[Any], dict[str, Any], list[int]]:
    """The call behind an attribute: kernel, arguments ({} for an array), options, updates."""
    call = json.loads(text)
    libraries.rely_on_updates(call["kernel"])  # a program of another process may hold the call
    options = {name: _tuples(value) for name, value in call["options"].items()}
    return call["kernel"], call["args"], options, call["updates"]


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _on_host(buffer: _Buffer, frame: _Frame) -> Any:
    shape, dtype = tuple(buffer.dims[: buffer.rank]), numpy_dtype(_DTYPES[buffer.dtype])
    size = math.prod(shape) * dtype.itemsize
    if not size:
        return np.empty(shape, dtype)
    memory = (ctypes.c_char * size).from_address(buffer.data)
    return np.frombuffer(memoryview(memory), dtype).reshape(shape)


def _on_cuda(buffer: _Buffer, frame: _Frame) -> Any:
    from .._devices.registry import locate

    shape = tuple(buffer.dims[: buffer.rank])
    type_ = ArrayType(_DTYPES[buffer.dtype], shape, contiguous_strides(shape))
    know(CudaArray, CUDA)
    place = locate("nvidia", buffer.data) if buffer.data else "nvidia:0"
    return CudaArray(None, View(CUDA, None, buffer.data or 0, type_, place, True), None)


def _stream(frame: _Frame) -> int:
    asked = _StreamArgs(ctypes.sizeof(_StreamArgs), None, frame.context, None)
    if _Api.from_address(frame.api).stream_get(ctypes.addressof(asked)):
        raise XTargetError("XLA does not say on which stream it works.")
    return asked.stream or 0


def _launch(frame: _Frame, platform: str) -> None:
    span = frame.attrs.items[0][0]
    name, args, options, updates = _read(ctypes.string_at(span.ptr, span.len))
    view = _on_host if platform == "cpu" else _on_cuda
    given = [view(frame.args.items[n][0], frame) for n in range(frame.args.size)]
    made = [view(frame.rets.items[n][0], frame) for n in range(frame.rets.size)]
    for place, array in zip(updates, made[len(made) - len(updates) :], strict=True):
        given[place] = array  # XLA has put the argument's elements there
    outs = made[: len(made) - len(updates)]
    arrays = iter(given)
    taken = [next(arrays) if arg == {} else arg for arg in args]
    where: dict[str, Any] = {"device": "cpu"} if platform == "cpu" else {"stream": _stream(frame)}
    if len(outs) > 1 and not libraries.find(name).spec.outputs:  # `out` takes names only
        for out, result in zip(outs, run(name, *taken, **where, **options), strict=True):
            run("copy", result, out=out, **where)
        return
    if outs:
        where["out"] = outs[0] if len(outs) == 1 else tuple(outs)
    run(name, *taken, **where, **options)


def _handler(platform: str) -> Any:
    def handle(address: int) -> int | None:
        frame = _Frame.from_address(address)
        if frame.extension_start:
            extension = _MetadataExtension.from_address(frame.extension_start)
            if extension.base.type == _METADATA:
                metadata = extension.metadata[0]
                version = _Api.from_address(frame.api).version
                metadata.version.major, metadata.version.minor = version.major, version.minor
                metadata.traits = 0
                return None
        try:
            if frame.stage == _EXECUTE:
                _launch(frame, platform)
        except BaseException as error:  # nothing may pass through XLA's frames
            code = _INVALID_ARGUMENT if isinstance(error, ArgumentError) else _INTERNAL
            said = str(error) if isinstance(error, XTargetError) else repr(error)
            return _error(frame, said, code)
        return None

    return _Function(handle)


def _error(frame: _Frame, message: str, code: int) -> int | None:
    args = _ErrorArgs(ctypes.sizeof(_ErrorArgs), None, message.encode(), code)
    made: int | None = _Api.from_address(frame.api).error_create(ctypes.addressof(args))
    return made


_lock = Lock()
_handlers: dict[str, Any] = {}


def register() -> None:
    """Make the handler known to XLA, once a process."""
    if _handlers:
        return
    with _lock:
        if not _handlers:
            made = {"cpu": _handler("cpu"), "CUDA": _handler("CUDA")}
            for platform, handler in made.items():
                capsule = jax.ffi.pycapsule(ctypes.cast(handler, _Pointer).value)
                jax.ffi.register_ffi_target(TARGET, capsule, platform=platform)
            _handlers.update(made)
