"""torch.compile on the CPU through Triton and xtarget: results, processes, caches, refusals."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from processes import run_python

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("triton", reason="Triton is not installed here")

HERE = Path(__file__).parent
PROGRAMS = HERE / "inductor_programs.py"
#: Not a compiler: what the programs are compiled by has to be Triton.
NO_COMPILER = {"CXX": "/nonexistent"}


def run(folder: Path, *arguments: str, program: Path = PROGRAMS, **variables: Any) -> Any:
    done = run_python(
        str(program),
        *arguments,
        seconds=900,
        TORCHINDUCTOR_CACHE_DIR=str(folder / "inductor"),
        TORCHINDUCTOR_COMPILE_THREADS="1",  # more of them are processes that import torch
        **{**NO_COMPILER, **variables},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])["counters"]


def test_a_program_in_this_setting_needs_no_c_compiler(tmp_path: Path, triton_on_cpu: Any) -> None:
    assert run(tmp_path, "pointwise", "--enable")["fxgraph_cache_miss"] == 1


@pytest.mark.long
def test_ten_programs_are_right_and_are_cached(tmp_path: Path, triton_on_cpu: Any) -> None:
    """The second process takes the first one's kernels from Inductor's cache."""
    assert run(tmp_path, XTARGET_INDUCTOR="1")["fxgraph_cache_miss"] >= 10
    second = run(tmp_path, XTARGET_INDUCTOR="1")
    assert second["fxgraph_cache_hit"] >= 10
    assert "fxgraph_cache_miss" not in second


#: Kernels of one name, whose results have other lengths and dtypes.
DOUBLED = """
import triton, triton.language as tl, xtarget

def layout(c):
    return ((c.x.shape[0] * {times},), "{dtype}")

@xtarget.kernel(inputs=("x",), outputs={{"o": layout}}, grid=lambda c: 1,
                constants={{"TIMES": {times}, "N": lambda c: c.x.shape[0]}})
@triton.jit
def doubled(x, o, N: tl.constexpr, TIMES: tl.constexpr):
    i = tl.arange(0, 16)
    tl.store(o + i, tl.load(x + i % N) * 2, i < N * TIMES)
"""


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param([(2, "float32")], id="length"),
        pytest.param([(2, "float32"), (1, "float64")], id="all", marks=pytest.mark.long),
    ],
)
def test_a_graph_on_the_disk_is_of_the_kernels_as_they_are(
    tmp_path: Path, triton_on_cpu: Any, changed: list[tuple[int, str]]
) -> None:
    """Its key has them: with the operator's name alone, a second process got the first one's
    length and dtype. A process looks for its graph twice, as a second one would."""
    seen = []
    for times, dtype in ((1, "float32"), *changed):
        text = DOUBLED.format(times=times, dtype=dtype)
        (tmp_path / "doubled_kernel.py").write_text(text)
        seen += run(
            tmp_path, str(tmp_path), program=HERE / "inductor_replaced.py", XTARGET_INDUCTOR="1"
        )
    of_kind = [one for one in seen if one.startswith("autograd_cache_")]
    once = ["autograd_cache_miss", "autograd_cache_saved", "autograd_cache_hit"]
    assert of_kind == once * (1 + len(changed))


def test_a_librarys_files_are_part_of_the_key(tmp_path: Path) -> None:
    """A tag of the user's stays."""
    code = f"""
import torch, xtarget, xtarget.torch
before = torch.compiler.config.cache_key_tag
torch.compiler.config.cache_key_tag = "mine"
xtarget.load_library({str(tmp_path)!r})
xtarget.torch.operators()
print(before, torch.compiler.config.cache_key_tag, sep=chr(10))
"""
    catalog = """
from xtarget.spec import KernelSpec, Plan
KERNELS = (KernelSpec("mine_same", ("x",), lambda call: Plan((call.array(0),), ())),)
"""
    tags = []
    for comment in ("# one", "# other"):
        (tmp_path / "catalog.py").write_text(catalog + comment)
        done = run_python("-c", code)
        assert done.returncode == 0, done.stderr
        tags.append(done.stdout.splitlines())
    assert tags[0][0] == tags[1][0]
    assert tags[0][1].startswith("mine xtarget:")
    assert tags[0][1] != tags[1][1]


def test_a_notebooks_kernel_that_has_no_text_shares_no_graphs() -> None:
    """Its rules read what cannot be compared, and no file has them."""
    code = """
import linecache, torch, xtarget.torch
cell = '''
import threading, triton, triton.language as tl, xtarget
lock = threading.Lock()

@xtarget.kernel(name="of_a_cell", inputs=("x",), constants={"BLOCK": 64}, grid=lambda c: (c.n,),
                outputs={"y": lambda c: ((c.n,), "float32" if lock else "float64")},
                sizes={"n": lambda c: c.x.size})
@triton.jit
def of_a_cell(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n), i < n)
'''
name = "/nowhere/ipykernel_7/42.py"
linecache.cache[name] = len(cell), None, cell.splitlines(True), name
exec(compile(cell, name, "exec"), {"__name__": "__main__"})
xtarget.torch.register("of_a_cell")
print(torch.compiler.config.cache_key_tag)
"""
    found = [run_python("-c", code) for _ in range(2)]
    assert [done.stderr for done in found] == ["", ""]
    assert len({done.stdout for done in found}) == 2


def test_threads_that_register_and_compile_have_one_tag(tmp_path: Path) -> None:
    code = """
import sys, threading, torch, triton, triton.language as tl, xtarget, xtarget.torch

@triton.jit
def copied(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n), i < n)

names = [f"copied{number}" for number in range(40)]
for name in names:
    xtarget.kernel(name=name, inputs=("x",), outputs={"y": "x"}, grid=lambda c: (c.n,),
                   sizes={"n": lambda c: c.x.size}, constants={"BLOCK": 64})(copied)
tags = []

def register(first):
    for name in names[first::4]:
        xtarget.torch.register(name)

def each(work):
    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

sys.setswitchinterval(1e-6)
each(register)
each(lambda _: tags.append(torch.compiler.config.cache_key_tag))
xtarget.torch.register(names[0])
print(*tags, torch.compiler.config.cache_key_tag, sep=chr(10))
"""
    program = tmp_path / "threads_register.py"
    program.write_text(code)
    done = run_python(str(program), TORCH_COMPILE_CACHE_KEY_TAG="mine")
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    (tag,) = {*done.stdout.splitlines()}
    assert tag.startswith("mine xtarget:")


def test_the_wheel_has_the_entry_point() -> None:
    project = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    entry = project["project"]["entry-points"]["torch.backends"]
    assert entry == {"xtarget": "xtarget_triton.inductor:autoload"}


def test_nothing_is_imported_without_the_variable() -> None:
    code = """
import sys
from xtarget_triton.inductor import autoload
autoload()
assert not [n for n in sys.modules if n.split('.')[0] in ('xtarget', 'torch', 'triton')]
"""
    for value in (None, "", "0"):
        done = run_python("-c", code, XTARGET_INDUCTOR=value)
        assert done.returncode == 0, done.stderr


def test_another_back_end_for_cpus_stays(triton_on_cpu: Any) -> None:
    code = """
import triton.backends as b, xtarget.torch, torch
b.backends["cpu"] = b.backends["nvidia"]
try:
    xtarget.torch.enable_inductor()
except xtarget.ArgumentError as error:
    assert "has a back end for CPUs already" in str(error), error
    assert torch._inductor.config.cpu_backend == "cpp"
else:
    raise SystemExit("no error")
"""
    done = run_python("-c", code, XTARGET_INDUCTOR=None)
    assert done.returncode == 0, done.stderr


def test_kernels_may_be_registered_while_the_key_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from xtarget.torch import cache_tag

    monkeypatch.setattr(torch.compiler.config, "cache_key_tag", "")
    monkeypatch.setattr(cache_tag, "_texts", {})
    kernels: Any = {"one": object(), "two": object()}

    def text(kernel: Any) -> str:
        kernels[f"further {len(kernels)}"] = kernel  # as another thread does
        return "text"

    monkeypatch.setattr(cache_tag, "_text", text)
    cache_tag.tag_caches(kernels)
    assert torch.compiler.config.cache_key_tag.startswith("xtarget:")
