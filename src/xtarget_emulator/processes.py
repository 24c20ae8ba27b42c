"""A launch's blocks over several processes, which share the device's memory.

Each is a fork of this one for the length of one launch. What forks do not get along with (other
threads of a process that hold a lock at that moment) is why nobody gets this without asking:
`XTARGET_EMULATOR_PROCESSES`.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import BinaryIO

from xtarget._values.errors import DriverError, XTargetError

__all__ = ["share"]


def share(total: int, step: int, processes: int, run: Callable[[int, int], int]) -> int:
    """Run all blocks; returns what the parts' results add up to.

    Args:
        total: blocks of the grid.
        step: how many of them are stepped together; a part is a multiple of that.
        processes: how many at most.
        run: runs the blocks from the first number up to the second one.

    Raises:
        XTargetError: that of the first part in the grid which failed.
    """
    each = -(-total // (processes * step)) * step
    parts = [(first, min(first + each, total)) for first in range(0, total, each)]
    children = [_start(run, *part) for part in parts[1:]]
    failed: BaseException | None = None
    done = 0
    try:
        done = run(*parts[0])
    except BaseException as error:  # raised below, when no child is left
        failed = error
    for child, answer in children:
        try:
            done += _result(child, answer)
        except XTargetError as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return done


def _start(run: Callable[[int, int], int], first: int, last: int) -> tuple[int, BinaryIO]:
    """A child that runs a part; its number, and where its answer comes from."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, os.fdopen(reading, "rb")
    status = 1
    try:
        answer: int | XTargetError
        try:
            answer = run(first, last)
        except XTargetError as error:
            answer = error
        with os.fdopen(writing, "wb") as file:
            file.write(pickle.dumps(answer))
        status = 0
    finally:
        os._exit(status)  # nothing of the parent's is to be ended by its copy


def _result(child: int, answer: BinaryIO) -> int:
    with answer:
        data = answer.read()
    _, status = os.waitpid(child, 0)
    if status:
        raise DriverError(
            f"a process of the emulator ended before its work did (status {status}). Unset "
            "XTARGET_EMULATOR_PROCESSES to run all blocks in one process."
        )
    result: int | XTargetError = pickle.loads(data)
    if isinstance(result, XTargetError):
        raise result
    return result
