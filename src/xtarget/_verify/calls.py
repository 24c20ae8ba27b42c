"""`XTARGET_VERIFY=1`: the result of each call of a program against the kernel's reference."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .._kernels import libraries
from .._kernels.references import answers
from .._launch import observe
from .._launch.lookup import Found
from .._system.life import at_exit
from .._system.locks import Lock
from .._values import environment
from .._values.errors import WrongResultError
from ..spec import KernelSpec
from ..targets.base import Device
from ..targets.optional import Capturable
from .comparison import difference, on_the_host
from .verify import is_floating

__all__ = ["CallVerifier", "begin_from_environment"]


class CallVerifier:
    """Compares what calls compute, on the host and in float64.

    Attributes:
        compared: by kernel, how many calls were right.
        left_out: by kernel, why its calls were not compared.
    """

    def __init__(self) -> None:
        self.compared: Counter[str] = Counter()
        self.left_out: dict[str, str] = {}
        self._lock = Lock()

    def __call__(
        self, kernel: str, found: Found, options: Mapping[str, Any]
    ) -> Callable[[Any], None] | None:
        """Before a call; what is returned is told the call's result."""
        spec, device = libraries.find(kernel).spec, found.call.device
        why = _why_not(spec, device)
        if why:
            self._leave_out(kernel, why)
            return None
        device.synchronize()
        args = [_copied(arg) for arg in found.args]

        def compare(returned: Any) -> None:
            device.synchronize()
            given = returned if found.out is None else found.out
            results = [on_the_host(one) for one in (given if _several(given) else (given,))]
            try:
                right = answers(spec, args, options, floating=is_floating(results))
            except Exception as error:  # what a reference does where it is not defined is its own
                self._leave_out(kernel, f"its reference has raised {type(error).__name__}: {error}")
                return
            for result, expected in zip(results, right, strict=True):
                said = difference(result, expected, spec.tolerance)
                if said:
                    raise WrongResultError(
                        f"{kernel} on {device.info.name} is wrong: {said} The call was "
                        f"{kernel}({_described(args, options)}). XTARGET_VERIFY compares with "
                        "the kernel's reference; its tolerance is in its spec."
                    )
            with self._lock:
                self.compared[kernel] += 1

        return compare

    def report(self) -> str:
        """The calls that were compared, and those that were not, as text."""
        with self._lock:
            calls = sum(self.compared.values())
            lines = [f"XTARGET_VERIFY: {calls} calls of {len(self.compared)} kernels were right."]
            lines += [f"  not compared: {k}: {why}" for k, why in sorted(self.left_out.items())]
        return "\n".join(lines)

    def _leave_out(self, kernel: str, why: str) -> None:
        with self._lock:
            self.left_out.setdefault(kernel, why)


def _why_not(spec: KernelSpec, device: Device) -> str:
    """Why a call cannot be compared; empty where it can."""
    if spec.reference is None:
        return "it has no reference"
    if spec.updates:
        return f"it updates {', '.join(spec.updates)} in place"
    if isinstance(device, Capturable) and device.capturing():
        return "it was called while a graph was captured"
    return ""


def _several(result: Any) -> bool:
    return isinstance(result, tuple | list)


def _copied(arg: Any) -> Any:
    """An argument as the reference takes it, which the call does not change."""
    return np.array(on_the_host(arg)) if hasattr(arg, "shape") else arg


def _described(args: list[Any], options: Mapping[str, Any]) -> str:
    parts = [
        f"{arg.dtype.name}{list(arg.shape)}" if isinstance(arg, np.ndarray) else repr(arg)
        for arg in args
    ]
    return ", ".join([*parts, *(f"{name}={value!r}" for name, value in options.items())])


_begun = False


def begin_from_environment() -> None:
    """Verify all calls of this process, if `XTARGET_VERIFY` asks for it; once in a process."""
    global _begun
    if _begun or not environment.verify_calls():
        return
    _begun = True
    verifier = CallVerifier()
    observe.check_with(verifier)
    at_exit(lambda: print(verifier.report(), file=sys.stderr))
