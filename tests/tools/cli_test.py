"""The command line as a user drives it: cli_test.py OCTET_BINARY SOURCE_DIRECTORY."""
import importlib
import json
import math
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest

from tensor_files import Tensor, normal, npy_bytes, read_npy, read_safetensors, safetensors_bytes, transposed

OCTET, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
CAPTURE = os.path.join(SOURCE, "tests", "data", "minilm", "minilm-16.safetensors")
COMMANDS = ["info", "explain", "attend", "quantize", "accuracy", "bench"]
COMPARISON = ["relative_rmse", "relative_l1", "max_abs_error", "sqnr_db", "cosine", "max_bound"]


def octet(*arguments):
    return subprocess.run([OCTET, *map(str, arguments)], capture_output=True, text=True, timeout=300,
                          env={k: v for k, v in os.environ.items() if k != "OCTET_THREADS"})


def schemes_with_a_kernel():
    """Names of the schemes that this build can run on the capture."""
    rows = json.loads(octet("explain", "--input", CAPTURE, "--scheme", "all", "--json").stdout)
    return [row["scheme"] for row in rows if row["kernel"]]


class CommandLine(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def path(self, name):
        return os.path.join(self.directory.name, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def problem(self, name="in.safetensors", **changes):
        """A small valid file, with tensors replaced, added, or left out (None)."""
        tensors = {"q": normal([2, 4, 9, 16], 1), "k": normal([2, 2, 13, 16], 2), "v": normal([2, 2, 13, 8], 3)}
        tensors.update(changes)
        return self.write(name, safetensors_bytes({k: v for k, v in tensors.items() if v is not None}))

    def document(self, *arguments):
        result = octet(*arguments, "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr, "", "no terminal, no progress")
        return json.loads(result.stdout)

    def attended(self, *arguments):
        """The tensors that attend writes."""
        output = self.path("out.safetensors")
        result = octet("attend", *arguments, "--output", output)
        self.assertEqual(result.returncode, 0, result.stderr)
        return read_safetensors(output)[0]

    def refused(self, *arguments, names):
        """Exit code 2, one sentence that names what is wrong, nothing on standard output, no new file."""
        before = sorted(os.listdir(self.directory.name))
        result = octet(*arguments)
        self.assertEqual(result.returncode, 2, f"{arguments}: {result.stdout}{result.stderr}")
        self.assertEqual(result.stdout, "")
        self.assertRegex(result.stderr, r"\Aoctet: [^\n]+\n\Z", "one line")
        for name in names:
            self.assertIn(name, result.stderr)
        self.assertEqual(sorted(os.listdir(self.directory.name)), before, "no file is left")
        return result.stderr


class Help(CommandLine):
    def test_every_command_is_listed_and_explains_itself(self):
        listed = octet("--help").stdout
        for command in COMMANDS:
            self.assertRegex(listed, rf"(?m)^  {command} +\w")
            result = octet(command, "--help")
            self.assertEqual((result.returncode, result.stderr), (0, ""), command)
            self.assertIn("--json", result.stdout)

    def test_accuracy_names_every_part_that_has_results(self):
        shown, page = octet("accuracy", "--help").stdout, (SOURCE / "docs/cli.md").read_text(encoding="utf-8")
        parts = [json.loads(file.read_text(encoding="utf-8")) for file in (SOURCE / "results/accuracy").glob("*.json")]
        names = [part["part"] for part in parts if "--suite" in part["command"]]
        self.assertGreater(len(names), 5)
        for name in names:
            self.assertRegex(shown, rf"\b{name}\b")
            self.assertIn(f"`{name}`", page)

    def test_the_version_is_a_version(self):
        self.assertRegex(octet("--version").stdout, r"\A\d+\.\d+\.\d+\n\Z")

    def test_usage_errors_are_one_sentence(self):
        self.refused(names=["subcommand", "octet --help"])
        self.refused("atend", names=["atend", "attend", "bench"])
        self.refused("attend", "--inputt", "x", names=["--inputt", "octet attend --help"])
        self.refused("attend", "--threads", "many", names=["--threads", "many", "4096"])
        self.refused("attend", "--scheme", names=["--scheme"])


class Info(CommandLine):
    def test_json_has_every_scheme_and_what_it_supports(self):
        info = self.document("info")
        self.assertEqual(info["backends"][-1], "reference")
        self.assertGreaterEqual(info["cpu"]["processors"], 1)
        names = [scheme["name"] for scheme in info["schemes"]]
        self.assertEqual(len(names), len(set(names)))
        for name in ("exact", "f32", "fp8", "int8", "int8_full", "qflash", "integer", "int4", "qattn"):
            self.assertIn(name, names)
        int8 = info["schemes"][names.index("int8")]
        self.assertEqual(int8["recipe"], {"q": "token", "k": "token", "v": "token", "smooth": "mean",
                                          "rotate": "on", "equalise": "on"})

    def test_text_shows_every_scheme_in_every_table(self):
        text = octet("info").stdout
        for scheme in self.document("info")["schemes"]:
            self.assertEqual(len(re.findall(rf"(?m)^{scheme['name']} ", text)), 4, scheme["name"])


class Explain(CommandLine):
    def test_a_problem_is_explained_from_shapes_and_from_a_file(self):
        shapes = self.document("explain", "--tokens-q", 197, "--head-dim", 64, "--heads", 6, "--causal")
        self.assertRegex(shapes["kernel"], r"^\w+/int8/d64/causal$")
        self.assertIn("runs", [c["answer"] for c in shapes["candidates"]])
        file = self.document("explain", "--input", CAPTURE, "--scheme", "fp8")
        self.assertRegex(file["kernel"], r"^\w+/fp8/d32/none$")
        self.assertEqual(file["recipe"]["q"], "head")
        self.assertIn("workspace", octet("explain", "--input", CAPTURE).stdout)

    def test_all_schemes_are_explained_with_reasons(self):
        rows = self.document("explain", "--tokens-q", 64, "--head-dim", 64, "--scheme", "all",
                             "--recipe", "rotate=on")
        by_name = {row["scheme"]: row for row in rows}
        self.assertIsNone(by_name["qflash"]["kernel"])
        self.assertIn("rotate", by_name["qflash"]["reason"])
        self.assertIsNotNone(by_name["int8"]["kernel"])

    def test_what_cannot_run_is_refused(self):
        self.refused("explain", names=["--tokens-q", "missing", "--input"])
        self.refused("explain", "--tokens-q", 1, "--head-dim", 257, names=["head_dim", "257", "256"])
        self.refused("explain", "--tokens-q", 1, "--head-dim", 64, "--backend", "abacus", names=["abacus"])


class Attend(CommandLine):
    def test_every_scheme_attends_to_the_capture_within_its_bound(self):
        worst = {"f32": 1e-5, "f16": 2e-3, "bf16": 1e-2, "int8": 1e-2, "int8_shift": 3e-2, "integer": 2e-2,
                 "int8_full": 3e-2, "fp8": 1e-1}
        schemes = schemes_with_a_kernel()
        self.assertIn("int8", schemes)
        for scheme in schemes:
            with self.subTest(scheme=scheme):
                told = self.document("attend", "--input", CAPTURE, "--scheme", scheme, "--compare")
                self.assertEqual([k for k in COMPARISON if k not in told], [])
                if scheme == "exact":
                    self.assertLess(told["relative_rmse"], 1e-7)  # f32 output
                    continue
                self.assertGreater(told["relative_rmse"], 0)
                self.assertLess(told["relative_rmse"], worst.get(scheme, 1.0))
                self.assertAlmostEqual(told["sqnr_db"], -20 * math.log10(told["relative_rmse"]), places=6)
                if told["max_bound"] is not None:
                    self.assertLessEqual(told["max_error_over_bound"], 1)

    def test_the_table_prints_the_same_figures_as_json(self):
        told = self.document("attend", "--input", CAPTURE, "--scheme", "int8", "--compare")
        text = octet("attend", "--input", CAPTURE, "--scheme", "int8", "--compare").stdout
        self.assertIn(f"{100 * told['relative_rmse']:.3f} %", text)
        self.assertIn(f"{told['sqnr_db']:.1f} dB", text)

    def test_output_equals_softmax_computed_here(self):
        q, k, v = normal([1, 2, 5, 4], 7), normal([1, 1, 6, 4], 8), normal([1, 1, 6, 3], 9)
        written = self.attended("--input", self.problem(q=q, k=k, v=v), "--scheme", "exact", "--output-dtype", "f64",
                                "--lse", "--causal")
        self.assertEqual(written["o"].shape, [1, 2, 5, 3])
        self.assertEqual(written["lse"].shape, [1, 2, 5])
        f32 = lambda x: struct.unpack("<f", struct.pack("<f", x))[0]
        at = lambda t, h, i, c: f32(t.values[(h * t.shape[2] + i) * t.shape[3] + c])
        for h in range(2):
            for m in range(5):
                scores = [sum(at(q, h, m, c) * at(k, 0, n, c) for c in range(4)) * 0.5 for n in range(m + 2)]
                weights = [math.exp(s) for s in scores]
                self.assertAlmostEqual(written["lse"].values[h * 5 + m], math.log(sum(weights)), places=5)
                for c in range(3):
                    wanted = sum(w * at(v, 0, n, c) for n, w in enumerate(weights)) / sum(weights)
                    self.assertAlmostEqual(written["o"].values[(h * 5 + m) * 3 + c], wanted, places=12)

    def test_layouts_give_the_same_numbers(self):
        tensors = {"q": normal([2, 4, 9, 16], 1), "k": normal([2, 2, 13, 16], 2), "v": normal([2, 2, 13, 8], 3)}
        swapped = self.problem("bshd.safetensors", **{n: transposed(t) for n, t in tensors.items()})
        for scheme in ("f32", "int8"):
            plain = self.attended("--input", self.problem(**tensors), "--scheme", scheme, "--lse")
            other = self.attended("--input", swapped, "--scheme", scheme, "--layout", "bshd", "--lse")
            self.assertEqual(other["o"].shape, [2, 9, 4, 8])
            self.assertEqual(transposed(other["o"]).values, list(plain["o"].values))
            self.assertEqual(list(other["lse"].values), list(plain["lse"].values))

    def test_npy_files_give_what_safetensors_give(self):
        tensors = {"q": normal([1, 2, 5, 8], 1), "k": normal([1, 2, 6, 8], 2), "v": normal([1, 2, 6, 8], 3)}
        arguments = [x for n, t in tensors.items() for x in (f"--{n}", self.write(f"{n}.npy", npy_bytes(t)))]
        output = self.path("o.npy")
        result = octet("attend", *arguments, "--scheme", "f32", "--output", output)
        self.assertEqual(result.returncode, 0, result.stderr)
        o = self.attended("--input", self.problem(**tensors), "--scheme", "f32")["o"]
        self.assertEqual(read_npy(output), ("<f4", (1, 2, 5, 8), o.data()))

    def test_packed_sequences_equal_each_on_its_own(self):
        q, k, v = (normal([1, 1, 7, 8], s) for s in (1, 2, 3))
        offsets = {"cu_seqlens_q": Tensor("I32", [3], [0, 3, 7]), "cu_seqlens_k": Tensor("I64", [3], [0, 5, 7])}
        packed = self.attended("--input", self.problem(q=q, k=k, v=v, **offsets), "--scheme", "f32")["o"].values
        rows = lambda t, a, b: Tensor("F32", [1, 1, b - a, 8], t.values[8 * a : 8 * b])
        for (q0, q1), (k0, k1) in (((0, 3), (0, 5)), ((3, 7), (5, 7))):
            alone = self.problem(q=rows(q, q0, q1), k=rows(k, k0, k1), v=rows(v, k0, k1))
            self.assertEqual(list(self.attended("--input", alone, "--scheme", "f32")["o"].values),
                             list(packed[8 * q0 : 8 * q1]))

    def test_a_boolean_mask_an_additive_mask_and_causal_say_the_same(self):
        q, k, v = (normal([1, 2, 6, 8], s) for s in (1, 2, 3))
        seen = [n <= m for m in range(6) for n in range(6)]
        masks = [Tensor("BOOL", [6, 6], seen), Tensor("F32", [1, 1, 6, 6], [0 if s else -math.inf for s in seen])]
        causal = self.attended("--input", self.problem(q=q, k=k, v=v), "--scheme", "f32", "--causal")["o"].values
        for mask in masks:
            masked = self.attended("--input", self.problem(q=q, k=k, v=v, mask=mask), "--scheme", "f32")["o"]
            self.assertEqual(list(masked.values), list(causal), mask.dtype)
        window = self.attended("--input", self.problem(q=q, k=k, v=v), "--scheme", "f32", "--window", "-1,0")["o"]
        self.assertEqual(list(window.values), list(causal))

    def test_threads_do_not_change_a_bit(self):
        for scheme in ("f32", "int8"):
            one = self.attended("--input", CAPTURE, "--scheme", scheme, "--threads", 1)["o"]
            three = self.attended("--input", CAPTURE, "--scheme", scheme, "--threads", 3)["o"]
            self.assertEqual(list(one.values), list(three.values))

    def test_options_and_recipes_reach_the_scheme(self):
        default = self.document("attend", "--input", CAPTURE, "--scheme", "int8", "--compare")
        coarse = self.document("attend", "--input", CAPTURE, "--scheme", "int8", "--compare", "--recipe",
                               "q=tensor,k=tensor,v=tensor,smooth=none,rotate=off,equalise=off")
        self.assertEqual(coarse["recipe"]["k"], "tensor")
        self.assertGreater(coarse["relative_rmse"], default["relative_rmse"])
        codes = self.document("attend", "--input", CAPTURE, "--scheme", "int8_full", "--compare", "--option",
                              "row_sum=codes")
        weights = self.document("attend", "--input", CAPTURE, "--scheme", "int8_full", "--compare")
        self.assertEqual(codes["options"]["row_sum"], "codes")
        self.assertNotEqual(codes["relative_rmse"], weights["relative_rmse"])
        scaled = self.document("attend", "--input", CAPTURE, "--compare", "--softmax-scale", 0.5, "--key-block", 16)
        self.assertEqual((scaled["softmax_scale"], scaled["key_block"]), (0.5, 16))

    def test_output_codes_come_with_their_scales(self):
        scheme = "integer" if "integer" in schemes_with_a_kernel() else "qflash"
        written = self.attended("--input", CAPTURE, "--scheme", scheme, "--output-dtype", "s8")
        reals = self.attended("--input", CAPTURE, "--scheme", scheme)["o"].values
        self.assertEqual(written["o"].dtype, "I8")
        scales = written["o_scale"].values
        for i, code in enumerate(written["o"].values):
            # A row's code times its scale; f32 values may carry more of the row than its code does.
            self.assertLessEqual(abs(code * scales[i // 32] - reals[i]), 0.51 * scales[i // 32], f"element {i}")


class Quantize(CommandLine):
    def test_codes_times_scales_are_the_input(self):
        source = self.problem()
        output = self.path("codes.safetensors")
        told = self.document("quantize", "--input", source, "--scheme", "int8_full", "--output", output)
        tensors, metadata = read_safetensors(output)
        self.assertEqual((metadata["scheme"], metadata["q_format"]), ("int8_full", "s8"))
        q, (codes, scales) = normal([2, 4, 9, 16], 1).values, (tensors["q"].values, tensors["q_scales"].values)
        self.assertEqual(tensors["q_scales"].shape, [2, 4, 9, 1])
        for i, x in enumerate(q):
            self.assertLessEqual(abs(codes[i] * scales[i // 16] - x), 0.5001 * scales[i // 16], f"element {i}")
        self.assertLess(told["operands"]["q"]["relative_rmse"], 0.01)
        self.assertEqual(tensors["v_scales"].shape, [2, 2, 1, 1])

    def test_every_scheme_writes_what_its_recipe_says(self):
        for scheme in schemes_with_a_kernel():
            output = self.path(f"{scheme}.safetensors")
            told = self.document("quantize", "--input", CAPTURE, "--scheme", scheme, "--output", output)
            tensors, metadata = read_safetensors(output)
            self.assertEqual(metadata["scheme"], scheme)
            self.assertEqual("k_mean" in tensors, told["recipe"]["smooth"] == "mean", scheme)
            self.assertEqual("v_channel_exponent" in tensors, told["recipe"]["equalise"] == "on", scheme)
            self.assertEqual("q_scales" in tensors, told["recipe"]["q"] is not None, scheme)


class Bench(CommandLine):
    def test_json_is_a_list_of_rows_with_accuracy_beside_time(self):
        rows = self.document("bench", "--suite", "vit", "--device", "cpu", "--workloads", "A7,A1", "--schemes",
                             "f32,int8", "--groups", 1, "--group-ms", 0, "--threads", 2)
        self.assertEqual([(r["workload"], r["scheme"]) for r in rows],
                         [("A7", "f32"), ("A7", "int8"), ("A1", "f32"), ("A1", "int8")])
        keys = {"scheme", "backend", "batch", "heads", "tokens_q", "tokens_k", "head_dim", "causal", "threads",
                "quantisation", "ms", "gops", "relative_rmse"}
        for row in rows:
            self.assertLessEqual(keys, set(row))
            self.assertGreater(row["ms"], 0)
            work = 4 * row["batch"] * row["heads"] * row["tokens_q"] * row["tokens_k"] * row["head_dim"]
            self.assertAlmostEqual(row["gops"] * row["ms"] * 1e6, work, delta=1e-6 * work)
            self.assertLess(row["relative_rmse"], 1e-5 if row["scheme"] == "f32" else 0.03)

    def test_unknown_names_are_refused(self):
        self.refused("bench", names=["--suite", "vit, llm-prefill, decode"])
        self.refused("bench", "--suite", "vit", "--device", "tpu", names=["--device", "tpu", "cuda or cpu"])
        self.refused("bench", "--suite", "vit", "--device", "cpu", "--workloads", "A9", names=["A9", "A1"])
        self.refused("bench", "--suite", "vit", "--device", "cpu", "--schemes", "int9", names=["int9", "int8_shift"])
        self.refused("bench", "--suite", "vit", "--workloads", "A1", names=["--workloads", "A1", "A1-b8"])
        self.refused("bench", "--suite", "vit", "--schemes", "int9", names=["--schemes", "int9", "int8_half"])
        self.refused("bench", "--suite", "vit", "--seconds", "-1", names=["--seconds", "-1"])
        self.refused("bench", "--suite", "llm-prefill", "--energy", "A1", names=["--energy", "A1"])
        self.refused("bench", "--suite", "cpu", "--schemes", "int9", names=["int9", "int8_kblock"])
        self.refused("bench", "--suite", "cpu", "--workloads", "A1", names=["A1", "vit-b"])
        self.refused("bench", "--suite", "cpu", "--minutes", 0, names=["--minutes", "0"])

    def cpu_document(self):
        document = self.path("cpu.json")
        result = octet("bench", "--suite", "cpu", "--workloads", "swin", "--schemes", "int8", "--idle-only", "--output", document)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertRegex(result.stdout, r"(?m)^swin +int8 ")
        with open(document, encoding="utf-8") as file:
            return document, json.load(file)

    def test_the_cpu_suite_writes_its_document_and_the_report_reads_it(self):
        _, told = self.cpu_document()
        self.assertEqual({(row["quantisation"], row["threads"]) for row in told["rows"]},
                         {("counted", 1), ("excluded", 1), ("excluded", told["threads"])})
        self.assertIn("read", {peak["what"] for peak in told["peaks"]})
        page = octet("bench", "--suite", "report", "--results", self.directory.name)
        self.assertEqual((page.returncode, page.stderr), (0, ""))
        self.assertIn("64 x 3 x 49 x 32", page.stdout)

    def test_peers_that_are_not_installed_are_named_in_the_document(self):
        document, before = self.cpu_document()
        script = os.path.join(SOURCE, "bench", "peers", "cpu.py")
        # -S: without site-packages, as where nobody ran scripts/install-peers.
        subprocess.run([sys.executable, "-S", script, document], check=True, capture_output=True, timeout=300)
        with open(document, encoding="utf-8") as file:
            after = json.load(file)
        self.assertEqual(before["rows"], after["rows"])
        self.assertEqual([peer["name"] for peer in after["peers"]], ["torch", "onnxruntime", "onednn"])
        for peer in after["peers"]:
            self.assertIn("not installed", peer["version"])
        self.assertEqual(octet("bench", "--suite", "report", "--results", self.directory.name).returncode, 0)

    def test_a_gpu_suite_without_a_gpu_says_what_to_do(self):
        if self.document("info")["gpus"]:
            self.skipTest("there is a GPU")
        self.refused("bench", "--suite", "vit", "--output", self.path("gpu.json"), names=["--suite", "vit", "GPU", "--device cpu"])
        self.assertFalse(os.path.exists(self.path("gpu.json")))

    def test_the_gpu_suites_list_their_workloads(self):
        shapes = self.document("bench", "--suite", "vit", "--list")
        a5 = next(w for w in shapes if w["workload"] == "A5-b8")
        self.assertEqual([a5[k] for k in ("batch", "heads", "tokens_q", "head_dim")], [8 * 16, 6, 49, 32])
        told = octet("bench", "--suite", "llm-prefill", "--list")
        self.assertRegex(told.stdout, r"(?m)^d256-16k-causal +1 +8 +8 +16384 +256 +causal")

    def gpu_peers(self):
        folder = os.path.join(SOURCE, "bench", "peers")
        if folder not in sys.path:
            sys.path.insert(0, folder)
        return importlib.import_module("gpu")

    def test_a_recorded_command_holds_no_path_of_one_machine(self):
        said = self.gpu_peers().command(["--octet", "build/x/octet", "--energy", "A2-b8", "--output=/elsewhere/out.json", "--seed", "3"])
        self.assertEqual(said, "scripts/bench-gpu --energy A2-b8 --seed 3")

    def test_the_peers_on_a_gpu_draw_octets_inputs(self):
        peers = self.gpu_peers()
        drawn = [struct.pack("<f", peers.drawn(199, 1, i)) for i in range(6)]
        rounded = [(int.from_bytes(x, "little") + 0x7FFF + (x[2] & 1)) >> 16 for x in drawn]
        # The same bits stand in tests/tools_bench/gpu_suite_test.cpp.
        self.assertEqual(rounded, [0x3EDB, 0x3F75, 0x3F12, 0xBF61, 0xBFC2, 0xBF90])

    def test_the_peers_energy_is_that_of_the_calls_between_two_steps(self):
        calls = [0]

        class Counter:  # 3 J a call, in steps of 7 J
            joules = staticmethod(lambda: 7 * (3 * calls[0] // 7))
            clock_mhz = staticmethod(lambda: 1500)

        def burst():
            calls[0] += 2
        clock = lambda: calls[0] * 1e-3  # a millisecond a call
        figures = self.gpu_peers().energy_of(Counter, burst, 2, 2.0, clock)
        self.assertAlmostEqual(figures["joules_per_call"], 3, delta=0.05)
        self.assertAlmostEqual(figures["mean_power_w"], 3000, delta=50)
        self.assertEqual(figures["mean_clock_mhz"], 1500)

    def octet_with_a_gpu(self):
        """A program that lists octet's workloads, and measures them as if there were a GPU."""
        script = self.path("octet_with_a_gpu")
        self.write("octet_with_a_gpu", f"""#!{sys.executable}
import json, subprocess, sys
arguments = sys.argv[1:]
if "--list" in arguments:
    sys.exit(subprocess.run(["{OCTET}", *arguments]).returncode)
value = lambda name: arguments[arguments.index(name) + 1]
if value("--workloads") == "A2-b1":
    sys.exit("octet: the GPU fell off the bus")
row = dict(suite="vit", workload=value("--workloads"), scheme="int8", variant="int8", backend="mma", batch=1, heads=3,
           heads_kv=3, tokens_q=197, tokens_k=197, head_dim=64, causal=False, gpu="a GPU", quantisation="excluded",
           calls_per_graph=100, ms=0.01, gops=2980.0, percent_of_peak=2.0, relative_rmse=0.0125, rows_compared=591,
           joules_per_call=None, mean_power_w=None, mean_clock_mhz=None)
document = dict(suite="vit", command="c", version="1", commit=value("--commit"), date="d", gpu="a GPU", capability="9.0",
                processors=132, cuda="13.0", driver="580", energy="NVML", seed=1, seconds=1, peaks=[], peers=[],
                inputs=[dict(workload=row["workload"], sums=[1, 2, 3], samples=[])], rows=[row])
json.dump(document, open(value("--output"), "w"))
""".encode())
        os.chmod(script, 0o755)
        return script

    def bench_gpu(self, *arguments):
        # -S: without site-packages, as where there is no PyTorch.
        return subprocess.run([sys.executable, "-S", os.path.join(SOURCE, "bench", "peers", "gpu.py"), *arguments],
                              capture_output=True, text=True, timeout=300)

    def test_the_gpu_bench_merges_its_workloads_into_one_document_that_the_report_reads(self):
        output, fake = self.path("gpu-suite.json"), self.octet_with_a_gpu()
        done = self.bench_gpu("--octet", fake, "--output", output, "--workloads", "A1-b1,A2-b1,A1-b8", "--commit", "abc")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(output, encoding="utf-8") as file:
            told = json.load(file)
        self.assertEqual((told["suite"], told["commit"]), ("gpu", "abc"))
        self.assertEqual([(row["workload"], row.get("skipped")) for row in told["rows"]],
                         [("A1-b1", None), ("A2-b1", "octet ended with an error"), ("A1-b8", None)])
        self.assertIn("not installed", told["peers"][0]["version"])
        page = octet("bench", "--suite", "report", "--results", os.path.join(SOURCE, "results", "benchmarks"),
                     "--gpu-results", output)
        self.assertEqual((page.returncode, page.stderr), (0, ""))
        self.assertIn("## a GPU", page.stdout)
        self.assertIn("octet ended with an error", page.stdout)

    def test_the_gpu_bench_leaves_the_old_file_where_it_measures_nothing(self):
        output, fake = self.path("gpu-suite.json"), self.octet_with_a_gpu()
        self.write("gpu-suite.json", b"old")
        done = self.bench_gpu("--octet", fake, "--output", output, "--workloads", "A2-b1")
        self.assertEqual(done.returncode, 1)
        with open(output, encoding="utf-8") as file:
            self.assertEqual(file.read(), "old")
        self.assertEqual(sorted(os.listdir(self.directory.name)), ["gpu-suite.json", "octet_with_a_gpu"])

    def test_the_gpu_bench_lists_and_refuses_by_name(self):
        told = self.bench_gpu("--octet", OCTET, "--list")
        self.assertEqual((told.returncode, told.stderr), (0, ""))
        self.assertRegex(told.stdout, r"(?m)^vit +A4-b8 +512 x 3 over 3 x 49 x 32$")
        self.assertIn("flash-attention-4", told.stdout)
        for arguments, name in ((["--peers", "fa9"], "fa9"), (["--suites", "encode"], "encode"),
                                (["--octet", self.path("none")], "cmake --preset cuda")):
            refused = self.bench_gpu("--octet", OCTET, *arguments)
            self.assertEqual(refused.returncode, 2)
            self.assertIn(name, refused.stderr)
        self.assertIn("--energy", self.bench_gpu("--help").stdout)

    def test_a_report_of_nothing_or_of_something_else_is_refused(self):
        self.refused("bench", "--suite", "report", names=["--results"])
        self.refused("bench", "--suite", "report", "--results", os.path.join(SOURCE, "results", "benchmarks"), "--gpu-results",
                     self.path("none.json"), names=["none.json", "bench-gpu"])
        self.refused("bench", "--suite", "report", "--results", self.path("none"), names=["none"])
        self.write("other.json", b"[1, 2]")
        self.refused("bench", "--suite", "report", "--results", self.directory.name, names=["other.json", "suite"])


class BadInput(CommandLine):
    """Bar 5: one sentence with argument, value, rule and remedy, exit code 2, no partial file."""

    def refuses(self, source, *more, names):
        """attend and quantize both refuse the file, and leave an older output as it was."""
        for command in ("attend", "quantize"):
            old = self.write("old.safetensors", b"precious")
            self.refused(command, "--input", source, *more, "--output", self.path("new.safetensors"), names=names)
            self.refused(command, "--input", source, *more, "--output", old, names=names)
            with open(old, "rb") as file:
                self.assertEqual(file.read(), b"precious")

    def test_missing_and_unreadable_files(self):
        self.refuses(self.path("none.safetensors"), names=["none.safetensors"])
        self.refuses(self.directory.name, names=["directory"])
        self.refused("attend", "--output", self.path("o.npy"), names=["input", "--input"])
        q = self.write("q.npy", npy_bytes(normal([1, 1, 4, 8], 1)))
        self.refused("attend", "--q", q, "--output", self.path("o.npy"), names=["--k", "missing"])
        self.refused("attend", "--q", self.path("none.npy"), "--k", q, "--v", q, "--compare", names=["none.npy"])
        self.refused("attend", "--input", CAPTURE, "--q", "q.npy", "--compare", names=["twice"])

    def test_truncated_and_hostile_files(self):
        with open(self.problem(), "rb") as file:
            whole = file.read()
        os.remove(self.path("in.safetensors"))
        for size in (0, 1, 7, 8, 9, 100, len(whole) - 1):
            self.refuses(self.write("cut.safetensors", whole[:size]), names=["cut.safetensors"])
        self.refuses(self.write("cut.safetensors", whole + b"x"), names=["cut.safetensors"])
        for length in (2**63, 2**64 - 1, 2**40):
            self.refuses(self.write("cut.safetensors", struct.pack("<Q", length) + whole[8:]), names=["cut"])
        huge = {"q": {"dtype": "F32", "shape": [2**31, 2**31, 2, 2], "data_offsets": [0, 16]}}
        text = json.dumps(huge).encode()
        self.refuses(self.write("cut.safetensors", struct.pack("<Q", len(text)) + text + bytes(16)), names=["q"])
        npy = npy_bytes(normal([1, 1, 4, 8], 1))
        for content in (npy[:-1], npy[:9], b"\x93NUMPX", npy.replace(b"(1, 1, 4, 8, )", b"(1, 1, 4, 9, )")):
            q = self.write("q.npy", content)
            self.refused("attend", "--q", q, "--k", q, "--v", q, "--compare", names=["q.npy"])

    def test_wrong_tensors(self):
        self.refuses(self.problem(v=None), names=["v", "missing", '"k"'])
        self.refuses(self.problem(q=normal([2, 4, 9, 16], 1, "F64")), names=["q", "f64", "f32, f16 or bf16"])
        self.refuses(self.problem(q=Tensor("I32", [1, 1, 1, 1], [1])), names=["q", "s32"])
        self.refuses(self.problem(q=normal([4, 9, 16], 1)), names=["q", "[4, 9, 16]", "four axes"])
        self.refuses(self.problem(q=normal([2, 4, 9, 16], 1, "F16")), names=["f16", "f32"])
        self.refuses(self.problem(k=normal([2, 2, 13, 15], 1)), names=["15", "16"])
        self.refuses(self.problem(k=normal([2, 3, 13, 16], 1)), names=["heads"])
        self.refuses(self.problem(v=normal([2, 2, 12, 8], 1)), names=["12", "13"])
        self.refuses(self.problem(q=normal([2, 3, 9, 16], 1)), names=["heads_q", "3"])
        self.refuses(self.problem(q=normal([1, 4, 9, 16], 1)), names=["batch"])

    def test_zero_tokens_and_wide_heads(self):
        self.refuses(self.problem(q=Tensor("F32", [2, 4, 0, 16], [])), names=["[2, 4, 0, 16]", "empty"])
        empty = Tensor("F32", [2, 2, 0, 16], [])
        self.refuses(self.problem(k=empty, v=empty), names=["[2, 2, 0, 16]"])
        wide = normal([1, 1, 2, 257], 1)
        self.refuses(self.problem(q=wide, k=wide, v=wide), names=["257", "256"])

    def test_non_finite_values_are_found_by_index_unless_allowed(self):
        for value, word in ((math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")):
            q = normal([2, 4, 9, 16], 1)
            q.values[1 * 4 * 9 * 16 + 2 * 9 * 16 + 3 * 16 + 5] = value
            source = self.problem(q=q)
            self.refuses(source, names=["[1, 2, 3, 5]", f"is {word},", "--allow-non-finite"])
            o = self.attended("--input", source, "--scheme", "f32", "--allow-non-finite")["o"].values
            row = (1 * 4 + 2) * 9 + 3
            self.assertTrue(any(math.isnan(x) for x in o[8 * row : 8 * row + 8]))
            self.assertTrue(all(math.isfinite(x) for x in list(o[: 8 * row]) + list(o[8 * row + 8 :])))
            os.remove(self.path("out.safetensors"))
            self.refuses(source, "--allow-non-finite", "--scheme", "int8", names=["finite"])
        v = normal([2, 2, 13, 8], 3, "F16")
        v.values[0] = math.inf
        others = {"q": normal([2, 4, 9, 16], 1, "F16"), "k": normal([2, 2, 13, 16], 2, "F16")}
        self.refuses(self.problem(v=v, **others), names=["v", "[0, 0, 0, 0]"])

    def test_wrong_masks_and_sequences(self):
        for mask in (Tensor("I32", [1], [1]), Tensor("BOOL", [9, 12], [True] * 108), normal([1] * 5, 1),
                     Tensor("F32", [1], [math.nan]), Tensor("F32", [1], [math.inf])):
            self.refused("attend", "--input", self.problem(mask=mask), "--compare", names=["mask" if mask.dtype != "BOOL"
                                                                                           else "bias"])
        packed = {n: normal([1, 1, 4, 8], 1) for n in "qkv"}
        good, rising = Tensor("I32", [3], [0, 2, 4]), lambda *x: Tensor("I32", [len(x)], x)
        cases = [({"cu_seqlens_q": good}, "cu_seqlens_k"), ({"cu_seqlens_k": good}, "cu_seqlens_q")]
        cases += [({"cu_seqlens_q": good, "cu_seqlens_k": bad}, "cu_seqlens_k") for bad in (
            rising(0, 4), rising(1, 2, 4), rising(0, 5, 4), rising(0, 2, 5), rising(0, -1, 4), rising(0),
            Tensor("F32", [3], [0, 2, 4]), Tensor("I64", [3], [0, 2, 2**32 + 4]))]
        for changes, name in cases:
            self.refused("attend", "--input", self.problem(**packed, **changes), "--compare", names=[name])

    def test_unknown_and_impossible_options(self):
        attend = lambda *more, names: self.refused("attend", "--input", CAPTURE, "--compare", *more, names=names)
        attend("--scheme", "int9", names=["--scheme", "int9", "int8_shift"])
        attend("--recipe", "q=row", names=["recipe q", "row", "token"])
        attend("--recipe", "r=token", names=["--recipe", '"r"', "equalise"])
        attend("--recipe", "q", names=["--recipe", '"q"', "name=value"])
        attend("--recipe", "q=token,q=head", names=["q", "twice"])
        attend("--recipe", "rotate=maybe", names=["rotate", "maybe", "off, on"])
        attend("--recipe", "rotation_seed=-1", names=["rotation_seed", "-1"])
        attend("--scheme", "qflash", "--recipe", "k=token", names=["recipe.k", "qflash", "tensor"])
        attend("--option", "table=curved", names=["option table", "curved", "linear"])
        attend("--option", "speed=high", names=["--option", "speed", "row_sum"])
        attend("--option", "table_bits=99", names=["table_bits", "99", "16"])
        attend("--scheme", "int8", "--option", "quotient=divide", names=["quotient", "int8"])
        attend("--window", "3", names=["--window", "LEFT,RIGHT"])
        attend("--window", "3,-2", names=["--window RIGHT", "-2"])
        for scale in ("0", "-1", "nan", "inf", "1e99", "one"):
            attend("--softmax-scale", scale, names=["softmax"])
        for block in ("0", "-16", "17", "2048", "99999999999999999999", "x"):
            attend("--key-block", block, names=["key"])
        attend("--layout", "sbhd", names=["--layout", "sbhd", "bhsd, bshd"])
        attend("--backend", "abacus", names=["abacus", "reference"])
        attend("--output-dtype", "f128", names=["--output-dtype", "f128"])
        attend("--output-dtype", "s8", names=["output", "s8", "int8"])
        attend("--threads", "-1", names=["--threads", "-1"])

    def test_unwritable_outputs(self):
        attend = lambda path, *more, names: self.refused("attend", "--input", CAPTURE, "--output", path, *more,
                                                         names=names)
        attend(self.path("none/o.safetensors"), names=["--output", "none"])
        attend(self.path("o.txt"), names=["--output", "o.txt", ".npy"])
        attend("/proc/o.safetensors", names=["/proc/o.safetensors"])
        os.mkdir(self.path("folder.npy"))
        attend(self.path("folder.npy"), names=["folder.npy", "directory"])
        attend(self.path("o.npy"), "--lse", names=["o.npy", "--lse"])
        attend(self.path("o.npy"), "--output-dtype", "bf16", names=["bf16", "NumPy"])
        self.refused("attend", "--input", CAPTURE, names=["--output", "missing", "--compare"])
        self.refused("quantize", "--input", CAPTURE, "--output", self.path("o.npy"), names=["o.npy", ".safetensors"])
        self.refused("quantize", "--input", CAPTURE, names=["--output", "missing"])

    def test_a_full_standard_output_is_an_error(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([OCTET, "info"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, r"\Aoctet: standard output [^\n]+\n\Z")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
