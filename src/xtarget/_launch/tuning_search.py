"""Search for the fastest answer to a question of a call's plan: try each, keep the results."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping, Sequence
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any, Final

from .._compile.functions import compile_together
from .._kernels import libraries, tunings
from .._kernels.tuning_files import Entry, Result
from .._values.errors import ArgumentError, XTargetError
from .._values.types import CompileRequest, DeviceInfo
from ..spec import Plan
from .samples import Summary
from .trials import Trials, artifacts_of, excess
from .tuning_results import NOT_TRIED, Asked, Show, Trial, Tuning

if TYPE_CHECKING:
    from concurrent.futures import Executor


__all__ = ["Search"]


#: How far apart the quartiles of a choice may be, of the median, and how far the clock may drift.
_WIDEST: Final = 0.25
#: The part of events that the device may be late for, before or after the calls.
_LATEST: Final = 0.1
#: How many of the fastest are compared once more, in turn.
_FINALISTS: Final = 4
#: A choice that a model says takes so many times as long as the best is not tried.
_WORST_ESTIMATE: Final = 2.5
#: Of those that a model can put in an order, so many are tried.
_MOST_TRIED: Final = 28
#: Binaries from which on they are compiled by several processes.
_MANY: Final = 6


class Search:
    """The answers to one question of a call's plan."""

    def __init__(
        self,
        asked: Asked,
        question: tunings.Served,
        taken: Mapping[str, Any],
        out: Any,
        show: Show,
        *,
        again: bool,
        strict: bool,
        executor: Executor | None = None,
    ) -> None:
        self._executor = executor
        self._asked, self._question, self._taken = asked, question, dict(taken)
        self._ask, self._show, self._strict = question.asked, show, strict
        spec, info = asked.kernel.spec, asked.info
        self._name, self._table = spec.name, question.asked.table
        self._words = dict(question.asked.words())
        variants = [question.asked.default, *question.asked.variants()]
        self._numbers = {self._ask.text(one): n for n, one in enumerate(spec.configs or ())}
        self._choices = {self._ask.text(one): one for one in variants}
        for text in self._choices:
            self._numbers.setdefault(text, len(self._numbers))
        self._earlier = {} if again else self._known(info)
        names = [one.rstrip("?") for one in spec.inputs]
        self._updated = [
            index
            for index, view in enumerate(asked.views)
            if view is not None and names[index] in spec.updates
        ]
        self._out = out
        self._found: dict[str, Trial] = {}
        self._drift = 1.0
        self._late = 0.0

    def _known(self, info: DeviceInfo) -> dict[str, Result]:
        """Results of an earlier tuning of the same sizes on such a device."""
        for entry in tunings.local_entries(str(info.target), self._table):
            same = entry.words == self._words and entry.sizes == self._question.sizes
            if same and entry.device == info.product and entry.how == "measured":
                return dict(entry.results)
        return {}

    # ------------------------------------------------------------------------------------ the run

    def run(self) -> Tuning:
        """Try all.

        Raises:
            XTargetError: none works.
        """
        for text, result in self._earlier.items():
            if text in self._choices:
                self._found[text] = self._trial(
                    text, result.seconds, result.error, result.lower, result.upper, kept=True
                )
        left = [text for text in self._choices if text not in self._found]
        interrupted = False
        if left:
            try:
                self._measure(left)
            except KeyboardInterrupt:
                interrupted = True
            finally:
                for changed in libraries.on_change:
                    changed(self._name)
        trials = sorted(
            self._found.values(), key=lambda one: (one.seconds is None, one.seconds, one.number)
        )
        if interrupted and not any(one.seconds is not None for one in trials):
            raise KeyboardInterrupt
        if not trials or trials[0].seconds is None:
            why = f"; the first: {trials[0].error}" if trials else ""
            raise XTargetError(f"no configuration of {self._name} works for this call{why}")
        note = self._note(trials[0]) if left and self._strict else ""
        if not note:
            tunings.store([self._entry(trials)])
        return Tuning(
            self._name, str(self._asked.info.target), self._key(), tuple(trials),
            stored=not note, note=note, interrupted=interrupted,
        )  # fmt: skip

    def _key(self) -> str:
        own = self._words.get("key")  # of the kernel's author
        parts = {**self._question.sizes, **self._words}
        return ", ".join(f"{n}={v}" for n, v in parts.items()) if own is None else own

    def _measure(self, left: Sequence[str]) -> None:
        asked = self._asked
        plans, requests = self._plans(left)
        worth = self._worth(left, plans, requests)
        trials = Trials(
            self._name, asked.args, self._out, asked.device, asked.options, self._updated,
            self._taken,
        )  # fmt: skip
        usual, _ = next(iter(self._choices.items()))
        trials.check(self._choice(usual))  # what the others have to give
        self._late = trials.lateness(self._choice(usual))
        for done, text in enumerate(worth):
            self._show(done, len(worth), text)
            best = min((t.seconds for t in self._found.values() if t.seconds), default=None)
            try:
                error = "" if text == usual else trials.check(self._choice(text))
                if error:
                    self._found[text] = self._trial(text, None, error)
                    continue
                summary = trials.time(self._choice(text), best)
            except XTargetError as failed:  # it may need more than the device has
                self._found[text] = self._trial(text, None, str(failed))
                continue
            self._keep(text, summary)
        self._show(len(worth), len(worth), "the fastest are compared")
        self._compare(trials, worth)
        self._late = max(self._late, trials.lateness(self._choice(usual)))

    def _compare(self, trials: Trials, worth: Sequence[str]) -> None:
        """Time the fastest of this run in turn: the clock drifts while all are measured."""
        timed = [text for text in worth if self._found[text].seconds is not None]
        timed.sort(key=lambda text: self._found[text].seconds or 0.0)
        if len(timed) < 2:
            return
        usual = next(iter(self._choices))
        finalists = list(dict.fromkeys((*timed[:_FINALISTS], *(t for t in timed if t == usual))))
        before = self._found[finalists[0]].seconds or 1.0
        for text, summary in zip(
            finalists, trials.compare([self._choice(text) for text in finalists]), strict=True
        ):
            self._keep(text, summary)
        self._drift = (self._found[finalists[0]].seconds or 1.0) / before

    def _plans(
        self, left: Sequence[str]
    ) -> tuple[dict[str, Plan], dict[str, list[CompileRequest]]]:
        """Of the default, and of those that are left; another one like one of them falls out."""
        plans: dict[str, Plan] = {}
        requests: dict[str, list[CompileRequest]] = {}
        usual = next(iter(self._choices))
        for text in dict.fromkeys((usual, *left)):
            try:
                plan, needed = self._asked.planned({**self._taken, **self._choice(text)})
            except XTargetError as error:
                self._found[text] = self._trial(text, None, str(error))
                continue
            plans[text], requests[text] = plan, needed
        if usual not in plans:
            raise XTargetError(self._found[usual].error)
        self._check_same_results(plans)
        return plans, requests

    def _worth(
        self,
        left: Sequence[str],
        plans: Mapping[str, Plan],
        requests: Mapping[str, list[CompileRequest]],
    ) -> list[str]:
        """Those that a model and the compiler's report leave, each of another plan."""
        estimate = self._ask.estimate
        seen: list[Plan] = []
        likely: list[str] = []
        times = {t: estimate(self._choices[t]) for t in plans} if estimate is not None else {}
        usual = next(iter(self._choices))
        for text in sorted(plans, key=lambda text: (text != usual, times.get(text, 0.0))):
            if plans[text] in seen:
                continue  # the same launches by other numbers
            seen.append(plans[text])
            slower = times[text] / min(times.values()) if times else 1.0
            enough = times and len(likely) >= _MOST_TRIED
            if text != usual and (slower > _WORST_ESTIMATE or enough):
                why = f"{NOT_TRIED}: a model says {slower:.1f} times as long as the best"
                self._found[text] = self._trial(text, None, why)
                continue
            likely.append(text)
        info, device = self._asked.info, self._asked.device
        wanted = dict.fromkeys(request for text in likely for request in requests[text])
        cores = len(os.sched_getaffinity(0))
        if self._executor is not None or (len(wanted) >= _MANY and cores > 2):
            jobs = [(request, info.target, info.compile_options) for request in wanted]
            self._show(0, len(jobs), "compiling")
            for done, _ in enumerate(compile_together(jobs, cores, device, self._executor), 1):
                self._show(done, len(jobs), "compiling")  # an error is told below
        usually = artifacts_of(requests[usual], device)
        found = []
        for done, text in enumerate(likely):
            if text not in left:
                continue
            self._show(done, len(likely), "compiling")
            try:
                why = excess(artifacts_of(requests[text], device), info, usually)
            except XTargetError as error:
                why = str(error)
            if why and text != usual:
                self._found[text] = self._trial(text, None, why)
            else:
                found.append(text)
        return found

    def _check_same_results(self, plans: Mapping[str, Plan]) -> None:
        """Configurations say how, never what.

        Raises:
            ArgumentError: one changes the layout of a result.
        """

        def said(plan: Plan) -> list[str]:
            return [f"{type_.dtype} {tuple(type_.shape)}" for type_ in plan.outputs]

        first, *others = plans
        for text in others:
            here, there = said(plans[text]), said(plans[first])
            if here != there:
                raise ArgumentError(
                    f"{self._name}: config={self._numbers[text]} ({text}) gives {', '.join(here)} "
                    f"where config={self._numbers[first]} ({first}) gives {', '.join(there)}. A "
                    "configuration may not change the result; make the size a flag or an argument."
                )

    # ---------------------------------------------------------------------------------- its parts

    def _choice(self, text: str) -> dict[str, Any]:
        return {self._table: self._choices[text]}

    def _keep(self, text: str, summary: Summary) -> None:
        self._found[text] = self._trial(text, summary.median, "", summary.lower, summary.upper)

    def _trial(
        self, text: str, seconds: float | None, error: str, lower: float = 0.0,
        upper: float = 0.0, *, kept: bool = False,
    ) -> Trial:  # fmt: skip
        number, choice = self._numbers[text], self._choices[text]
        return Trial(number, choice, seconds, error, text, lower, upper, kept)

    def _note(self, best: Trial) -> str:
        """Why what was measured says too little to keep it."""
        assert best.seconds is not None
        spread = (best.upper - best.lower) / best.seconds
        if spread > _WIDEST and not best.kept:
            what = f"the middle half of its times is {spread:.0%} of the median wide"
        elif not 1 - _WIDEST < self._drift < 1 + _WIDEST:
            what = f"its time changed by {self._drift - 1:+.0%} while the others were measured"
        elif self._late > _LATEST:
            what = f"the device came late to {self._late:.0%} of events with nothing before them"
        else:
            return ""
        return (
            f"not kept: {best.text} seems the fastest, but {what}. Something else uses "
            f"{self._asked.info.name}, or its clock changes. Tune again when it is idle."
        )

    def _entry(self, trials: Sequence[Trial]) -> Entry:
        info = self._asked.info
        results = {t.text: Result(t.seconds, t.lower, t.upper, t.error) for t in trials}
        made = {
            "xtarget": str(import_module("xtarget").__version__),
            "triton": _version("triton"),
            "driver": info.driver_version,
            "date": dt.datetime.now(dt.UTC).date().isoformat(),
        }
        return Entry(
            self._table, str(info.target), info.product, "measured", self._words,
            dict(self._question.sizes), trials[0].text, results, made,
        )  # fmt: skip


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "none"
