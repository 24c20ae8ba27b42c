"""The binaries of a bundle that a C function can use, and their bytes as C text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ..._artifacts.entry import is_c_name
from ..._values.errors import LoadError
from ..._values.types import DTYPES, Artifact, DtypeConstant, Target
from ..._values.value_classes import value_class
from ...spec import CInterface, CVariant, KernelSpec
from ...targets._objects.tensor_maps import map_of
from ..reader import Bundle

__all__ = ["C_TYPES", "Binary", "Data", "binaries", "table", "takes"]

#: What a value is passed as.
C_TYPES: Final = {
    "i32": "int32_t",
    "i64": "int64_t",
    "fp32": "float",
    "fp64": "double",
}


@value_class(frozen=True, slots=True)
class Binary:
    """A specialization: what it assumes, and its images in the order of their targets."""

    name: str  # in the C text
    source: str
    entry: str
    parameters: tuple[tuple[str, str, bool], ...]  # name, type, hidden
    aligned: tuple[str, ...]
    constants: Mapping[str, Any]
    images: tuple[str, ...]


class Data:
    """Arrays of bytes, each kept once."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}

    def name(self, content: bytes) -> str:
        return self._names.setdefault(content, f"xt_data_{len(self._names)}")

    def lines(self) -> Iterator[str]:
        for content, name in self._names.items():
            # a driver reads PTX up to its NUL, and ELF from an address of some alignment
            yield f"static const _Alignas(16) unsigned char {name}[] = {{"
            whole = content + b"\0"
            for start in range(0, len(whole), 32):
                yield ",".join(map(str, whole[start : start + 32])) + ","
            yield "};"


def binaries(
    bundle: Bundle,
    targets: Sequence[Target],
    spec: KernelSpec,
    interface: CInterface,
    dtype: str,
    data: Data,
) -> list[Binary]:
    """Every binary of a kernel and dtype that one of the interface's variants takes, merged over
    the targets (newest first), in no order yet."""
    found: dict[tuple[str, tuple[str, ...], str], tuple[Binary, list[tuple[int, str]]]] = {}
    for order, target in enumerate(targets):
        for record in bundle.file.records(target):
            if [spec.name, dtype] not in record["kernels"]:
                continue
            for variant in record["variants"]:
                made = bundle.artifact(target, variant)
                binary = _binary(record, variant["aligned"], made)
                if binary is None or not any(
                    takes(interface, v, binary, dtype) for v in interface.variants
                ):
                    continue
                key = (record["key"], binary.aligned, repr(binary.parameters))
                _, images = found.setdefault(key, (binary, []))
                images.append((order, _image(data, made, order)))
                if "portable" in variant:  # after every target's own
                    text = bundle.artifact(target, variant, portable=True)
                    last = len(targets) + order
                    images.append((last, _image(data, text, last)))
    return [
        replace(binary, images=tuple(image for _, image in sorted(images)))
        for _, (binary, images) in sorted(found.items())
    ]


def _binary(record: Mapping[str, Any], aligned: Sequence[str], made: Artifact) -> Binary | None:
    """A variant; None for one that needs memory or a launch that these functions do not give."""
    scratch = made.global_scratch.nbytes or made.profile_scratch.nbytes
    if scratch or made.cluster > 1 or made.cooperative:
        return None
    if any(map_of(parameter.type) is not None for parameter in made.parameters):
        return None
    constants = {
        name: DtypeConstant(value["dtype"]) if isinstance(value, dict) else value
        for name, value in record["constants"].items()
    }
    parameters = tuple((p.name, p.type, p.hidden is not None) for p in made.parameters)
    unknown = set(aligned) - {name for name, _, _ in parameters}
    if unknown:
        raise LoadError(
            f"a record of {record['source']} for {made.target} takes {', '.join(sorted(unknown))} "
            "for multiples of 16, and its binary has no such parameters. Build the bundle again."
        )
    name = f"xt_{made.entry}_{record['key'][:12]}_{'_'.join(aligned).replace('.', '_') or 'any'}"
    if not is_c_name(name):
        raise LoadError(
            f"a record for {made.target} has parameters of which no C name can be made. Build the "
            "bundle again, and name them in ASCII letters."
        )
    return Binary(name, record["source"], made.entry, parameters, tuple(aligned), constants, ())


def _image(data: Data, made: Artifact, order: int) -> str:
    threads = made.num_warps * made.warp_size
    return f"{{{data.name(made.binary)}, {order}, {threads}, {made.shared_bytes}, NULL}}"


def takes(interface: CInterface, variant: CVariant, binary: Binary, dtype: str) -> bool:
    """Check whether a binary has exactly the parameters and constants that the variant gives."""
    if binary.source != variant.source:
        return False
    shown = {name: type_ for name, type_, hidden in binary.parameters if not hidden}
    if set(shown) != {*interface.arrays, *interface.scalars, *variant.values}:
        return False
    for name in interface.arrays[:-1]:
        wanted = DTYPES["bool" if name in interface.masks else dtype].triton
        if shown[name] != f"*{wanted}":
            return False
    if not shown[interface.arrays[-1]].startswith("*"):
        return False
    if any(shown[name] not in C_TYPES for name in (*interface.scalars, *variant.values)):
        return False
    constants = binary.constants
    return all(name in constants and constants[name] == v for name, v in variant.fixed.items())


def table(binary: Binary) -> Iterator[str]:
    name = binary.name
    yield f"static struct xt_image {name}_images[] = {{{', '.join(binary.images)}}};"
    yield (
        f"static struct xt_binary {name} = "
        f'{{"{binary.entry}", {name}_images, {len(binary.images)}}};'
    )
