"""Loading: what is refused, and with which words."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from elf_writer import make_elf

from xtarget import LoadError, OutOfResourcesError, XTargetError
from xtarget._values.types import LaunchConfig, Target

#: Vendors whose run time compiles SPIR-V at load.
SPIRV_ONLY = pytest.mark.only_vendor("cpu", "intel")


def _load(device: Any, artifact: Any) -> Any:
    return device.load(artifact).function()


def _prepare(device: Any, artifact: Any) -> Any:
    args = [0] * len(artifact.parameters)
    return _load(device, artifact).prepare(LaunchConfig((1, 1, 1)), args)


def test_artifact_tells_what_it_is(vendor: Any) -> None:
    artifact = vendor.vector_add()
    assert artifact.entry == "vector_add"
    assert artifact.target == vendor.device.info.target
    assert artifact.block == (artifact.num_warps * artifact.warp_size, 1, 1)
    names = [p.name for p in artifact.parameters if p.hidden is None]
    assert names == ["a", "b", "out", "n"]


def test_function_knows_its_artifact(vendor: Any) -> None:
    artifact = vendor.vector_add()
    module = vendor.device.load(artifact)
    assert module.function().name == "vector_add"
    assert module.function("vector_add").artifact == artifact


def test_missing_entry_lists_those_there_are(vendor: Any) -> None:
    wrong = replace(vendor.vector_add(), entry="no_such_entry")
    with pytest.raises(LoadError, match=r"(?s)no_such_entry.*vector_add"):
        _load(vendor.device, wrong)
    module = vendor.device.load(vendor.vector_add())
    with pytest.raises(LoadError, match=r"(?s)no_such_entry.*vector_add"):
        module.function("no_such_entry")


def test_other_format_is_refused(vendor: Any) -> None:
    foreign = replace(vendor.vector_add(), format="other", target=Target("other", "arch1"))
    with pytest.raises(LoadError, match="vector_add"):
        _load(vendor.device, foreign)


@pytest.mark.parametrize(
    "damage",
    [
        lambda binary: b"",
        lambda binary: bytes(len(binary)),
        lambda binary: binary[: len(binary) // 2],
        lambda binary: binary[:-8],
        lambda binary: binary[:20],
        lambda binary: b"not a binary at all, but quite some text" * 8,
        lambda binary: bytes(20) + binary[20:],
    ],
    ids=["empty", "zeros", "half", "end cut off", "header only", "text", "header zeroed"],
)
def test_damaged_binary_is_refused(vendor: Any, damage: Any) -> None:
    artifact = vendor.vector_add()
    with pytest.raises(LoadError, match="vector_add"):
        _load(vendor.device, replace(artifact, binary=damage(artifact.binary)))


def _changed(binary: bytes, opcode: int, word: int, value: int) -> bytes:
    """SPIR-V with one word of the first instruction of a kind replaced."""
    words = array("I", binary)
    at = 5
    while words[at] & 0xFFFF != opcode:
        at += words[at] >> 16
    words[at + word] = value
    return words.tobytes()


@SPIRV_ONLY
@pytest.mark.parametrize(
    "change",
    [
        (61, 3, 0xFFFF),  # OpLoad from an id that is not defined
        (249, 1, 0xFFFF),  # OpBranch to one
        (22, 2, 31),  # OpTypeFloat of 31 bits
    ],
    ids=["load from nowhere", "branch to nowhere", "float of 31 bits"],
)
def test_module_that_ends_the_run_times_compiler(
    vendor: Any, change: tuple[int, int, int], memory: Any, stream: Any, hidden: Any
) -> None:
    """Intel's CPU compiler exits or crashes on these; the process that asked for it does not.

    PoCL's refuses them.
    """
    artifact = vendor.vector_add()
    damaged = replace(artifact, binary=_changed(artifact.binary, *change))
    says = r"(?s)vector_add cannot be loaded.*(compiler (died|ended)|BUILD_PROGRAM_FAILURE.*log:)"
    with pytest.raises(LoadError, match=says):
        _load(vendor.device, damaged)
    function = _load(vendor.device, artifact)
    out = memory.empty(10)
    args = [out.address, out.address, out.address, 0, *hidden(function)]
    function.launch(LaunchConfig((1, 1, 1)), args, stream)
    stream.synchronize()


@pytest.mark.only_vendor("intel")
def test_zebin_is_loaded_by_the_spirv_in_it(
    vendor: Any, memory: Any, stream: Any, hidden: Any
) -> None:
    """With the options that it was built with."""
    artifact = vendor.vector_add()
    section = [(".spv", 0xFF000009, artifact.binary)]
    options = [(".misc.buildOptions", 0xFF000014, b"-cl-mad-enable\0")]
    native = replace(artifact, target=Target("intel", "pvc"), format="zebin")
    function = _load(vendor.device, replace(native, binary=make_elf(section + options, 205)))
    a, out = memory.put(np.ones(10, np.float32)), memory.empty(10)
    args = [a.address, a.address, out.address, 10, *hidden(function)]
    function.launch(LaunchConfig((1, 1, 1)), args, stream)
    assert (memory.get(out) == 2).all()
    wrong = [(".misc.buildOptions", 0xFF000014, b"-no-such-option\0")]
    with pytest.raises(LoadError, match="vector_add cannot be loaded on intel:0"):
        _load(vendor.device, replace(native, binary=make_elf(section + wrong, 205)))
    with pytest.raises(
        LoadError, match=r"vector_add cannot be loaded on intel:0: .*no SPIR-V in it"
    ):
        _load(vendor.device, replace(native, binary=make_elf(options, 205)))


@SPIRV_ONLY
def test_newer_format_is_refused(vendor: Any) -> None:
    artifact = vendor.vector_add()
    words = array("I", artifact.binary)
    words[1] = 0x00010900
    with pytest.raises(
        LoadError, match=r"vector_add .*SPIR-V 1\.9, the run time takes up to 1\.\d"
    ):
        _load(vendor.device, replace(artifact, binary=words.tobytes()))


@SPIRV_ONLY
@pytest.mark.parametrize("change", ["fewer", "more", "other kinds"])
def test_other_parameters_are_refused(vendor: Any, change: str) -> None:
    artifact = vendor.vector_add()
    first, *others = artifact.parameters
    changed = {
        "fewer": tuple(others),
        "more": (first, first, *others),
        "other kinds": (replace(first, type="fp32"), *others),
    }[change]
    with pytest.raises(LoadError, match=r"vector_add .*the artifact lists the parameters"):
        _load(vendor.device, replace(artifact, parameters=changed))


@pytest.mark.only_vendor("cpu", "intel", "nvidia", "amd")
def test_wrong_number_of_values(vendor: Any) -> None:
    function = _load(vendor.device, vendor.vector_add())
    with pytest.raises(XTargetError, match=r"takes \d values \(a, b, out, n.*got 2"):
        function.prepare(LaunchConfig((1, 1, 1)), [0, 0])


def test_device_works_after_refusals(vendor: Any, memory: Any, stream: Any, hidden: Any) -> None:
    artifact = vendor.vector_add()
    with pytest.raises(LoadError):
        _load(vendor.device, replace(artifact, binary=artifact.binary[:100]))
    function = _load(vendor.device, artifact)
    a = memory.put(np.ones(10, np.float32))
    out = memory.empty(10)
    args = [a.address, a.address, out.address, 10, *hidden(function)]
    function.launch(LaunchConfig((1, 1, 1)), args, stream)
    assert (memory.get(out) == 2).all()


def test_block_too_large_names_both_numbers(vendor: Any) -> None:
    limit = vendor.device.info.max_threads_per_block
    artifact = vendor.vector_add()
    num_warps = 2 * limit // artifact.warp_size
    with pytest.raises(OutOfResourcesError, match=rf"(?s){2 * limit}.*\b\d+.*num_warps"):
        _prepare(vendor.device, replace(artifact, num_warps=num_warps))


def test_too_much_shared_memory_names_both_numbers(vendor: Any) -> None:
    limit = vendor.device.info.max_shared_bytes
    artifact = replace(vendor.vector_add(), shared_bytes=4 * limit)
    with pytest.raises(OutOfResourcesError, match=rf"(?s){4 * limit}.*{limit}.*BLOCK"):
        _prepare(vendor.device, artifact)


def test_native_code_loads_again(vendor: Any, memory: Any, stream: Any, hidden: Any) -> None:
    """And one that is damaged, or of another kernel, is not used."""
    device, artifact = vendor.device, vendor.vector_add()
    native = device.load(artifact).native()
    assert (native is None) == (device.native_key is None)
    other = device.load(
        vendor.artifact("scale_shift", "x:*fp32 factor:fp32 shift:fp32 n:i32", BLOCK=1024)
    ).native()
    a = memory.put(np.ones(10, np.float32))
    choices = [None]
    if native is not None:
        choices += [native, native[:-1], native[: len(native) // 2], bytes(len(native)), b"", other]
    for choice in choices:
        function = device.load(artifact, choice).function()
        out = memory.empty(10)
        args = [a.address, a.address, out.address, 10, *hidden(function)]
        function.launch(LaunchConfig((1, 1, 1)), args, stream)
        assert (memory.get(out) == 2).all()


def test_many_modules_at_once(vendor: Any) -> None:
    modules = [vendor.device.load(vendor.vector_add()) for _ in range(20)]
    assert len({id(module) for module in modules}) == 20
    for module in modules:
        assert module.function().name == "vector_add"
        module.close()
    for module in modules:
        with pytest.raises(XTargetError, match="closed"):
            module.function()


@pytest.mark.only_vendor("intel")
def test_machine_code_that_was_kept_needs_no_compiler(
    vendor: Any, memory: Any, stream: Any, hidden: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """dpctl builds SPIR-V only; its programs are made of a driver's module of machine code."""
    from xtarget.targets.intel import program

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("it was built again")

    artifact = vendor.vector_add()
    native = vendor.device.load(artifact).native()
    assert len(native) > 2 * len(program.proof_of(artifact.binary, ""))
    monkeypatch.setattr(program, "build_kernel", refuse)
    monkeypatch.setattr(program._jit, "build", refuse)
    module = vendor.device.load(artifact, native)
    a, out = memory.put(np.ones(10, np.float32)), memory.empty(10)
    function = module.function()
    args = [a.address, a.address, out.address, 10, *hidden(function)]
    function.launch(LaunchConfig((1, 1, 1)), args, stream)
    assert (memory.get(out) == 2).all()
    assert module.native() == native
