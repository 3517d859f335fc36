"""Operands as codes: octet.quantize, octet.QuantizedTensor."""

from __future__ import annotations

import ctypes
from ctypes import addressof, byref
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _abi, _arrays
from ._abi import check, enum_name, enum_value, lib
from ._arrays import NUMPY
from ._kept import kept_plan
from ._plan import AttentionPlan, offsets
from ._problem import TensorSpec, problem
from ._schemes import OptionsLike, RecipeLike
from .errors import refusal

_CANONICAL = _arrays.LAYOUTS["bhtd"]
_OPERANDS = {"q": _abi.Q, "k": _abi.K, "v": _abi.V}
_CODE_FORMATS = {_abi.S8, _abi.U8, _abi.S4, _abi.E4M3, _abi.E5M2}


@dataclass(frozen=True)
class OperandRecipe:
    """How one operand becomes codes; octet.operand_recipe gives a scheme's own.

    format: "s8", "s4", "e4m3", "e5m2": codes with scales; "f16", "bf16", "f32", "f64": converted only. granularity: what shares one
    scale. block: tokens a scale, for "block" and "block_channel". largest_code: what the largest absolute value maps to; 0: 127 (s8),
    7 (s4), 448 (e4m3), 57344 (e5m2). shared_amax: above 0 the largest absolute value of every group; 0: each group's own. scale_rule:
    "nearest", "power_of_two" or "sixteenths". block_floor_octaves, head_floor_octaves: a token's scale is at least 2^-octaves of its
    key block's, its head's largest; 0: no floor. smooth, rotate, equalise, rotation_seed: as in octet.Recipe.
    """

    format: str = "s8"
    granularity: str = "token"
    block: int = 128
    largest_code: float = 0.0
    shared_amax: float = 0.0
    scale_rule: str = "nearest"
    block_floor_octaves: int = 0
    head_floor_octaves: int = 0
    smooth: str = "none"
    rotate: str = "off"
    equalise: str = "off"
    rotation_seed: int = 0


_NAMED = {
    "format": _abi.ENUM_DTYPE,
    "granularity": _abi.ENUM_GRANULARITY,
    "scale_rule": _abi.ENUM_SCALE_RULE,
    "smooth": _abi.ENUM_SMOOTH,
    "rotate": _abi.ENUM_ROTATE,
    "equalise": _abi.ENUM_EQUALISE,
}
_NUMBERS = ("block", "largest_code", "shared_amax", "block_floor_octaves", "head_floor_octaves", "rotation_seed")


def _recipe_from_c(c: _abi.OperandRecipe) -> OperandRecipe:
    named: dict[str, Any] = {name: enum_name(which, getattr(c, name)) for name, which in _NAMED.items()}
    return OperandRecipe(**named, **{name: getattr(c, name) for name in _NUMBERS})


def _recipe_to_c(recipe: OperandRecipe) -> _abi.OperandRecipe:
    c = _abi.OperandRecipe()
    for name, which in _NAMED.items():
        setattr(c, name, enum_value(which, getattr(recipe, name), f"recipe.{name}"))
    for name in _NUMBERS:
        try:
            setattr(c, name, getattr(recipe, name))
        except TypeError:
            raise TypeError(refusal(f"recipe.{name}", repr(getattr(recipe, name)), "it must be a number", "pass an int")) from None
    return c


def operand_recipe(
    scheme: str = "int8", operand: str = "k", *, recipe: RecipeLike = None, options: OptionsLike = None, key_block: int = 128,
    head_dim: int = 64,
) -> OperandRecipe:  # fmt: skip
    """The recipe by which octet.attention makes codes of one operand ("q", "k" or "v") in a scheme.

    recipe, options, key_block: as in octet.attention. ValueError, TypeError: an argument is none of its kind, or the scheme does not
    offer it.
    """
    spec = TensorSpec((1, 1, 1, head_dim))
    made = kept_plan(problem(spec, spec, spec, scheme=scheme, recipe=recipe, options=options, key_block=key_block))
    return _operand_recipe_of(made, operand)


def _operand_recipe_of(plan: AttentionPlan, operand: str) -> OperandRecipe:
    if operand not in _OPERANDS:
        raise ValueError(refusal("operand", repr(operand), "it must be 'q', 'k' or 'v'", "say what the tensor is in the product"))
    c = _abi.OperandRecipe()
    check(lib.octet_operand_recipe_of(plan._handle, _OPERANDS[operand], byref(c)))
    return _recipe_from_c(c)


class QuantizedTensor:
    """Codes and what makes them numbers: real = codes * scales * 2^channel_exponent, un-rotated, with mean added back.

    codes: [batch, heads, tokens, dim] int8, float8_e4m3fn, float8_e5m2 (or float16, bfloat16 and the like without scales); of s4, uint8
    [batch, heads, tokens, dim / 2], the first code in the low four bits. dim is longer than head_dim where the rotation pads.
    scales: float32 [batch, heads, token groups, channel groups]: that of token t and channel c is scales[b, h, t // tokens_per_scale,
    c // channels_per_scale]; 0 there: all tokens, all channels. channel_exponent: int32 [batch, heads, 1, dim]. mean: float32 [batch,
    heads, sequences, dim]. Where sequences are packed, groups of tokens start anew at each.

    octet.quantize makes them, and so may a caller who has codes of a model's own; octet.attention takes three of them and checks them
    against the scheme. The arrays are NumPy's or torch's, of any strides (s4: contiguous), and are not copied.
    """

    def __init__(
        self, codes: Any, scales: Any = None, *, tokens_per_scale: int = 0, channels_per_scale: int = 0, channel_exponent: Any = None,
        mean: Any = None, rotate: bool = False, rotation_seed: int = 0, head_dim: int | None = None, dtype: str | None = None,
        layout: str = "bhtd",
    ) -> None:  # fmt: skip
        kind = _arrays.kind_of("codes", codes)
        axes = _arrays.layout_of(layout)
        if codes.ndim not in axes:
            raise ValueError(refusal("codes.shape", tuple(codes.shape), "it must have 2 to 4 axes", "pass [batch, heads, tokens, dim]"))
        codes = _canonical(codes, axes[codes.ndim])
        self.codes, self.scales, self.channel_exponent, self.mean = codes, scales, channel_exponent, mean
        self.tokens_per_scale, self.channels_per_scale = tokens_per_scale, channels_per_scale
        self.rotate, self.rotation_seed = bool(rotate), rotation_seed
        self._code = _arrays.dtype_code("codes", codes.dtype) if dtype is None else enum_value(_abi.ENUM_DTYPE, dtype, "dtype")
        dims = codes.shape[-1] * (2 if self._code == _abi.S4 else 1)
        self.head_dim = dims if head_dim is None else head_dim
        c = self._c = _abi.QuantizedTensor()
        self._slots: list[Any] = []
        self._fill(kind, c.codes, "codes", codes)
        if self._code == _abi.S4:
            c.codes.dtype = _abi.S4
            c.codes.shape[3] = dims
            for axis in range(3):
                c.codes.stride[axis] *= 2
        for name, x in (("scales", scales), ("channel_exponent", channel_exponent), ("mean", mean)):
            if x is not None:
                self._fill(kind, getattr(c, name), name, x)
        c.tokens_per_scale, c.channels_per_scale = tokens_per_scale, channels_per_scale
        c.rotate, c.rotation_seed = int(self.rotate), rotation_seed

    def _fill(self, kind: str, tensor: _abi.Tensor, argument: str, x: Any) -> None:
        slot = _arrays.SLOTS[kind](argument, tensor, _CANONICAL, False, None if kind == NUMPY else self.codes.device)
        slot.bind(x)
        self._slots.append(slot)

    # ---- What it is -------------------------------------------------------------------------------------------------------------------
    @property
    def shape(self) -> tuple[int, int, int, int]:
        """[batch, heads, tokens, head_dim] of the numbers."""
        return (*self.codes.shape[:3], self.head_dim)

    @property
    def dtype(self) -> str:
        """The codes' format: "s8", "s4", "e4m3", ..."""
        return enum_name(_abi.ENUM_DTYPE, self._code)

    @property
    def nbytes(self) -> int:
        """Bytes of the codes and of what is beside them."""
        parts = (self.codes, self.scales, self.channel_exponent, self.mean)
        return sum(int(np.prod(x.shape)) * x.dtype.itemsize for x in parts if x is not None)

    @property
    def granularity(self) -> str:
        """What shares one scale, as octet.Recipe names it; "none" where there are no scales."""
        if self.scales is None:
            return "none"
        if self.channels_per_scale:
            return "block_channel" if self.tokens_per_scale else "channel"
        if self.tokens_per_scale:
            return "token" if self.tokens_per_scale == 1 else "block"
        c = self._c.scales
        return "tensor" if c.shape[0] * c.shape[1] == 1 or (c.stride[0] == 0 and c.stride[1] == 0) else "head"

    def __repr__(self) -> str:
        details = f"{self.dtype}, scale per {self.granularity}" if self.scales is not None else self.dtype
        return f"<octet.QuantizedTensor {list(self.shape)}: {details}{', rotated' if self.rotate else ''}>"

    def to(self, device: Any) -> QuantizedTensor:
        """The same on another device; torch tensors only."""
        moved = [x if x is None else x.to(device) for x in (self.codes, self.scales, self.channel_exponent, self.mean)]
        return QuantizedTensor(
            moved[0], moved[1], tokens_per_scale=self.tokens_per_scale, channels_per_scale=self.channels_per_scale,
            channel_exponent=moved[2], mean=moved[3], rotate=self.rotate, rotation_seed=self.rotation_seed, head_dim=self.head_dim,
            dtype=self.dtype,
        )  # fmt: skip

    def dequantize(self, *, cu_seqlens: Any = None) -> Any:
        """The real values: float32 [batch, heads, tokens, head_dim]. cu_seqlens: as it was quantised with. On the CPU only."""
        out = _arrays.empty(self.shape, _abi.F32, self.codes)
        view, kept = _arrays.view_of("out", out, _CANONICAL, written=True)
        packing, held = _packing(cu_seqlens, self.codes)
        check(lib.octet_dequantize(byref(self._c), packing, byref(view), None))
        del kept, held
        return out

    # ---- As an operand of a plan ------------------------------------------------------------------------------------------------------
    def _octet_operand(self) -> tuple:
        device = self._c.codes.device
        rotation = ("on", self.rotation_seed) if self.rotate else ("off", 0)
        smooth = "none" if self.mean is None else "mean"
        equalise = "off" if self.channel_exponent is None else "on"
        return self.shape, self._code, device, CodesOf(self.granularity, smooth, rotation, equalise)

    def _bind(self, target: _abi.QuantizedTensor, argument: str, device: Any) -> None:
        if device is not None and getattr(self.codes, "device", None) != device:
            raise TypeError(refusal(f"{argument}.device", getattr(self.codes, "device", "cpu"), f"q lies on {device}", "move it there"))
        ctypes.memmove(addressof(target), addressof(self._c), ctypes.sizeof(self._c))


@dataclass(frozen=True)
class CodesOf:
    """What a plan must know of a quantised operand."""

    granularity: str
    smooth: str
    rotation: tuple[str, int]
    equalise: str


def _canonical(x: Any, order: tuple) -> Any:
    """x with the axes [batch, head, token, dim], as a view."""
    present = [axis for axis in order if axis is not None]
    x = x.transpose(*present) if isinstance(x, np.ndarray) else x.permute(present)
    return x[(None,) * (4 - len(present))]


def _packing(cu_seqlens: Any, like: Any) -> tuple[Any, Any]:
    if cu_seqlens is None:
        return None, None
    kept: list[Any] = []
    count = len(cu_seqlens) - 1
    packing = _abi.Packing(count, offsets("cu_seqlens", cu_seqlens, count, like, kept))
    return byref(packing), (packing, kept)


def quantize(
    x: Any, operand: str = "k", *, scheme: str = "int8", recipe: Any = None, options: OptionsLike = None, key_block: int = 128,
    cu_seqlens: Any = None, layout: str = "bhtd", anchor: Any = None,
) -> QuantizedTensor:  # fmt: skip
    """Codes of x, rounded to nearest with ties to even and clamped symmetrically, as octet.attention makes them of one operand.

    x: [batch, heads, tokens, dim] (or as layout says; batch and heads may be missing), float32, float16 or bfloat16, any strides, NumPy
    or torch on the CPU. operand: "q", "k" or "v". scheme, recipe, options, key_block: as in octet.attention; or recipe is an
    octet.OperandRecipe, which says all by itself. cu_seqlens: packed sequences. anchor: float32 [batch or 1, heads, 1, dim] for recipes
    with smooth "anchor"; None: the first token.

    attention(quantize(q, "q"), quantize(k, "k"), quantize(v, "v")) has the bits of attention(q, k, v) with float32 output. Recipes with one
    scale for Q, K and V (qattn) want shared_amax, the common absolute maximum.

    NonFiniteError: NaN or Inf in x, and the format has none. UnsupportedError, ValueError, TypeError: as octet.attention.
    """
    axes = _arrays.layout_of(layout)
    kind = _arrays.kind_of("x", x)
    if isinstance(recipe, OperandRecipe):
        chosen = recipe
    else:
        chosen = operand_recipe(scheme, operand, recipe=recipe, options=options, key_block=key_block)
    c_recipe = _recipe_to_c(chosen)
    view, kept = _arrays.view_of("x", x, axes)
    if anchor is not None:
        c_recipe.anchor, anchor_kept = _arrays.view_of("anchor", anchor, _CANONICAL)
        kept = (kept, anchor_kept)
    count = 0 if cu_seqlens is None else len(cu_seqlens) - 1
    packing, held = _packing(cu_seqlens, x)
    written = _abi.QuantizedTensor()
    check(lib.octet_quantized_layout(view.shape, byref(c_recipe), count, byref(written)))
    parts = {}
    for name in ("codes", "scales", "channel_exponent", "mean"):
        tensor = getattr(written, name)
        parts[name] = _allocate(tensor, kind, x) if any(tensor.shape) else None
    status = lib.octet_quantize(byref(view), byref(c_recipe), packing, byref(written), None)
    check(status)
    del kept, held
    return QuantizedTensor(
        parts["codes"], parts["scales"], tokens_per_scale=written.tokens_per_scale, channels_per_scale=written.channels_per_scale,
        channel_exponent=parts["channel_exponent"], mean=parts["mean"], rotate=bool(written.rotate), rotation_seed=written.rotation_seed,
        head_dim=x.shape[-1], dtype=chosen.format,
    )  # fmt: skip


def _allocate(tensor: _abi.Tensor, kind: str, like: Any) -> Any:
    """Memory for what octet_quantized_layout describes, as an array of its shape; points the C tensor at it."""
    shape = list(tensor.shape)
    shared = not any(tensor.stride) and 0 not in shape  # one number for all
    stored = [1] * 4 if shared else shape.copy()
    if tensor.dtype == _abi.S4:
        stored[3] //= 2
    array = _arrays.empty(stored, tensor.dtype, like)
    tensor.data = _arrays.address(array) if kind == NUMPY else array.data_ptr()
    if not shared or shape == stored:
        return array
    return np.broadcast_to(array, shape) if kind == NUMPY else array.expand(shape)


__all__ = ["OperandRecipe", "QuantizedTensor", "operand_recipe", "quantize"]
