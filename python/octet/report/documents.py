"""Stored results: what the report reads, and what it says about files that it cannot.

Three kinds of JSON are drawn, told apart by what they hold rather than by their names: runs of `octet bench`
(`suite` and `rows`), parts of `octet accuracy` (`part` and `experiments`) and what is measured in models
(`experiment` and `rows`: scripts/bench-models and octet.advise).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class ReportError(ValueError):
    """A condition that the user can put right; its text says how."""


@dataclass(frozen=True)
class Document:
    """One stored file; `name` is its file name without .json, which its pictures are named after."""

    path: Path
    kind: str  # "bench", "accuracy", "models"
    content: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.path.name.removesuffix(".json")

    @property
    def machine(self) -> str:
        """The GPU, or the CPU with its family and model where the document has them."""
        if "gpu" in self.content:
            return str(self.content["gpu"])
        cpu = str(self.content.get("cpu", "an unnamed CPU"))
        if "cpu_family" in self.content:
            cpu += f", family {self.content['cpu_family']} model {self.content.get('cpu_model', '?')}"
        return cpu

    @property
    def origin(self) -> str:
        """Machine, commit and date, as every figure is labelled."""
        parts = [self.machine]
        if "commit" in self.content:
            parts.append(f"commit {self.content['commit']}")
        if "date" in self.content:
            parts.append(str(self.content["date"]))
        return "; ".join(parts)


# What each kind must have: the key that names it, and the key of its list.
KINDS: dict[str, tuple[str, str]] = {
    "bench": ("suite", "rows"),
    "accuracy": ("part", "experiments"),
    "models": ("experiment", "rows"),
}
REMEDY = (
    "leave it out, or give results of `octet bench --suite cpu|gpu`, `octet accuracy --suite ...`, "
    "scripts/bench-models or octet.advise, as they lie in results/benchmarks, results/device/gpu-suite*.json, "
    "results/accuracy and results/models"
)


def kind_of(content: Mapping[str, Any]) -> str | None:
    for kind, (name, rows) in KINDS.items():
        if isinstance(content.get(name), str) and isinstance(content.get(rows), list):
            return kind
    return None


def read(path: Path) -> Document:
    """The document in `path`; ReportError where there is none that can be drawn."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ReportError(f"{path} cannot be read ({error.strerror}): name an existing JSON file") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ReportError(f"{path} is not JSON ({error}): {REMEDY}") from error
    if not isinstance(content, dict):
        raise ReportError(f"{path} holds a {type(content).__name__} and must hold an object: {REMEDY}")
    kind = kind_of(content)
    if kind is None:
        keys = ", ".join(sorted(content)[:8]) or "none"
        raise ReportError(
            f"{path} is no result that can be drawn: it has neither `suite` with `rows`, `part` with `experiments` "
            f"nor `experiment` with `rows` (its keys: {keys}): {REMEDY}"
        )
    return Document(path, kind, content)


def read_all(paths: Sequence[Path]) -> list[Document]:
    """Every document, or the first error; a name twice would let one picture replace another."""
    documents = [read(path) for path in paths]
    by_name: dict[str, Path] = {}
    for document in documents:
        other = by_name.setdefault(document.name, document.path)
        if other is not document.path:
            raise ReportError(f"{document.path} and {other} have the same name, and pictures are named after files: rename one")
    return documents


def rows_of(document: Document, rows: object, where: str) -> Iterator[Mapping[str, Any]]:
    """The objects of a list in `document`."""
    if not isinstance(rows, list):
        raise ReportError(f"{document.path}: {where} must be a list: measure it again with the command it names")
    for i, row in enumerate(rows):
        if not isinstance(row, dict):
            raise ReportError(f"{document.path}: {where}[{i}] is {row!r} and must be an object: measure it again with the command it names")
        yield row


def number(document: Document, row: Mapping[str, Any], key: str) -> float:
    """row[key], which must be a finite number."""
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < float("inf"):
        raise ReportError(
            f"{document.path}: `{key}` is {value!r} in {brief(row)} and must be a finite number: measure it again with the command it names"
        )
    return float(value)


def text(document: Document, row: Mapping[str, Any], key: str) -> str:
    """row[key], which must be a string."""
    value = row.get(key)
    if not isinstance(value, str):
        raise ReportError(
            f"{document.path}: `{key}` is {value!r} in {brief(row)} and must be a string: measure it again with the command it names"
        )
    return value


def brief(row: Mapping[str, Any]) -> str:
    """A row as an error shows it: what tells it from the others, not its figures."""
    named = {key: value for key, value in row.items() if isinstance(value, str)}
    shown = json.dumps(named or dict(row))
    return shown if len(shown) <= 160 else shown[:157] + "..."
