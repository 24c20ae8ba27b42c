"""The command `xtarget explain`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .. import _cache
from .._bundle import reader
from .._compile import keys, routes
from .._devices import choice, registry
from .._kernels import libraries, tunings, variants
from .._kernels.implementations import of_target
from .._values import environment
from .._values.errors import CompileError
from .._values.types import CompileRequest, Target
from .arguments import choose_inputs
from .base import echo
from .bundle import constants_of, signature_of
from .tables import echo_wrapped
from .values import CallOptions

__all__ = ["explain_call"]

_LONG = 50  # characters of a condition that is shown to people


def explain_call(
    kernel: str,
    target: str | None,
    call_options: CallOptions,
    as_json: bool,
) -> None:
    """Print for each launch of a call what would serve it and what would not."""
    from .._launch import call_plans, planning, ranges

    goal = Target.parse(target) if target else _device_target()
    inputs = choose_inputs(kernel, call_options)
    registered = libraries.find(inputs.spec.name if inputs.spec.impl else kernel)
    general = call_plans.is_general(registered, inputs.args, inputs.options, goal)
    valid_for = ranges.valid_for(registered, inputs.args, inputs.options, goal, general=general)
    served, why = of_target(registered, goal.vendor, goal.arch)
    found: list[dict[str, Any]] = []
    with tunings.trying({}) as asked:
        requests = planning.compile_requests(
            registered, inputs.args, inputs.options, goal, general=general
        )
    choices = [_choice(one) for one in asked]
    if served != variants.OWN and not registered.spec.impl:
        row = registered.changed(impl=variants.OWN)
        own = planning.compile_requests(row, inputs.args, inputs.options, goal, general=general)
        if _are_alike(requests, own):
            served, why = variants.OWN, f"the operator's own row; {served} leaves this call to it"
    for request in requests:
        offers = [
            {
                "bundle": str(c.bundle.path),
                "target": str(c.target),
                "form": c.form,
                "aligned": list(c.aligned),
                "reason": c.reason,
            }
            for c in reader.candidates(request, goal)
        ]
        found.append(
            {
                "function": request.source.name,
                "signature": signature_of(request),
                "constants": constants_of(request),
                "aligned": list(request.aligned),
                "valid_for": valid_for,
                "implementation": served,
                "choices": choices,
                "source": _source(request, goal, offers),
                "offers": offers,
            }
        )
    if as_json:
        echo(json.dumps(found, indent=1))
        return
    echo(f"implementation: {served} ({why})")
    if valid_for:
        shown = [text for text in valid_for if len(text) <= _LONG]
        more = len(valid_for) - len(shown)
        rest = [f"{more} more conditions (--json)"] if more else []
        echo_wrapped(f"valid for {', '.join(shown + rest)}")
    for one in choices:
        echo_wrapped(f"choice of {one['table']}: {one['is']}")
        echo_wrapped(f"  {one['how']}{': ' if one['by'] else ''}{one['by']}")
    for launch in found:
        echo_wrapped(f"{launch['function']}({launch['signature']})  {launch['constants']}")
        echo_wrapped(f"  multiples of 16: {', '.join(launch['aligned']) or 'none'}")
        echo_wrapped(f"  taken from: {launch['source']}")
        for number, offer in enumerate(launch["offers"]):
            verdict = f"rejected: {offer['reason']}"
            if offer["form"]:
                assumed = ", ".join(offer["aligned"]) or "nothing"
                verdict = (
                    f"{'taken' if not number else 'also fits'}: {offer['form']}, assumes {assumed}"
                )
            echo_wrapped(f"  {offer['bundle']}  {offer['target']}  {verdict}")


def _are_alike(some: Sequence[CompileRequest], others: Sequence[CompileRequest]) -> bool:
    return [*map(reader.class_key, some)] == [*map(reader.class_key, others)]


def _choice(one: tunings.Served) -> dict[str, Any]:
    """The questions that a plan asked, and the entry or rule that answered each."""
    return {
        "table": one.asked.table,
        "is": one.asked.text(one.choice),
        "how": one.how,
        "by": one.where,
        "words": dict(one.asked.words()),
        "sizes": dict(one.sizes),
    }


def _device_target() -> Target:
    return registry.open_device(choice.default_device()).info.target


def _source(request: CompileRequest, target: Target, offers: Sequence[Mapping[str, Any]]) -> str:
    if offers and offers[0]["form"]:
        return f"the bundle {offers[0]['bundle']}"
    cache, name = _cache.default_cache(), request.source.name
    for way in routes.ways(target.vendor):
        if way.refusal(request, target):
            continue
        parts = keys.key_parts(request, target, way.compiler.fingerprint, way.key)
        by = "" if way.is_triton else f" (route {way.name})"
        if cache.get(target, name, _cache.key_of(parts)) is not None:
            return f"the cache{by}"
        if target.arch not in way.compiler.archs():
            raise CompileError(f"no bundle and no cache has it, and no compiler knows {target}.")
        if way.compiler.fingerprint:
            return f"the compiler{by}, when it is first called"
    if routes.HOST in environment.routes():
        return "NumPy's reference on the host (route host): nothing can be compiled for it here"
    return "nothing: no route can compile it here"
