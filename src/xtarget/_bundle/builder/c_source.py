"""C functions around a bundle's binaries: `xtarget bundle emit-c`.

What is the same for every bundle is in `_c/*.c`; here is what depends on its kernels: the data, the
table of binaries, and for each kernel and dtype a function that tries binaries in order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ..._kernels import libraries
from ..._system.output import check_output, write_output
from ..._values.errors import LoadError, XTargetError
from ..._values.types import COMPUTED, DTYPES, Target
from ..._values.value_classes import value_class
from ...spec import CInterface, CVariant, KernelSpec
from ..reader import Bundle
from .c_binaries import C_TYPES, Binary, Data, binaries, table, takes

__all__ = ["Emitted", "emit_c"]

_TEMPLATES: Final = Path(__file__).parent / "c"
#: The vendor of each template in `c`: the template calls that vendor's C API by its names.
_DRIVERS: Final = {"cuda": "nvidia", "hip": "amd"}
_HEADER: Final = """\
/* {functions} kernels for {targets}, by `xtarget bundle emit-c`. Do not edit.
 *
 * Every function starts its kernel on `stream` ({stream}; NULL is the default stream) in the
 * calling thread's current context and returns at once. Arrays are device memory, C-contiguous, and
 * must not overlap the result. Returns XT_OK, or a status that xt_message explains; callable from
 * several threads and contexts at once. The first call of a kernel in a context loads its binary;
 * xt_load loads them all, which has to be done before a stream is captured.
 */
#ifndef XT_KERNELS_H
#define XT_KERNELS_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

enum {{
  XT_OK = 0,
  XT_NO_DRIVER = 1,     /* the driver's library is not there, or too old */
  XT_NO_CONTEXT = 2,    /* the thread has no current context */
  XT_NO_BINARY = 3,     /* no binary for this device */
  XT_INVALID_VALUE = 4, /* a size is negative, too large, or has no result; a pointer is NULL */
  XT_OUT_OF_MEMORY = 5, /* the host's */
  XT_DRIVER_STATUS = 1000 /* plus the driver's own status */
}};

/* What a status means: of the last failed call of this thread, if there was one. */
const char *xt_message(int status);

/* Load every binary that fits the current context's device. */
int xt_load(void);

"""


@value_class(frozen=True, slots=True)
class Emitted:
    """The generated source files.

    Attributes:
        files: the content of each file.
        left_out: kernels, or `kernel (dtype)`, of the bundle that have no function, and why.
    """

    files: tuple[tuple[Path, str], ...]
    left_out: Mapping[str, str]


def emit_c(bundle: Bundle, folder: Path, kernels: Sequence[str], driver: str) -> Emitted:
    """Write `xtarget_kernels.h` and `.c`.

    Args:
        kernels: those to write functions for; all that have a C form when empty.
        driver: `cuda` or `hip`.

    Raises:
        XTargetError: nothing of the bundle can be written; a kernel that was asked for has no C
            form, or one that none of its binaries fits. The message says why.
    """
    vendor = _DRIVERS[driver]
    targets = sorted(
        (t for t in bundle.targets if t.vendor == vendor),
        key=lambda t: -int(re.sub(r"\D", "", t.arch) or 0),
    )
    if not targets:
        has = ", ".join(map(str, bundle.targets)) or "nothing"
        raise LoadError(
            f"the bundle {bundle.path} has no binaries for {vendor}; it has {has}. Build it for "
            f"an arch of {vendor}, or choose the driver with --driver."
        )
    built = _built(bundle, targets)
    data = Data()
    functions, tables = [], []
    left_out = {} if kernels else _unknown(built)
    for spec in _specs(bundle, built, kernels):
        try:
            interface = _interface(spec)
        except XTargetError as error:
            left_out[spec.name] = str(error)
            continue
        for dtype in (dtype for dtype in spec.dtypes if dtype in built[spec.name]):
            try:
                if dtype not in COMPUTED:
                    raise XTargetError(
                        f"{spec.name} cannot be written as a C function of {dtype}, floats of 8 "
                        "bits. Build the bundle without them, or name other kernels."
                    )
                found = binaries(bundle, targets, spec, interface, dtype, data)
                functions.append(_function(spec, interface, dtype, found, 2 * len(targets)))
                tables += [line for binary in found for line in table(binary)]
            except XTargetError as error:
                left_out[f"{spec.name} ({dtype})"] = str(error)
    if left_out and (kernels or not functions):
        raise XTargetError("\n".join(left_out.values()))
    header, source = folder / "xtarget_kernels.h", folder / "xtarget_kernels.c"
    names = ", ".join(map(str, reversed(targets)))
    text = _source(functions, tables, data, names, driver)
    for path in (header, source):
        check_output(path)
    write_output(header, _header(functions, names, driver, left_out).encode())
    write_output(source, text.encode())
    files = (
        (header, f"{len(functions)} functions for {names}"),
        (source, f"{len(text)} bytes"),
    )
    return Emitted(files, left_out)


def _built(bundle: Bundle, targets: Sequence[Target]) -> dict[str, set[str]]:
    """The kernels that the bundle has for these targets, each with its dtypes."""
    found: dict[str, set[str]] = {}
    for target in targets:
        for record in bundle.file.records(target):
            for name, dtype in record["kernels"]:
                found.setdefault(name, set()).add(dtype)
    return found


def _unknown(built: Iterable[str]) -> dict[str, str]:
    """Kernels of a library that is not loaded here."""
    catalog = libraries.catalog()
    return {
        name: f"{name} is in the bundle and in no library that is loaded here, so nobody knows its "
        "C interface. Name its library in XTARGET_KERNELS."
        for name in sorted(built)
        if name not in catalog
    }


def _specs(
    bundle: Bundle, built: Mapping[str, set[str]], kernels: Sequence[str]
) -> list[KernelSpec]:
    catalog = libraries.catalog()
    for name in kernels:
        libraries.find(name)  # says which there are
        if name not in built:
            raise LoadError(
                f"the bundle {bundle.path} has no {name} for this driver; it has "
                f"{', '.join(sorted(built)) or 'nothing'}. Build it with that kernel."
            )
    return [catalog[name] for name in sorted(set(kernels) or built) if name in catalog]


def _interface(spec: KernelSpec) -> CInterface:
    if spec.c is None:
        options = f" (it has the options {', '.join(spec.options)})" if spec.options else ""
        raise XTargetError(
            f"{spec.name} cannot be written as a C function: its spec gives no C interface"
            f"{options}. Give `c` in its catalog: which arrays and sizes it takes, and the "
            "formulas of its parameters."
        )
    return spec.c


# ------------------------------------------------------------------------------------- functions


@value_class(frozen=True, slots=True)
class _Function:
    """A C function: how it is declared, its body, and which binaries it has."""

    comment: str
    prototype: str
    body: str
    binaries: tuple[str, ...]


def _function(
    spec: KernelSpec, interface: CInterface, dtype: str, found: Sequence[Binary], orders: int
) -> _Function:
    short = "bool" if dtype == "bool" else DTYPES[dtype].triton.replace("fp", "f")
    name = f"xt_{spec.name}_{short}"
    *inputs, out = interface.arrays
    if not found:
        raise XTargetError(
            f"{spec.name} cannot be written as a C function: none of the bundle's binaries for "
            f"{dtype} has the parameters that its C interface gives."
        )
    arguments = [
        "void *stream",
        *(f"const void *{array}" for array in inputs),
        f"void *{out}",
        *(f"int64_t {size}" for size in interface.sizes),
        *(f"double {scalar}" for scalar in interface.scalars),
    ]
    prototype = f"int {name}({', '.join(arguments)})"
    result = _result(found, out)
    masks = f"; {', '.join(interface.masks)}: bool" if interface.masks else ""
    comment = f"{spec.summary}. {interface.summary}. Arrays of {dtype}{masks}; {out} of {result}."
    body = [f"{prototype} {{"]
    sizes = " || ".join(f"{size} < 0" for size in interface.sizes)
    products = [" * ".join(f"(double){f}" for f in factors) for factors in interface.extents]
    body += [
        f"  if ({sizes} || !({interface.valid}))",
        f'    return xt_fail(XT_INVALID_VALUE, "{name}: a size is negative, or there is no result '
        'of so few elements");',
        f"  if ({interface.empty}) return XT_OK;",
        f"  if ({' || '.join(f'!{array}' for array in interface.arrays)})",
        f'    return xt_fail(XT_INVALID_VALUE, "{name}: an array is NULL");',
        "  double extent = 0;",
        *(f"  if ({product} > extent) extent = {product};" for product in products),
        "  if (extent > XT_I64_LIMIT)",
        f'    return xt_fail(XT_INVALID_VALUE, "{name}: the sizes are larger than any memory");',
        "  const int narrow = extent <= XT_I32_LIMIT;",
        "  unsigned long long context = 0;",
        "  int status = xt_here(&context);",
        "  if (status) return status;",
        "  (void)narrow;",
    ]
    used: list[str] = []
    body.append(f"  for (int order = 0; order < {orders}; order++) {{")
    for variant in interface.variants:
        fitting = [b for b in found if takes(interface, variant, b, dtype)]
        fitting.sort(key=lambda b: _rank(b, variant))
        used += [b.name for b in fitting]
        # first those that are quick for these sizes, then what is merely right
        for also in (True, False) if variant.prefers != "1" else (True,):
            for binary in fitting:
                body += _attempt(interface, variant, binary, also)
    body += ["  }", f'  return xt_nothing("{name}");', "}"]
    return _Function(comment, prototype, "\n".join(body), tuple(dict.fromkeys(used)))


def _result(found: Sequence[Binary], out: str) -> str:
    """The dtype of the result."""
    element = next(t for n, t, _ in found[0].parameters if n == out).removeprefix("*")
    names = [d.name for d in DTYPES.values() if d.triton == element]
    return names[0] if names else element


def _rank(binary: Binary, variant: CVariant) -> tuple[Any, ...]:
    """Tile sizes in the variant's order; then narrow indices; then what assumes most."""
    order = [
        _number(binary.constants.get(name.lstrip("-"))) * (1 if name.startswith("-") else -1)
        for name in variant.order
    ]
    wide = any(t == "i64" for _, t, hidden in binary.parameters if not hidden)
    return (*order, wide, -len(binary.aligned), binary.aligned, binary.name)


def _number(constant: object) -> int:
    """Return a constant in C syntax; 0 for a value that is not a number."""
    if not isinstance(constant, int):
        return 0
    if not -(1 << 63) < constant < 1 << 63:
        raise LoadError("a constant of the bundle has more than 64 bits. Build it again.")
    return int(constant)


def _attempt(
    interface: CInterface, variant: CVariant, binary: Binary, quick: bool
) -> Iterator[str]:
    """The lines that launch one binary if it fits."""

    def formula(text: str) -> str:
        def constant(match: re.Match[str]) -> str:
            value = binary.constants.get(match[0])
            number = isinstance(value, int) and match[0] not in interface.sizes
            return f"INT64_C({_number(value)})" if number else match[0]

        return re.sub(r"[A-Za-z_]\w*", constant, text)

    conditions = []
    parameters = [(name, type_) for name, type_, hidden in binary.parameters if not hidden]
    if any(type_ == "i32" for name, type_ in parameters if name in variant.values):
        conditions.append("narrow")
    if variant.requires != "1":
        conditions.append(f"({formula(variant.requires)})")
    if variant.prefers != "1":
        conditions.append(f"{'' if quick else '!'}({formula(variant.prefers)})")
    for name in binary.aligned:
        if name in interface.arrays:
            conditions.append(f"XT_ALIGNED({name})")
        elif variant.values[name] != "0":
            conditions.append(f"({formula(variant.values[name])}) % 16 == 0")
    yield f"  if ({' && '.join(conditions) or '1'}) {{"
    places = []
    for number, (name, type_, hidden) in enumerate(binary.parameters):
        if hidden or type_.startswith("*"):
            value = "NULL" if hidden else name
            yield f"    const void *v{number} = {value};"
        elif name in interface.scalars:
            yield f"    {C_TYPES[type_]} v{number} = ({C_TYPES[type_]}){name};"
        else:
            c_type = C_TYPES[type_]
            yield f"    {c_type} v{number} = ({c_type})({formula(variant.values[name])});"
        places.append(f"(void *)&v{number}")
    yield f"    void *values[] = {{{', '.join(places)}}};"
    grid = ", ".join(formula(text) for text in variant.grid)
    yield f"    status = xt_launch(&{binary.name}, order, context, stream, {grid}, values);"
    yield "    if (status != XT_NO_BINARY) return status;"
    yield "  }"


# ----------------------------------------------------------------------------------------- files


def _comment(text: str) -> str:
    """Text, some of it from a file, as a comment that ends where it should: not at what is in it,
    and not at a line that a backslash or a trigraph joins to another."""
    shown = "".join(c if c.isprintable() else " " for c in text).replace("\\", "/")
    shown = shown.replace("??/", "? ?").replace("*/", "* /").replace("/*", "/ *")
    return f"/* {shown.replace('*/', '* /')} */"


def _header(
    functions: Sequence[_Function], targets: str, driver: str, left_out: Mapping[str, str]
) -> str:
    stream = {"cuda": "a CUstream or cudaStream_t", "hip": "a hipStream_t"}[driver]
    parts = [_HEADER.format(functions=len(functions), targets=targets, stream=stream)]
    for function in functions:
        parts.append(f"{_comment(function.comment)}\n{function.prototype};\n\n")
    parts += [f"{_comment(f'left out: {why}')}\n" for why in left_out.values()]
    parts.append("#ifdef __cplusplus\n}\n#endif\n#endif\n")
    return "".join(parts)


def _source(
    functions: Sequence[_Function],
    tables: Sequence[str],
    data: Data,
    targets: str,
    driver: str,
) -> str:
    names = list(dict.fromkeys(name for function in functions for name in function.binaries))
    load = [
        "int xt_load(void) {",
        "  static struct xt_binary *const all[] = {",
        *(f"      &{name}," for name in names),
        "  };",
        "  unsigned long long context = 0;",
        "  int status = xt_here(&context);",
        "  for (size_t i = 0; !status && i < sizeof all / sizeof *all; i++)",
        "    status = xt_load_binary(all[i], context);",
        "  return status;",
        "}",
    ]
    return "\n\n".join(
        [
            (_TEMPLATES / "head.c").read_text(),
            f'static const char xt_targets[] = "{targets}";',
            (_TEMPLATES / f"{driver}.c").read_text(),
            (_TEMPLATES / "runtime.c").read_text(),
            "\n".join(data.lines()),
            "\n".join(dict.fromkeys(tables)),
            *(function.body for function in functions),
            "\n".join(load),
            "",
        ]
    )
