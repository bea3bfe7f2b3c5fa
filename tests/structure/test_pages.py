"""Pages for developers name files that are there."""

import pathlib
import re

import pytest

from tests.structure.imports import PACKAGE

ROOT = PACKAGE.parent
PAGES = [
    *sorted(PACKAGE.rglob("README.md")),
    *(ROOT / "docs").glob("*.md"),
    *ROOT.glob("CONTRIBUTING.md"),
]
FILE = re.compile(r"`((?:[\w.]+/)*[\w]+\.(?:py|pyx|pxi))`")


def missing(text: str, folder: pathlib.Path) -> list[str]:
    """The files named in a page in `folder` that are neither beside it nor in the project."""
    places = (folder, PACKAGE, ROOT)
    return [
        name
        for name in FILE.findall(text)
        if not any((place / name).is_file() for place in places) and not _anywhere(name)
    ]


def _anywhere(name: str) -> bool:
    """A bare name in a page of `docs` stands for a file that the sentence before has placed."""
    return any(PACKAGE.rglob(name)) or any((ROOT / "tests").rglob(name))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_files_that_a_page_names_are_there(page):
    assert not missing(page.read_text(encoding="utf-8"), page.parent)


def test_a_file_that_is_gone_is_seen(tmp_path):
    (tmp_path / "here.py").touch()
    text = "`here.py` and `core/tensor.py`, not `gone.py`, `core/gone.py` or `tape.gradient`"
    assert missing(text, tmp_path) == ["gone.py", "core/gone.py"]
