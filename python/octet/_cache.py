"""Keys and values across calls: octet.KVCache."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from ctypes import addressof, byref, c_void_p
from typing import Any

from . import _abi, _arrays
from ._abi import check, lib
from ._kept import kept_plan
from ._plan import AttentionPlan
from ._problem import TensorSpec, problem
from ._schemes import OptionsLike, RecipeLike, recipe_of
from ._schemes import scheme as scheme_info
from .errors import refusal


def cache_recipe(scheme: str, recipe: RecipeLike = None) -> Any:
    """The scheme's recipe with what looks at later tokens replaced: K less an anchor instead of its mean, V not equalised."""
    info = scheme_info(scheme)
    if recipe is not None and not isinstance(recipe, dict):
        return recipe_of(scheme, recipe)
    changes: dict[str, object] = {}
    if info.recipe.smooth == "mean":
        changes["smooth"] = "anchor"
    if info.recipe.equalise == "on":
        changes["equalise"] = "off"
    if info.recipe.k in ("block", "channel", "block_channel"):
        changes["k"] = "token" if "token" in info.k_granularities else "head"
    if info.recipe.v in ("block", "channel", "block_channel") or scheme == "integer":
        changes["v"] = "token" if "token" in info.v_granularities and scheme != "integer" else "head"
    changes.update(recipe or {})
    return recipe_of(scheme, changes)


def _torch_device_of(device: Any) -> int | None:
    """The number of a GPU, None for the CPU. ValueError: octet has no such device. RuntimeError: torch finds no GPU."""
    text = str(device)
    if text == "cpu":
        return None
    torch = _arrays.torch_module()
    if torch is None or text.partition(":")[0] != "cuda":
        rule = (
            "a cache on a GPU takes torch's tensors, and torch is not imported"
            if torch is None
            else "a cache lies on a CPU or on a CUDA device"
        )
        raise ValueError(refusal("device", repr(text), rule, "import torch, or pass 'cpu'" if torch is None else "pass 'cpu' or 'cuda'"))
    index = torch.device(text).index
    return torch.cuda.current_device() if index is None else index


class KVCache:
    """Keys and values as codes, laid out as the kernel reads them, so that a decode step quantises one token and reads 8-bit codes only.

    Appended token by token, in chunks or all at once the cache is the same, and so are the bits of every call. On the CPU for NumPy
    arrays and torch tensors, on a GPU for torch's, where every call is queued on the current stream. One thread at a time may change a
    cache; any number may attend meanwhile nobody does.
    """

    def __init__(
        self, *, capacity: int, heads_kv: int, head_dim: int, head_dim_v: int | None = None, heads_q: int | None = None, batch: int = 1,
        scheme: str = "int8", recipe: RecipeLike = None, options: OptionsLike = None, softmax_scale: float | None = None,
        key_block: int = 128, k_amax: float = 0.0, v_amax: float = 0.0, k_anchor: Any = None, layout: str = "bhtd",
        device: Any = "cpu", backend: str | None = None,
    ) -> None:  # fmt: skip
        """An empty cache for up to `capacity` tokens of [batch, heads_kv, capacity, head_dim] keys.

        heads_q: query heads, heads_kv where it is None. recipe: what the scheme's own becomes without what looks at later tokens
        (smooth "mean" gives "anchor", equalise goes off, scales per block become those per token or head), with the fields that a dict
        names; an octet.Recipe is taken as it is. k_amax, v_amax: where scales are the head's or the tensor's, the largest absolute value
        that they are for; larger ones are clamped. k_anchor: float32 [batch or 1, heads_kv, 1, head_dim]; None: the first key. device: "cpu",
        or "cuda", "cuda:1" or a torch.device of which the cache takes all its memory at once. The rest: as in octet.attention.
        UnsupportedError: the recipe makes a token's codes depend on later tokens, or the backend keeps no keys. MemoryError.
        """
        self._torch_device = _torch_device_of(device)
        _arrays.layout_of(layout)
        self.scheme, self.layout, self.batch = scheme, layout, batch
        self.heads_kv, self.heads_q = heads_kv, heads_kv if heads_q is None else heads_q
        self.head_dim, self.head_dim_v = head_dim, head_dim if head_dim_v is None else head_dim_v
        self.recipe = cache_recipe(scheme, recipe)
        self._options, self._scale, self._key_block, self._backend = options, softmax_scale, key_block, backend
        self._capacity = capacity
        self._handle = c_void_p()
        plan = self._plan(TensorSpec(self._shape(self.heads_q, 1, head_dim), device="cpu" if self._torch_device is None else "cuda"), {})
        settings = _abi.KvCacheOptions()
        settings.k_amax, settings.v_amax = k_amax, v_amax
        kept = None
        if k_anchor is not None:
            settings.k_anchor, kept = _arrays.view_of("k_anchor", k_anchor, _arrays.LAYOUTS["bhtd"])
        with self._current_device():
            check(lib.octet_kv_cache_create(byref(self._handle), plan._handle, byref(settings)))
        del kept
        self._plans: dict[tuple, tuple[AttentionPlan, int]] = {}
        self._slots: dict[str, tuple[Any, Any]] = {}

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle and lib is not None:
            lib.octet_kv_cache_destroy(handle)

    def _current_device(self) -> Any:
        """In which the library computes on the cache's device."""
        return nullcontext() if self._torch_device is None else _arrays.current_device(self._torch_device)

    def _device_of_tensors(self) -> Any:
        """torch's name of the cache's device; None: the CPU, which the library sees by itself."""
        return None if self._torch_device is None else _arrays.torch_module().device("cuda", self._torch_device)

    def _take_stream(self) -> None:
        """Changes are queued on torch's current stream of the device."""
        if self._torch_device is not None:
            check(lib.octet_kv_cache_set_stream(self._handle, _arrays.current_stream(self._torch_device)))

    def _shape(self, heads: int, tokens: int, dim: int) -> tuple[int, ...]:
        return (self.batch, heads, tokens, dim) if self.layout == "bhtd" else (self.batch, tokens, heads, dim)

    def _plan(self, q: Any, arguments: dict[str, Any]) -> AttentionPlan:
        dtype = q.dtype if isinstance(q, TensorSpec) else _abi.enum_name(_abi.ENUM_DTYPE, _arrays.dtype_code("q", q.dtype))
        device = "cpu" if self._torch_device is None else "cuda"
        k = TensorSpec(self._shape(self.heads_kv, self._capacity, self.head_dim), dtype, device)
        v = TensorSpec(self._shape(self.heads_kv, self._capacity, self.head_dim_v), dtype, device)
        return kept_plan(
            problem(
                q, k, v, scheme=self.scheme, recipe=self.recipe, options=self._options, softmax_scale=self._scale, layout=self.layout,
                key_block=self._key_block, backend=self._backend, **arguments,
            )
        )  # fmt: skip

    def __len__(self) -> int:
        return lib.octet_kv_cache_length(self._handle)

    @property
    def capacity(self) -> int:
        """Tokens that the cache has room for."""
        return lib.octet_kv_cache_capacity(self._handle)

    @property
    def nbytes(self) -> int:
        """Bytes of a full cache; memory is taken as it fills, on a GPU when it is made."""
        return lib.octet_kv_cache_bytes(self._handle)

    def __repr__(self) -> str:
        return f"<octet.KVCache {self.scheme}: {len(self)} of {self.capacity} tokens, {self.heads_kv} heads of {self.head_dim}>"

    def append(self, k: Any, v: Any) -> None:
        """Appends keys [batch, heads_kv, n, head_dim] and values [batch, heads_kv, n, head_dim_v] in the cache's layout, any n.

        float32, float16 or bfloat16. ValueError (no room, shapes), TypeError (another device), NonFiniteError, MemoryError: the cache is then
        unchanged. On a GPU a token with NaN or Inf becomes zeros where a scheme's codes have neither, and a CUDA graph appends at the length of its capture.
        """
        k_view, v_view = self._views(k, v)
        with self._current_device():
            self._take_stream()
            check(lib.octet_kv_cache_append(self._handle, k_view, v_view, None))

    def _views(self, k: Any, v: Any) -> tuple[int, int]:
        """Where k and v are as octet_tensor, until the next call."""
        kind = _arrays.kind_of("k", k)
        slots = self._slots.get(kind)
        if slots is None:
            axes, device = _arrays.LAYOUTS[self.layout], self._device_of_tensors()
            slots = self._slots[kind] = tuple(_arrays.SLOTS[kind](name, _abi.Tensor(), axes, False, device) for name in ("k", "v"))
        slots[0].bind(k)
        slots[1].bind(v)
        return addressof(slots[0].tensor), addressof(slots[1].tensor)

    def truncate(self, length: int) -> None:
        """Keeps the first `length` tokens, as if no others had been appended; 0 empties it."""
        with self._current_device():
            self._take_stream()
            check(lib.octet_kv_cache_truncate(self._handle, length))

    def attend(
        self, q: Any, *, causal: bool = False, window_size: Any = (-1, -1), attn_mask: Any = None, return_lse: bool = False, out: Any = None,
        out_dtype: Any = None,
    ) -> Any:  # fmt: skip
        """octet.attention of q [batch, heads_q, tokens_q, head_dim] against the keys that there are, with the bits of such a call.

        causal and windows are aligned with the cache's end: the last query sees all keys. attn_mask is broadcast to [batch, heads_q,
        tokens_q, len(self)]. Arguments, result and errors: those of octet.attention.
        """
        if getattr(q, "ndim", 4) != 4:
            raise ValueError(refusal("q.shape", tuple(q.shape), "it must have 4 axes", "add axes of length 1"))
        wanted = {
            "causal": causal, "window_size": window_size, "attn_mask": attn_mask, "return_lse": return_lse, "out": out, "out_dtype": out_dtype,
        }  # fmt: skip
        return self._call(q, wanted, lambda plan, args: lib.octet_kv_cache_attend(self._handle, plan, args))

    def step(
        self, q: Any, k: Any, v: Any, *, causal: bool = False, window_size: Any = (-1, -1), attn_mask: Any = None, return_lse: bool = False,
        out: Any = None, out_dtype: Any = None,
    ) -> Any:  # fmt: skip
        """append(k, v) and then attend(q), with the bits of both: a step of decoding, on a GPU in fewer launches.

        attn_mask counts the new keys too. Arguments, result and errors: those of the two; after an error the cache is unchanged.
        """
        if getattr(q, "ndim", 4) != 4:
            raise ValueError(refusal("q.shape", tuple(q.shape), "it must have 4 axes", "add axes of length 1"))
        k_view, v_view = self._views(k, v)
        wanted = {
            "causal": causal, "window_size": window_size, "attn_mask": attn_mask, "return_lse": return_lse, "out": out, "out_dtype": out_dtype,
        }  # fmt: skip
        return self._call(q, wanted, lambda plan, args: lib.octet_kv_cache_step(self._handle, k_view, v_view, plan, args))

    def _call(self, q: Any, wanted: dict[str, Any], function: Any) -> Any:
        """function(plan, args) of a call with these arguments."""
        if self._torch_device is not None and _arrays.is_torch(q) and q.device != self._device_of_tensors():
            there = self._device_of_tensors()
            raise TypeError(refusal("q.device", q.device, f"the cache lies on {there}", f"pass q.to({str(there)!r})"))
        plan, size = self._plan_of(q, wanted)
        return plan._attend_cache(function, size, q, wanted["attn_mask"], wanted["out"])

    def _plan_of(self, q: Any, wanted: dict[str, Any]) -> tuple[AttentionPlan, int]:
        """The plan of a call, and its workspace's bytes: steps of decoding are all alike, and to find their plan anew took 20 us."""
        kinds = (getattr(x, "dtype", None) for x in (q, wanted["attn_mask"], wanted["out"]))
        alike = (tuple(q.shape), *kinds, *(wanted[name] for name in ("causal", "window_size", "return_lse", "out_dtype")))
        try:
            known = self._plans.get(alike)
        except TypeError:  # a window that is a list
            known = None
        if known is not None:
            return known
        plan = self._plan(q, wanted)
        size = lib.octet_kv_cache_workspace_bytes(self._handle, plan._handle)
        if size < 0:
            raise ValueError(_abi.last_error())
        with suppress(TypeError):
            if len(self._plans) > 64:
                self._plans.clear()
            self._plans[alike] = plan, size
        return plan, size


__all__ = ["KVCache", "cache_recipe"]
