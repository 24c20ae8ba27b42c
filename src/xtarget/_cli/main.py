"""The command line: what the commands are called and take. What they do is in the files beside it,
imported when a command runs, so that `xtarget devices` does not pay for what `xtarget run` needs.
"""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import click

from .. import __version__
from .._values.errors import NoDeviceError, XTargetError
from .base import (
    EXIT_ERROR,
    Group,
    device_option,
    drop_standard_output,
    echo,
    executor_option,
    file_option,
    folder_option,
    kernel_argument,
    open_standard_files,
)
from .base import json_option as _json
from .base import layout_options as _layout
from .cache_commands import cache, filter_options

__all__ = ["EXIT_ERROR", "EXIT_NO_DEVICE", "EXIT_USAGE", "main"]

EXIT_USAGE, EXIT_NO_DEVICE = 2, 3


class _Main(Group):
    """The outermost group; commands of other files come in when they are asked for."""

    later = ("bundle", "ci", "explain", "verify", "bench", "tune", "new-kernels", "serve")

    def list_commands(self, ctx: click.Context) -> list[str]:
        self._load()
        return super().list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.later:
            self._load()
        return super().get_command(ctx, cmd_name)

    def _load(self) -> None:
        from .bundle_commands import bundle, explain
        from .ci_commands import ci
        from .measure_commands import bench, verify
        from .new_kernels import new_kernels
        from .serve import serve
        from .tune_commands import tune

        for command in (bundle, ci, explain, verify, bench, tune, new_kernels, serve):
            self.add_command(command)


def main(args: list[str] | None = None, prog_name: str = "xtarget") -> NoReturn:
    """Run the command line and leave the process with its exit code."""
    open_standard_files()
    words = sys.argv[1:] if args is None else args
    state = {"debug": False, "json": "--json" in words}
    try:
        sys.exit(cli.main(args, prog_name, standalone_mode=False, obj=state) or 0)
    except click.ClickException as error:
        error.show()
        _leave(error.format_message(), error.exit_code, state)
    except (click.Abort, KeyboardInterrupt):
        echo("interrupted", err=True)
        _leave("interrupted", 130, state)
    except (XTargetError, OSError, MemoryError) as error:
        if state["debug"]:
            raise
        text = str(error)
        if isinstance(error, MemoryError) and not isinstance(error, XTargetError):
            text = f"this machine has not enough memory: {text or 'none left'}. Choose a smaller "
            text += "--shape."
        echo(f"error: {text}", err=True)
        _leave(text, EXIT_NO_DEVICE if isinstance(error, NoDeviceError) else EXIT_ERROR, state)


def _leave(text: str, code: int, state: dict[str, bool]) -> NoReturn:
    """End with an exit code; with --json, what reads the standard output sees why."""
    if state["json"]:
        import json

        try:
            echo(json.dumps({"error": text}))
        except OSError:  # that is perhaps what the error is about
            drop_standard_output()
    sys.exit(code)


# --------------------------------------------------------------------------------------- commands


@click.group(cls=_Main, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="xtarget")
def cli() -> None:
    """One Triton kernel library on NVIDIA, AMD and Intel GPUs and any CPU.

    Every command has --help with examples, and --json where it prints data: an error is
    {"error": ...} there. Exit codes: 0 done; 1 an error, a wrong result, a problem that was found;
    2 bad usage; 3 no device; 130 interrupted; 141 the reader of the output left.
    """


@cli.command(
    examples=(
        "xtarget devices",
        "xtarget devices --all --json",
    ),
)
@click.option("--all", "everything", is_flag=True, help="Emulated devices too.")
@_json
def devices(everything: bool, as_json: bool) -> None:
    """List the devices, and why the vendors without one have none.

    The device marked with * is the one that is used when none is named; XTARGET_DEVICE=NAME
    changes it. Exits with 3 when there is no device at all.
    """
    from .listing import list_devices

    if not list_devices(as_json, everything):
        raise click.exceptions.Exit(EXIT_NO_DEVICE)


@cli.command(
    examples=(
        "xtarget kernels --category activation",
        "xtarget kernels RealDiv",
        "xtarget kernels add --routes",
        "xtarget kernels --json",
    ),
    conflicts=(("NAME", ("--category",), "a kernel is of one category"),),
)
@kernel_argument("name", required=False)
@click.option("--category", help="Only kernels of this category.")
@click.option("--routes", is_flag=True, help="By which routes they can be compiled.")
@_json
def kernels(name: str | None, category: str | None, routes: bool, as_json: bool) -> None:
    """List the kernels: category, arguments, dtypes, formula. With NAME, all about one kernel:
    NAME may be any of its names (RealDiv, aten::div, np.divide).

    An argument that ends in ? may be left out. dtypes: integers are int8 to int64 and uint8 to
    uint64, floats float16, bfloat16, float32 and float64, numbers both, bits integers and bool, all
    those and floats; --json lists them one by one.
    """
    from .listing import list_kernels

    list_kernels(as_json, name, category, routes)


@cli.command(
    examples=(
        "xtarget run add --shape 1048576 --dtype float32 --check",
        "xtarget run softmax --shape 64x1000 --option axis=0 --device cpu",
    ),
    fails="a wrong result with --check",
)
@kernel_argument()
@_layout
@device_option
@click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(min=0),
    help="Seed of the random input.",
)
@click.option("--check", is_flag=True, help="Compare with NumPy in float64; exit 1 if wrong.")
@_json
def run(**given: Any) -> None:
    """Run KERNEL once on random input, and some more times for the clock."""
    from .run import run_kernel

    if not run_kernel(**given):
        raise click.exceptions.Exit(EXIT_ERROR)


@cli.command(
    "compile",
    examples=("xtarget compile add --target nvidia:sm_90 --target amd:gfx942 -o out",),
)
@kernel_argument()
@click.option(
    "--target",
    "targets",
    multiple=True,
    required=True,
    metavar="TARGET",
    help="For example nvidia:sm_90, amd:gfx942, intel:spirv64, h200. Repeatable.",
)
@folder_option
@_layout
@_json
def compile_(**given: Any) -> None:
    """Compile KERNEL for one or more targets. Needs no GPU.

    Writes KERNEL-ARCH.cubin and .ptx, .hsaco, or .spv, each with a .json that says all that
    loading and launching needs. Two targets of one arch get the vendor into their names; a kernel
    of several launches gets a number for each.
    """
    from .compile import compile_kernel

    compile_kernel(**given)


@cli.command(
    examples=(
        "xtarget show add --target nvidia:sm_90",
        "xtarget show softmax --target mi300x --stage resources",
    ),
)
@kernel_argument()
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
def show(**given: Any) -> None:
    """Show a compiler stage of KERNEL, or what its binary uses. Needs no GPU."""
    from .compile import show_kernel

    show_kernel(**given)


@cli.command(
    examples=(
        "XTARGET_RECORD=profile.json python serve.py",
        "xtarget warmup profile.json",
        "xtarget warmup profile.json --executor dask:tcp://head:8786",
    ),
)
@click.argument("profile", type=click.Path(dir_okay=False))
@click.option(
    "--jobs", type=click.IntRange(1, 256), help="Processes. Default: one for each processor."
)
@executor_option()
@_json
def warmup(profile: str, jobs: int | None, executor: str, as_json: bool) -> None:
    """Compile what PROFILE lists, and put it into the cache.

    A program writes PROFILE when it runs with XTARGET_RECORD=PROFILE. Needs no GPU.
    """
    from .warmup import warm_up

    warm_up(profile, jobs, executor, as_json=as_json)


@cli.command(
    examples=(
        "xtarget lock -o xtarget.lock",
        "xtarget lock -o xtarget.lock --target nvidia --bundle kernels.xtb",
    ),
)
@filter_options
@click.option(
    "--bundle", "bundles", multiple=True, metavar="FILE", help="The binaries of a bundle too."
)
@click.option(
    "-o", "--output", default="xtarget.lock", show_default=True, help="The lock file to write."
)
@_json
def lock(bundles: tuple[str, ...], output: str, as_json: bool, **chosen: Any) -> None:
    """Write which binaries a program may load: those that the cache has, by sha256, with the digest
    of their source and their tool chain.

    Run the program once, then lock. With XTARGET_LOCK=FILE any other binary is refused, whoever
    compiled it.
    """
    from .lock import write_lock

    write_lock(chosen, bundles, output, as_json)


cli.add_command(cache)


@cli.command(
    examples=(
        "xtarget info",
        "xtarget info --json",
    ),
)
@_json
def info(as_json: bool) -> None:
    """Print the versions and settings that a bug report needs."""
    from .info import print_info

    print_info(as_json)


@cli.command(
    examples=(
        "xtarget doctor",
        "xtarget doctor --report report.md",
    ),
    fails="a problem that it found",
)
@click.option("--device", metavar="NAME", help="Run a kernel on this device only.")
@file_option(
    "--report",
    help="Write what an issue needs, without secrets, home folder and host name.",
)
@_json
def doctor(device: str | None, report: str | None, as_json: bool) -> None:
    """Examine this machine: what works, what does not, and how to mend it.

    Runs a small kernel on every device, each in a process of its own. Exits with 1 if there is a
    problem.
    """
    from .doctor import examine

    if not examine(device, report, as_json):
        raise click.exceptions.Exit(EXIT_ERROR)


@cli.command(
    examples=(
        'eval "$(xtarget completion bash)"',
        "xtarget completion fish > ~/.config/fish/completions/xtarget.fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes a shell complete commands, options and kernels.

    For bash, put the first example's line into ~/.bashrc; for zsh the same with zsh into ~/.zshrc.
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None  # click has these three
    echo(found(cli, {}, "xtarget", "_XTARGET_COMPLETE").source())
