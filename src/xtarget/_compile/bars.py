"""How far long work is, on the standard error: a bar on a terminal. Elsewhere nothing but a line
each minute, for the log of a job that takes long.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator

from .._values.text import one_line, printable

__all__ = ["Progress", "progress_bar"]

#: Told with what is done, the number of all, and what is done now.
Progress = Callable[[int, int, str], None]

_EVERY = 60.0  # seconds before the first line where there is no terminal, and between two


@contextlib.contextmanager
def progress_bar(doing: str, unit: str, first: str) -> Iterator[Progress]:
    """Yield a function that shows how far it is.

    Args:
        doing: what, for lines: `bundle build`.
        unit: of the numbers: `variants`.
        first: what is done before the function is called.
    """
    if not sys.stderr.isatty():
        with _Lines(doing, unit, first) as lines:
            yield lines.show
        return
    from rich import progress
    from rich.console import Console

    columns = (progress.BarColumn(), progress.MofNCompleteColumn(), progress.TimeRemainingColumn())
    words = progress.TextColumn("{task.description}", markup=False)
    with progress.Progress(*columns, words, console=Console(stderr=True)) as bar:
        task = bar.add_task(first, total=None)

        def show(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=one_line(what))

        yield show


class _Lines:
    """A line every minute, also when nothing moves; work that takes less has none."""

    def __init__(self, doing: str, unit: str, first: str) -> None:
        self._doing, self._unit, self._said = doing, unit, first
        self._start = time.monotonic()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._tick, name="xtarget progress", daemon=True)

    def __enter__(self) -> _Lines:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def show(self, done: int, total: int, what: str) -> None:
        self._said = f"{done} of {total} {self._unit}, {what}"

    def _tick(self) -> None:
        while not self._end.wait(_EVERY):
            seconds = time.monotonic() - self._start
            text = f"{self._doing}, {seconds:.0f} s: {one_line(self._said)}"
            with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
                print(printable(text), file=sys.stderr, flush=True)
