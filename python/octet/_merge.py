"""octet.merge_states: one attention from two over disjoint sets of keys."""

from __future__ import annotations

from ctypes import byref
from typing import Any

from . import _abi, _arrays
from ._abi import check, lib
from .errors import refusal


def merge_states(o1: Any, lse1: Any, o2: Any, lse2: Any, *, out: Any = None, layout: str = "bhtd") -> tuple[Any, Any]:
    """(o, lse) of the union of two disjoint sets of keys: lse = log(e^lse1 + e^lse2), o = o1 e^(lse1 - lse) + o2 e^(lse2 - lse).

    o1, o2: float32 [batch, heads, tokens, dim] (or as layout says; batch and heads may be missing); lse1, lse2: float32 [batch, heads,
    tokens], natural logarithms. Evaluated in float64 and rounded once. A state with lse -inf is the identity. out: where o is written; it
    may be o1 or o2. NumPy arrays and torch tensors; on CUDA the work is queued on torch's current stream.
    TypeError, ValueError: an argument is none of its kind, or shapes differ.
    """
    axes = _arrays.layout_of(layout)
    _arrays.kind_of("o1", o1)
    if out is None:
        out = _arrays.empty(o1.shape, _abi.F32, o1)
    if _arrays.is_torch(o1) and o1.device.type == "cuda":
        return _merge_on_device(o1, lse1, o2, lse2, out, layout)
    lse = _arrays.empty(lse1.shape, _abi.F32, o1)
    views = [
        _arrays.view_of(name, x, _arrays.ROWS if "lse" in name else axes, written=name in ("out", "lse"))
        for name, x in (("o1", o1), ("lse1", lse1), ("o2", o2), ("lse2", lse2), ("out", out), ("lse", lse))
    ]
    check(lib.octet_merge_states(*(byref(view) for view, _ in views)))
    return out, lse


def _merge_on_device(o1: Any, lse1: Any, o2: Any, lse2: Any, out: Any, layout: str) -> tuple[Any, Any]:
    torch = _arrays.torch_module()
    for name, x in (("o1", o1), ("lse1", lse1), ("o2", o2), ("lse2", lse2)):
        if not _arrays.is_torch(x) or x.device != o1.device:
            raise TypeError(refusal(f"{name}.device", getattr(x, "device", "cpu"), f"o1 lies on {o1.device}", "move it there"))
        if x.dtype != torch.float32:
            raise TypeError(refusal(f"{name}.dtype", x.dtype, "it must be float32", f"pass {name}.float()"))
    first, second = lse1.double(), lse2.double()
    lse = torch.logaddexp(first, second)
    empty = torch.isneginf(lse)
    weights = [torch.where(empty, 0.0, torch.exp(x - lse)) for x in (first, second)]
    if layout == "bthd" and o1.dim() > 2:  # rows of the LSE are heads first
        weights = [w.transpose(-1, -2) for w in weights]
    parts = [torch.where(w[..., None] == 0, 0.0, o.double() * w[..., None]) for w, o in zip(weights, (o1, o2))]
    out.copy_(parts[0] + parts[1])
    return out, lse.float()
