"""Machine code through dpctl, which itself builds SPIR-V and OpenCL C only (0.22.1).

A driver makes a module of machine code (`clCreateProgramWithBinary`, `zeModuleCreate`), SYCL makes
a kernel bundle of a driver's module (`sycl::make_kernel_bundle`, for which libsycl exports one
function), and dpctl takes a kernel bundle (`SyclProgram_Make` of its C interface). No binding has
these calls, so they are found by name; where one is missing there is no `Route`, and SPIR-V is
built as ever. The names are of the SYCL interface 9 (DPC++ 2026), which dpctl links to as well.

An exception of C++ would end the process. So nothing goes this way in the user's process that did
not go it in a child process before, with the same driver (`program`).

Source: Level Zero specification 1.11, zeModuleCreate; OpenCL 3.0 API, 5.8; DPC++, sycl/backend.hpp.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any, Final, Protocol

import dpctl
import dpctl.program

from ..._values.errors import LoadError

__all__ = ["Route", "find_route"]

_NAMES: Final = {
    "bundle": "_ZN4sycl3_V16detail18make_kernel_bundleEmRKNS0_7contextEbNS0_12bundle_stateE"
    "NS0_7backendE",
    "context": "_ZNK4sycl3_V17context9getNativeEv",
    "device": "_ZNK4sycl3_V16device9getNativeEv",
}
_EXECUTABLE = 2  # sycl::bundle_state
_BUNDLE_BYTES = 16  # sycl::kernel_bundle: a std::shared_ptr
_Pointer = ctypes.c_void_p
_Size = ctypes.c_size_t


class _Driver(Protocol):
    """The calls of a driver; a module is its handle as a number.

    Attributes:
        backend: its number in `sycl::backend`.
    """

    backend: int

    def from_spirv(self, spirv: bytes, options: str) -> int: ...

    def from_code(self, code: bytes, options: str) -> int: ...

    def code_of(self, module: int) -> bytes: ...

    def release(self, module: int) -> None: ...


def _function(library: Any, name: str, result: Any, *arguments: Any) -> Any:
    found = getattr(library, name)
    found.restype, found.argtypes = result, arguments
    return found


class OpenCL:
    """OpenCL's way from machine code to a program."""

    backend = 1
    library = "libOpenCL.so.1"
    _BINARY_SIZES, _BINARIES, _LOG = 0x1165, 0x1166, 0x1183

    def __init__(self, library: Any, context: int, device: int) -> None:
        self._context, self._device = context, device
        status = ctypes.POINTER(ctypes.c_int)
        self._with_il = _function(
            library, "clCreateProgramWithIL", _Pointer, _Pointer, ctypes.c_char_p, _Size, status
        )
        self._with_binary = _function(
            library, "clCreateProgramWithBinary", _Pointer, _Pointer, ctypes.c_uint,
            *[_Pointer] * 4, status,
        )  # fmt: skip
        self._build = _function(
            library, "clBuildProgram", ctypes.c_int, _Pointer, ctypes.c_uint, _Pointer,
            ctypes.c_char_p, _Pointer, _Pointer,
        )  # fmt: skip
        info = (ctypes.c_int, _Pointer, ctypes.c_uint, _Size, _Pointer, _Pointer)
        self._info = _function(library, "clGetProgramInfo", *info)
        self._build_info = _function(
            library, "clGetProgramBuildInfo", ctypes.c_int, _Pointer, *info[1:]
        )
        self._release = _function(library, "clReleaseProgram", ctypes.c_int, _Pointer)

    def from_spirv(self, spirv: bytes, options: str) -> int:
        status = ctypes.c_int()
        program = self._with_il(self._context, spirv, len(spirv), ctypes.byref(status))
        return self._built("clCreateProgramWithIL", program, status.value, options)

    def from_code(self, code: bytes, options: str) -> int:
        status = ctypes.c_int()
        devices, sizes = (_Pointer * 1)(self._device), (_Size * 1)(len(code))
        codes = (ctypes.c_char_p * 1)(code)
        program = self._with_binary(
            self._context, 1, devices, sizes, codes, None, ctypes.byref(status)
        )
        return self._built("clCreateProgramWithBinary", program, status.value, options)

    def code_of(self, module: int) -> bytes:
        size = _Size()
        _check(
            "clGetProgramInfo", self._info(module, self._BINARY_SIZES, 8, ctypes.byref(size), None)
        )
        code = ctypes.create_string_buffer(size.value)
        places = (_Pointer * 1)(ctypes.addressof(code))
        _check("clGetProgramInfo", self._info(module, self._BINARIES, 8, places, None))
        return code.raw

    def release(self, module: int) -> None:
        self._release(module)

    def _built(self, routine: str, program: int | None, status: int, options: str) -> int:
        _check(routine, status if program else status or -1)
        assert program is not None
        devices = (_Pointer * 1)(self._device)
        status = self._build(program, 1, devices, options.encode(), None, None)
        if status:
            log = ctypes.create_string_buffer(4096)
            self._build_info(program, self._device, self._LOG, len(log), log, None)
            self._release(program)
            _check("clBuildProgram", status, log.value.decode(errors="replace"))
        return program


class _ModuleDescription(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int),
        ("next", _Pointer),
        ("format", ctypes.c_int),
        ("size", _Size),
        ("module", ctypes.c_char_p),
        ("options", ctypes.c_char_p),
        ("constants", _Pointer),
    )


class LevelZero:
    """Level Zero's way from machine code to a module."""

    backend = 2
    library = "libze_loader.so.1"
    _KIND, _SPIRV, _CODE = 0x1B, 0, 1

    def __init__(self, library: Any, context: int, device: int) -> None:
        self._context, self._device = context, device
        result, place = ctypes.c_int, _Pointer
        self._create = _function(library, "zeModuleCreate", result, *[place] * 5)
        self._code = _function(library, "zeModuleGetNativeBinary", result, place, place, place)
        self._destroy = _function(library, "zeModuleDestroy", result, place)

    def from_spirv(self, spirv: bytes, options: str) -> int:
        return self._module(self._SPIRV, spirv, options)

    def from_code(self, code: bytes, options: str) -> int:
        return self._module(self._CODE, code, options)

    def code_of(self, module: int) -> bytes:
        size = _Size()
        _check("zeModuleGetNativeBinary", self._code(module, ctypes.byref(size), None))
        code = ctypes.create_string_buffer(size.value)
        _check("zeModuleGetNativeBinary", self._code(module, ctypes.byref(size), code))
        return code.raw

    def release(self, module: int) -> None:
        self._destroy(module)

    def _module(self, format_: int, binary: bytes, options: str) -> int:
        given = _ModuleDescription(
            self._KIND, None, format_, len(binary), binary, options.encode(), None
        )
        module = _Pointer()
        status = self._create(
            self._context, self._device, ctypes.byref(given), ctypes.byref(module), None
        )
        _check("zeModuleCreate", status if module.value else status or -1)
        assert module.value is not None
        return module.value


def _check(routine: str, status: int, log: str = "") -> None:
    """Raises LoadError for a status that is not success."""
    if status:
        raise LoadError(f"{routine} gave {status:#x}. {log}".rstrip())


class Route:
    """From machine code to dpctl's programs, for one queue's device."""

    def __init__(self, driver: _Driver, bundle: Any, context: Any) -> None:
        """Keeps `context`, the queue's, alive.

        Args:
            driver: of the device.
            bundle: makes dpctl's SyclProgram of a module, an address of a context, and a backend.
            context: dpctl's.
        """
        self._driver = driver
        self._bundle = bundle
        self._context = context

    def compile(self, spirv: bytes, options: str) -> bytes:
        """Machine code of SPIR-V. For the child process: the compiler may crash or hang.

        Raises:
            LoadError: the driver refuses it.
        """
        module = self._driver.from_spirv(spirv, options)
        try:
            return self._driver.code_of(module)
        finally:
            self._driver.release(module)

    def load(self, code: bytes, entry: str, options: str) -> dpctl.program.SyclKernel:
        """A kernel of machine code.

        Raises:
            LoadError: the driver refuses it: it is another driver's or device's.
        """
        module = self._driver.from_code(code, options)  # the bundle's from here on
        program = self._bundle(module, self._context.addressof_ref(), self._driver.backend)
        return program.get_sycl_kernel(entry)


def find_route(queue: dpctl.SyclQueue) -> Route | None:
    """The way for a queue's device, None where a part of it is missing. Calls no compiler."""
    kinds: dict[str, type[OpenCL] | type[LevelZero]] = {"opencl": OpenCL, "level_zero": LevelZero}
    kind = kinds.get(queue.sycl_device.backend.name)
    if kind is None:
        return None
    try:
        # both are loaded already: dpctl needs them
        sycl = ctypes.CDLL("libsycl.so.9", mode=os.RTLD_NOW | os.RTLD_NOLOAD)
        library = ctypes.CDLL(kind.library, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
        handle = ctypes.c_uint64
        context_of = _function(sycl, _NAMES["context"], handle, _Pointer)
        device_of = _function(sycl, _NAMES["device"], handle, _Pointer)
        bundle = _bundle_maker(sycl)
        context, device = queue.sycl_context, queue.sycl_device
        driver = kind(
            library, context_of(context.addressof_ref()), device_of(device.addressof_ref())
        )
    except (OSError, AttributeError, KeyError):
        return None
    return Route(driver, bundle, context)


def _bundle_maker(sycl: Any) -> Any:
    """(module, context, backend) to dpctl's SyclProgram."""
    # its result is not a plain C value: the caller passes the place for it as the first argument
    make = _function(
        sycl, _NAMES["bundle"], _Pointer, _Pointer, ctypes.c_uint64, _Pointer, ctypes.c_bool,
        ctypes.c_ubyte, ctypes.c_byte,
    )  # fmt: skip
    allocate = _function(ctypes.CDLL(None), "malloc", _Pointer, _Size)  # dpctl's `delete` frees it
    capsule = dpctl.program._program.__pyx_capi__["SyclProgram_Make"]
    name_of = _function(ctypes.pythonapi, "PyCapsule_GetName", ctypes.c_char_p, ctypes.py_object)
    pointer_of = _function(
        ctypes.pythonapi, "PyCapsule_GetPointer", _Pointer, ctypes.py_object, ctypes.c_char_p
    )
    program = ctypes.PYFUNCTYPE(ctypes.py_object, _Pointer)(pointer_of(capsule, name_of(capsule)))

    def bundle(module: int, context: int, backend: int) -> dpctl.program.SyclProgram:
        place = allocate(_BUNDLE_BYTES)
        make(place, module, context, False, _EXECUTABLE, backend)
        return program(place)

    return bundle
