"""include/octet/octet.h in ctypes: its structs, its functions' types, and statuses as exceptions."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p, sizeof
from pathlib import Path

from .errors import InternalError, NonFiniteError, UnsupportedError, refusal

OK, INVALID_ARGUMENT, UNSUPPORTED, NON_FINITE, OUT_OF_MEMORY, IO, INTERNAL = range(7)
F32, F16, BF16, F64, S8, U8, S4, E4M3, E5M2, S32, BOOLEAN = range(11)
CPU, CUDA = range(2)
BIAS_NONE, BIAS_BOOLEAN, BIAS_ADDITIVE = range(3)
Q, K, V = range(3)
# fmt: off
(ENUM_STATUS, ENUM_DTYPE, ENUM_DEVICE, ENUM_SCHEME, ENUM_GRANULARITY, ENUM_SMOOTH, ENUM_ROTATE, ENUM_EQUALISE, ENUM_MASK,
 ENUM_BIAS, ENUM_ROW_SUM, ENUM_TABLE, ENUM_QUOTIENT, ENUM_RESCALE, ENUM_OUTPUT_CODES, ENUM_SCALE_RULE) = range(16)
# fmt: on


class Tensor(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("dtype", c_int32),
        ("device", c_int32),
        ("shape", c_int64 * 4),
        ("stride", c_int64 * 4),
    ]


class Recipe(Structure):
    _fields_ = [
        *((name, c_int32) for name in ("q", "k", "v", "smooth", "rotate", "equalise")),
        ("rotation_seed", c_uint64),
    ]


class SchemeOptions(Structure):
    _fields_ = [(name, c_int32) for name in ("row_sum", "table", "table_bits", "quotient", "rescale")]


class QuantizedTensor(Structure):
    _fields_ = [
        ("codes", Tensor),
        ("scales", Tensor),
        ("tokens_per_scale", c_int64),
        ("channels_per_scale", c_int64),
        ("channel_exponent", Tensor),
        ("mean", Tensor),
        ("rotate", c_int32),
        ("rotation_seed", c_uint64),
    ]


class ParallelFor(Structure):
    _fields_ = [("run", c_void_p), ("pool", c_void_p)]


class Sized(Structure):
    """A struct that may grow: struct_size is set when it is made."""

    def __init__(self) -> None:
        super().__init__()
        self.struct_size = sizeof(self)


class SchemeInfo(Sized):
    _fields_ = [
        ("struct_size", c_uint64),
        ("scheme", c_int32),
        ("name", c_char_p),
        ("summary", c_char_p),
        ("source", c_char_p),
        ("qk", c_int32),
        ("v", c_int32),
        ("recipe", Recipe),
        *((name, c_uint32) for name in ("q_granularities", "k_granularities", "v_granularities")),
        *((name, c_int32) for name in ("smooths", "rotates", "equalises", "additive_bias", "baseline", "output_codes")),
        *((name, c_int32) for name in ("has_row_sum", "has_table", "has_quotient", "has_rescale")),
        ("max_tokens_k", c_int64),
    ]


class AttentionDesc(Sized):
    _fields_ = [
        ("struct_size", c_uint64),
        *((name, c_int32) for name in ("scheme", "input", "output", "mask", "bias", "wants_lse", "device")),
        *((name, c_int64) for name in ("batch", "heads_q", "heads_kv", "tokens_q", "tokens_k")),
        *((name, c_int64) for name in ("head_dim", "head_dim_v", "window_left", "window_right", "key_block", "sequences")),
        ("softmax_scale", c_float),
        ("recipe", Recipe),
        ("options", SchemeOptions),
    ]


class AttentionArgs(Sized):
    _fields_ = [
        ("struct_size", c_uint64),
        *((name, QuantizedTensor) for name in ("q", "k", "v")),
        *((name, Tensor) for name in ("o", "lse", "o_scale", "bias", "k_anchor")),
        ("cu_seqlens_q", c_void_p),
        ("cu_seqlens_k", c_void_p),
        ("workspace", c_void_p),
        ("workspace_bytes", c_int64),
        ("stream", c_void_p),
        ("parallel_for", ParallelFor),
    ]


class KvCacheOptions(Sized):
    _fields_ = [("struct_size", c_uint64), ("k_amax", c_float), ("v_amax", c_float), ("k_anchor", Tensor)]


class OperandRecipe(Sized):
    _fields_ = [
        ("struct_size", c_uint64),
        ("format", c_int32),
        ("granularity", c_int32),
        ("block", c_int64),
        ("largest_code", c_float),
        ("shared_amax", c_float),
        *((name, c_int32) for name in ("scale_rule", "block_floor_octaves", "head_floor_octaves")),
        *((name, c_int32) for name in ("smooth", "rotate", "equalise")),
        ("rotation_seed", c_uint64),
        ("anchor", Tensor),
    ]


class Packing(Structure):
    _fields_ = [("sequences", c_int64), ("cu_seqlens", c_void_p)]


def _library_path() -> str:
    """liboctet.so beside this file, or the file that OCTET_LIBRARY names (a build that is being worked on)."""
    chosen = os.environ.get("OCTET_LIBRARY")
    if chosen:
        if not Path(chosen).is_file():
            raise ImportError(refusal("OCTET_LIBRARY", repr(chosen), "no such file is there", "name liboctet.so of a build, or unset it"))
        return chosen
    beside = Path(__file__).with_name("liboctet.so")
    if not beside.is_file():
        raise ImportError(
            f"octet's package has no liboctet.so at {beside}; install it by `pip install .` in the project's folder, or set "
            "OCTET_LIBRARY to a build's liboctet.so"
        )
    return str(beside)


lib = ctypes.CDLL(_library_path())

# name: (result, arguments)
_FUNCTIONS = {
    "octet_version": (c_char_p, []),
    "octet_status_name": (c_char_p, [c_int32]),
    "octet_last_error": (c_char_p, []),
    "octet_enum_count": (c_int32, [c_int32]),
    "octet_enum_name": (c_char_p, [c_int32, c_int32]),
    "octet_enum_value": (c_int32, [c_int32, c_char_p, POINTER(c_int32)]),
    "octet_scheme_count": (c_int32, []),
    "octet_scheme_describe": (c_int32, [c_int32, c_void_p]),
    "octet_default_recipe": (c_int32, [c_int32, c_void_p]),
    "octet_backend_count": (c_int32, []),
    "octet_backend_name": (c_char_p, [c_int32]),
    "octet_attention_desc_init": (c_int32, [c_void_p, c_int32, c_void_p, c_void_p, c_void_p]),
    "octet_plan_create": (c_int32, [POINTER(c_void_p), c_void_p, c_char_p]),
    "octet_plan_destroy": (None, [c_void_p]),
    "octet_supported": (c_int32, [c_void_p, c_char_p, c_char_p, c_size_t]),
    "octet_plan_workspace_bytes": (c_int64, [c_void_p]),
    "octet_plan_kernel": (c_char_p, [c_void_p]),
    "octet_plan_backend": (c_char_p, [c_void_p]),
    "octet_plan_desc": (c_int32, [c_void_p, c_void_p]),
    "octet_plan_refusal_count": (c_int32, [c_void_p]),
    "octet_plan_refusal_kernel": (c_char_p, [c_void_p, c_int32]),
    "octet_plan_refusal_reason": (c_char_p, [c_void_p, c_int32]),
    "octet_plan_explain": (c_char_p, [c_void_p]),
    "octet_attend": (c_int32, [c_void_p, c_void_p]),
    "octet_pack": (c_int32, [c_void_p, c_void_p]),
    "octet_attend_packed": (c_int32, [c_void_p, c_void_p]),
    "octet_error_bound": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "octet_merge_states": (c_int32, [c_void_p] * 6),
    "octet_kv_cache_create": (c_int32, [POINTER(c_void_p), c_void_p, c_void_p]),
    "octet_kv_cache_destroy": (None, [c_void_p]),
    "octet_kv_cache_set_stream": (c_int32, [c_void_p, c_void_p]),
    "octet_kv_cache_append": (c_int32, [c_void_p] * 4),
    "octet_kv_cache_truncate": (c_int32, [c_void_p, c_int64]),
    "octet_kv_cache_length": (c_int64, [c_void_p]),
    "octet_kv_cache_capacity": (c_int64, [c_void_p]),
    "octet_kv_cache_bytes": (c_int64, [c_void_p]),
    "octet_kv_cache_workspace_bytes": (c_int64, [c_void_p, c_void_p]),
    "octet_kv_cache_attend": (c_int32, [c_void_p] * 3),
    "octet_kv_cache_step": (c_int32, [c_void_p] * 5),
    "octet_operand_recipe_of": (c_int32, [c_void_p, c_int32, c_void_p]),
    "octet_quantized_layout": (c_int32, [c_int64 * 4, c_void_p, c_int64, c_void_p]),
    "octet_tensor_bytes": (c_int64, [c_void_p]),
    "octet_quantize": (c_int32, [c_void_p] * 5),
    "octet_dequantize": (c_int32, [c_void_p] * 4),
    "octet_peak_rate": (c_int32, [c_char_p, c_double, POINTER(c_double)]),
}
for _name, (_result, _arguments) in _FUNCTIONS.items():
    _function = getattr(lib, _name)
    _function.restype, _function.argtypes = _result, _arguments

_ERRORS = {
    INVALID_ARGUMENT: ValueError,
    UNSUPPORTED: UnsupportedError,
    NON_FINITE: NonFiniteError,
    OUT_OF_MEMORY: MemoryError,
    IO: OSError,
    INTERNAL: InternalError,
}


def last_error() -> str:
    """The sentence of this thread's last failed call."""
    return lib.octet_last_error().decode()


def check(status: int) -> None:
    """Raises the exception of a status that is not ok, with the library's sentence."""
    if status != OK:
        raise _ERRORS.get(status, InternalError)(last_error())


def enum_value(which: int, name: object, argument: str) -> int:
    """The number of an enumeration's name. ValueError lists the names; TypeError where it is no string."""
    if not isinstance(name, str):
        known = ", ".join(enum_names(which))
        raise TypeError(refusal(argument, repr(name), "it must be a name (str)", f"choose one of {known}"))
    value = c_int32()
    check(lib.octet_enum_value(which, name.encode(), byref(value)))
    return value.value


def enum_name(which: int, value: int) -> str:
    """The name of a value of an enumeration."""
    return lib.octet_enum_name(which, value).decode()


def enum_names(which: int) -> list[str]:
    """All names of an enumeration, in its order."""
    return [enum_name(which, value) for value in range(lib.octet_enum_count(which))]
