"""The libamdhip64 that is used where there may be several."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from scene import BLOCK, add_one, opened, refused

import xtarget
from xtarget._arrays import capsules
from xtarget.spec import ArrayType
from xtarget.targets.amd import library as _library

#: The library that is the system's on this rig.
SYSTEM = Path(sys.prefix) / "lib"


def _copy(folder: Path) -> Path:
    """Another copy of HIP, under the bare name, as torch's wheels have it."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(next(SYSTEM.glob("libamdhip64.so.*")).resolve(), folder / _library.NAME)
    return folder / _library.NAME


def _torch() -> Path:
    """A package called torch, which loads its HIP when it is imported."""
    library = _copy(Path("site/torch/lib").resolve())
    loads = f"import ctypes\nHIP = ctypes.CDLL({str(library)!r})\n"
    (library.parents[1] / "__init__.py").write_text(loads)
    sys.path.insert(0, str(library.parents[2]))
    return library


def _foreign_stream(library: ctypes.CDLL) -> int:
    stream = ctypes.c_void_p()
    assert library.hipStreamCreateWithFlags(ctypes.byref(stream), 0) == 0
    assert stream.value is not None
    return stream.value


def _foreign_memory(library: ctypes.CDLL) -> int:
    pointer = ctypes.c_void_p()
    assert library.hipMalloc(ctypes.byref(pointer), 4 * BLOCK) == 0
    assert pointer.value is not None
    return pointer.value


class _Exported:
    """An array of another library, which says nothing of a stream."""

    def __init__(self, address: int) -> None:
        self.address = address

    def __dlpack_device__(self) -> tuple[int, int]:
        return capsules.device_of("amd", 0)

    def __dlpack__(self, **options: Any) -> Any:
        type_ = ArrayType("float32", (BLOCK,), (1,))
        return capsules.to_capsule(self, self.address, type_, "amd", 0)


def memory_of_nobody() -> None:
    """An address that HIP has never given out is no array on its device."""
    opened()
    refused(xtarget.DriverError, lambda: xtarget.run("relu", _Exported(1 << 40)), "HIP knows no")
    mine = opened().alloc(4 * BLOCK)
    xtarget.run("relu", _Exported(mine.address))


def _used() -> list[Path]:
    device = opened()
    launch, buffer = add_one(device), device.alloc(4 * BLOCK)
    launch(buffer.address)
    device.synchronize()
    return _library.loaded()


def without_the_bare_name() -> None:
    """As Debian's packages and others have it."""
    os.environ.pop("ROCM_PATH", None)
    folders = os.environ["XTARGET_TEST_FOLDER"]
    os.environ["LD_LIBRARY_PATH"] = folders
    assert not (Path(folders) / _library.NAME).exists()
    assert len(_used()) == 1


def torch_was_imported_before() -> None:
    library = _torch()
    torch = importlib.import_module("torch")
    device = opened()
    stream = device.stream(_foreign_stream(torch.HIP))
    launch, buffer = add_one(device), device.alloc(4 * BLOCK, stream)
    buffer.write(memoryview(bytes(4 * BLOCK)), stream)
    launch(buffer.address, stream)
    stream.synchronize()
    assert _library.loaded() == [library]


def torch_is_imported_afterwards() -> None:
    library = _torch()
    assert _used() == [library]
    torch = importlib.import_module("torch")
    opened().stream(_foreign_stream(torch.HIP)).synchronize()
    assert _library.loaded() == [library]


def another_copy_comes_afterwards() -> None:
    """Its streams, the null stream among them, are refused with the reason."""
    device = opened()
    launch, buffer = add_one(device), device.alloc(4 * BLOCK)
    device.stream(0)
    own = _library.loaded()
    assert len(own) == 1
    other = _copy(Path("other").resolve())
    library = ctypes.CDLL(str(other))
    sys.modules["what_loads_it"] = sys.modules[__name__]
    for stream in (_foreign_stream(library), 0):
        said = refused(
            xtarget.DriverError, lambda s=stream: device.stream(s), "another copy of HIP"
        )
        assert str(other) in said
        assert str(own[0]) in said
    array = _Exported(_foreign_memory(library))
    on_ours = device.stream()
    for options in ({}, {"stream": on_ours}):
        said = refused(
            xtarget.DriverError,
            lambda o=options: xtarget.run("relu", array, **o),
            "another copy of HIP",
        )
        assert str(other) in said
    launch(buffer.address)  # its own go on
    device.synchronize()
