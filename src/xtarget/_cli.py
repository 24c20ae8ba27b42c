"""The command line: what the commands are called and take. What they do is in `_cli_*`, imported
when a command runs, so that `xtarget devices` does not pay for what `xtarget run` needs.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import click

from . import __version__
from ._cli_values import folder_name, pairs, shapes
from ._errors import NoDeviceError, XTargetError

__all__ = ["EXIT_ERROR", "EXIT_NO_DEVICE", "EXIT_USAGE", "main"]

EXIT_ERROR, EXIT_USAGE, EXIT_NO_DEVICE = 1, 2, 3
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


class _Group(click.Group):
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


class _Main(_Group):
    """The outermost group; the commands of `_cli_bundle` come in when they are asked for."""

    later = ("bundle", "explain")

    def list_commands(self, ctx: click.Context) -> list[str]:
        self._load()
        return super().list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.later:
            self._load()
        return super().get_command(ctx, cmd_name)

    @staticmethod
    def _load() -> None:
        from . import _cli_bundle  # adds them to `cli`

        assert _cli_bundle.__all__


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
    except (XTargetError, OSError, MemoryError) as error:
        if state["debug"]:
            raise
        text = str(error)
        if isinstance(error, MemoryError) and not isinstance(error, XTargetError):
            text = f"this machine has not enough memory: {text or 'none left'}. Choose a smaller "
            text += "--shape."
        click.echo(f"error: {text}", err=True)
        sys.exit(EXIT_NO_DEVICE if isinstance(error, NoDeviceError) else EXIT_ERROR)


# ---------------------------------------------------------------------------- options used often


def _json(function: _F) -> _F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def _layout(function: _F) -> _F:
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


# --------------------------------------------------------------------------------------- commands


@click.group(cls=_Main, context_settings={"help_option_names": ["-h", "--help"]})
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
@click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(min=0),
    help="Seed of the random input.",
)
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
    callback=folder_name,
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
