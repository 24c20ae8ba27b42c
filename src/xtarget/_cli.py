"""The command line: what the commands are called and take. What they do is in `_cli_*`, imported
when a command runs, so that `xtarget devices` does not pay for what `xtarget run` needs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import click

from . import __version__
from ._errors import NoDeviceError, XTargetError

__all__ = ["EXIT_ERROR", "EXIT_NO_DEVICE", "EXIT_USAGE", "main"]

EXIT_ERROR, EXIT_USAGE, EXIT_NO_DEVICE = 1, 2, 3

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


class _Group(click.Group):
    command_class = _Command
    group_class = type

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(_Debug())

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order of this file, not of the alphabet


def main(args: list[str] | None = None, prog_name: str = "xtarget") -> NoReturn:
    """Run the command line and leave the process with its exit code."""
    state = {"debug": False}
    try:
        sys.exit(cli.main(args, prog_name, standalone_mode=False, obj=state) or 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:  # `xtarget kernels | head`: the reader has all it wants
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the interpreter flushes it at its end
        sys.exit(EXIT_ERROR)
    except (XTargetError, OSError) as error:
        if state["debug"]:
            raise
        click.echo(f"error: {error}", err=True)
        sys.exit(EXIT_NO_DEVICE if isinstance(error, NoDeviceError) else EXIT_ERROR)


# ---------------------------------------------------------------------------- options used often


def _json(function: _F) -> _F:
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


def _layout(function: _F) -> _F:
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


# --------------------------------------------------------------------------------------- commands


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="xtarget")
def cli() -> None:
    """One Triton kernel library on NVIDIA, AMD and Intel GPUs and any CPU.

    Exit codes: 0 done; 1 an error, or a wrong result with --check; 2 bad usage; 3 no device.
    """


@cli.command()
@click.option("--all", "everything", is_flag=True, help="Emulated devices too.")
@_json
def devices(everything: bool, as_json: bool) -> None:
    """List the devices, and why the vendors without one have none.

    The device marked with * is the one that is used when none is named; XTARGET_DEVICE=NAME
    changes it. Exits with 3 when there is no device at all.
    """
    from ._cli_list import list_devices

    if not list_devices(as_json, everything):
        raise click.exceptions.Exit(EXIT_NO_DEVICE)


@cli.command()
@_json
def kernels(as_json: bool) -> None:
    """List the kernels: category, arguments, dtypes, formula.

    An argument that ends in ? may be left out. dtypes: integers are int8 to int64 and uint8 to
    uint64, floats float16, bfloat16, float32 and float64, numbers both, all those and bool; --json
    lists them one by one.
    """
    from ._cli_list import list_kernels

    list_kernels(as_json)


@cli.command()
@click.argument("kernel")
@_layout
@click.option("--device", metavar="NAME", help="For example nvidia:0; see `xtarget devices`.")
@click.option("--seed", default=0, show_default=True, help="Seed of the random input.")
@click.option("--check", is_flag=True, help="Compare with NumPy in float64; exit 1 if wrong.")
@_json
def run(
    kernel: str,
    shapes: tuple[tuple[int, ...], ...],
    dtype: str,
    options: dict[str, Any],
    scalars: dict[str, Any],
    device: str | None,
    seed: int,
    check: bool,
    as_json: bool,
) -> None:
    """Run KERNEL once on random input, and some more times for the clock.

    Example: xtarget run add --shape 1048576 --dtype float32 --check
    """
    from ._cli_run import run_kernel

    if not run_kernel(kernel, shapes, dtype, options, scalars, device, seed, check, as_json):
        raise click.exceptions.Exit(EXIT_ERROR)


@cli.command("compile")
@click.argument("kernel")
@click.option(
    "--target",
    "targets",
    multiple=True,
    required=True,
    metavar="TARGET",
    help="For example nvidia:sm_90, amd:gfx942, intel:spirv64, h200. Repeatable.",
)
@click.option(
    "-o",
    "--output",
    "folder",
    required=True,
    type=click.Path(file_okay=False),
    help="Folder to write to; made if it is not there.",
)
@_layout
@_json
def compile_(
    kernel: str,
    targets: tuple[str, ...],
    folder: str,
    shapes: tuple[tuple[int, ...], ...],
    dtype: str,
    options: dict[str, Any],
    scalars: dict[str, Any],
    as_json: bool,
) -> None:
    """Compile KERNEL for one or more targets. Needs no GPU.

    Writes KERNEL-ARCH.cubin and .ptx, .hsaco, or .spv, each with a .json that says all that
    loading and launching needs. Two targets of one arch get the vendor into their names; a kernel
    of several launches gets a number for each.

    Example: xtarget compile add --target nvidia:sm_90 --target amd:gfx942 -o out
    """
    from ._cli_compile import compile_kernel

    compile_kernel(kernel, targets, folder, shapes, dtype, options, scalars, as_json)


@cli.command()
@click.argument("kernel")
@click.option("--target", required=True, metavar="TARGET", help="For example nvidia:sm_90.")
@click.option(
    "--stage",
    default="asm",
    show_default=True,
    type=click.Choice(["ttir", "ttgir", "llir", "asm", "resources"]),
    help="asm is PTX, AMDGCN or SPIR-V text; resources is registers, spills, shared memory.",
)
@_layout
@_json
def show(
    kernel: str,
    target: str,
    stage: str,
    shapes: tuple[tuple[int, ...], ...],
    dtype: str,
    options: dict[str, Any],
    scalars: dict[str, Any],
    as_json: bool,
) -> None:
    """Show a compiler stage of KERNEL, or what its binary uses. Needs no GPU."""
    from ._cli_compile import show_kernel

    show_kernel(kernel, target, stage, shapes, dtype, options, scalars, as_json)


@cli.group()
def cache() -> None:
    """The cache of compiled kernels on disk."""


@cache.command()
@_json
def path(as_json: bool) -> None:
    """Print the cache's folder."""
    import json

    import xtarget

    folder = str(xtarget.cache_dir())
    click.echo(json.dumps({"path": folder}) if as_json else folder)


@cli.group()
def ci() -> None:
    """For continuous integration."""


@ci.command()
@click.option(
    "--file",
    "file",
    type=click.Path(dir_okay=False),
    help="The matrix as data. Default: ci/matrix.toml of this folder or of xtarget's checkout.",
)
@click.option("--hosted", is_flag=True, help="Only jobs that need no runner of our own.")
@click.option("--pretty", is_flag=True, help="On many lines, for people.")
def matrix(file: str | None, hosted: bool, pretty: bool) -> None:
    """Print the job matrix as the JSON that a CI runner takes ({"include": [...]})."""
    import json

    from ._cli_matrix import job_matrix

    click.echo(json.dumps(job_matrix(file, hosted_only=hosted), indent=2 if pretty else None))


@cli.command()
@_json
def info(as_json: bool) -> None:
    """Print the versions and settings that a bug report needs."""
    from ._cli_list import print_info

    print_info(as_json)
