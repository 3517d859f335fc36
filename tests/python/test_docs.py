"""README.md's Python lines and docs/python.md, section by section, work as written; README's errors are those of docs/accuracy.md."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def sections(page):
    """(title, program) of each section that has Python lines."""
    for section in re.split(r"^## ", (ROOT / page).read_text(), flags=re.M)[1:]:
        title, _, body = section.partition("\n")
        blocks = re.findall(r"^```python\n(.*?)^```", body, re.M | re.S)
        if blocks:
            yield pytest.param("\n".join(blocks), id=title, marks=_marks("\n".join(blocks)))


def _marks(program):
    if re.search(r"import timm|transformers|diffusers", program):
        return [pytest.mark.models]
    return [pytest.mark.torch] if "import torch" in program else []


@pytest.mark.parametrize("program", [*sections("README.md"), *sections("docs/python.md")])
def test_the_lines_work_as_written(program, tmp_path):
    file = tmp_path / "program.py"
    file.write_text(program)
    exec(compile(program, str(file), "exec"), {"__name__": "docs"})


def test_every_section_of_the_page_is_here():
    assert len(list(sections("README.md"))) == 1 and len(list(sections("docs/python.md"))) == 10


def table_below(page, heading):
    """The first table below the heading: {(row, column): cell}. Columns are named by their first code span, or by all their text."""
    body = (ROOT / page).read_text().split(f"\n{heading}\n", 1)[1]
    lines = re.search(r"(?:^\|.*\n)+", body, re.M).group().splitlines()
    names, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    columns = [re.sub(r"^`(\w+)`.*", r"\1", name) for name in names]
    return {(row[0], column): cell for row in rows for column, cell in zip(columns[1:], row[1:])}


def test_the_readme_has_the_errors_of_the_page_of_accuracy():
    shown = table_below("README.md", "## How accurate")
    stored = table_below("docs/accuracy.md", "## Every scheme by distribution, d = 64")
    distributions = {
        "N(0, 1)": "normal",
        "scores four times as spread": "sharp",
        "outliers in Q, K and V": "outlier",
        "an attention sink": "sink",
        "V's token norms over two decades": "vtoken",
    }
    assert {row for row, _ in shown} == set(distributions)
    assert shown == {(row, scheme): stored[scheme, distributions[row]] for row, scheme in shown}
