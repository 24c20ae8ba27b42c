"""`xtarget cache ls`, `stats`, `verify`, `prune`, `clear`, `why`: as tables or as JSON."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

import xtarget

from . import _bind, _build, _kernels, _registry
from ._cache import default_cache, explain, key_of
from ._cache.explain import Chosen, Miss
from ._cli_args import choose_inputs
from ._cli_list import format_bytes, print_table
from ._types import VENDOR_ALIASES, Target

__all__ = [
    "clear_entries",
    "explain_call",
    "list_entries",
    "prune_entries",
    "show_stats",
    "verify_entries",
]

_LONG = 60  # characters of a key part that a line shows


def _chosen(given: Mapping[str, Any]) -> Chosen:
    """The filters; a target may be a vendor alone, and an alias of one."""
    target: str | None = given["target"]
    if target is not None:
        vendor = VENDOR_ALIASES.get(target.strip().lower(), target.strip().lower())
        target = vendor if vendor in _registry.vendors() else str(Target.parse(target))
    return Chosen(**{**given, "target": target})


def format_age(seconds: float) -> str:
    """`45 s`, `12 min`, `5 h`, `3 d`."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def list_entries(given: Mapping[str, Any], as_json: bool) -> None:
    found = [shown for _, shown in explain.entries(default_cache().own, _chosen(given))]
    found.sort(key=lambda shown: (shown["unused_s"], shown["path"]))
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    if not found:
        click.echo("The cache holds no such entry.")
        return
    print_table(
        ("target", "kernel", "kind", "key", "size", "unused for"),
        [
            (
                shown["target"],
                shown["kernel"],
                shown["kind"],
                shown["key"],
                format_bytes(shown["bytes"]),
                format_age(shown["unused_s"]),
            )
            for shown in found
        ],
    )
    total = sum(shown["bytes"] for shown in found)
    click.echo(f"{len(found)} entries, {format_bytes(total)}")


def show_stats(as_json: bool) -> None:
    facts = explain.totals(default_cache())
    if as_json:
        click.echo(json.dumps(facts, indent=2))
        return
    cap = "no limit" if facts["max_bytes"] is None else f"of {format_bytes(facts['max_bytes'])}"
    click.echo(f"path        {facts['path']} ({facts['mode']})")
    if facts["fault"]:
        click.echo(f"NOT USED    {facts['fault']}")
    click.echo(f"entries     {facts['entries']}, {format_bytes(facts['bytes'])} {cap}")
    for target, of in facts["by_target"].items():
        click.echo(f"  {target}: {of['entries']}, {format_bytes(of['bytes'])}")
    aside = facts["quarantine"]
    click.echo(f"quarantine  {aside['files']} files, {format_bytes(aside['bytes'])}")
    for layer in facts["layers"]:
        click.echo(f"layer       {layer}")
    click.echo(f"remote      {facts['remote'] or 'none'}")
    click.echo(f"trust       {facts['trust'] or 'what the user alone may write'}")


def verify_entries(given: Mapping[str, Any], as_json: bool) -> bool:
    """True if all are right."""
    cache, chosen = default_cache(), _chosen(given)
    checked = [shown for store in cache.stores for shown in explain.verify(store, chosen)]
    wrong = [shown for shown in checked if shown["fault"] is not None]
    if as_json:
        click.echo(json.dumps({"checked": len(checked), "wrong": wrong}, indent=2))
        return not wrong
    for shown in wrong:
        click.echo(f"{shown['path']}: {shown['fault']}")
    click.echo(f"{len(checked)} entries checked, {len(wrong)} not right")
    return not wrong


def prune_entries(max_bytes: int | None, given: Mapping[str, Any], as_json: bool) -> None:
    done = explain.prune(default_cache(), max_bytes, _chosen(given))
    if as_json:
        click.echo(json.dumps(done, indent=2))
        return
    click.echo(
        f"{done['removed']} entries removed, {format_bytes(done['freed_bytes'])} freed, "
        f"{format_bytes(done['bytes'])} left"
    )


def clear_entries(given: Mapping[str, Any], as_json: bool) -> None:
    done = explain.clear(default_cache(), _chosen(given))
    if as_json:
        click.echo(json.dumps(done, indent=2))
        return
    in_use = f"; {done['left']} are in use and stay" if done["left"] else ""
    click.echo(
        f"{done['removed']} entries removed, {format_bytes(done['freed_bytes'])} freed{in_use}"
    )


def explain_call(
    kernel: str,
    target: str | None,
    shapes: Sequence[tuple[int, ...]],
    dtype: str,
    options: Mapping[str, Any],
    scalars: Mapping[str, Any],
    as_json: bool,
) -> bool:
    """True if every launch of the call finds its binary."""
    goal = xtarget.default_device().target if target is None else Target.parse(target)
    inputs = choose_inputs(kernel, shapes, dtype, options, scalars)
    cache, compiler = default_cache(), _registry.compiler(goal.vendor)
    answers = []
    registered = _kernels.find(kernel)
    for request in _bind.compile_requests(registered, inputs.args, inputs.options, goal):
        parts = _build.key_parts(request, goal, compiler.fingerprint)
        key = key_of(parts)
        found = explain.why(cache, goal, request.source.name, parts, key)
        facts = {"entry": request.source.name, "target": str(goal), "key": key}
        if isinstance(found, Miss):
            answers.append({**facts, "hit": False, **asdict(found)})
        else:
            answers.append({**facts, "hit": True, "path": found})
    hit = all(answer["hit"] for answer in answers)
    if as_json:
        click.echo(json.dumps(answers, indent=2))
        return hit
    for answer in answers:
        name = f"{answer['entry']} for {answer['target']}"
        if answer["hit"]:
            click.echo(f"hit   {name}: {answer['path']}")
            continue
        click.echo(f"miss  {name}: {_CAUSES[answer['cause']]}")
        if answer["nearest"] is None:
            click.echo("      the cache has no entry of this kernel for this target")
            continue
        click.echo(f"      nearest: {answer['nearest']}")
        for label, wanted, have in answer["differs"]:
            one, other = _where_they_differ(wanted, have)
            click.echo(f"      {label}: wanted {one}, there is {other}")
    return hit


_CAUSES = {
    "absent": "it was not compiled yet, or was evicted",
    "damaged": "the entry is damaged; it will be compiled again",
    "unreadable": "the entry cannot be read",
    "refused": "the entry is not trusted (see the warning)",
}


def _where_they_differ(one: str | None, other: str | None) -> tuple[str, str]:
    """Both texts, cut to where they begin to differ."""
    pairs = zip(one or "", other or "", strict=False)
    same = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))
    start = max(0, same - _LONG // 3)
    shown = []
    for text in (one, other):
        if text is None:
            shown.append("nothing")
            continue
        part = text[start : start + _LONG]
        before, after = "..." * (start > 0), "..." * (start + _LONG < len(text))
        shown.append(f"{before}{part}{after}" or "nothing")
    return shown[0], shown[1]
