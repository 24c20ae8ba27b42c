"""The classes of calls that a program uses, as a file: `XTARGET_RECORD=profile.json`.

Each entry says what decides about the binaries of a call: kernel, options, and of each argument
dtype, layout, alignment and where it lies, with the sizes of the first call and the guards under
which its class serves others. The file is whole after each write, and processes may share it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .._arrays import View
from .._arrays.dtypes import numpy_dtype
from .._arrays.host import KIND as HOST
from .._kernels.libraries import RegisteredKernel
from .._system import files
from .._system.locks import Lock
from .._values import environment
from .._values.errors import ArgumentError, shortened
from .._values.types import DTYPES, DeviceInfo, Target
from .._values.value_classes import value_class
from ..spec import ArrayType
from . import binding

__all__ = ["UsedClass", "begin_from_environment", "read_profile"]

_FORMAT = "xtarget profile 1"
_MOST_BYTES = 64 << 20
#: What of a device decides about plans and binaries.
_FACTS = {
    "name": str,
    "product": str,
    "driver_version": str,
    "memory_bytes": int,
    "compute_units": int,
    "warp_size": int,
    "max_threads_per_block": int,
    "max_shared_bytes": int,
    "host_memory": bool,
    "fp64": bool,
}
_NUMBERS: dict[str, Any] = {"bool": lambda text: text == "True", "int": int, "float": float}


# --------------------------------------------------------------------------------------- entries


def _described(value: Any, view: View | None) -> dict[str, Any]:
    if view is not None:
        type_ = view.type
        return {
            "dtype": type_.dtype,
            "shape": list(type_.shape),
            "strides": list(type_.strides),
            "aligned": view.address % 16 == 0,
            "on_device": view.place is not None,
            "writable": view.writable,
        }
    if hasattr(value, "dtype"):
        return {"number": str(value.item()), "type": str(value.dtype)}
    for kind in (bool, int, float):
        if isinstance(value, kind):
            return {"number": str(kind(value)), "type": kind.__name__}
    raise TypeError(f"{type(value).__name__} is not a number")


def _identity(entry: Mapping[str, Any]) -> str:
    """The same for all calls of a class: without their sizes, if there are guards on these."""
    if entry["guards"] is None:
        return json.dumps(entry, sort_keys=True)

    def without_sizes(one: Any) -> Any:
        if one is None or "shape" not in one:
            return one and {**one, "number": len(one["number"])}
        shape, strides = tuple(one["shape"]), tuple(one["strides"])
        contiguous = ArrayType(one["dtype"], shape, strides).contiguous
        return {**one, "shape": len(shape), "strides": contiguous}

    args = [without_sizes(one) for one in entry["args"]]
    return json.dumps({**entry, "args": args, "out": without_sizes(entry["out"])}, sort_keys=True)


@value_class(frozen=True, slots=True)
class UsedClass:
    """An entry, ready to be planned.

    Attributes:
        kernel: its name.
        origin: where it was registered: a folder, a file.
        info: of the device; only what plans look at is right.
    """

    kernel: str
    origin: str
    args: tuple[Any, ...]
    views: tuple[View | None, ...]
    out_view: View | None
    options: dict[str, Any]
    info: DeviceInfo

    @classmethod
    def of(cls, entry: Any) -> UsedClass:
        """Raises KeyError, TypeError, ValueError, XTargetError: it is none."""
        device = entry["device"]
        facts = {name: _fact(device, name) for name in _FACTS}
        info = DeviceInfo(
            target=Target.parse(device["target"]),
            compile_options=dict(device["compile_options"]),
            **facts,
        )
        parts = [_restored(one, info) for one in entry["args"]]
        out = None if entry["out"] is None else _restored(entry["out"], info)[1]
        options = {
            str(name): tuple(value) if isinstance(value, list) else value
            for name, value in entry["options"].items()
        }
        return cls(
            str(entry["kernel"]),
            str(entry["origin"]),
            tuple(value for value, _ in parts),
            tuple(view for _, view in parts),
            out,
            options,
            info,
        )


def _fact(device: Mapping[str, Any], name: str) -> Any:
    value = device[name]
    if type(value) is not _FACTS[name] or (type(value) is int and value < 0):
        raise ValueError(f"{name} of its device is {shortened(value)}")
    return value


def _restored(one: Mapping[str, Any], info: DeviceInfo) -> tuple[Any, View | None]:
    """A number; or what stands for an array, which has no memory."""
    if "number" in one:
        kind = one["type"]
        if kind in _NUMBERS:
            return _NUMBERS[kind](one["number"]), None
        return numpy_dtype(kind).type(one["number"]), None
    shape, strides = tuple(map(int, one["shape"])), tuple(map(int, one["strides"]))
    if one["dtype"] not in DTYPES or len(shape) != len(strides):
        raise ValueError("an array without a layout")
    type_ = ArrayType(one["dtype"], shape, strides)
    address = 0 if one["aligned"] else type_.itemsize
    place = info.name if one["on_device"] else None
    view = View(HOST, None, address, type_, place, bool(one["writable"]))
    return view, view


# -------------------------------------------------------------------------------------- the file


def _entries(path: Path) -> list[dict[str, Any]]:
    """Raises OSError, ValueError: it cannot be read, or is not a profile."""
    data = files.read_regular(path, _MOST_BYTES + 1)
    if not data:
        return []
    content = json.loads(data) if len(data) <= _MOST_BYTES else None
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise ValueError
    classes = content["classes"]
    if not isinstance(classes, list):
        raise ValueError
    return classes


def read_profile(path: Path) -> list[UsedClass]:
    """The classes that a profile lists.

    Raises:
        ArgumentError: it cannot be read, or is damaged; the message says what to do.
    """
    try:
        found = _entries(path)
    except OSError as error:
        raise ArgumentError(
            f"the profile {path} cannot be read: {error.strerror or error}. Record one: run the "
            f"program with XTARGET_RECORD={path}."
        ) from error
    except (ValueError, KeyError, RecursionError) as error:
        raise ArgumentError(_no_profile(path)) from error
    classes = []
    for number, entry in enumerate(found, 1):
        try:
            classes.append(UsedClass.of(entry))
        except Exception as error:  # whatever stands there in the place of an entry
            raise ArgumentError(
                f"{path}: its entry {number} is damaged ({type(error).__name__}: "
                f"{shortened(str(error))}). Remove it, or record the profile again."
            ) from error
    return classes


def _no_profile(path: Path) -> str:
    return (
        f"{path} is not a profile of this version of xtarget. Name another file, or remove it and "
        "record it again with XTARGET_RECORD."
    )


class _Recorder:
    """Adds the classes of this process to the file.

    Raises:
        OSError, ValueError: it cannot be written, or is not a profile.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._known: set[str] = set()
        self._told = False
        self._merge({})

    def bound(
        self,
        kernel: RegisteredKernel,
        args: Sequence[Any],
        options: Mapping[str, Any],
        views: Sequence[View | None],
        out_view: View | None,
        info: DeviceInfo,
        guards: list[str] | None,
    ) -> None:
        try:
            entry = {
                "kernel": kernel.spec.name,
                "origin": kernel.origin,
                "args": [_described(a, v) for a, v in zip(args, views, strict=True)],
                "out": None if out_view is None else _described(None, out_view),
                "options": json.loads(json.dumps(dict(options), default=lambda one: one.item())),
                "device": {
                    **{name: getattr(info, name) for name in _FACTS},
                    "target": str(info.target),
                    "compile_options": dict(info.compile_options),
                },
                "guards": guards,
            }
            identity = _identity(entry)
            with self._lock:
                if identity not in self._known:
                    self._merge({identity: entry})
        except (OSError, ValueError, TypeError, AttributeError) as error:
            if not self._told:  # the call itself is not to fail for it
                self._told = True
                import logging  # is seldom needed, and brings traceback

                logging.getLogger("xtarget").warning(
                    "XTARGET_RECORD: a class of %s is not recorded in %s: %s",
                    kernel.spec.name,
                    self._path,
                    getattr(error, "strerror", None) or error,
                )

    def _merge(self, new: dict[str, dict[str, Any]]) -> None:
        """Add entries to what the file has by now: other processes may write it too."""
        place = Path(os.path.realpath(self._path))
        descriptor = _locked(place)
        try:
            there = {_identity(entry): entry for entry in _entries(place)}
            missing = {name: entry for name, entry in new.items() if name not in there}
            if missing or not there:
                classes = [*there.values(), *missing.values()]
                lines = ",\n".join(json.dumps(entry) for entry in classes)
                text = f'{{"format": "{_FORMAT}", "classes": [\n{lines}\n]}}\n'
                files.write(place, text.encode(), made=0o666)
            self._known |= {*there, *new}
        finally:
            files.close(descriptor, locked=True)


def _locked(place: Path) -> int:
    """The file, made where there is none, locked while it has that name: who writes replaces it."""
    while True:
        descriptor = files.open_lock(place)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if files.held_by_name(descriptor, place):
                return descriptor
        except BaseException:
            files.close(descriptor)
            raise
        files.close(descriptor, locked=True)


_lock = Lock()
_recorder: _Recorder | None = None


def begin_from_environment() -> None:
    """Begin what `XTARGET_RECORD` asks for; once in a process.

    Raises:
        ArgumentError: the file cannot be written, or is something else.
    """
    global _recorder
    with _lock:
        path = environment.record_file()
        if _recorder is not None or path is None:
            return
        try:
            _recorder = _Recorder(path)
        except OSError as error:
            raise ArgumentError(
                f"XTARGET_RECORD={path} cannot be written: {error.strerror or error}. Name a file "
                "that can be written to."
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise ArgumentError(f"XTARGET_RECORD: {_no_profile(path)}") from error
        binding.on_bound.append(_recorder.bound)
