"""Child processes find what their parent finds, and run nothing of the caller's folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from processes import run_python

from xtarget import CompileError, NoDeviceError, Target
from xtarget._children import limits
from xtarget._children import start as children
from xtarget._compile import workers
from xtarget._system import tools
from xtarget._values.types import CompileRequest, KernelSource

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
#: What children import, and what Python itself does when it starts.
NAMES = (
    *("json", "typing", "dataclasses", "signal", "runpy", "enum", "logging", "tempfile"),
    *("numpy", "ml_dtypes", "triton", "llvmlite", "pyopencl", "hip", "cuda", "dpctl", "tinygrad"),
    *("sitecustomize", "usercustomize"),
)


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder whose files have the names of modules, and leave a mark when they run."""
    folder = tmp_path / "here"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(
            f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r} + ' ')\nraise RuntimeError\n"
        )
    return folder


def python(code: str, cwd: Path, *flags: str, path: str = "", **more: str) -> str:
    done = subprocess.run(
        [sys.executable, *flags, "-c", code],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": path or str(SOURCE), **more},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


PROBE = "import xtarget; print(*(i.name for i in xtarget.devices()), 'end')"


def test_the_callers_folder_is_not_a_childs(foreign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(foreign)
    other = str(foreign.parent)
    monkeypatch.setattr(sys, "path", ["", str(foreign), other, *sys.path])
    for named in ("", os.pathsep, f"{SOURCE}{os.pathsep}"):
        monkeypatch.setenv("PYTHONPATH", named)
        path = children.search_path()
        assert str(foreign) not in path
        assert "" not in path
        assert other in path
        assert str(SOURCE) in path
    monkeypatch.setenv("PYTHONPATH", f"{other}{os.pathsep}{foreign}")  # on purpose
    assert str(foreign) in children.search_path()


def test_the_programs_folder_is_not_a_childs(foreign: Path) -> None:
    script = foreign / "program.py"
    script.write_text(
        "from xtarget._children import start as children; print(*children.search_path(), sep='\\n')"
    )
    for name in NAMES:
        (foreign / f"{name}.py").unlink()
    done = run_python(str(script), path=SOURCE, check=True)
    assert str(foreign) not in done.stdout.splitlines()
    assert str(SOURCE) in done.stdout.splitlines()


def test_the_standard_library_comes_first() -> None:
    path = children.search_path()
    home = os.path.dirname(os.__file__)
    assert path.index(home) <= 1
    assert [p for p in path if "-packages" in p and path.index(p) < path.index(home)] == []


def test_devices_are_found_in_a_folder_of_foreign_modules(foreign: Path) -> None:
    said = python(PROBE, foreign, "-P", XTARGET_PROBE_SECONDS="30")
    assert said.endswith("end\n")
    assert not (foreign.parent / "ran").exists()


def test_a_package_named_typing_beside_ours_breaks_no_child(tmp_path: Path) -> None:
    """A module that `pip install typing` leaves in site-packages, where xtarget lies too."""
    site = tmp_path / "site-packages"
    site.mkdir()
    (site / "xtarget").symlink_to(SOURCE / "xtarget")
    for name in ("typing", "json", "enum"):
        (site / f"{name}.py").write_text("raise RuntimeError('the wrong one')")
    code = f"""
import sys
sys.path = [p for p in sys.path if {str(SOURCE)!r} != p] + [{str(site)!r}]
import xtarget
assert xtarget.__file__.startswith({str(site)!r})
from xtarget._children import start as _children
import subprocess
process = _children.start('xtarget._values.errors', stderr=subprocess.PIPE)
print(process.communicate()[1].decode().count('wrong'), process.returncode)
{PROBE}
"""
    said = python(code, tmp_path, "-P", path=os.pathsep)
    assert said.startswith("0 0\n")
    assert "wrong" not in said


def test_a_program_beside_its_packages(tmp_path: Path) -> None:
    """`pip install --target app`: the program's folder is where xtarget is installed."""
    app = tmp_path / "app"
    app.mkdir()
    (app / "xtarget").symlink_to(SOURCE / "xtarget")
    (app / "helper.py").write_text("")
    (app / "main.py").write_text(
        "import xtarget, subprocess\nfrom xtarget._children import start as _children\n"
        "process = _children.start('helper', stderr=subprocess.PIPE)\n"
        "print(process.communicate()[1].decode(), process.returncode, xtarget.__file__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "main.py"],
        cwd=app,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": ""},
    )
    assert done.stdout.startswith(f" 0 {app}"), done.stdout + done.stderr


@pytest.mark.parametrize("flags", [(), ("-I",), ("-s",), ("-E",)], ids=" ".join)
def test_children_of_every_kind_of_interpreter(flags: tuple[str, ...], tmp_path: Path) -> None:
    code = f"import sys; sys.path.append({str(SOURCE)!r})\n{PROBE}"
    assert python(code, tmp_path, *flags).endswith("end\n")


def test_xtarget_in_a_zip_file(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for file in (SOURCE / "xtarget").rglob("*.py"):
            archive.write(file, file.relative_to(SOURCE))
    code = (
        f"import sys; sys.path = [p for p in sys.path if p != {str(SOURCE)!r}]\n"
        "import xtarget; assert 'all.zip' in xtarget.__file__\n" + PROBE
    )
    said = python(code, tmp_path, "-P", path=str(tmp_path / "all.zip"))
    assert said.endswith("end\n")


def test_what_the_user_told_his_own_interpreter_is_not_told_a_child(tmp_path: Path) -> None:
    """With PYTHONINSPECT a child would ask for commands, with warnings as errors it would end."""
    code = "import warnings; warnings.simplefilter('ignore')\n" + PROBE
    said = python(code, tmp_path, "-P", PYTHONWARNINGS="error", PYTHONINSPECT="")
    assert said.endswith("end\n")
    assert "PYTHONINSPECT" not in children.environment()


def test_a_child_sees_the_ends_of_its_own_children(tmp_path: Path) -> None:
    """`trap '' CHLD` in a shell: Python and all that it starts would lose their exit codes."""
    (tmp_path / "reaper.py").write_text(
        "import os\nchild = os.fork()\nif not child: os._exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    code = (
        f"import sys; sys.path.append({str(tmp_path)!r})\n"
        "from xtarget._children import start as _children\n"
        "assert _children.ignores_ends()\n"
        "print(_children.start('reaper').communicate()[0].decode())"
    )
    done = subprocess.run(
        ["bash", "-c", "trap '' CHLD; exec \"$@\"", "bash", sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    assert done.stdout.strip() == "7", done.stderr


def test_tools_of_the_current_folder_are_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "spirv-dis"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    for path in ("", ".", f"{os.pathsep}/nowhere"):
        monkeypatch.setenv("PATH", path)
        assert tools.find_tool("spirv-dis") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tools.find_tool("spirv-dis") == shutil.which("spirv-dis")


WORK = "import time\nwhile time.process_time() < 1: pass\n"


@pytest.mark.parametrize("ended", [True, False])
def test_the_time_of_a_child_is_also_that_of_its_children(ended: bool) -> None:
    """LLVM's process is a child of the one that compiles, in a session of its own."""
    code = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {WORK + ('' if ended else 'input()')!r}],"
        " start_new_session=True, stdin=subprocess.PIPE)\n"
        + ("child.wait()\n" if ended else "")
        + "print(flush=True)\ninput()\nchild.kill()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if not Path(f"/proc/{process.pid}/task/{process.pid}/children").exists():
            process.kill()
            pytest.skip("this system's /proc does not tell a process's children")
        patience = limits.Patience(3600.0, process.pid)
        process.stdout.readline()
        limit = time.monotonic() + 300
        while patience.busy < 0.9 and time.monotonic() < limit:
            assert not patience.over()
            time.sleep(0.05)
        process.stdin.write(b"\n")
    assert patience.busy >= 0.9


def test_a_build_whose_children_cannot_be_started_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waited for an answer without end."""

    def start(*_: object, **__: object) -> None:
        raise children.NoChildError("The child process cannot be started.")

    monkeypatch.setattr(children, "start", start)
    source = KernelSource("add", "0" * 64, "/somewhere/add.py", lambda: None)
    job = workers.Job(
        Target("nvidia", "sm_90"), "", "", CompileRequest(source=source, signature=())
    )
    ((_, result),) = workers.compile_all([job], 1, 1.0)
    assert isinstance(result, CompileError)
    assert "add for nvidia:sm_90: The child process cannot be started." in str(result)
    assert workers.sources_of([("", "a:b")], 1.0) == {}


@pytest.mark.parametrize("there", [True, False])
def test_a_python_that_cannot_be_executed_is_told(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    if there:
        python.touch(mode=0o644)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(children.NoChildError, match=f"able to execute {python}"):
        children.start("xtarget._devices.probe_child", "cpu")


def test_a_device_that_is_not_there_is_no_matter_of_memory() -> None:
    little = 1 << 20
    assert "out of memory" in limits.memory_hint(little, RuntimeError("failed"))
    assert limits.memory_hint(little, NoDeviceError("not here")) == ""
