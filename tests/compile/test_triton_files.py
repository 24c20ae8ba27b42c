"""The folder that Triton writes its stages to: of one compilation, in memory, gone afterwards."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("triton", reason="Triton is not installed, and it is what compiles")
pytest.importorskip("llvmlite", reason="llvmlite is not installed, and it writes SPIR-V")
sys.path.insert(0, str(Path(__file__).parent))
import triton
from spirv_kernels import CASES
from spirv_run import compiled

from xtarget.targets import _triton_files


def test_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def spied(self: object, data: object, filename: str, binary: bool = True) -> str:
        seen.append(put(self, data, filename, binary))
        return seen[-1]

    put = _triton_files.manager().put
    monkeypatch.setattr(_triton_files.manager(), "put", spied)
    monkeypatch.setattr(_triton_files, "_MEMORY", str(tmp_path))
    compiled(CASES["add_fp32"])
    assert len(seen) > 4
    assert all(Path(path).is_relative_to(tmp_path) for path in seen)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("why", ["absent", "full"])
def test_where_memory_has_no_room(
    why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why == "absent":
        monkeypatch.setattr(_triton_files, "_MEMORY", str(tmp_path / "none"))
    else:
        monkeypatch.setattr(_triton_files, "_MEMORY", str(tmp_path))
        monkeypatch.setattr(_triton_files, "_ENOUGH", 1 << 62)
    with _triton_files.folder() as name:
        assert Path(name).is_dir()
        assert not Path(name).is_relative_to(tmp_path)


def test_dumps_that_the_user_asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton.knobs.compilation, "dump_ir", True)
    monkeypatch.setattr(triton.knobs.cache, "dump_dir", str(tmp_path))
    compiled(CASES["add_fp32"])
    names = {path.suffix for path in tmp_path.rglob("add_masked.*")}
    assert {".ttir", ".ttgir", ".llir", ".spirv"} <= names


def test_triton_does_not_hash_all_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> str:
        raise AssertionError("it reads and hashes libtriton")

    monkeypatch.setattr(triton.runtime.cache, "triton_key", refused)
    compiled(CASES["add_fp32"])


def test_keys_of_others_stay_tritons() -> None:
    """Of the same thread afterwards, and of others meanwhile."""
    from triton.compiler import compiler

    made = SimpleNamespace(hash=lambda: "some kernel")
    expected = triton.runtime.cache.get_cache_key(made, made, made, env_vars={})

    def key() -> str:
        return compiler.get_cache_key(made, made, made, env_vars={})

    with ThreadPoolExecutor(1) as other, _triton_files.no_key():
        assert key() != expected
        assert other.submit(key).result() == expected
    assert key() == expected
