"""README.md's Python lines and docs/python.md, section by section, work as written."""

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
