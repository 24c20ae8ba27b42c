"""From an artifact to a function of a device; what its run time compiles is kept in the cache."""

from __future__ import annotations

import contextlib

from .. import _cache
from .._system.spans import span
from .._values import environment
from .._values.errors import LoadError
from .._values.types import Artifact
from ..targets.base import Device, Function
from .routes import named

__all__ = ["load"]


def load(device: Device, made: Artifact, name: str) -> Function:
    """An artifact's function. What a run time compiles at load is kept in the cache.

    Args:
        name: the kernel's, for the cache.

    Raises:
        LoadError: the device's run time refuses the binary, or `XTARGET_LOCK` does.
    """
    lock = environment.lock_file()
    if lock is not None:
        from .._artifacts import lockfile  # a few programs have one

        way = named(made.target.vendor, made.route)
        lockfile.check(lock, made, name, lambda: way.compiler.fingerprint if way else "")
    with span("load", name, device=device.info.name):
        return _loaded(device, made, name)


def _loaded(device: Device, made: Artifact, name: str) -> Function:
    target = device.info.target
    native_of = device.native_key
    if native_of is None:
        return device.load(made).function()
    # the run time compiles this format at load: keep what it makes
    cache = _cache.default_cache()
    key = _cache.key_of([("device", native_of), ("binary", made.binary.hex())])
    native = cache.get_native(target, name, key)
    module = device.load(made, native)
    if native is None:
        with contextlib.suppress(LoadError):  # only a speed-up for the next process
            binary = module.native()
            if binary is not None:
                cache.put_native(target, name, key, binary)
    return module.function()
