"""`xtarget.hooks`: functions of the user's that are called before and after each launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from .._system.signals import raised_by_handler
from .._values.errors import ArgumentError, shortened
from . import observe
from .records import CallRecord, Record

__all__ = ["Hook", "Hooks", "hooks"]

_Function: TypeAlias = Callable[[Record], Any]


class Hook:
    """Two functions that are called until `remove`; also for a `with` statement.

    Attributes:
        stays: it is not the user's, whose `hooks.clear` leaves it, and it wants the arguments.
    """

    wants_times = wants_places = False

    def __init__(
        self, enter: _Function | None, exit: _Function | None, *, stays: bool = False
    ) -> None:
        self._enter, self._exit = enter, exit
        self.stays = self.wants_launched = stays
        self._told = False

    def remove(self) -> None:
        """Call them no more. Launches that have begun may still do."""
        observe.remove(self)

    def __enter__(self) -> Hook:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def entered(self, launch: Record) -> None:
        if self._enter is not None:
            self._call(self._enter, launch, "before")

    def launched(self, launch: Record) -> None:
        if self._exit is not None:
            self._call(self._exit, launch, "after")

    def timed(self, launch: Record) -> None:
        pass

    def called(self, call: CallRecord) -> None:
        pass

    def _call(self, function: _Function, launch: Record, when: str) -> None:
        try:
            function(launch)
        except Exception as error:  # the function is a user's
            interrupted = raised_by_handler(error)
            if interrupted is not None:
                raise
            if not self._told:
                self._told = True
                import logging  # is seldom needed, and brings traceback

                logging.getLogger("xtarget").warning(
                    "the hook %s, called %s a launch of %s, has raised %s: %s. The launch goes on, "
                    "and further errors of this hook are not told. Correct or remove it.",
                    shortened(function),
                    when,
                    launch.kernel,
                    type(error).__name__,
                    error,
                    exc_info=error,
                )


class Hooks:
    """Functions that are called before and after each launch of a kernel.

    A launch is one kernel that starts on a device; a call of `xtarget.run` makes one, as a rule.
    """

    def add(self, *, enter: _Function | None = None, exit: _Function | None = None) -> Hook:
        """Have functions called with each launch, in the thread that launches.

        Args:
            enter: called before, with what is known of the launch: `kernel`, `entry`, `layouts`,
                `device`, `target`, `grid`, `block`, `stream`.
            exit: called when the launch has returned, with the same object: `seconds` is its time
                on the host, `error` what it has raised, or None. The kernel may still run.

        Returns:
            what removes them: `hook.remove()`, or the end of a `with` statement.

        Raises:
            ArgumentError: one of them is no function, or there is none.
        """
        for name, function in (("enter", enter), ("exit", exit)):
            if function is not None and not callable(function):
                raise ArgumentError(
                    f"hooks.add: {name}={shortened(function)} is not a function. Give a function "
                    "of one argument, the launch."
                )
        if enter is None and exit is None:
            raise ArgumentError("hooks.add: there is no function. Give enter= or exit=.")
        hook = Hook(enter, exit)
        observe.add(hook)
        return hook

    def clear(self) -> None:
        """Remove all of them."""
        for hook in observe.present():
            if isinstance(hook, Hook) and not hook.stays:
                hook.remove()

    def __repr__(self) -> str:
        return "<xtarget.hooks: add(enter=..., exit=...), clear()>"


hooks = Hooks()
