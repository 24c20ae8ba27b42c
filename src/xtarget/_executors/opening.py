"""Executors by name: Dask's, Ray's and mpi4py's own, or one that the caller has.

An executor is a `concurrent.futures.Executor`. What is submitted is a function of this package and
bytes, so that nothing of a caller's program is pickled.
"""

from __future__ import annotations

import contextlib
import pkgutil
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

from .._values.errors import ArgumentError, XTargetError, shortened_text
from .asking import versions

__all__ = ["NAMES", "Given", "checked", "opened"]

_T = TypeVar("_T")
#: An executor, or the name of one; None and `processes`: processes of this machine.
Given = Executor | str | None
#: How the names are written.
NAMES = "processes, dask:ADDRESS, ray:ADDRESS or mpi"
_CONNECT_SECONDS = 30.0
_NO_DASK_WORKER = (
    "the Dask scheduler at {address} has no workers. Start some with `dask worker {address}`"
)
_NO_RAY_WORKER = (
    "no machine of the Ray cluster has a processor for tasks. Start workers with "
    "`ray start --address=ADDRESS`"
)


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


@contextlib.contextmanager
def _installed(name: str, also: type[Exception] = ImportError) -> Iterator[None]:
    """Import the library of an executor within this.

    Args:
        also: what its import raises besides ImportError.

    Raises:
        XTargetError: it cannot be imported.
    """
    try:
        yield
    except (ImportError, also) as error:
        raise XTargetError(
            f"the executor {name} needs what is not installed here ({error}). Install it: "
            f'pip install "xtarget[{name}]".'
        ) from error


@contextlib.contextmanager
def _dask(address: str) -> Iterator[Executor]:
    with _installed("dask"):
        from distributed import Client
        from distributed.comm import get_address_host_port
    try:
        # a client that is given no address at all tries for minutes, and fails once more at its end
        with contextlib.suppress(NotImplementedError):  # an address without host and port
            get_address_host_port(address)
        client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:  # TimeoutError is an OSError
        raise XTargetError(
            f"there is no Dask scheduler at {address}: {_said(error)}. Start "
            "one with `dask scheduler` and workers with `dask worker ADDRESS`, and give the "
            "address that it prints."
        ) from error

    def without_workers() -> str:
        try:
            there = bool(client.nthreads())
        except (OSError, RuntimeError):  # the scheduler is gone: what it was asked for says so
            return ""
        return "" if there else _NO_DASK_WORKER.format(address=address)

    with client:
        _check_dask_workers(client)
        with client.get_executor(pure=False) as executor:
            yield _OfCluster(executor.submit, without_workers)


def _check_dask_workers(client: Any) -> None:
    """Ask for a function of xtarget's: a worker that is given a task of a module that it lacks
    ends, and nobody is told why.

    Raises:
        XTargetError: a worker has no xtarget.
    """
    function = f"{__package__}.asking:versions"  # pickled by its name
    for worker, found in client.run(pkgutil.resolve_name, function, on_error="return").items():
        if isinstance(found, ImportError | AttributeError):
            here = versions()["xtarget"]
            raise XTargetError(
                f"the Dask worker {worker} has no xtarget that works ({found}). Install it where "
                f"that worker runs: pip install xtarget=={here}"
            )


@contextlib.contextmanager
def _ray(address: str) -> Iterator[Executor]:
    with _installed("ray"):
        import ray
    mine = not ray.is_initialized()
    if mine:
        try:
            _check_listens(address)
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except (OSError, ValueError, RuntimeError) as error:
            raise XTargetError(
                f"there is no Ray cluster at {address}: {_said(error)}. Start one with "
                "`ray start --head`, and give the address that it prints, or ray:auto on a machine "
                "of it."
            ) from error

    def submit(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = ray.remote(function).remote(*args, **kwargs).future()
        return future

    def without_workers() -> str:
        # a task takes one of the processors that the cluster's machines say they have
        return "" if ray.cluster_resources().get("CPU", 0) >= 1 else _NO_RAY_WORKER

    try:
        yield _OfCluster(submit, without_workers)
    finally:
        if mine:
            ray.shutdown()


def _check_listens(address: str) -> None:
    """Connect to `host:port`: Ray tries for minutes, and writes of each try to the standard error.

    Raises:
        OSError: nobody listens there.
    """
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()


def _said(error: Exception) -> str:
    return shortened_text(str(error), 300).rstrip(".")


class _OfCluster(Executor):
    """Tasks of a cluster by the interface of an executor; its library makes the futures.

    Args:
        submit: is `Executor.submit`.
        without_workers: says as a sentence that the cluster has no workers; it has some: nothing.
    """

    def __init__(
        self, submit: Callable[..., Future[Any]], without_workers: Callable[[], str]
    ) -> None:
        self._submit = submit
        self.without_workers = without_workers

    def submit(self, function: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        return self._submit(function, *args, **kwargs)


@contextlib.contextmanager
def _mpi(_: str) -> Iterator[Executor]:
    with _installed("mpi", also=RuntimeError):  # of that kind where there is no MPI library
        from mpi4py import MPI
        from mpi4py.futures import MPIPoolExecutor, _core
    # set by `python -m mpi4py.futures`, and told by nothing public: without it, every rank would
    # ask, and the executor would try to start further processes
    if getattr(_core, "SharedPool", None) is None or MPI.COMM_WORLD.Get_size() == 1:
        raise XTargetError(
            "the executor mpi has no workers. Start the program with two ranks or more, for "
            "example `mpiexec -n 4 python -m mpi4py.futures -m xtarget ...`: rank 0 asks, and the "
            "others work."
        )
    with MPIPoolExecutor() as executor:
        yield executor
