"""`xtarget tune`: what the command and its subcommands take. What they do is in `tune`."""

from __future__ import annotations

from typing import Any

import click

from .base import (
    EXIT_ERROR,
    Command,
    Group,
    device_option,
    executor_option,
    file_option,
    json_option,
    kernel_argument,
    layout_options,
)
from .values import CallOptions

__all__ = ["tune"]

_EXIT_INTERRUPTED = 130


class _Tune(Group):
    """`xtarget tune NAME` is `xtarget tune kernel NAME`."""

    usual = "kernel"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self._whole(args))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(ctx, self._whole(args))

    def _whole(self, args: list[str]) -> list[str]:
        own = {"-h", "--help", "--debug", *self.commands}
        return [self.usual, *args] if args and args[0] not in own else args


@click.group(cls=_Tune)
def tune() -> None:
    """Find out which way of computing a call is the fastest here, and keep it.

    `xtarget tune matmul ...` is short for `xtarget tune kernel matmul ...`. What is found serves
    later calls of these and near sizes, also in other processes; `xtarget explain` shows what
    serves a call. Calls themselves never tune.
    """


@tune.command(
    cls=Command,
    examples=(
        "xtarget tune matmul --shape 4096x4096x4096 --dtype bfloat16 --device nvidia:0",
        "xtarget tune matmul --shape 16x4096x14336 --option transposed=b --dtype float16",
        "xtarget tune softmax --shape 8192x32768 --json",
        "XTARGET_KERNELS=my_kernels xtarget tune my_matmul --shape 4096x4096",
    ),
    fails="a result that was not kept because its spread is too wide",
)
@kernel_argument()
@layout_options
@device_option
@executor_option(means="Who compiles the configurations, which are timed here")
@click.option("--again", is_flag=True, help="Measure also what was measured before.")
@json_option
def kernel(
    kernel: str,
    call_options: CallOptions,
    device: str | None,
    **how: Any,
) -> None:
    """Time each configuration of KERNEL for a call, on random input.

    For kernels of the library, those with `configs=`, and those with @triton.autotune. matmul takes
    m x n x k as one shape, and the layouts by `--option transposed=a`, `b` or `ab`. A configuration
    that does not compile, gives another result, spills registers, or cannot be near the best by a
    model is dropped and named. What was measured before for these sizes is taken as it is. Ctrl-C
    keeps what was measured (exit code 130).
    """
    from .tune import tune_kernel

    kept, interrupted = tune_kernel(kernel, call_options, device, **how)
    if interrupted:
        raise click.exceptions.Exit(_EXIT_INTERRUPTED)
    if not kept:
        raise click.exceptions.Exit(EXIT_ERROR)


@tune.command(
    "list",
    cls=Command,
    examples=("xtarget tune list", "xtarget tune list --target nvidia:sm_90 --json"),
)
@click.option("--target", metavar="TARGET", help="Only of this target.")
@json_option
def list_(target: str | None, as_json: bool) -> None:
    """Print what was measured or imported here, and what is shipped."""
    from .tune_files import list_tunings

    list_tunings(target, as_json)


@tune.command(
    cls=Command,
    examples=(
        "xtarget tune export -o h200.json --target nvidia:sm_90",
        "xtarget tune export -o matmul.json --table matmul --best",
    ),
)
@file_option("-o", "--output", required=True, help="Where to write.")
@click.option("--target", metavar="TARGET", help="Only of this target.")
@click.option("--table", metavar="NAME", help="Only of this table or kernel (`xtarget tune list`).")
@click.option("--best", is_flag=True, help="Only the choices, without each configuration's result.")
@json_option
def export(output: str, target: str | None, table: str | None, best: bool, as_json: bool) -> None:
    """Write what was measured or imported here to a file."""
    from .tune_files import export_tunings

    export_tunings(output, target, table, results=not best, as_json=as_json)


@tune.command(
    "import",
    cls=Command,
    examples=(
        "xtarget tune import h200.json",
        "xtarget tune import h200.json --anyway",
    ),
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--anyway", is_flag=True, help="Also what was measured on devices that are not here.")
@json_option
def import_(files: tuple[str, ...], anyway: bool, as_json: bool) -> None:
    """Take measurements of a file. What is of another device, version or kernel is ignored, with a
    line that says so."""
    from .tune_files import import_tunings

    import_tunings(files, anyway=anyway, as_json=as_json)


@tune.command(
    cls=Command,
    examples=("xtarget tune merge h200-a.json h200-b.json -o h200.json",),
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@file_option("-o", "--output", required=True, help="Where to write.")
@json_option
def merge(files: tuple[str, ...], output: str, as_json: bool) -> None:
    """Join files: of one configuration's results, that of the last file; the fastest is chosen."""
    from .tune_files import merge_tunings

    merge_tunings(files, output, as_json=as_json)
