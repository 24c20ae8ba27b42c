"""Executors by name: Dask's, Ray's and mpi4py's own, or one that the caller has.

An executor is a `concurrent.futures.Executor`. What is submitted is a function of this package and
bytes, so that nothing of a caller's program is pickled.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

from .._values.errors import ArgumentError, XTargetError

__all__ = ["NAMES", "Given", "checked", "opened"]

_T = TypeVar("_T")
#: An executor, or the name of one; None and `processes`: processes of this machine.
Given = Executor | str | None
#: How the names are written.
NAMES = "processes, dask:ADDRESS, ray:ADDRESS or mpi"
_CONNECT_SECONDS = 30.0


def checked(given: Any) -> None:
    """Raises:
    ArgumentError: it is no executor, and no name of one.
    """
    if given is None or isinstance(given, Executor):
        return
    kind, colon, address = given.partition(":") if isinstance(given, str) else ("", "", "")
    if kind in ("processes", "mpi") and not colon:
        return
    if kind not in ("dask", "ray"):
        raise ArgumentError(
            f"executor={given!r} is no executor. Give {NAMES}, or a concurrent.futures.Executor."
        )
    if not address:
        example = "dask:tcp://head:8786" if kind == "dask" else "ray:auto"
        raise ArgumentError(
            f"executor={given!r} names no address. Write the one of its cluster behind a colon: "
            f"{example}."
        )


@contextlib.contextmanager
def opened(given: Given) -> Iterator[Executor | None]:
    """The executor; None for processes of this machine. What was opened here is closed at the end.

    Raises:
        ArgumentError: as `checked`.
        XTargetError: its library is not installed, or its cluster does not answer.
    """
    checked(given)
    if given is None or given == "processes":
        yield None
    elif isinstance(given, Executor):
        yield given
    else:
        kind, _, address = given.partition(":")
        with {"dask": _dask, "ray": _ray, "mpi": _mpi}[kind](address) as executor:
            yield executor


def _missing(name: str, extra: str, error: ImportError) -> XTargetError:
    return XTargetError(
        f"the executor {name} needs what is not installed here ({error}). Install it: "
        f'pip install "xtarget[{extra}]".'
    )


@contextlib.contextmanager
def _dask(address: str) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ImportError as error:
        raise _missing("dask", "dask", error) from error
    try:
        client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:  # TimeoutError is an OSError
        raise XTargetError(
            f"there is no Dask scheduler at {address}: {error}. Start one with `dask scheduler` "
            "and workers with `dask worker ADDRESS`, and give the address that it prints."
        ) from error
    with client, client.get_executor(pure=False) as executor:
        yield executor


@contextlib.contextmanager
def _ray(address: str) -> Iterator[Executor]:
    try:
        import ray
    except ImportError as error:
        raise _missing("ray", "ray", error) from error
    mine = not ray.is_initialized()
    if mine:
        try:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise XTargetError(
                f"there is no Ray cluster at {address}: {error}. Start one with `ray start --head`,"
                " and give the address that it prints, or ray:auto on a machine of it."
            ) from error
    try:
        yield _RayTasks(ray)
    finally:
        if mine:
            ray.shutdown()


class _RayTasks(Executor):
    """Ray's tasks by the interface of an executor; Ray itself makes the futures."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray

    def submit(self, function: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        future: Future[_T] = self._ray.remote(function).remote(*args, **kwargs).future()
        return future


@contextlib.contextmanager
def _mpi(_: str) -> Iterator[Executor]:
    try:
        from mpi4py.futures import MPIPoolExecutor, _core
    except (ImportError, RuntimeError) as error:  # the second: there is no MPI library
        raise _missing("mpi", "mpi", ImportError(str(error))) from error
    # set by `python -m mpi4py.futures`, and told by nothing public: without it, every rank would
    # ask, and the executor would try to start further processes
    if getattr(_core, "SharedPool", None) is None:
        raise XTargetError(
            "the executor mpi has no workers. Start the program with `mpiexec -n 4 python -m "
            "mpi4py.futures -m xtarget ...`: rank 0 asks, and the others work."
        )
    with MPIPoolExecutor() as executor:
        yield executor
