"""A folder is small enough to be read at a glance, and says in a few lines what it holds."""

import pathlib

import pytest

from tests.structure.imports import PACKAGE

MOST_FILES = 25
MOST_LINES = 15  # of a README

# Folders that hold more Python files today, with how many. These numbers may only fall.
TOO_LARGE = {
    "trainkit.checkpoints": 31,
    "trainkit.core": 33,
    "trainkit.data": 27,
    "trainkit.graph": 40,
    "trainkit.kernels": 33,
    "trainkit.kernels.compiled": 26,
    "trainkit.layers": 51,
    "trainkit.models": 26,
    "trainkit.ops": 145,
    "trainkit.optimizers": 34,
}

# Folders that have no README today. They may only get fewer.
WITHOUT_README = {
    "trainkit",
    "trainkit.array_api",
    "trainkit.autodiff",
    "trainkit.callbacks",
    "trainkit.checkpoints",
    "trainkit.cli",
    "trainkit.cli.checks",
    "trainkit.compat",
    "trainkit.core",
    "trainkit.data",
    "trainkit.datasets",
    "trainkit.graph",
    "trainkit.graph.cuda",
    "trainkit.graph.segments",
    "trainkit.keras",
    "trainkit.keras.preprocessing",
    "trainkit.kernels",
    "trainkit.kernels.compiled",
    "trainkit.layers",
    "trainkit.losses",
    "trainkit.metrics",
    "trainkit.models",
    "trainkit.ops",
    "trainkit.optimizers",
    "trainkit.profiler",
    "trainkit.records",
    "trainkit.saved_graph",
    "trainkit.summary",
    "trainkit.tf",
}


def folders(package: pathlib.Path = PACKAGE) -> dict[str, pathlib.Path]:
    """The folders of the package that hold Python files, by dotted name."""
    found = sorted({path.parent for path in package.rglob("*.py")})
    return {".".join([package.name, *path.relative_to(package).parts]): path for path in found}


def python_files(folder: pathlib.Path) -> int:
    return len(list(folder.glob("*.py")))


def readme_fault(folder: pathlib.Path) -> str | None:
    """What is wrong with the README of a folder, or None."""
    readme = folder / "README.md"
    if not readme.is_file():
        return f"no README.md: say in at most {MOST_LINES} lines what belongs here"
    lines = len(readme.read_text(encoding="utf-8").splitlines())
    return f"README.md has {lines} lines, more than {MOST_LINES}" if lines > MOST_LINES else None


def test_no_folder_holds_too_many_files():
    too_large = [
        f"{name}: {count} Python files, more than {most}"
        for name, folder in folders().items()
        if (count := python_files(folder)) > (most := TOO_LARGE.get(name, MOST_FILES))
    ]
    assert not too_large, "\n".join([*too_large, "give what belongs together a folder of its own"])


def test_every_folder_has_a_short_readme():
    faults = [
        f"{name}: {fault}"
        for name, folder in folders().items()
        if name not in WITHOUT_README and (fault := readme_fault(folder))
    ]
    assert not faults, "\n".join(faults)


def test_the_folders_are_found_and_counted(tmp_path):
    package = tmp_path / "house"
    (package / "room").mkdir(parents=True)
    (package / "cellar").mkdir()
    (package / "__init__.py").touch()
    for name in "ab":
        (package / "room" / f"{name}.py").touch()
    assert set(folders(package)) == {"house", "house.room"}
    assert python_files(package / "room") == 2


@pytest.mark.parametrize(
    ("lines", "fault"), [(None, "no README"), (MOST_LINES, None), (MOST_LINES + 1, "16 lines")]
)
def test_a_readme_that_is_missing_or_long_is_seen(tmp_path, lines, fault):
    if lines is not None:
        (tmp_path / "README.md").write_text("line\n" * lines)
    found = readme_fault(tmp_path)
    assert found is None if fault is None else fault in found
