"""Runs the kernels that the model's queues get, on the memory of the process that dispatched them.

A program of its own, beside the one that has HIP in it: it reads dispatch packets from the socket
on descriptor 3 and answers each with a status. All that it knows of a kernel it reads where HIP
put it, in the device's memory: the code object as it was loaded, and the arguments as HIP wrote
them.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from aperture import Aperture
from loaded import LoadedImage

from xtarget._values import environment
from xtarget._values.errors import XTargetError
from xtarget_emulator.launch import Limits, Loaded

#: Device, reserved, the address of GPU address 0 in the other process, the packet.
_REQUEST = struct.Struct("<IIQ64s")
#: Header, setup, block, reserved, grid in threads, private and group bytes, kernel, arguments,
#: reserved, signal.
_DISPATCH = struct.Struct("<HHHHHHIIIIIQQQQ")


class Executor:
    """The devices of one process.

    Args:
        process: the other process.
        log: a file that gets a line for each kernel, or None.
    """

    def __init__(self, process: int, log: Path | None) -> None:
        self._process, self._log = process, log
        self._memories: dict[int, Aperture] = {}
        self._images: dict[tuple[int, int], LoadedImage] = {}
        self._limits = Limits(
            environment.emulator_budget(), "race" in environment.emulator_checks()
        )

    def run(self, device: int, base: int, packet: bytes) -> None:
        """Run a dispatch to its end.

        Raises:
            XTargetError: what the kernel, or who launched it, did wrong.
        """
        _, _, *sizes, kernel_at, arguments_at, _, _ = _DISPATCH.unpack(packet)
        block, threads, (private, group) = sizes[:3], sizes[4:7], sizes[7:9]
        memory = self._memories.get(device)
        if memory is None:
            memory = self._memories[device] = Aperture(self._process, base)
        memory.update()
        loaded = self._kernel(device, memory, kernel_at)
        kernel = loaded.kernel
        if block[1:] != [1, 1] or any(t % b for t, b in zip(threads, block, strict=True)):
            raise XTargetError(f"{kernel.name}: blocks of {block} in a grid of {threads} threads")
        if private < (kernel.resources.local_bytes or 0):
            raise XTargetError(f"{kernel.name} has {private} private bytes, which are too few")
        arguments = memory.read(arguments_at, kernel.kernarg_bytes)
        static = kernel.resources.static_shared_bytes or 0
        grid = (threads[0] // block[0], threads[1], threads[2])
        memory.labels = loaded.labels(arguments)
        begun = time.perf_counter()
        loaded.run_in_place(
            grid, block[0], group - static, arguments_at, arguments, self._limits, False
        )
        if self._log is not None:
            spent = time.perf_counter() - begun
            with self._log.open("a") as file:
                shape = f"grid {grid} block {block[0]} lds {group}"
                file.write(f"{device} {kernel.name} {shape} {arguments.hex()} {spent:.3f}\n")

    def _kernel(self, device: int, memory: Aperture, at: int) -> Loaded:
        block = memory.block_at(at)
        if block is None:
            raise XTargetError(f"the kernel at 0x{at:x} is in no memory of the device")
        key = device, block.start
        image = self._images.get(key)
        if image is None or not image.is_current():
            image = self._images[key] = LoadedImage(memory, block)
        return image.kernel_at(at)


def _serve(channel: socket.socket, executor: Executor) -> None:
    while request := channel.recv(_REQUEST.size, socket.MSG_WAITALL):
        device, _, base, packet = _REQUEST.unpack(request)
        status = 1
        try:
            executor.run(device, base, packet)
            status = 0
        except XTargetError as error:
            print(f"rocm_rig: {error}", file=sys.stderr, flush=True)
        except Exception:
            traceback.print_exc()
        channel.sendall(struct.pack("<i", status))


def main() -> None:
    log: Any = os.environ.get("XTARGET_TEST_RIG_KERNELS")
    with socket.socket(fileno=3) as channel:
        _serve(channel, Executor(os.getppid(), Path(log) if log else None))


if __name__ == "__main__":
    main()
