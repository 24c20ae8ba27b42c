"""What `xtarget bundle …` and `xtarget explain` do."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from . import __version__, _build, _bundle, _bundle_sign, _cache, _kernels, _registry
from . import _bundle_build as building
from ._bundle import Bundle
from ._bundle_classes import COVERAGE
from ._cli_args import choose_inputs
from ._cli_list import format_bytes, print_table
from ._errors import CompileError
from ._types import DTYPES, CompileRequest, Target

__all__ = [
    "build_bundle",
    "emit_code",
    "explain_call",
    "list_bundle",
    "list_classes",
    "verify_bundle",
]


def _order(
    targets: Sequence[str],
    kernels: Sequence[str],
    dtypes: Sequence[str],
    views: bool,
    full: bool,
) -> building.Order:
    unknown = [dtype for dtype in dtypes if dtype not in DTYPES and dtype != "all"]
    if unknown:
        raise click.BadParameter(
            f"{unknown[0]!r} is no dtype; there are {', '.join(DTYPES)}, and all."
        )
    names = tuple(kernels) or tuple(_kernels.catalog())
    for name in names:
        _kernels.find(name)
    return building.Order(
        names,
        tuple(DTYPES) if "all" in dtypes else tuple(dtypes),
        tuple(sorted({Target.parse(text) for text in targets})),
        views,
        full,
    )


def list_classes(
    *,
    targets: Sequence[str],
    kernels: Sequence[str],
    dtypes: Sequence[str],
    views: bool,
    full: bool,
    as_json: bool,
    **_: Any,
) -> None:
    """Print what a build of this order compiles."""
    order = _order(targets, kernels, dtypes, views, full)
    found = building.wanted(order)
    rows: list[dict[str, Any]] = [
        {
            "target": str(target),
            "function": one.source,
            "kernels": sorted(" ".join(pair) for pair in one.kernels),
            "signature": _signature(one.request),
            "constants": _constants(one.request),
            "warps": one.request.num_warps,
            "aligned": [list(aligned) for aligned in sorted(one.variants)],
        }
        for target, classes in found.items()
        for one in classes
    ]
    if as_json:
        click.echo(json.dumps({"coverage": _coverage(order), "classes": rows}, indent=1))
        return
    click.echo(_coverage(order))
    for row in rows:
        click.echo(
            f"{row['target']}  {row['function']}({row['signature']})  {row['constants']}, "
            f"{row['warps']} warps  for {', '.join(row['kernels'])}"
        )
        for aligned in row["aligned"]:
            click.echo(f"    multiples of 16: {', '.join(aligned) or 'nothing assumed'}")
    total = sum(len(row["aligned"]) for row in rows)
    click.echo(f"{len(rows)} classes, {total} variants")


def _coverage(order: building.Order) -> str:
    lengths = "every" if order.full else "the usual"
    return (
        f"{', '.join(order.kernels)} on {', '.join(order.dtypes)}: "
        f"{COVERAGE['views' if order.views else 'contiguous']}; {lengths} tile sizes of lengths up "
        "to 32768 (matmul: 4096), and 64-bit indices. Not covered: arguments of different dtypes"
        + ("" if order.views else ", other strides (--views)")
        + ("" if order.full else ", few short rows at once (--full)")
        + "."
    )


def _signature(request: CompileRequest) -> str:
    def text(type_: Any) -> str:
        return type_ if isinstance(type_, str) else f"({', '.join(map(text, type_))})"

    return ", ".join(f"{n} {text(t)}" for n, t in request.signature if t != "constexpr")


def _constants(request: CompileRequest) -> str:
    return ", ".join(f"{n}={getattr(v, 'name', v)}" for n, v in request.constants)


def build_bundle(
    output: str,
    *,
    targets: Sequence[str],
    kernels: Sequence[str],
    dtypes: Sequence[str],
    views: bool,
    full: bool,
    jobs: int | None,
    timeout: float,
    sign: str | None,
    as_json: bool,
) -> bool:
    """Build, with a progress bar on a terminal; whether every kernel compiled."""
    order = _order(targets, kernels, dtypes, views, full)
    workers = jobs or len(os.sched_getaffinity(0))
    build = functools.partial(
        building.build,
        order,
        Path(output),
        workers=workers,
        seconds=timeout,
        key=None if sign is None else Path(sign),
        made_by=f"xtarget {__version__}",
    )
    if sys.stderr.isatty() and not as_json:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        words = TextColumn("{task.description}", markup=False)
        with Progress(*columns, words, console=Console(stderr=True)) as bar:
            task = bar.add_task("", total=None)

            def show(done: int, total: int, what: str) -> None:
                bar.update(task, completed=done, total=total, description=what)

            report = build(progress=show)
    else:
        report = build()
    for error in report.errors:
        click.echo(f"error: {error}", err=True)
    if as_json:
        facts = {
            "file": output,
            "bytes": report.nbytes,
            "variants": report.variants,
            "from_cache": report.from_cache,
            "compiled": report.compiled,
            "up_to_date": report.up_to_date,
            "errors": report.errors,
        }
        click.echo(json.dumps(facts, indent=1))
    elif report.up_to_date:
        click.echo(f"{output} is up to date, {format_bytes(report.nbytes)}.")
    else:
        click.echo(
            f"{output}  {format_bytes(report.nbytes)}  {report.compiled} variants compiled, "
            f"{report.from_cache} from the cache, {len(report.errors)} failed"
        )
    return not report.errors


def verify_bundle(file: str) -> None:
    """Read everything, and say whose signature it is."""
    bundle = Bundle(Path(file))
    count = 0
    for target in bundle.targets:
        for record in bundle.file.records(target):
            for variant in record["variants"]:
                bundle.artifact(target, variant)
                if "portable" in variant:
                    bundle.artifact(target, variant, portable=True)
                count += 1
    signed = "not signed"
    if bundle.file.signature:
        signed = f"signed by {_bundle_sign.verify(bundle.file)}"
    click.echo(f"{file}: {count} binaries are as they were written; {signed}.")


def list_bundle(file: str, variants: bool, as_json: bool) -> None:
    """Print targets and kernels of a bundle."""
    bundle = Bundle(Path(file))
    rows = []
    for target in bundle.targets:
        section = bundle.file.sections[target]
        if not variants:
            for name, kernel in sorted(section.kernels.items()):
                numbers = {k: kernel[k] for k in ("variants", "bytes", "dtypes")}
                rows.append({"target": str(target), "kernel": name, **numbers})
            continue
        for record in bundle.file.records(target):
            for variant in record["variants"]:
                rows.append(
                    {
                        "target": str(target),
                        "kernel": dict(record["parts"])["kernel"],
                        "aligned": variant["aligned"],
                        "bytes": variant["binary"]["raw"],
                        "packed": variant["binary"]["size"],
                        "runs_on": _runs_on(target, variant),
                        "key": record["key"],
                    }
                )
    manifest = bundle.file.manifest
    facts = {name: manifest.get(name) for name in ("made_by", "coverage", "depth", "dtypes")} | {
        "signer": bundle.signer,
        "bytes": os.path.getsize(file),
    }
    if as_json:
        click.echo(json.dumps({**facts, "contents": rows}, indent=1))
        return
    click.echo(
        f"{file}: {format_bytes(os.path.getsize(file))}, made by {facts['made_by']}, "
        + _signed(bundle)
    )
    click.echo(f"covers: {facts['coverage']} ({facts['depth']} tile sizes)")
    if rows:
        columns = tuple(rows[0])
        print_table(columns, [[_cell(row[c]) for c in columns] for row in rows])


def _signed(bundle: Bundle) -> str:
    if bundle.signer:
        return f"signed by {bundle.signer}"
    if bundle.file.signature:
        return "with a signature that nobody checked (XTARGET_TRUST is not set)"
    return "not signed"


def _cell(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _runs_on(target: Target, variant: Mapping[str, Any]) -> str:
    if target.vendor != "nvidia":
        return f"{target.arch} alone"
    if variant.get("arch_specific"):
        return f"{target.arch} alone (it uses what {target.arch}a has)"
    oldest = variant.get("portable_arch")
    return f"{target.arch[:-1]}x from {target.arch} on" + (
        f"; PTX from {oldest} on" if oldest else ""
    )


def emit_code(file: str, folder: str, kernels: Sequence[str], driver: str) -> None:
    """Write C code and say what was written."""
    from ._bundle_c import emit_c

    done = emit_c(Bundle(Path(file)), Path(folder), kernels, driver)
    for path, content in done.files:
        click.echo(f"{path}  {content}")
    for name, why in done.left_out.items():
        click.echo(f"left out  {name}: {why}")


def explain_call(
    kernel: str,
    target: str | None,
    *,
    shapes: Sequence[tuple[int, ...]],
    dtype: str,
    options: Mapping[str, Any],
    scalars: Mapping[str, Any],
    as_json: bool,
) -> None:
    """Print for each launch of a call what would serve it and what would not."""
    from . import _bind

    goal = Target.parse(target) if target else _device_target()
    inputs = choose_inputs(kernel, shapes, dtype, options, scalars)
    found: list[dict[str, Any]] = []
    for request in _bind.compile_requests(_kernels.find(kernel), inputs.args, inputs.options, goal):
        offers = [
            {
                "bundle": str(c.bundle.path),
                "target": str(c.target),
                "form": c.form,
                "aligned": list(c.aligned),
                "reason": c.reason,
            }
            for c in _bundle.candidates(request, goal)
        ]
        found.append(
            {
                "function": request.source.name,
                "signature": _signature(request),
                "constants": _constants(request),
                "aligned": list(request.aligned),
                "source": _source(request, goal, offers),
                "offers": offers,
            }
        )
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    for launch in found:
        click.echo(f"{launch['function']}({launch['signature']})  {launch['constants']}")
        click.echo(f"  multiples of 16: {', '.join(launch['aligned']) or 'none'}")
        click.echo(f"  taken from: {launch['source']}")
        for number, offer in enumerate(launch["offers"]):
            verdict = f"rejected: {offer['reason']}"
            if offer["form"]:
                assumed = ", ".join(offer["aligned"]) or "nothing"
                verdict = (
                    f"{'taken' if not number else 'also fits'}: {offer['form']}, assumes {assumed}"
                )
            click.echo(f"  {offer['bundle']}  {offer['target']}  {verdict}")


def _device_target() -> Target:
    return _registry.open_device(_registry.default_device()).info.target


def _source(request: CompileRequest, target: Target, offers: Sequence[Mapping[str, Any]]) -> str:
    if offers and offers[0]["form"]:
        return f"the bundle {offers[0]['bundle']}"
    compiler = _registry.compiler(target.vendor)
    parts = _build.key_parts(request, target, compiler.fingerprint)
    name = request.source.name
    if _cache.default_cache().get(target, name, _cache.key_of(parts)) is not None:
        return "the cache"
    if target.arch not in compiler.archs():
        raise CompileError(f"no bundle and no cache has it, and no compiler knows {target}.")
    return "the compiler, when it is first called"
