"""torch.nn.functional.scaled_dot_product_attention in octet's schemes."""

from __future__ import annotations

import torch

from .._schemes import OptionsLike, RecipeLike
from ..errors import UnsupportedError, refusal
from ._ops import attention, wrong


def scaled_dot_product_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False, *, scheme: str = "int8", recipe: RecipeLike = None,
    options: OptionsLike = None, key_block: int = 128, backend: str | None = None,
) -> torch.Tensor:  # fmt: skip
    """torch.nn.functional.scaled_dot_product_attention with its semantics, in one of octet's schemes.

    query: [..., heads, L, E]; key: [..., heads_kv, S, E]; value: [..., heads_kv, S, Ev]; any number of leading axes, broadcast. is_causal aligns
    at the top left: query i sees keys 0 ... i, also where L and S differ. enable_gqa: heads may be a multiple of heads_kv. attn_mask: bool (True
    takes part) or floating (added), broadcast to [..., heads, L, S]. scale: 1 / sqrt(E) where it is None. A row that sees no key is 0. Under
    autocast inputs are cast as PyTorch casts them. Returns [..., heads, L, Ev] in query's dtype.

    Refused: dropout_p other than 0, attn_mask together with is_causal, heads that differ without enable_gqa, scales that are not positive,
    tensors that require grad, and what octet.attention refuses (ValueError or TypeError with argument, value, rule, remedy).
    scheme, recipe, options, key_block, backend: as in octet.attention.
    """
    if dropout_p != 0.0:
        raise UnsupportedError(refusal("dropout_p", dropout_p, "octet computes attention without dropout", "pass 0.0, as in evaluation"))
    if attn_mask is not None and is_causal:
        raise wrong("is_causal", True, "attn_mask is given too", "pass one of them, or a mask that has both")
    if torch.is_autocast_enabled(query.device.type):
        dtype = torch.get_autocast_dtype(query.device.type)
        query, key, value = (x.to(dtype) if x.is_floating_point() else x for x in (query, key, value))
        if attn_mask is not None and attn_mask.is_floating_point():
            attn_mask = attn_mask.to(dtype)
    of_q, of_k, of_v = query.shape, key.shape, value.shape
    # What nearly all models pass. note: one by one, for slices of torch.Size take a microsecond.
    same = len(of_q) == len(of_k) == len(of_v) == 4 and of_q[0] == of_k[0] == of_v[0] and of_q[1] == of_k[1] == of_v[1]
    if same:
        lead, heads = (of_q[0],), of_q[1]
        q, k, v = query, key, value
    else:
        for name, shape in (("query", of_q), ("key", of_k), ("value", of_v)):
            if len(shape) < 2:
                raise wrong(f"{name}.shape", tuple(shape), "it must have 2 axes or more", "pass [..., heads, tokens, dim]")
        lead, (heads, heads_kv) = _leading(query, key, value, enable_gqa)
        q, k, v = _four(query, lead, heads), _four(key, lead, heads_kv), _four(value, lead, heads_kv)
    tokens_q, tokens_k = of_q[-2], of_k[-2]
    if tokens_q == 0 or heads == 0 or 0 in lead:
        return query.new_empty(_out_shape(of_q, of_v, lead, heads))
    mask = None if attn_mask is None else _mask(attn_mask, lead, heads, tokens_q, tokens_k)
    right = -1
    if is_causal and tokens_q < tokens_k:
        k, v = k[:, :, :tokens_q], v[:, :, :tokens_q]  # no query sees what lies behind
    elif is_causal and tokens_q > tokens_k:
        is_causal, right = False, tokens_q - tokens_k  # j <= i is j <= (i + S - L) + (L - S): a window of the bottom-right alignment
    o = attention(
        q, k, v, scheme=scheme, causal=is_causal, window_size=(-1, right), softmax_scale=scale, attn_mask=mask, recipe=recipe, options=options,
        key_block=key_block, backend=backend,
    )  # fmt: skip
    return o if same else o.reshape(_out_shape(of_q, of_v, lead, heads))


def _out_shape(of_q: torch.Size, of_v: torch.Size, lead: tuple, heads: int) -> tuple:
    return (*lead, *((heads,) if len(of_q) > 2 or heads != 1 else ()), of_q[-2], of_v[-1])


def _leading(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, enable_gqa: bool) -> tuple[tuple, tuple[int, int]]:
    """The broadcast shape before the heads, and (heads of queries, heads of keys and values)."""

    def heads_of(x: torch.Tensor) -> int:
        return x.shape[-3] if x.dim() > 2 else 1

    try:
        lead = tuple(torch.broadcast_shapes(query.shape[:-3], key.shape[:-3], value.shape[:-3]))
    except RuntimeError:
        shapes = f"{tuple(query.shape)}, {tuple(key.shape)}, {tuple(value.shape)}"
        raise wrong("query, key, value", shapes, "their leading axes must be broadcast", "make the batch axes equal, or 1") from None
    q_heads, k_heads, v_heads = heads_of(query), heads_of(key), heads_of(value)
    kv_heads = k_heads if v_heads == 1 else v_heads
    if k_heads not in (1, kv_heads):
        raise wrong("value's heads", v_heads, f"key has {k_heads}", "pass as many of both")
    if q_heads in (kv_heads, 1) or kv_heads == 1:
        return lead, (max(q_heads, kv_heads), kv_heads)
    if not enable_gqa:
        raise wrong(
            "query's heads", q_heads, f"key has {kv_heads} and enable_gqa is False", "pass enable_gqa=True, or repeat the key's heads"
        )
    if q_heads % kv_heads:
        raise wrong("query's heads", q_heads, f"they must be a multiple of the key's {kv_heads}", "let each key head serve as many queries")
    return lead, (q_heads, kv_heads)


def _four(x: torch.Tensor, lead: tuple, heads: int) -> torch.Tensor:
    """x as [batch, heads, tokens, dim]; a view where strides allow it."""
    tokens, dim = x.shape[-2:]
    return x.expand(*lead, heads, tokens, dim).reshape(-1, heads, tokens, dim) if 0 not in lead else x.new_empty((0, heads, tokens, dim))


def _mask(mask: torch.Tensor, lead: tuple, heads: int, tokens_q: int, tokens_k: int) -> torch.Tensor:
    """A mask with at most 4 axes, each the problem's or 1."""
    if mask.dim() <= 4 and len(lead) <= 1:
        return mask
    mask = mask.expand(*lead, *torch.broadcast_shapes(mask.shape[-3:], (1, 1, 1)))
    return mask.reshape(-1, *mask.shape[-3:])
