"""docs/models.md from results/models/*.json; a test compares the two."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from .replaced import PYTORCH
from .results import RESULTS, ROOT

PAGE = ROOT / "docs" / "models.md"
# Bars of the digit models: points of Top-1 that int8 and integer may lose, and what the f32 models must reach.
DIGITS_BAR_POINTS = 0.2
DIGITS_LEAST_TOP1 = 97.0
ORIGINS = {
    PYTORCH: "PyTorch's own, f32",
    "fp8": "FlashAttention-3's FP8",
    "int8_fp8": "SageAttention2's arithmetic",
    "int8_full": "INT-FlashAttention",
    "int8_half": "INT-FlashAttention, half",
    "qflash": "QFlash",
    "qattn": "QAttn",
    "ivit": "I-ViT",
    "ibert": "I-BERT",
    "fqvit": "FQ-ViT",
    "int8": "octet",
    "int8_shift": "octet",
    "integer": "octet, integers only",
}

Row = Mapping[str, Any]


def scheme_cell(scheme: str) -> str:
    name = "f32 of PyTorch" if scheme == PYTORCH else f"`{scheme}`"
    origin = ORIGINS.get(scheme)
    return name if origin is None or scheme == PYTORCH else f"{name} ({origin})"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Left-aligned names, right-aligned figures."""
    return [
        "| " + " | ".join(head) + " |",
        "|" + "|".join("---" if i == 0 else "--:" for i in range(len(head))) + "|",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]


def cosine_cell(cosine: float) -> str:
    """A cosine near 1 by its distance from 1, which is what differs."""
    return f"{cosine:.6f}"


def verdict(holds: bool) -> str:
    return "holds" if holds else "**fails**"


def measured_by(document: Row) -> str:
    packages = ", ".join(f"{name} {number}" for name, number in document["packages"].items())
    cpu = f"{document['cpu']}, family {document.get('cpu_family', '?')} model {document.get('cpu_model', '?')}"
    told = f"`{document['command']}`, commit {document['commit']}, {document['date']}; {cpu}; {packages}."
    if again := document.get("again"):
        schemes = ", ".join(f"`{scheme}`" for scheme in again["schemes"])
        told += f" {schemes} again (`--again`) at commit {again['commit']}, {again['date']}."
    return told


def minilm(document: Row) -> list[str]:
    rows = document["rows"]
    by_scheme = {row["scheme"]: row for row in rows}
    bar = document["bar"]
    int8 = by_scheme["int8"]
    first = rows[0]
    lines = [
        "## Sentence embeddings: all-MiniLM-L6-v2",
        "",
        measured_by(document),
        "",
        f"{first['texts']} texts, one at a time: {first['questions']} questions and their answers written for this test, and paragraphs of "
        f"Python's language reference, up to 256 tokens. Cosines are between the embedding with PyTorch's f32 attention and with the scheme's. "
        f"The search looks for each question among {first['corpus']} answers and paragraphs.",
        "",
        f"Bar: cosine ≥ {bar} for int8 on every text: worst {int8['cosine_worst']:.6f}, {int8['texts_below_bar']} of {int8['texts']} texts "
        f"below: {verdict(int8['cosine_worst'] >= bar)}. Without the {int8['tables']} tables: worst {int8['cosine_worst_but_tables']:.6f}, "
        f"{int8['texts_below_bar_but_tables']} below: {verdict(int8['cosine_worst_but_tables'] >= bar)}.",
        "",
        "The tables are drawn with characters, and their borders become a hundred tokens `-` in a row. A head that looks at a separator beside them "
        "gives each of these keys less than a 510th of the block's largest weight, so that 8-bit codes of equal steps, rounded to nearest, are 0 for "
        "all of them, and as they are alike, the loss does not average out. Floating-point weights (`int8_fp8`, `fp8`, `int8_half`) keep them; `int8` "
        "rounds weights below one code by the place of their key, so that they keep their mass together (numerics/int8.md; on CPUs: GPU kernels "
        "round to nearest).",
        "",
    ]
    cells = []
    for row in rows:
        if "refusal" in row:
            cells.append([scheme_cell(row["scheme"]), *["-"] * 8])
            continue
        cells.append(
            [
                scheme_cell(row["scheme"]),
                cosine_cell(row["cosine_worst"]),
                cosine_cell(row["cosine_worst_but_tables"]),
                cosine_cell(row["cosine_mean"]),
                str(row["texts_below_bar"]),
                f"{row['answers_first']} of {row['questions']}",
                f"{row['mean_reciprocal_rank']:.4f}",
                str(row["same_first"]),
                str(row["same_first_ten"]),
            ]
        )
    head = ["attention", "worst cosine", "worst but tables", "mean", f"below {bar}", "answer found first", "MRR", "same first", "same first ten"]
    return [*lines, *table(head, cells), ""]


def top1_cell(rows: Sequence[Row], key: str) -> str:
    if any("refusal" in row for row in rows):
        return "-"
    return f"{mean(row[key] for row in rows):.2f}"


def digits(document: Row) -> list[str]:
    rows = document["rows"]
    seeds = sorted({row["seed"] for row in rows})
    lines = [
        "## Digit models: a stand-in for ImageNet",
        "",
        measured_by(document),
        "",
        "QFlash's Table 5 is Top-1 on ImageNet, which cannot be had here. In its place timm's `VisionTransformer` (50 tokens, 6 layers) and "
        "`SwinTransformer` (windows of 16 tokens, shifted, relative-position bias, 6 layers), small, are trained from nothing on scikit-learn's "
        f"handwritten digits, once for each of {len(seeds)} seeds with its own split, and then run with the attention replaced. Ten classes of "
        "digits are easier than a thousand of photographs: **this says whether anything breaks, not what ImageNet would lose**. So the table also "
        "counts how many predictions change, and the same test images rotated, scaled and shifted, more of which lie near a border.",
        "",
    ]
    for name in dict.fromkeys(row["model"] for row in rows):
        of_model = [row for row in rows if row["model"] == name]
        exact = {row["seed"]: row for row in of_model if row["scheme"] == PYTORCH}
        least = min(row["top1_test"] for row in exact.values())
        lines += [
            f"### {'ViT' if name == 'vit' else 'Swin'}",
            "",
            f"f32 reaches {least:.2f} % or more on the test part ({exact[seeds[0]]['images_test']} images a seed, "
            f"{exact[seeds[0]]['images_distorted']} distorted): bar > {DIGITS_LEAST_TOP1:g} %: {verdict(least > DIGITS_LEAST_TOP1)}. "
            + " ".join(digits_bar(of_model, exact, scheme) for scheme in ("int8", "integer")),
            "",
        ]
        cells = []
        for scheme in dict.fromkeys(row["scheme"] for row in of_model):
            here = [row for row in of_model if row["scheme"] == scheme]
            if any("refusal" in row for row in here):
                cells.append([scheme_cell(scheme), *["-"] * (len(seeds) + 5)])
                continue
            cells.append(
                [
                    scheme_cell(scheme),
                    *(f"{row['top1_test']:.2f}" for row in here),
                    top1_cell(here, "top1_test"),
                    str(sum(row["changed_test"] for row in here)),
                    top1_cell(here, "top1_distorted"),
                    str(sum(row["changed_distorted"] for row in here)),
                    f"{100 * mean(row['logits_relative_rmse_test'] for row in here):.3g}",
                ]
            )
        head = ["attention", *(f"seed {seed}" for seed in seeds), "mean Top-1, %", "changed", "distorted, %", "changed", "logits' RMSE, %"]
        lines += [*table(head, cells), ""]
    refused = next((row for row in rows if "refusal" in row), None)
    if refused is not None:
        lines += ["A dash: the scheme takes no additive bias, as published.", ""]
    return lines


def digits_bar(rows: Sequence[Row], exact: Mapping[int, Row], scheme: str) -> str:
    worst = max(abs(row["top1_test"] - exact[row["seed"]]["top1_test"]) for row in rows if row["scheme"] == scheme)
    return f"`{scheme}` is within {worst:.2f} points of it on every seed (bar: {DIGITS_BAR_POINTS}): {verdict(worst <= DIGITS_BAR_POINTS)}."


def language(document: Row) -> list[str]:
    rows = document["rows"]
    seeds = sorted({row["seed"] for row in rows})
    exact = {row["seed"]: row["perplexity"] for row in rows if row["scheme"] == PYTORCH}
    lines = [
        "## A language model with causal attention",
        "",
        measured_by(document),
        "",
        "Characters of Python's language reference (`pydoc_data`), 4 layers, 2 heads of 64, contexts of 256, trained from nothing once a seed; "
        f"perplexity of {rows[0]['characters']} held-out characters. A small model, trained for minutes: read the change, not the level.",
        "",
    ]
    cells = []
    for scheme in dict.fromkeys(row["scheme"] for row in rows):
        here = [row for row in rows if row["scheme"] == scheme]
        if any("refusal" in row for row in here):
            cells.append([scheme_cell(scheme), *["-"] * (len(seeds) + 1)])
            continue
        change = [100 * (row["perplexity"] / exact[row["seed"]] - 1) for row in here]
        cells.append([scheme_cell(scheme), *(f"{row['perplexity']:.4f}" for row in here), f"{max(change, key=abs):+.3f}"])
    return [*lines, *table(["attention", *(f"seed {seed}" for seed in seeds), "largest change, %"], cells), ""]


def advice(document: Row) -> list[str]:
    tolerance = document["tolerance"]
    return [
        "## By layer and head: octet.advise",
        "",
        measured_by(document),
        "",
        f"What `octet.advise` says with a tolerance of {100 * tolerance:g} %: relative RMSE in % of the worst head of each layer, against float64, schemes "
        "in the order of their cost. Bold: the cheapest within the tolerance. [The picture](pictures/error-by-head-advice-minilm.png) has every head.",
        "",
        *advice_table(document),
    ]


def advice_table(document: Row) -> list[str]:
    schemes = list(document["costs"])
    cells = []
    for layer in document["chosen"]["layers"]:
        row = [f"{layer['layer']}"]
        for scheme in schemes:
            errors = [r["relative_rmse"] for r in document["rows"] if r["layer"] == layer["layer"] and r["scheme"] == scheme]
            shown = "-" if None in errors else f"{100 * max(errors):.3g}"
            row.append(f"**{shown}**" if scheme == layer["scheme"] else shown)
        cells.append(row)
    lines = [f"{document['model']}; for all layers at once: `{document['chosen']['scheme']}`.", ""]
    return [*lines, *table(["layer", *(f"`{scheme}`" for scheme in schemes)], cells), ""]


def costs(document: Row) -> list[str]:
    cells = [
        [scheme_cell(row["scheme"]), row["backend"], f"{row['ms']:.2f}", f"{row['gops']:.0f}", f"{row['cost']:.3f}"] for row in document["rows"]
    ]
    return [
        "### What schemes cost",
        "",
        measured_by(document),
        "",
        f"The order in which `octet.advise` tries them: one call from Python, {document['rows'][0]['shape']}, quantisation counted, one thread. Other "
        "machines have other orders: `advise(captured, tolerance=..., costs={...})` takes theirs.",
        "",
        *table(["scheme", "backend", "ms", "Gop/s", "of f32's time"], cells),
        "",
    ]


def stack(document: Row) -> list[str]:
    rows = document["rows"]
    best = max((row for row in rows if row["scheme"] == "int8"), key=lambda row: row["speedup"])
    lines = [
        "## A whole model's speed: claim 67",
        "",
        measured_by(document),
        "",
        "The note behind claim 67 says that INT8 attention makes a whole model 1.8 times as fast, without evidence. Here are transformers' encoders "
        f"with random weights, {rows[0]['layers']} layers, batch 1, everything else f32 of PyTorch; CPU milliseconds of one thread, medians; "
        "`int8` counts quantisation. Nothing that replaces attention can gain more than the column before the last, where attention costs nothing.",
        "",
        f"The largest gain is {best['speedup']:.2f} ({best['shape']}, {best['tokens']} tokens, where attention takes "
        f"{100 * pytorch_of(rows, best)['attention_share']:.0f} % of the time). 1.8 is a matter of length: short sequences have little "
        "attention to gain from.",
        "",
    ]
    cells = []
    for row in rows:
        if row["scheme"] == PYTORCH:
            continue
        base = pytorch_of(rows, row)
        cells.append(
            [
                row["shape"],
                str(row["tokens"]),
                scheme_cell(row["scheme"]),
                f"{base['ms']:.1f}",
                f"{100 * base['attention_share']:.0f} %",
                f"{row['ms']:.1f}",
                f"{row['attention_speedup']:.2f} ×",
                f"{base['speedup_if_attention_were_free']:.2f} ×",
                f"{row['speedup']:.2f} ×",
            ]
        )
    head = ["encoder", "tokens", "attention", "ms, PyTorch f32", "of which attention", "ms", "attention alone", "if it were free", "whole model"]
    return [*lines, *table(head, cells), ""]


def stack_llama(document: Row) -> list[str]:
    rows = document["rows"]
    cells = []
    for row in rows:
        if row["scheme"] == PYTORCH:
            continue
        base = pytorch_of(rows, row)
        cells.append(
            [
                str(row["tokens"]),
                scheme_cell(row["scheme"]),
                f"{base['ms']:.2f}",
                f"{100 * base['attention_share']:.0f} %",
                f"{row['ms']:.2f}",
                f"{row['attention_speedup']:.2f} ×",
                f"{base['speedup_if_attention_were_free']:.2f} ×",
                f"{row['speedup']:.2f} ×",
            ]
        )
    head = ["tokens", "attention", "ms, PyTorch bf16", "of which attention", "ms", "attention alone", "if it were free", "whole layer"]
    gain = max(row["speedup"] for row in rows if row["scheme"] == "int8")
    verdict = "faster" if gain > 1 else "slower"
    free = max(pytorch_of(rows, row)["speedup_if_attention_were_free"] for row in rows)
    return [
        "### A layer of Llama on a GPU",
        "",
        measured_by(document).rstrip() + f" GPU: {document['gpu']}.",
        "",
        f"{rows[0]['shape']} (transformers' decoder layer, random weights, bf16, causal prefill, batch 1), against PyTorch's own attention, which is "
        f"bf16 by wgmma; `int8` counts quantisation and packing. At best {gain:.2f} times as fast: octet's kernels of that commit make such a layer "
        f"{verdict} on this GPU; attention that cost nothing would make it {free:.2f} times as fast at the longest.",
        "",
        *table(head, cells),
        "",
    ]


def pytorch_of(rows: Sequence[Row], row: Row) -> Row:
    return next(r for r in rows if r["scheme"] == PYTORCH and (r["shape"], r["tokens"]) == (row["shape"], row["tokens"]))


SECTIONS: dict[str, Callable[[Row], list[str]]] = {
    "minilm": minilm,
    "digits": digits,
    "language": language,
    "advice-minilm": advice,
    "advice-minilm-tables": advice_table,
    "costs": costs,
    "stack": stack,
    "stack-llama": stack_llama,
}
NOT_MEASURED = """## Not measured here

- ImageNet: neither its images nor timm's weights can be had on the project's machines. For who has them, this makes QFlash's Table 5 anew, with the
  same seven models:

  ```bash
  scripts/bench-models imagenet --images /data/imagenet/val
  ```

  `--weights FOLDER` takes MODEL.safetensors files instead of downloads, `--limit` fewer images, `--schemes` others.
"""


def text(folder: Path = RESULTS) -> str:
    """The whole page, with a section for each stored result."""
    lines = [
        "# Does it work in a model?",
        "",
        "<!-- Made by `scripts/bench-models page` from results/models/*.json; a test compares them. -->",
        "",
        "The attention of whole models is replaced, in inference and without any retraining, and what comes out is compared with the same model in "
        "PyTorch's f32. To measure it all again, with the packages of bench/models/requirements.txt and octet installed:",
        "",
        "```bash",
        "scripts/bench-models",
        "```",
        "",
    ]
    for name, section in SECTIONS.items():
        path = folder / f"{name}.json"
        if path.is_file():
            lines += section(json.loads(path.read_text(encoding="utf-8")))
    return "\n".join(lines) + "\n" + NOT_MEASURED


# What the README's table shows: octet's schemes, then those of the papers.
SUMMARY_SCHEMES = ("int8", "integer", "int8_fp8", "fp8", "int8_full", "qflash")


def stored(name: str, folder: Path = RESULTS) -> list[Row]:
    rows: list[Row] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["rows"]
    return rows


def summary() -> str:
    """The README's table; a test looks for it there."""
    embeddings = {row["scheme"]: row for row in stored("minilm")}
    lines = []
    for scheme in SUMMARY_SCHEMES:
        cells = [scheme_cell(scheme), cosine_cell(embeddings[scheme]["cosine_worst_but_tables"]), cosine_cell(embeddings[scheme]["cosine_worst"])]
        for model in ("vit", "swin"):
            rows = [row for row in stored("digits") if row["model"] == model]
            change = mean(row["top1_test"] for row in rows if row["scheme"] == scheme) - mean(
                row["top1_test"] for row in rows if row["scheme"] == PYTORCH
            )
            cells.append(f"{change:+.2f}")
        exact = {row["seed"]: row["perplexity"] for row in stored("language") if row["scheme"] == PYTORCH}
        changes = [100 * (row["perplexity"] / exact[row["seed"]] - 1) for row in stored("language") if row["scheme"] == scheme]
        lines.append([*cells, f"{max(changes, key=abs):+.2f} %"])
    head = ["attention", "embeddings: worst cosine, prose", "with tables of `-----`", "ViT, points of Top-1", "Swin", "perplexity, change"]
    return "\n".join(table(head, lines))


def write_page(path: Path = PAGE) -> Path:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(text(), encoding="utf-8")
    os.replace(temporary, path)
    return path
