"""`xtarget cache ls`, `stats`, `verify`, `prune`, `clear`, `why`: as tables or as JSON."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import asdict
from difflib import get_close_matches
from typing import Any

import xtarget

from .._cache import default_cache, explain, key_of
from .._cache.explain import Chosen, Miss
from .._cache.store import Store
from .._compile import keys
from .._devices import registry
from .._kernels import libraries
from .._launch import planning
from .._values.errors import ArgumentError, XTargetError
from .._values.types import Target
from .._values.vendors import canonical
from .arguments import choose_inputs
from .base import echo
from .listing import format_bytes
from .tables import echo_wrapped, print_table
from .values import CallOptions

__all__ = [
    "chosen_entries",
    "clear_entries",
    "explain_call",
    "list_entries",
    "none_chosen",
    "prune_entries",
    "show_stats",
    "verify_entries",
]

_LONG = 60  # characters of a key part that a line shows


def chosen_entries(given: Mapping[str, Any]) -> Chosen:
    """The filters; a target may be a vendor alone, and an alias of one."""
    target: str | None = given["target"]
    if target is not None:
        vendor = canonical(target.strip().lower())
        target = vendor if vendor in registry.vendors() else str(Target.parse(target))
    newer, older = given["newer"], given["older"]
    if newer is not None and older is not None and newer <= older:
        raise ArgumentError(
            f"no entry was used within {format_age(newer)} and not for {format_age(older)}: "
            "--newer has to be a longer time than --older."
        )
    return Chosen(**{**given, "target": target})


def none_chosen(
    given: Mapping[str, Any], what: str, more: str = "", *, own: bool = False
) -> XTargetError:
    """The error about a choice that leaves nothing of the cache.

    Args:
        what: could not be done, as the begin of the sentence.
        more: a way out where the cache is empty, beside those that fill it.
        own: only the cache's own folder counts, none of `XTARGET_CACHE_PATH`.

    Raises:
        XTargetError: the cache cannot be read.
    """
    cache = default_cache()
    there: list[dict[str, Any]] = []
    matching = 0
    for store in (cache.own,) if own else cache.stores:
        explain.check_readable(store)
        there.extend(_artifacts(store, Chosen()))
        matching += len(_artifacts(store, chosen_entries(given)))
    if not there:
        return XTargetError(
            f"{what}: {cache.root} has no compiled kernels. Run the program once, or xtarget "
            f"warmup{more}."
        )
    if matching:
        return XTargetError(
            f"{what}: no chosen entry of {cache.root} is intact. `xtarget cache verify` says what "
            "is wrong with each."
        )
    asked = [f"--{name} {given[name]}" for name in ("target", "kernel") if given[name] is not None]
    asked += [f"--{name}" for name in ("older", "newer") if given[name] is not None]
    names = {str(shown["kernel"]) for shown in there}
    near = get_close_matches(str(given["kernel"]), names, 1) if given["kernel"] else []
    return XTargetError(
        f"{what}: of the kernels for "
        f"{', '.join(sorted({str(shown['target']) for shown in there}))} in {cache.root}, "
        f"{' '.join(asked)} chooses none{f' (there is {near[0]})' if near else ''}. "
        "`xtarget cache ls` lists them."
    )


def _artifacts(store: Store, chosen: Chosen) -> list[dict[str, Any]]:
    """Compiled kernels of a store, as they are shown."""
    return [shown for _, shown in explain.entries(store, chosen) if shown["kind"] == "artifact"]


def format_age(seconds: float) -> str:
    """`45 s`, `12 min`, `5 h`, `3 d`."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _is_there(store: Store, as_json: bool) -> None:
    """Says so when there is no cache; what cannot be read is not the same as empty.

    Raises:
        XTargetError: it cannot be read.
    """
    if not explain.check_readable(store) and not as_json:
        echo_wrapped(
            f"There is no cache at {store.root} yet; the first kernel that is compiled makes it."
        )


def list_entries(given: Mapping[str, Any], as_json: bool) -> None:
    own = default_cache().own
    _is_there(own, as_json)
    found = [shown for _, shown in explain.entries(own, chosen_entries(given))]
    found.sort(key=lambda shown: (shown["unused_s"], shown["path"]))
    if as_json:
        echo(json.dumps(found, indent=2))
        return
    if not found:
        echo("The cache holds no such entry.")
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
    echo(f"{len(found)} entries, {format_bytes(total)}")


def show_stats(as_json: bool) -> bool:
    """True if the cache can be looked at: its numbers are those of what is there."""
    facts = explain.totals(default_cache())
    try:
        explain.check_readable(default_cache().own)
        readable = True
    except XTargetError as error:
        readable = False
        facts["fault"] = facts["fault"] or str(error)
    if as_json:
        echo(json.dumps(facts, indent=2))
        return readable
    cap = "no limit" if facts["max_bytes"] is None else f"of {format_bytes(facts['max_bytes'])}"
    echo_wrapped(f"path        {facts['path']} ({facts['mode']})")
    if facts["fault"]:
        echo_wrapped(f"NOT USED    {facts['fault']}")
    echo(f"entries     {facts['entries']}, {format_bytes(facts['bytes'])} {cap}")
    for target, of in facts["by_target"].items():
        echo(f"  {target}: {of['entries']}, {format_bytes(of['bytes'])}")
    aside = facts["quarantine"]
    echo(f"quarantine  {aside['files']} files, {format_bytes(aside['bytes'])}")
    for layer in facts["layers"]:
        echo_wrapped(f"layer       {layer}")
    echo_wrapped(f"remote      {facts['remote'] or 'none'}")
    echo_wrapped(f"trust       {facts['trust'] or 'what the user alone may write'}")
    return readable


def verify_entries(given: Mapping[str, Any], recompile: int, as_json: bool) -> bool:
    """True if all are right."""
    cache, chosen = default_cache(), chosen_entries(given)
    for store in cache.stores:
        _is_there(store, as_json)
    checked = [shown for store in cache.stores for shown in explain.verify(store, chosen)]
    wrong = [shown for shown in checked if shown["fault"] is not None]
    again: list[dict[str, Any]] = []
    if recompile:
        from .._compile.audit import recompiled

        again = list(recompiled(explain.bodies(cache.own, chosen), recompile))
    other = [shown for shown in again if shown["fault"] is not None]
    if as_json:
        facts = {"checked": len(checked), "wrong": wrong}
        echo(json.dumps({**facts, **({"recompiled": again} if recompile else {})}, indent=2))
        return not wrong and not other
    for shown in other:
        echo_wrapped(f"{shown['kernel']} for {shown['target']}: {shown['fault']}")
    if recompile:
        skipped = sum(shown["skipped"] is not None for shown in again)
        echo(
            f"{len(again) - skipped} entries compiled again, {len(other)} differ"
            + (f"; {skipped} cannot be compiled here" if skipped else "")
        )
    for shown in wrong:
        echo_wrapped(f"{shown['path']}: {shown['fault']}")
    echo(f"{len(checked)} entries checked, {len(wrong)} not right")
    return not wrong and not other


def prune_entries(max_bytes: int | None, given: Mapping[str, Any], as_json: bool) -> None:
    _is_there(default_cache().own, as_json)
    done = explain.prune(default_cache(), max_bytes, chosen_entries(given))
    if as_json:
        echo(json.dumps(done, indent=2))
        return
    echo(
        f"{done['removed']} entries removed, {format_bytes(done['freed_bytes'])} freed, "
        f"{format_bytes(done['bytes'])} left"
    )


def clear_entries(given: Mapping[str, Any], as_json: bool) -> None:
    _is_there(default_cache().own, as_json)
    done = explain.clear(default_cache(), chosen_entries(given))
    if as_json:
        echo(json.dumps(done, indent=2))
        return
    in_use = f"; {done['left']} are in use and stay" if done["left"] else ""
    echo(f"{done['removed']} entries removed, {format_bytes(done['freed_bytes'])} freed{in_use}")


def explain_call(
    kernel: str,
    target: str | None,
    call_options: CallOptions,
    as_json: bool,
) -> bool:
    """True if every launch of the call finds its binary."""
    goal = xtarget.default_device().target if target is None else Target.parse(target)
    inputs = choose_inputs(kernel, call_options)
    cache, compiler = default_cache(), registry.compiler(goal.vendor)
    for store in cache.stores:
        explain.check_readable(store)
    answers = []
    registered = libraries.find(kernel)
    for request in planning.compile_requests(registered, inputs.args, inputs.options, goal):
        parts = keys.key_parts(request, goal, compiler.fingerprint)
        key = key_of(parts)
        found = explain.why(cache, goal, request.source.name, parts, key)
        facts = {"entry": request.source.name, "target": str(goal), "key": key}
        if isinstance(found, Miss):
            answers.append({**facts, "hit": False, **asdict(found)})
        else:
            answers.append({**facts, "hit": True, "path": found})
    hit = all(answer["hit"] for answer in answers)
    if as_json:
        echo(json.dumps(answers, indent=2))
        return hit
    for answer in answers:
        name = f"{answer['entry']} for {answer['target']}"
        if answer["hit"]:
            echo_wrapped(f"hit   {name}: {answer['path']}")
            continue
        echo_wrapped(f"miss  {name}: {_CAUSES[answer['cause']]}")
        if answer["nearest"] is None:
            echo_wrapped("      the cache has no entry of this kernel for this target")
            continue
        echo_wrapped(f"      nearest: {answer['nearest']}")
        for label, wanted, have in answer["differs"]:
            one, other = _where_they_differ(wanted, have)
            echo_wrapped(f"      {label}: wanted {one}, there is {other}")
    return hit


_CAUSES = {
    "absent": "it was not compiled yet, or was evicted",
    "damaged": "the entry is damaged; it will be compiled again",
    "unreadable": "the entry cannot be read",
    "refused": "the entry is not trusted (see the warning)",
}


def _where_they_differ(one: str | None, other: str | None) -> tuple[str, str]:
    """Both texts, cut to where they begin to differ; of several lines, those that differ."""
    if "\n" in (one or "") and "\n" in (other or ""):
        lines = (one or "").splitlines(), (other or "").splitlines()
        one = "; ".join(line for line in lines[0] if line not in lines[1])
        other = "; ".join(line for line in lines[1] if line not in lines[0])
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
