"""The command: python -m octet.report FILE... --output FOLDER."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from . import ReportError, figures_of, read_all
from .files import write_all

PAGE = "index.html"


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m octet.report",
        description="One self-contained HTML page and PNGs from stored results: speed, error, and both.",
        epilog="Results: octet bench --suite cpu|gpu, octet accuracy --suite ..., scripts/bench-models, octet.advise.",
    )
    parser.add_argument("files", nargs="+", type=Path, help="JSON files of results")
    parser.add_argument("--output", type=Path, default=Path("report"), help="folder for index.html and PNGs (default: report)")
    parser.add_argument("--pictures-only", action="store_true", help="write the PNGs and no page")
    parser.add_argument(
        "--figures",
        nargs="+",
        metavar="NAME",
        help="draw these figures alone, by the names of their PNGs without .png",
    )
    return parser.parse_args(arguments)


def make(options: argparse.Namespace) -> list[str]:
    """Write what the options ask for; the names of the files."""
    documents = read_all(options.files)
    figures = {document.name: figures_of(document) for document in documents}
    if options.figures is not None:
        known = [figure.name for found in figures.values() for figure in found]
        unknown = [name for name in options.figures if name not in known]
        if unknown:
            raise ReportError(f"--figures {unknown[0]} is no figure of these files, which have: {', '.join(known) or 'none'}")
        figures = {name: [figure for figure in found if figure.name in options.figures] for name, found in figures.items()}
    if not any(figures.values()) and not any(document.kind == "models" for document in documents):
        raise ReportError(
            "none of these files has anything to draw: give results of octet bench, the parts `lengths` of octet "
            "accuracy, or results/models"
        )
    from .draw import png  # note: here, so that errors in files are told before a missing matplotlib

    pictures = {}
    for document in documents:
        # Files below the working directory by their path there, so that a picture says where its data are.
        source = Path(os.path.relpath(document.path)).as_posix()
        for figure in figures[document.name]:
            pictures[figure.name] = png(figure, source)
    contents = {f"{name}.png": picture for name, picture in pictures.items()}
    if not options.pictures_only:
        from .page import page

        contents[PAGE] = page(documents, figures, pictures).encode()
    write_all(options.output, contents)
    return list(contents)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(sys.argv[1:] if arguments is None else arguments)
    try:
        names = make(options)
    except ReportError as error:
        print(f"octet.report: {error}", file=sys.stderr)
        return 2
    print("\n".join(str(options.output / name) for name in names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
