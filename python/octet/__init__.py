"""octet: 8-bit fused attention that can be trusted, for NumPy arrays and torch tensors.

    import numpy as np, octet
    q = k = v = np.random.default_rng(0).standard_normal((1, 8, 1024, 64), dtype=np.float32)
    o = octet.attention(q, k, v, scheme="int8", causal=True)

octet.torch has PyTorch operators and the faces of scaled_dot_product_attention and flash_attn_func; it is imported by the caller. docs/python.md
is a page of recipes.
"""

from ._attention import Support, attention, error_bound, explain, plan, supported
from ._cache import KVCache
from ._merge import merge_states
from ._plan import AttentionPlan
from ._problem import TensorSpec
from ._quantize import OperandRecipe, QuantizedTensor, operand_recipe, quantize
from ._schemes import Recipe, Scheme, SchemeOptions, backends, default_recipe, scheme, schemes, version
from .errors import InternalError, NonFiniteError, UnsupportedError

__version__ = version()
__all__ = [
    "AttentionPlan",
    "InternalError",
    "KVCache",
    "NonFiniteError",
    "OperandRecipe",
    "QuantizedTensor",
    "Recipe",
    "Scheme",
    "SchemeOptions",
    "Support",
    "TensorSpec",
    "UnsupportedError",
    "attention",
    "backends",
    "default_recipe",
    "error_bound",
    "explain",
    "merge_states",
    "operand_recipe",
    "plan",
    "quantize",
    "scheme",
    "schemes",
    "supported",
    "version",
]
