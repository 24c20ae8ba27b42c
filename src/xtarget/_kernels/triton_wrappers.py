"""`@triton.autotune` and `@triton.heuristics` around a function, taken as what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from .._values.errors import ArgumentError, XTargetError
from .._values.types import DTYPES
from ..spec import ArrayType
from .contexts import Context, Dtype, Heuristic, formula, is_formula

__all__ = ["INTERPRETED", "Tensor", "is_interpreted", "name_of", "over_constants", "unwrapped"]

#: Why a function that `is_interpreted` is no kernel.
INTERPRETED: Final = (
    "TRITON_INTERPRET is set, so Triton made a Python function of it. Unset that before Triton is "
    "imported."
)


def is_interpreted(function: Any) -> bool:
    """Whether Triton's interpreter runs a function, which nothing can compile."""
    fn = function
    while type(fn).__name__ != "InterpretedFunction":
        if not hasattr(fn, "arg_names") or not hasattr(fn, "fn"):
            return False
        fn = fn.fn
    return True


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
            # its hooks set arrays back between measurements, which are made on copies here
            said["configs"], said["key"] = tuple(fn.configs), tuple(fn.keys)
            said["prune"] = _pruning(fn)
        elif isinstance(getattr(fn, "values", None), Mapping):
            rules = {name: _heuristic(name, rule) for name, rule in fn.values.items()}
            said["heuristics"] = {**rules, **said.get("heuristics", {})}
        else:
            raise XTargetError(
                f"@xtarget.kernel takes a @triton.jit function, also below @triton.autotune and "
                f"@triton.heuristics, not a {type(fn).__name__}: leave it out."
            )
        fn = fn.fn
    return fn, said


def name_of(function: Any) -> str:
    """The name of the function behind Triton's wrappers, some of which have none."""
    fn = function
    while not getattr(fn, "__name__", "") and hasattr(fn, "fn"):
        fn = fn.fn
    return getattr(fn, "__name__", "") or str(function)


def _pruning(fn: Any) -> Callable[[list[Any], Any], list[Any]] | None:
    """`early_config_prune`, and the `top_k` that `perf_model` says are the fastest, as Triton's
    autotuner asks them."""
    early, model = getattr(fn, "early_config_prune", None), getattr(fn, "perf_model", None)
    if early is None and model is None:
        return None
    originals, most = list(fn.configs), getattr(fn, "configs_top_k", len(fn.configs))

    def prune(configs: list[Any], context: Any) -> list[Any]:
        arguments = _Arguments(context)
        kept = originals if early is None else list(early(originals, arguments, **arguments))
        if model is not None:
            count = max(1, int(len(kept) * most)) if isinstance(most, float) else most
            if len(kept) > count:
                kept = sorted(kept, key=lambda one: _estimate(model, arguments, one))[:count]
        ours = {id(theirs): one for one, theirs in zip(configs, originals, strict=True)}
        return [ours[id(theirs)] for theirs in kept if id(theirs) in ours]

    return prune


def over_constants(
    heuristics: Mapping[str, Heuristic], constants: Mapping[str, Any]
) -> dict[str, Any]:
    """Constants as they are with heuristics, which decide last and see what was given."""
    decided = dict(constants)
    for name, heuristic in heuristics.items():
        if name in constants:
            decided[name] = _over(heuristic, f"constant {name!r}", constants[name])
        else:
            decided[name] = heuristic
    return decided


def _over(heuristic: Heuristic, part: str, given: Any) -> Callable[[Any], Any]:
    rule = formula(part, given) if isinstance(given, str) and is_formula(given) else given

    def ask(context: Any) -> Any:
        return heuristic(context, rule(context) if callable(rule) else rule)

    return ask


def _estimate(model: Callable[..., Any], arguments: Mapping[str, Any], config: Any) -> Any:
    return model(**{**arguments, **config.all_kwargs()})


def _heuristic(name: str, rule: Callable[[Any], Any]) -> Heuristic:
    def ask(context: Any, *given: Any) -> Any:
        answer = rule(_Arguments(context, name, given))
        return str(answer) if isinstance(answer, Dtype) else answer

    return ask


class _Arguments(Mapping[str, Any]):
    """The call as Triton's heuristics see it: arguments by name.

    `given` is what was given for `decided`, the parameter that is decided: one value or none.
    """

    def __init__(self, context: Context, decided: str = "", given: tuple[Any, ...] = ()) -> None:
        self._context, self._decided, self._given = context, decided, given

    def __getitem__(self, name: str) -> Any:
        if name == self._decided and not self._given:
            raise ArgumentError(
                f"the heuristic of {name!r} asks for {name} itself, which nothing gives. Name "
                f"{name} in flags= of @xtarget.kernel, for the caller to give, or in constants="
            )
        value = self._given[0] if name == self._decided else self._context[name]
        if isinstance(value, ArrayType):
            return Tensor(value)
        is_dtype = isinstance(value, str) and value in DTYPES  # a flag that is one, by its name
        return Dtype(value) if is_dtype else value

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._context))

    def __len__(self) -> int:
        return len(list(self._context))


class Tensor:
    """A layout with what rules ask of a torch tensor. Its elements and its address are not known
    when a call is planned."""

    def __init__(self, layout: ArrayType) -> None:
        self._layout = layout
        self.shape, self.ndim, self.dtype = layout.shape, layout.ndim, Dtype(layout.dtype)
        self.itemsize, self.strides = layout.itemsize, layout.strides

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim: int | None = None) -> Any:
        return self.strides if dim is None else self.strides[dim]

    def dim(self) -> int:
        return self.ndim

    def numel(self) -> int:
        return self._layout.size

    def element_size(self) -> int:
        return self.itemsize

    @property
    def nbytes(self) -> int:
        return self.numel() * self.itemsize

    def is_contiguous(self) -> bool:
        return self._layout.contiguous

    def __len__(self) -> int:
        return self.shape[0]
