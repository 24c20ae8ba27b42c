"""The answer of a compile server to programs without Python: a bundle of one call.

`POST /v1/bundle` has the call as JSON (`src/libxtarget/ask.c` writes it). The answer is lines:
`working` while it is made, then `error` and a sentence, or `bundle`, its size, its sha256, and the
bytes. The manifest names the sha256 of the request, so that a bundle that is signed for one call
does not pass for another.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from .._bundle.builder.build import Order, Report, build
from .._bundle.builder.classes import Caller, KnownCall
from .._bundle.builder.option_texts import option_of
from .._bundle.calls import INDEX_VERSION
from .._bundle.format import BundleFile
from .._bundle.packing import VERSION
from .._compile.apart import SECONDS
from .._compile.limited import ask_child
from .._kernels import libraries, library_code
from .._kernels.interfaces import input_dtypes
from .._kernels.libraries import RegisteredKernel
from .._launch import planning
from .._system.scratch import Folder
from .._values import environment
from .._values.errors import CompileError, XTargetError
from .._values.types import DTYPES, Target
from ..spec import ABSENT, ArrayType, ScalarType

__all__ = ["NOTE", "bundle_for", "packed", "refused"]

NOTE: Final = b"working\n"
#: Of a bundle and its index: what the library that asks has to read.
_FORMAT: Final = [VERSION, INDEX_VERSION]
_Layout = ArrayType | ScalarType


def packed(bundle: bytes) -> bytes:
    """The last line of an answer, and the bundle."""
    return f"bundle {len(bundle)} {hashlib.sha256(bundle).hexdigest()}\n".encode() + bundle


def refused(why: str) -> bytes:
    """The last line of an answer without a bundle."""
    return f"error {' '.join(why.split())}\n".encode()


def bundle_for(request: bytes) -> tuple[bytes, Report]:
    """A bundle that serves the call of a request, signed as `XTARGET_SIGN` says.

    Raises:
        XTargetError: no bundle can serve it.
        ValueError, KeyError, TypeError: it is no request.
    """
    asked = json.loads(request)
    if asked["format"] != _FORMAT:
        raise XTargetError(
            f"this server makes bundles of version {_FORMAT[0]} with an index of version "
            f"{_FORMAT[1]}, and libxtarget reads {asked['format']!r:.40}. Install the same xtarget "
            "on both."
        )
    target = Target.parse(asked["target"])
    with library_code.without_imports():
        call = _call(asked, target)
    order = Order((), (asked["dtype"],), (target,), calls=(call,))
    made_by = f"xtarget serve, for the request {hashlib.sha256(request).hexdigest()}"
    with Folder("serve") as folder:
        path = folder / "kernels.xtb"
        key = environment.cache_settings().sign
        with ThreadPoolExecutor(1) as executor:  # its units are compiled by children that stay
            report = build(
                order,
                path,
                workers=1,
                seconds=SECONDS,
                key=key,
                made_by=made_by,
                executor=executor,
                ask=lambda asked: ask_child(f"kernel {call.kernel}", asked, SECONDS),
            )
        file = BundleFile(path)
        try:
            callable_from_c = [*file.call_records(target)]
        finally:
            file.close()
        if report.errors:
            raise CompileError(report.errors[0])
        if not callable_from_c:
            raise CompileError(
                f"{call.kernel} cannot be called so without Python: its binaries need memory of "
                "the run time's, or its plan needs numbers where libxtarget has sizes."
            )
        return path.read_bytes(), report


def _call(asked: Mapping[str, Any], target: Target) -> KnownCall:
    kernel, dtype, units = libraries.find(asked["kernel"]), asked["dtype"], asked["units"]
    spec = kernel.spec
    if dtype not in spec.dtypes:
        raise CompileError(f"{spec.name} takes {', '.join(spec.dtypes)}, not {dtype!r:.40}.")
    if any(count is not None for count in spec.counts):
        raise CompileError(f"{spec.name} has results whose size the data say. Call it from Python.")
    if type(units) is not int or not 0 < units < 1 << 20:
        raise ValueError("the number of compute units is none")
    options = {str(name): option_of(text) for name, text in asked["options"].items()}
    unknown = sorted(set(options) - set(spec.options))
    if unknown:
        known = ", ".join(spec.options) or "none"
        raise CompileError(f"{spec.name} has no option {unknown[0]!r:.60}. It has {known}.")
    args = _arguments(asked["arguments"], kernel, dtype)
    outs = [_array(one) for one in asked["outputs"]]
    plan = planning.make_plan(kernel, planning.call_of(kernel, args, options, target, units))
    out = None
    if outs and [(t.dtype, t.shape) for t in outs] != [(t.dtype, t.shape) for t in plan.outputs]:
        shapes = ", ".join(f"{t.dtype}{t.shape}" for t in plan.outputs)
        raise CompileError(f"the results of {spec.name} are {shapes}. Give outputs like these.")
    if any(_lies_otherwise(*pair) for pair in zip(outs, plan.outputs, strict=False)):
        if len(outs) != 1:
            raise CompileError(f"{spec.name} writes its results C-contiguous. Give such outputs.")
        out = outs[0]
    chosen = tuple(sorted(options.items()))
    return KnownCall(spec.name, args, chosen, Caller(dtype, units, out))


def _arguments(given: Any, kernel: RegisteredKernel, dtype: str) -> tuple[_Layout, ...]:
    """The arguments as plans see them, without those that are left out at the end."""
    spec, own, found = kernel.spec, input_dtypes(kernel.spec), list[_Layout]()
    if len(given) > len(spec.inputs):
        raise CompileError(f"{spec.name} takes up to {len(spec.inputs)} arguments: {spec.inputs}.")
    names = [name.rstrip("?") for name in spec.inputs]
    for name, one in zip(names, given, strict=False):
        if one is None:
            found.append(ABSENT)
        elif one == "number":
            found.append(ScalarType(own.get(name, dtype)))
        else:
            found.append(_array(one))
    free = [t.dtype for n, t in zip(names, found, strict=False) if n not in own and t is not ABSENT]
    if free and dtype not in free:
        raise CompileError(
            f"the kernel was taken for {dtype}, and no argument of {spec.name} is of it. Take it "
            f"for {free[0]}."
        )
    while found and found[-1] is ABSENT:
        found.pop()
    return tuple(found)


def _array(given: Mapping[str, Any]) -> ArrayType:
    """Raises:
    ValueError: it is none.
    """
    dtype, shape, strides = given["dtype"], tuple(given["shape"]), tuple(given["strides"])
    whole = all(type(number) is int for number in (*shape, *strides))
    if dtype not in DTYPES or not whole or len(shape) != len(strides) or any(n < 0 for n in shape):
        raise ValueError("it is no array")
    return ArrayType(dtype, shape, strides)


def _lies_otherwise(one: ArrayType, other: ArrayType) -> bool:
    steps = zip(one.shape, one.strides, other.strides, strict=True)
    return bool(one.size) and any(mine != new for n, mine, new in steps if n != 1)
