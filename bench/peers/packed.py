#!/usr/bin/env python3
"""Measures one token or a few of packed sequences, octet's schemes and PyTorch's flash kernel, into one document.

    packed.py --commit COMMIT --output FILE.json [--schemes int8,int8_full,fp8,f16] [--seed N]

Needs PyTorch on a CUDA device, and octet's Python package with a library for it (OCTET_LIBRARY, PYTHONPATH=python).
Inputs are normal numbers in bf16, the mask is causal. Times are the device's, by torch.profiler: `us` from the begin
of the attention kernel to the end of what follows it in the call, medians of the calls; `us_from_bf16` of all kernels
of a call, quantising and packing with them, added up, though one may begin while another ends. The error is against
float64 on the same numbers. The file is written whole or not at all.
"""
import argparse
import os
import random
import statistics
import tempfile

import torch
from document import document_text
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

import octet.torch

WARM_CALLS, CALLS = 3, 20
FLASH = "PyTorch flash bf16, varlen"


def shapes(seed):
    """(name, keys of each sequence, queries of each, query heads, key heads, head dim)."""
    draw = random.Random(seed)
    ragged = [draw.randint(512, 16384) for _ in range(32)]
    return [
        ("32 even", [4096] * 32, [1] * 32, 32, 8, 128),
        ("32 ragged", ragged, [1] * 32, 32, 8, 128),
        ("31 short, one long", [1024] * 31 + [32768], [1] * 32, 32, 8, 128),
        ("8 ragged, 4 tokens", ragged[:8], [4] * 8, 32, 8, 128),
        ("8 ragged, no groups", ragged[:8], [1] * 8, 32, 32, 128),
    ]


def kernels_of(call):
    """(begin, end, name) of the kernels of CALLS calls, in us, in order."""
    for _ in range(WARM_CALLS):
        call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as record:
        for _ in range(CALLS):
            call()
        torch.cuda.synchronize()
    events = [e for e in record.events() if e.device_type == DeviceType.CUDA]
    return sorted((e.time_range.start, e.time_range.end, e.name) for e in events)


def times_of(call):
    """(us, us_from_bf16) of an octet call."""
    kernels = kernels_of(call)
    spans = []
    for begin, end, name in kernels:
        if "attend<" in name:
            spans.append([begin, end])
        elif "merge(" in name:
            spans[-1][1] = end
    whole = sum(end - begin for begin, end, _ in kernels) / CALLS
    return statistics.median(end - begin for begin, end in spans), whole


def exactly(q, k, v, cu_q, cu_k):
    """[tokens, heads, dim] in float64, a sequence and head at a time."""
    o = torch.empty(q.shape, dtype=torch.float64, device=q.device)
    group = q.shape[1] // k.shape[1]
    for i in range(len(cu_q) - 1):
        rows, keys = slice(cu_q[i], cu_q[i + 1]), slice(cu_k[i], cu_k[i + 1])
        m, n = cu_q[i + 1] - cu_q[i], cu_k[i + 1] - cu_k[i]
        hidden = torch.arange(n, device=q.device)[None] > torch.arange(m, device=q.device)[:, None] + n - m
        for h in range(q.shape[1]):
            x = q[rows, h].double() @ k[keys, h // group].double().T / q.shape[2] ** 0.5
            o[rows, h] = torch.softmax(x.masked_fill(hidden, float("-inf")), -1) @ v[keys, h // group].double()
    return o


def rows_of(shape, schemes, seed):
    name, keys, queries, heads, heads_kv, dim = shape
    cu_q, cu_k = ([sum(x[:i]) for i in range(len(x) + 1)] for x in (queries, keys))
    generator = torch.Generator("cuda").manual_seed(seed)
    q, k, v = (
        torch.randn(tokens, h, dim, generator=generator, device="cuda", dtype=torch.bfloat16)
        for tokens, h in ((cu_q[-1], heads), (cu_k[-1], heads_kv), (cu_k[-1], heads_kv)))
    offsets = [torch.tensor(x, dtype=torch.int32, device="cuda") for x in (cu_q, cu_k)]
    exact = exactly(q, k, v, cu_q, cu_k)
    known = {"workload": name, "sequences": len(keys), "heads": heads, "heads_kv": heads_kv, "tokens_q": cu_q[-1],
             "tokens_k": cu_k[-1], "longest_k": max(keys), "head_dim": dim}

    def row(variant, us, whole, o):
        error = ((o.double() - exact).norm() / exact.norm()).item()
        print(f"{name}: {variant} {us:.1f} us, from bf16 {whole:.1f} us, relative RMSE {100 * error:.2f} %", flush=True)
        return {**known, "variant": variant, "us": us, "us_from_bf16": whole, "relative_rmse": error}

    def flash():
        return torch.ops.aten._flash_attention_forward(
            q, k, v, *offsets, max(queries), max(keys), 0.0, True, False)[0]

    kernels = kernels_of(flash)
    us = sum(end - begin for begin, end, _ in kernels) / CALLS
    yield row(FLASH, us, us, flash())
    q4, k4, v4 = (x.transpose(0, 1)[None] for x in (q, k, v))
    for scheme in schemes:
        def call():
            return octet.torch.attention(
                q4, k4, v4, scheme=scheme, causal=True, cu_seqlens_q=offsets[0], cu_seqlens_k=offsets[1])
        yield row(scheme, *times_of(call), call()[0].transpose(0, 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--commit", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--schemes", default="int8,int8_full,fp8,f16")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rows = [row for shape in shapes(options.seed) for row in rows_of(shape, options.schemes.split(","), options.seed)]
    document = {"command": "bench/peers/packed.py", "commit": options.commit, "gpu": torch.cuda.get_device_name(),
                "torch": torch.__version__, "seed": options.seed, "calls": CALLS, "rows": rows}
    folder = os.path.dirname(os.path.abspath(options.output))
    with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".part", delete=False) as file:
        file.write(document_text(document))
    os.replace(file.name, options.output)


if __name__ == "__main__":
    main()
