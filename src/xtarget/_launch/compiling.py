"""`xtarget.compile`: the artifacts that a call would need, for any target."""

from __future__ import annotations

from typing import Any

from .._compile import functions
from .._compile.declared import UndeclaredStoreError
from .._kernels import libraries
from .._kernels.asked_choices import told_of
from .._values.types import Artifact, Target
from . import planning
from .arguments import placed
from .chosen import chosen
from .specializing import requests
from .undeclared import declare_stores

__all__ = ["compile"]


def compile(
    kernel: str,
    /,
    *args: Any,
    target: str | Target,
    keep_stages: bool = False,
    **options: Any,
) -> tuple[Artifact, ...]:
    """Compile what a call would need, for any target, without its hardware.

    Args:
        kernel: name of the kernel.
        args: arrays as for `run`, or their layouts (`xtarget.spec.ArrayType`), or numbers.
        target: `nvidia:sm_90`, `amd:gfx942`, `intel:spirv64`, `h200`... (`Target.parse`).
        keep_stages: keep the text of every compiler stage in `Artifact.texts`.
        options: the kernel's options.

    Returns:
        an artifact for each launch of the call, in their order (nearly always one).

    Raises:
        UnknownKernelError, UnknownTargetError, ArgumentError, CompileError.
    """
    goal = Target.parse(target)
    kernel = chosen(kernel, options)
    registered = libraries.find(kernel)
    args, options = placed(kernel, args, options)
    plan, types, aligned = planning.plan_of_layouts(registered, args, options, goal)
    made = []
    for launch, request, _ in requests(registered, plan, types, aligned):
        try:
            with told_of(registered.spec.name, registered.spec.options, options):
                made.append(functions.artifact(request, goal, keep_stages=keep_stages))
        except UndeclaredStoreError as error:
            declare_stores(registered, launch, error)
            return compile(kernel, *args, target=goal, keep_stages=keep_stages, **options)
    return tuple(made)
