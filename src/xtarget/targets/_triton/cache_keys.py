"""The keys under which Triton's own cache files the kernels of our back end."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from functools import cache
from typing import Any

from .._host import contents
from . import toolchain as _toolchain
from .files import is_inside
from .identity import Unidentified, manifest_of, text_of_value
from .value_kinds import is_jit

__all__ = ["complete_keys"]

#: How a back end says that it is ours.
_OWNER = "xtarget"


@cache
def complete_keys() -> None:
    """Let Triton's own launching file our back end's binaries under all that they are made from:
    Triton's key lacks attributes (`mod.SIZE`), plain globals, what was replaced in Triton, and of
    constants what their text does not say (1 and "1", tl.float32 and "fp32").
    """
    from triton.compiler import compiler

    of_triton = compiler.get_cache_key

    def get_cache_key(source: Any, backend: Any, *args: Any, **options: Any) -> str:
        key = str(of_triton(source, backend, *args, **options))
        if is_inside() or getattr(backend, "OWNER", None) != _OWNER:
            return key
        return f"{key}-{_values_of(getattr(source, 'fn', None), getattr(source, 'constants', {}))}"

    compiler.get_cache_key = get_cache_key


def _values_of(fn: Any, constants: Mapping[Any, Any]) -> str:
    toolchain = _toolchain.fingerprint()
    contents.save()
    why = _toolchain.unidentified(toolchain)
    digest = ""
    if fn is not None:  # else it is a file of IR, which Triton reads for its key
        manifest = manifest_of(fn)
        digest, why = manifest.digest, why or manifest.unidentified
        try:
            digest += _constants(constants)
        except Unidentified as unknown:
            why = why or str(unknown)
    if why:
        _toolchain.say_once(f"a kernel is compiled in each process anew: {why}")
        return uuid.uuid4().hex
    return f"{digest}-{toolchain}"


def _constants(constants: Mapping[Any, Any]) -> str:
    texts = []
    for path, value in constants.items():
        own = None if is_jit(value) else getattr(value, "cache_key", None)  # Triton asks it as well
        text = text_of_value(value, f"the constant {path}") if own is None else f"key {own}"
        texts.append(f"{path} {text}")
    return hashlib.sha256("\n".join(sorted(texts)).encode("utf-8", "surrogatepass")).hexdigest()
