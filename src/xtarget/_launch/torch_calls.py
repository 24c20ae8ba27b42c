"""Calls that torch serves, because somebody has asked for it: cuBLAS, cuDNN and their like."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._kernels import libraries
from .._values.errors import ArgumentError
from .arguments import check_arguments, placed

__all__ = ["run_torch"]


def run_torch(
    kernel: str, args: tuple[Any, ...], out: Any, device: Any, options: Mapping[str, Any]
) -> Any:
    """Compute a call by torch's own function (`torch_calls.py` of the kernel library).

    Args:
        args: torch tensors, which stay where they are, or NumPy arrays, which torch's CPU takes.
        out, device, options: as `xtarget.run` is given them.

    Returns:
        a tensor, or NumPy arrays where the first array is one; torch decides about dtypes.

    Raises:
        ArgumentError: torch is not installed, an array is of another library, or torch refuses the
            arguments.
    """
    args, given = placed(kernel, args, dict(options))
    spec = libraries.find(kernel).spec
    check_arguments(spec, args, given)
    call = libraries.torch_call(spec.name)
    try:
        torch = sys.modules.get("torch") or importlib.import_module("torch")
    except ImportError as error:
        raise ArgumentError(
            f'{spec.name}: impl="torch" needs torch, which is not installed ({error}). Leave impl= '
            "out."
        ) from error
    if device is not None:
        raise ArgumentError(
            f'{spec.name}: impl="torch" runs where its tensors lie. Leave device= out.'
        )
    tensors = [_tensor(torch, spec.name, value) for value in args]
    first = next((value for value in args if isinstance(value, np.ndarray | torch.Tensor)), None)
    try:
        result = call(torch, *tensors, **{**spec.options, **given})
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
        said = str(error).strip().partition("\n")[0]
        raise ArgumentError(f"{spec.name}: torch refuses the call: {said}") from error
    if out is not None:
        if not isinstance(result, torch.Tensor) or tuple(out.shape) != tuple(result.shape):
            raise ArgumentError(
                f"{spec.name}: out does not have the shape of torch's result. Leave it out."
            )
        goal = out if isinstance(out, torch.Tensor) else torch.from_numpy(out)
        goal.copy_(result)
        return out
    if isinstance(first, np.ndarray):
        several = isinstance(result, tuple | list)
        return tuple(map(_array, result)) if several else _array(result)
    return tuple(result) if isinstance(result, list) else result


def _tensor(torch: Any, kernel: str, value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | torch.Tensor):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, np.ndarray):
        raise ArgumentError(
            f'{kernel}: impl="torch" takes torch tensors and NumPy arrays, not a '
            f"{type(value).__name__}. Convert it, or leave impl= out."
        )
    if any(stride < 0 for stride in value.strides) or not value.flags.writeable:
        value = value.copy()  # torch has no such tensors
    if value.dtype.name == "bfloat16":
        return torch.from_numpy(value.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(value)


def _array(result: Any) -> Any:
    if str(result.dtype) == "torch.bfloat16":
        import ml_dtypes

        return result.view(sys.modules["torch"].int16).numpy().view(ml_dtypes.bfloat16)
    return result.numpy()
