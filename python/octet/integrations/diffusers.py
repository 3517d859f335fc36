"""octet as an attention backend of Hugging Face diffusers: register(), then model.set_attention_backend("octet")."""

from __future__ import annotations

from typing import Any

import torch
from diffusers.models.attention_dispatch import AttentionBackendName, _AttentionBackendRegistry

from .._schemes import scheme as scheme_info
from ..errors import UnsupportedError, refusal
from ..torch._sdpa import scaled_dot_product_attention


def register(name: str = "octet", scheme: str = "int8", **options: Any) -> str:
    """Registers one attention backend: model.set_attention_backend(name), or `with diffusers' attention_backend(name):`.

    options: recipe, options, key_block, backend of octet.attention. Returns the name. Dropout, context parallelism and tensors that require
    grad are refused by name (UnsupportedError).
    """
    scheme_info(scheme)
    backend = _member(name)

    def octet_attention(
        query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None, dropout_p: float = 0.0,
        is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False, return_lse: bool = False, _parallel_config: Any = None,
    ) -> torch.Tensor:  # fmt: skip
        if return_lse or _parallel_config is not None:
            given = "return_lse" if return_lse else "_parallel_config"
            raise UnsupportedError(refusal(given, "given", "octet has no context parallelism", "choose another attention backend"))
        if attn_mask is not None and attn_mask.ndim == 2 and tuple(attn_mask.shape) == (query.shape[0], key.shape[1]):
            attn_mask = attn_mask[:, None, None]  # of keys: [batch, S]
        q, k, v = (x.transpose(1, 2) for x in (query, key, value))  # diffusers has tokens before heads
        o = scaled_dot_product_attention(
            q, k, v, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa, scheme=scheme, **options
        )  # fmt: skip
        return o.transpose(1, 2)

    _AttentionBackendRegistry.register(backend)(octet_attention)
    return name


def _member(name: str) -> Any:
    """The registry's key of a name. note: it is an enumeration, which is closed; diffusers has no other way in for backends of others."""
    known = AttentionBackendName._value2member_map_.get(name)
    if known is not None:
        return known
    member = str.__new__(AttentionBackendName, name)
    member._name_, member._value_ = name.upper(), name
    AttentionBackendName._member_map_[member._name_] = member
    AttentionBackendName._value2member_map_[name] = member
    AttentionBackendName._member_names_.append(member._name_)
    return member
