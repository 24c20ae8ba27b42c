"""torch tensors on the CPU, CUDA, ROCm and XPU. Imported only when a tensor was passed, so torch is
there already."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch.autograd import forward_ad

from .._devices.streams import borrow, borrowed
from .._values.errors import ArgumentError, shortened_text
from .._values.float8 import way_out
from .._values.types import DTYPES, DeviceInfo
from ..spec import ArrayType
from ..targets.base import Device, Stream
from ..targets.optional import Lendable
from .kinds import LibraryMemory, View
from .torch_in_c import number_of_dtype

__all__ = ["KIND", "adopt"]

#: The numbers of torch's device types (c10/core/DeviceType.h).
_IN_C = {"cpu": 0, "cuda": 1}
_dtypes = {name: getattr(torch, name) for name in DTYPES if hasattr(torch, name)}


@cache
def _vendor(device_type: str) -> str | None:
    """The vendor of torch's device type. The names here are torch's own, and so is the rule that
    `cuda` is AMD's in a build for HIP: they stay in torch's file, not among a vendor's traits."""
    if device_type == "cuda":
        return "amd" if torch.version.hip else "nvidia"
    return {"xpu": "intel"}.get(device_type)


@cache
def _dtype_name(dtype: Any) -> str:
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise ArgumentError(
            f"a tensor of dtype {dtype} is not supported; kernels take {', '.join(DTYPES)}. "
            f"{way_out(name, '.view(torch.uint8)', 'Convert it with .to().')}"
        )
    return name


@cache
def _raw_stream() -> Callable[[int], int]:
    """The current CUDA or HIP stream's handle, the short way where torch has it."""
    direct: Callable[[int], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    if direct is not None:
        return direct
    return lambda index: int(torch.cuda.current_stream(index).cuda_stream)


@cache
def _bytes_on(ordinal: int) -> Callable[[int], Any]:
    """The function that makes tensors of bytes on a CUDA or HIP device."""
    return partial(torch.empty, dtype=torch.uint8, device=torch.device("cuda", ordinal))


_is_grad_enabled = torch.is_grad_enabled


def _versions() -> Callable[[tuple[Any]], None]:
    """Return the function that increments tensor versions; torch has had several names for it."""
    direct: Callable[[tuple[Any]], None] | None = getattr(torch._C, "_increment_version", None)
    if direct is not None:
        return direct
    from torch.autograd import graph

    return lambda tensors: graph.increment_version(tensors[0])


_increment_version = _versions()


class TorchKind:
    """torch tensors."""

    name = "torch"
    tracks_streams = False

    def describe(self, array: Any) -> tuple[int, Hashable]:
        try:
            address = array.data_ptr()
            layout = (
                array.dtype,
                array.shape,
                array.is_contiguous() or array.stride(),  # the shape tells the strides of the one
                array.device,
                address % 16 == 0,
            )
        except RuntimeError:  # no memory, or no strides
            raise _refusal(array) from None
        # what may change from call to call and does not show in the layout
        if not address or array.is_neg() or (array.requires_grad and _is_grad_enabled()):
            _check(array)
        return address, layout

    def layout(self, key: Any) -> tuple[Hashable, tuple[int, ...], tuple[int, ...] | None]:
        dtype, shape, strides, device, aligned = key
        return (dtype, device, aligned), tuple(shape), None if strides is True else strides

    def view(self, array: Any) -> View:
        _check(array)
        place = None
        if array.device.type != "cpu":
            place = f"{_vendor(array.device.type)}:{array.device.index or 0}"
        type_ = ArrayType(_dtype_name(array.dtype), tuple(array.shape), tuple(array.stride()))
        return View(self, array, array.data_ptr(), type_, place)

    def check_call(self, args: Sequence[Any], out: Any) -> None:
        if _tracing_state() is not None or _dispatch_modes():
            _check_tracing()
        if forward_ad._current_level >= 0:
            for array in (*args, out):
                if isinstance(array, torch.Tensor):
                    _check(array)

    def opaque(self, function: Any) -> None:
        """Let torch.compile call a function as it is, with real tensors, between its graphs. What
        it would make of the function's lines are guards on addresses, in many seconds.
        """
        function._torchdynamo_disable = True
        function._torchdynamo_disable_msg = "xtarget runs kernels that torch does not see"
        try:  # nor what it calls (torch 2.7; older ones look into each function, and give up)
            from torch._C._dynamo import eval_frame

            skip = eval_frame._FrameAction.SKIP
            both = eval_frame._FrameExecStrategy(skip, skip)
            eval_frame.set_code_exec_strategy(function.__code__, both)
        except (ImportError, AttributeError):
            pass

    def written(self, array: Any) -> None:
        """As torch's own operations in place do: a backward pass that has saved the tensor's old
        values then refuses."""
        try:
            _increment_version((array,))
        except RuntimeError:
            if not array.is_inference():  # these have none
                raise

    def current_stream(self, device: Device, array: Any) -> Stream | None:
        source = self.stream_source(device)
        return source()

    def stream_source(self, device: Device) -> Callable[[], Stream | None]:
        vendor, ordinal = device.info.vendor, device.info.ordinal
        if vendor in ("nvidia", "amd") and _vendor("cuda") == vendor:
            raw, known = _raw_stream(), borrowed(device)
            return lambda: known.get(handle := raw(ordinal)) or borrow(device, handle)
        if vendor == "intel" and hasattr(torch, "xpu") and torch.xpu.is_available():
            return lambda: device.stream(torch.xpu.current_stream(ordinal))
        return lambda: None

    def empty(self, type: ArrayType, device: Device, like: Any) -> Any:
        dtype = _dtypes[type.dtype]
        return torch.empty(type.shape, dtype=dtype, device="cpu" if like is None else like.device)

    def maker(self, dtype: str, place: DeviceInfo | None) -> Callable[[tuple[int, ...]], Any]:
        where = "cpu"
        if place is not None:
            where = "cuda" if _vendor("cuda") == place.vendor else "xpu"
            where = f"{where}:{place.ordinal}"
        return partial(torch.empty, dtype=_dtypes[dtype], device=torch.device(where))

    def place_in_c(self, dtype: str, place: DeviceInfo | None) -> tuple[int, int, int] | None:
        number = number_of_dtype(torch, dtype)
        if number is None:
            return None
        if place is None:
            return number, _IN_C["cpu"], 0
        if _vendor("cuda") != place.vendor:
            return None
        return number, _IN_C["cuda"], place.ordinal

    def memory(self, device: Device, nbytes: int, stream: Stream) -> LibraryMemory | None:
        ordinal = device.info.ordinal
        if _vendor("cuda") != device.info.vendor:
            return None
        # the second question takes torch as long as a launch does
        if not (torch.cuda.is_initialized() or torch.cuda.is_available()):
            return None
        # the default stream has two handles: 0, as torch has it, and the driver's own
        current = _raw_stream()(ordinal)
        if stream.handle != current and borrowed(device).get(current) is not stream:
            return None
        held = _bytes_on(ordinal)(nbytes)
        return LibraryMemory(held.data_ptr(), held)

    def address_now(self, array: Any) -> Callable[[], int]:
        data_ptr: Callable[[], int] = array.data_ptr

        def address() -> int:
            if array.requires_grad and _is_grad_enabled():
                _check(array)
            return data_ptr()

        return address

    def keep(self, array: Any, stream: Stream) -> bool:
        """Tell torch's allocator that `stream`, which is not its current one, uses the tensor;
        False where it cannot be told.
        """
        if array.device.type != "cuda":
            return bool(array.device.type == "cpu")
        if isinstance(stream, Lendable):
            stream.lend()  # the allocator asks it for an event when the tensor goes
        external = torch.cuda.ExternalStream(int(stream.handle), device=array.device)
        array.record_stream(external)
        return True


KIND = TorchKind()


def adopt(array: Any) -> Any:
    """Tensors and parameters are read in place; of a subclass, the plain tensor in it.

    Raises:
        ArgumentError: a subclass whose tensors have no memory of their own; what torch.fx traces.
    """
    if type(array) in (torch.Tensor, torch.nn.Parameter):
        return array
    if isinstance(array, torch.fx.Proxy):  # it seems to have every attribute
        raise ArgumentError(
            "torch.fx is tracing and does not see kernels that xtarget runs. Call xtarget.run "
            "outside of the traced function."
        )
    if not isinstance(array, torch.Tensor):
        return None
    refusal = _wrapper(array)
    if refusal is not None:
        raise refusal
    if isinstance(array, torch.nn.parameter.UninitializedTensorMixin):
        raise ArgumentError(
            f"an {type(array).__name__} has neither shape nor memory yet. Run its module once "
            "before."
        )
    try:
        with torch._C.DisableTorchFunctionSubclass():
            return array.as_subclass(torch.Tensor)
    except Exception as error:  # a parameter without a shape, for one
        raise ArgumentError(
            f"a {type(array).__name__} cannot be passed to a kernel: {shortened_text(str(error))}. "
            "Pass a plain tensor."
        ) from error


# ------------------------------------------------------------------------------------- refusals

_tracing_state = getattr(torch._C, "_get_tracing_state", lambda: None)
_dispatch_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)


def _check_tracing() -> None:
    """Refuse launches while torch records its own operations: a launch would not be part of what
    is made of these, and its result would be a constant there, or memory that nobody fills. A mode
    of the caller's that counts or prints may be on.
    """
    if _tracing_state() is not None:
        raise ArgumentError(
            "torch.jit.trace does not see kernels that xtarget runs, so the traced function would "
            "lack them. Call xtarget.run outside of the traced function."
        )
    keys = getattr(torch._C, "_TorchDispatchModeKey", None)
    for name in ("PROXY", "FUNCTIONAL", "FAKE"):
        key = getattr(keys, name, None)
        if key is not None and torch._C._get_dispatch_mode(key) is not None:
            raise ArgumentError(
                "torch is tracing (make_fx, export, torch.compile or FakeTensorMode) and does not "
                "see kernels that xtarget runs. Call torch.ops.xtarget (import xtarget.torch), "
                "which it sees, or xtarget.run outside of the traced function."
            )


def _wrapper(array: Any) -> ArgumentError | None:
    """Tensors of a class with its own `__torch_dispatch__` stand for others, and their own address
    means nothing: fake, functional, distributed, quantised and nested ones."""
    cls = type(array)
    if getattr(cls, "__torch_dispatch__", None) in (None, torch.Tensor.__torch_dispatch__):
        return None
    if cls.__name__ in ("FakeTensor", "FunctionalTensor"):
        return ArgumentError(
            f"a {cls.__name__} has no memory: torch is tracing (torch.compile, export, make_fx). "
            "Call torch.ops.xtarget (import xtarget.torch), which is traced, or xtarget.run "
            "outside of the traced function, or with torch.compiler.disable."
        )
    return ArgumentError(
        f"a {cls.__name__} stands for other tensors and has no memory of its own that a kernel "
        "could use. Pass the plain tensor in it (to_local, dequantize, to_padded_tensor)."
    )


def _is_functorch(array: Any, name: str) -> bool:
    functorch = getattr(torch._C, "_functorch", None)
    test = getattr(functorch, name, None)
    return bool(test and test(array))


def _refusal(array: Any) -> ArgumentError:
    """Return an error that says why a tensor without an address or strides cannot be used."""
    try:
        _check(array)
    except ArgumentError as error:
        return error
    return ArgumentError(
        f"a {type(array).__name__} has no memory that a kernel could use. Pass a plain tensor."
    )


def _check(array: Any) -> None:
    """All that a layout does not show.

    Raises:
        ArgumentError: the tensor has no memory of its own, its memory does not hold its values, or
            it takes part in differentiation.
    """
    wrapper = _wrapper(array)
    if wrapper is not None:
        raise wrapper
    _check_tracing()
    if _is_functorch(array, "is_batchedtensor"):
        raise ArgumentError(
            "a tensor within torch.vmap stands for a whole batch, which xtarget.run does not see. "
            "Call it outside of torch.vmap, on the tensor with its batch dimension."
        )
    if _is_functorch(array, "is_gradtrackingtensor"):
        raise ArgumentError(
            "a tensor within torch.func.grad, vjp or jvp cannot be passed to a kernel: kernels "
            "have no derivatives. Call xtarget.run outside of the function that is differentiated."
        )
    if torch._is_functional_tensor(array):
        raise ArgumentError(
            "a tensor within torch.func.functionalize has no memory of its own. Call xtarget.run "
            "outside of it."
        )
    if array.is_nested:
        raise ArgumentError(
            "a nested tensor cannot be passed to a kernel. Call .to_padded_tensor() first."
        )
    if array.layout is not torch.strided:
        raise ArgumentError(
            f"a tensor of layout {array.layout} cannot be passed to a kernel. "
            "Call .to_dense() first."
        )
    if array.device.type != "cpu" and _vendor(array.device.type) is None:
        raise ArgumentError(
            f"a tensor on {array.device} cannot be used; xtarget runs on torch's cuda, "
            "xpu and cpu devices. Move it with .to()."
        )
    if array.is_quantized:
        raise ArgumentError(
            "a quantized tensor holds integers that stand for others. Call .dequantize() first, or "
            ".int_repr() for the integers."
        )
    _dtype_name(array.dtype)
    if array.is_conj() or array.is_neg():
        raise ArgumentError("a lazily negated tensor: call .resolve_neg() before passing it.")
    if array._is_zerotensor():
        raise ArgumentError(
            "a zero tensor of torch's differentiation has no memory. Pass .clone() of it."
        )
    if array.requires_grad and _is_grad_enabled():
        raise ArgumentError(
            "a tensor that requires grad cannot be passed to a kernel while torch records "
            "gradients: xtarget.run has no backward pass, so that its gradient would be lost. Call "
            "torch.ops.xtarget (import xtarget.torch), which has gradients; or pass .detach() of "
            "it, or call xtarget.run within torch.no_grad(), if that is meant."
        )
    if forward_ad._current_level >= 0 and forward_ad.unpack_dual(array).tangent is not None:
        raise ArgumentError(
            "a tensor with a tangent (forward-mode differentiation) cannot be passed to a kernel: "
            "kernels have no derivatives, so that the tangent would be lost. Pass the primal of "
            "torch.autograd.forward_ad.unpack_dual(...) to xtarget.run, if that is meant."
        )
    if not array.data_ptr() and array.numel():
        raise ArgumentError(
            f"a tensor of shape {tuple(array.shape)} has no memory: its storage was freed or never "
            "made. Pass a tensor with values in it."
        )
