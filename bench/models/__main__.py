"""The command: scripts/bench-models PART... (python -m models with bench and python on PYTHONPATH)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .replaced import SCHEMES
from .results import RESULTS, ModelsError, again, document, say, write

# The seeds, epochs and steps of the stored results.
SEEDS = 3
EPOCHS = {"vit": 30, "swin": 50}
LANGUAGE_SEEDS = 2
STEPS = 2500
ADVICE_TEXTS = 8
ADVICE_TOLERANCE = 0.02


def schemes_of(options: argparse.Namespace) -> tuple[str, ...]:
    return tuple(options.again) or SCHEMES


def keep(options: argparse.Namespace, name: str, fresh: dict[str, Any]) -> None:
    """Store a document, or with --again its rows in the stored one."""
    if options.again:
        fresh["rows"] = [row for row in fresh["rows"] if row["scheme"] in options.again]
        fresh = again(json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")), fresh)
    write(name, fresh)


def run_minilm(options: argparse.Namespace) -> None:
    from . import minilm

    packages = ["torch", "transformers", minilm.PACKAGE]
    rows = minilm.measure(schemes_of(options))
    keep(options, "minilm", document("minilm", "scripts/bench-models minilm", packages, rows, bar=minilm.BAR))


def run_advice(options: argparse.Namespace) -> None:
    from octet.advise import advise

    from . import minilm

    facts = document("advice", "scripts/bench-models advice", ["torch", "transformers", minilm.PACKAGE], [])
    del facts["experiment"], facts["rows"]
    for kind in minilm.KINDS_OF_TEXT:
        advice = advise(minilm.captured_texts(kind, ADVICE_TEXTS), tolerance=ADVICE_TOLERANCE)
        say(str(advice))
        name = "advice-minilm" if kind == "prose" else f"advice-minilm-{kind}"
        write(name, advice.document(model=f"all-MiniLM-L6-v2, {ADVICE_TEXTS} texts, {kind}", **facts))


def run_digits(options: argparse.Namespace) -> None:
    from . import digits

    rows = digits.measure(SEEDS, EPOCHS, schemes_of(options))
    packages = ["torch", "timm", "scikit-learn"]
    keep(options, "digits", document("digits", "scripts/bench-models digits", packages, rows))


def run_language(options: argparse.Namespace) -> None:
    from . import language

    rows = language.measure(LANGUAGE_SEEDS, STEPS, schemes_of(options))
    keep(options, "language", document("language", "scripts/bench-models language", ["torch"], rows))


def run_costs(options: argparse.Namespace) -> None:
    from . import costs

    rows = costs.measure(repeats=15)
    write("costs", document("costs", "scripts/bench-models costs", ["numpy"], rows))


def run_stack(options: argparse.Namespace) -> None:
    from . import stack

    rows = stack.measure(tokens=(128, 512, 2048, 4096), schemes=("f32", "int8"), repeats=5)
    write("stack", document("stack", "scripts/bench-models stack", ["torch", "transformers"], rows))


def run_imagenet(options: argparse.Namespace) -> None:
    from . import imagenet

    if options.images is None:
        raise ModelsError("--images is missing: name ImageNet's validation folder, a folder a class (n01440764, ...)")
    rows = imagenet.measure(options.images, tuple(options.models), tuple(options.schemes), options.weights, options.limit)
    told = {"images": options.images.name, "pretrained": options.weights != "random"}
    content = document("imagenet", "scripts/bench-models imagenet", ["torch", "timm"], rows, **told)
    write("imagenet", content, options.output_folder)


def run_page(options: argparse.Namespace) -> None:
    from .page import write_page

    say(str(write_page()))


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "minilm": run_minilm,
    "advice": run_advice,
    "digits": run_digits,
    "language": run_language,
    "costs": run_costs,
    "stack": run_stack,
    "imagenet": run_imagenet,
    "page": run_page,
}
EVERYTHING = ("minilm", "advice", "digits", "language", "costs", "stack", "page")


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    from .imagenet import MODELS as IMAGENET_MODELS
    from .imagenet import SCHEMES as IMAGENET_SCHEMES

    parser = argparse.ArgumentParser(
        prog="scripts/bench-models",
        description="Does 8-bit attention work in a model? Each part writes results/models/PART.json; `page` makes docs/models.md of them.",
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"what to measure of {' '.join(PARTS)} (default: {' '.join(EVERYTHING)})")
    parser.add_argument("--commit", help="the commit to name in the results (default: git's)")
    parser.add_argument(
        "--again", nargs="+", default=[], metavar="SCHEME", help="minilm, digits, language: these schemes only, into the stored result (default: all)"
    )
    parser.add_argument("--images", type=Path, help="imagenet: the validation folder, a folder a class")
    parser.add_argument("--models", nargs="+", default=list(IMAGENET_MODELS), help="imagenet: timm's names")
    parser.add_argument("--schemes", nargs="+", default=list(IMAGENET_SCHEMES), help="imagenet: octet's schemes")
    parser.add_argument("--weights", default="pretrained", help="imagenet: pretrained (timm downloads them), random, or a folder of MODEL.safetensors")
    parser.add_argument("--limit", type=int, help="imagenet: this many images, evenly from all classes (default: all)")
    parser.add_argument("--output-folder", type=Path, default=RESULTS, help="imagenet: where its JSON goes")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(arguments)
    import torch

    from . import results

    results.named_commit = options.commit

    torch.set_num_threads(1)  # as OCTET_THREADS=1: CPU seconds are measured, and two cores are often shared
    try:
        for part in options.parts:
            if part not in PARTS:
                raise ModelsError(f"PART is {part} and must be one of {', '.join(PARTS)}: name what to measure")
        for part in options.parts or EVERYTHING:
            PARTS[part](options)
    except ModelsError as error:
        say(f"bench-models: {error}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
