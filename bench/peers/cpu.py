#!/usr/bin/env python3
"""Measures other libraries' attention on the shapes of an octet document and merges their rows into it.

    cpu.py DOCUMENT.json [--onednn PROGRAM] [--minutes N] [--peers torch,onnxruntime,onednn]

DOCUMENT is what `octet bench --suite cpu --output` wrote; it is replaced. Shapes, threads, peaks and the way of
timing are octet's: one call to warm up, then the median of groups of calls. A peer that is not installed, or cannot
do a shape, leaves rows that say so.
"""
import argparse
import importlib
import json
import math
import os
import statistics
import subprocess
import sys
import time

from document import document_text

GROUP_SECONDS, TOTAL_SECONDS, LEAST_GROUPS, MOST_GROUPS, PATIENCE = 0.004, 0.2, 3, 51, 1.0
CALL_SECONDS = 4.0           # a call that would take longer is skipped
COLD_BYTES = 256 << 20       # keys and values of decode, so that none is found in a cache
SHAPE = ["workload", "batch", "heads", "heads_kv", "tokens_q", "tokens_k", "head_dim", "causal", "bias"]
# The fastest instruction of a number format, of those that the document has.
INSTRUCTIONS = {"f32": ["fma_f32_zmm", "fma_f32_ymm"], "f16": ["fma_f16_zmm", "fma_f32_zmm", "fma_f32_ymm"],
                "bf16": ["tdpbf16ps", "vdpbf16ps_zmm", "fma_f32_zmm", "fma_f32_ymm"],
                "int8": ["tdpbusd", "vpdpbusd_zmm", "vpdpbusd_ymm", "vpmaddwd_ymm"]}


class Unsupported(Exception):
    """What the peer does not offer, in a few words."""


def giga_operations(w):
    pairs = w["batch"] * w["heads"] * w["tokens_q"] * w["tokens_k"] / (2 if w["causal"] else 1)
    return 4e-9 * pairs * w["head_dim"]


def quantile(values, q):
    return sorted(values)[int(q * (len(values) - 1))]


def timed(call):
    """{"ms", "ms_p90", "calls"} of `call`, which has run before."""
    groups, total, all_calls = [], 0.0, 0
    while ((len(groups) < 2 or total < PATIENCE) if len(groups) < LEAST_GROUPS
           else (total < TOTAL_SECONDS and len(groups) < MOST_GROUPS)):
        calls, start, seconds = 0, time.perf_counter(), 0.0
        while calls == 0 or seconds < GROUP_SECONDS:
            call()
            calls, seconds = calls + 1, time.perf_counter() - start
        groups.append(seconds / calls)
        total, all_calls = total + seconds, all_calls + calls
    return {"ms": 1e3 * quantile(groups, 0.5), "ms_p90": 1e3 * quantile(groups, 0.9), "calls": all_calls}


def inputs(numpy, w):
    """Q, K, V [batch, heads, tokens, dim] and the bias, normal, f32."""
    random = numpy.random.default_rng(1)
    shape = lambda heads, tokens: (w["batch"], heads, tokens, w["head_dim"])
    draw = lambda s: random.standard_normal(s, dtype=numpy.float32)
    bias = draw((1, w["heads"], w["tokens_q"], w["tokens_k"])) if w["bias"] else None
    return (draw(shape(w["heads"], w["tokens_q"])), draw(shape(w["heads_kv"], w["tokens_k"])),
            draw(shape(w["heads_kv"], w["tokens_k"])), bias)


def relative_rmse(numpy, w, q, k, v, bias, o):
    """Against float64, over the first, the middle and the last row of every head."""
    rows = sorted({0, w["tokens_q"] // 2, w["tokens_q"] - 1})
    group = w["heads"] // w["heads_kv"]
    error = size = 0.0
    for b in range(w["batch"]):
        for h in range(w["heads"]):
            scores = q[b, h, rows].astype("f8") @ k[b, h // group].astype("f8").T / math.sqrt(w["head_dim"])
            if bias is not None:
                scores += bias[0, h, rows]
            if w["causal"]:
                for i, row in enumerate(rows):
                    scores[i, row + 1 + w["tokens_k"] - w["tokens_q"]:] = -numpy.inf
            p = numpy.exp(scores - scores.max(axis=1, keepdims=True))
            exact = p / p.sum(axis=1, keepdims=True) @ v[b, h // group].astype("f8")
            error += ((o[b, h, rows].astype("f8") - exact) ** 2).sum()
            size += (exact ** 2).sum()
    return math.sqrt(error / size)


def copies_of(w, element_bytes):
    if w["tokens_q"] == w["tokens_k"]:
        return 1
    return max(1, math.ceil(COLD_BYTES / (2 * w["batch"] * w["heads_kv"] * w["tokens_k"] * w["head_dim"] * element_bytes)))


class Torch:
    name, variants = "PyTorch", ["f32", "bf16", "f16"]

    def __init__(self):
        self.numpy, self.torch = importlib.import_module("numpy"), importlib.import_module("torch")
        self.version = self.torch.__version__

    def label(self, variant):
        return f"PyTorch SDPA {variant}"

    def prepared(self, w, variant, threads):
        torch, numpy = self.torch, self.numpy
        torch.set_num_threads(threads)
        dtype = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[variant]
        q, k, v, bias = inputs(numpy, w)
        tensor = lambda x: torch.from_numpy(x).to(dtype)
        tq, mask = tensor(q), None if bias is None else tensor(bias).expand(w["batch"], -1, -1, -1)
        copies = [(tensor(k).clone(), tensor(v).clone()) for _ in range(copies_of(w, tq.element_size()))]
        turn, output = [0], [None]

        def call():
            with torch.inference_mode():
                tk, tv = copies[turn[0] % len(copies)]
                turn[0] += 1
                output[0] = torch.nn.functional.scaled_dot_product_attention(
                    tq, tk, tv, attn_mask=mask, is_causal=w["causal"], enable_gqa=w["heads"] != w["heads_kv"])
        return call, lambda: relative_rmse(numpy, w, q, k, v, bias, output[0].float().numpy())


class OnnxRuntime:
    name, variants = "ONNX Runtime", ["f32"]

    def __init__(self):
        self.numpy, self.ort = importlib.import_module("numpy"), importlib.import_module("onnxruntime")
        self.onnx = importlib.import_module("onnx")
        self.version = self.ort.__version__

    def label(self, variant):
        return f"ONNX Runtime MultiHeadAttention {variant}"

    def model(self, w):
        h, f32 = self.onnx.helper, self.onnx.TensorProto.FLOAT
        hidden = w["heads"] * w["head_dim"]
        value = lambda name, shape: h.make_tensor_value_info(name, f32, shape)
        names = ["q", "k", "v", "", "", "bias"] if w["bias"] else ["q", "k", "v"]
        node = h.make_node("MultiHeadAttention", names, ["o"], domain="com.microsoft", num_heads=w["heads"],
                           unidirectional=int(w["causal"]))
        infos = [value("q", [w["batch"], w["tokens_q"], hidden]), value("k", [w["batch"], w["tokens_k"], hidden]),
                 value("v", [w["batch"], w["tokens_k"], hidden])]
        if w["bias"]:
            infos.append(value("bias", [1, w["heads"], w["tokens_q"], w["tokens_k"]]))
        graph = h.make_graph([node], "attention", infos, [value("o", [w["batch"], w["tokens_q"], hidden])])
        return h.make_model(graph, opset_imports=[h.make_opsetid("", 17), h.make_opsetid("com.microsoft", 1)],
                            ir_version=10).SerializeToString()

    def prepared(self, w, variant, threads):
        if w["heads"] != w["heads_kv"]:
            raise Unsupported("MultiHeadAttention has no grouped heads")
        numpy, ort = self.numpy, self.ort
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        session = ort.InferenceSession(self.model(w), options, providers=["CPUExecutionProvider"])
        q, k, v, bias = inputs(numpy, w)
        flat = lambda x: numpy.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(x.shape[0], x.shape[2], -1)
        output = numpy.empty_like(flat(q))
        feeds = {"q": flat(q), "bias": bias} if w["bias"] else {"q": flat(q)}
        bindings = []
        for _ in range(copies_of(w, 4)):
            binding = session.io_binding()
            for name, x in {**feeds, "k": flat(k), "v": flat(v)}.items():
                binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(x))
            binding.bind_ortvalue_output("o", ort.OrtValue.ortvalue_from_numpy(output))
            bindings.append(binding)
        turn = [0]

        def call():
            session.run_with_iobinding(bindings[turn[0] % len(bindings)])
            turn[0] += 1

        def error():
            o = bindings[0].get_outputs()[0].numpy()
            o = o.reshape(w["batch"], w["tokens_q"], w["heads"], w["head_dim"]).transpose(0, 2, 1, 3)
            return relative_rmse(numpy, w, q, k, v, bias, o)
        return call, error


class OneDnn:
    name, variants = "oneDNN", ["int8", "bf16"]

    def __init__(self, program):
        if not program or not os.path.exists(program):
            raise ImportError("its program is not built; run scripts/install-peers")
        self.program, self.version = program, "unknown"

    def label(self, variant):
        return f"oneDNN unfused {variant}"

    def measured(self, w, variant, threads):
        """One process a row: it says how long its calls take."""
        if w["causal"] or w["bias"]:
            raise Unsupported("the composition has neither causal masks nor biases")
        shape = [w[field] for field in ["batch", "heads", "heads_kv", "tokens_q", "tokens_k", "head_dim"]]
        done = subprocess.run([self.program, variant, *map(str, shape), str(threads), str(TOTAL_SECONDS)],
                              capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            raise RuntimeError(f"onednn_attention ended with {done.returncode}: {done.stderr.strip()[:200]}")
        result = json.loads(done.stdout)
        if "error" in result:
            raise Unsupported(result["error"])
        self.version = result.pop("version")
        return result


def peak(document, variant, threads):
    """The rate that octet's rows have found around their groups of calls, else the suite's single reading."""
    if variant == "bf16" and "amx_bf16" in document.get("features", []):
        return None  # libraries take AMX's tiles then, whose rate in bf16 octet does not measure
    rates = {p["what"]: p["giga"] for p in document["peaks"] if p["threads"] == threads}
    for instruction in rates:
        around = [r["peak_gops"] for r in document["rows"]
                  if not r.get("peer") and r["threads"] == threads and r.get("peak_instruction") == instruction]
        if around:
            rates[instruction] = statistics.median(around)
    found = [(rates[i], i) for i in INSTRUCTIONS[variant] if i in rates]
    return max(found, default=None)


def bandwidth(document, threads):
    """GB/s that octet's rows of decode have found around their groups of calls, else the suite's single reading."""
    around = [r["read_gb_per_s"] for r in document["rows"]
              if not r.get("peer") and r["threads"] == threads and "read_gb_per_s" in r]
    if around:
        return statistics.median(around)
    return next((p["giga"] for p in document["peaks"] if p["what"] == "read" and p["threads"] == threads), None)


def measure(peer, document, w, variant, threads):
    if hasattr(peer, "measured"):
        return peer.measured(w, variant, threads)
    call, error = peer.prepared(w, variant, threads)
    call()
    figures = {"relative_rmse": error()}
    return {**timed(call), **figures}


def fill(row, document, w, variant, threads, figures):
    row.update(figures)
    row["gops"] = giga_operations(w) / (row["ms"] / 1e3)
    if found := peak(document, variant, threads):
        row["peak_gops"], row["peak_instruction"] = found
        row["percent_of_peak"] = 100 * row["gops"] / found[0]
    if w["tokens_q"] != w["tokens_k"] and (rate := bandwidth(document, threads)):
        element_bytes = {"f32": 4, "int8": 1}.get(variant, 2)
        kv_bytes = 2 * w["batch"] * w["heads_kv"] * w["tokens_k"] * w["head_dim"] * element_bytes
        row["gb_per_s"] = 1e-9 * kv_bytes / (row["ms"] / 1e3)
        row["percent_of_bandwidth"] = 100 * row["gb_per_s"] / rate


def reason_of(peer, reason):
    said = (str(reason).splitlines() or [type(reason).__name__])[0][:200]
    return said if said.startswith(peer.name) else f"{peer.name}: {said}"


def rows_of(peer, document, workloads, end):
    """A row for each shape, format and number of threads; longer shapes are foretold by shorter ones."""
    speeds = {}
    for w in workloads:
        for variant in peer.variants:
            for threads in sorted({1, document["threads"]}):
                row = {"suite": "cpu", "workload": w["workload"], "scheme": variant, "variant": peer.label(variant),
                       "peer": True, "backend": peer.name, **{field: w[field] for field in SHAPE[1:]},
                       "threads": threads, "busy": 0, "quantisation": "excluded"}
                expected = giga_operations(w) / speeds.get((variant, threads), math.inf)
                try:
                    if time.monotonic() > end:
                        raise Unsupported("the peers' time was up")
                    if expected > CALL_SECONDS:
                        raise Unsupported(f"a call would take about {expected:.0f} s, longer than {CALL_SECONDS:.0f} s")
                    fill(row, document, w, variant, threads, measure(peer, document, w, variant, threads))
                    speeds[variant, threads] = max(row["gops"], speeds.get((variant, threads), 0))
                    row.update({key: float(f"{x:.6g}") for key, x in row.items() if isinstance(x, float)})
                    row["backend"] = f"{peer.name} {peer.version}"
                except Exception as reason:  # whatever a library throws is that row's reason, not the end of the run
                    row["skipped"] = reason_of(peer, reason)
                yield row


def workloads_of(document):
    """The shapes that octet measured, in its order."""
    found = {}
    for row in document["rows"]:
        if not row.get("peer"):
            found.setdefault(row["workload"], {field: row[field] for field in SHAPE})
    return list(found.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("document")
    parser.add_argument("--onednn", help="the built onednn_attention")
    parser.add_argument("--minutes", type=float, default=4, help="rows that would begin later are skipped")
    parser.add_argument("--peers", default="torch,onnxruntime,onednn")
    options = parser.parse_args()
    with open(options.document, encoding="utf-8") as file:
        document = json.load(file)
    document["rows"] = [row for row in document["rows"] if not row.get("peer")]
    document["peers"] = []
    makers = {"torch": Torch, "onnxruntime": OnnxRuntime, "onednn": lambda: OneDnn(options.onednn)}
    wanted = options.peers.split(",")
    if unknown := [name for name in wanted if name not in makers]:
        parser.error(f"--peers names {unknown[0]}; choose from {', '.join(makers)}")
    start = time.monotonic()
    for i, name in enumerate(wanted):
        try:
            peer = makers[name]()
        except (ImportError, OSError) as reason:
            document["peers"].append({"name": name, "version": f"not installed ({str(reason).splitlines()[0][:120]})"})
            continue
        end = start + 60 * options.minutes * (i + 1) / len(wanted)
        for row in rows_of(peer, document, workloads_of(document), end):
            document["rows"].append(row)
            print(f"{row['workload']:16} {row['variant']:36} {row['threads']:3} threads  "
                  + (f"{row['gops']:8.1f} Gop/s" if "gops" in row else row["skipped"]), file=sys.stderr)
        document["peers"].append({"name": peer.name, "version": peer.version})
    document["seconds"] = round(document["seconds"] + time.monotonic() - start)
    with open(options.document, "w", encoding="utf-8") as file:
        file.write(document_text(document))


if __name__ == "__main__":
    main()
