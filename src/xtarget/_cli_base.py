"""What the commands have in common: `--debug` everywhere, and the options that several take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["Group", "json_option", "layout_options"]

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


class Group(click.Group):
    command_class = _Command
    group_class = type

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(_Debug())

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order of this file, not of the alphabet


# ---------------------------------------------------------------------------- options used often


def json_option(function: _F) -> _F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def _pairs(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, Any]:
    """`name=value` texts; values are Python literals, anything else is a string."""
    import ast

    pairs: dict[str, Any] = {}
    for text in value:
        name, equals, given = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise click.BadParameter(f"{text!r} is not of the form name=value.", ctx, param)
        try:
            pairs[name.strip()] = ast.literal_eval(given.strip())
        except (ValueError, SyntaxError):
            pairs[name.strip()] = given.strip()
    return pairs


def _shapes(
    ctx: click.Context, param: click.Parameter, value: tuple[str, ...]
) -> tuple[tuple[int, ...], ...]:
    """`1048576`, `4096x4096`, `8,16,32`, and `()` for a 0-d array."""
    shapes = []
    for text in value:
        lengths = text.strip().removeprefix("(").removesuffix(")").replace(",", "x").split("x")
        if len(lengths) > 1 and not lengths[-1].strip():
            lengths.pop()  # (5,) as Python writes it
        if lengths == [""]:
            shape: tuple[int, ...] = ()
        elif all(n.strip().isascii() and n.strip().isdigit() for n in lengths):
            shape = tuple(map(int, lengths))
        else:
            raise click.BadParameter(
                f"{text!r} is not a shape. Write lengths with an x between them, for example "
                "1048576 or 4096x4096; () is a 0-d array.",
                ctx,
                param,
            )
        shapes.append(shape)
    return tuple(shapes)


def layout_options(function: _F) -> _F:
    """The options that say what arguments a kernel gets."""
    for option in (
        click.option(
            "--option",
            "options",
            multiple=True,
            metavar="NAME=VALUE",
            callback=_pairs,
            help="An option of the kernel, for example axis=-1. Repeatable.",
        ),
        click.option(
            "--scalar",
            "scalars",
            multiple=True,
            metavar="NAME=VALUE",
            callback=_pairs,
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
            callback=_shapes,
            help="Shape, for example 1048576 or 4096x4096; other inputs' shapes follow from it. "
            "Given several times: one for each input.",
        ),
    ):
        function = option(function)
    return function
