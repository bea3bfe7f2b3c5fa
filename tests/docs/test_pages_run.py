"""What the pages show runs: their blocks of Python one after the other, as a reader would."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

import trainkit

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = pathlib.Path(trainkit.__file__).parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
# Parts of the package's own files, which stand there as they are shown.
EXCERPTS = {"kernels.md"}
# They set what counts for the whole process.
ALONE = {"determinism.md"}

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(text):
    """The code of each block, moved down to the line where it stands in the page."""
    return ["\n" * text[: m.start(1)].count("\n") + m[1] for m in BLOCK.finditer(text)]


def run(page):
    namespace = {"__name__": "page"}
    for code in blocks(page.read_text(encoding="utf-8")):
        exec(compile(code, str(page), "exec"), namespace)


def with_blocks(pages):
    return [page for page in pages if blocks(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    "page",
    [page for page in with_blocks(PAGES) if page.name not in EXCERPTS | ALONE],
    ids=lambda page: page.stem,
)
def test_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    run(page)


@pytest.mark.parametrize("name", sorted(ALONE))
def test_a_page_runs_in_a_process_of_its_own(name, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = f"import pathlib, tests.docs.test_pages_run as t; t.run(t.ROOT / 'docs' / {name!r})"
    subprocess.run([sys.executable, "-c", command], cwd=tmp_path, env=environment, check=True)


@pytest.mark.parametrize("name", sorted(EXCERPTS))
def test_an_excerpt_stands_in_the_package(name):
    lines = {
        line.strip()
        for path in PACKAGE.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
    }
    shown = [
        line.strip()
        for code in blocks((ROOT / "docs" / name).read_text(encoding="utf-8"))
        for line in code.splitlines()
    ]
    assert [line for line in shown if line not in lines] == []


def test_code_is_shown_under_a_name_that_runs():
    """Any other label of a fence would show code that no test sees."""
    known = {"", "python", "text", "sh", "console", "toml", "mermaid"}
    for page in PAGES:
        fences = re.findall(r"^```(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert set(fences) <= known, page.name


def test_an_error_names_the_line_of_the_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```python\nx = 1\n```\n\n```python\nx + 'a'\n```\n")
    with pytest.raises(TypeError) as found:
        run(page)
    assert found.traceback[-1].path == page
    assert found.traceback[-1].lineno + 1 == 8
