"""The arguments that say what to compute, as octet_attention_desc."""

from __future__ import annotations

from ctypes import byref
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _abi, _arrays
from ._abi import check, lib
from ._schemes import OptionsLike, RecipeLike, options_of, options_to_c, recipe_of, recipe_to_c, scheme_value
from .errors import UnsupportedError, refusal


@dataclass(frozen=True)
class TensorSpec:
    """An array that is not there yet: what octet.plan needs to know of it.

    shape: as the array's. dtype: octet's name ("f32", "f16", "bf16") or NumPy's or torch's dtype. device: "cpu" or "cuda".
    """

    shape: tuple[int, ...]
    dtype: Any = "f32"
    device: str = "cpu"


@dataclass(frozen=True)
class Problem:
    """All of a call but its data; hashable, so that plans can be kept by it."""

    q: tuple
    k: tuple
    v: tuple
    scheme: str
    causal: bool
    window: tuple[int, int]
    softmax_scale: float | None
    bias: int
    sequences: int
    recipe: Any
    options: Any
    key_block: int
    layout: str
    output: int | None
    wants_lse: bool
    backend: str | None


def operand(argument: str, x: Any) -> tuple:
    """(shape, dtype, device) of an array, or of what stands for one; hashable."""
    if type(x) is np.ndarray:
        return x.shape, x.dtype, _abi.CPU
    described = getattr(x, "_octet_operand", None)
    if described is not None:  # QuantizedTensor
        return described()
    if isinstance(x, TensorSpec):
        device = _abi.enum_value(_abi.ENUM_DEVICE, x.device, f"{argument}.device")
        return tuple(x.shape), _arrays.code_of_name(f"{argument}.dtype", x.dtype), device
    if _arrays.kind_of(argument, x) == _arrays.NUMPY:
        return x.shape, x.dtype, _abi.CPU
    return x.shape, x.dtype, _arrays.torch_device(argument, x)


def window_of(window_size: Any) -> tuple[int, int]:
    """(left, right) with -1 for all; None counts as -1."""
    try:
        left, right = window_size
        left, right = (-1 if side is None else side.__index__() for side in (left, right))
    except (TypeError, ValueError, AttributeError):
        raise TypeError(
            refusal("window_size", repr(window_size), "it must be a pair of whole numbers (left, right)", "pass (-1, -1) to see all keys")
        ) from None
    return left, right


def flag_of(argument: str, value: Any) -> bool:
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise TypeError(refusal(argument, repr(value), "it must be True or False", "pass a bool"))


def bias_of(attn_mask: Any) -> int:
    if attn_mask is None:
        return _abi.BIAS_NONE
    code = _arrays.dtype_code("attn_mask", attn_mask.dtype) if hasattr(attn_mask, "dtype") else None
    if code is None:
        _arrays.kind_of("attn_mask", attn_mask)
    if code == _abi.BOOLEAN:
        return _abi.BIAS_BOOLEAN
    if code in (_abi.F32, _abi.F16, _abi.BF16):
        return _abi.BIAS_ADDITIVE
    raise TypeError(
        refusal("attn_mask.dtype", attn_mask.dtype, "it must be bool (True: visible) or float32, float16 or bfloat16 (added to scores)",
                "convert it to one of them")
    )  # fmt: skip


def sequences_of(cu_seqlens_q: Any, cu_seqlens_k: Any) -> int:
    """Number of packed sequences; 0 where the tensors are dense."""
    if cu_seqlens_q is None and cu_seqlens_k is None:
        return 0
    if cu_seqlens_q is None:
        raise ValueError(
            refusal("cu_seqlens_q", "None", "cu_seqlens_k is given", "pass both, or cu_seqlens_q alone where they are the same")
        )
    count = len(cu_seqlens_q) - 1
    other = count if cu_seqlens_k is None else len(cu_seqlens_k) - 1
    if count < 1:
        raise ValueError(
            refusal("len(cu_seqlens_q)", count + 1, "it must be the number of sequences + 1", "pass running sums of the lengths")
        )
    if other != count:
        raise ValueError(
            refusal("len(cu_seqlens_k)", other + 1, f"cu_seqlens_q has {count + 1} offsets", "pass as many: one a sequence, and the total")
        )
    return count


def problem(
    q: Any, k: Any, v: Any, *, scheme: str = "int8", causal: bool = False, window_size: Any = (-1, -1), softmax_scale: float | None = None,
    attn_mask: Any = None, cu_seqlens_q: Any = None, cu_seqlens_k: Any = None, recipe: RecipeLike = None, options: OptionsLike = None,
    key_block: int = 128, layout: str = "bhtd", out: Any = None, out_dtype: Any = None, return_lse: bool = False,
    backend: str | None = None,
) -> Problem:  # fmt: skip
    """The problem that the arguments of octet.attention mean. TypeError, ValueError: an argument is none of its kind."""
    if out_dtype is not None:
        output = _arrays.code_of_name("out_dtype", out_dtype)
    elif out is not None and hasattr(out, "dtype"):
        output = _arrays.dtype_code("out", out.dtype)
    else:
        output = None
    if isinstance(recipe, dict):
        recipe = recipe_of(scheme, recipe)
    if isinstance(options, dict):
        options = options_of(options)
    if backend is not None and not isinstance(backend, str):
        raise TypeError(refusal("backend", repr(backend), "it must be a name (str) or None", "choose of octet.backends()"))
    return Problem(
        operand("q", q), operand("k", k), operand("v", v), scheme, flag_of("causal", causal),
        (-1, -1) if window_size == (-1, -1) else window_of(window_size),
        softmax_scale if softmax_scale is None else _real("softmax_scale", softmax_scale),
        bias_of(attn_mask), sequences_of(cu_seqlens_q, cu_seqlens_k), recipe, options, key_block if type(key_block) is int else _count("key_block", key_block), layout, output,
        flag_of("return_lse", return_lse), backend,
    )  # fmt: skip


def _real(argument: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(refusal(argument, repr(value), "it must be a number", "pass None for 1 / sqrt(head_dim)")) from None


def _placeholder(argument: str, operand: tuple, axes: dict[int, tuple]) -> _abi.Tensor:
    """The operand's shape and format, without data."""
    shape, dtype, device = operand[:3]
    code = dtype if isinstance(dtype, int) else _arrays.dtype_code(argument, dtype)
    tensor = _abi.Tensor()
    try:
        _arrays.fill(tensor, argument, axes, None, code, device, shape, (0,) * len(shape))
    except TypeError:
        raise TypeError(refusal(f"{argument}.shape", repr(shape), "it must be whole numbers", "pass a tuple of ints")) from None
    return tensor


def describe(p: Problem) -> _abi.AttentionDesc:
    """The C description of a problem. ValueError and UnsupportedError carry the library's sentence."""
    axes = _arrays.layout_of(p.layout)
    operands = {"q": p.q, "k": p.k, "v": p.v}
    quantised = [len(x) > 3 for x in operands.values()]
    if any(quantised) and not all(quantised):
        given = ", ".join(f"{name} {'codes' if is_code else 'plain'}" for name, is_code in zip(operands, quantised))
        raise TypeError(
            refusal("q, k, v", given, "either all three are octet.QuantizedTensor or none is", "quantise the others with octet.quantize")
        )
    for name, x in () if quantised[0] else operands.items():
        _check_plain(name, x[1], p.q[1])
    for name in ("k", "v"):
        if operands[name][2] != p.q[2]:
            devices = _abi.enum_names(_abi.ENUM_DEVICE)
            raise TypeError(
                refusal(f"{name}.device", devices[operands[name][2]], f"q lies on {devices[p.q[2]]}", "move them to one device")
            )
    if quantised[0] and p.layout != "bhtd":
        raise ValueError(refusal("layout", repr(p.layout), "quantised operands are [batch, heads, tokens, dim]", "transpose the result"))
    # note: V's codes may have a format of their own; the description names that of Q and K.
    tensors = [_placeholder(name, (x[0], p.q[1], x[2]) if quantised[0] else x, axes) for name, x in operands.items()]
    desc = _abi.AttentionDesc()
    scheme = scheme_value(p.scheme)
    check(lib.octet_attention_desc_init(byref(desc), scheme, *(byref(tensor) for tensor in tensors)))
    desc.mask = int(p.causal)
    desc.bias = p.bias
    desc.wants_lse = int(p.wants_lse)
    desc.window_left, desc.window_right = p.window
    desc.key_block = p.key_block
    desc.sequences = p.sequences
    if p.softmax_scale is not None:
        desc.softmax_scale = p.softmax_scale
    if p.recipe is not None:
        desc.recipe = recipe_to_c(recipe_of(p.scheme, p.recipe))
    if p.options is not None:
        desc.options = options_to_c(options_of(p.options))
    if quantised[0]:
        desc.recipe = recipe_to_c(recipe_of(p.scheme, p.recipe or _recipe_of_codes(p)))
        desc.output = _abi.F32 if p.output is None else p.output
    else:
        desc.output = tensors[0].dtype if p.output is None else p.output
    return desc


def _check_plain(argument: str, dtype: Any, dtype_of_q: Any) -> None:
    code = dtype if isinstance(dtype, int) else _arrays.dtype_code(argument, dtype)
    if code not in (_abi.F32, _abi.F16, _abi.BF16):
        remedy = "convert it to float32; codes come as octet.QuantizedTensor"
        raise TypeError(refusal(f"{argument}.dtype", _text(dtype), "it must be float32, float16 or bfloat16", remedy))
    if code != (dtype_of_q if isinstance(dtype_of_q, int) else _arrays.dtype_code("q", dtype_of_q)):
        raise TypeError(
            refusal(f"{argument}.dtype", _text(dtype), f"q's is {_text(dtype_of_q)}", "convert one of them: q, k and v share a dtype")
        )


def _recipe_of_codes(p: Problem) -> dict[str, Any]:
    """The recipe by which three quantised operands were made, as they tell it themselves."""
    q, k, v = (x[3] for x in (p.q, p.k, p.v))
    rotate, seed = q.rotation
    told = {"smooth": k.smooth, "rotate": rotate, "equalise": v.equalise, "rotation_seed": seed}
    told.update({name: x.granularity for name, x in (("q", q), ("k", k), ("v", v)) if x.granularity != "none"})
    return told


def _count(argument: str, value: Any) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(refusal(argument, repr(value), "it must be a whole number", "pass an int"))
    return value.__index__()


def _text(dtype: Any) -> str:
    return _abi.enum_name(_abi.ENUM_DTYPE, dtype) if isinstance(dtype, int) else str(dtype)


__all__ = ["Problem", "TensorSpec", "UnsupportedError", "describe", "problem"]
