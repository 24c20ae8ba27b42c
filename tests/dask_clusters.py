"""Clusters of Dask's of tests, whose workers are processes, and the death of one that works."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

__all__ = ["cluster", "one_killed"]


@contextlib.contextmanager
def cluster(workers: int = 2) -> Iterator[Any]:
    """A client of a cluster of processes on this machine."""
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
        ) as made,
        distributed.Client(made, set_as_default=False) as client,
    ):
        yield client


@contextlib.contextmanager
def one_killed(client: Any) -> Iterator[list[int]]:
    """Kill the first worker that has a task, while it works on it; gives whom."""
    workers = client.run(os.getpid)
    stop = threading.Event()
    killed: list[int] = []

    def kill() -> None:
        while not stop.is_set() and not killed:
            for address, tasks in client.processing().items():
                if tasks and not killed:
                    killed.append(workers[address])
                    os.kill(workers[address], signal.SIGKILL)
            time.sleep(0.05)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        stop.set()
        thread.join()
