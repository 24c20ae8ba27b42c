"""How vendors are found: built in, by two groups of entry points, or beside the package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SRC = Path(__file__).resolve().parents[2] / "src"
#: A vendor of another package whose devices have words as names.
_DRIVER = """
class Driver:
    vendor = "other"

    def names(self):
        return ("small", "large")


def create_driver():
    return Driver()
"""


def _answers(code: str, *folders: Path) -> Any:
    """The JSON that a process without any installed package prints."""
    path = os.pathsep.join(map(str, (SRC, *folders)))
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import json, sys\n{code}"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _package(folder: Path, group: str, name: str, module: str, text: str) -> Path:
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}\n")
    (folder / f"{module}.py").write_text(text)
    return folder


def _registry(expression: str, *folders: Path) -> Any:
    """The value of an expression with `registry`, in a process without any installed package."""
    code = f"from xtarget._devices import registry\nprint(json.dumps({expression}))"
    return _answers(code, *folders)


_NAMES = "[registry.vendors(), registry.named_only()]"


def test_a_checkout_without_metadata_has_the_emulator() -> None:
    assert _registry(_NAMES) == [["nvidia", "amd", "intel", "cpu"], ["emu"]]
    found = _registry(
        "[registry.find_device('emu:gfx942'), type(registry.driver('emu')).__module__]"
    )
    assert found == ["emu:gfx942", "xtarget_emulator.driver"]


def test_a_vendor_of_another_package_that_has_to_be_named(tmp_path: Path) -> None:
    other = _package(tmp_path, "xtarget.targets.named", "other", "other_emulator", _DRIVER)
    assert _registry(_NAMES, other) == [["nvidia", "amd", "intel", "cpu"], ["emu", "other"]]
    found = _registry("registry.find_device('other:large')", other)
    assert found == "other:large"


def test_metadata_decides_which_package_a_name_is(tmp_path: Path) -> None:
    """An entry point of the name comes before the package beside ours."""
    other = _package(tmp_path, "xtarget.targets.named", "emu", "other_emulator", _DRIVER)
    found = _registry("type(registry.driver('emu')).__module__", other)
    assert found == "other_emulator"


def test_a_damaged_package_is_an_absent_device(tmp_path: Path) -> None:
    other = _package(tmp_path, "xtarget.targets.named", "other", "other_emulator", "raise OSError")
    found = _answers(
        "import xtarget\n"
        "from xtarget._devices import registry\n"
        "try: registry.find_device('other:large')\n"
        "except xtarget.NoDeviceError as error: print(json.dumps(str(error)))",
        other,
    )
    assert found == "other has no devices: its package cannot be used: OSError: "


def test_built_in_vendors_do_not_need_metadata() -> None:
    """Reading the metadata of all installed packages costs 15 ms."""
    asked = _answers(
        "import importlib.metadata\n"
        "asked = []\n"
        "importlib.metadata.entry_points = lambda **group: asked.append(group) or ()\n"
        "from xtarget._devices import registry\n"
        "registry.driver('nvidia'), registry.compiler('cpu')\n"
        "registry.find_device('cuda:1'), registry.find_device('cpu')\n"
        "print(json.dumps(asked))"
    )
    assert asked == []
