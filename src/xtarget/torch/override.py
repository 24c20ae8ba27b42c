"""`with xtarget.torch.override("softmax", "add"):` ATen's operators run as the catalog's kernels.

The replacement is a `TorchDispatchMode`: it holds for the thread that entered it and for the
backward passes that this thread starts, nests, ends with the block however it is left, and costs
nothing outside. It stands below autograd, so gradients are torch's own formulas. A registration of
other kernels with the dispatcher would hold for all threads at once, and could free code that
another one is in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .._kernels import libraries
from .._launch.objects import Kernel
from .._launch.objects import get as kernel_of
from .._launch.run import run
from .._values.errors import ArgumentError
from .aten_movement import movement_table
from .aten_pointwise import Declined, Handler, pointwise_table
from .aten_rows import rows_table

__all__ = ["Override", "override", "replaceable"]

_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
#: torch's own modes, which come after all of the user's.
_TRACING = [getattr(torch._C._TorchDispatchModeKey, n) for n in ("FAKE", "PROXY", "FUNCTIONAL")]


@cache
def _table() -> dict[str, dict[Any, Handler]]:
    """Of each kernel to ATen's operators that it stands for."""
    found: dict[str, dict[Any, Handler]] = {}
    tables = {**pointwise_table(), **rows_table(), **movement_table()}
    for text, (kernel, handler) in tables.items():
        name, _, overload = text.partition(".")
        packet = getattr(torch.ops.aten, name, None)
        if packet is None or (overload or "default") not in packet.overloads():
            continue  # an older torch
        found.setdefault(kernel, {})[getattr(packet, overload or "default")] = handler
    return found


def replaceable() -> dict[str, list[str]]:
    """The kernels that `override` knows, each with ATen's operators that it stands for."""
    return {
        kernel: sorted(str(operator) for operator in operators)
        for kernel, operators in sorted(_table().items())
    }


class Override(TorchDispatchMode):  # type: ignore[misc]  # torch is not typed here
    """ATen's operators replaced while inside; made by `override`.

    Attributes:
        served: how many calls each of ATen's operators left to a kernel, by its name.
        passed: how many stayed torch's, by its name and the reason.
    """

    def __init__(self, handlers: dict[Any, Handler], instead: dict[str, str]) -> None:
        super().__init__()
        self._handlers = handlers
        self._run: Callable[..., Any] = _instead(instead) if instead else run
        self.served: Counter[str] = Counter()
        self.passed: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        handler = self._handlers.get(func)
        if handler is None:
            return func(*args, **(kwargs or {}))
        if types and not _PLAIN.issuperset(types):
            if any(torch._C._get_dispatch_mode(mode) is not None for mode in _TRACING):
                return func(*args, **(kwargs or {}))
            return NotImplemented  # a subclass says itself what it is, in operators that come here
        recording = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)  # autograd is above this, and has noted the call
        try:
            result = handler(self._run, *args, **(kwargs or {}))
        except (Declined, ArgumentError) as reason:
            self.passed[f"{func}: {reason}"] += 1
        else:
            self.served[str(func)] += 1
            return result
        finally:
            torch._C._set_grad_enabled(recording)
        return func(*args, **(kwargs or {}))


def _instead(kernels: dict[str, str]) -> Callable[..., Any]:
    """`run` of other kernels. They get the options that are not as if not given."""

    def call(name: str, *args: Any, **options: Any) -> Any:
        other = kernels.get(name)
        if other is None:
            return run(name, *args, **options)
        unset = libraries.find(name).spec.options
        return run(other, *args, **{n: v for n, v in options.items() if v != unset.get(n)})

    return call


def override(*names: str, **kernels: Any) -> Override:
    """Replace ATen's operators by kernels, in a `with` block.

    Calls that a kernel cannot serve (complex numbers, sparse tensors, `out=`, in place) stay
    torch's and are counted in `passed`, by operator and reason.

        with xtarget.torch.override("softmax", gelu=my_gelu) as replaced:
            model(x)
        print(replaced.served)

    Args:
        names: kernels of the catalog; without any, all that stand for an operator of ATen.
        kernels: a kernel of one's own (function, kernel object or name) by the name of the
            catalog's, whose inputs and options it takes.

    Raises:
        UnknownKernelError: there is no kernel of that name.
        ArgumentError: no operator of ATen computes what the kernel does.
    """
    table = _table()
    chosen = [libraries.find(name).spec.name for name in (*names, *kernels)]
    for name in chosen:
        if name not in table:
            raise ArgumentError(
                f"torch has no operator that {name} stands for. xtarget.torch.replaceable() lists "
                f"the kernels that have one; call {name} as torch.ops.xtarget.{name}."
            )
    handlers: dict[Any, Handler] = {}
    for name in chosen or table:
        handlers.update(table[name])
    instead = {libraries.find(name).spec.name: _name(kernel) for name, kernel in kernels.items()}
    return Override(handlers, instead)


def _name(kernel: Any) -> str:
    if isinstance(kernel, str):
        return libraries.find(kernel).spec.name
    return kernel.name if isinstance(kernel, Kernel) else kernel_of(kernel).name
