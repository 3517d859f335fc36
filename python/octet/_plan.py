"""Plans: a problem validated once, then called with arrays."""

from __future__ import annotations

from ctypes import addressof, byref, c_void_p
from typing import Any

import numpy as np

from . import _abi, _arrays
from ._abi import check, lib
from ._arrays import NUMPY, TORCH
from ._problem import Problem, describe
from .errors import NonFiniteError, refusal

_attend = lib.octet_attend


class _Call:
    """The C arguments of one running call. A plan keeps those that are idle: as many as threads have run it at once."""

    __slots__ = ("args", "bias", "k", "k_anchor", "kept", "lse", "o", "o_scale", "pointer", "q", "v")

    def __init__(self, kind: str, layout: str) -> None:
        args = self.args = _abi.AttentionArgs()
        self.pointer = addressof(args)
        self.kept: list[Any] = []
        slot = _arrays.SLOTS[kind]
        axes = _arrays.LAYOUTS[layout]
        self.q = slot("q", args.q.codes, axes, False)
        self.k = slot("k", args.k.codes, axes, False)
        self.v = slot("v", args.v.codes, axes, False)
        self.o = slot("out", args.o, axes, True)
        self.lse = slot("lse", args.lse, _arrays.ROWS, True)
        self.o_scale = slot("o_scale", args.o_scale, _arrays.LAYOUTS["bhtd"], True)
        self.bias = slot("attn_mask", args.bias, _arrays.SCORES, False)
        self.k_anchor = slot("k_anchor", args.k_anchor, _arrays.LAYOUTS["bhtd"], False)


class AttentionPlan:
    """A problem that has been validated, with its kernel chosen; made by octet.plan.

    Call it as plan(q, k, v, out=o) with arrays of the shapes, dtypes and device that it was made for; strides may change from call to
    call. Immutable: any number of threads may call one plan. NumPy and CPU calls return when the result is there; CUDA calls are queued on
    torch's current stream, allocate by torch's allocator alone and can be captured in a CUDA graph.
    """

    def __init__(self, p: Problem) -> None:
        self._handle = c_void_p()
        desc = describe(p)
        check(lib.octet_plan_create(byref(self._handle), byref(desc), p.backend.encode() if p.backend else None))
        self._pointer = self._handle.value
        self._desc = desc
        self._problem = p
        self._layout = p.layout
        self._workspace_bytes = lib.octet_plan_workspace_bytes(self._handle)
        self._codes = len(p.q) > 3
        self._has_bias = desc.bias != _abi.BIAS_NONE
        self._on_cuda = desc.device == _abi.CUDA
        self._wants_lse = bool(desc.wants_lse)
        self._plain_outputs = not self._wants_lse and desc.output != _abi.S8
        # note: what the shortest path need not look at.
        self._simple = self._plain_outputs and not (self._codes or self._has_bias or self._on_cuda or desc.sequences)
        self._idle: dict[str, list[_Call]] = {NUMPY: [], TORCH: []}
        self._idle_numpy = self._idle[NUMPY]
        rank, dims = len(p.q[0]), desc.head_dim_v
        self._out_shape = (*p.q[0][: rank - 1], dims)
        heads_first = {4: (desc.batch, desc.heads_q, desc.tokens_q), 3: (desc.heads_q, desc.tokens_q), 2: (desc.tokens_q,)}
        self._rows_shape = heads_first[rank]

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle and lib is not None:
            lib.octet_plan_destroy(handle)

    # ---- What was planned -------------------------------------------------------------------------------------------------------------
    @property
    def kernel(self) -> str:
        """The kernel's name: <backend>/<scheme>/d<dim>/<mask>."""
        return lib.octet_plan_kernel(self._handle).decode()

    @property
    def backend(self) -> str:
        """The backend that runs the kernel."""
        return lib.octet_plan_backend(self._handle).decode()

    @property
    def workspace_bytes(self) -> int:
        """Bytes that a call needs besides its arrays."""
        return self._workspace_bytes

    @property
    def refusals(self) -> list[tuple[str, str]]:
        """(kernel, reason) of the kernels that were tried first and refused the problem."""
        count = lib.octet_plan_refusal_count(self._handle)
        return [
            (lib.octet_plan_refusal_kernel(self._handle, i).decode(), lib.octet_plan_refusal_reason(self._handle, i).decode())
            for i in range(count)
        ]

    def explain(self) -> str:
        """Kernel, recipe, workspace and refusals as text for people, a few lines."""
        return lib.octet_plan_explain(self._handle).decode()

    def __repr__(self) -> str:
        d = self._desc
        return (
            f"<octet.AttentionPlan {self.kernel}: q [{d.batch}, {d.heads_q}, {d.tokens_q}, {d.head_dim}], "
            f"k [{d.batch}, {d.heads_kv}, {d.tokens_k}, {d.head_dim}]>"
        )

    # ---- Running it -------------------------------------------------------------------------------------------------------------------
    def __call__(
        self, q: Any, k: Any, v: Any, *, out: Any = None, attn_mask: Any = None, cu_seqlens_q: Any = None, cu_seqlens_k: Any = None,
        k_anchor: Any = None,
    ) -> Any:  # fmt: skip
        """out = softmax(softmax_scale * q k' + mask) v as planned; returns out, or (out, lse) where the plan has return_lse.

        q, k, v, out, attn_mask, cu_seqlens_q, cu_seqlens_k, k_anchor: as in octet.attention; out, where it is None, is allocated.
        ValueError, TypeError: an argument is not what was planned for; the sentence says which and why. NonFiniteError: NaN or Inf in the
        operands of an integer scheme on a CPU.
        """
        if self._simple and type(q) is np.ndarray and out is not None and attn_mask is None and cu_seqlens_q is None and k_anchor is None:
            idle = self._idle_numpy
            call = idle.pop() if idle else self._new_call(NUMPY)
            call.q.bind(q)
            call.k.bind(k)
            call.v.bind(v)
            call.o.bind(out)
            size = self._workspace_bytes
            if size:
                buffer = _arrays.workspace(size)
                args = call.args
                args.workspace, args.workspace_bytes = buffer.address, buffer.bytes
            status = _attend(self._pointer, call.pointer)
            if status:
                _fail(status, q, k, v)
            idle.append(call)
            return out
        return self._run(q, k, v, out, attn_mask, cu_seqlens_q, cu_seqlens_k, k_anchor)

    def _new_call(self, kind: str) -> _Call:
        return _Call(kind, self._layout)

    def _run(self, q, k, v, out, attn_mask, cu_seqlens_q, cu_seqlens_k, k_anchor) -> Any:
        first = q.codes if self._codes and hasattr(q, "codes") else q
        kind = _arrays.kind_of("q", first)
        idle = self._idle[kind]
        call = idle.pop() if idle else self._new_call(kind)
        if out is None:
            out = _arrays.empty(self._out_shape, self._desc.output, first)
        call.o.device = None if kind == NUMPY else first.device
        results = self._bind(call, kind, q, k, v, out, attn_mask, cu_seqlens_q, cu_seqlens_k, k_anchor, first)
        status = self._launch(call, self._workspace_bytes, first, _attend)
        if status:
            _fail(status, q, k, v)
        if call.kept:
            call.kept.clear()
        idle.append(call)
        return results

    def _bind(self, call, kind, q, k, v, out, attn_mask, cu_seqlens_q, cu_seqlens_k, k_anchor, first) -> Any:
        """Points a call at its arrays; returns what the caller gets."""
        args = call.args
        device = None if kind == NUMPY else first.device
        self._bind_operands(call, device, q, k, v)
        self._bind_mask(call, device, attn_mask)
        sequences = self._desc.sequences
        if sequences or cu_seqlens_q is not None or cu_seqlens_k is not None:
            cu_seqlens_k = cu_seqlens_q if cu_seqlens_k is None else cu_seqlens_k
            args.cu_seqlens_q = offsets("cu_seqlens_q", cu_seqlens_q, sequences, first, call.kept)
            args.cu_seqlens_k = offsets("cu_seqlens_k", cu_seqlens_k, sequences, first, call.kept)
        if k_anchor is not None:
            call.k_anchor.device = device
            call.k_anchor.bind(k_anchor)
        else:
            args.k_anchor.data = None
        return self._bind_outputs(call, device, out, first)

    def _bind_operands(self, call, device, q, k, v) -> None:
        if self._codes:
            for name, x in (("q", q), ("k", k), ("v", v)):
                if not hasattr(x, "_octet_operand"):
                    raise TypeError(
                        refusal(name, f"of type {type(x).__name__}", "the plan is for quantised operands", "pass an octet.QuantizedTensor")
                    )
                x._bind(getattr(call.args, name), name, device)
            return
        for slot, x in ((call.q, q), (call.k, k), (call.v, v)):
            slot.device = device
            slot.bind(x)

    def _bind_mask(self, call, device, attn_mask) -> None:
        if attn_mask is None:
            call.args.bias.data = None
            return
        call.bias.device = device
        call.bias.bind(attn_mask)

    def _bind_outputs(self, call, device, out, first) -> Any:
        call.o.device = device
        call.o.bind(out)
        if self._plain_outputs:
            return out
        results = [out]
        if self._desc.output == _abi.S8:
            d = self._desc
            o_scale = _arrays.empty((d.batch, d.heads_q, d.tokens_q, 1), _abi.F32, first)
            call.o_scale.device = device
            call.o_scale.bind(o_scale)
            results = [_codes_out(self, out, o_scale)]
        if self._wants_lse:
            lse = _arrays.empty(self._rows_shape, _abi.F32, first)
            call.lse.device = device
            call.lse.bind(lse)
            results.append(lse)
        return results[0] if len(results) == 1 else tuple(results)

    def _attend_cache(self, function: Any, size: int, q: Any, attn_mask: Any, out: Any) -> Any:
        """function(plan, args) where the keys are those of a cache."""
        kind = _arrays.kind_of("q", q)
        idle = self._idle[kind]
        call = idle.pop() if idle else self._new_call(kind)
        device = None if kind == NUMPY else q.device
        if out is None:
            out = _arrays.empty(self._out_shape, self._desc.output, q)
        call.q.device = device
        call.q.bind(q)
        self._bind_mask(call, device, attn_mask)
        results = self._bind_outputs(call, device, out, q)
        status = self._launch(call, size, q, function)
        if status:
            _fail(status, q, None, None)
        idle.append(call)
        return results

    def _error_bound(self, q, k, v, attn_mask, cu_seqlens_q, cu_seqlens_k, k_anchor) -> Any:
        first = q.codes if self._codes and hasattr(q, "codes") else q
        kind = _arrays.kind_of("q", first)
        call = self._new_call(kind)
        device = None if kind == NUMPY else first.device
        out = _arrays.empty(self._out_shape, self._desc.output, first)
        self._bind(call, kind, q, k, v, out, attn_mask, cu_seqlens_q, cu_seqlens_k, k_anchor, first)
        bound = _arrays.empty(self._out_shape, _abi.F32, first)
        view = _abi.Tensor()
        slot = _arrays.SLOTS[kind]("bound", view, _arrays.LAYOUTS[self._layout], True, device)
        slot.bind(bound)
        for output in (call.args.o, call.args.lse, call.args.o_scale):
            output.data = None
        status = self._launch(
            call, self._workspace_bytes, first, lambda pointer, args: lib.octet_error_bound(pointer, args, addressof(view))
        )
        if status:
            _fail(status, q, k, v)
        return bound

    def _launch(self, call, size, first, function) -> int:
        """Runs a function of the library on a bound call, with a workspace of so many bytes; returns its status."""
        args = call.args
        if not self._on_cuda:
            buffer = _arrays.workspace(size)
            args.workspace, args.workspace_bytes = buffer.address, buffer.bytes
            return function(self._pointer, call.pointer)
        torch = _arrays.torch_module()
        device = first.device
        with _arrays.current_device(device.index):  # the library launches on it
            # note: freed when this returns; torch's allocator hands it to later work of the same stream only.
            memory = torch.empty(max(size, 1), dtype=torch.uint8, device=device)
            args.workspace, args.workspace_bytes = memory.data_ptr(), size
            args.stream = _arrays.current_stream(device.index)
            return function(self._pointer, call.pointer)


def _fail(status: int, q: Any, k: Any, v: Any) -> None:
    """Raises the exception of a failed call. Where a number is not finite, the sentence begins with whose it is."""
    if status != _abi.NON_FINITE:
        check(status)
    for name, x in (("q", q), ("k", k), ("v", v)):
        if isinstance(x, np.ndarray):
            finite = np.isfinite(x.astype(np.float32)).all()
        elif _arrays.is_torch(x):
            finite = x.isfinite().all()
        else:
            continue
        if not finite:
            raise NonFiniteError(f"{name}'s {_abi.last_error()}")
    check(status)


def _codes_out(plan: AttentionPlan, codes: Any, scale: Any) -> Any:
    from ._quantize import QuantizedTensor

    return QuantizedTensor(codes, scale, tokens_per_scale=1, layout=plan._layout)


def offsets(argument: str, given: Any, sequences: int, like: Any, kept: list[Any]) -> int:
    """Where int32 offsets of packed sequences lie. They are converted where they are on the CPU."""
    if given is None or not sequences:
        rule = f"the plan is for {sequences or 'no'} packed sequences"
        raise ValueError(refusal(argument, "None" if given is None else "given", rule, "plan and call with the same arguments"))
    if len(given) != sequences + 1:
        raise ValueError(
            refusal(f"len({argument})", len(given), f"the plan is for {sequences} sequences", f"pass {sequences + 1} offsets, or plan anew")
        )
    torch = _arrays.torch_module()
    if torch is not None and isinstance(given, torch.Tensor):
        if isinstance(like, np.ndarray) or given.device != like.device:
            where = "the CPU" if isinstance(like, np.ndarray) else like.device
            raise TypeError(refusal(f"{argument}.device", given.device, f"q lies on {where}", "move it there"))
        if given.dtype not in (torch.int32, torch.int64):
            raise TypeError(refusal(f"{argument}.dtype", given.dtype, "it must be int32", f"pass {argument}.to(torch.int32)"))
        array = given.to(torch.int32).contiguous()
        kept.append(array)
        return array.data_ptr()
    if not isinstance(like, np.ndarray) and like.device.type == "cuda":
        raise TypeError(refusal(argument, "in host memory", f"q lies on {like.device}", "pass an int32 tensor on that device"))
    array = np.asarray(given)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(
            refusal(f"{argument}", f"{array.dtype} {list(array.shape)}", "it must be whole numbers [sequences + 1]", "pass an int32 array")
        )
    if array.dtype.itemsize > 4 and array.size and (array.max() > 2**31 - 1 or array.min() < 0):
        raise ValueError(refusal(argument, int(array.max()), "offsets are 32 bits", "pack fewer tokens in one call"))
    array = np.ascontiguousarray(array, np.int32)
    kept.append(array)
    return _arrays.address(array)
