"""Several implementations of one operator: which there are, and which one serves a target.

The operator's row serves every target. Another implementation is a spec with the row's name and a
word of its own (`KernelSpec.impl`): `impl=` asks for it. One that is `preferred` serves its targets
without being asked for. This needs an entry in the operator's own library, so no library changes
in silence what another one computes.
"""

from __future__ import annotations

from .._values.errors import ArgumentError, MissingFeatureError, shortened
from .._values.value_classes import value_class
from . import libraries
from .libraries import RegisteredKernel
from .variants import OWN, SEPARATOR, asked, serves

__all__ = ["HOST", "TORCH", "Implementation", "listed", "named", "of_target", "serving"]

#: What `impl=` calls NumPy's reference, and a call of torch's.
HOST, TORCH = "host", "torch"


@value_class(frozen=True, slots=True)
class Implementation:
    """One way to compute an operator.

    Attributes:
        name: the word that `impl=` asks for it by.
        kernel: the kernel's name; empty where none of ours runs.
        origin: where it is from: the folder of a library, a file, `torch`, `NumPy`.
        targets: the vendors and targets that it can serve; none: all.
        preferred: it serves these without being asked for.
        why: what it is good for.
    """

    name: str
    kernel: str
    origin: str
    targets: tuple[str, ...]
    preferred: bool
    why: str


def listed(operator: str) -> tuple[Implementation, ...]:
    """The implementations of an operator, its own row first.

    Raises:
        UnknownKernelError: there is no such operator.
    """
    base = libraries.find(operator)
    name = base.spec.name.partition(SEPARATOR)[0]
    own = libraries.own(name)
    replaced = own is not None and own.origin != base.origin
    found = [
        Implementation(
            "" if replaced else OWN, name, base.origin, (), True,
            "registered in the place of xtarget's own kernel" if replaced
            else "the operator's own row: every target",
        )
    ]  # fmt: skip
    if replaced and own is not None:
        why = "xtarget's own kernel, where another library's has its name"
        found.append(Implementation(OWN, asked(name, OWN), own.origin, (), False, why))
    for kernel in libraries.others(name):
        spec = kernel.spec
        if spec.impl != OWN:
            found.append(
                Implementation(
                    spec.impl, spec.name, kernel.origin, spec.targets,
                    _is_preferred(kernel, base), spec.why or spec.summary,
                )
            )  # fmt: skip
    if libraries.torch_call(name) is not None:
        found.append(Implementation(TORCH, "", "torch", (), False, "torch's own call"))
    if base.spec.reference is not None and not base.spec.updates:
        why = 'NumPy\'s reference, on the host; also by fallback="host"'
        found.append(Implementation(HOST, "", "NumPy", (), False, why))
    return tuple(found)


def named(operator: str, impl: object) -> str:
    """The name of the kernel that an implementation is.

    Args:
        impl: what the caller has asked for.

    Raises:
        UnknownKernelError: there is no such operator.
        ArgumentError: it has no such implementation; the message suggests near ones.
    """
    base = libraries.find(operator)
    ways = {way.name: way for way in listed(operator) if way.name}
    way = ways.get(impl) if isinstance(impl, str) else None
    if way is None:
        import difflib

        near = difflib.get_close_matches(str(impl), ways, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
        raise ArgumentError(
            f"{base.spec.name} has no implementation {shortened(impl)}. {hint}There "
            f"{'is' if len(ways) == 1 else 'are'} {', '.join(map(repr, ways))}; leave impl= out "
            "for the one that serves the target."
        )
    if not way.kernel:
        raise ArgumentError(
            f"{base.spec.name}: impl={impl!r} is not a kernel, so nothing of it can be compiled, "
            "prepared or shown. Call it by xtarget.run."
        )
    if way.name != OWN or not any(one.preferred for one in ways.values() if one is not way):
        return way.kernel
    return asked(base.spec.name, OWN)  # the plain name means what is preferred


def serving(kernel: RegisteredKernel, vendor: str, arch: str) -> RegisteredKernel:
    """The kernel that computes an operator on a target.

    Args:
        kernel: the operator, or the implementation that was asked for.

    Raises:
        MissingFeatureError: the implementation that was asked for does not serve the target.
    """
    spec = kernel.spec
    if spec.impl:
        if not serves(spec.targets, vendor, arch):
            operator, _, impl = spec.name.partition(SEPARATOR)
            raise MissingFeatureError(
                f"{operator}: impl={impl!r} serves {', '.join(spec.targets)}, not {vendor}:{arch}. "
                f"Leave impl= out, or see `xtarget kernels {operator}` for what serves it."
            )
        return kernel
    fitting = [
        other
        for other in libraries.others(spec.name)
        if _is_preferred(other, kernel) and serves(other.spec.targets, vendor, arch)
    ]
    exact = [other for other in fitting if f"{vendor}:{arch}" in other.spec.targets]
    return next(iter(exact or fitting), kernel)


def _is_preferred(other: RegisteredKernel, base: RegisteredKernel) -> bool:
    return other.spec.preferred and other.origin == base.origin and other.spec.impl != OWN


def of_target(kernel: RegisteredKernel, vendor: str, arch: str) -> tuple[str, str]:
    """The word for the implementation that serves a target, and why it does."""
    try:
        found = serving(kernel, vendor, arch).spec
    except MissingFeatureError as error:
        return "none", str(error)
    operator, _, impl = found.name.partition(SEPARATOR)
    ways = listed(operator)
    if not impl:
        others = [w.name for w in ways if w.targets and w.preferred]
        why = f"the operator's own row; {', '.join(others)} serves other targets" if others else ""
        return ways[0].name or ways[0].origin, why or ways[0].why
    asked_for = "" if kernel.spec is not found else "asked for; "
    return impl, asked_for + (found.why or found.summary)
