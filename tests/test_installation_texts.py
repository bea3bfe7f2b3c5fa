"""What people are told to install is this library, by ways that work, and never a stranger's."""

import re
import tomllib
from pathlib import Path

import pytest

from trainkit.core.process.requirements import DISTRIBUTION, EXTRAS, install_command

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
KINDS = {".md", ".py", ".toml", ".yml", ".ipynb", ".sh", ".cfg", ".svg", ""}
# Up to a character that ends a command in a text; "from" and "of" are words of a sentence.
BARE = re.compile(
    r"(?:pip|pipx|uv|poetry|conda)\s+(?:install|download|add|pip install)\b[^\n`#;|]*?"
    r"(?<![\w./-])trainkit(?:-ml)?(?![\w./-]*(?:\.whl|…))(?=[\s\"'\[=<>~!`),.;|]|$)"
)


def texts():
    """Files that people read, or that say what people read."""
    for name in ("docs", "trainkit", "examples", "benchmarks", "changelog.d", ".github", ".ci"):
        yield from (path for path in (ROOT / name).rglob("*") if path.is_file())
    yield from (path for path in ROOT.iterdir() if path.is_file() and path.name != "CHANGELOG.md")


def test_nobody_is_told_to_install_a_name_of_the_index():
    faults = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in texts()
        if path.suffix in KINDS
        for match in BARE.finditer(path.read_text(errors="replace"))
    ]
    assert not faults, "\n".join(["that name is another project's on the index", *faults])


@pytest.mark.parametrize(
    "text",
    ["pip install trainkit", "`pip install -U trainkit`", 'pip install "trainkit[cuda13]"',
     "pip install 'trainkit>=0.2'", "uv add trainkit", "pip install numpy trainkit\n",
     "pip install --force-reinstall --no-deps trainkit; more", "uv pip install trainkit-ml"],
)  # fmt: skip
def test_bare_names_are_seen(text):
    assert BARE.search(text)


@pytest.mark.parametrize(
    "text",
    ["pip install .", 'pip install ".[cuda13]"', "pip install ./trainkit_ml-0.2.0-py3-none-any.whl",
     "pip install numpy; import trainkit", "pip install h5py  # trainkit needs it"],
)  # fmt: skip
def test_what_works_is_left_alone(text):
    assert not BARE.search(text)


def test_the_installation_has_a_name_of_its_own():
    assert PROJECT["name"] == DISTRIBUTION != "trainkit"


def test_messages_name_the_packages_of_the_extras():
    extras = PROJECT["optional-dependencies"]
    for name, packages in EXTRAS.items():
        assert list(packages) == [line.partition(";")[0].strip() for line in extras[name]]
    assert install_command("examples") == "pip install 'scikit-learn>=1.5'"
