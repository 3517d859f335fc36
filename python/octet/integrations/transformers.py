"""octet as an attention implementation of Hugging Face transformers: register(), then attn_implementation="octet"."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from .._schemes import scheme as scheme_info
from .._schemes import schemes
from ..errors import UnsupportedError, refusal
from ..torch._ops import attention
from ..torch._sdpa import scaled_dot_product_attention


def register(name: str = "octet", scheme: str = "int8", **options: Any) -> str:
    """Registers one attention implementation: from_pretrained(..., attn_implementation=name) or model.set_attn_implementation(name).

    options: recipe, options, key_block, backend of octet.attention. Returns the name. Masks are made as for "sdpa": boolean. Grouped heads are
    not repeated; position biases (T5) are added, attention sinks (gpt-oss) counted by the LSE; softcap and dropout are refused by name
    (UnsupportedError), as are paged caches and tensors that require grad.
    """
    scheme_info(scheme)  # raises here for a name that is none

    def octet_attention(
        module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: torch.Tensor | None,
        dropout: float = 0.0, scaling: float | None = None, is_causal: bool | None = None, position_bias: torch.Tensor | None = None,
        s_aux: torch.Tensor | None = None, **others: Any,
    ) -> tuple[torch.Tensor, None]:  # fmt: skip
        return _forward(
            module, query, key, value, attention_mask, dropout, scaling, is_causal, position_bias, s_aux, others, scheme, options
        )

    AttentionInterface.register(name, octet_attention)
    AttentionMaskInterface.register(name, sdpa_mask)
    return name


def register_all() -> list[str]:
    """Registers "octet" (int8) and "octet_<scheme>" for every fused scheme; returns the names."""
    fused = [name for name in schemes() if not scheme_info(name).baseline and name != "exact"]
    return [register(), *(register(f"octet_{name}", name) for name in fused)]


def _forward(
    module, query, key, value, attention_mask, dropout, scaling, is_causal, position_bias, s_aux, others, scheme, options
) -> tuple[torch.Tensor, None]:  # fmt: skip
    """query [batch, heads, L, dim], key and value [batch, heads_kv, S, dim]; gives [batch, L, heads, dim] and no weights."""
    for name in ("softcap", "cache", "head_mask"):
        if others.get(name) is not None:
            raise UnsupportedError(
                refusal(name, "given", "octet's attention has none", "choose another attn_implementation for this model")
            )
    tokens_q, tokens_k = query.shape[2], key.shape[2]
    is_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    causal = bool(tokens_q > 1 and attention_mask is None and is_causal)  # a mask that is there has the causal pattern in it
    if causal and tokens_k > tokens_q:  # an empty static cache: nothing is visible behind
        key, value = key[:, :, :tokens_q], value[:, :, :tokens_q]
        position_bias = None if position_bias is None else position_bias[..., :tokens_q]
    if position_bias is not None:
        attention_mask = _with_bias(position_bias, attention_mask, causal, query)
        causal = False
    if attention_mask is not None and attention_mask.shape[-1] > key.shape[2]:
        attention_mask = attention_mask[..., : key.shape[2]]
    if s_aux is not None:
        return _with_sinks(query, key, value, attention_mask, causal, scaling, s_aux, scheme, options), None
    o = scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask, dropout_p=dropout, is_causal=causal, scale=scaling, enable_gqa=True, scheme=scheme,
        **options,
    )  # fmt: skip
    return o.transpose(1, 2).contiguous(), None


def _with_bias(bias: torch.Tensor, mask: torch.Tensor | None, causal: bool, query: torch.Tensor) -> torch.Tensor:
    """One additive mask of a learned bias, a mask and the causal pattern."""
    if causal:
        seen = torch.ones(bias.shape[-2:], dtype=torch.bool, device=bias.device).tril()
        return bias.masked_fill(~seen, float("-inf"))
    if mask is None:
        return bias
    if mask.dtype == torch.bool:
        return torch.where(mask, bias, float("-inf")).to(query.dtype)
    return bias + mask


def _with_sinks(query, key, value, mask, causal, scaling, sinks, scheme, options) -> torch.Tensor:
    """A sink of a head is one more key of score s_aux and value 0: it takes sigmoid(s_aux - lse) of every row's weight."""
    o, lse = attention(
        query, key, value, scheme=scheme, causal=causal, softmax_scale=scaling, attn_mask=mask, return_lse=True, out_dtype=torch.float32, **options
    )  # fmt: skip
    share = torch.sigmoid(lse - sinks.float().reshape(1, -1, 1))
    return (o * share[..., None]).to(query.dtype).transpose(1, 2).contiguous()
