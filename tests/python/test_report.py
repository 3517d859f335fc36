"""octet.report: the figures' data against hand-made results, the project's own results, the README's pictures, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from octet.report import ReportError, digest, figures_of, read, read_all
from octet.report.__main__ import main
from octet.report.draw import DIGEST_KEY, SOURCE_KEY, png_texts
from octet.report.figures import Bars, HeatMap, Lines, Scatter

ROOT = Path(__file__).resolve().parents[2]
RESULTS = [
    *sorted((ROOT / "results/benchmarks").glob("*.json")),
    *sorted((ROOT / "results/device").glob("gpu-suite*.json")),
    *sorted((ROOT / "results/accuracy").glob("*.json")),
    *sorted((ROOT / "results/models").glob("*.json")),
]


def bench_row(**changed):
    row = {
        "workload": "w", "scheme": "int8", "variant": "int8", "tokens_q": 1024, "tokens_k": 1024, "head_dim": 64, "causal": False,
        "threads": 1, "busy": 0, "quantisation": "excluded", "key_block": 128, "gops": 100.0, "relative_rmse": 0.0125,
    }  # fmt: skip
    return {**row, **changed}


def written(tmp_path, content, name="result.json"):
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def bench(tmp_path, *rows, suite="cpu"):
    return read(written(tmp_path, {"suite": suite, "cpu": "Test CPU", "commit": "abc", "date": "2026-01-01", "rows": list(rows)}))


def advice(cells):
    rows = [
        {"layer": layer, "head": head, "scheme": "int8", "relative_rmse": error}
        for layer, heads in enumerate(cells)
        for head, error in enumerate(heads)
    ]
    return {"experiment": "advice", "model": "m", "rows": rows}


# ---- What the figures hold -----------------------------------------------------------------------------------


def test_speed_bars_take_the_fastest_key_block_of_each_variant(tmp_path):
    bars, _ = figures_of(bench(tmp_path, bench_row(gops=100.0), bench_row(gops=140.0, key_block=256), bench_row(gops=90.0, key_block=512)))
    assert isinstance(bars, Bars)
    assert bars.panels[0].series[0].values == (140.0,)


def test_speed_bars_have_a_panel_a_dim_and_mask_and_a_group_a_length(tmp_path):
    rows = [
        bench_row(head_dim=dim, causal=causal, tokens_k=tokens)
        for dim in (128, 64) for causal in (True, False) for tokens in (4096, 197, 1024)
    ]  # fmt: skip
    bars, _ = figures_of(bench(tmp_path, *rows))
    assert [panel.title for panel in bars.panels] == ["head dim 64", "head dim 64, causal", "head dim 128", "head dim 128, causal"]
    assert all(panel.groups == ("197", "1k", "4k") for panel in bars.panels)


def test_speed_bars_keep_quantisation_apart_and_leave_gaps_where_nothing_was_measured(tmp_path):
    bars, _ = figures_of(
        bench(tmp_path, bench_row(), bench_row(quantisation="counted", gops=70.0), bench_row(variant="other", tokens_k=2048))
    )
    int8, other = bars.panels[0].series
    assert int8.values == (100.0, None) and int8.counted == (70.0, None)
    assert other.values == (None, 100.0) and other.counted == (None, None)


def test_speed_bars_of_many_lengths_leave_out_what_was_measured_at_one(tmp_path):
    rows = [bench_row(tokens_k=tokens) for tokens in (1024, 2048, 4096)]
    bars, scatter = figures_of(bench(tmp_path, *rows, bench_row(variant="other", tokens_k=4096)))
    assert [series.name for series in bars.panels[0].series] == ["int8"]
    assert {point.name for point in scatter.panels[0].points} == {"int8", "other"}


def test_speed_leaves_out_decode_bias_other_thread_counts_busy_runs_and_skipped_rows(tmp_path):
    rows = [bench_row(variant="kept"), bench_row(variant="decode", tokens_q=1), bench_row(variant="bias", bias=True),
            bench_row(variant="two threads", threads=2), bench_row(variant="busy", busy=2), bench_row(variant="skipped", gops=None)]  # fmt: skip
    bars, scatter = figures_of(bench(tmp_path, *rows))
    assert [series.name for series in bars.panels[0].series] == ["kept"]
    assert [point.name for point in scatter.panels[0].points] == ["kept"]


def test_a_gpus_figures_are_in_tera_operations_and_of_its_long_shapes(tmp_path):
    rows = [bench_row(suite="llm-prefill", gops=250000.0), bench_row(suite="vit", head_dim=32, gops=10.0)]
    bars, scatter = figures_of(bench(tmp_path, *rows, suite="gpu"))
    assert bars.unit == scatter.unit == "Top/s"
    assert [panel.title for panel in bars.panels] == ["head dim 64"]
    assert bars.panels[0].series[0].values == (250.0,)


def test_the_scatter_shows_the_longest_shape_in_percent(tmp_path):
    _, scatter = figures_of(
        bench(tmp_path, bench_row(), bench_row(tokens_k=4096, gops=200.0, relative_rmse=0.5), bench_row(causal=True, tokens_k=8192))
    )
    assert isinstance(scatter, Scatter)
    assert [panel.title for panel in scatter.panels] == ["head dim 64, 4k tokens"]
    assert (scatter.panels[0].points[0].speed, scatter.panels[0].points[0].error_percent) == (200.0, 50.0)


def test_error_by_length_is_ordered_by_length(tmp_path):
    def experiment(keys, error):
        return {"name": f"normal/n{keys}", "data": {"keys": keys}, "rows": [{"name": "int8", "relative_rmse": error}]}

    document = read(written(tmp_path, {"part": "lengths", "experiments": [experiment(2048, 0.02), experiment(128, 0.01)]}))
    (lines,) = figures_of(document)
    assert isinstance(lines, Lines)
    assert lines.panels[0].lines[0].x == (128.0, 2048.0) and lines.panels[0].lines[0].y == (1.0, 2.0)


def test_the_heat_map_has_a_cell_a_layer_and_head(tmp_path):
    (heat,) = figures_of(read(written(tmp_path, advice([[0.01, 0.02, 0.03], [0.04, 0.05, 0.06]]))))
    assert isinstance(heat, HeatMap)
    assert heat.panels[0].cells == ((1.0, 2.0, 3.0), (4.0, 5.0, 6.0))


def test_a_digest_changes_with_any_digit(tmp_path):
    first, _ = figures_of(bench(tmp_path, bench_row(gops=100.0)))
    same, _ = figures_of(bench(tmp_path, bench_row(gops=100.0)))
    other, _ = figures_of(bench(tmp_path, bench_row(gops=100.0000001)))
    assert digest(first) == digest(same) != digest(other)


# ---- The project's own results -------------------------------------------------------------------------------


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.name)
def test_every_stored_result_is_read(path):
    document = read(path)
    figures = figures_of(document)
    if document.kind == "bench":
        assert [type(figure) for figure in figures] == [Bars, Scatter]


def test_drawn_speeds_are_those_of_the_stored_rows():
    path = ROOT / "results/benchmarks/cpu-amd-epyc-family25-model17.json"
    bars, _ = figures_of(read(path))
    drawn = {series.name: series.values for series in bars.panels[1].series}
    rows = json.loads(path.read_text())["rows"]
    mine = [row["gops"] for row in rows if row["variant"] == "int8" and row["head_dim"] == 64 and row["tokens_k"] == 1024
            and row["threads"] == 1 and row["busy"] == 0 and row["quantisation"] == "excluded"]  # fmt: skip
    assert bars.panels[1].title == "head dim 64" and drawn["int8"][bars.panels[1].groups.index("1k")] == max(mine)


def test_pictures_in_docs_show_the_results_that_are_stored():
    pictures = sorted((ROOT / "docs/pictures").glob("*.png"))
    assert pictures, "docs/pictures has no picture: run scripts/make-pictures"
    for picture in pictures:
        told = png_texts(picture.read_bytes())
        figures = {figure.name: figure for figure in figures_of(read(ROOT / told[SOURCE_KEY]))}
        assert told[DIGEST_KEY] == digest(figures[picture.stem]), (
            f"{picture.name} shows other data than {told[SOURCE_KEY]}: run scripts/make-pictures"
        )


def test_the_readme_shows_pictures_that_are_there():
    readme = (ROOT / "README.md").read_text()
    named = [line for line in readme.splitlines() if "docs/pictures/" in line]
    assert named
    for line in named:
        path = line.partition("docs/pictures/")[2].partition(")")[0]
        assert (ROOT / "docs/pictures" / path).is_file(), line


# ---- The command ---------------------------------------------------------------------------------------------


class Sources(HTMLParser):
    """Everything that a page would load."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("src", "href", "data", "srcset")]


def test_the_page_holds_everything_itself(tmp_path):
    pytest.importorskip("matplotlib")
    files = [str(written(tmp_path, {"suite": "cpu", "cpu": "<CPU>", "rows": [bench_row()]}, "one.json")),
             str(written(tmp_path, advice([[0.01, 0.02], [0.03, 0.04]]), "two.json"))]  # fmt: skip
    out = tmp_path / "report"
    assert main([*files, "--output", str(out)]) == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "error-by-head-two.png",
        "index.html",
        "speed-and-error-one.png",
        "speed-one.png",
    ]
    sources = Sources()
    page = (out / "index.html").read_text()
    sources.feed(page)
    assert len(sources.found) == 3 and all(source.startswith("data:image/png;base64,") for source in sources.found)
    assert "&lt;CPU&gt;" in page and "<CPU>" not in page and "<script" not in page


def test_all_stored_results_make_one_report(tmp_path):
    pytest.importorskip("matplotlib")
    assert main([*map(str, RESULTS), "--output", str(tmp_path)]) == 0
    page = (tmp_path / "index.html").read_text()
    assert all(f"<h2>{path.stem}</h2>" in page for path in RESULTS)


def test_figures_by_name_alone_and_an_unknown_name(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    file = str(written(tmp_path, {"suite": "cpu", "rows": [bench_row()]}, "one.json"))
    assert main([file, "--output", str(tmp_path / "a"), "--pictures-only", "--figures", "speed-one"]) == 0
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["speed-one.png"]
    assert main([file, "--output", str(tmp_path / "b"), "--figures", "sped-one"]) == 2
    assert "--figures sped-one is no figure of these files, which have: speed-one, speed-and-error-one" in capsys.readouterr().err
    assert not (tmp_path / "b").exists()


REFUSED = {
    "not JSON": ("{", "is not JSON"),
    "a list": ("[1]", "holds a list and must hold an object"),
    "other keys": ('{"device": "x", "words": 3}', "is no result that can be drawn: it has neither"),
    "rows of numbers": ('{"suite": "cpu", "rows": [3]}', "rows[0] is 3 and must be an object"),
    "a speed in words": (json.dumps({"suite": "cpu", "rows": [bench_row(gops="fast")]}), "`gops` is 'fast'"),
    "an infinite speed": ('{"suite": "cpu", "rows": [{"gops": Infinity, "variant": "a", "scheme": "b", "quantisation": "excluded"}]}', "`gops` is inf"),
    "a missing variant": ('{"suite": "cpu", "rows": [{"gops": 1}]}', "`variant` is None"),
    "a missing head": (json.dumps({"experiment": "advice", "rows": advice([[0.1, 0.2], [0.3, 0.4]])["rows"][:3]}), "no row for layer 1, head 1"),
    "nothing to draw": ('{"part": "colfax", "experiments": []}', "none of these files has anything to draw"),
}  # fmt: skip


@pytest.mark.parametrize("content, said", REFUSED.values(), ids=REFUSED)
def test_other_json_is_refused_with_what_to_do_and_nothing_is_written(tmp_path, capsys, content, said):
    out = tmp_path / "out"
    assert main([str(written(tmp_path, content)), "--output", str(out)]) == 2
    told = capsys.readouterr().err
    assert told.startswith("octet.report: ") and said in told
    assert any(remedy in told for remedy in ("leave it out", "measure it again", "advise on all", "give results"))
    assert not out.exists()


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ReportError, match=r"nowhere.json cannot be read \(No such file or directory\): name an existing"):
        read(tmp_path / "nowhere.json")


def test_two_files_of_one_name_are_refused(tmp_path):
    (tmp_path / "a").mkdir()
    first, second = written(tmp_path, advice([[0.1]]), "x.json"), written(tmp_path / "a", advice([[0.1]]), "x.json")
    with pytest.raises(ReportError, match="have the same name"):
        read_all([first, second])


def test_a_folder_that_cannot_be_written_keeps_what_was_there(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    file = written(tmp_path, {"suite": "cpu", "rows": [bench_row()]}, "one.json")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "index.html").mkdir()  # a folder where the page must go: the last rename fails
    assert main([str(file), "--output", str(tmp_path / "out")]) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.endswith(".tmp")]


def test_reading_results_needs_no_plotting_library():
    code = "import sys; sys.modules['matplotlib'] = None; import octet.report; from octet.report.__main__ import main; sys.exit(main(sys.argv[1:]))"
    path = ROOT / "results/benchmarks/cpu-amd-epyc-family25-model17.json"
    done = subprocess.run([sys.executable, "-c", code, str(path), "--output", "/nonexistent"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "pip install 'octet[report]'" in done.stderr
