"""Orders of bundles: kernels and targets that are asked for, and the classes to build for them."""

from __future__ import annotations

from collections.abc import Callable

from ..._devices import registry
from ..._kernels import libraries, library_code
from ..._values.errors import CompileError, UnknownTargetError
from ..._values.types import CompileRequest, Target
from ..._values.value_classes import value_class
from .classes import Class, KnownCall, classes, classes_of_calls

__all__ = ["Order", "Progress", "classes_of", "wanted"]

#: Told with the kernels that were looked at, the number of all, and which is next.
Progress = Callable[[int, int, str], None]


def _silent(done: int, total: int, what: str) -> None:
    """Tell nobody."""


@value_class(frozen=True, slots=True)
class Order:
    """The requested content of a bundle. `views` and `full`: `classes.COVERAGE`, `spec.ahead`.

    Attributes:
        calls: what is built for beside the calls of `kernels`.
    """

    kernels: tuple[str, ...]
    dtypes: tuple[str, ...]
    targets: tuple[Target, ...]
    views: bool = False
    full: bool = False
    calls: tuple[KnownCall, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every kernel of which something is built."""
        return tuple(dict.fromkeys((*self.kernels, *(call.kernel for call in self.calls))))


def wanted(order: Order, progress: Progress = _silent) -> dict[Target, list[Class]]:
    """The classes to build for each target.

    Args:
        progress: told before each kernel.

    Raises:
        UnknownKernelError: no such kernel.
        UnknownTargetError: nobody compiles for a target.
        CompileError: a kernel cannot be built ahead of time, or none takes the dtypes.
    """
    found = classes_of(order, progress)
    if not all(found.values()):
        raise CompileError(
            f"none of {', '.join(order.kernels)} takes {', '.join(order.dtypes)}. `xtarget "
            "kernels` lists what each takes."
        )
    return found


def classes_of(order: Order, progress: Progress = _silent) -> dict[Target, list[Class]]:
    """The classes of `wanted`, also where a target has none."""
    with library_code.without_imports():
        return _classes_by_text(order, progress)


def _classes_by_text(order: Order, progress: Progress) -> dict[Target, list[Class]]:
    found: dict[Target, list[Class]] = {}
    count = len(order.kernels)
    for number, target in enumerate(order.targets):
        archs = registry.compiler(target.vendor).archs()
        if target.arch not in archs:
            raise UnknownTargetError(
                f"the compiler for {target.vendor} does not know {target.arch!r}. It knows "
                f"{', '.join(f'{target.vendor}:{arch}' for arch in archs)}."
            )
        merged: dict[CompileRequest, Class] = {}
        for one in classes_of_calls(order.calls, target):
            merged[one.request] = one
        for place, name in enumerate(order.kernels, number * count):
            progress(place, len(order.targets) * count, f"the calls of {name} for {target}")
            kernel = libraries.find(name)
            for dtype in order.dtypes:
                if dtype not in kernel.spec.dtypes:
                    continue
                for one in classes(kernel, dtype, target, views=order.views, full=order.full):
                    known = merged.setdefault(one.request, one)
                    known.variants |= one.variants
                    known.kernels |= one.kernels
        found[target] = list(merged.values())
    return found
