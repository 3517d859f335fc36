"""Claim 67: that INT8 attention makes a whole model 1.8 times as fast. Encoders of transformers on this CPU, attention f32 against int8.

Times are CPU seconds of the one thread that runs the model, so that other processes on the machine do not count. What attention takes
is measured inside the same forward pass; nothing can gain more than by attention costing nothing, which the row says, too.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch
from tqdm import tqdm

from .replaced import PYTORCH, Replaced

# (hidden size, heads, inner size, layers of the real model): MiniLM's head dim is 32, BERT base's 64.
SHAPES = {"all-MiniLM-L6-v2": (384, 12, 1536, 6), "BERT base": (768, 12, 3072, 12)}
# More layers of one shape have the same shares; two make a forward pass short enough to be repeated.
LAYERS = 2


def encoder(shape: str, tokens: int) -> torch.nn.Module:
    """A BERT encoder with random weights: arithmetic takes the same time with any."""
    from transformers import BertConfig, BertModel

    hidden, heads, inner, _ = SHAPES[shape]
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=1000,
        hidden_size=hidden,
        num_hidden_layers=LAYERS,
        num_attention_heads=heads,
        intermediate_size=inner,
        max_position_embeddings=tokens,
        attn_implementation="sdpa",
    )
    return BertModel(config, add_pooling_layer=False).eval()


@torch.inference_mode()
def timed(model: torch.nn.Module, codes: torch.Tensor, scheme: str) -> tuple[float, float]:
    """(CPU seconds of a forward pass, of which in attention)."""
    with Replaced(scheme) as replaced:
        start = time.thread_time()
        model(input_ids=codes)
        return time.thread_time() - start, replaced.seconds


def measure(tokens: tuple[int, ...], schemes: tuple[str, ...], repeats: int) -> list[dict[str, Any]]:
    """A row a shape, number of tokens and scheme; PyTorch first. Schemes take turns, so that a slow minute is all of theirs; medians."""
    if torch.get_num_threads() != 1:
        raise ValueError("CPU time of one thread is measured, so torch must have one: torch.set_num_threads(1)")
    rows = []
    for shape in SHAPES:
        for count in tokens:
            model = encoder(shape, count)
            codes = torch.randint(1000, (1, count), generator=torch.Generator().manual_seed(1))
            times: dict[str, list[tuple[float, float]]] = {scheme: [] for scheme in (PYTORCH, *schemes)}
            for turn in tqdm(range(repeats + 1), desc=f"{shape}, {count} tokens", leave=False, mininterval=1):
                for scheme, found in times.items():
                    pair = timed(model, codes, scheme)
                    if turn:  # the first warms up
                        found.append(pair)
            whole = {scheme: statistics.median(total for total, _ in found) for scheme, found in times.items()}
            inside = {scheme: statistics.median(within for _, within in found) for scheme, found in times.items()}
            for scheme in times:
                rows.append(
                    {
                        "shape": shape,
                        "tokens": count,
                        "layers": LAYERS,
                        "scheme": scheme,
                        "ms": 1e3 * whole[scheme],
                        "attention_ms": 1e3 * inside[scheme],
                        "attention_share": inside[scheme] / whole[scheme],
                        "attention_speedup": inside[PYTORCH] / inside[scheme],
                        "speedup": whole[PYTORCH] / whole[scheme],
                        "speedup_if_attention_were_free": whole[PYTORCH] / (whole[PYTORCH] - inside[PYTORCH]),
                    }
                )
    return rows
