"""NumPy arrays and torch tensors as octet_tensor. torch is looked at only where the caller has imported it."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from . import _abi
from .errors import UnsupportedError, refusal

NUMPY, TORCH = "numpy", "torch"

# ---- Layouts: for each canonical axis (batch, head, token, dim), which axis of the array it is; None: there is none, length 1 ------------
LAYOUTS = {
    "bhtd": {4: (0, 1, 2, 3), 3: (None, 0, 1, 2), 2: (None, None, 0, 1)},
    "bthd": {4: (0, 2, 1, 3), 3: (None, 1, 0, 2), 2: (None, None, 0, 1)},
}
ROWS = {3: (0, 1, 2, None), 2: (None, 0, 1, None), 1: (None, None, 0, None)}  # one number a query: [batch, heads, tokens]
SCORES = {4: (0, 1, 2, 3), 3: (None, 0, 1, 2), 2: (None, None, 0, 1), 1: (None, None, None, 0), 0: (None,) * 4}
LAYOUT_TEXT = {"bhtd": "[batch, heads, tokens, dim]", "bthd": "[batch, tokens, heads, dim]"}


def layout_of(layout: object) -> dict[int, tuple]:
    """The axes of a layout by rank. ValueError names the layouts."""
    if not isinstance(layout, str) or layout not in LAYOUTS:
        raise ValueError(
            refusal("layout", repr(layout), "it must be 'bhtd' or 'bthd'", "pass the order of the axes batch, heads, tokens and dim")
        )
    return LAYOUTS[layout]


# ---- Kinds and dtypes --------------------------------------------------------------------------------------------------------------------
_NUMPY_CODES = {
    "float32": _abi.F32, "float16": _abi.F16, "bfloat16": _abi.BF16, "float64": _abi.F64, "int8": _abi.S8, "uint8": _abi.U8,
    "float8_e4m3fn": _abi.E4M3, "float8_e5m2": _abi.E5M2, "int32": _abi.S32, "bool": _abi.BOOLEAN,
}  # fmt: skip
_NUMPY_BY_CODE = {code: name for name, code in _NUMPY_CODES.items()}
_codes_by_dtype: dict[Any, int] = {}  # numpy.dtype and torch.dtype: both hash


def torch_module() -> Any:
    """The caller's torch, or None: octet never imports it by itself."""
    return sys.modules.get("torch")


def is_torch(x: object) -> bool:
    torch = torch_module()
    return torch is not None and isinstance(x, torch.Tensor)


def kind_of(argument: str, x: object) -> str:
    """ "numpy" or "torch". TypeError for anything else."""
    if isinstance(x, np.ndarray):
        return NUMPY
    if is_torch(x):
        return TORCH
    raise TypeError(
        refusal(
            argument, f"of type {type(x).__module__}.{type(x).__qualname__}", "it must be a NumPy array or a torch tensor",
            f"pass numpy.asarray({argument}) or torch.as_tensor({argument})",
        )
    )  # fmt: skip


def dtype_code(argument: str, dtype: Any) -> int:
    """The library's number of a NumPy or torch dtype. TypeError where it has none."""
    code = _codes_by_dtype.get(dtype)
    if code is not None:
        return code
    name = str(dtype).removeprefix("torch.")
    if name in _NUMPY_CODES and getattr(dtype, "isnative", True):
        code = _codes_by_dtype[dtype] = _NUMPY_CODES[name]
        return code
    convert = "astype(numpy.float32)" if isinstance(dtype, np.dtype) else "to(torch.float32)"
    raise TypeError(
        refusal(
            f"{argument}.dtype", name, "it must be float32, float16 or bfloat16 in the machine's byte order (or the dtype of a scheme's codes)",
            f"convert it with {argument}.{convert}",
        )
    )  # fmt: skip


def numpy_dtype(code: int) -> np.dtype:
    """The NumPy dtype of a number of the library. TypeError for bf16 and e4m3 without the package ml_dtypes."""
    name = _NUMPY_BY_CODE.get(code)
    if name is None:  # s4: two codes a byte
        return np.dtype(np.uint8)
    try:
        return np.dtype(name)
    except TypeError:
        pass
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(refusal("dtype", name, "NumPy has no such numbers by itself", "install ml_dtypes, or ask for float32")) from None
    return np.dtype(getattr(ml_dtypes, name))


def torch_dtype(code: int) -> Any:
    name = _NUMPY_BY_CODE.get(code, "uint8")
    return getattr(torch_module(), name)


def code_of_name(argument: str, given: Any) -> int:
    """The number of a dtype given as octet's name ("f16"), or as NumPy's or torch's dtype."""
    if isinstance(given, str) and given in _names():
        return _names()[given]
    torch = torch_module()
    if torch is not None and isinstance(given, torch.dtype):
        return dtype_code(argument, given)
    try:
        return dtype_code(argument, np.dtype(given))
    except TypeError:
        known = ", ".join(_names())
        raise TypeError(refusal(argument, repr(given), "it is no dtype of octet's", f"choose one of {known}")) from None


_name_table: dict[str, int] = {}


def _names() -> dict[str, int]:
    if not _name_table:
        _name_table.update({name: i for i, name in enumerate(_abi.enum_names(_abi.ENUM_DTYPE))})
    return _name_table


# ---- Addresses ---------------------------------------------------------------------------------------------------------------------------
def _address_by_interface(x: np.ndarray) -> int:
    """Where an array's first element lies, by NumPy's array interface protocol."""
    return x.__array_interface__["data"][0]


_word_at = ctypes.c_size_t.from_address
_DATA = object.__basicsize__  # bytes into an array's object: its data pointer follows the object's header


def _address_by_field(x: np.ndarray) -> int:
    """The same, read from the array's object itself, as NumPy's own macro PyArray_DATA does in every compiled extension.

    note: 0.15 us against 1.1 us, and a call has four arrays.
    """
    return _word_at(id(x) + _DATA).value


def _fields_are_readable() -> bool:
    if sys.implementation.name != "cpython":
        return False
    samples = [np.arange(6.0), np.arange(24).reshape(2, 3, 4)[1:, ::-1, 2:], np.empty((0, 3), np.float16)]
    return all(_address_by_field(x) == _address_by_interface(x) for x in samples)


address = _address_by_field if _fields_are_readable() else _address_by_interface


# ---- Binding -----------------------------------------------------------------------------------------------------------------------------
def fill(tensor: _abi.Tensor, argument: str, axes: dict[int, tuple], data: int | None, code: int, device: int, shape, strides) -> None:
    """Writes an array's view, strides in elements, into an octet_tensor."""
    order = axes.get(len(shape))
    if order is None:
        ranks = " or ".join(str(rank) for rank in sorted(axes))
        raise ValueError(
            refusal(f"{argument}.shape", f"{tuple(shape)}", f"it must have {ranks} axes", "add axes of length 1, or reshape it")
        )
    tensor.data, tensor.dtype, tensor.device = data, code, device
    for i, axis in enumerate(order):
        tensor.shape[i] = 1 if axis is None else shape[axis]
        tensor.stride[i] = 0 if axis is None else strides[axis]


class NumpySlot:
    """One tensor argument of a call that takes NumPy arrays. What changes between calls of one plan is the address alone, as a rule."""

    __slots__ = ("argument", "axes", "device", "dtype", "kept", "shape", "strides", "tensor", "written")

    def __init__(self, argument: str, tensor: _abi.Tensor, axes: dict[int, tuple], written: bool, device: Any = None) -> None:
        self.argument, self.tensor, self.axes, self.written, self.device = argument, tensor, axes, written, device
        self.shape = self.strides = self.dtype = self.kept = None

    def bind(self, x: Any) -> None:
        """Points the C argument at x. TypeError, ValueError: x is not what can be read (or written)."""
        if type(x) is np.ndarray and x.strides == self.strides and x.shape == self.shape and x.dtype is self.dtype:
            if self.written and not x.flags.writeable:
                self._refuse_read_only()
            self.tensor.data = address(x)
            return
        self._bind_anew(x)

    def _bind_anew(self, x: Any) -> None:
        argument = self.argument
        if not isinstance(x, np.ndarray):
            if is_torch(x):
                raise TypeError(refusal(argument, "a torch tensor", "the other arguments are NumPy arrays", "pass arrays of one library"))
            kind_of(argument, x)
        if isinstance(x, np.ma.MaskedArray):
            raise TypeError(
                refusal(argument, "a masked array", "octet does not look at its mask", f"pass {argument}.filled(0), and attn_mask")
            )
        code = dtype_code(argument, x.dtype)
        if self.written and not x.flags.writeable:
            self._refuse_read_only()
        cached = x
        if not x.flags.aligned or any(stride % x.itemsize for stride in x.strides):
            if self.written:
                raise ValueError(
                    refusal(argument, f"misaligned (strides of {x.strides} bytes)", f"elements must lie on multiples of {x.itemsize} bytes",
                            "pass memory made by numpy.empty")
                )  # fmt: skip
            x = self.kept = x.copy()
            cached = None
        fill(self.tensor, argument, self.axes, address(x), code, _abi.CPU, x.shape, [stride // x.itemsize for stride in x.strides])
        if cached is None:
            self.shape = self.strides = self.dtype = None
        else:
            self.shape, self.strides, self.dtype, self.kept = x.shape, x.strides, x.dtype, None

    def _refuse_read_only(self) -> None:
        raise ValueError(refusal(self.argument, "read-only", "results are written to it", "pass a writeable array, or none"))


class TorchSlot:
    """One tensor argument of a call that takes torch tensors."""

    __slots__ = ("argument", "axes", "device", "dtype", "kept", "shape", "strides", "tensor", "written")

    def __init__(self, argument: str, tensor: _abi.Tensor, axes: dict[int, tuple], written: bool, device: Any = None) -> None:
        self.argument, self.tensor, self.axes, self.written, self.device = argument, tensor, axes, written, device
        self.shape = self.strides = self.dtype = self.kept = None

    def bind(self, x: Any) -> None:
        """Points the C argument at x. TypeError, ValueError: x is not what can be read (or written)."""
        torch = sys.modules["torch"]
        if isinstance(x, torch.Tensor) and not (x.requires_grad and torch.is_grad_enabled()):
            if x.shape == self.shape and x.stride() == self.strides and x.dtype is self.dtype and x.device == self.device:
                self.tensor.data = x.data_ptr()
                return
        self._bind_anew(torch, x)

    def _bind_anew(self, torch: Any, x: Any) -> None:
        argument = self.argument
        if not isinstance(x, torch.Tensor):
            if isinstance(x, np.ndarray):
                raise TypeError(
                    refusal(argument, "a NumPy array", "the other arguments are torch tensors", f"pass torch.from_numpy({argument})")
                )
            kind_of(argument, x)
        refuse_grad(argument, x)
        code = dtype_code(argument, x.dtype)
        device = torch_device(argument, x)
        if self.device is not None and x.device != self.device:
            raise TypeError(
                refusal(
                    f"{argument}.device", x.device, f"the call's tensors lie on {self.device}", f"pass {argument}.to({str(self.device)!r})"
                )
            )
        if x.layout is not torch.strided:
            raise TypeError(refusal(f"{argument}.layout", x.layout, "it must be torch.strided", f"pass {argument}.to_dense()"))
        self.kept = None
        if x.is_neg():  # its memory holds the numbers' negations
            x = self.kept = x.resolve_neg()
        fill(self.tensor, argument, self.axes, x.data_ptr(), code, device, x.shape, x.stride())
        self.shape, self.strides, self.dtype, self.device = (x.shape, x.stride(), x.dtype, x.device)
        if self.kept is not None:
            self.shape = None


def refuse_grad(argument: str, x: Any) -> None:
    """UnsupportedError where autograd would want a gradient through x."""
    if x.requires_grad and torch_module().is_grad_enabled():
        raise UnsupportedError(
            refusal(
                f"{argument}.requires_grad",
                True,
                "octet computes no gradients",
                f"call it under torch.no_grad(), or pass {argument}.detach()",
            )
        )


def torch_device(argument: str, x: Any) -> int:
    kind = x.device.type
    if kind == "cpu":
        return _abi.CPU
    if kind == "cuda":
        return _abi.CUDA
    raise TypeError(
        refusal(f"{argument}.device", x.device, "octet computes on CPUs and on CUDA devices", f"pass {argument}.cpu() or {argument}.cuda()")
    )


SLOTS: dict[str, Any] = {NUMPY: NumpySlot, TORCH: TorchSlot}


def view_of(argument: str, x: Any, axes: dict[int, tuple], written: bool = False) -> tuple[_abi.Tensor, Any]:
    """x as an octet_tensor, and the slot that keeps what it points at alive."""
    tensor = _abi.Tensor()
    slot = SLOTS[kind_of(argument, x)](argument, tensor, axes, written)
    slot.bind(x)
    return tensor, slot


def empty(shape: Sequence[int], code: int, like: Any) -> Any:
    """A new contiguous array of the library, and on the device, of `like`."""
    if isinstance(like, np.ndarray):
        return np.empty(shape, like.dtype if _codes_by_dtype.get(like.dtype) == code else numpy_dtype(code))
    torch, dtype = torch_module(), like.dtype
    is_alike = _codes_by_dtype.get(dtype) == code
    if is_alike and like.shape == shape and type(like) is torch.Tensor and like.is_contiguous():
        return torch.empty_like(like)  # takes half as long
    return torch.empty(shape, dtype=dtype if is_alike else torch_dtype(code), device=like.device)


# ---- GPUs: what a call asks torch for, a microsecond each by its public functions ---------------------------------------------------------
_HERE = nullcontext()


def current_device(index: int) -> Any:
    """A context in which the GPU of this number is the current one."""
    cuda = sys.modules["torch"].cuda
    return _HERE if cuda.current_device() == index else cuda.device(index)


def current_stream(index: int) -> int:
    """Where torch's current stream of a GPU is, as the CUDA run time knows it."""
    torch = sys.modules["torch"]
    quick = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # what torch's own compiled code asks
    return torch.cuda.current_stream(index).cuda_stream if quick is None else quick(index)


# ---- Workspaces --------------------------------------------------------------------------------------------------------------------------
_ALIGNMENT = 64  # bytes, as octet.h asks
_MOST_KEPT = 256 << 20  # bytes: what a thread keeps between calls; more is given back at once
_thread = threading.local()


class _Buffer:
    __slots__ = ("address", "bytes", "memory")

    def __init__(self, size: int) -> None:
        self.memory = np.empty(size + _ALIGNMENT - 1, np.uint8)
        self.address = -(-address(self.memory) // _ALIGNMENT) * _ALIGNMENT
        self.bytes = size


def workspace(size: int) -> _Buffer:
    """At least `size` bytes of host memory for a call of this thread, aligned. A thread has one, which grows."""
    buffer: _Buffer | None = getattr(_thread, "buffer", None)
    if buffer is not None and buffer.bytes >= size:
        return buffer
    buffer = _Buffer(max(size, 4096))
    if size <= _MOST_KEPT:
        _thread.buffer = buffer
    return buffer
