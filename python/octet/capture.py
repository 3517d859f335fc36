"""Q, K and V of a running PyTorch model, as its attention is given them.

    from octet.capture import capture
    with torch.inference_mode(), capture(model) as captured:
        model(**inputs)
    captured.layers          # names, in the order in which they ran
    captured.calls[0].q      # float32 NumPy, [batch, heads, tokens, dim]

What is seen are calls of torch.nn.functional.scaled_dot_product_attention, however they are spelt in the model: timm's and diffusers' own,
transformers' with attn_implementation="sdpa", nn.MultiheadAttention's. Attention written out as two products is not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import refusal

if TYPE_CHECKING:
    import torch

# Name of calls that no module of the model encloses: the model given is the innermost then.
ROOT = "(model)"


@dataclass(frozen=True)
class Call:
    """One call of attention, copied: later changes of the model's tensors do not reach it.

    layer: index into Captured.layers. q: [batch, heads, tokens_q, dim], k and v: [batch, heads_kv, tokens_k, dim and dim_v], float32.
    mask: bool (True: visible) or float32 (added), broadcast to [batch or 1, heads or 1, tokens_q or 1, tokens_k], or None; a causal mask
    that octet's `causal` does not mean, because queries and keys differ in number, is written out there. scale: None is 1 / sqrt(dim).
    """

    layer: int
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    causal: bool = False
    mask: np.ndarray | None = None
    scale: float | None = None


@dataclass
class Captured:
    """What a capture has seen so far. layers: a name for each place where the model calls attention."""

    layers: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    def layer_of(self, name: str) -> int:
        if name not in self.layers:
            self.layers.append(name)
        return self.layers.index(name)


@contextmanager
def capture(model: torch.nn.Module, *, forwards: int = 1) -> Iterator[Captured]:
    """Copies the operands of every attention call of `model` while the context is open.

    model: any torch.nn.Module; what it computes is unchanged. forwards: how many of its forward calls to keep, counted from the first;
    later ones run as always and leave nothing behind, which bounds the memory (all operands in float32).
    The same layer in several forwards is one layer of several calls. One thread at a time.

    Raises ValueError on leaving the context normally without having seen a call, and for dropout in a captured call.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    if isinstance(forwards, bool) or not isinstance(forwards, int) or forwards < 1:
        raise ValueError(refusal("forwards", repr(forwards), "it must be an int of at least 1", "say how many forward calls to keep"))
    captured = Captured()
    where = _Where(model)
    sdpa = torch.nn.functional.scaled_dot_product_attention

    def watched(*args: Any, **kwargs: Any) -> Any:
        if 1 <= where.forward <= forwards and where.running:
            captured.calls.append(_copied(captured.layer_of(where.name()), *args, **kwargs))
        with torch._C.DisableTorchFunction():  # not seen twice
            return sdpa(*args, **kwargs)

    class Watch(TorchFunctionMode):
        """Sees calls by any name, also one that was imported long ago."""

        def __torch_function__(self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return (watched if function is sdpa else function)(*args, **(kwargs or {}))

    # note: F.multi_head_attention_forward comes to Watch as one call, inside which no mode sees anything; it finds its attention by this name.
    # In evaluation nn.MultiheadAttention also has a fused path of its own, without that attention.
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    torch.nn.functional.scaled_dot_product_attention = watched
    try:
        with where, Watch():
            yield captured
    finally:
        torch.nn.functional.scaled_dot_product_attention = sdpa
        torch.backends.mha.set_fastpath_enabled(fast_path)
    if not captured.calls:
        raise ValueError(
            refusal(
                "model",
                type(model).__name__,
                "no call of scaled_dot_product_attention was seen in the context",
                "run it inside the context; load transformers with attn_implementation='sdpa', and leave timm's fused_attn on",
            )
        )


class _Where:
    """Knows which module of a model runs, by hooks on all of them while it is entered."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.forward = 0
        self.running: list[str] = []
        self.calls: dict[str, int] = {}
        self.hooks: list[Any] = []

    def __enter__(self) -> _Where:
        for name, module in self.model.named_modules():
            self.hooks.append(module.register_forward_pre_hook(self._entering(name)))
            self.hooks.append(module.register_forward_hook(self._leaving, always_call=True))
        return self

    def __exit__(self, *error: object) -> None:
        for hook in self.hooks:
            hook.remove()

    def _entering(self, name: str) -> Callable[..., None]:
        def hook(module: torch.nn.Module, inputs: Any) -> None:
            if not self.running:
                self.forward += 1
                self.calls.clear()
            self.running.append(name or ROOT)

        return hook

    def _leaving(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        self.running.pop()

    def name(self) -> str:
        """The innermost running module; #2, #3, ... for its further calls of one forward."""
        name = self.running[-1]
        self.calls[name] = self.calls.get(name, 0) + 1
        return name if self.calls[name] == 1 else f"{name}#{self.calls[name]}"


def _copied(
    layer: int, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, scale: Any = None,
    enable_gqa: bool = False,
) -> Call:  # fmt: skip
    """A call of PyTorch's SDPA as octet means it."""
    if dropout_p:
        raise ValueError(refusal("dropout_p", dropout_p, "an inference has no dropout", "call model.eval() before capturing"))
    mask = None
    if attn_mask is not None:
        mask = _float32(attn_mask) if attn_mask.is_floating_point() else attn_mask.detach().cpu().numpy().astype(bool)
        mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    tokens_q, tokens_k = query.shape[-2], key.shape[-2]
    causal = is_causal and tokens_q == tokens_k
    if is_causal and not causal:
        # PyTorch aligns the triangle at the top left, octet at the bottom right.
        mask = np.tri(tokens_q, tokens_k, dtype=bool)[None, None]
    q, k, v = (_four_axes(_float32(x)) for x in (query, key, value))
    return Call(layer, q, k, v, causal=causal, mask=mask, scale=scale)


def _float32(x: Any) -> np.ndarray:
    copied: np.ndarray = x.detach().float().cpu().numpy().copy()
    return copied


def _four_axes(x: np.ndarray) -> np.ndarray:
    """[..., tokens, dim] to [batch, heads, tokens, dim]: one head where there is no such axis, leading axes joined."""
    if x.ndim == 3:
        return x[:, None]
    return x.reshape(-1, *x.shape[-3:])
