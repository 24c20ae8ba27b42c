"""Kernel objects: `xtarget.get("add")`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, overload

from .._kernels import libraries
from .._kernels.interfaces import check_like, description, signature
from .._kernels.triton_wrappers import INTERPRETED, is_interpreted
from .._values.errors import ArgumentError, shortened
from .._values.types import Artifact, Target
from ..spec import KernelSpec
from . import run as _run
from .compiling import compile
from .devices import default_device
from .prepared import Prepared
from .tuning import bench, tune
from .tuning_results import Tuning

if TYPE_CHECKING:
    from .._executors.opening import Given

__all__ = ["Kernel", "get"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Kernel(_run.named or partial, Generic[_P, _R]):  # type: ignore[misc]  # a base of the core
    """A kernel of the catalog: `k(a, b, out=o)` is `xtarget.run(k.name, a, b, out=o)`.

    `xtarget.get` makes it. It stands for the name: where another kernel takes its name, a call runs
    that one.

    Attributes:
        name: the kernel's.
        spec: its `xtarget.spec.KernelSpec`.
    """

    # by its base, calling it costs no step of Python beside `run`
    name: str
    __signature__: inspect.Signature

    if TYPE_CHECKING:

        def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...

    def __new__(cls, name: str) -> Kernel[_P, _R]:
        spec = libraries.find(name).spec
        made: Any = super().__new__(cls, _run.run, name)
        made.name = made.__name__ = made.__qualname__ = name
        made.__signature__ = signature(spec)
        made.__doc__ = description(spec)
        return cast("Kernel[_P, _R]", made)

    @property
    def spec(self) -> KernelSpec:
        return libraries.find(self.name).spec

    def prepare(
        self, *args: Any, out: Any = None, device: Any = None, stream: Any = None, **options: Any
    ) -> Prepared:
        """Get everything of a call ready, and keep it: arrays, code, grid.

        Args:
            args, out, device, stream, options: as for `xtarget.run`. Without `out`, the result is
                one array, which each launch writes again.

        Returns:
            what launches: `launch()`. `launch.update(b=c)` puts another array of the same layout in
            the place of one.

        Raises:
            UnknownKernelError, ArgumentError, NoDeviceError, CompileError, LoadError,
            OutOfMemoryError: as for `xtarget.run`.
        """
        return Prepared(self.name, args, out, device, stream, options)

    def compile(
        self, *args: Any, target: str | Target, keep_stages: bool = False, **options: Any
    ) -> tuple[Artifact, ...]:
        """`xtarget.compile` of this kernel."""
        return compile(self.name, *args, target=target, keep_stages=keep_stages, **options)

    def tune(
        self,
        *args: Any,
        out: Any = None,
        device: Any = None,
        executor: Given = None,
        **options: Any,
    ) -> Tuning:
        """Find the fastest of the kernel's configurations for a call, by launching each of them.

        What is found holds for all calls of the same key on this target, also in later processes;
        a call itself never tunes.

        Args:
            args, out, device, options: as for `xtarget.run`.
            executor: any `concurrent.futures.Executor`, or `dask:ADDRESS`, `ray:ADDRESS`, `mpi`:
                its workers compile the configurations. They are timed here.

        Returns:
            what was measured; as text, a line for each configuration.

        Raises:
            ArgumentError: the kernel has no configurations, or one of them changes the result.
            FrozenError: XTARGET_COMPILE forbids to compile.
        """
        return tune(self.name, args, out, device, options, executor=executor)

    def bench(self, *args: Any, out: Any = None, device: Any = None, **options: Any) -> float:
        """Seconds of a launch, the least of some measurements: of the device's time for arrays on a
        device, else of the host's."""
        return bench(self.name, args, out, device, options)

    def show(
        self, stage: str, *args: Any, target: str | Target | None = None, **options: Any
    ) -> str:
        """The text of a compiler's stage, of all launches of a call.

        Args:
            stage: `ttir`, `ttgir`, `llir`, `ptx`, `amdgcn`, `spirv`...
            args, options: as for `compile`.
            target: the same; None: that of the default device.

        Raises:
            ArgumentError: there is no such stage; the message lists those there are.
        """
        if target is None:
            target = default_device().target
        made = self.compile(*args, target=target, keep_stages=True, **options)
        known = {name for artifact in made for name in artifact.texts}
        if stage not in known:
            raise ArgumentError(
                f"{self.name} has no stage {shortened(stage)} for {target}; there are "
                f"{', '.join(sorted(known))}."
            )
        return "\n".join(artifact.texts[stage] for artifact in made)

    def __repr__(self) -> str:
        return f"<xtarget.Kernel {self.name}{self.__signature__}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _by_name, (self.name,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kernel) and other.name == self.name

    def __hash__(self) -> int:
        return hash((Kernel, self.name))


#: By name, with the kernel that it was made for.
_known: dict[str, tuple[libraries.RegisteredKernel, Kernel[..., Any]]] = {}


@overload
def get(kernel: Any, /) -> Kernel[..., Any]: ...


@overload
def get(kernel: Any, /, *, like: Callable[_P, _R]) -> Kernel[_P, _R]: ...


def get(kernel: Any, /, *, like: Any = None) -> Any:
    """A kernel as an object to call.

    Args:
        kernel: its name (`xtarget kernels` lists them), or a function that `@xtarget.kernel` has
            registered.
        like: a Python function with the signature of a call, which is never called: type checkers
            take arguments and result from it (a reference on NumPy arrays is one).

    Raises:
        UnknownKernelError: there is none of that name; the message suggests near ones.
        ArgumentError: the function is not registered, or under several names; `like` takes other
            arguments than the kernel.
    """
    found = _by_name(kernel) if type(kernel) is str else _of(kernel)
    if like is not None:
        check_like(found.spec, like)
    return found


def _by_name(kernel: str) -> Kernel[..., Any]:
    known = _known.get(kernel)
    registered = libraries.find(kernel)
    if known is not None and known[0] is registered:
        return known[1]
    made: Kernel[..., Any] = Kernel(kernel)
    _known[kernel] = registered, made
    return made


def _of(kernel: Any) -> Kernel[..., Any]:
    if isinstance(kernel, Kernel):
        return kernel
    names = libraries.names_of(kernel)
    if len(names) == 1:
        return _by_name(names[0])
    function = getattr(kernel, "__name__", shortened(kernel))
    if not names and not hasattr(kernel, "arg_names"):
        return Kernel(kernel)  # says that it is not a name
    if is_interpreted(kernel):
        raise ArgumentError(f"the function {function} cannot be compiled: {INTERPRETED}")
    if not names:
        raise ArgumentError(
            f"the function {function} is not registered. Put @xtarget.kernel(...) above "
            "@triton.jit, or get a kernel by its name."
        )
    raise ArgumentError(
        f"the function {function} is registered as {' and '.join(names)}. Get one by its name."
    )
