"""The operators torch.ops.octet.*: their schemas, kernels for CPU and CUDA tensors, and shapes for tracing."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from .. import _arrays
from .._kept import PlansAsGiven, kept_plan
from .._plan import AttentionPlan
from .._problem import problem
from .._quantize import QuantizedTensor
from .._schemes import OptionsLike, Recipe, RecipeLike, SchemeOptions, options_of, recipe_of
from ..errors import refusal

_WHAT = (
    "str scheme, bool causal, int window_left, int window_right, float? softmax_scale, str recipe, str options, int key_block, str layout, "
    "ScalarType? out_dtype, str backend"
)
_PLAIN = "Tensor q, Tensor k, Tensor v, Tensor? attn_mask, Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, Tensor? k_anchor"
_CODES = (
    "Tensor q, Tensor k, Tensor v, Tensor? q_scale, Tensor? k_scale, Tensor? v_scale, int[3] tokens_per_scale, int v_channels_per_scale, "
    "Tensor? attn_mask, Tensor? cu_seqlens_q, Tensor? cu_seqlens_k"
)
_library = torch.library.Library("octet", "DEF")
for _schema in (
    f"attention({_PLAIN}, {_WHAT}) -> Tensor",
    f"attention_lse({_PLAIN}, {_WHAT}) -> (Tensor, Tensor)",
    f"attention_out(Tensor(a!) out, {_PLAIN}, {_WHAT}) -> ()",
    f"attention_codes({_CODES}, {_WHAT}) -> (Tensor, Tensor)",
):
    _library.define(_schema, tags=(torch.Tag.pt2_compliant_tag,))


# ---- Recipes as text: operators take no structures -------------------------------------------------------------------------------------------
def _parse(text: str) -> dict[str, Any]:
    pairs = (part.split("=", 1) for part in text.split(",")) if text else ()
    return {name: int(value) if name in ("rotation_seed", "table_bits") else value for name, value in pairs}


@lru_cache(maxsize=256)
def _recipe(scheme: str, text: str) -> Recipe | None:
    return recipe_of(scheme, _parse(text)) if text else None


@lru_cache(maxsize=256)
def _options(text: str) -> SchemeOptions | None:
    return options_of(_parse(text)) if text else None


# ---- Kernels -----------------------------------------------------------------------------------------------------------------------------
_given, _given_for_lse = PlansAsGiven(), PlansAsGiven()


def _plan(lse: bool, q, k, v, attn_mask, cu_seqlens_q, cu_seqlens_k, what: tuple, out=None) -> AttentionPlan:
    """The plan of a call, found by what it depends on."""
    return (_given_for_lse if lse else _given).find(
        (q, k, v), attn_mask, cu_seqlens_q, cu_seqlens_k, out, what,
        lambda: _make_plan(lse, q, k, v, attn_mask, cu_seqlens_q, cu_seqlens_k, what, None if out is None else out.dtype),
    )  # fmt: skip


def _make_plan(lse, q, k, v, attn_mask, cu_seqlens_q, cu_seqlens_k, what, out_dtype) -> AttentionPlan:
    scheme, causal, left, right, scale, recipe, options, key_block, layout, wanted_dtype, backend = what
    return kept_plan(
        problem(
            q, k, v, scheme=scheme, causal=causal, window_size=(left, right), softmax_scale=scale, attn_mask=attn_mask,
            cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, recipe=_recipe(scheme, recipe), options=_options(options),
            key_block=key_block, layout=layout, out_dtype=out_dtype or wanted_dtype, return_lse=lse, backend=backend or None,
        )
    )  # fmt: skip


def _attention(q, k, v, attn_mask, cu_seqlens_q, cu_seqlens_k, k_anchor, *what):
    plan = _plan(False, q, k, v, attn_mask, cu_seqlens_q, cu_seqlens_k, what)
    return plan._run(q, k, v, None, attn_mask, cu_seqlens_q, cu_seqlens_k, k_anchor)


def _attention_lse(q, k, v, attn_mask, cu_seqlens_q, cu_seqlens_k, k_anchor, *what):
    plan = _plan(True, q, k, v, attn_mask, cu_seqlens_q, cu_seqlens_k, what)
    return plan._run(q, k, v, None, attn_mask, cu_seqlens_q, cu_seqlens_k, k_anchor)


def _attention_out(out, q, k, v, attn_mask, cu_seqlens_q, cu_seqlens_k, k_anchor, *what):
    plan = _plan(False, q, k, v, attn_mask, cu_seqlens_q, cu_seqlens_k, what, out)
    plan._run(q, k, v, out, attn_mask, cu_seqlens_q, cu_seqlens_k, k_anchor)


def _attention_codes(q, k, v, q_scale, k_scale, v_scale, tokens_per_scale, v_channels, attn_mask, cu_seqlens_q, cu_seqlens_k, *what):
    layout = what[8]
    operands = [
        QuantizedTensor(x, scale, tokens_per_scale=tokens, channels_per_scale=channels, layout=layout)
        for x, scale, tokens, channels in zip((q, k, v), (q_scale, k_scale, v_scale), tokens_per_scale, (0, 0, v_channels))
    ]
    plan = _make_plan(True, *operands, attn_mask, cu_seqlens_q, cu_seqlens_k, (*what[:8], "bhtd", *what[9:]), None)
    o, lse = plan._run(*operands, None, attn_mask, cu_seqlens_q, cu_seqlens_k, None)
    if layout == "bthd":
        o = o.transpose(1, 2).contiguous()
    if q.dim() == 4:
        return o, lse
    # note: a view of one axis less shares memory with nothing else here.
    return (o[0], lse[0]) if q.dim() == 3 else (o[0, 0], lse[0, 0])


_KERNELS = {
    "attention": _attention,
    "attention_lse": _attention_lse,
    "attention_out": _attention_out,
    "attention_codes": _attention_codes,
}
for _name, _kernel in _KERNELS.items():
    for _key in ("CPU", "CUDA"):
        _library.impl(_name, _kernel, _key)


# ---- Shapes for tracing --------------------------------------------------------------------------------------------------------------------
def _refuse_grad(*operands: Any) -> None:
    for argument, x in zip("qkv", operands):
        _arrays.refuse_grad(argument, x)


def _rows_shape(q: Any, layout: str) -> list[Any]:
    shape = list(q.shape[:-1])
    if layout == "bthd" and len(shape) > 1:
        shape[-1], shape[-2] = shape[-2], shape[-1]
    return shape


def _fake_outputs(q: Any, k: Any, v: Any, rest: tuple) -> tuple[Any, Any]:
    """o and the LSE of an operator's arguments, whose last ones are layout, out_dtype and backend."""
    layout, dtype, _ = rest[-3:]
    _refuse_grad(q, k, v)
    o = q.new_empty((*q.shape[:-1], v.shape[-1]), dtype=dtype or q.dtype)
    return o, q.new_empty(_rows_shape(q, layout), dtype=torch.float32)


@torch.library.register_fake("octet::attention", lib=_library)
def _(q, k, v, *rest):
    return _fake_outputs(q, k, v, rest)[0]


@torch.library.register_fake("octet::attention_lse", lib=_library)
def _(q, k, v, *rest):
    return _fake_outputs(q, k, v, rest)


@torch.library.register_fake("octet::attention_out", lib=_library)
def _(out, q, k, v, *rest):
    _refuse_grad(q, k, v)


@torch.library.register_fake("octet::attention_codes", lib=_library)
def _(q, k, v, q_scale, k_scale, v_scale, tokens_per_scale, v_channels, attn_mask, cu_seqlens_q, cu_seqlens_k, scheme, causal, left, right,
      scale, recipe, options, block, layout, dtype, backend):  # fmt: skip
    o = q.new_empty((*q.shape[:-1], v.shape[-1]), dtype=dtype or torch.float32)
    return o, q.new_empty(_rows_shape(q, layout), dtype=torch.float32)


# ---- Their faces -----------------------------------------------------------------------------------------------------------------------------
def what_of(
    scheme: str, causal: bool, window_size: Any, softmax_scale: float | None, recipe: RecipeLike, options: OptionsLike, key_block: int,
    layout: str, out_dtype: Any, backend: str | None,
) -> tuple:  # fmt: skip
    """The arguments of an operator after its tensors."""
    left, right = window_size
    return (
        scheme, causal, -1 if left is None else left, -1 if right is None else right, softmax_scale, _text(recipe),
        _text(options), key_block, layout, out_dtype, backend or "",
    )  # fmt: skip


def _text(fields: Any) -> str:
    """A recipe's or the options' fields as "name=value,..."; "" for the default."""
    if fields is None:
        return ""
    named = fields if isinstance(fields, dict) else vars(fields)
    return ",".join([f"{name}={value}" for name, value in named.items()])


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, scheme: str = "int8", causal: bool = False, window_size: Any = (-1, -1),
    softmax_scale: float | None = None, attn_mask: torch.Tensor | None = None, cu_seqlens_q: torch.Tensor | None = None,
    cu_seqlens_k: torch.Tensor | None = None, recipe: RecipeLike = None, options: OptionsLike = None, key_block: int = 128,
    layout: str = "bhtd", k_anchor: torch.Tensor | None = None, return_lse: bool = False, out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None, backend: str | None = None,
) -> Any:  # fmt: skip
    """octet.attention for torch tensors as an operator: torch.compile and torch.export trace it without a graph break.

    Arguments, results and errors: those of octet.attention; cu_seqlens are int32 tensors, out_dtype is a torch.dtype. With return_lse, out is
    copied to.
    """
    what = what_of(scheme, causal, window_size, softmax_scale, recipe, options, key_block, layout, out_dtype, backend)
    if return_lse:
        o, lse = torch.ops.octet.attention_lse(q, k, v, attn_mask, cu_seqlens_q, cu_seqlens_k, k_anchor, *what)
        if out is not None:
            o = out.copy_(o)
        return o, lse
    if out is not None:
        torch.ops.octet.attention_out(out, q, k, v, attn_mask, cu_seqlens_q, cu_seqlens_k, k_anchor, *what)
        return out
    return torch.ops.octet.attention(q, k, v, attn_mask, cu_seqlens_q, cu_seqlens_k, k_anchor, *what)


def attention_codes(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, q_scale: torch.Tensor | None, k_scale: torch.Tensor | None,
    v_scale: torch.Tensor | None, *, tokens_per_scale: Any = (1, 1, 0), v_channels_per_scale: int = 0, scheme: str = "int8_full",
    causal: bool = False, window_size: Any = (-1, -1), softmax_scale: float | None = None, attn_mask: torch.Tensor | None = None,
    cu_seqlens_q: torch.Tensor | None = None, cu_seqlens_k: torch.Tensor | None = None, options: OptionsLike = None, key_block: int = 128,
    layout: str = "bhtd", out_dtype: torch.dtype | None = None, backend: str | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """(o, lse) of operands that are codes already: q, k and v in the scheme's formats, neither smoothed nor rotated.

    q: [batch, heads, tokens_q, dim] codes, as layout says; q_scale, k_scale, v_scale: float32 [batch, heads, token groups, channel groups], None
    where the format has none. tokens_per_scale: of q, k and v; 0: all. v_channels_per_scale: 1 where V's scales are those of channels. o is
    float32, or out_dtype; lse float32 [batch, heads, tokens_q]. The rest, and errors: as octet.attention.
    """
    what = what_of(scheme, causal, window_size, softmax_scale, None, options, key_block, layout, out_dtype, backend)
    return torch.ops.octet.attention_codes(
        q, k, v, q_scale, k_scale, v_scale, tokens_per_scale, v_channels_per_scale, attn_mask, cu_seqlens_q, cu_seqlens_k, *what
    )


def wrong(argument: str, value: object, rule: str, remedy: str) -> ValueError:
    """The ValueError of a broken rule."""
    return ValueError(refusal(argument, value, rule, remedy))
