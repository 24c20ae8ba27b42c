"""`xtarget cache ...`: what the commands are called and take. What they do is in `_cli.cache`."""

from __future__ import annotations

import re
from typing import Any

import click

from .base import (
    FunctionT,
    Group,
    compression_option,
    echo,
    json_option,
    kernel_argument,
    layout_options,
)
from .values import CallOptions

__all__ = ["cache", "filter_options"]

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def _age(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """`45s`, `30m`, `12h`, `7d`, `2w` in seconds."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)\s*([smhdw])", value.strip().lower())
    if match is None:
        raise click.BadParameter(
            f"{value!r} is not an age. Write a number with s, m, h, d or w: 7d, for example.",
            ctx,
            param,
        )
    return float(match[1]) * _SECONDS[match[2]]


def _size(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    from .._values.environment import parse_bytes

    try:
        return None if value is None else parse_bytes(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def filter_options(function: FunctionT) -> FunctionT:
    for option in (
        click.option("--newer", metavar="AGE", callback=_age, help="Used within, for example 1h."),
        click.option("--older", metavar="AGE", callback=_age, help="Not used for, such as 7d."),
        click.option("--kernel", metavar="NAME", help="Entries of this kernel."),
        click.option("--target", metavar="TARGET", help="Entries of nvidia, or nvidia:sm_90."),
    ):
        function = option(function)
    return function


@click.group(cls=Group)
def cache() -> None:
    """The cache of compiled kernels on disk."""


@cache.command(
    examples=("xtarget cache path",),
)
@json_option
def path(as_json: bool) -> None:
    """Print the cache's folder."""
    import json

    import xtarget

    folder = str(xtarget.cache_dir())
    echo(json.dumps({"path": folder}) if as_json else folder)


@cache.command(
    examples=(
        "xtarget cache ls",
        "xtarget cache ls --kernel softmax --newer 1h --json",
    ),
)
@filter_options
@json_option
def ls(as_json: bool, **chosen: Any) -> None:
    """List the entries of the cache's own folder, the most recently used first."""
    from .cache import list_entries

    list_entries(chosen, as_json)


@cache.command(
    examples=("xtarget cache stats",),
)
@json_option
def stats(as_json: bool) -> None:
    """Print how much is in the cache, by target, and how it is set up.

    Hits and misses are counted in the processes that have them: `xtarget.cache_stats()`.
    """
    from .cache import show_stats

    if not show_stats(as_json):
        raise click.exceptions.Exit(1)


@cache.command(
    examples=(
        "xtarget cache verify",
        "xtarget cache verify --recompile 20",
    ),
    fails="an entry that is not right",
)
@filter_options
@click.option(
    "--recompile",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    help="Compile N of them again, chosen at random, and compare.",
)
@json_option
def verify(recompile: int, as_json: bool, **chosen: Any) -> None:
    """Read entries as a process that needs them would; exit with 1 if one is not right.

    Changes nothing: a damaged entry is set aside by the first process that needs it. With
    --recompile, entries of the libraries that are loaded are compiled again, and one that differs
    is set aside: its key lacks something that it was made from.
    """
    from .cache import verify_entries

    if not verify_entries(chosen, recompile, as_json):
        raise click.exceptions.Exit(1)


@cache.command(
    examples=(
        "xtarget cache prune --older 30d",
        "xtarget cache prune --size 500M",
    ),
)
@filter_options
@click.option(
    "--size",
    "max_bytes",
    metavar="SIZE",
    callback=_size,
    help="Keep at most this much, for example 500M. Default: XTARGET_CACHE_SIZE.",
)
@json_option
def prune(max_bytes: int | None, as_json: bool, **chosen: Any) -> None:
    """Remove the chosen entries, then the least recently used ones until the rest fits.

    Also what killed processes left behind. Entries in use stay.
    """
    from .cache import prune_entries

    prune_entries(max_bytes, chosen, as_json)


@cache.command(
    examples=(
        "xtarget cache clear --target nvidia",
        "xtarget cache clear",
    ),
)
@filter_options
@json_option
def clear(as_json: bool, **chosen: Any) -> None:
    """Remove the chosen entries; all of them, and the quarantine, when nothing is chosen."""
    from .cache import clear_entries

    clear_entries(chosen, as_json)


@cache.command(
    examples=(
        "xtarget cache export --oci image --tag v1",
        "xtarget cache export --oci image --target nvidia --bundle kernels.xtb",
    ),
)
@filter_options
@click.option("--oci", "folder", required=True, metavar="DIR", help="The image layout to write.")
@click.option("--tag", default="latest", show_default=True, help="The image's name in it.")
@click.option("--bundle", "bundles", multiple=True, metavar="FILE", help="A bundle, too.")
@compression_option("gzip", "Of the layers; zstd is smaller, and older container tools refuse it.")
@json_option
def export(
    folder: str,
    tag: str,
    bundles: tuple[str, ...],
    compression: str,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Write compiled kernels as an OCI image layout, which container tools push to a registry.

    A layer for each target, one for each bundle. What a device made of a kernel is not in it.
    """
    from .images import export_entries

    export_entries(chosen, bundles, folder, tag, compression, as_json)


@cache.command("import", examples=("xtarget cache import --oci image",))
@click.option("--oci", "folder", required=True, metavar="DIR", help="The image layout to read.")
@json_option
def import_(folder: str, as_json: bool) -> None:
    """Put the entries of an OCI image layout into the cache, each checked."""
    from .images import import_entries

    import_entries(folder, as_json)


@cache.command(
    examples=("xtarget cache check",),
    fails="a device without an entry, or one that is damaged or that its driver refuses",
)
@filter_options
@json_option
def check(as_json: bool, **chosen: Any) -> None:
    """Load every entry on the devices that it is for; exit with 1 if one is refused or damaged, or
    if a device has none.

    Run it on a machine before programs do: its GPU and driver have to match what was compiled.
    With --target, only devices of that vendor are looked at.
    """
    from .images import check_entries

    if not check_entries(chosen, as_json):
        raise click.exceptions.Exit(1)


@cache.command(
    examples=("xtarget cache why add --shape 4096 --dtype float16 --target nvidia:sm_90",),
    fails="a miss",
)
@kernel_argument()
@click.option("--target", metavar="TARGET", help="Default: the default device's.")
@layout_options
@json_option
def why(
    kernel: str,
    target: str | None,
    call_options: CallOptions,
    as_json: bool,
) -> None:
    """Say whether a call of KERNEL finds its binary, and for a miss what differs from the nearest.

    Compiles nothing. Exits with 1 for a miss.
    """
    from .cache import explain_call

    if not explain_call(kernel, target, call_options, as_json):
        raise click.exceptions.Exit(1)
