"""Other names of kernels, and what is said where a name leads nowhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from .._values.errors import UnknownKernelError, shortened

__all__ = ["Names", "prefix_free"]

#: How the names of other libraries begin here, and how their users write it.
_PREFIXES = {
    "torch.": ("aten::", "aten.", "torch."),
    "np.": ("np.", "numpy."),
    "tf.": ("tf.",),
    "onnx::": ("onnx::", "ai.onnx."),
}


def prefix_free(name: str) -> str:
    """`aten::add.Tensor`, `torch.add` and `np.add` as `add`; others as they are."""
    return _parts(name)[1]


def _parts(name: str) -> tuple[str, str]:
    """How the names of the library begin that a name is of (empty: of none), and the rest."""
    for own, written in _PREFIXES.items():
        for prefix in filter(name.startswith, written):
            rest = name.removeprefix(prefix)
            short = rest.partition(".")[0] if prefix.startswith("aten") else rest.rpartition(".")[2]
            return own, short
    return "", name


class Names:
    """Aliases and refused names of the libraries that are known."""

    def __init__(self) -> None:
        self._aliases: dict[str, str] = {}
        self._refused: dict[str, str] = {}

    def add(self, kernel: str, aliases: Sequence[str]) -> set[str]:
        """Take a kernel's aliases; returns the kernels that one of its names led to before."""
        before = {self._aliases[name] for name in (kernel, *aliases) if name in self._aliases}
        self._aliases.update(dict.fromkeys(aliases, kernel))
        return before

    def refuse(self, reasons: Mapping[str, str]) -> None:
        """Take names that a library knows and does not have, with the reason."""
        self._refused.update(reasons)

    def kernel(self, name: str) -> str | None:
        """The kernel of which this is another name."""
        return self._aliases.get(name) or self._aliases.get(prefix_free(name))

    def meant(self, name: str) -> str:
        """The kernel that a name of a library leads to, if there is one; empty: it is refused. What
        is said of the name as it is written stands before what is said of the library's last word
        (`tf.argmax` for `tf.math.argmax`), and this before the word alone.
        """
        library, word = _parts(name)
        for form in dict.fromkeys((name, library + word)) if library else ():
            if form in self._aliases:
                return self._aliases[form]
            if form in self._refused:
                return ""
        return self._aliases.get(word, word)

    def reason(self, name: str) -> str:
        """Why a name is refused; empty if it is not."""
        library, word = _parts(name)
        for form in (name, library + word, word):
            if form in self._refused:
                return self._refused[form]
        return ""

    def unknown(self, name: str, known: Iterable[str]) -> UnknownKernelError:
        """The error for a name that leads nowhere."""
        reason = self.reason(name)
        if reason:
            return UnknownKernelError(f"there is no kernel {shortened(name)}: {reason}")
        near = list(self._near(prefix_free(name)[:100], known))
        hint = f"Did you mean {' or '.join(near)}? " if near else ""
        return UnknownKernelError(
            f"there is no kernel {shortened(name)}. {hint}`xtarget kernels` lists them all."
        )

    def _near(self, name: str, known: Iterable[str]) -> Iterator[str]:
        """Up to three near names; an alias with the kernel that it is a name of."""
        import difflib  # for names that are wrong

        kernels = set(known)
        matches = difflib.get_close_matches(name, [*kernels, *self._aliases], n=6, cutoff=0.5)
        told: set[str] = set()
        for match in matches:
            kernel = match if match in kernels else self._aliases[match]
            if kernel not in told and len(told) < 3:
                told.add(kernel)
                yield match if match == kernel else f"{match} ({kernel})"
