"""`xtarget bundle …` and `xtarget explain`: what the commands take. What they do is in
`_cli.bundle`."""

from __future__ import annotations

from typing import Any

import click

from .base import (
    EXIT_ERROR,
    Command,
    Group,
    compression_option,
    executor_option,
    file_option,
    folder_option,
    json_option,
    kernel_argument,
    layout_options,
)
from .values import seconds, words

__all__ = ["bundle", "explain"]

_library_option = click.option(
    "--library",
    "libraries",
    multiple=True,
    metavar="FOLDER",
    help="A library of your own, or a file FILE.py with functions of @xtarget.kernel: its kernels, "
    "where --kernel names none. Repeatable.",
)


def _only_of(libraries: tuple[str, ...], kernels: tuple[str, ...]) -> tuple[str, ...]:
    """The kernels that were named, else all of these libraries, which are loaded."""
    from .._kernels.libraries import load_library
    from .bundle import kernels_of_file

    loaded = [
        name
        for place in libraries
        for name in (kernels_of_file(place) if place.endswith(".py") else load_library(place))
    ]
    return kernels or tuple(loaded)


@click.group(cls=Group)
def bundle() -> None:
    """One file with the binaries of many kernels for several targets."""


@bundle.command(
    examples=(
        "xtarget bundle build -o kernels.xtb --target h200,mi300x,intel",
        "xtarget bundle build --list --kernel softmax --target h200",
        "xtarget bundle build -o fused.xtb --fuse layers.py:bias_gelu --target h200",
        "xtarget bundle build -o mine.xtb --library src/my_kernels --target h200",
        "xtarget bundle build -o kernels.xtb --target h200 --executor dask:tcp://head:8786",
    ),
    fails="a kernel that does not compile",
)
@file_option("-o", "--output", help="The bundle to write.")
@click.option(
    "--target",
    "targets",
    multiple=True,
    required=True,
    callback=words,
    metavar="TARGET,…",
    help="What to build for, for example nvidia:sm_80,amd:gfx942,intel:spirv64. Repeatable.",
)
@click.option(
    "--kernel",
    "kernels",
    multiple=True,
    callback=words,
    metavar="NAME,…",
    help="Only these kernels. Repeatable.",
)
@_library_option
@click.option(
    "--fuse",
    "fused",
    multiple=True,
    callback=words,
    metavar="MODULE:NAME,…",
    help="Fused functions, for the calls that their ahead= says; MODULE may be a file, "
    "FILE.py:NAME. Without --kernel, nothing else. Repeatable.",
)
@click.option(
    "--dtype",
    "dtypes",
    multiple=True,
    callback=words,
    default=("float32",),
    show_default=True,
    metavar="DTYPE,…",
    help="Element types of the arrays; `all` is every one that a kernel takes but floats of 8 "
    "bits. Repeatable.",
)
@click.option("--views", is_flag=True, help="Strided arrays of 1 to 4 dimensions too.")
@click.option("--full", is_flag=True, help="Every tile size that a plan can choose, not the usual.")
@click.option("--jobs", type=click.IntRange(1), help="Processes. Default: one for each CPU.")
@click.option(
    "--timeout",
    default="120",
    show_default=True,
    metavar="SECONDS",
    callback=seconds,
    help="Processor time that one compilation may take.",
)
@click.option("--list", "only_list", is_flag=True, help="Print what would be built; build nothing.")
@click.option(
    "--sign",
    type=click.Path(exists=True, dir_okay=False),
    metavar="KEY",
    help="Sign with this Ed25519 private key (PEM).",
)
@compression_option("zlib", "Of what it holds; zstd is smaller, and its readers need zstd too.")
@executor_option()
@json_option
def build(
    output: str | None,
    only_list: bool,
    libraries: tuple[str, ...],
    kernels: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> None:
    """Compile kernels for several targets into one file. Needs no GPU.

    Builds what calls on C-contiguous arrays of one dtype reach: `--list` prints every class of
    specializations, with which values each variant takes for multiples of 16. A kernel that does
    not compile is left out and said, and the exit code is 1. Done again, it compiles what changed.
    """
    from .bundle import build_bundle, list_classes, order_of

    if output is None and not only_list:
        raise click.UsageError("Missing option '-o' / '--output' (or --list).")
    what = {name: given.pop(name) for name in ("targets", "dtypes", "views", "full", "fused")}
    order = order_of(kernels=_only_of(libraries, kernels), **what)
    if output is None or only_list:
        list_classes(order, as_json=as_json)
    elif not build_bundle(output, order, as_json=as_json, **given):
        raise click.exceptions.Exit(EXIT_ERROR)


@bundle.command(
    "ls",
    examples=(
        "xtarget bundle ls kernels.xtb",
        "xtarget bundle ls kernels.xtb --variants --json",
    ),
)
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--variants", is_flag=True, help="Every variant, not the sums.")
@json_option
def list_(file: str, variants: bool, as_json: bool) -> None:
    """List what a bundle holds, and for each target where else its binaries run."""
    from .bundle import list_bundle

    list_bundle(file, variants, as_json)


@bundle.command(
    examples=("xtarget bundle verify kernels.xtb",),
)
@click.argument("file", type=click.Path(dir_okay=False))
@json_option
def verify(file: str, as_json: bool) -> None:
    """Read all of a bundle and check every digest, and the signature if there is one."""
    from .bundle import verify_bundle

    verify_bundle(file, as_json)


@bundle.command(
    "emit-c",
    examples=("xtarget bundle emit-c kernels.xtb -o c_code --kernel softmax,add",),
)
@click.argument("file", type=click.Path(dir_okay=False))
@folder_option
@click.option(
    "--kernel", "kernels", multiple=True, callback=words, metavar="NAME,…", help="Only these."
)
@_library_option
@click.option(
    "--driver",
    type=click.Choice(["cuda", "hip"]),
    default="cuda",
    show_default=True,
    help="Whose driver the C code loads its binaries through.",
)
@json_option
def emit_c(
    file: str,
    folder: str,
    kernels: tuple[str, ...],
    libraries: tuple[str, ...],
    driver: str,
    as_json: bool,
) -> None:
    """Write C functions, one for each kernel and dtype, with a bundle's binaries inside.

    The code opens the driver's library when it is first called, and links with nothing but libc.
    """
    from .bundle import emit_code

    emit_code(file, folder, _only_of(libraries, kernels), driver, as_json)


@click.command(
    cls=Command,
    examples=(
        "xtarget explain add --target nvidia:sm_86",
        "XTARGET_BUNDLES=kernels.xtb xtarget explain softmax --shape 64x1000 --json",
    ),
)
@kernel_argument()
@click.option("--target", metavar="TARGET", help="Default: that of the default device.")
@layout_options
@json_option
def explain(kernel: str, target: str | None, **given: Any) -> None:
    """Say where the binaries of a call come from: which bundle, cache or compiler, and why.

    XTARGET_BUNDLES names the bundles that are asked.
    """
    from .explain import explain_call

    explain_call(kernel, target, **given)
