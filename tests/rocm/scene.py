"""Shared parts of the scenes. A scene is a function that one process on the rig calls."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rocm_kernels

from xtarget._devices import registry
from xtarget._values import errors
from xtarget._values.types import Artifact, CompileRequest, KernelSource, LaunchConfig
from xtarget.targets.amd import create_driver

BLOCK = 256


def opened(ordinal: int = 0) -> Any:
    return create_driver().open(ordinal)


def compiled(device: Any, kernel: str, signature: str, **options: Any) -> Artifact:
    """A kernel of rocm_kernels.py; capitals among the options are its constants."""
    path = Path(rocm_kernels.__file__)
    pairs = [pair.split(":") for pair in signature.split()]
    constants = {name: options.pop(name) for name in list(options) if name.isupper()}
    request = CompileRequest(
        source=KernelSource(
            name=kernel,
            digest=hashlib.sha256(path.read_bytes()).hexdigest(),
            path=str(path),
            load=lambda: getattr(rocm_kernels, kernel),
        ),
        signature=(
            *((name, type_) for name, type_ in pairs),
            *((name, "constexpr") for name in constants),
        ),
        constants=tuple(constants.items()),
        aligned=(),
        **options,
    )
    return registry.compiler("amd").compile(request, device.info.target)


def add_one(device: Any) -> Callable[[int, Any], None]:
    """`launch(address, stream)`: adds 1 to 256 floats."""
    function = device.load(compiled(device, "add_one", "x:*fp32", BLOCK=BLOCK)).function()

    def launch(address: int, stream: Any = None) -> None:
        config = LaunchConfig((1, 1, 1))
        function.launch(config, [address, 0, 0], stream or device.default_stream)

    return launch


def refused(kind: type[BaseException], action: Callable[[], Any], *words: str) -> str:
    """The message of the error of exactly that class that `action` ends in."""
    caught: BaseException | None = None
    try:
        action()
    except errors.XTargetError as error:
        caught = error
    assert type(caught) is kind, f"{type(caught).__name__}: {caught}"
    for word in words:
        assert word in str(caught), f"{word!r} is not in: {caught}"
    return str(caught)
