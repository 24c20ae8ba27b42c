"""Common parts of the commands: `--debug`, which all have, and options that several take."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

import click

from .._values.errors import ArgumentError, XTargetError
from .._values.text import printable
from .completion import KINDS, Known
from .together import OUTPUT_FILE, check_together
from .values import CallOptions, Shapes, Values, folder_name, pairs, shapes

__all__ = [
    "EXIT_ERROR",
    "EXIT_PIPE",
    "PROCESSES",
    "Command",
    "Group",
    "compiling",
    "compression_option",
    "device_option",
    "drop_standard_output",
    "echo",
    "executor_option",
    "file_option",
    "folder_option",
    "json_option",
    "kernel_argument",
    "layout_options",
    "open_standard_files",
]

#: Of a command that failed.
EXIT_ERROR = 1
#: What a shell reports of a program that the end of its pipe stopped (128 + SIGPIPE).
EXIT_PIPE = 141
#: The executor without a cluster: processes of this machine.
PROCESSES = "processes"

#: What a decorator takes and gives.
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def echo(text: object = "", *, err: bool = False) -> None:
    """Print a line, without the control characters of whoever wrote what is in it."""
    click.echo(printable(str(text)), err=err)


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """Ctrl-C within it says what is kept of what was compiled."""
    try:
        yield
    except KeyboardInterrupt:
        echo(
            "What was compiled until now is in the cache, and nothing else was written: the same "
            "command goes on from there.",
            err=True,
        )
        raise


class _Debug(click.Option):
    """`--debug`, which every command takes at its end too, where people type it."""

    def __init__(self) -> None:
        super().__init__(
            ["--debug"],
            is_flag=True,
            expose_value=False,
            is_eager=True,
            help="Show the traceback of an error.",
            callback=self._remember,
        )

    @staticmethod
    def _remember(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        ctx.ensure_object(dict)["debug"] |= value


class Command(click.Command):
    """A command with examples, and with what its exit codes mean, at the end of its help.

    Args:
        examples: command lines, each whole.
        fails: what exits with 1 beside an error.
        conflicts: an option, those that it does not go with, and why.
        needs: an option, and the one without which it means nothing.
    """

    def __init__(
        self,
        *args: Any,
        examples: Sequence[str] = (),
        fails: str = "",
        conflicts: Sequence[tuple[str, Sequence[str], str]] = (),
        needs: Sequence[tuple[str, str]] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        for param in self.params:
            kind = KINDS.get(param.opts[0])  # an argument's name is there
            if kind is not None:
                param.type = Known(kind)
        self.params.append(_Debug())
        self.examples, self.fails = tuple(examples), fails
        self.conflicts, self.needs = tuple(conflicts), tuple(needs)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:  # not wrapped: people copy them
                    formatter.write(f"{' ' * formatter.current_indent}{example}\n")
        super().format_epilog(ctx, formatter)
        with formatter.section("Exit codes"):
            formatter.write_text(self.exit_codes())

    def exit_codes(self) -> str:
        """In one sentence."""
        more = f", or {self.fails}" if self.fails else ""
        return f"0 done; 1 an error{more}; 2 bad usage; 3 no device; 130 interrupted."

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """click takes the last of two values for one option; that is refused here."""
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        for option, times in Counter(order).items():
            several = not isinstance(option, click.Option) or option.multiple or option.is_flag
            if times > 1 and not several:
                raise click.UsageError(
                    f"{max(option.opts, key=len)} is given {times} times; `{ctx.command_path}` "
                    "takes one.",
                    ctx,
                )
        left = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            check_together(ctx, self.conflicts, self.needs)
        return left

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, if every variable of the environment has a meaning."""
        from .._system import progress
        from .._values import environment

        found = environment.problems()
        if found and self.name not in ("info", "doctor"):  # which print them
            raise ArgumentError(" ".join(found))
        environment.check_names()
        if not found and environment.log_level() is not None:
            from .._launch import log

            log.begin_from_environment()
        progress.show()
        return super().invoke(ctx)


class Group(click.Group):
    command_class = Command
    group_class = type

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(_Debug())

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order of this file, not of the alphabet

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of a name; for an unknown one, the error names the nearest."""
        near = get_close_matches(args[0], self.list_commands(ctx), 1) if args else []
        if near and near[0] != args[0] and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # `xtarget kernels | head`; click's own exit code for it is 1
            drop_standard_output()
            sys.exit(EXIT_PIPE)
        except OSError as error:
            if error.errno not in (errno.EBADF, errno.ENOSPC, errno.EIO) or error.filename:
                raise
            drop_standard_output()
            raise XTargetError(
                f"the standard output cannot be written: {error.strerror}."
            ) from error


def open_standard_files() -> None:
    """Open what the caller has closed of standard input, output and error (`xtarget devices >&-`).
    Another file would get its number, and what a library prints.
    """
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # the lowest number that is free
    if sys.stdout is None:  # what is written there is an error, as for other programs
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115


def drop_standard_output() -> None:
    """After a failure to write: the interpreter flushes it at its end."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115


# ---------------------------------------------------------------------------- options used often


def kernel_argument(name: str = "kernel", **settings: Any) -> Callable[[FunctionT], FunctionT]:
    """An argument that is a kernel's name."""
    return click.argument(name, **settings)


def file_option(*names: str, **settings: Any) -> Callable[[FunctionT], FunctionT]:
    """An option that names a file to write."""
    return click.option(*names, type=OUTPUT_FILE, metavar="FILE", **settings)


def device_option(function: FunctionT) -> FunctionT:
    return click.option(
        "--device", metavar="NAME", help="For example nvidia:0; see `xtarget devices`."
    )(function)


def json_option(function: FunctionT) -> FunctionT:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def _executor(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value not in (PROCESSES, None):
        from .._executors.opening import checked

        try:
            checked(value)
        except ArgumentError as error:
            raise click.BadParameter(str(error), ctx, param) from error
    return value


def executor_option(
    *, default: str | None = PROCESSES, means: str = "Who works"
) -> Callable[[FunctionT], FunctionT]:
    """The option of commands whose work can be spread.

    Args:
        default: None: this process, and no other.
    """
    return click.option(
        "--executor",
        default=default,
        show_default=default or "this process",
        metavar="EXECUTOR",
        callback=_executor,
        help=f"{means}: processes, dask:ADDRESS, ray:ADDRESS, or mpi (docs/how-to/clusters.md).",
    )


def compression_option(usual: str, means: str) -> Callable[[FunctionT], FunctionT]:
    """The option of files that are packed in the usual way, or by zstd."""
    return click.option(
        "--compression",
        type=click.Choice([usual, "zstd"]),
        default=usual,
        show_default=True,
        help=means,
    )


def folder_option(function: FunctionT) -> FunctionT:
    return click.option(
        "-o",
        "--output",
        "folder",
        required=True,
        type=click.Path(file_okay=False),
        callback=folder_name,
        help="Folder to write to; made if it is not there.",
    )(function)


def layout_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what arguments a kernel gets; the function gets one `call_options`."""

    @functools.wraps(function)
    def command(
        *, shapes: Shapes, dtype: str, options: Values, scalars: Values, **others: Any
    ) -> Any:
        return function(call_options=CallOptions(shapes, dtype, options, scalars), **others)

    for option in (
        click.option(
            "--option",
            "options",
            multiple=True,
            metavar="NAME=VALUE",
            callback=pairs,
            help="An option of the kernel, for example axis=-1. Repeatable.",
        ),
        click.option(
            "--scalar",
            "scalars",
            multiple=True,
            metavar="NAME=VALUE",
            callback=pairs,
            help="Give input NAME as a number instead of an array. Repeatable.",
        ),
        click.option(
            "--dtype",
            default="float32",
            show_default=True,
            metavar="DTYPE",
            help="Element type of the arrays.",
        ),
        click.option(
            "--shape",
            "shapes",
            multiple=True,
            metavar="SHAPE",
            callback=shapes,
            help="Shape, for example 1048576 or 4096x4096; other inputs' shapes follow from it. "
            "Given several times: one for each input.",
        ),
    ):
        option(command)
    return command
