"""`@triton.autotune` and `@triton.heuristics` around a function, taken as what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .._values.errors import XTargetError
from .contexts import Context

__all__ = ["unwrapped"]


def unwrapped(kernel: str, function: Any) -> tuple[Any, dict[str, Any]]:
    """The function behind Triton's wrappers, and the arguments of `@xtarget.kernel` that they
    stand for.

    Raises:
        XTargetError: a wrapper is none of these, or asks for what has another form here.
    """
    said: dict[str, Any] = {}
    fn = function
    while hasattr(fn, "arg_names") and not hasattr(fn, "cache_key"):
        if hasattr(fn, "configs"):
            _refuse_hooks(kernel, fn)
            said["configs"], said["key"] = tuple(fn.configs), tuple(fn.keys)
            said["prune"] = _pruning(fn)
        elif isinstance(getattr(fn, "values", None), Mapping):
            rules = {name: _heuristic(rule) for name, rule in fn.values.items()}
            said["constants"] = {**rules, **said.get("constants", {})}
        elif type(fn).__name__ == "InterpretedFunction":
            raise XTargetError(
                f"{kernel} cannot be compiled: TRITON_INTERPRET is set, so Triton made a Python "
                "function of it. Unset that before Triton is imported."
            )
        else:
            raise XTargetError(
                f"@xtarget.kernel takes a @triton.jit function, also below @triton.autotune and "
                f"@triton.heuristics, not a {type(fn).__name__}: leave it out."
            )
        fn = fn.fn
    return fn, said


def _refuse_hooks(kernel: str, fn: Any) -> None:
    own = [part for part in ("pre_hook", "post_hook") if getattr(fn, f"user_defined_{part}", False)]
    if own:
        raise XTargetError(
            f"{kernel}: its @triton.autotune has a {own[0]}. Name what the kernel changes in "
            "updates, and what an output begins with by Out(layout, init=0); tuning restores both."
        )


def _pruning(fn: Any) -> Callable[[list[Any], Any], list[Any]] | None:
    early = getattr(fn, "early_config_prune", None)
    if early is None:
        return None
    originals = list(fn.configs)

    def prune(configs: list[Any], context: Any) -> list[Any]:
        arguments = _Arguments(context)
        kept = early(originals, arguments, **arguments)
        return [ours for ours, theirs in zip(configs, originals, strict=True) if theirs in kept]

    return prune


def _heuristic(rule: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def ask(context: Any) -> Any:
        return rule(_Arguments(context))

    return ask


class _Arguments(Mapping[str, Any]):
    """The call as Triton's heuristics see it: arguments by name."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __getitem__(self, name: str) -> Any:
        return self._context[name]

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._context))

    def __len__(self) -> int:
        return len(list(self._context))
