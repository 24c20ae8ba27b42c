"""Rewrites of aggregates that SPIR-V cannot have: struct phis, one-element vectors, i128.

Triton makes each thread's part of a tensor a struct and carries it through loops as one value; its
loads and stores are vectors, also of one element; a 64-bit multiply-high is 128-bit arithmetic.
"""

from __future__ import annotations

import re

from .irtext import VALUE, Draft, UnsupportedError, split_list

__all__ = ["scalarize_vectors_of_one", "split_struct_phis", "use_multiply_high"]

_STRUCT_PHI = re.compile(rf"\s*({VALUE}) = phi (\{{ .*? \}}) (\[ .*)$")
_INCOMING = re.compile(r"\[ (.+?), (%[\w.$-]+) \]")
_TERMINATOR = re.compile(r"\s+(?:br|switch|ret|unreachable)\b")
_LABEL = re.compile(r"([\w.$-]+):")


def split_struct_phis(draft: Draft) -> None:
    """One phi for each field of a struct phi, and the struct put together again behind them."""
    lines = draft.lines
    if not any(" = phi { " in line for line in lines):
        return
    blocks = _terminators(lines)
    insert_before: dict[int, list[str]] = {}
    replace: dict[int, list[str]] = {}
    insert_after: dict[int, list[str]] = {}
    parts: dict[tuple[str, str, int], str] = {}
    function = -1
    for number, line in enumerate(lines):
        if line.startswith("define "):
            function = number
            parts.clear()
        match = _STRUCT_PHI.match(line)
        if not match:
            continue
        name, struct = match[1], match[2]
        types = split_list(struct[1:-1])
        columns: list[list[str]] = [[] for _ in types]
        for value, label in _INCOMING.findall(match[3]):
            constants = split_list(value[1:-1]) if value.startswith("{") else None
            for i, type_ in enumerate(types):
                if constants is not None:
                    field = constants[i][len(type_) :].strip()
                elif not value.startswith("%"):
                    field = value  # zeroinitializer, undef and poison suit every type
                elif (known := parts.get((value, label, i))) is not None:
                    field = known
                else:
                    field = parts[value, label, i] = draft.temporary()
                    insert_before.setdefault(blocks[function, label], []).append(
                        f"  {field} = extractvalue {struct} {value}, {i}"
                    )
                columns[i].append(f"[ {field}, {label} ]")
        phis = [draft.temporary() for _ in types]
        replace[number] = [
            f"  {phi} = phi {type_} {', '.join(column)}"
            for phi, type_, column in zip(phis, types, columns, strict=True)
        ]
        last_phi = number
        while " = phi " in lines[last_phi + 1]:
            last_phi += 1
        whole = "poison"
        for i, (phi, type_) in enumerate(zip(phis, types, strict=True)):
            next_whole = name if i == len(types) - 1 else draft.temporary()
            insert_after.setdefault(last_phi, []).append(
                f"  {next_whole} = insertvalue {struct} {whole}, {type_} {phi}, {i}"
            )
            whole = next_whole
    draft.lines = []
    for number, line in enumerate(lines):
        draft.lines += insert_before.get(number, [])
        draft.lines += replace.get(number, [line])
        draft.lines += insert_after.get(number, [])


def _terminators(lines: list[str]) -> dict[tuple[int, str], int]:
    """Line of the last instruction of each block, by (line of the function, label)."""
    found = {}
    function, label = -1, ""
    for number, line in enumerate(lines):
        if line.startswith("define "):
            function = number
        elif match := _LABEL.match(line):
            label = "%" + match[1]
        elif _TERMINATOR.match(line):
            found[function, label] = number
    return found


_OF_ONE = r"<1 x ([^<>]+)>"
_EXTRACT = re.compile(rf"(\s*{VALUE}) = extractelement {_OF_ONE} (\S+), i\d+ \S+$")
_INSERT = re.compile(rf"(\s*{VALUE}) = insertelement {_OF_ONE} \S+, \2 (\S+), i\d+ \S+$")
_SHUFFLE = re.compile(
    rf"(\s*)({VALUE}) = shufflevector <(\d+) x ([^<>]+)> (\S+), <\d+ x [^<>]+> (\S+), "
    r"<(\d+) x i32> (.*)$"
)


def scalarize_vectors_of_one(draft: Draft) -> None:
    """`<1 x T>` becomes `T`."""
    result = []
    for line in draft.lines:
        if "<1 x " not in line:
            result.append(line)
            continue
        if match := _EXTRACT.match(line) or _INSERT.match(line):
            # LLVM's text has no plain copy; a cast of a type to itself is folded away
            result.append(f"{match[1]} = bitcast {match[2]} {match[3]} to {match[2]}")
        elif match := _SHUFFLE.match(line):
            result += _shuffle(draft, match)
        else:
            line = re.sub(r"splat \((?:[\w ]+|ptr addrspace\(\d+\)) (\S+)\)", r"\1", line)
            line = re.sub(r"<(?!\d+ x )[\w() ]+ ([^ <>]+)>", r"\1", line)
            result.append(re.sub(_OF_ONE, r"\1", line))
    draft.lines = result


def _shuffle(draft: Draft, match: re.Match[str]) -> list[str]:
    """A shuffle from or to a vector of one element."""
    indent, name, count, type_, left, right, width, mask = match.groups()
    n, m = int(count), int(width)
    if mask.startswith("<"):
        picks = [part.split()[-1] for part in split_list(mask[1:-1])]
    else:
        picks = ["0" if mask.startswith("zeroinitializer") else "poison"] * m
    lines: list[str] = []

    def element(pick: str) -> str:
        if not pick.isdigit():
            return "poison"
        source, index = (left, int(pick)) if int(pick) < n else (right, int(pick) - n)
        if n == 1:
            return source
        value = draft.temporary()
        lines.append(f"{indent}{value} = extractelement <{n} x {type_}> {source}, i32 {index}")
        return value

    if m == 1:
        value = element(picks[0])
        return [*lines, f"{indent}{name} = bitcast {type_} {value} to {type_}"]
    whole = "poison"
    for i, pick in enumerate(picks):
        value = element(pick)
        target = name if i == m - 1 else draft.temporary()
        lines.append(
            f"{indent}{target} = insertelement <{m} x {type_}> {whole}, {type_} {value}, i32 {i}"
        )
        whole = target
    return lines


_WIDE = re.compile(r"(?<![%\w.])i128\b")  # the type, not the instruction namer's %i128
_WIDEN = re.compile(rf"\s*({VALUE}) = ([sz])ext (?:nneg )?i64 (\S+) to i128$")
_MULTIPLY = re.compile(r"\s*(%[\w.$-]+) = mul (?:n[us]w )*i128 (\S+), (\S+)$")
_HIGH = re.compile(rf"\s*({VALUE}) = [al]shr (?:exact )?i128 (\S+), 64$")
_NARROW = re.compile(rf"(\s*)({VALUE}) = trunc (?:n[us]w )*i128 (\S+) to i64$")


def _is_wide(line: str) -> bool:
    return "i128" in line and _WIDE.search(line) is not None


def use_multiply_high(draft: Draft) -> None:
    """The high half of a 64-bit product as a call; SPIR-V has no 128-bit integers."""
    if not any(map(_is_wide, draft.lines)):
        return
    wide: dict[str, tuple[str, str]] = {}
    product: dict[str, tuple[str, str]] = {}
    high: dict[str, str] = {}
    result = []
    for line in draft.lines:
        if not _is_wide(line):
            result.append(line)
        elif match := _WIDEN.match(line):
            wide[match[1]] = (match[2], match[3])
        elif match := _MULTIPLY.match(line):
            product[match[1]] = (match[2], match[3])
        elif match := _HIGH.match(line):
            high[match[1]] = match[2]
        elif match := _NARROW.match(line):
            left, right = product.get(high.get(match[3], ""), ("", ""))
            kinds = {wide.get(left, ("", ""))[0], wide.get(right, ("", ""))[0]}
            if kinds not in ({"s"}, {"z"}):
                raise UnsupportedError("128-bit integer arithmetic", "i128")
            function = "__ockl_mul_hi_i64" if kinds == {"s"} else "__ockl_mul_hi_u64"
            call = draft.call("i64", function, f"i64 {wide[left][1]}", f"i64 {wide[right][1]}")
            result.append(f"{match[1]}{match[2]} = {call}")
        else:
            raise UnsupportedError(f"128-bit integer arithmetic ({line.strip()})", "i128")
    draft.lines = result
