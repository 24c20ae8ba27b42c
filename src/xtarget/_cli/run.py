"""`xtarget run`: random input, a first and some warm runs, and the comparison with NumPy."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

import xtarget

from .._arrays.dtypes import numpy_dtype
from .._devices import choice, registry
from .._kernels import libraries
from .._kernels.implementations import of_target
from .._kernels.references import answers
from .._kernels.variants import OWN
from .._launch import planning
from .._values.errors import ArgumentError, XTargetError
from .._values.types import DTYPES, DeviceInfo
from .._verify.cases import meaningful
from .._verify.comparison import Comparison, compare
from .._verify.verify import is_floating
from ..spec import ArrayType
from .arguments import Inputs, choose_inputs
from .base import echo
from .tables import echo_wrapped
from .values import CallOptions

__all__ = ["check_size", "random_arguments", "random_array", "run_kernel"]

_WARM_SECONDS, _WARM_RUNS = 0.5, 20


def random_array(layout: ArrayType, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Normal deviates for floats, small whole numbers for integers, coin tosses for bool."""
    dtype, kind = numpy_dtype(layout.dtype), DTYPES[layout.dtype].kind
    if kind == "b":
        return rng.integers(0, 2, layout.shape).astype(dtype)
    if kind in "iu":
        return rng.integers(0 if kind == "u" else -100, 101, layout.shape).astype(dtype)
    return rng.standard_normal(layout.shape).astype(dtype)


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = call()
    return result, time.perf_counter() - start


def _compare_all(
    inputs: Inputs, args: Sequence[Any], results: Sequence[np.ndarray[Any, Any]]
) -> list[Comparison]:
    """Compare each result with what the kernel's reference says.

    Raises:
        XTargetError: the reference, which may be a user's, fails or gives something else.
    """
    try:
        floating = is_floating(results)
        right = answers(inputs.spec, args, inputs.options, floating=floating)
        if len(right) != len(results):
            raise ArgumentError(f"it gives {len(right)} results, the kernel {len(results)}")
        tolerance = inputs.spec.tolerance
        return [compare(r, e, tolerance) for r, e in zip(results, right, strict=True)]
    except MemoryError:
        raise  # says nothing of the reference
    except Exception as error:  # the reference is its author's
        said = str(error) if isinstance(error, XTargetError) else f"{type(error).__name__}: {error}"
        raise XTargetError(
            f"the result of {inputs.spec.name} cannot be checked with its reference: "
            f"{said.rstrip('.')}. Correct the `reference` of its spec, or leave --check out."
        ) from error


def _input(layout: ArrayType, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    try:
        return random_array(layout, rng)
    except (MemoryError, ValueError) as error:  # ValueError: more than NumPy can count
        raise ArgumentError(
            f"an input of shape {layout.shape} does not fit this machine's memory: {error}. "
            "Choose a smaller --shape."
        ) from error


def random_arguments(inputs: Inputs, seed: int) -> list[Any]:
    """Random arrays of the chosen layouts; numbers as they are.

    Raises:
        ArgumentError: they do not fit this machine's memory.
    """
    rng = np.random.default_rng(seed)
    layouts = [a for a in inputs.args if isinstance(a, ArrayType)]
    least = min((length for layout in layouts for length in layout.shape), default=1)
    return [
        meaningful(label.rstrip("?"), _input(a, rng), least) if isinstance(a, ArrayType) else a
        for label, a in zip(inputs.spec.inputs, inputs.args, strict=False)
    ]


def check_size(kernel: str, inputs: Inputs, info: DeviceInfo) -> None:
    """Refuse what cannot fit the device before gigabytes of random input are made for it.

    Raises:
        ArgumentError: the shapes do not go together, or the arrays are larger than the memory.
    """
    registered = libraries.find(kernel)
    plan, types, _ = planning.plan_of_layouts(registered, inputs.args, inputs.options, info.target)
    arrays = [a for a in (*types, *plan.outputs) if isinstance(a, ArrayType)]
    nbytes = sum(a.size * a.itemsize for a in arrays)
    if 0 < info.memory_bytes < nbytes:
        raise ArgumentError(
            f"{kernel} needs {nbytes / 2**30:,.1f} GiB for "
            f"{', '.join(f'{a.dtype}{list(a.shape)}' for a in arrays)}, and {info.name} has "
            f"{info.memory_bytes / 2**30:,.1f} GiB. Choose a smaller --shape."
        )


def run_kernel(
    kernel: str,
    call_options: CallOptions,
    device: str | None,
    seed: int,
    check: bool,
    as_json: bool,
) -> bool:
    """Run, time, compare, print; False when the result is wrong."""
    inputs = choose_inputs(kernel, call_options)
    kernel = inputs.spec.name if inputs.spec.impl else kernel
    if check and inputs.spec.reference is None:
        raise ArgumentError(
            f"kernel {kernel} has no reference to check against. Give its spec a `reference`, or "
            "leave --check out."
        )
    name = choice.default_device() if device is None else registry.find_device(device)
    info = registry.open_device(name).info
    check_size(kernel, inputs, info)
    args = random_arguments(inputs, seed)

    def call() -> Any:
        return xtarget.run(kernel, *args, device=name, **inputs.options)

    output, first = _timed(call)
    warm: list[float] = []
    spent = 0.0
    while len(warm) < _WARM_RUNS and spent < _WARM_SECONDS:
        warm.append(_timed(call)[1])
        spent += warm[-1]
    results = tuple(map(np.asarray, output)) if isinstance(output, tuple) else (np.asarray(output),)
    comparisons = _compare_all(inputs, args, results) if check else []
    ok = all(c.ok for c in comparisons)
    served = of_target(libraries.find(kernel), info.target.vendor, info.target.arch)
    if as_json:
        facts = {
            "kernel": kernel,
            "implementation": served[0],
            "arguments": inputs.describe(),
            "device": name,
            "target": str(info.target),
            "product": info.product,
            "runs_on": info.runs_on,
            "results": [{"dtype": r.dtype.name, "shape": list(r.shape)} for r in results],
            "first_run_s": first,
            "warm_run_s": min(warm),
            "seed": seed,
            "check": [_finite(asdict(c)) for c in comparisons] if check else None,
            "ok": ok,
        }
        echo(json.dumps(facts, indent=2))
        return ok
    echo_wrapped(f"{kernel}({inputs.describe()}) on {name} ({info.product}, {info.runs_on})")
    if served[0] != OWN:
        echo_wrapped(f"served by   {served[0]}: {served[1]}")
    for result in results:
        echo(f"result      {result.dtype.name}{list(result.shape)}")
    echo_wrapped(f"first run   {_milliseconds(first)}   compiles or loads, copies in and out")
    echo_wrapped(f"warm run    {_milliseconds(min(warm))}   best of {len(warm)}, copies in and out")
    for c in comparisons:
        if c.ok:
            echo(
                f"check       right: max error {c.max_abs_error:.3g} against NumPy in float64"
                + (f", {c.of_tolerance:.2g} of what is allowed" if c.tolerance else "")
            )
        else:
            echo(
                f"check       WRONG: {c.wrong} of {c.size} elements, max error "
                f"{c.max_abs_error:.3g} against NumPy in float64"
            )
    return ok


def _finite(facts: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity."""
    return {k: None if isinstance(v, float) and not np.isfinite(v) else v for k, v in facts.items()}


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:8.3f} ms"
