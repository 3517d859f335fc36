#!/usr/bin/env python3
"""Measures octet's GPU suites and other libraries' attention on the same shapes, workload by workload, into one document.

    gpu.py --octet PROGRAM [--output FILE.json] [--suites vit,llm-prefill,decode] [--workloads LIST] [--schemes LIST]
           [--energy LIST] [--seconds S] [--peers cudnn,flash,comfy-kitchen,flash-attention-4] [--minutes N]
    gpu.py --octet PROGRAM --list

octet and the peers take turns on each workload, so that every ratio is of one run on one GPU. Peers draw octet's
inputs anew from the seed (octet's sums of their bits prove it) and compare the rows that octet compares, against
float64 of their own. Times are octet's way: replays to warm up, then the median of seven replays of a CUDA graph.
Energy is NVML's counter over replays. A peer that is not installed, or cannot do a shape, leaves a row or a note that
says so. The file is written whole or not at all.
"""
import argparse
import ctypes
import importlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

from document import document_text

WARM_SECONDS, GROUP_SECONDS, GROUPS, MOST_CALLS = 0.03, 0.01, 7, 100
BURST_SECONDS = 0.02
MASK64 = (1 << 64) - 1
SHAPE = ["suite", "workload", "batch", "heads", "heads_kv", "tokens_q", "tokens_k", "head_dim", "causal"]
PEERS = ["cudnn", "flash", "comfy-kitchen", "flash-attention-4"]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Unsupported(Exception):
    """What the peer does not offer, in a few words."""


# ---- inputs: the numbers of tools/octet/bench/gpu_inputs.cpp

def mixed(x):
    """splitmix64 of one word."""
    x = (x + 0x9E3779B97F4A7C15) & MASK64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK64
    return x ^ (x >> 31)


def drawn(seed, operand, i):
    """Element i of q (0), k (1) or v (2), before it is rounded to f32 and then to bf16."""
    base, pair = mixed((3 * seed + operand) & MASK64), i // 2
    u = (mixed((base + 2 * pair) & MASK64) >> 11) + 0.5
    v = mixed((base + 2 * pair + 1) & MASK64) >> 11
    radius, angle = math.sqrt(-2 * math.log(u * 2.0**-53)), 2 * math.pi * (v * 2.0**-53)
    return radius * (math.sin(angle) if i % 2 else math.cos(angle))


def signed(x):
    """The same 64 bits as PyTorch's integers take them."""
    x &= MASK64
    return x - (1 << 64) if x >> 63 else x


def draw(torch, seed, operand, shape, device):
    """The whole operand in bf16. Integers of 64 bits wrap as unsigned ones do; only shifts need the sign masked."""
    def shifted(x, k):
        return (x >> k) & ((1 << (64 - k)) - 1)

    def mixed_all(x):
        x = x + signed(0x9E3779B97F4A7C15)
        x = (x ^ shifted(x, 30)) * signed(0xBF58476D1CE4E5B9)
        x = (x ^ shifted(x, 27)) * signed(0x94D049BB133111EB)
        return x ^ shifted(x, 31)
    count, base = math.prod(shape), signed(mixed((3 * seed + operand) & MASK64))
    o = torch.empty(count + count % 2, dtype=torch.bfloat16, device=device)
    chunk = 1 << 24  # pairs at a time: a few hundred MB of words
    for first in range(0, (count + 1) // 2, chunk):
        pairs = torch.arange(first, min(first + chunk, (count + 1) // 2), dtype=torch.int64, device=device)
        word = base + 2 * pairs
        u = shifted(mixed_all(word), 11).double() + 0.5
        v = shifted(mixed_all(word + 1), 11).double()
        radius, angle = torch.sqrt(-2 * torch.log(u * 2.0**-53)), 2 * math.pi * (v * 2.0**-53)
        both = torch.stack([radius * torch.cos(angle), radius * torch.sin(angle)], dim=1)
        o[2 * first:2 * first + both.numel()] = both.flatten().float().bfloat16()
    return o[:count].view(shape)


def inputs_of(torch, w, told, seed, device):
    """Q, K, V [batch, heads, tokens, dim]. RuntimeError where they are not octet's."""
    tensors = []
    for operand, (heads, tokens) in enumerate([(w["heads"], w["tokens_q"])] + 2 * [(w["heads_kv"], w["tokens_k"])]):
        x = draw(torch, seed, operand, (w["batch"], heads, tokens, w["head_dim"]), device)
        bits = int((x.view(torch.int16).to(torch.int64) & 0xFFFF).sum())
        # A library's cosine may round one value of billions to its other neighbour, which changes the sum by one.
        if abs(bits - told["sums"][operand]) > 2:
            raise RuntimeError(f"the bits of {'qkv'[operand]} sum to {bits}, and octet's to {told['sums'][operand]}")
        tensors.append(x)
    return tensors


class Reference:
    """Float64 attention of octet's sampled rows: all rows where it names none."""

    def __init__(self, torch, w, told, q, k, v):
        self.torch, self.samples = torch, told["samples"]
        if not self.samples:
            self.samples = [[b, h, 0, w["tokens_q"]] for b in range(w["batch"]) for h in range(w["heads"])]
            self.whole = self.attend(w, q, k.repeat_interleave(w["heads"] // w["heads_kv"], 1),
                                     v.repeat_interleave(w["heads"] // w["heads_kv"], 1), 0)
            return
        self.whole, group = None, w["heads"] // w["heads_kv"]
        self.exact = [self.attend(w, q[b, h, first:first + count], k[b, h // group], v[b, h // group], first)
                      for b, h, first, count in self.samples]

    def attend(self, w, q, k, v, first):
        torch = self.torch
        scores = q.double() @ k.double().transpose(-1, -2) / math.sqrt(w["head_dim"])
        if w["causal"]:
            rows = torch.arange(first, first + q.shape[-2], device=q.device) + w["tokens_k"] - w["tokens_q"]
            hidden = torch.arange(w["tokens_k"], device=q.device)[None, :] > rows[:, None]
            scores.masked_fill_(hidden, -math.inf)
        return torch.softmax(scores, -1) @ v.double()

    def rows(self):
        return sum(count for *_, count in self.samples)

    def relative_rmse(self, o):
        """o: [batch, heads, tokens, dim]."""
        if self.whole is not None:
            return float(((o.double() - self.whole).square().sum() / self.whole.square().sum()).sqrt())
        error = size = 0.0
        for (b, h, first, count), exact in zip(self.samples, self.exact):
            error += float((o[b, h, first:first + count].double() - exact).square().sum())
            size += float(exact.square().sum())
        return math.sqrt(error / size)


# ---- time and energy

class Nvml:
    """The driver's library, as tools/octet/gpu/energy.cpp opens it."""

    def __init__(self, torch):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.device = ctypes.c_void_p()
        p = torch.cuda.get_device_properties(0)
        self.checked("nvmlInit_v2")
        if hasattr(p, "pci_bus_id"):
            address = f"{p.pci_domain_id:08X}:{p.pci_bus_id:02X}:{p.pci_device_id:02X}.0"
            self.checked("nvmlDeviceGetHandleByPciBusId_v2", address.encode(), ctypes.byref(self.device))
        else:
            self.checked("nvmlDeviceGetHandleByIndex_v2", 0, ctypes.byref(self.device))

    def checked(self, name, *arguments):
        if (code := getattr(self.library, name)(*arguments)) != 0:
            raise OSError(f"{name} failed with {code}")

    def joules(self):
        millijoules = ctypes.c_ulonglong()
        self.checked("nvmlDeviceGetTotalEnergyConsumption", self.device, ctypes.byref(millijoules))
        return 1e-3 * millijoules.value

    def clock_mhz(self):
        mhz = ctypes.c_uint()
        self.checked("nvmlDeviceGetClockInfo", self.device, 1, ctypes.byref(mhz))
        return mhz.value


def energy_of(counter, burst, calls, seconds, clock=time.monotonic):
    """Figures of `burst`, which queues `calls` calls and waits for the burst before, between two steps of the counter."""
    begin, last, first = clock(), None, None
    made, clocks = 0, []
    while True:
        burst()
        now = counter.joules()
        stepped, last = last is not None and now != last, now
        if first is not None:
            made += calls
            clocks.append(counter.clock_mhz())
            if stepped and clock() - first[0] >= seconds:
                joules = now - first[1]
                return {"joules_per_call": joules / made, "mean_power_w": joules / (clock() - first[0]),
                        "mean_clock_mhz": statistics.mean(clocks)}
        elif stepped:
            first = (clock(), now)
        if clock() - begin > 2 * seconds + 1:
            raise OSError("NVML's energy counter stands still under load")


def seconds_of(torch, replay):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    replay()
    end.record()
    end.synchronize()
    return 1e-3 * start.elapsed_time(end)


def recorded(torch, call, calls):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    return graph.replay


def timed(torch, call):
    """(figures, replay): figures has ms and calls_per_graph, of a call that has run before."""
    one, begin = recorded(torch, call, 1), time.monotonic()
    while True:
        single = seconds_of(torch, one)
        if time.monotonic() - begin >= WARM_SECONDS:
            break
    calls = min(max(int(min(GROUP_SECONDS / single, MOST_CALLS)), 1), MOST_CALLS)
    replay = recorded(torch, call, calls)
    groups = [seconds_of(torch, replay) / calls for _ in range(GROUPS + 1)][1:]
    return {"calls_per_graph": calls, "ms": 1e3 * statistics.median(groups)}, replay


def weighed(torch, nvml, figures, replay, seconds):
    graph_seconds = 1e-3 * figures["ms"] * figures["calls_per_graph"]
    launches = max(1, round(BURST_SECONDS / graph_seconds))
    ends = []

    def burst():  # the GPU is never idle: readings of NVML take milliseconds
        for _ in range(launches):
            replay()
        ends.append(torch.cuda.Event())
        ends[-1].record()
        if len(ends) > 1:
            ends.pop(0).synchronize()
    return energy_of(nvml, burst, launches * figures["calls_per_graph"], seconds)


# ---- peers

class Sdpa:
    """One backend of PyTorch's scaled_dot_product_attention, in bf16."""
    scheme, peak, entries = "bf16", None, {"excluded": "call"}

    def __init__(self, torch, variant, backend):
        attention = importlib.import_module("torch.nn.attention")
        self.torch, self.variant = torch, f"PyTorch SDPA {variant} bf16"
        self.choose = lambda: attention.sdpa_kernel(getattr(attention.SDPBackend, backend))
        self.name, self.version = "PyTorch", torch.__version__

    def call(self, w, q, k, v):
        def attend():
            with self.choose():
                return self.torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, is_causal=w["causal"], enable_gqa=w["heads"] != w["heads_kv"])
        return attend


class ComfyKitchen:
    """INT8 through mma.sync; the kernel on its own codes, and the whole call from bf16."""
    variant, scheme, peak = "comfy-kitchen int8", "int8", "mma.sync s8"
    entries = {"excluded": "kernel", "counted": "whole"}

    def __init__(self, torch):
        self.torch, self.library = torch, importlib.import_module("comfy_kitchen")
        metadata = importlib.import_module("importlib.metadata")
        try:
            self.version = metadata.version("comfy-kitchen")
        except metadata.PackageNotFoundError:  # unpacked without its metadata
            self.version = getattr(self.library, "__version__", "unknown")
        self.name = "comfy-kitchen"

    def kernel(self, w, q, k, v):
        self.check(w)
        codes = self.library.prequantize_int8_attention(q, k, v)
        return lambda: self.library.int8_attention_from_prequantized(codes)

    def whole(self, w, q, k, v):
        self.check(w)
        return lambda: self.library.int8_attention(q, k, v)

    @staticmethod
    def check(w):
        if w["causal"]:
            raise Unsupported("it has no causal mask")


class FlashAttention4:
    """bf16, compiled at run time."""
    variant, scheme, peak, entries = "FlashAttention-4 bf16", "bf16", None, {"excluded": "call"}

    def __init__(self, torch):
        self.torch = torch
        self.attend = importlib.import_module("flash_attn.cute.interface").flash_attn_func
        metadata = importlib.import_module("importlib.metadata")
        try:
            self.version = metadata.version("flash-attn-4")
        except metadata.PackageNotFoundError:
            self.version = "unknown"
        self.name = "FlashAttention-4"

    def call(self, w, q, k, v):
        q, k, v = (x.transpose(1, 2).contiguous() for x in (q, k, v))

        def attend():
            o = self.attend(q, k, v, causal=w["causal"])
            return (o[0] if isinstance(o, tuple) else o).transpose(1, 2)
        return attend


def makers(torch):
    return {"cudnn": lambda: Sdpa(torch, "cuDNN", "CUDNN_ATTENTION"),
            "flash": lambda: Sdpa(torch, "flash", "FLASH_ATTENTION"),
            "comfy-kitchen": lambda: ComfyKitchen(torch), "flash-attention-4": lambda: FlashAttention4(torch)}


def giga_operations(w):
    pairs = w["batch"] * w["heads"] * w["tokens_q"] * w["tokens_k"] / (2 if w["causal"] else 1)
    return 4e-9 * pairs * w["head_dim"]


def first_line(reason):
    return (str(reason).strip().splitlines() or [type(reason).__name__])[0][:200]


class Bench:
    def __init__(self, options):
        self.options, self.peers, self.document = options, [], None
        self.torch, self.nvml = None, None

    def open_peers(self):
        """Fills self.peers; a note for each that is not there."""
        notes = []
        try:
            self.torch = importlib.import_module("torch")
            if not self.torch.cuda.is_available():
                raise ImportError("PyTorch sees no GPU")
        except (ImportError, OSError) as reason:
            self.torch = None
            return [{"name": "PyTorch", "version": f"not installed ({first_line(reason)})"}]
        try:
            self.nvml = Nvml(self.torch)
            self.nvml.joules()
        except (OSError, AttributeError) as reason:
            self.nvml = None
            print(f"gpu.py: the peers' energy is left out: {first_line(reason)}", file=sys.stderr)
        for name, maker in makers(self.torch).items():
            if name not in self.options.peers.split(","):
                continue
            try:
                peer = maker()
            except Exception as reason:  # whatever an import throws: the peer is not to be had
                notes.append({"name": name, "version": f"not installed ({first_line(reason)})"})
                continue
            self.peers.append(peer)
            if not any(note["name"] == peer.name for note in notes):
                notes.append({"name": peer.name, "version": peer.version})
        if self.torch.backends.cudnn.is_available():
            notes.append({"name": "cuDNN", "version": str(self.torch.backends.cudnn.version())})
        return notes

    def octet(self, *arguments):
        return subprocess.run([self.options.octet, "bench", *map(str, arguments)], stdout=subprocess.PIPE, text=True)

    def shapes(self, suite):
        arguments = ["--suite", suite, "--list", "--json"]
        for option in ("workloads", "energy"):
            if getattr(self.options, option):
                arguments += [f"--{option}", getattr(self.options, option)]
        if self.options.workloads:  # names may be of the other suite
            known = [w["workload"] for w in json.loads(self.octet("--suite", suite, "--list", "--json").stdout)]
            wanted = [name for name in self.options.workloads.split(",") if name in known]
            if not wanted:
                return []
            arguments[arguments.index("--workloads") + 1] = ",".join(wanted)
        done = self.octet(*arguments)
        if done.returncode != 0:
            sys.exit(done.returncode)  # octet has said why
        return json.loads(done.stdout)

    def measure_octet(self, w):
        """octet's document of one workload, or what it said."""
        with tempfile.TemporaryDirectory() as folder:
            part = os.path.join(folder, "part.json")
            arguments = ["--suite", w["suite"], "--workloads", w["workload"], "--output", part, "--seed",
                         self.options.seed, "--seconds", self.options.seconds, "--commit", self.options.commit,
                         "--energy", "all" if w["energy"] else "none"]
            if self.options.schemes:
                arguments += ["--schemes", self.options.schemes]
            done = self.octet(*arguments)
            if done.returncode != 0:
                return None
            with open(part, encoding="utf-8") as file:
                return json.load(file)

    def adopt(self, part):
        if self.document is None:
            self.document = {**part, "suite": "gpu", "command": command(sys.argv[1:]),
                             "inputs": [], "rows": []}
        self.document["inputs"] += part["inputs"]
        self.document["rows"] += part["rows"]

    def row(self, w, peer, quantisation):
        return {**{field: w[field] for field in SHAPE}, "scheme": peer.scheme, "variant": peer.variant, "peer": True,
                "backend": f"{peer.name} {peer.version}", "gpu": self.document["gpu"], "quantisation": quantisation}

    def fill(self, row, w, peer, entry, tensors, reference):
        with self.torch.inference_mode():
            call = getattr(peer, entry)(w, *tensors)
            stream = self.torch.cuda.Stream()  # calls before a recording run on another stream, as PyTorch asks
            stream.wait_stream(self.torch.cuda.current_stream())
            with self.torch.cuda.stream(stream):
                for _ in range(2):
                    o = call()
            self.torch.cuda.synchronize()
            error = reference.relative_rmse(o)
            figures, replay = timed(self.torch, call)
            row.update(figures)
            row["gops"] = giga_operations(w) / (row["ms"] / 1e3)
            peak = next((p["giga"] for p in self.document["peaks"] if p["what"] == peer.peak), None)
            row["peak_instruction"] = peer.peak
            row["percent_of_peak"] = 100 * row["gops"] / peak if peak else None
            row["relative_rmse"], row["rows_compared"] = error, reference.rows()
            energy = {"joules_per_call": None, "mean_power_w": None, "mean_clock_mhz": None}
            if w["energy"] and self.nvml and self.options.seconds > 0:
                energy = weighed(self.torch, self.nvml, figures, replay, self.options.seconds)
            row.update(energy)
        row.update({key: float(f"{x:.6g}") for key, x in row.items() if isinstance(x, float)})

    def measure_peers(self, w, told):
        tensors = reference = failure = None
        try:
            tensors = inputs_of(self.torch, w, told, self.options.seed, "cuda")
            reference = Reference(self.torch, w, told, *tensors)
        except Exception as reason:  # too little memory, or other numbers than octet's: no row of this workload
            failure = reason
        for peer in self.peers:
            for quantisation, entry in peer.entries.items():
                row = self.row(w, peer, quantisation)
                try:
                    if failure:
                        raise failure
                    self.fill(row, w, peer, entry, tensors, reference)
                except Exception as reason:  # whatever a library throws is that row's reason
                    for field in ("ms", "gops", "calls_per_graph"):
                        row.pop(field, None)
                    row["skipped"] = first_line(reason)
                self.document["rows"].append(row)

    def summary(self, w):
        said = []
        for row in self.document["rows"]:
            if row["workload"] == w["workload"]:
                mark = {"excluded": "", "counted": "+q", "cached": " in a cache"}[row["quantisation"]]
                said.append(f"{row['variant']}{mark} " + (f"{1e3 * row['ms']:.1f} us" if "ms" in row else "-"))
        return ", ".join(said)

    def run(self):
        start, shapes = time.monotonic(), []
        for suite in self.options.suites.split(","):
            shapes += self.shapes(suite)
        notes = self.open_peers()
        for i, w in enumerate(shapes):
            late = time.monotonic() - start > 60 * self.options.minutes
            part = None if late else self.measure_octet(w)
            if part is None and self.document is None:
                sys.exit("gpu.py: octet measured nothing, so there is nothing to compare with")
            if part is None:
                reason = f"the run's {self.options.minutes:g} minutes were up" if late else "octet ended with an error"
                self.document["rows"].append({**{field: w[field] for field in SHAPE}, "scheme": "all", "variant": "all",
                                              "gpu": self.document["gpu"], "quantisation": "excluded",
                                              "skipped": reason})
                continue
            self.adopt(part)
            if self.peers:
                self.measure_peers(w, part["inputs"][0])
                self.torch.cuda.empty_cache()  # the next workload's octet needs the memory
            print(f"[{i + 1}/{len(shapes)}] {time.monotonic() - start:.0f} s {w['workload']}: {self.summary(w)}",
                  file=sys.stderr, flush=True)
        self.document["peers"], self.document["seconds"] = notes, round(time.monotonic() - start)
        return self.document


def command(arguments):
    """The command that repeats a run: without its paths, which are of one machine."""
    words, is_path = ["scripts/bench-gpu"], False
    for word in arguments:
        if not is_path and not word.startswith(("--octet=", "--output=")) and word not in ("--octet", "--output"):
            words.append(word)
        is_path = not is_path and word in ("--octet", "--output")
    return " ".join(words)


def write_whole(path, text):
    """The old file or the whole new one, whatever happens."""
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    part = f"{path}.part-{os.getpid()}"
    try:
        with open(part, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.remove(part)


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--octet", default=os.path.join(ROOT, "build", "cuda", "bin", "octet"),
                        help="the program, built with CUDA [build/cuda/bin/octet]")
    parser.add_argument("--output", default=os.path.join(ROOT, "results", "device", "gpu-suite.json"),
                        help="where the document goes [results/device/gpu-suite.json]")
    parser.add_argument("--suites", default="vit,llm-prefill,decode")
    parser.add_argument("--workloads", default="", help="of any suite [all]")
    parser.add_argument("--schemes", default="", help="octet's [its usual ones]")
    parser.add_argument("--peers", default=",".join(PEERS), help="names with commas; none for no peers [all]")
    parser.add_argument("--energy", default="", help="workloads, all, or none [those that octet's --list marks]")
    parser.add_argument("--seconds", type=float, default=2, help="of energy a row at least; 0: no energy [2]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--commit", default=os.environ.get("OCTET_COMMIT", "unknown"),
                        help="recorded in the document [OCTET_COMMIT]")
    parser.add_argument("--minutes", type=float, default=9, help="workloads that would begin later are skipped [9]")
    parser.add_argument("--list", action="store_true", help="print workloads and peers, and measure nothing")
    options = parser.parse_args()
    for name in options.peers.split(","):
        if name not in PEERS and options.peers != "none":
            parser.error(f"--peers names {name}; choose from {', '.join(PEERS)}, or none")
    for suite in options.suites.split(","):
        if suite not in ("vit", "llm-prefill", "decode"):
            parser.error(f"--suites names {suite}; choose from vit, llm-prefill, decode")
    if not os.path.exists(options.octet):
        parser.error(f"--octet is {options.octet}, which is not there; build it: "
                     "cmake --preset cuda && cmake --build --preset cuda --target octet")
    return options


def main():
    options = parsed()
    bench = Bench(options)
    if options.list:
        for suite in options.suites.split(","):
            for w in bench.shapes(suite):
                print(f"{suite:12} {w['workload']:16} {w['batch']:4} x {w['heads']} over {w['heads_kv']} x "
                      f"{w['tokens_k'] if w['tokens_q'] == w['tokens_k'] else str(w['tokens_q']) + ' of ' + str(w['tokens_k'])}"
                      f" x {w['head_dim']}{' causal' if w['causal'] else ''}{'  energy' if w['energy'] else ''}")
        print("peers:", ", ".join(PEERS))
        return
    document = bench.run()
    write_whole(options.output, document_text(document))
    print(f"gpu.py: {options.output}, {document['seconds']} s", file=sys.stderr)


if __name__ == "__main__":
    main()
