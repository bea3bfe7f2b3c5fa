"""A folder is small enough to be read at a glance, and says in a few lines what it holds."""

import pathlib

import pytest

from tests.structure.imports import PACKAGE, is_second_name

MOST_FILES = 25
MOST_LINES = 15  # of a README


def folders(package: pathlib.Path = PACKAGE) -> dict[str, pathlib.Path]:
    """The folders of the package that hold Python files, by dotted name."""
    found = sorted({path.parent for path in package.rglob("*.py")})
    return {".".join([package.name, *path.relative_to(package).parts]): path for path in found}


def python_files(folder: pathlib.Path) -> int:
    """How many a reader has to know; files of one line stand for modules of another name."""
    return sum(not is_second_name(path) for path in folder.glob("*.py"))


def readme_fault(folder: pathlib.Path) -> str | None:
    """What is wrong with the README of a folder, or None."""
    readme = folder / "README.md"
    if not readme.is_file():
        return f"no README.md: say in at most {MOST_LINES} lines what belongs here"
    lines = len(readme.read_text(encoding="utf-8").splitlines())
    return f"README.md has {lines} lines, more than {MOST_LINES}" if lines > MOST_LINES else None


def test_no_folder_holds_too_many_files():
    too_large = [
        f"{name}: {count} Python files, more than {MOST_FILES}"
        for name, folder in folders().items()
        if (count := python_files(folder)) > MOST_FILES
    ]
    assert not too_large, "\n".join([*too_large, "give what belongs together a folder of its own"])


def test_every_folder_has_a_short_readme():
    faults = [
        f"{name}: {fault}" for name, folder in folders().items() if (fault := readme_fault(folder))
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
