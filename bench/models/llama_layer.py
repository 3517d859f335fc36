#!/usr/bin/env python3
"""Claim 67 on a GPU: one decoder layer of Llama 3.1 8B's shape, random weights, prefill, bf16, with PyTorch's attention and with octet's.

    python bench/models/llama_layer.py --tokens 1024 4096 16384 --schemes bf16 int8 --output stack-llama.json

Times are of CUDA events around the layer, after warm-up, medians; attention's own time is measured by events around its calls in passes of
their own, so that events inside do not stretch the whole. `--device cpu` with a few tokens runs the same code where no GPU is.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

if __package__ is None or __package__ == "":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from models.replaced import PYTORCH, Replaced
from models.results import RESULTS, document, write

# meta-llama/Llama-3.1-8B's config.json.
HIDDEN, HEADS, HEADS_KV, INNER = 4096, 32, 8, 14336


def decoder_layer(device: str, dtype: torch.dtype) -> tuple[torch.nn.Module, Callable[[int], tuple[torch.Tensor, dict[str, Any]]]]:
    """The layer, and what makes its inputs for a number of tokens."""
    from transformers.models.llama.configuration_llama import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

    config = LlamaConfig(
        hidden_size=HIDDEN,
        intermediate_size=INNER,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS_KV,
        max_position_embeddings=131072,
        attn_implementation="sdpa",
    )
    torch.manual_seed(1)
    layer = LlamaDecoderLayer(config, layer_idx=0).to(device=device, dtype=dtype).eval()
    rotary = LlamaRotaryEmbedding(config).to(device)

    def inputs(tokens: int) -> tuple[torch.Tensor, dict[str, Any]]:
        hidden = torch.randn(1, tokens, HIDDEN, device=device, dtype=dtype)
        positions = torch.arange(tokens, device=device)[None]
        return hidden, {"position_embeddings": rotary(hidden, positions), "attention_mask": None}

    return layer, inputs


class Clock:
    """Milliseconds between two marks: CUDA events on a GPU, CPU time of the thread elsewhere."""

    def __init__(self, device: str) -> None:
        self.cuda = device.startswith("cuda")

    def mark(self) -> Any:
        if not self.cuda:
            return time.thread_time()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, start: Any, end: Any) -> float:
        if not self.cuda:
            return 1e3 * (end - start)
        end.synchronize()
        milliseconds: float = start.elapsed_time(end)
        return milliseconds


class TimedAttention(Replaced):
    """Replaced, with a mark before and after each call."""

    def __init__(self, scheme: str, clock: Clock) -> None:
        super().__init__(scheme)
        self.clock = clock
        self.marks: list[tuple[Any, Any]] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        calls = self.calls
        start = self.clock.mark()
        result = super().__torch_function__(function, types, args, kwargs)
        if self.calls > calls:
            self.marks.append((start, self.clock.mark()))
        return result


@torch.inference_mode()
def measure(device: str, tokens: list[int], schemes: list[str], repeats: int) -> list[dict[str, Any]]:
    """A row a number of tokens and scheme; PyTorch first."""
    layer, inputs = decoder_layer(device, torch.bfloat16)
    clock = Clock(device)
    rows = []
    for count in tokens:
        hidden, arguments = inputs(count)
        whole: dict[str, float] = {}
        inside: dict[str, float] = {}
        for scheme in (PYTORCH, *schemes):
            totals = []
            for turn in range(repeats + 2):
                with Replaced(scheme):
                    start = clock.mark()
                    layer(hidden, **arguments)
                    end = clock.mark()
                if turn >= 2:  # two warm up
                    totals.append(clock.between(start, end))
            within = []
            for _ in range(repeats):
                with TimedAttention(scheme, clock) as timed:
                    layer(hidden, **arguments)
                if len(timed.marks) != 1:
                    raise RuntimeError(f"the layer called attention {len(timed.marks)} times, not once: transformers has changed")
                within.append(clock.between(*timed.marks[0]))
            whole[scheme], inside[scheme] = statistics.median(totals), statistics.median(within)
            rows.append(
                {
                    "shape": "Llama 3.1 8B, one layer",
                    "tokens": count,
                    "layers": 1,
                    "scheme": scheme,
                    "ms": whole[scheme],
                    "attention_ms": inside[scheme],
                    "attention_share": inside[scheme] / whole[scheme],
                    "attention_speedup": inside[PYTORCH] / inside[scheme],
                    "speedup": whole[PYTORCH] / whole[scheme],
                    "speedup_if_attention_were_free": whole[PYTORCH] / (whole[PYTORCH] - inside[PYTORCH]),
                }
            )
            print(rows[-1], file=sys.stderr, flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description="A decoder layer of Llama's shape with PyTorch's attention and with octet's.")
    parser.add_argument("--device", default="cuda", help="cuda (default), cuda:1, cpu")
    parser.add_argument("--tokens", type=int, nargs="+", default=[1024, 4096, 16384, 32768])
    parser.add_argument("--schemes", nargs="+", default=["bf16", "int8"])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--output", type=Path, default=RESULTS / "stack-llama.json")
    options = parser.parse_args()
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        print(f"llama_layer.py: --device is {options.device}, but PyTorch sees no GPU: run it where one is, or with --device cpu", file=sys.stderr)
        return 2
    rows = measure(options.device, options.tokens, options.schemes, options.repeats)
    told = {"gpu": torch.cuda.get_device_name(options.device)} if options.device.startswith("cuda") else {}
    command = "python bench/models/llama_layer.py"
    content = document("stack", command, ["torch", "transformers"], rows, **told)
    write(options.output.stem, content, options.output.parent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
