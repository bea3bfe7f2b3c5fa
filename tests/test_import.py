"""`import trainkit` stays light: what a script does not use is not imported."""

import pathlib
import subprocess
import sys
import tomllib

import pytest

import trainkit

ROOT = pathlib.Path(trainkit.__file__).parents[1]
HEAVY = [
    "cupy",
    "h5py",
    "malt",
    "numba",
    "pooch",
    "scipy",
    "sklearn",
    "tensorboard",
    "tensorboardX",
    "tqdm",
]


def imported_by(code):
    """Top-level names of the modules that a fresh interpreter has after running `code`."""
    program = f"{code}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True)
    return set(done.stdout.split())


def test_importing_trainkit_imports_nothing_heavy():
    names = imported_by("import trainkit")
    assert "numpy" in names
    assert not names & set(HEAVY)


def test_a_heavy_import_would_be_seen():
    assert "h5py" in imported_by("import trainkit, h5py")


def test_the_package_and_its_project_file_name_one_version():
    project = ROOT / "pyproject.toml"
    if not project.exists():
        pytest.skip("an installed package is apart from its project file")
    assert tomllib.loads(project.read_text())["project"]["version"] == trainkit.__version__
