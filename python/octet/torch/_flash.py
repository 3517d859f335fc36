"""flash_attn_func, flash_attn_varlen_func and int8_flash_attention: FlashAttention's and INT-FlashAttention's names in octet's schemes."""

from __future__ import annotations

from typing import Any

import torch

from .._schemes import OptionsLike, RecipeLike
from ..errors import UnsupportedError, refusal
from ._ops import attention, attention_codes, wrong

_FP8 = (torch.float8_e4m3fn,)


def flash_attn_func(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False,
    window_size: Any = (-1, -1), softcap: float = 0.0, alibi_slopes: torch.Tensor | None = None, deterministic: bool = False,
    return_attn_probs: bool = False, *, q_descale: torch.Tensor | None = None, k_descale: torch.Tensor | None = None,
    v_descale: torch.Tensor | None = None, qv: torch.Tensor | None = None, attention_chunk: int = 0, num_splits: int = 1,
    pack_gqa: bool | None = None, sm_margin: int = 0, return_lse: bool = False, scheme: str | None = None, recipe: RecipeLike = None,
    options: OptionsLike = None, key_block: int = 128, backend: str | None = None,
) -> Any:  # fmt: skip
    """FlashAttention's function in one of octet's schemes.

    q: [batch, tokens_q, heads, dim]; k, v: [batch, tokens_k, heads_kv, dim]; float16, bfloat16 or float32, in scheme ("int8" where it is None); or
    float8_e4m3fn with FlashAttention-3's q_descale, k_descale and v_descale, float32 [batch, heads_kv] (None: 1), in scheme "fp8" or another
    with e4m3 operands, and then the output is bfloat16. Causal masks and windows are aligned at the bottom right. alibi_slopes: float32 [heads] or
    [batch, heads]; added as a bias of [heads, tokens_q, tokens_k]. deterministic, num_splits, pack_gqa, sm_margin change no value here: every
    call gives the same bits.

    Returns [batch, tokens_q, heads, dim]; with return_lse (o, lse), with return_attn_probs (o, lse, None); lse is float32 [batch, heads, tokens_q].
    Refused (UnsupportedError): dropout_p, softcap, qv, attention_chunk; and tensors that require grad. Other errors: as octet.attention.
    """
    _refuse_others(dropout_p, softcap, qv, attention_chunk)
    bias = None if alibi_slopes is None else alibi_bias(alibi_slopes, q.shape[1], k.shape[1])
    common: dict[str, Any] = {
        "causal": causal, "window_size": window_size, "softmax_scale": softmax_scale, "attn_mask": bias, "options": options,
        "key_block": key_block, "layout": "bthd", "backend": backend,
    }  # fmt: skip
    scales = _descales(q, k, (q_descale, k_descale, v_descale), q.shape[0], sequences=False) if q.dtype in _FP8 else None
    if scales is None:
        _refuse_descales(q, q_descale, k_descale, v_descale)
    return _in_a_scheme(q, k, v, scales, scheme, recipe, return_lse, return_attn_probs, common)


def flash_attn_varlen_func(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens_q: torch.Tensor, cu_seqlens_k: torch.Tensor, max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None, dropout_p: float = 0.0, softmax_scale: float | None = None, causal: bool = False,
    window_size: Any = (-1, -1), softcap: float = 0.0, alibi_slopes: torch.Tensor | None = None, deterministic: bool = False,
    return_attn_probs: bool = False, block_table: torch.Tensor | None = None, *, q_descale: torch.Tensor | None = None,
    k_descale: torch.Tensor | None = None, v_descale: torch.Tensor | None = None, qv: torch.Tensor | None = None, attention_chunk: int = 0,
    num_splits: int = 1, pack_gqa: bool | None = None, sm_margin: int = 0, seqused_q: torch.Tensor | None = None,
    seqused_k: torch.Tensor | None = None, return_lse: bool = False, scheme: str | None = None, recipe: RecipeLike = None,
    options: OptionsLike = None, key_block: int = 128, backend: str | None = None,
) -> Any:  # fmt: skip
    """FlashAttention's function for packed sequences in one of octet's schemes.

    q: [total_q, heads, dim]; k, v: [total_k, heads_kv, dim]; cu_seqlens_q, cu_seqlens_k: int32 [sequences + 1]. Descales: float32 [sequences,
    heads_kv]. max_seqlen_q and max_seqlen_k are not needed. lse is float32 [heads, total_q]. The rest: as flash_attn_func.
    Refused besides: alibi_slopes (packed sequences take no bias), block_table, seqused_q, seqused_k.
    """
    _refuse_others(dropout_p, softcap, qv, attention_chunk)
    for name, value in (("alibi_slopes", alibi_slopes), ("block_table", block_table), ("seqused_q", seqused_q), ("seqused_k", seqused_k)):
        if value is not None:
            raise UnsupportedError(refusal(name, "given", "packed sequences take none in octet", "pass None, and each sequence whole"))
    common: dict[str, Any] = {
        "causal": causal, "window_size": window_size, "softmax_scale": softmax_scale, "cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k,
        "options": options, "key_block": key_block, "layout": "bthd", "backend": backend,
    }  # fmt: skip
    scales = _descales(q, k, (q_descale, k_descale, v_descale), cu_seqlens_q.shape[0] - 1, sequences=True) if q.dtype in _FP8 else None
    if scales is None:
        _refuse_descales(q, q_descale, k_descale, v_descale)
    return _in_a_scheme(q, k, v, scales, scheme, recipe, return_lse, return_attn_probs, common)


def _in_a_scheme(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scales: Any, scheme: str | None, recipe: RecipeLike, return_lse: bool, return_attn_probs: bool,
    common: dict[str, Any],
) -> Any:  # fmt: skip
    """What FlashAttention's functions return: of codes in FP8, which scales says, or of numbers where it is None."""
    if scales is not None:
        o, lse = attention_codes(q, k, v, *scales, tokens_per_scale=(0, 0, 0), scheme=scheme or "fp8", out_dtype=torch.bfloat16, **common)
        return _results(o, lse, return_lse, return_attn_probs)
    wants = return_lse or return_attn_probs
    out = attention(q, k, v, scheme=scheme or "int8", recipe=recipe, return_lse=wants, **common)
    return _results(out[0], out[1], return_lse, return_attn_probs) if wants else out


def int8_flash_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, q_scale: torch.Tensor, k_scale: torch.Tensor, v_scale: torch.Tensor | None = None, *,
    causal: bool = False, window_size: Any = (-1, -1), softmax_scale: float | None = None, attn_mask: torch.Tensor | None = None,
    cu_seqlens_q: torch.Tensor | None = None, cu_seqlens_k: torch.Tensor | None = None, return_lse: bool = False, scheme: str | None = None,
    options: OptionsLike = None, key_block: int = 128, layout: str = "bhtd", out_dtype: torch.dtype | None = None, backend: str | None = None,
) -> Any:  # fmt: skip
    """Attention of operands that were quantised beforehand: int8 q and k, and v in int8 or 16 bits; real = code * scale.

    q: [batch, heads, tokens_q, dim] int8; k: [batch, heads_kv, tokens_k, dim] int8 (or as layout says). q_scale, k_scale: float32, one a tensor [],
    one a head [batch, heads], one a token [batch, heads, tokens] or one a block of key_block tokens [batch, heads, blocks]. v: int8 with v_scale
    as these or one a channel [batch, heads_kv, dim] (told from tokens by name: pass [batch, heads_kv, 1, dim]); or float16, bfloat16 or float32
    without v_scale, multiplied in float16. Scales are heads first in either layout.
    scheme: "int8_full" (INT-FlashAttention) where v is int8 with a scale a tensor, head, block or channel; "int8" where it is one a token;
    "int8_half" where v is not int8. Returns o in out_dtype (v's dtype, or float32 where v is int8), or (o, lse).
    TypeError, ValueError: a dtype or shape that is none of these. UnsupportedError: the scheme does not take such scales.
    """
    for name, x in (("q", q), ("k", k)):
        if x.dtype != torch.int8:
            raise TypeError(refusal(f"{name}.dtype", x.dtype, "it must be int8", "quantise it, or call octet.torch.attention"))
    token_axis = -2 if layout == "bhtd" else -3
    if q.dim() < 3 and layout == "bthd":
        token_axis = -2
    q_scales, q_tokens, _ = _scales("q_scale", q_scale, q, token_axis, layout, key_block, cu_seqlens_q)
    k_scales, k_tokens, _ = _scales("k_scale", k_scale, k, token_axis, layout, key_block, cu_seqlens_k)
    v_scales, v_tokens, v_channels = None, 0, 0
    if v.dtype == torch.int8:
        if v_scale is None:
            raise wrong("v_scale", None, "v is int8", "pass the scale of v's codes")
        v_scales, v_tokens, v_channels = _scales("v_scale", v_scale, v, token_axis, layout, key_block, cu_seqlens_k)
        chosen = "int8" if v_tokens == 1 else "int8_full"
        default_dtype = torch.float32
    else:
        if v_scale is not None:
            raise wrong("v_scale", "given", f"v is {v.dtype}, which has no scale", "pass v as int8 codes, or no v_scale")
        chosen, default_dtype = "int8_half", v.dtype
        v = v.to(torch.float16)
    o, lse = attention_codes(
        q, k, v, q_scales, k_scales, v_scales, tokens_per_scale=(q_tokens, k_tokens, v_tokens), v_channels_per_scale=v_channels,
        scheme=scheme or chosen, causal=causal, window_size=window_size, softmax_scale=softmax_scale, attn_mask=attn_mask,
        cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k if cu_seqlens_k is not None else cu_seqlens_q, options=options,
        key_block=key_block, layout=layout, out_dtype=out_dtype or default_dtype, backend=backend,
    )  # fmt: skip
    return (o, lse) if return_lse else o


def alibi_bias(slopes: torch.Tensor, tokens_q: int, tokens_k: int) -> torch.Tensor:
    """-slope * |distance| aligned at the bottom right: float32 [batch or 1, heads, tokens_q, tokens_k]."""
    if slopes.dim() not in (1, 2):
        raise wrong("alibi_slopes.shape", tuple(slopes.shape), "it must be [heads] or [batch, heads]", "pass one slope a head")
    slopes = slopes.float() if slopes.dim() == 2 else slopes.float()[None]
    rows = torch.arange(tokens_q, device=slopes.device)[:, None] + (tokens_k - tokens_q)
    distance = (rows - torch.arange(tokens_k, device=slopes.device)).abs()
    return -slopes[:, :, None, None] * distance


def _refuse_others(dropout_p: float, softcap: float, qv: Any, attention_chunk: int) -> None:
    for name, value, neutral in (("dropout_p", dropout_p, 0.0), ("softcap", softcap, 0.0), ("attention_chunk", attention_chunk, 0)):
        if value != neutral:
            raise UnsupportedError(refusal(name, value, "octet has none", f"pass {neutral}"))
    if qv is not None:
        raise UnsupportedError(refusal("qv", "given", "octet has no second query", "pass None"))


def _refuse_descales(q: torch.Tensor, *descales: torch.Tensor | None) -> None:
    for name, value in zip(("q_descale", "k_descale", "v_descale"), descales):
        if value is not None:
            raise wrong(name, "given", f"q, k and v are {q.dtype}, not float8_e4m3fn", "pass codes with descales, or numbers without")


def _descales(q: torch.Tensor, k: torch.Tensor, given: tuple, count: int, *, sequences: bool) -> list[torch.Tensor]:
    """FlashAttention-3's descales [batch or sequences, heads_kv] as scales [batch, heads, token groups, 1]."""
    heads, heads_kv = q.shape[-2], k.shape[-2]
    scales = []
    for name, descale, repeats in zip(("q_descale", "k_descale", "v_descale"), given, (heads // heads_kv, 1, 1)):
        if descale is None:
            descale = torch.ones((count, heads_kv), dtype=torch.float32, device=q.device)
        if tuple(descale.shape) != (count, heads_kv) or descale.dtype != torch.float32:
            what = "sequences" if sequences else "batch"
            rule = f"it must be float32 [{what}, heads_kv] = [{count}, {heads_kv}]"
            raise wrong(name, f"{descale.dtype} {list(descale.shape)}", rule, "pass one descale a key-value head")
        descale = descale.repeat_interleave(repeats, 1)
        scales.append(descale.t()[None, :, :, None] if sequences else descale[:, :, None, None])
    return scales


def _scales(
    name: str, scale: Any, x: torch.Tensor, token_axis: int, layout: str, block: int, cu_seqlens: torch.Tensor | None
) -> tuple[torch.Tensor, int, int]:
    """(scales [batch, heads, token groups, channel groups], tokens a scale, channels a scale) from the shape of what was given."""
    scale = torch.as_tensor(scale, dtype=torch.float32, device=x.device)
    dims = x.dim()
    shape = (1,) * (4 - dims) + tuple(x.shape)
    batch, heads, tokens, dim = shape if layout == "bhtd" or dims < 3 else (shape[0], shape[2], shape[1], shape[3])
    if scale.dim() == 0:
        return scale.expand(batch, heads, 1, 1), 0, 0
    lead = (batch, heads)
    given = tuple(scale.shape)
    while len(given) < 2 or given[:2] != lead:  # batch and heads that x lacks, the scales may lack too
        if len(given) + 1 > 4 or dims == 4:
            break
        scale = scale[None]
        given = tuple(scale.shape)
    blocks = -(-tokens // block)
    if given == lead:
        return scale[:, :, None, None], 0, 0
    if given[:2] == lead and cu_seqlens is None:
        if given[2:] in ((tokens,), (tokens, 1)):
            return scale.reshape(batch, heads, tokens, 1), 1, 0
        if given[2:] in ((blocks,), (blocks, 1)):
            return scale.reshape(batch, heads, blocks, 1), block, 0
        if given[2:] == (1, dim) and name == "v_scale":
            return scale, 0, 1
    elif given[:2] == lead and given[2:] in ((tokens,), (tokens, 1)):
        return scale.reshape(batch, heads, tokens, 1), 1, 0
    rule = f"it must be [], {list(lead)}, {[*lead, tokens]} or (blocks of {block}) {[*lead, blocks]}"
    raise wrong(f"{name}.shape", list(scale.shape), rule, "pass one scale a tensor, head, token or block")


def _results(o: torch.Tensor, lse: torch.Tensor, return_lse: bool, return_attn_probs: bool) -> Any:
    if return_attn_probs:
        return o, lse, None
    return (o, lse) if return_lse else o
