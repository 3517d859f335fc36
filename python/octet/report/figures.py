"""What each picture shows, as plain data: taken from stored results here, drawn by draw.py, compared by tests.

A figure says all that its picture says, in order, so that two figures are equal exactly where their pictures
would be; `digest` is what a picture carries of its figure.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Union

from . import documents
from .documents import Document

GIGA_PER_TERA = 1000.0


@dataclass(frozen=True)
class Series:
    """Bars of one variant, one for each of the panel's groups; None where it has no figure."""

    name: str
    scheme: str
    peer: bool
    values: tuple[float | None, ...]
    # The same with quantisation counted, where that was measured.
    counted: tuple[float | None, ...]


@dataclass(frozen=True)
class BarPanel:
    title: str
    groups: tuple[str, ...]
    series: tuple[Series, ...]


@dataclass(frozen=True)
class Bars:
    """Speed by sequence length, a panel for each head dim and mask, as FlashAttention's papers draw it."""

    name: str
    title: str
    caption: str
    unit: str
    panels: tuple[BarPanel, ...]


@dataclass(frozen=True)
class Point:
    name: str
    scheme: str
    peer: bool
    speed: float
    error_percent: float


@dataclass(frozen=True)
class ScatterPanel:
    title: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Scatter:
    """Speed upwards, error to the right: the best corner is at the top on the left."""

    name: str
    title: str
    caption: str
    unit: str
    panels: tuple[ScatterPanel, ...]


@dataclass(frozen=True)
class Line:
    name: str
    scheme: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class LinePanel:
    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Lines:
    """Error by the number of keys, a panel for each distribution."""

    name: str
    title: str
    caption: str
    panels: tuple[LinePanel, ...]


@dataclass(frozen=True)
class HeatPanel:
    scheme: str
    # [layer][head], relative RMSE in %.
    cells: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class HeatMap:
    """Error by layer and head, a panel for each scheme, all on one scale of colours."""

    name: str
    title: str
    caption: str
    panels: tuple[HeatPanel, ...]


Figure = Union[Bars, Scatter, Lines, HeatMap]


def digest(figure: Figure) -> str:
    """SHA-256 of the figure's data; figures that differ in one digit differ here."""
    return hashlib.sha256(json.dumps(asdict(figure), sort_keys=True).encode()).hexdigest()


# ---- speed ---------------------------------------------------------------------------------------------------


def measured(document: Document) -> list[Mapping[str, Any]]:
    """Rows with a speed; one thread where threads are told, no busy neighbours, and numbers in f32 where their type is told."""
    rows = documents.rows_of(document, document.content["rows"], "rows")

    def is_usual(row: Mapping[str, Any]) -> bool:
        return row.get("threads", 1) == 1 and row.get("busy", 0) == 0 and row.get("input", "f32") == "f32"

    return [row for row in rows if row.get("gops") is not None and is_usual(row)]


def drawn(document: Document) -> list[Mapping[str, Any]]:
    """The measured prefill rows; of a GPU's, those of its long shapes, as short ones' microseconds are launches."""
    rows = measured(document)
    required(document, rows)
    rows = [row for row in rows if is_prefill(row)]
    long = [row for row in rows if row.get("suite") == "llm-prefill"]
    return long if document.content["suite"] == "gpu" and long else rows


def is_prefill(row: Mapping[str, Any]) -> bool:
    """Many queries, no bias: the shapes that speed is drawn by. Decode is bound by memory, in other units."""
    return row.get("tokens_q", 0) > 1 and not row.get("bias", False)


def best(document: Document, rows: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The fastest of a variant's key blocks."""
    return max(rows, key=lambda row: documents.number(document, row, "gops"), default=None)


def tokens_name(tokens: int) -> str:
    return f"{tokens // 1024}k" if tokens >= 1024 and tokens % 1024 == 0 else str(tokens)


def unit_of(document: Document) -> tuple[str, float]:
    """A unit in which the figures have few digits, and how many of a row's Gop/s it is."""
    return ("Top/s", GIGA_PER_TERA) if document.content["suite"] == "gpu" else ("Gop/s", 1.0)


def variants_of(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, bool]]:
    """(variant, scheme, peer) in the order in which they were measured, peers after octet's."""
    seen = {(str(row["variant"]), str(row["scheme"]), bool(row.get("peer", False))): None for row in rows}
    return sorted(seen, key=lambda variant: variant[2])


def speed_panel(document: Document, rows: Sequence[Mapping[str, Any]], title: str) -> BarPanel:
    """One panel: a group for each number of tokens, a bar in it for each variant. Variants that were measured at one of many numbers are left
    to the picture of speed and error: they would take their place in every group."""
    _, divisor = unit_of(document)
    tokens = sorted({int(row["tokens_k"]) for row in rows})
    many = 3

    def is_course(variant: str) -> bool:
        return len(tokens) < many or len({row["tokens_k"] for row in rows if row["variant"] == variant}) > 1

    def speed(variant: str, count: int, quantisation: str) -> float | None:
        row = best(
            document,
            (row for row in rows if row["variant"] == variant and row["tokens_k"] == count and row["quantisation"] == quantisation),
        )
        return None if row is None else documents.number(document, row, "gops") / divisor

    return BarPanel(
        title=title,
        groups=tuple(tokens_name(count) for count in tokens),
        series=tuple(
            Series(
                name=variant,
                scheme=scheme,
                peer=peer,
                values=tuple(speed(variant, count, "excluded") for count in tokens),
                counted=tuple(speed(variant, count, "counted") for count in tokens),
            )
            for variant, scheme, peer in variants_of(rows)
            if is_course(variant)
        ),
    )


def required(document: Document, rows: Sequence[Mapping[str, Any]]) -> None:
    """The fields that the speed figures read of each row."""
    for row in rows:
        for key in ("variant", "scheme", "quantisation"):
            documents.text(document, row, key)
        for key in ("gops", "tokens_q", "tokens_k", "head_dim"):
            documents.number(document, row, key)


def speed_bars(document: Document) -> Bars | None:
    """Speed of one bench document; None where it has no prefill row."""
    rows = drawn(document)
    panels = []
    for head_dim, causal in sorted({(int(row["head_dim"]), bool(row.get("causal"))) for row in rows}):
        here = [row for row in rows if row["head_dim"] == head_dim and bool(row.get("causal")) == causal]
        title = f"head dim {head_dim}" + (", causal" if causal else "")
        panels.append(speed_panel(document, here, title))
    if not panels:
        return None
    unit, _ = unit_of(document)
    threads = "" if document.content["suite"] == "gpu" else " One thread."
    return Bars(
        name=f"speed-{document.name}",
        title=f"Forward attention, {unit}",
        caption=f"{document.origin}.{threads} Bars: the call itself, given codes where the scheme has codes; "
        "the line in a bar: with quantisation counted. Peers are hatched. The fastest key block of each.",
        unit=unit,
        panels=tuple(panels),
    )


def speed_against_error(document: Document) -> Scatter | None:
    """The longest unmasked shape of each head dim, quantisation excluded; None where no row has an error."""
    unit, divisor = unit_of(document)
    rows = [
        row
        for row in drawn(document)
        if not row.get("causal") and row["quantisation"] == "excluded" and row.get("relative_rmse") is not None
    ]
    panels = []
    for head_dim in sorted({int(row["head_dim"]) for row in rows}):
        of_dim = [row for row in rows if row["head_dim"] == head_dim]
        tokens = max(int(row["tokens_k"]) for row in of_dim)
        here = [row for row in of_dim if row["tokens_k"] == tokens]
        points = []
        for variant, scheme, peer in variants_of(here):
            row = best(document, (row for row in here if row["variant"] == variant))
            assert row is not None  # variants_of found it here
            points.append(
                Point(
                    name=variant,
                    scheme=scheme,
                    peer=peer,
                    speed=documents.number(document, row, "gops") / divisor,
                    error_percent=100 * documents.number(document, row, "relative_rmse"),
                )
            )
        panels.append(ScatterPanel(f"head dim {head_dim}, {tokens_name(tokens)} tokens", tuple(points)))
    if not panels:
        return None
    return Scatter(
        name=f"speed-and-error-{document.name}",
        title="Speed against error",
        caption=f"{document.origin}. N(0, 1) inputs, error against float64; quantisation excluded. Hollow: peers.",
        unit=unit,
        panels=tuple(panels),
    )


# ---- accuracy ------------------------------------------------------------------------------------------------

# Drawn of what is measured: the formats that people choose between. docs/accuracy.md has all.
DRAWN_SCHEMES = ("bf16", "fp8", "int8_full", "int8_half", "int8_fp8", "int8", "int8_shift", "int4", "qflash", "integer")
DRAWN_DISTRIBUTIONS = {
    "normal": "N(0, 1)",
    "sharp": "scores four times as spread",
    "outlier": "outliers in Q, K and V",
    "sink": "an attention sink",
}


def error_by_length(document: Document) -> Lines | None:
    """Of the part `lengths`; None where the document has no experiment by length."""
    points: dict[str, dict[str, list[tuple[float, float]]]] = {name: {} for name in DRAWN_DISTRIBUTIONS}
    for experiment in documents.rows_of(document, document.content["experiments"], "experiments"):
        distribution, _, length = documents.text(document, experiment, "name").partition("/")
        if distribution not in DRAWN_DISTRIBUTIONS or not length.startswith("n"):
            continue
        keys = documents.number(document, experiment.get("data", {}), "keys")
        for row in documents.rows_of(document, experiment.get("rows"), "rows"):
            name = documents.text(document, row, "name")
            if name in DRAWN_SCHEMES:
                percent = 100 * documents.number(document, row, "relative_rmse")
                points[distribution].setdefault(name, []).append((keys, percent))
    panels = []
    for distribution, by_scheme in points.items():
        lines = []
        for scheme in DRAWN_SCHEMES:
            ordered = sorted(by_scheme.get(scheme, []))
            if ordered:
                x, y = zip(*ordered)
                lines.append(Line(scheme, scheme, x, y))
        if lines:
            panels.append(LinePanel(DRAWN_DISTRIBUTIONS[distribution], tuple(lines)))
    if not panels:
        return None
    return Lines(
        name=f"error-by-length-{document.name}",
        title="Error by the number of keys",
        caption=f"{document.origin}. Relative RMSE against float64, default recipes, pooled over the seeds.",
        panels=tuple(panels),
    )


# ---- models --------------------------------------------------------------------------------------------------


# By head: octet's and the papers' 8-bit schemes; a panel each of all schemes would be illegible.
HEAT_SCHEMES = ("int8", "integer", "int8_fp8", "fp8", "int8_full", "qflash")


def error_by_head(document: Document) -> HeatMap | None:
    """Of what octet.advise says about a model; None for other experiments."""
    if document.content["experiment"] != "advice":
        return None
    cells: dict[str, dict[tuple[int, int], float]] = {}
    for row in documents.rows_of(document, document.content["rows"], "rows"):
        scheme = documents.text(document, row, "scheme")
        if scheme not in HEAT_SCHEMES or row.get("relative_rmse", 0) is None:  # None: the scheme does not take that call
            continue
        place = (int(documents.number(document, row, "layer")), int(documents.number(document, row, "head")))
        cells.setdefault(scheme, {})[place] = 100 * documents.number(document, row, "relative_rmse")
    panels = []
    for scheme in [name for name in HEAT_SCHEMES if name in cells]:
        by_place = cells[scheme]
        layers = 1 + max(layer for layer, _ in by_place)
        heads = 1 + max(head for _, head in by_place)
        missing = [(layer, head) for layer in range(layers) for head in range(heads) if (layer, head) not in by_place]
        if missing:
            raise missing_cell(document, scheme, missing[0])
        panels.append(HeatPanel(scheme, tuple(tuple(by_place[layer, head] for head in range(heads)) for layer in range(layers))))
    if not panels:
        return None
    what = str(document.content.get("model", "a captured model"))
    return HeatMap(
        name=f"error-by-head-{document.name}",
        title=f"Error by layer and head: {what}",
        caption=f"{document.origin}. Relative RMSE in % against float64, by octet.advise.",
        panels=tuple(panels),
    )


def missing_cell(document: Document, scheme: str, place: tuple[int, int]) -> documents.ReportError:
    return documents.ReportError(
        f"{document.path}: {scheme} has no row for layer {place[0]}, head {place[1]}: advise on all layers and heads"
    )


def figures_of(document: Document) -> list[Figure]:
    """Everything that one document has to show, in the report's order."""
    if document.kind == "bench":
        found: list[Figure | None] = [speed_bars(document), speed_against_error(document)]
    elif document.kind == "accuracy":
        found = [error_by_length(document)]
    else:
        found = [error_by_head(document)]
    return [figure for figure in found if figure is not None]
