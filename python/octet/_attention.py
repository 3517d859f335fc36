"""The calls: octet.attention, and what tells about one before it is made."""

from __future__ import annotations

import ctypes
from ctypes import byref
from typing import Any

from . import _abi, _arrays
from ._abi import lib
from ._kept import PlansAsGiven, kept_plan
from ._plan import AttentionPlan
from ._problem import describe, problem

_given = PlansAsGiven()


def plan(q: Any, k: Any, v: Any, **problem_arguments: Any) -> AttentionPlan:
    """Validates a problem and chooses its kernel once, to be called often: octet.plan(q, k, v, causal=True)(q, k, v, out=o).

    q, k, v: arrays, or octet.TensorSpec(shape, dtype, device) for arrays that are not there yet; their contents are not looked at.
    problem_arguments: those of octet.attention, but k_anchor, which a call takes. attn_mask, cu_seqlens_q, cu_seqlens_k and out
    stand for what calls will pass: their dtype and length count. Errors: those of octet.attention.
    """
    return AttentionPlan(problem(q, k, v, **problem_arguments))


def attention(
    q: Any, k: Any, v: Any, *, scheme: str = "int8", causal: bool = False, window_size: Any = (-1, -1), softmax_scale: float | None = None,
    attn_mask: Any = None, cu_seqlens_q: Any = None, cu_seqlens_k: Any = None, recipe: Any = None, options: Any = None, key_block: int = 128,
    layout: str = "bhtd", k_anchor: Any = None, return_lse: bool = False, out: Any = None, out_dtype: Any = None,
    backend: str | None = None,
) -> Any:  # fmt: skip
    """softmax(softmax_scale * q k' + mask) v in a numeric scheme, for NumPy arrays and for torch tensors on CPUs and CUDA devices.

    q: [batch, heads, tokens_q, dim]; k: [batch, heads_kv, tokens_k, dim]; v: [batch, heads_kv, tokens_k, dim_v]. float32, float16 or
    bfloat16 (NumPy: by ml_dtypes), one dtype for the three, any strides; or all three octet.QuantizedTensor. Without the batch axis, or
    without batch and heads, they are [heads, tokens, dim] and [tokens, dim]. heads is a multiple of heads_kv (GQA). dim and dim_v: 1 to 256.
    scheme: a name of octet.schemes(). causal: query i sees keys up to i + tokens_k - tokens_q (aligned at the bottom right, as in
    FlashAttention; octet.torch.scaled_dot_product_attention aligns at the top left). window_size: (left, right) keys before and after
    that place; -1: all. softmax_scale: 1 / sqrt(dim) where it is None.
    attn_mask: bool (True: visible) or float32, float16, bfloat16 (added to the scaled scores), broadcast to [batch, heads, tokens_q, tokens_k].
    cu_seqlens_q, cu_seqlens_k: int32 [sequences + 1], 0 to the number of tokens: sequences packed along the token axis, batch 1.
    cu_seqlens_k is cu_seqlens_q where it is None. On CUDA they are device tensors, whose contents are not looked at.
    recipe: octet.Recipe, or a dict of those fields that differ from the scheme's default; options: the same of octet.SchemeOptions.
    key_block: keys a block, a multiple of 16 in 16 to 1024; part of a scheme's result.
    layout: "bhtd", as above and in PyTorch's SDPA, or "bthd": [batch, tokens, heads, dim], as in flash_attn_func.
    k_anchor: float32 [batch or 1, heads_kv, 1, dim] for recipes with smooth "anchor". backend: one of octet.backends(); None: the first
    that takes the problem.

    Returns out, [batch, heads, tokens_q, dim_v] in q's rank, layout and dtype (or out_dtype; out, which is written, where it is given), or
    (out, lse) with return_lse: lse is float32 [batch, heads, tokens_q], natural logarithm. A row that sees no key gives 0 and -inf.
    out_dtype "s8", for schemes that end in codes, gives an octet.QuantizedTensor. Inputs are never written.

    TypeError, ValueError: an argument, named with its value, the rule and the remedy. UnsupportedError (a ValueError): the scheme or
    backend does not offer it, or a tensor requires grad. NonFiniteError (a ValueError): NaN or Inf in operands of an integer scheme on a CPU.

    Cost: O(tokens_q * tokens_k * dim). The plan is kept and found again by the arguments, in about 3 us; octet.plan spares that.
    CPU calls run on OCTET_THREADS threads and return when done. CUDA calls are queued on torch's current stream and wait for nothing.
    """
    torch = _arrays.torch_module()
    if torch is not None and torch.compiler.is_compiling():
        from .torch import attention as operator  # which a trace sees through

        return operator(
            q, k, v, scheme=scheme, causal=causal, window_size=window_size, softmax_scale=softmax_scale, attn_mask=attn_mask,
            cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, recipe=recipe, options=options, key_block=key_block, layout=layout,
            k_anchor=k_anchor, return_lse=return_lse, out=out, out_dtype=out_dtype, backend=backend,
        )  # fmt: skip

    def make() -> AttentionPlan:
        return kept_plan(
            problem(
                q, k, v, scheme=scheme, causal=causal, window_size=window_size, softmax_scale=softmax_scale, attn_mask=attn_mask,
                cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, recipe=recipe, options=options, key_block=key_block, layout=layout,
                out=out, out_dtype=out_dtype, return_lse=return_lse, backend=backend,
            )
        )  # fmt: skip

    what = (scheme, causal, window_size, softmax_scale, recipe, options, key_block, layout, out_dtype, return_lse, backend)
    # note: what is equal to another value but refused, as 1 for True and 128.0 for 128, is looked at.
    kinds = (type(causal), type(return_lse), type(key_block))
    if kinds == (bool, bool, int) and not hasattr(q, "_octet_operand"):
        plan = _given.find((q, k, v), attn_mask, cu_seqlens_q, cu_seqlens_k, out, what, make)
    else:
        plan = make()
    return plan(q, k, v, out=out, attn_mask=attn_mask, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, k_anchor=k_anchor)


def explain(q: Any, k: Any, v: Any, **problem_arguments: Any) -> str:
    """What octet.attention would do with these arguments: kernel, recipe, workspace, and why other kernels were refused; a few lines."""
    return plan(q, k, v, **problem_arguments).explain()


class Support:
    """Whether a problem can be computed: true or false as a bool, and `reason`, a sentence where it is false."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __bool__(self) -> bool:
        return not self.reason

    def __repr__(self) -> str:
        return "<octet.Support: yes>" if self else f"<octet.Support: no: {self.reason}>"


def supported(q: Any, k: Any, v: Any, **problem_arguments: Any) -> Support:
    """Whether octet.attention takes these arguments (arrays or octet.TensorSpec), without planning; `.reason` says why not.

    TypeError: an argument is none of its kind at all.
    """
    p = problem(q, k, v, **problem_arguments)
    reason = ctypes.create_string_buffer(4096)
    try:
        desc = describe(p)
    except (ValueError, TypeError) as error:
        return Support(str(error))
    status = lib.octet_supported(byref(desc), p.backend.encode() if p.backend else None, reason, len(reason))
    return Support("" if status == _abi.OK else reason.value.decode())


def error_bound(q: Any, k: Any, v: Any, *, k_anchor: Any = None, **problem_arguments: Any) -> Any:
    """An a-priori bound on |octet.attention(...) - exact| for each element of the output, for plain operands on the CPU.

    Arguments: those of octet.attention (out and return_lse do not matter). Returns float32 in the output's shape and layout. It holds
    before rounding to the output's dtype is added. Derivation: docs/numerics/error-bounds.md. UnsupportedError: operands on CUDA, or codes.
    Cost: about that of octet.attention on the reference backend.
    """
    arguments = {name: value for name, value in problem_arguments.items() if name not in ("out", "out_dtype", "return_lse")}
    return kept_plan(problem(q, k, v, **arguments))._error_bound(
        q, k, v, arguments.get("attn_mask"), arguments.get("cu_seqlens_q"), arguments.get("cu_seqlens_k"), k_anchor
    )
