"""Bundles: files of binaries for several targets, and the choice among what they hold.

A class of specializations is everything of a request but which values are multiples of 16; its
variants differ in that alone. A variant that assumes less than what is true serves as well, only
slower, so the variant that assumes most is taken, from the best-fitting arch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .. import _cache
from .._artifacts.compatibility import FORMS, fit, portable_fit
from .._artifacts.entry import DAMAGE, artifact_of, request_parts
from .._system.locks import Lock
from .._values import environment
from .._values.errors import LoadError
from .._values.types import Artifact, CompileRequest, Target
from .._values.value_classes import value_class
from . import signing
from .format import BundleFile

__all__ = [
    "Bundle",
    "Candidate",
    "candidates",
    "class_key",
    "class_parts",
    "find",
    "load_bundle",
    "loaded",
    "why_not",
]


def class_parts(request: CompileRequest) -> list[tuple[str, str]]:
    """All that decides a binary but target, toolchain and alignment, as labelled text."""
    return request_parts(request, request.options)


def class_key(request: CompileRequest) -> bytes:
    """Return the key under which a bundle lists a request's class."""
    return bytes.fromhex(_cache.key_of(class_parts(request)))


@value_class(frozen=True, slots=True)
class Candidate:
    """A bundle's offer for a request: a variant in one form, or the reason why there is none.

    Attributes:
        form: `exact`, `family` or `portable`.
        aligned: the values that the variant assumes to be multiples of 16.
    """

    bundle: Bundle
    target: Target
    form: str | None
    reason: str
    variant: Mapping[str, Any] | None = None

    @property
    def aligned(self) -> tuple[str, ...]:
        return tuple(self.variant["aligned"]) if self.variant is not None else ()

    def artifact(self) -> Artifact:
        """The bytes, checked, and all that launching needs."""
        assert self.variant is not None
        return self.bundle.artifact(self.target, self.variant, portable=self.form == "portable")


class Bundle:
    """A loaded bundle."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = BundleFile(path)
        self.signer = signing.check(self.file)

    @property
    def targets(self) -> tuple[Target, ...]:
        return tuple(self.file.sections)

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of the Triton functions that it has binaries of."""
        return tuple(sorted({k for s in self.file.sections.values() for k in s.kernels}))

    def __repr__(self) -> str:
        return f"<Bundle {str(self.path)!r} for {', '.join(map(str, self.targets))}>"

    def candidates(self, request: CompileRequest, target: Target) -> Iterator[Candidate]:
        """One for each target of the bundle and each form in which its variant could serve."""
        key = class_key(request)
        for made in sorted(self.targets, key=_newest_first):
            if made.vendor != target.vendor:
                yield Candidate(self, made, None, f"it is for {made.vendor}")
                continue
            variant, reason = self._variant(made, key, request)
            if variant is None:
                yield Candidate(self, made, None, reason)
                continue
            form, reason = fit(made, target, bool(variant.get("arch_specific")))
            if form is None:
                why_not = portable_fit(made, variant.get("portable_arch"), target)
                if why_not is None:
                    form = "portable"
                else:
                    reason = f"{reason}, and {why_not}"
            yield Candidate(self, made, form, reason, variant if form else None)

    def _variant(
        self, made: Target, key: bytes, request: CompileRequest
    ) -> tuple[Mapping[str, Any] | None, str]:
        name = request.source.name
        known = self.file.sections[made].kernels.get(name)
        if known is None:
            return None, f"it has no {name}"
        record = self.file.record(made, key)
        if record is None:
            if request.source.digest not in known["sources"]:
                return None, f"its {name} was built from another source text"
            return None, (
                f"it has no such specialization of {name} (types, layout, tile sizes)"
                f"{_mixed(request)}"
            )
        true = set(request.aligned)
        fitting = [v for v in record["variants"] if true.issuperset(v["aligned"])]
        if not fitting:
            return None, f"all its variants of {name} need values to be multiples of 16"
        return max(fitting, key=lambda v: (len(v["aligned"]), v["aligned"])), ""

    def artifact(
        self, target: Target, variant: Mapping[str, Any], *, portable: bool = False
    ) -> Artifact:
        """A variant's artifact.

        Raises:
            LoadError: the file is damaged.
        """
        binary = self.file.binary(target, variant.get("portable" if portable else "binary"))
        return self._made(target, variant, binary, portable)

    def check(self, target: Target, variant: Mapping[str, Any]) -> None:
        """That a variant's facts are ones that launching may believe; its bytes are not read.

        Raises:
            LoadError: they are not.
        """
        self._made(target, variant, b"", False)

    def _made(
        self, target: Target, variant: Mapping[str, Any], binary: bytes, portable: bool
    ) -> Artifact:
        form = {"format": variant["portable_format"]} if portable else {}
        try:
            return artifact_of(variant["artifact"], target=target, binary=binary, **form)
        except DAMAGE as error:
            raise LoadError(
                f"the bundle {self.path} is refused: a record for {target} is not of the form that "
                f"its format version has ({error}). Build it again."
            ) from error


def _mixed(request: CompileRequest) -> str:
    """Return a note on a call with arrays of several dtypes, which no build covers."""
    types = [
        str(type_)[1:]
        for name, type_ in request.signature
        if str(type_).startswith("*") and name != "out"
    ]
    several = dict.fromkeys(type_ for type_ in types if type_ != "i1")  # masks go with all
    if len(several) < 2:
        return ""
    return (
        f"; its arrays are of {' and '.join(several)}, and a bundle is built for calls on arrays "
        "of one dtype: convert one of them first"
    )


def _newest_first(target: Target) -> tuple[str, int, str]:
    digits = target.arch.rpartition("_")[2]
    return target.vendor, -int(digits) if digits.isdecimal() else 0, target.arch


# ------------------------------------------------------------------------------- what is loaded

_lock = Lock()
_bundles: dict[Path, Bundle] = {}
_of_environment: tuple[Path, ...] | None = None


def load_bundle(path: str | Path) -> Bundle:
    """Take binaries from a bundle from now on, before the cache and the compiler.

    Raises:
        LoadError: the file is not a bundle, is damaged, has a newer format, or is not signed with
            a key that `XTARGET_TRUST` names.
    """
    try:
        whole = Path(path).resolve()
    except (TypeError, ValueError) as error:
        raise LoadError(f"a bundle is given by its path, not by {path!r} ({error}).") from error
    with _lock:
        bundle = _bundles.get(whole)
        if bundle is None:
            bundle = _bundles[whole] = Bundle(whole)
        return bundle


def loaded() -> tuple[Bundle, ...]:
    """Every bundle that is asked: those of `XTARGET_BUNDLES`, and those loaded by hand."""
    global _of_environment
    wanted = environment.bundles()
    if wanted != _of_environment:
        with _lock:
            for path in wanted:
                load_bundle(path)
            _of_environment = wanted
    return tuple(_bundles.values())


def candidates(request: CompileRequest, target: Target) -> list[Candidate]:
    """Return the offers of all loaded bundles, best first; unusable ones come last."""
    found = [c for bundle in loaded() for c in bundle.candidates(request, target)]
    return sorted(found, key=lambda c: FORMS.index(c.form) if c.form in FORMS else len(FORMS))


def find(request: CompileRequest, target: Target) -> Artifact | None:
    """The best variant that a loaded bundle has for a request.

    Raises:
        LoadError: that bundle is damaged.
    """
    if not loaded():
        return None
    best = candidates(request, target)
    return best[0].artifact() if best and best[0].variant is not None else None


def why_not(request: CompileRequest, target: Target) -> str:
    """Say in a sentence why no loaded bundle serves a request; empty without a bundle."""
    said = []
    for bundle in loaded():
        here = [c for c in candidates(request, target) if c.bundle is bundle]
        if not any(c.target.vendor == target.vendor for c in here):
            has = ", ".join(map(str, bundle.targets)) or "no target"
            said.append(f"The bundle {bundle.path} is not for {target}: it has {has}.")
            continue
        reasons = "; ".join(
            f"{c.target}: {c.reason}" for c in here if c.target.vendor == target.vendor
        )
        said.append(f"The bundle {bundle.path} does not serve it ({reasons}).")
    return " ".join(said)
