"""One HTML page that holds everything: pictures inside it, their data as tables, no script, nothing loaded."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Union

from .documents import Document, rows_of
from .figures import Bars, Figure, HeatMap, Lines, Scatter

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 78rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #ddd; padding-bottom: .2rem; }
img { max-width: 100%; height: auto; }
figure { margin: 1rem 0; }
figcaption { color: #555; font-size: 13px; }
table { border-collapse: collapse; font-size: 12.5px; margin: .5rem 0 1rem; }
th, td { border: 1px solid #ddd; padding: .15rem .5rem; text-align: right; }
th:first-child, td:first-child { text-align: left; }
summary { cursor: pointer; color: #0b5fa5; }
"""

Cell = Union[str, float, None]


def shown(cell: Cell) -> str:
    if cell is None:
        return "-"
    return html.escape(cell) if isinstance(cell, str) else f"{cell:.4g}"


def table(head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    lines = ["<tr>" + "".join(f"<th>{html.escape(name)}</th>" for name in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{shown(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    return "<table>" + "\n".join(lines) + "</table>"


def tables_of(figure: Figure) -> str:
    """The figure's data, a table a panel."""
    parts: list[str] = []
    if isinstance(figure, Bars):
        for bars in figure.panels:
            head = [figure.unit, *(f"{group}{end}" for group in bars.groups for end in ("", ", quantisation counted"))]
            parts.append(f"<p>{html.escape(bars.title)}</p>")
            parts.append(
                table(
                    head,
                    ([s.name, *(cell for pair in zip(s.values, s.counted) for cell in pair)] for s in bars.series),
                )
            )
    elif isinstance(figure, Scatter):
        for points in figure.panels:
            parts.append(f"<p>{html.escape(points.title)}</p>")
            parts.append(
                table(
                    ["", figure.unit, "relative RMSE, %"],
                    ([point.name, point.speed, point.error_percent] for point in points.points),
                )
            )
    elif isinstance(figure, Lines):
        for lines in figure.panels:
            keys = sorted({x for line in lines.lines for x in line.x})
            parts.append(f"<p>{html.escape(lines.title)}; relative RMSE in % by keys</p>")
            parts.append(
                table(
                    ["", *(str(int(x)) for x in keys)],
                    ([line.name, *(dict(zip(line.x, line.y)).get(x) for x in keys)] for line in lines.lines),
                )
            )
    else:
        assert isinstance(figure, HeatMap)
        for cells in figure.panels:
            parts.append(f"<p>{html.escape(cells.scheme)}; relative RMSE in %</p>")
            parts.append(
                table(
                    ["layer", *(f"head {head}" for head in range(len(cells.cells[0])))],
                    ([str(layer), *row] for layer, row in enumerate(cells.cells)),
                )
            )
    return "\n".join(parts)


def figure_part(figure: Figure, picture: bytes) -> str:
    data = base64.b64encode(picture).decode()
    return (
        f'<figure id="{html.escape(figure.name)}"><img alt="{html.escape(figure.title)}" '
        f'src="data:image/png;base64,{data}"><figcaption>{html.escape(figure.caption)}</figcaption></figure>'
        f"<details><summary>The figures</summary>{tables_of(figure)}</details>"
    )


def model_rows(document: Document) -> str:
    """The rows of a models document as they are: what its experiment measured, whatever that is."""
    rows = [
        {key: value for key, value in row.items() if value is None or isinstance(value, (str, int, float))}
        for row in rows_of(document, document.content["rows"], "rows")
    ]
    head = list(dict.fromkeys(key for row in rows for key in row))
    cells = (
        [value if value is None or isinstance(value, str) else float(value) for value in (row.get(key) for key in head)] for row in rows
    )
    return f"<details><summary>{len(rows)} rows</summary>{table(head, cells)}</details>"


def page(documents: Sequence[Document], figures: Mapping[str, Sequence[Figure]], pictures: Mapping[str, bytes]) -> str:
    """The page: a section a document, in the order given; figures by document name, pictures by figure name."""
    sections = []
    for document in documents:
        command = document.content.get("command")
        told = f" Measured by <code>{html.escape(str(command))}</code>." if command else ""
        parts = [
            f"<h2>{html.escape(document.name)}</h2>",
            f"<p>{html.escape(document.origin)}.{told}</p>",
            *(figure_part(figure, pictures[figure.name]) for figure in figures[document.name]),
        ]
        if document.kind == "models":
            parts.append(model_rows(document))
        elif not figures[document.name]:
            parts.append("<p>Nothing of this document is drawn; docs/accuracy.md has its tables.</p>")
        sections.append("\n".join(parts))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>octet: report</title>'
        f"<style>{STYLE}</style></head><body>\n<h1>octet: report</h1>\n" + "\n".join(sections) + "\n</body></html>\n"
    )
