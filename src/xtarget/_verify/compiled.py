"""Compile a kernel's calls for a target that need not be here, and look at the binaries."""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Sequence
from typing import Any

import xtarget

from .._values.errors import ArgumentError, UnknownTargetError, XTargetError
from .._values.types import Artifact, Target
from ..spec import ArrayType, KernelSpec, contiguous_strides
from ..targets._binaries.elf import Elf
from ..targets._binaries.opencl_c import FORMAT, check_opencl_c
from ..targets._binaries.spirv import read_entry_points
from .verify import NoAnswerError, Row, input_shapes, served_by

__all__ = ["SHAPES", "compiled", "layouts"]

#: Contiguous, and of odd numbers of elements.
SHAPES: tuple[tuple[int, ...], ...] = ((7, 129), (2, 3, 5, 7))


def compiled(
    specs: Sequence[KernelSpec],
    dtypes: Sequence[str],
    target: str,
    *,
    known: Container[tuple[str, str]] = (),
) -> Iterator[Row]:
    """A row for each kernel and each of the dtypes that it takes: `compiled`, `refused`, `failed`.

    A binary counts if it can be parsed and has the entry that its launch names. What is `known` is
    left out.

    Raises:
        UnknownTargetError: there is no such target.
    """
    goal = Target.parse(target)
    for spec in specs:
        for dtype in dtypes:
            if dtype in spec.dtypes and (spec.name, dtype) not in known:
                yield _row(spec, dtype, goal)


def _row(spec: KernelSpec, dtype: str, target: Target) -> Row:
    row = Row(spec.name, dtype, impl=served_by(spec, target))
    start = time.perf_counter()
    for shape in SHAPES:
        try:
            made = xtarget.compile(spec.name, *layouts(spec, dtype, shape), target=target)
            for artifact in made:
                _check(artifact)
        except UnknownTargetError:
            raise  # of no kernel
        except (ArgumentError, NoAnswerError) as error:
            row.refuse(error)
        except XTargetError as error:
            row.fail(f"{dtype}[{'x'.join(map(str, shape))}]", error)
            break
        else:
            row.cases += 1
            if made:
                break  # the same kernel for the next shape, nearly always
    row.finish("compiled", start)
    return row


def layouts(spec: KernelSpec, dtype: str, shape: tuple[int, ...]) -> list[Any]:
    """The arguments of a call, without arrays."""
    return [
        None if own is None else ArrayType(kind, own, contiguous_strides(own))
        for _, kind, own in input_shapes(spec, dtype, shape)
    ]


def _check(artifact: Artifact) -> None:
    """Whether the binary can be parsed and has its entry.

    Raises:
        LoadError: it has not.
    """
    if artifact.binary[:4] == b"\x7fELF":
        names = {symbol.name for symbol in Elf.parse(artifact.binary).symbols()}
    elif artifact.format == FORMAT:
        check_opencl_c(artifact, artifact.target, str(artifact.target))
        return
    else:
        names = {entry.name for entry in read_entry_points(artifact.binary)}
    if artifact.entry not in names:
        raise xtarget.LoadError(
            f"the binary has no entry {artifact.entry!r}. Report this: the compiler wrote another."
        )
