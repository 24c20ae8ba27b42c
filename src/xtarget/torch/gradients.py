"""Gradients of kernels for torch's autograd, by the formulas of `derivatives`.

A kernel without a formula says so when somebody asks for its gradient, and not before: parameters
that require one may be passed for inference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._functorch.autograd_function import enable_single_level_autograd_function
from torch.autograd import forward_ad

from .._arrays.torch_in_c import transforms
from .._core import native
from ..spec import KernelSpec
from .derivatives import FORMULAS, PARTIAL, UNARY, Layout, fit, has_gradient, reads
from .schemas import options_in_c

__all__ = ["add_gradient"]


#: In the place of a tensor that is saved.
_SAVED = object()


def _unread(given: Any, is_read: bool) -> Any:
    """The part of an argument that is kept without torch: a number, or the layout of a tensor."""
    if not isinstance(given, Tensor):
        return given
    return _SAVED if is_read else Layout(given.shape, given.dtype)


class _Gradient(torch.autograd.Function):  # type: ignore[misc]  # torch is not typed here
    """One operator's call in a graph of gradients."""

    @staticmethod
    def forward(ctx: Any, spec: KernelSpec, below: Any, options: Any, *args: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd(), _for_outer_levels():
            result = below(*args, **options)
        ctx.spec, ctx.options = spec, {**spec.options, **options}
        if not has_gradient(spec):
            return result
        read, of_result = reads(spec.name, ctx.needs_input_grad[3:])
        ctx.given = [_unread(arg, read is None or place in read) for place, arg in enumerate(args)]
        ctx.places = [place for place, one in enumerate(ctx.given) if one is _SAVED]
        kept = [args[place] for place in ctx.places]
        ctx.save_for_backward(*kept, result if of_result else None)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        spec = ctx.spec
        if not has_gradient(spec):
            raise NotImplementedError(
                f"{spec.name} of xtarget has no gradient. Call it under torch.no_grad(), or pass "
                "x.detach() of the tensors that require one."
            )
        *tensors, output = ctx.saved_tensors
        inputs = list(ctx.given)
        for place, tensor in zip(ctx.places, tensors, strict=True):
            inputs[place] = tensor
        missing = [None] * len(inputs)
        while inputs and inputs[-1] is None:
            inputs.pop()
        found: Sequence[Any]
        if spec.name in UNARY:
            found = (UNARY[spec.name](gradients[0], inputs[0], output),)
        elif spec.name in PARTIAL:
            found = [
                formula(gradients[0], *inputs, output) if wanted else None
                for (_, formula), wanted in zip(
                    PARTIAL[spec.name], ctx.needs_input_grad[3:], strict=True
                )
            ]
        else:
            found = FORMULAS[spec.name](gradients[0], inputs, output, ctx.options)
        fitted = [fit(*pair) for pair in zip(found, inputs, strict=True)]
        return (None, None, None, *fitted, *missing[len(fitted) :])


@contextmanager
def _for_outer_levels() -> Iterator[None]:
    """Within torch.func, what is outside of this level records as well, or refuses.

    A `Function` switches both kinds of recording off for its forward.
    """
    if torch._C._are_functorch_transforms_active():
        with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
            yield
    else:
        yield


def _apply_at_one_level(*args: Any) -> Any:
    """`_Gradient.apply` within torch.func: the dispatcher stands at one level of its transforms.

    `Function.apply` refuses there, as it would have to go through all levels itself.
    """
    with enable_single_level_autograd_function():
        return super(torch.autograd.Function, _Gradient).apply(*args)


def _below(operator: Any, direct: Any, args: Sequence[Any], options: dict[str, Any]) -> Any:
    """Make a call where no gradient is recorded."""
    if _is_plain(args):
        return direct(*args, **options)
    with torch._C._AutoDispatchBelowAutograd():
        return operator()(*args, **options)


def _refusing(spec: KernelSpec, operator: Any, direct: Any) -> Any:
    """The call where nothing is differentiated.

    Raises:
        NotImplementedError: something is.
    """

    def implementation(*args: Any, **options: Any) -> Any:
        if forward_ad._current_level >= 0:
            _refuse_tangents(spec, args)
        if torch.is_grad_enabled() and torch._C._any_requires_grad(*args):
            raise NotImplementedError(
                f"{spec.name} of xtarget writes to its arguments and has no gradient, which would "
                "be lost. Call it under torch.no_grad(), or pass x.detach() of the tensors that "
                "require one."
            )
        return _below(operator, direct, args, options)

    return implementation


def _refuse_tangents(spec: KernelSpec, args: Sequence[Any]) -> None:
    """Forward-mode differentiation would lose the tangents in silence.

    Raises:
        NotImplementedError: an argument has one.
    """
    for arg in args:
        if isinstance(arg, Tensor) and forward_ad.unpack_dual(arg).tangent is not None:
            raise NotImplementedError(
                f"{spec.name} of xtarget has no forward-mode derivative (torch.func.jvp, jacfwd). "
                "Use torch.func.vjp or jacrev, or pass the primal of "
                "torch.autograd.forward_ad.unpack_dual(x)."
            )


def add_gradient(
    name: str, spec: KernelSpec, results: int, operator: Any, direct: Any, library: Any
) -> None:
    """Tell torch the gradient of an operator, or that it has none.

    Args:
        name: of the operator in the library, with `.OVERLOAD` behind it if there is one.
        operator: gives the operator (`torch.ops.xtarget.NAME.OVERLOAD`).
        direct: makes the call where no key of torch is between this one and the device's.
        library: the `torch.library.Library`.
    """
    if spec.updates or not results:
        # torch has no formulas for operators that write to their inputs
        library.impl(name, _refusing(spec, operator, direct), "Autograd")
        return

    def implementation(*args: Any, **options: Any) -> Any:
        if forward_ad._current_level >= 0:
            _refuse_tangents(spec, args)
        if torch.is_grad_enabled() and torch._C._any_requires_grad(*args):
            if torch._C._are_functorch_transforms_active():
                return _apply_at_one_level(spec, operator(), options, *args)
            return _Gradient.apply(spec, operator(), options, *args)
        return _below(operator, direct, args, options)

    core, told = native(), transforms(torch) if spec.inputs and results == 1 else None
    if core is not None and told is not None:
        implementation = core.Operator(core, spec.name, implementation, *told, *options_in_c(spec))
    library.impl(name, implementation, "Autograd")


def _is_plain(args: Sequence[Any]) -> bool:
    """Whether nothing of torch's is between a call and its device: no mode is on and no transform,
    and tensors are what they seem."""
    if not _has_no_others(torch._C._dispatch_tls_local_include_set()):
        return False
    return all(_has_no_others(torch._C._dispatch_keys(a)) for a in args if isinstance(a, Tensor))


def _has_no_others(keys: Any) -> bool:
    bits = keys.raw_repr()
    known = _no_others.get(bits)
    if known is None:  # `&` takes 0.4 us
        known = _no_others[bits] = (keys & _BELOW).raw_repr() in _DEVICES
    return known


_KEY = torch._C.DispatchKey
#: The keys that an operator is dispatched by after the one of gradients, but for those that are
#: there for others.
_BELOW = torch._C._after_autograd_keyset.remove(_KEY.ADInplaceOrView).remove(_KEY.BackendSelect)
#: The keys of plain tensors below it, by device, and those of a thread.
_DEVICES = frozenset(
    torch._C.DispatchKeySet(getattr(_KEY, device)).raw_repr()
    for device in ("CPU", "CUDA", "XPU", "Undefined")
)
#: By all keys of a tensor, or of a thread, as torch's number: are only such ones below?
_no_others: dict[int, bool] = {}
