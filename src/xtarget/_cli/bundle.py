"""The commands `xtarget bundle …` and `xtarget explain`."""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from .. import __version__
from .._artifacts.compatibility import describe
from .._bundle import signing
from .._bundle.builder import build as building
from .._bundle.builder.classes import COVERAGE
from .._bundle.reader import Bundle
from .._compile.bars import progress_bar
from .._executors.opening import opened
from .._kernels import libraries
from .._values.errors import XTargetError
from .._values.types import COMPUTED, DTYPES, CompileRequest, Target
from .base import compiling, echo
from .fused import calls_of
from .listing import format_bytes
from .tables import echo_wrapped, print_table

__all__ = [
    "build_bundle",
    "constants_of",
    "emit_code",
    "kernels_of_file",
    "list_bundle",
    "list_classes",
    "order_of",
    "signature_of",
    "verify_bundle",
]


def order_of(
    targets: Sequence[str],
    kernels: Sequence[str],
    dtypes: Sequence[str],
    views: bool,
    full: bool,
    fused: Sequence[str],
) -> building.Order:
    unknown = [dtype for dtype in dtypes if dtype not in DTYPES and dtype != "all"]
    if unknown:
        raise click.BadParameter(
            f"{unknown[0]!r} is not a dtype; there are {', '.join(DTYPES)}, and all."
        )
    names = tuple(kernels) or (() if fused else tuple(libraries.catalog()))
    for name in names:
        libraries.find(name)
    wanted = COMPUTED if "all" in dtypes else tuple(dtypes)
    return building.Order(
        names,
        wanted,
        tuple(sorted({Target.parse(text) for text in targets})),
        views,
        full,
        tuple(call for name in fused for call in calls_of(name, wanted)),
    )


def kernels_of_file(place: str) -> tuple[str, ...]:
    """The kernels that a file registers by `@xtarget.kernel`. Children find them by its module.

    Raises:
        XTargetError: it cannot be imported, or registers none.
    """
    path, names = Path(place).resolve(), list[str]()
    sys.path.insert(0, str(path.parent))
    libraries.on_added.append(names.append)
    try:
        module = importlib.import_module(path.stem)
    except (Exception, SystemExit) as error:
        raise XTargetError(
            f"{path} cannot be imported: {type(error).__name__}: {error}. Correct it, or give "
            "another file."
        ) from error
    finally:
        libraries.on_added.remove(names.append)
    if Path(getattr(module, "__file__", None) or "").resolve() != path:
        raise XTargetError(
            f"{path} cannot be imported: there is another module {path.stem}. Rename the file."
        )
    if not names:
        raise XTargetError(f"{path} has no function under @xtarget.kernel. Give a file that has.")
    return tuple(dict.fromkeys(names))


def list_classes(order: building.Order, *, as_json: bool) -> None:
    """Print what a build of this order compiles."""
    with progress_bar("bundle build --list", "kernels", "looking for the kernels") as show:
        found = building.wanted(order, show)
    rows: list[dict[str, Any]] = [
        {
            "target": str(target),
            "function": one.source,
            "kernels": sorted(" ".join(pair) for pair in one.kernels),
            "signature": signature_of(one.request),
            "constants": constants_of(one.request),
            "warps": one.request.num_warps,
            "stages": one.request.num_stages,
            "valid_for": list(one.valid_for),
            "aligned": [list(aligned) for aligned in sorted(one.variants)],
        }
        for target, classes in found.items()
        for one in classes
    ]
    if as_json:
        echo(json.dumps({"coverage": _coverage(order), "classes": rows}, indent=1))
        return
    echo_wrapped(_coverage(order))
    for row in rows:
        echo_wrapped(
            f"{row['target']}  {row['function']}({row['signature']})  {row['constants']}, "
            f"{row['warps']} warps  for {', '.join(row['kernels'])}"
        )
        if row["valid_for"]:
            echo_wrapped(f"    valid for {', '.join(row['valid_for'])}")
        for aligned in row["aligned"]:
            echo_wrapped(f"    multiples of 16: {', '.join(aligned) or 'nothing assumed'}")
    total = sum(len(row["aligned"]) for row in rows)
    echo(f"{len(rows)} classes, {total} variants")


def _coverage(order: building.Order) -> str:
    lengths = "every" if order.full else "the usual"
    return (
        f"{', '.join(order.names)} on {', '.join(order.dtypes)}: "
        f"{COVERAGE['views' if order.views else 'contiguous']}; {lengths} tile sizes of lengths up "
        "to 32768 (matmul: 4096), and 64-bit indices. Not covered: arguments of different dtypes"
        + ("" if order.views else ", other strides of most kernels (--views)")
        + ("" if order.full else ", a kernel of its own for each layout and length (--full)")
        + "."
    )


def signature_of(request: CompileRequest) -> str:
    def text(type_: Any) -> str:
        return type_ if isinstance(type_, str) else f"({', '.join(map(text, type_))})"

    return ", ".join(f"{n} {text(t)}" for n, t in request.signature if t != "constexpr")


def constants_of(request: CompileRequest) -> str:
    return ", ".join(f"{n}={getattr(v, 'name', v)}" for n, v in request.constants)


def build_bundle(
    output: str,
    order: building.Order,
    *,
    jobs: int | None,
    timeout: float,
    sign: str | None,
    compression: str,
    executor: str,
    as_json: bool,
) -> bool:
    """Build, and show how far it is; whether every kernel compiled."""
    workers = jobs or len(os.sched_getaffinity(0))
    build = functools.partial(
        building.build,
        order,
        Path(output),
        workers=workers,
        seconds=timeout,
        key=None if sign is None else Path(sign),
        compression=compression,
        made_by=f"xtarget {__version__}",
    )
    bar = progress_bar("bundle build", "variants", "looking for what is there to build")
    with compiling(), opened(executor) as elsewhere, bar as show:
        report = build(progress=show, executor=elsewhere)
    for note in report.notes:
        echo(f"note: {note}", err=True)
    for error in report.errors:
        echo(f"error: {error}", err=True)
    if as_json:
        facts = {
            "file": output,
            "bytes": report.nbytes,
            "variants": report.variants,
            "from_cache": report.from_cache,
            "compiled": report.compiled,
            "up_to_date": report.up_to_date,
            "machines": dict(report.machines),
            "errors": report.errors,
            "notes": report.notes,
        }
        echo(json.dumps(facts, indent=1))
    elif report.up_to_date:
        echo_wrapped(f"{output} is up to date, {format_bytes(report.nbytes)}.")
    else:
        echo_wrapped(
            f"{output}  {format_bytes(report.nbytes)}  {report.compiled} variants compiled, "
            f"{report.from_cache} from the cache, {len(report.errors)} failed"
        )
        if report.machines:
            echo_wrapped(
                "compiled by " + ", ".join(f"{m}: {n}" for m, n in report.machines.most_common())
            )
    return not report.errors


def verify_bundle(file: str, as_json: bool) -> None:
    """Read everything, and say whose signature it is."""
    bundle = Bundle(Path(file))
    count = 0
    for target, variant in bundle.file.verify():
        bundle.check(target, variant)
        count += 1
    signed = "not signed"
    signer = signing.verify(bundle.file) if bundle.file.signature else None
    if signer is not None:
        signed = f"signed by {signer}"
    if as_json:
        echo(json.dumps({"file": file, "binaries": count, "signed_by": signer}, indent=2))
        return
    echo_wrapped(f"{file}: {count} binaries are as they were written; {signed}.")


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
                        "kernel": dict(record["parts"]).get("kernel", record["source"]),
                        "aligned": variant["aligned"],
                        "valid_for": ", ".join(record.get("valid_for", ())),
                        "bytes": variant["binary"]["raw"],
                        "packed": variant["binary"]["size"],
                        "runs_on": _runs_on(target, variant),
                        "key": record["key"],
                    }
                )
    manifest, sizes = bundle.file.manifest, _sizes(bundle)
    facts = {name: manifest.get(name) for name in ("made_by", "coverage", "depth", "dtypes")} | {
        "signer": bundle.signer,
        "bytes": os.path.getsize(file),
        "packed_by": bundle.file.compression,
        "targets": sizes,
    }
    if as_json:
        echo(json.dumps({**facts, "contents": rows}, indent=1))
        return
    echo_wrapped(
        f"{file}: {format_bytes(os.path.getsize(file))}, made by {facts['made_by']}, "
        + _signed(bundle)
    )
    echo_wrapped(f"covers: {facts['coverage']} ({facts['depth']} tile sizes)")
    for one in sizes:
        echo_wrapped(
            f"{one['target']}: {format_bytes(one['bytes'])}; its binaries have "
            f"{format_bytes(one['unpacked'])}, {format_bytes(one['packed'])} packed by "
            f"{bundle.file.compression}"
        )
    if rows:
        columns = tuple(rows[0])
        print_table(columns, [[_cell(row[c]) for c in columns] for row in rows])


def _sizes(bundle: Bundle) -> list[dict[str, Any]]:
    """For each target the bytes of its part, and of its binaries, packed and not."""
    sizes = []
    for target, section in bundle.file.sections.items():
        marks = {
            variant[name]["offset"]: variant[name]
            for record in bundle.file.records(target)
            for variant in record["variants"]
            for name in ("binary", "portable")
            if name in variant
        }
        sizes.append(
            {
                "target": str(target),
                "bytes": section.size,
                "packed": sum(mark["size"] for mark in marks.values()),
                "unpacked": sum(mark["raw"] for mark in marks.values()),
            }
        )
    return sizes


def _signed(bundle: Bundle) -> str:
    if bundle.signer:
        return f"signed by {bundle.signer}"
    if bundle.file.signature:
        return "with a signature that nobody checked (XTARGET_TRUST is not set)"
    return "not signed"


def _cell(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _runs_on(target: Target, variant: Mapping[str, Any]) -> str:
    return describe(target, bool(variant.get("arch_specific")), variant.get("portable_arch"))


def emit_code(file: str, folder: str, kernels: Sequence[str], driver: str, as_json: bool) -> None:
    """Write C code and say what was written."""
    from .._bundle.builder.c_source import emit_c

    done = emit_c(Bundle(Path(file)), Path(folder), kernels, driver)
    if as_json:
        files = [{"path": str(path), "content": content} for path, content in done.files]
        echo(json.dumps({"files": files, "left_out": dict(done.left_out)}, indent=2))
        return
    for path, content in done.files:
        echo_wrapped(f"{path}  {content}")
    for name, why in done.left_out.items():
        echo_wrapped(f"left out  {name}: {why}")
