"""What the Python tests share: problems with fixed seeds, exact attention in float64, and which packages must be there."""

from __future__ import annotations

import importlib
import os

import numpy as np
import pytest

# Packages that may be missing where a developer runs the tests; CI names those that must not be (OCTET_TEST_REQUIRES=torch,models).
_REQUIRED = set(filter(None, os.environ.get("OCTET_TEST_REQUIRES", "").split(",")))
_PACKAGES = {"torch": ["torch"], "models": ["torch", "transformers", "timm", "diffusers", "sklearn", "tqdm"]}


def pytest_collection_modifyitems(items):
    for marker, packages in _PACKAGES.items():
        marked = [item for item in items if item.get_closest_marker(marker)]
        missing = [name for name in packages if marked and importlib.util.find_spec(name) is None]
        if not missing:
            continue
        if marker in _REQUIRED:
            raise pytest.UsageError(f"OCTET_TEST_REQUIRES names {marker}, but these packages are missing: {', '.join(missing)}")
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=f"needs {', '.join(missing)}"))
    marked = [item for item in items if item.get_closest_marker("cuda")]
    why = _no_gpu() if marked else ""
    for item in marked if why else ():
        item.add_marker(pytest.mark.skip(reason=why))


def _no_gpu() -> str:
    if importlib.util.find_spec("torch") is None:
        return "needs torch and a GPU"
    import torch

    import octet

    if not torch.cuda.is_available():
        return "no GPU on this machine"
    return "" if "mma" in octet.backends() else "liboctet was built without CUDA"


def exact(q, k, v, *, scale=None, causal=False, window=(-1, -1), mask=None):
    """(o, lse) of softmax(scale q k' + mask) v in float64; causal and windows aligned at the bottom right; [b, h, tokens, dim]."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    groups = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, groups, 1), np.repeat(v, groups, 1)
    scores = np.einsum("bhmd,bhnd->bhmn", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    m, n = scores.shape[2:]
    place = np.arange(m)[:, None] + n - m
    key = np.arange(n)
    left, right = window
    right = 0 if causal and right < 0 else min(right, 0) if causal else right
    seen = np.ones((m, n), bool)
    if right >= 0:
        seen &= key <= place + right
    if left >= 0:
        seen &= key >= place - left
    if mask is not None and np.asarray(mask).dtype == bool:
        seen = seen & mask
    elif mask is not None:
        scores = scores + np.asarray(mask, np.float64)
    scores = np.where(seen, scores, -np.inf)
    with np.errstate(divide="ignore"):
        top = np.max(scores, -1, keepdims=True, initial=-np.inf)
        top = np.where(np.isfinite(top), top, 0)
        weight = np.exp(scores - top)
        total = weight.sum(-1, keepdims=True)
        lse = (np.log(total) + top)[..., 0]
    return np.einsum("bhmn,bhnd->bhmd", weight / np.where(total == 0, 1, total), v), lse


def problem(seed=0, batch=2, heads=4, heads_kv=None, m=37, n=53, dim=32, dim_v=None, dtype=np.float32):
    """q, k, v of N(0, 1) numbers."""
    rng = np.random.default_rng(seed)
    heads_kv = heads if heads_kv is None else heads_kv

    def normal(*shape):
        return rng.standard_normal(shape, dtype=np.float32).astype(dtype)

    return normal(batch, heads, m, dim), normal(batch, heads_kv, n, dim), normal(batch, heads_kv, n, dim_v or dim)
