"""What the commands have in common: `--debug` everywhere, and the options that several take."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ._cli_values import pairs, shapes

__all__ = ["EXIT_PIPE", "Group", "json_option", "layout_options"]

#: What a shell reports of a program that the end of its pipe stopped (128 + SIGPIPE).
EXIT_PIPE = 141

_F = TypeVar("_F", bound=Callable[..., Any])


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
        ctx.find_object(dict)["debug"] |= value  # type: ignore[index]  # main() gives it


class _Command(click.Command):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(_Debug())

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
        return super().parse_args(ctx, args)


class Group(click.Group):
    command_class = _Command
    group_class = type

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(_Debug())

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order of this file, not of the alphabet

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # `xtarget kernels | head`; click's own exit code for it is 1
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the interpreter flushes it at its end
            sys.exit(EXIT_PIPE)


# ---------------------------------------------------------------------------- options used often


def json_option(function: _F) -> _F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def layout_options(function: _F) -> _F:
    """The options that say what arguments a kernel gets."""
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
        function = option(function)
    return function
