"""octet for PyTorch: operators that torch.compile and torch.export see through, and the faces of functions that people already call.

Import it before a model is compiled or exported: it registers torch.ops.octet. Tensors on CPUs and CUDA devices; no gradients: a tensor that
requires grad is refused while grad mode is on.
"""

from ._flash import flash_attn_func, flash_attn_varlen_func, int8_flash_attention
from ._ops import attention, attention_codes
from ._patch import Patch, Report, patch_model, replace_sdpa
from ._sdpa import scaled_dot_product_attention

__all__ = [
    "Patch",
    "Report",
    "attention",
    "attention_codes",
    "flash_attn_func",
    "flash_attn_varlen_func",
    "int8_flash_attention",
    "patch_model",
    "replace_sdpa",
    "scaled_dot_product_attention",
]
