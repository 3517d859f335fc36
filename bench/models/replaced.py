"""Attention of a PyTorch model computed by octet: every scaled_dot_product_attention inside the context, however the model spells it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

import octet

SDPA = torch.nn.functional.scaled_dot_product_attention
# PyTorch's own f32 attention, which everything else is compared with.
PYTORCH = "pytorch"
# Schemes in the order of the tables: exact, what people run, the papers', ours; then the softmaxes that the papers compare with.
SCHEMES = (
    "exact", "f32", "f16", "bf16", "fp8", "fp8_hybrid", "int8_fp8", "int8_full", "int8_half", "int8_lut", "int4", "qflash", "qattn", "ivit",
    "ibert", "fqvit", "int8", "int8_shift", "integer",
)  # fmt: skip


def fuse_timm() -> None:
    """timm's Swin calls scaled_dot_product_attention only where that is asked for before the model is made; its ViT always does."""
    from timm.layers import set_fused_attn

    set_fused_attn(True, experimental=True)


class Replaced(TorchFunctionMode):
    """Within it, attention is octet's in `scheme`; PYTORCH leaves it alone. calls, seconds: how often, and CPU time spent in it.

    Only what the models here call: no dropout, and a causal mask where queries and keys are equally many (octet's and PyTorch's mean the
    same then); anything else is an error, not an approximation.
    """

    def __init__(self, scheme: str) -> None:
        super().__init__()
        self.scheme = scheme
        self.calls = 0
        self.seconds = 0.0

    def must_have_replaced(self, model: str) -> None:
        """RuntimeError where the model never came to scaled_dot_product_attention: it would be compared with itself."""
        if self.calls == 0:
            raise RuntimeError(f"{model} called no scaled_dot_product_attention, so that nothing was replaced: its attention is written otherwise")

    def __torch_function__(self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is not SDPA:
            return function(*args, **kwargs)
        start = time.thread_time()
        result = function(*args, **kwargs) if self.scheme == PYTORCH else attend(self.scheme, *args, **kwargs)
        self.seconds += time.thread_time() - start
        self.calls += 1
        return result


def attend(
    scheme: str, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> torch.Tensor:  # fmt: skip
    """[batch, heads, tokens, dim], contiguous as [batch, tokens, heads, dim], which the models' next step flattens without a copy."""
    if dropout_p:
        raise ValueError(f"dropout_p is {dropout_p}, and octet has no dropout: call model.eval() first")
    if is_causal and query.shape[-2] != key.shape[-2]:
        raise ValueError(f"is_causal with {query.shape[-2]} queries and {key.shape[-2]} keys: PyTorch and octet align it differently")
    batch, heads, tokens, _ = query.shape
    out = query.new_empty((batch, tokens, heads, value.shape[-1])).transpose(1, 2)
    octet.attention(
        query, key, value, scheme=scheme, causal=is_causal, attn_mask=attn_mask, softmax_scale=scale, out=out,
        out_dtype="f64" if scheme == "exact" and query.dtype == torch.float64 else None,
    )  # fmt: skip
    return out
