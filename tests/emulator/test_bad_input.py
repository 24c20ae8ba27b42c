"""Input of which no launch can be made, typed by hand, each with the words of its error."""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from harness import ARCHS, compiled, device, put, run

import xtarget
from xtarget import (
    DeviceLostError,
    KernelFault,
    LoadError,
    OutOfResourcesError,
    UnsupportedInstruction,
    XTargetError,
)
from xtarget._values.types import Artifact, LaunchConfig
from xtarget_emulator.decode import decode
from xtarget_emulator.launch import Image, Limits
from xtarget_emulator.memory import Arena

_X = np.arange(256, dtype=np.float32)


def _copy(arch: str) -> Artifact:
    return compiled("copy", "x:*fp32 o:*fp32 n:i32", arch, constants=(("block", 256),))


def _flags(code: Artifact, setting: int, at: int) -> Artifact:
    """The code object with another value of a two-bit setting in its ELF flags."""
    binary = bytearray(code.binary)
    (flags,) = struct.unpack_from("<I", binary, 48)
    struct.pack_into("<I", binary, 48, flags & ~(3 << at) | setting << at)
    return replace(code, binary=bytes(binary))


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
def test_code_that_demands_xnack(arch: str) -> None:
    there, code = device(arch), _copy(arch)
    with pytest.raises(LoadError, match=rf"copy was compiled for xnack on; emu:{arch} has it off"):
        there.load(_flags(code, 3, 8))
    there.load(_flags(code, 2, 8))


def test_code_that_demands_error_correction() -> None:
    with pytest.raises(LoadError, match="copy was compiled for sramecc on; emu:gfx942 has it off"):
        device("gfx942").load(_flags(_copy("gfx942"), 3, 10))


@pytest.mark.parametrize("arch", ARCHS)
def test_code_that_is_cut_off_anywhere(arch: str) -> None:
    there, code = device(arch), _copy(arch)
    for size in range(0, len(code.binary), 97):
        with pytest.raises(LoadError, match="copy cannot be loaded on emu:"):
            there.load(replace(code, binary=code.binary[:size]))


def _damaged(code: bytes, rng: random.Random) -> bytes:
    """The file with some bits turned over, an end missing, or nonsense in its section table."""
    data = bytearray(code)
    way = rng.randrange(4)
    if way == 0:
        for _ in range(rng.choice((1, 2, 50))):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif way == 1:
        del data[rng.randrange(len(data)) :]
    elif way == 2:
        (table,) = struct.unpack_from("<Q", data, 40)
        for _ in range(rng.randrange(1, 6)):
            at = table + 4 * rng.randrange((len(data) - table) // 4)
            value = rng.choice((0, 1, rng.randrange(len(data)), 0xFFFFFFFF, rng.getrandbits(32)))
            struct.pack_into("<I", data, at, value)
    else:
        note = data.index(b"amdhsa.kernels")
        for _ in range(rng.randrange(1, 5)):
            data[rng.randrange(note, note + 900)] = rng.randrange(256)
    return bytes(data)


@pytest.mark.parametrize("count", [100, pytest.param(20_000, marks=pytest.mark.long)])
def test_damaged_code_is_refused_or_read(count: int) -> None:
    """Whatever the damage: our errors and no others, quickly."""
    rng, arena = random.Random(count), Arena(1 << 26)
    codes = [_copy(arch) for arch in ARCHS]
    messages = []
    for number in range(count):
        code = codes[number % len(codes)]
        try:
            image = Image(_damaged(code.binary, rng), code.target.arch, arena)
            for name in image.code.kernels:
                image.load(name)
            image.close()
        except XTargetError as error:
            messages.append(str(error))
    assert count / 3 < len(messages) < count
    assert {message[-1] for message in messages} <= set(".…)")


def test_more_registers_than_there_are() -> None:
    image = Image(_copy("gfx1100").binary, "gfx1100", Arena(1 << 20))
    kernel = image.code.kernels["copy"]
    resources = replace(kernel.resources, registers=1 << 30)
    image.code = replace(image.code, kernels={"copy": replace(kernel, resources=resources)})
    with pytest.raises(LoadError, match="copy asks for 1,073,741,824 vector registers"):
        image.load("copy")


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1201"])
def test_a_dual_instruction_of_operations_that_there_are_not(arch: str) -> None:
    # v_dual_mov_b32 with the other half's operation, bits 21:17, of a number that none has
    word = 0b110010 << 26 | 8 << 22 | 31 << 17
    with pytest.raises(UnsupportedInstruction, match=rf"0x{word:08x} at 0x0 is not an instruction"):
        decode(struct.pack("<II", word, 0), arch)


def test_code_with_relocations() -> None:
    code = _copy("gfx1100")
    binary = bytearray(code.binary)
    (table,) = struct.unpack_from("<Q", binary, 40)
    each, count = struct.unpack_from("<HH", binary, 58)
    for number in range(count):
        at = table + each * number
        kind, flags = struct.unpack_from("<IQ", binary, at + 4)
        if (kind, flags & 2) == (1, 0):  # contents that are not loaded: .comment
            struct.pack_into("<I", binary, at + 4, 4)
    assert binary != code.binary
    with pytest.raises(LoadError, match=r"has relocations \(\.comment\), which the emulator"):
        device("gfx1100").load(replace(code, binary=bytes(binary)))


def test_code_that_is_said_to_lie_far_away() -> None:
    """Its memory would be taken in full: gigabytes for a file of kilobytes."""
    binary = bytearray(_copy("gfx942").binary)
    (table,) = struct.unpack_from("<Q", binary, 40)
    (count,) = struct.unpack_from("<H", binary, 60)
    for at in range(table, table + 64 * count, 64):
        (flags,) = struct.unpack_from("<Q", binary, at + 8)
        if flags & 4:  # executable
            struct.pack_into("<Q", binary, at + 16, 3 << 30)
    arena = Arena(4 << 30)
    with pytest.raises(LoadError, match=r"asks for 3,22\d,\d+,\d+ bytes of the device's memory"):
        Image(bytes(binary), "gfx942", arena)
    assert arena.used == 0


def test_a_kernel_that_is_not_there() -> None:
    with pytest.raises(LoadError, match="a kernel should be paste, and the binary says copy"):
        device("gfx942").load(replace(_copy("gfx942"), entry="paste"))
    module = device("gfx942").load(_copy("gfx942"))
    with pytest.raises(LoadError, match="no entry 'paste'"):
        module.function("paste")


@pytest.mark.parametrize(
    ("arch", "limit"), [("gfx1100", 65_536), ("gfx942", 65_536), ("gfx950", 163_840)]
)
def test_more_lds_than_the_arch_has(arch: str, limit: int) -> None:
    there, code = device(arch), _copy(arch)
    args = [0] * len(code.parameters)
    there.load(replace(code, shared_bytes=limit)).function().prepare(LaunchConfig((1, 1, 1)), args)
    with pytest.raises(OutOfResourcesError, match=rf"copy needs {limit + 1} bytes.*has {limit}\."):
        there.load(replace(code, shared_bytes=limit + 1))


@pytest.mark.parametrize("arch", ["gfx1100", "gfx942"])
def test_more_threads_in_a_row_than_a_launch_can_have(arch: str) -> None:
    there, code = device(arch), _copy(arch)
    function = there.load(code).function()
    most, args = (2**32 - 1) // code.block[0], [0] * len(code.parameters)
    function.prepare(LaunchConfig((most, 1, 1)), args)
    with pytest.raises(OutOfResourcesError, match=rf"{most + 1} blocks in x .* limit is {most}"):
        function.prepare(LaunchConfig((most + 1, 1, 1)), args)


def test_an_empty_grid_is_no_launch() -> None:
    there, code = device("gfx942"), _copy("gfx942")
    before = there.hip.executed
    there.load(code).function().launch(LaunchConfig((0, 1, 1)), [0] * 5, there.default_stream)
    there.synchronize()
    assert there.hip.executed == before


def test_an_endless_kernel_is_stopped_and_its_place_told(monkeypatch: pytest.MonkeyPatch) -> None:
    code = compiled("endless", "x:*i32 o:*i32 n:i32", "gfx942")
    monkeypatch.setattr(device("gfx942").hip, "limits", Limits(1_000_000, False))
    with pytest.raises(
        KernelFault, match=r"endless on gfx942 was stopped after 1,\d+,\d+ .* at 0x"
    ):
        run(code, (1,), np.zeros(1, np.int32), np.zeros(1, np.int32), 5)


def test_a_block_that_waits_for_another_one_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    code = compiled("waits_for_another", "flag:*i32 o:*i32", "gfx1100")
    hip = device("gfx1100").hip
    monkeypatch.setattr(hip, "limits", Limits(1_000_000, False))
    with pytest.raises(
        KernelFault, match=r"waits_for_another on gfx1100 was stopped .* or waits for another block"
    ):
        run(code, (100_000,), np.zeros(1, np.int32), np.zeros(1, np.int32))


@pytest.mark.parametrize("arch", ARCHS)
def test_a_print_has_nobody_to_print_it(arch: str) -> None:
    code = compiled("prints", "x:*i32 o:*i32", arch, constants=(("block", 256),))
    x = np.arange(256, dtype=np.int32)
    with pytest.raises(KernelFault, match=r"prints on .*calls the host, for tl\.device_print"):
        run(code, (1,), x, x * 0)


@pytest.mark.parametrize("arch", ARCHS)
def test_a_barrier_that_one_warp_goes_around(arch: str) -> None:
    size = 128 if arch.startswith("gfx1") else 256  # one element for each thread
    kernel = "part_of_a_split_barrier" if arch == "gfx1201" else "part_of_a_barrier"
    code = compiled(kernel, "x:*i32 o:*i32", arch, constants=(("block", size),))
    with pytest.raises(
        KernelFault,
        match=rf"part_of_a_\w+ on {arch}, block \(0, 0, 0\): \d+ of \d+ warps wait at the "
        r"barrier at 0x[0-9a-f]+, and the others have ended",
    ):
        run(code, (1,), np.arange(size, dtype=np.int32), np.zeros(size, np.int32))


def test_a_fault_loses_the_device_until_it_is_opened_again() -> None:
    there, other, code = device("gfx942"), device("gfx1100"), _copy("gfx942")
    x = put(there, _X)
    function = there.load(code).function()
    calls: list[Any] = [
        lambda: there.alloc(16),
        lambda: x.read(memoryview(bytearray(4)), there.default_stream),
        lambda: there.load(code),
        lambda: function.launch(
            LaunchConfig((1, 1, 1)), [x.address, x.address, 256, 0, 0], there.default_stream
        ),
        there.stream,
        there.default_stream.record,
        there.synchronize,
    ]
    function.launch(LaunchConfig((1, 1, 1)), [x.address, 16, 256, 0, 0], there.default_stream)
    with pytest.raises(KernelFault, match=r"copy on gfx942, .* writes \d+ bytes at 0x10,"):
        there.synchronize()
    for use in calls:
        with pytest.raises(DeviceLostError, match="a kernel failed before: copy on gfx942"):
            use()
    x.close()  # giving back still works
    assert other.alloc(16).nbytes == 16
    again = device("gfx942")
    assert again is not there
    np.testing.assert_array_equal(run(code, (1,), _X, _X * 0, 256)[1], _X)


def test_after_a_fault_the_next_call_by_name_finds_the_device_again() -> None:
    """As in a notebook: the cell is corrected, and run again in the same process."""
    name = "emu:gfx1201"
    np.testing.assert_array_equal(xtarget.run("add", _X, _X, device=name), 2 * _X)
    there, code = xtarget.device(name), _copy("gfx1201")
    on_it = xtarget.asarray(_X, device=name)
    function = there.load(code).function()
    function.launch(LaunchConfig((1, 1, 1)), [16, 16, 256, 0, 0], there.default_stream)
    with pytest.raises(KernelFault, match=r"copy on gfx1201, .* at 0x10,"):
        there.synchronize()
    np.testing.assert_array_equal(xtarget.run("add", _X, _X, device=name), 2 * _X)
    assert xtarget.device(name) is not there
    again = xtarget.asarray(_X, device=name)
    np.testing.assert_array_equal(xtarget.run("add", again, again).numpy(), 2 * _X)
    with pytest.raises(DeviceLostError, match=r"a kernel failed before: copy on gfx1201"):
        on_it.numpy()
