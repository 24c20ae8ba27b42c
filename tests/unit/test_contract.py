"""Shared code uses only the contract's members of a vendor's objects: none is looked up by a name
that no protocol has, and every optional one has its reason in the guide."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Protocol

import pytest

import xtarget
from xtarget import _arrays
from xtarget.targets import base
from xtarget.targets import optional as optional_part

PACKAGE = Path(xtarget.__file__).parent
GUIDE = (PACKAGE / "targets" / "README.md").read_text(encoding="utf-8")
#: Rooms that use drivers, devices, streams and arrays without knowing whose they are.
ROOMS = ("_launch", "_devices", "_arrays", "_compile", "_bundle", "_cache", "_triton_backend")

#: Protocols that every vendor has all members of; the package's are told in the guide's rules.
WHOLE = {"Compiler", "Route", "Driver", "Device", "Module", "Function", "Stream", "Event"}
WHOLE |= {"Buffer", "Graph", "PinnedBlock"}

#: Names that are looked up on objects that are not a vendor's, by file: a library's, the user's,
#: Python's. Names of the form `__x__` are Python's protocols, and need no entry.
OTHERS = {
    "_launch/run.py": {"dtype"},
    "_launch/arguments.py": {"dtype"},
    "_launch/checked_indices.py": {"shape"},  # of an array, not of a number
    "_launch/known.py": {"code"},  # of a function that starts natively
    "_launch/objects.py": {"arg_names"},  # of a Triton function
    "_launch/observe.py": {"recorder"},  # of a thread's own storage
    "_launch/records.py": {"quiet"},  # the same
    "_launch/graphs.py": {"capture"},  # the same
    "_launch/used_classes.py": {"dtype", "strerror"},
    "_compile/apart.py": {"apart", "asked", "executor"},  # of a thread's own storage
    "_launch/triton_hooks.py": {  # of Triton's module of settings
        *("calls", "launch_enter_hook", "launch_exit_hook", "launch_metadata", "numel", "runtime"),
    },
    "_launch/trace.py": {"raw"},  # of an opened object: None once it is closed
    "_devices/streams.py": {"device", "index"},  # torch's streams know their device
    "_arrays/torch.py": {
        *("_cuda_getCurrentRawStream", "_functorch", "_get_tracing_state", "_increment_version"),
        *("_len_torch_dispatch_stack", "_TorchDispatchModeKey", "xpu"),
    },
    "_arrays/__init__.py": {"item"},
    "_arrays/dtypes.py": {"dtype"},
    "_arrays/native.py": {  # torch's own, which not all versions have
        *("_increment_version", "_get_tracing_state", "_len_torch_dispatch_stack"),
        *("get_eval_frame_callback", "_c_contiguous"),
    },
    "_triton_backend/descriptors.py": {"_adopted"},  # a slot that is not always set
    "_launch/trials.py": {"T", "clone", "copy", "detach"},  # of arrays of any library
    "_arrays/dlpack.py": {"from_dlpack"},
    "_arrays/usm.py": {"sycl_queue"},
    "_compile/imported.py": {"starting_line_number", "fn", "co_filename"},
    "_bundle/format.py": {"strerror"},
    "_triton_backend/devices.py": {"xpu"},
    "_triton_backend/limited.py": {"until", "spent"},
    "_triton_backend/constants.py": {"_fields", "cache_key"},
    "_triton_backend/arguments.py": {"_fields", "data_ptr", "is_cpu", "takes_arrays"},
    "_triton_backend/tuning.py": {"get_entry_func_name"},
    "_triton_backend/inductor.py": {"cpu_backend"},
}


def protocols(module: object) -> dict[str, set[str]]:
    """The members of each protocol that a module defines."""
    return {
        name: {member for member in vars(kind) if not member.startswith("_")}
        for name, kind in vars(module).items()
        if inspect.isclass(kind) and Protocol in kind.__bases__ and kind is not Protocol
    }


def members(*modules: object) -> set[str]:
    """The members of all protocols of these modules."""
    return set().union(*(found for module in modules for found in protocols(module).values()))


def looked_up(path: Path) -> list[tuple[int, str]]:
    """(line, name) of each `getattr` and `hasattr` with a name that is written out."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("getattr", "hasattr")
            and isinstance(node.args[1], ast.Constant)
        ):
            found.append((node.lineno, node.args[1].value))
    return found


def test_no_member_is_hidden_from_the_contract() -> None:
    known = members(base, optional_part, _arrays)
    hidden = [
        f"{path.relative_to(PACKAGE)}, line {line}: {name}"
        for room in ROOMS
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for line, name in looked_up(path)
        if name not in known | OTHERS.get(str(path.relative_to(PACKAGE)), set())
        and not re.fullmatch("__.*__", name)
    ]
    assert not hidden, "give these a protocol in targets/optional.py or _arrays, or list them here"


@pytest.mark.parametrize("file", sorted(OTHERS))
def test_every_name_of_others_is_looked_up_and_no_member(file: str) -> None:
    known = members(base, optional_part, _arrays)
    names = {name for _, name in looked_up(PACKAGE / file)}
    assert OTHERS[file] <= names - known


def optional() -> dict[str, set[str]]:
    found = protocols(optional_part)
    return {name: found[name] for name in found if name not in WHOLE | {"VendorPackage"}}


@pytest.mark.parametrize("name", sorted(optional()))
def test_an_optional_member_has_its_reason_in_the_guide(name: str) -> None:
    (member,) = optional()[name]
    row = re.search(rf"^\| `{name}` \| `\w+\.{member}` \| (.+) \|$", GUIDE, re.MULTILINE)
    assert row is not None, f"no row for {name} with {member} in targets/README.md"
    assert len(row[1]) > 20


def test_the_guide_has_no_other_optional_members() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `\w+\.\w+` \| .+ \|$", GUIDE, re.MULTILINE)
    assert sorted(rows) == sorted(optional())


def test_shared_code_asks_by_protocol_where_it_may() -> None:
    """Apart from the launch path, where a look-up by name is what it costs least."""
    members = set().union(*optional().values())
    asked = [
        f"{path.relative_to(PACKAGE)}, line {line}: {name}"
        for room in ROOMS
        if room != "_launch"
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for line, name in looked_up(path)
        if name in members
        # at each load, of all kernels that are loaded: the protocol's own check takes longer
        and (room, path.name) != ("_compile", "residency.py")
    ]
    assert not asked
