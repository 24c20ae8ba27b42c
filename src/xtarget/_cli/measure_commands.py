"""`xtarget verify` and `bench`: what the commands take. What they do is in the files beside
of these names."""

from __future__ import annotations

import re
from collections.abc import Callable

import click

from .base import (
    EXIT_ERROR,
    Command,
    FunctionT,
    device_option,
    executor_option,
    file_option,
    json_option,
)
from .values import Shapes, shapes, words

__all__ = ["bench", "verify"]

#: As shells and Python report a program that Ctrl-C ended.
_EXIT_INTERRUPTED = 130


def _sizes(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> Shapes:
    """Shapes with commas between them, in which `2^20` is a number."""
    texts = [word for text in value for word in text.split(",") if word.strip()]
    plain = tuple(
        re.sub(r"2\^(\d{1,2})", lambda power: str(1 << int(power[1])), text) for text in texts
    )
    return shapes(ctx, param, plain)


def _peers(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    from .._bench.peers import NAMES

    found = words(ctx, param, value)
    for name in found:
        if name not in NAMES:
            raise click.BadParameter(
                f"{name!r} is not a library to compare with; there are {', '.join(NAMES)}.",
                ctx,
                param,
            )
    return found


def _compare_option(means: str) -> Callable[[FunctionT], FunctionT]:
    """The older report of `verify` and `bench`."""
    return click.option(
        "--compare", "older", type=click.Path(dir_okay=False), metavar="FILE", help=means
    )


@click.command(
    cls=Command,
    examples=(
        "xtarget verify --report report.json --html report.html",
        "xtarget verify softmax sum --dtype float16 --device nvidia:0",
        "xtarget verify --quick --compare release",
        "xtarget verify gelu erf --every-value",
        "xtarget verify --report report.json --resume",
        "xtarget verify --target amd:gfx942 --report gfx942.json",
        "xtarget verify --device nvidia --executor dask:tcp://head:8786 --report report.json",
        "xtarget verify --merge h200.json gfx942.json --report support.md",
    ),
    fails="a wrong or worse result",
    conflicts=(
        (
            "--merge",
            (
                *("--device", "--dtype", "--target", "--quick", "--long", "--every-value"),
                *("--compare", "--resume", "--executor"),
            ),
            "--merge joins reports and calls nothing",
        ),
        (
            "--target",
            ("--device", "--quick", "--long", "--every-value"),
            "--target compiles and calls nothing",
        ),
        ("--quick", ("--long", "--every-value"), "one is few calls and the other many"),
        (
            "--executor",
            ("--compare", "--resume"),
            "workers may have other devices than an older report",
        ),
        ("--long", ("--every-value",), "one is of large arrays and the other of all values"),
    ),
    needs=(("--resume", "--report"),),
)
@click.argument("kernels", nargs=-1, metavar="[KERNEL]... or [REPORT]...")
@device_option
@click.option("--dtype", "dtypes", multiple=True, help="Only this element type. Repeatable.")
@click.option(
    "--target", metavar="TARGET", help="Compile for this target, which need not be here; no call."
)
@click.option("--quick", is_flag=True, help="Few calls: one binary for most dtypes.")
@click.option("--long", is_flag=True, help="Large arrays too.")
@click.option(
    "--every-value",
    is_flag=True,
    help="Elementwise kernels only: all values of half types, a sample of float32.",
)
@file_option(
    "--report",
    "file",
    help="Write the results as JSON; with --merge, the table as Markdown.",
)
@file_option(
    "--html",
    "html_file",
    help="Write them as a page; with --merge, the table.",
)
@_compare_option(
    "An older report, or `release` for the one that is stored with this version: exit with 1 "
    "if something is worse than there."
)
@click.option(
    "--resume", is_flag=True, help="Only what FILE of --report does not have; its rows stay."
)
@executor_option(default=None, means="Who verifies, each on a device of its machine")
@click.option("--merge", is_flag=True, help="Join reports of several machines into one table.")
@json_option
def verify(
    kernels: tuple[str, ...],
    device: str | None,
    dtypes: tuple[str, ...],
    target: str | None,
    quick: bool,
    long: bool,
    every_value: bool,
    file: str | None,
    html_file: str | None,
    older: str | None,
    resume: bool,
    executor: str | None,
    merge: bool,
    as_json: bool,
) -> None:
    """Check kernels on a device against their reference in float64.

    Every kernel and dtype with hard shapes (none, one, odd numbers of elements), values (NaN,
    infinities, the ends of an integer's range) and layouts. Exits with 1 if something is wrong.
    With --target, whether every kernel compiles there; --merge makes one table of all. With
    --executor, the report says which machine and device ran what; workers with several kinds of
    devices give a report for each kind.
    """
    from .._verify.every_value import EXTENT
    from .._verify.spread import Spread
    from .verify import merge_reports, verify_kernels
    from .verify_spread import verify_on_workers

    extent = "quick" if quick else "long" if long else EXTENT if every_value else "usual"

    if merge:
        merge_reports(kernels, file, html_file, as_json=as_json)
        return
    if executor is not None:
        done = verify_on_workers(
            kernels,
            Spread(dtypes, extent, device, target),
            executor,
            file=file,
            html_file=html_file,
            as_json=as_json,
        )
        _leave(*done)
        return
    ok, interrupted = verify_kernels(
        kernels,
        dtypes,
        device,
        target,
        extent=extent,
        file=file,
        html_file=html_file,
        older=older,
        resume=resume,
        as_json=as_json,
    )
    _leave(ok, interrupted)


def _leave(ok: bool, interrupted: bool) -> None:
    if interrupted:
        raise click.exceptions.Exit(_EXIT_INTERRUPTED)
    if not ok:
        raise click.exceptions.Exit(EXIT_ERROR)


@click.command(
    cls=Command,
    examples=(
        "xtarget bench softmax matmul --against numpy,torch --html report.html",
        "xtarget bench add --sizes 2^16,2^20,2^24 --report new.json --compare old.json",
    ),
    fails="a slower result with --compare",
    needs=(("--threshold", "--compare"),),
)
@click.argument("kernels", nargs=-1, metavar="[KERNEL]...")
@click.option(
    "--device",
    "devices",
    multiple=True,
    callback=words,
    metavar="NAME,…",
    help="For example nvidia:0,cpu:0; see `xtarget devices`. Repeatable.",
)
@click.option(
    "--against",
    "peers",
    multiple=True,
    callback=_peers,
    metavar="NAME,…",
    help="Libraries to compare with: numpy, torch, torch.compile, cupy.",
)
@click.option(
    "--sizes",
    multiple=True,
    callback=_sizes,
    metavar="SHAPE,…",
    help="For example 2^16,1024x1024; other inputs' shapes follow from it. Repeatable.",
)
@click.option(
    "--dtype",
    "dtypes",
    multiple=True,
    callback=words,
    metavar="DTYPE,…",
    help="Element types. Default: float32. Repeatable.",
)
@click.option(
    "--seconds",
    default=0.3,
    show_default=True,
    type=click.FloatRange(0.001, 600),
    help="How long each case is sampled.",
)
@file_option(
    "--report",
    "json_file",
    help="Write the results as JSON.",
)
@file_option(
    "--html",
    "html_file",
    help='Write them as a page with plots (pip install "xtarget[report]").',
)
@_compare_option("An older report: exit with 1 if something is slower than there.")
@click.option(
    "--threshold",
    default=10.0,
    show_default=True,
    type=click.FloatRange(min=0),
    metavar="PERCENT",
    help="For --compare: how much longer a time may be.",
)
@json_option
def bench(
    kernels: tuple[str, ...],
    devices: tuple[str, ...],
    peers: tuple[str, ...],
    sizes: Shapes,
    dtypes: tuple[str, ...],
    seconds: float,
    json_file: str | None,
    html_file: str | None,
    older: str | None,
    threshold: float,
    as_json: bool,
) -> None:
    """Measure kernels, beside other libraries and the device's own limits.

    Medians of calls on inputs that take turns, with quartiles and a 95 % interval, by the device's
    events where a GPU has them, else by the host's clock. The limits are the fastest copy and
    product of matrices of the same run. A peer that is not installed, and a size that does not fit
    the memory, are left out with a line. Ctrl-C keeps what was measured (exit code 130).
    """
    from .bench import Wanted, bench_kernels

    wanted = Wanted(
        kernels,
        devices,
        peers,
        sizes,
        dtypes,
        seconds,
        older,
        threshold / 100,
        json_file,
        html_file,
    )
    _leave(*bench_kernels(wanted, as_json=as_json))
