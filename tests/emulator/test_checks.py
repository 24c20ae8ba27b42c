"""Faults that the emulator notices: misuse of a launch, and kernels that do what they must not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from harness import ARCHS, compiled, device, put, run

import xtarget
from xtarget import KernelFault, XTargetError
from xtarget._values.types import Artifact, LaunchConfig
from xtarget_emulator.hip import EmulatedHip
from xtarget_emulator.launch import Image, Limits
from xtarget_emulator.memory import Arena

_N, _BLOCK = 512, 256
_SIGNATURE = "x:*fp32 o:*fp32 n:i32"
_X = np.arange(_N, dtype=np.float32)


def _copy(arch: str, kernel: str = "copy") -> Artifact:
    return compiled(kernel, _SIGNATURE, arch, constants=(("block", _BLOCK),))


def _direct(
    artifact: Artifact,
    *,
    grid: int = 2,
    block: int | None = None,
    x: int | None = None,
    o: int | None = None,
    n: int = _N,
    shared: int | None = None,
    kernarg: bytes | None = None,
    stream: int = 0,
    freed: bool = False,
    swapped: bool = False,
) -> Any:
    """Past the driver's own checks: HIP's calls as a careless caller would make them. Returns the
    output, or the status of the call that was refused."""
    import ctypes
    import struct

    arch = artifact.target.arch
    hip = EmulatedHip(arch, Limits(10**9, False))
    here, there = hip.hipMalloc(4 * _N)[1], hip.hipMalloc(4 * _N)[1]
    hip.hipMemcpyWithStream(here, _X.view(np.uint8).data, 4 * _N, 1, 0)
    if freed:
        hip.hipFree(here)
    if swapped:
        here, there = there, here
    values = (here if x is None else x, there if o is None else o, n, 0, 0)
    data = struct.pack("<QQi4xQQ", *values) if kernarg is None else kernarg
    storage = ctypes.create_string_buffer(data)
    size = ctypes.c_size_t(len(data))
    head = struct.pack("5Q", 1, ctypes.addressof(storage), 2, ctypes.addressof(size), 3)
    status, module = hip.hipModuleLoadData(artifact.binary)
    if status:
        return status
    function = hip.hipModuleGetFunction(module, artifact.entry.encode())[1]
    threads = artifact.block[0] if block is None else block
    lds = artifact.shared_bytes if shared is None else shared
    (status,) = hip.hipModuleLaunchKernel(
        function, grid, 1, 1, threads, 1, 1, lds, stream, None, head
    )
    if status:
        return status
    hip.hipDeviceSynchronize()
    out = np.empty(_N, np.float32)
    status = hip.hipMemcpyWithStream(out.view(np.uint8).data, there, 4 * _N, 2, 0)[0]
    return status or out


def _noticed(**misuse: Any) -> bool:
    try:
        result = _direct(_copy("gfx1100"), **misuse)
    except XTargetError:
        return True
    return not isinstance(result, np.ndarray) or not np.array_equal(result, _X)


def test_the_right_launch_is_not_complained_about() -> None:
    assert not _noticed()


#: What a careless caller gets wrong, by name.
_MISUSES: dict[str, dict[str, Any]] = {
    "half the block": {"block": 64},
    "twice the block": {"block": 256},
    "a block over the limit": {"block": 2048},
    "a grid with one block less": {"grid": 1},
    "a grid with one block more": {"grid": 3, "n": 3 * _BLOCK},
    "an empty grid": {"grid": 0},
    "swapped pointers": {"swapped": True},
    "a null pointer to read": {"x": 0},
    "a null pointer to write": {"o": 0},
    "n + 1": {"n": _N + 1, "grid": 3},
    "too few arguments": {"kernarg": bytes(32)},
    "too many arguments": {"kernarg": bytes(64)},
    "a foreign stream handle": {"stream": 0xDEAD0},
    "a freed buffer": {"freed": True},
    "more LDS than there is": {"shared": 1 << 20},
}


@pytest.mark.parametrize("name", list(_MISUSES))
def test_misuse_of_a_launch_is_noticed(name: str) -> None:
    assert _noticed(**_MISUSES[name])


def test_lds_that_the_launch_does_not_ask_for_is_noticed() -> None:
    code = compiled("total", "x:*fp32 o:*fp32", "gfx1100", constants=(("block", _BLOCK),))
    assert code.shared_bytes > 0
    with pytest.raises(KernelFault, match=r"total on gfx1100, block \(0, 0, 0\), warp .*LDS at"):
        run(replace(code, shared_bytes=0), (1,), _X[:_BLOCK], np.zeros(1, np.float32))


def test_code_for_another_arch_is_refused() -> None:
    with pytest.raises(xtarget.LoadError, match=r"gfx942.*gfx1100"):
        device("gfx1100").load(_copy("gfx942"))
    assert _direct(replace(_copy("gfx942"), target=xtarget.Target("amd", "gfx1100")))


@pytest.mark.parametrize("arch", ARCHS)
def test_a_store_beyond_a_buffer_names_kernel_lane_instruction_and_buffer(arch: str) -> None:
    code, there = _copy(arch, "beyond"), device(arch)
    x, o = put(there, np.zeros(2 * _N, np.float32)), there.alloc(4 * _N)
    function = there.load(code).function()
    grid = LaunchConfig((3, 1, 1))
    function.launch(grid, [x.address, o.address, _N, 0, 0], there.default_stream)
    with pytest.raises(
        KernelFault,
        match=rf"beyond on {arch}, block \(2, 0, 0\), warp 0, lane 0: (global|buffer)_store_b32 at "
        r"0x[0-9a-f]+ writes 4 bytes at 0x[0-9a-f]+, .* the end of a buffer \(2,048 bytes",
    ):
        there.synchronize()


@pytest.mark.parametrize("arch", ["gfx1100", "gfx942"])
def test_uninitialised_memory_that_is_used_is_noticed(arch: str) -> None:
    with pytest.raises(KernelFault, match=r"uninitialised memory.*to write it to global memory"):
        run(_copy(arch), (2,), _X, np.zeros_like(_X), _N, blank=(0, 1))


def test_a_kernel_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    code = compiled("endless", "x:*i32 o:*i32 n:i32", "gfx1100")
    hip = device("gfx1100").hip
    monkeypatch.setattr(hip, "limits", Limits(1_000_000, False))
    with pytest.raises(KernelFault, match=r"endless on gfx1100 was stopped after 1.*at 0x"):
        run(code, (1,), np.zeros(1, np.int32), np.zeros(1, np.int32), 5)


def test_an_instruction_that_is_not_executed_is_named() -> None:
    code = _copy("gfx1100")
    strange = bytes.fromhex("804c80be")  # s_sendmsg_rtn_b32 s0, 128
    at = code.binary.index(_text(code)[:8])
    binary = code.binary[:at] + strange + code.binary[at + 4 :]
    with pytest.raises(xtarget.UnsupportedInstruction, match=r"s_sendmsg_rtn_b32 at 0x0.*gfx1100"):
        run(replace(code, binary=binary), (2,), _X, np.zeros_like(_X), _N)


def _text(code: Artifact) -> bytes:
    from xtarget.targets._binaries.elf import Elf

    section = Elf.parse(code.binary).section(".text")
    assert section is not None
    return bytes(section.data)


def test_an_unknown_emulated_device_lists_the_known_ones() -> None:
    with pytest.raises(xtarget.NoDeviceError, match="emu:gfx1100, emu:gfx1201, emu:gfx90a"):
        xtarget.run("add", _X, _X, device="emu:gfx000")


def test_emulated_devices_are_nobodys_default_and_say_what_they_are() -> None:
    assert not [info for info in xtarget.devices() if info.vendor == "emu"]
    info = device("gfx942").info
    assert (info.name, str(info.target), info.runs_on) == ("emu:gfx942", "amd:gfx942", "emulator")


def _mutants(code: Artifact, count: int) -> list[bytes]:
    """The code with one bit of the kernel's instructions turned over."""
    text = _text(code)
    start = code.binary.index(text)
    image = Image(code.binary, code.target.arch, Arena(1 << 20))
    used = [i for b in image.load(code.entry).program.blocks for i in b.instructions]
    idle = ("s_nop", "s_delay_alu", "s_clause", "s_waitcnt", "s_code_end", "s_sendmsg")
    places = [
        8 * (i.address + byte) + bit
        for i in used
        if i.mnemonic not in idle
        for byte in range(i.size)
        for bit in range(8)
    ]
    rng = np.random.default_rng(11)
    result = []
    for bit in rng.choice(places, count, replace=False):
        data = bytearray(code.binary)
        data[start + bit // 8] ^= 1 << bit % 8
        result.append(bytes(data))
    return result


def _share_noticed(count: int) -> float:
    """The share of mutants of a softmax-like sum whose result, or a check, gives them away."""
    code = compiled("total", "x:*fp32 o:*fp32", "gfx1100", constants=(("block", _BLOCK),))
    x = np.random.default_rng(3).standard_normal(_BLOCK).astype(np.float32)
    right = run(code, (1,), x, np.zeros(1, np.float32))[1]
    hip = device("gfx1100").hip
    before, hip.limits = hip.limits, Limits(2_000_000, False)
    noticed = 0
    try:
        for binary in _mutants(code, count):
            try:
                out = run(replace(code, binary=binary), (1,), x, np.zeros(1, np.float32))[1]
                noticed += not np.array_equal(out, right)
            except XTargetError:
                noticed += 1
    finally:
        hip.limits = before
    return noticed / count


def test_most_single_bit_mutations_are_noticed() -> None:
    assert _share_noticed(60) >= 0.5


@pytest.mark.long
def test_three_fifths_of_single_bit_mutations_are_noticed() -> None:
    share = _share_noticed(500)
    print(f"noticed: {share:.1%}")
    assert share >= 0.6
