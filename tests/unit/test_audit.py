"""Hits that are compiled again and compared."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from command_line import here

from xtarget import Target
from xtarget._compile import audit, functions
from xtarget._devices import registry
from xtarget._kernels import libraries
from xtarget._values.types import Artifact, CompileRequest, DtypeConstant, KernelSource, Resources

TARGET = Target("nvidia", "sm_90")


class Compiler:
    """Gives what it is told to."""

    fingerprint = "made up"

    def __init__(self) -> None:
        self.binary, self.compiled, self.steady = b"one", 0, True

    def archs(self) -> tuple[str, ...]:
        return ("sm_90",)

    def compile(
        self, request: CompileRequest, target: Target, *, keep_stages: bool = False
    ) -> Artifact:
        self.compiled += 1
        number = b"" if self.steady else str(self.compiled).encode()
        return Artifact(
            target=target,
            format="cubin",
            entry="k",
            binary=self.binary + number,
            num_warps=4,
            warp_size=32,
            shared_bytes=0,
            parameters=(),
            resources=Resources(),
        )


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compiler:
    made = Compiler()
    monkeypatch.setattr(registry, "compiler", lambda vendor: made)
    monkeypatch.setenv("XTARGET_CACHE_DIR", str(tmp_path / "cache"))
    return made


def request_of() -> CompileRequest:
    source = KernelSource("k", "ab" * 32, "/k.py", lambda: None)
    return CompileRequest(source, (("x", "*fp32"), ("T", "constexpr")), (("T", 1),))


def test_a_sample_of_hits_is_compiled_again(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        functions.artifact(request_of(), TARGET)
    assert compiler.compiled == 1
    monkeypatch.setenv("XTARGET_CACHE_AUDIT", "1")
    assert functions.artifact(request_of(), TARGET).binary == b"one"
    assert compiler.compiled == 2
    monkeypatch.setenv("XTARGET_CACHE_AUDIT", "0.25")
    monkeypatch.setattr(audit.random, "random", lambda: 0.3)
    functions.artifact(request_of(), TARGET)
    assert compiler.compiled == 2


def test_a_difference_is_said_set_aside_and_not_used(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    functions.artifact(request_of(), TARGET)
    compiler.binary = b"other"  # something that is not in the key
    assert functions.artifact(request_of(), TARGET).binary == b"one"
    monkeypatch.setenv("XTARGET_CACHE_AUDIT", "1")
    with caplog.at_level(logging.WARNING):
        assert functions.artifact(request_of(), TARGET).binary == b"other"
    assert "another k for nvidia:sm_90 than the compiler: its bytes (3 and 5) differ" in caplog.text
    assert "The key lacks something" in caplog.text
    monkeypatch.delenv("XTARGET_CACHE_AUDIT")
    assert functions.artifact(request_of(), TARGET).binary == b"other"  # compiled anew


def test_a_compiler_that_is_not_steady_is_told_apart(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    compiler.steady = False
    functions.artifact(request_of(), TARGET)
    monkeypatch.setenv("XTARGET_CACHE_AUDIT", "1")
    with caplog.at_level(logging.WARNING):
        functions.artifact(request_of(), TARGET)
    assert "does not give the same twice" in caplog.text


def test_verify_recompiles_entries_of_libraries(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = request_of().source
    monkeypatch.setattr(libraries, "sources_named", lambda name: [source] if name == "k" else [])
    functions.artifact(request_of(), TARGET)
    strange = KernelSource("strange", "cd" * 32, "/k.py", lambda: None)
    functions.artifact(CompileRequest(strange, (("x", "*fp32"),)), TARGET)

    def verified() -> tuple[int, dict[str, Any]]:
        code, out, _ = here(capsys, "cache", "verify", "--recompile", "9", "--json")
        return code, {shown["kernel"]: shown for shown in json.loads(out)["recompiled"]}

    code, shown = verified()
    assert code == 0
    assert shown["k"]["fault"] is shown["k"]["skipped"] is None
    assert "no library" in shown["strange"]["skipped"]
    compiler.binary = b"other"
    code, shown = verified()
    assert code == 1
    assert "The key lacks something" in shown["k"]["fault"]
    assert "k" not in verified()[1]  # it was set aside


def test_what_a_key_says_of_a_request_can_be_read_back() -> None:
    request = CompileRequest(
        request_of().source,
        (("x", ("*fp32", "i32")), ("T", "constexpr")),
        (("T", DtypeConstant("float32")), ("N", (1, (2.5, None))), ("S", "a'b"), ("Z", -0.0)),
        options=(("maxnreg", 64),),
    )
    for value in (request.signature, request.constants, request.options):
        assert audit._value(repr(value)) == value
