"""Figures to PNG with matplotlib, which is imported here alone: everything else of the report needs no plots."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .documents import ReportError
from .figures import BarPanel, Bars, Figure, HeatMap, LinePanel, Lines, Scatter, ScatterPanel, digest

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

# One colour a scheme, in every picture; tones that stay apart for colour-blind readers (Okabe and Ito's, darkened).
COLOURS = {
    "int8": "#0b5fa5",
    "int8_kblock": "#6aaed6",
    "int8_uniform": "#6aaed6",
    "int8_channel": "#3d86bf",
    "int8_shift": "#17a2a2",
    "integer": "#1b8a4b",
    "int8_full": "#e08a00",
    "int8_half": "#f2c14e",
    "int8_fp8": "#8e5bb5",
    "fp8": "#c8402f",
    "fp8_hybrid": "#e07b6c",
    "int4": "#d977a8",
    "qflash": "#7a4a21",
    "f16": "#4d4d4d",
    "bf16": "#7f7f7f",
    "f32": "#b3b3b3",
}
PEER_COLOURS = ("#d9d9d9", "#bdbdbd", "#969696", "#737373", "#c7c1b5", "#a39c8c")
MARKERS = "osD^vP*Xhp"
INK = "#222222"
DPI = 110  # a panel is then about 500 pixels wide: legible in a README, some tens of kilobytes
SOFTWARE_KEY = "Software"
DIGEST_KEY = "octet-data"
SOURCE_KEY = "octet-source"


def pyplot_free_canvas(columns: int, rows: int, size: tuple[float, float]) -> tuple[Canvas, list[Axes]]:
    """A canvas that no window system and no global state knows of."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as MatplotlibFigure
    except ImportError as error:
        raise ReportError("matplotlib is not installed, and pictures are drawn with it: pip install 'octet[report]'") from error
    canvas = MatplotlibFigure(figsize=(size[0] * columns, size[1] * rows), dpi=DPI, layout="constrained")
    FigureCanvasAgg(canvas)
    axes = canvas.subplots(rows, columns, squeeze=False)
    return canvas, [axis for line in axes for axis in line]


def colour_of(name: str, scheme: str, peer: bool, peers: Sequence[str]) -> str:
    if peer:
        return PEER_COLOURS[peers.index(name) % len(PEER_COLOURS)]
    return COLOURS.get(name, COLOURS.get(scheme, "#000000"))


def plain_axes(axis: Axes) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=8, colors=INK)
    axis.grid(axis="y", linewidth=0.5, alpha=0.4)
    axis.set_axisbelow(True)


def short(value: float) -> str:
    """Three digits at most, as a bar's label."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def draw_bar_panel(axis: Axes, panel: BarPanel, unit: str, peers: Sequence[str]) -> None:
    plain_axes(axis)
    width = 0.84 / len(panel.series)
    for i, series in enumerate(panel.series):
        colour = colour_of(series.name, series.scheme, series.peer, peers)
        for group, (value, counted) in enumerate(zip(series.values, series.counted)):
            if value is None:
                continue
            x = group - 0.42 + (i + 0.5) * width
            axis.bar(
                x,
                value,
                width * 0.92,
                color=colour,
                hatch="////" if series.peer else None,
                edgecolor="white" if not series.peer else "#555555",
                linewidth=0.4,
                label=series.name,
            )
            axis.text(x, value, short(value), ha="center", va="bottom", rotation=90, fontsize=6.5, color=INK)
            if counted is not None:
                axis.plot([x - width * 0.4, x + width * 0.4], [counted] * 2, color="white", linewidth=2.4)
                axis.plot([x - width * 0.4, x + width * 0.4], [counted] * 2, color=INK, linewidth=1)
    axis.set_xticks(range(len(panel.groups)), panel.groups)
    axis.set_xlabel("tokens", fontsize=8)
    axis.set_ylabel(unit, fontsize=8)
    axis.set_title(panel.title, fontsize=10)
    axis.margins(y=0.16)


def draw_scatter_panel(axis: Axes, panel: ScatterPanel, unit: str, peers: Sequence[str]) -> None:
    plain_axes(axis)
    for point in panel.points:
        colour = "#777777" if point.peer else colour_of(point.name, point.scheme, False, peers)
        axis.plot(
            point.error_percent,
            point.speed,
            marker="s" if point.peer else "o",
            markersize=7,
            markerfacecolor="none" if point.peer else colour,
            markeredgecolor=colour,
            linestyle="none",
            label=point.name,
        )
    label_points(axis, panel)
    axis.set_xscale("log")
    axis.set_ylim(bottom=0)
    axis.margins(x=0.25, y=0.12)
    axis.set_xlabel("relative RMSE, %", fontsize=8)
    axis.set_ylabel(unit, fontsize=8)
    axis.set_title(panel.title, fontsize=10)


def label_points(axis: Axes, panel: ScatterPanel) -> None:
    """Names beside the points: to the right, moved down where the one above it is too near in both directions."""
    top = max(point.speed for point in panel.points)
    placed: list[tuple[float, float]] = []
    for point in sorted(panel.points, key=lambda point: -point.speed):
        x, y = math.log10(point.error_percent), point.speed
        while any(abs(x - other_x) < 1.6 and 0 <= other_y - y < 0.045 * top for other_x, other_y in placed):
            y -= 0.01 * top
        placed.append((x, y))
        axis.annotate(
            point.name,
            (point.error_percent, point.speed),
            xytext=(point.error_percent * 1.18, y),
            va="center",
            fontsize=7,
            color=INK,
        )


def draw_line_panel(axis: Axes, panel: LinePanel) -> None:
    plain_axes(axis)
    for i, line in enumerate(panel.lines):
        axis.plot(
            line.x,
            line.y,
            marker=MARKERS[i % len(MARKERS)],
            markersize=4,
            linewidth=1.3,
            color=colour_of(line.name, line.scheme, False, ()),
            label=line.name,
        )
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    ticks = sorted({x for line in panel.lines for x in line.x})
    axis.set_xticks(ticks, [f"{int(x) // 1024}k" if x >= 1024 else str(int(x)) for x in ticks])
    axis.minorticks_off()
    axis.set_xlabel("keys", fontsize=8)
    axis.set_ylabel("relative RMSE, %", fontsize=8)
    axis.set_title(panel.title, fontsize=10)


def draw_heat_map(figure: HeatMap) -> Canvas:
    from matplotlib.colors import LogNorm

    cells = [value for panel in figure.panels for row in panel.cells for value in row if value > 0]
    norm = LogNorm(min(cells), max(cells))
    columns = min(3, len(figure.panels))
    canvas, axes = pyplot_free_canvas(columns, math.ceil(len(figure.panels) / columns), (4.6, 2.7))
    image: Any = None
    for axis, panel in zip(axes, figure.panels):
        image = axis.imshow(panel.cells, norm=norm, cmap="viridis", aspect="auto")
        for layer, row in enumerate(panel.cells):
            for head, value in enumerate(row):
                light = norm(value) < 0.55
                axis.text(
                    head, layer, f"{value:.2g}", ha="center", va="center", fontsize=5.5,
                    color="white" if light else "black",
                )  # fmt: skip
        axis.set_title(panel.scheme, fontsize=10)
        axis.set_xlabel("head", fontsize=8)
        axis.set_ylabel("layer", fontsize=8)
        axis.tick_params(labelsize=7)
    hide_rest(axes, len(figure.panels))
    canvas.colorbar(image, ax=axes, label="relative RMSE, %", shrink=0.8)
    return canvas


def hide_rest(axes: Sequence[Axes], used: int) -> None:
    for axis in axes[used:]:
        axis.set_visible(False)


def peers_in(figure: Bars | Scatter) -> list[str]:
    if isinstance(figure, Bars):
        names = [series.name for panel in figure.panels for series in panel.series if series.peer]
    else:
        names = [point.name for panel in figure.panels for point in panel.points if point.peer]
    return list(dict.fromkeys(names))


def canvas_of(figure: Figure) -> Canvas:
    if isinstance(figure, HeatMap):
        return draw_heat_map(figure)
    size = {Bars: (6.2, 3.2), Scatter: (5.6, 3.8), Lines: (5.0, 3.2)}[type(figure)]
    columns = min(2, len(figure.panels))
    canvas, axes = pyplot_free_canvas(columns, math.ceil(len(figure.panels) / columns), size)
    for axis, panel in zip(axes, figure.panels):
        if isinstance(panel, BarPanel):
            assert isinstance(figure, Bars)
            draw_bar_panel(axis, panel, figure.unit, peers_in(figure))
        elif isinstance(panel, ScatterPanel):
            assert isinstance(figure, Scatter)
            draw_scatter_panel(axis, panel, figure.unit, peers_in(figure))
        else:
            assert isinstance(panel, LinePanel)
            draw_line_panel(axis, panel)
    hide_rest(axes, len(figure.panels))
    if not isinstance(figure, Scatter):
        legend(canvas, axes)
    return canvas


def legend(canvas: Canvas, axes: Sequence[Axes]) -> None:
    """One for all panels, below them: each name once."""
    handles: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    canvas.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=5, fontsize=7.5, frameon=False)


def png(figure: Figure, source: str) -> bytes:
    """The picture, which carries its data's digest and the file that it was made from."""
    canvas = canvas_of(figure)
    canvas.suptitle(figure.title, fontsize=12)
    stream = io.BytesIO()
    metadata = {SOFTWARE_KEY: "octet.report", DIGEST_KEY: digest(figure), SOURCE_KEY: source}
    canvas.savefig(stream, format="png", metadata=metadata)
    return stream.getvalue()


def png_texts(content: bytes) -> dict[str, str]:
    """The tEXt chunks of a PNG; needs no library, so that a test can ask a picture where it comes from."""
    if content[:8] != b"\x89PNG\r\n\x1a\n":
        raise ReportError("this is no PNG, whose first eight bytes are fixed: make it again with scripts/make-pictures")
    texts, at = {}, 8
    while at + 8 <= len(content):
        length = int.from_bytes(content[at : at + 4], "big")
        if content[at + 4 : at + 8] == b"tEXt":
            key, _, value = content[at + 8 : at + 8 + length].partition(b"\0")
            texts[key.decode("latin-1")] = value.decode("latin-1")
        at += 12 + length  # length, type, data, checksum
    return texts
