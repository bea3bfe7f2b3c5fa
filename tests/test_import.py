"""`import trainkit` stays light: what a script does not use is not imported."""

import importlib
import os
import pathlib
import re
import subprocess
import sys
import tomllib
import types

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


# Areas of our own that a script has to ask for.
OWN = {
    "import trainkit": ["autodiff.check", "graph", "layers", "ops.image", "tf"],
    "import trainkit; trainkit.constant(1.0); trainkit.keras": [
        "checkpoints",
        "data",
        "layers",
        "ops.image",
        "records",
        "tf.image",
        "tf.nn",
    ],
    "import trainkit; trainkit.ops.math; trainkit.Model": [
        "callbacks.tensorboard",
        "datasets",
        "onnx",
        "profiler",
        "saved_graph",
    ],
    "import trainkit; trainkit.keras.applications.MobileNetV2": [
        "applications.resnet",
        "datasets",
        "profiler",
    ],
}


def modules_after(code):
    """The names of the modules that a fresh interpreter has after running `code`."""
    program = f"{code}\nimport sys\nprint(*sys.modules)"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True)
    return set(done.stdout.split())


def imported_by(code):
    """The top-level names of these modules."""
    return {name.partition(".")[0] for name in modules_after(code)}


def test_importing_trainkit_imports_nothing_heavy():
    names = imported_by("import trainkit")
    assert "numpy" in names
    assert not names & set(HEAVY)


@pytest.mark.parametrize("code", OWN)
def test_areas_are_imported_when_they_are_asked_for(code):
    names = modules_after(code)
    assert "trainkit.ops.math" in names
    assert not [name for name in OWN[code] if f"trainkit.{name}" in names]


def test_an_area_that_is_asked_for_is_imported():
    assert "trainkit.ops.image" in modules_after("import trainkit; trainkit.ops.image.resize")


def test_models_import_nothing_that_only_rare_calls_need():
    names = modules_after("import trainkit; trainkit.Model")
    assert "trainkit.models.training.py_dataset" in names
    assert not names & {"argparse", "hmac", "multiprocessing", "secrets"}


def test_a_heavy_import_would_be_seen():
    assert "h5py" in imported_by("import trainkit, h5py")


def test_the_package_and_its_project_file_name_one_version():
    project = ROOT / "pyproject.toml"
    if not project.exists():
        pytest.skip("an installed package is apart from its project file")
    assert tomllib.loads(project.read_text())["project"]["version"] == trainkit.__version__


def test_the_citation_names_the_newest_release():
    citation = ROOT / "CITATION.cff"
    if not citation.exists():
        pytest.skip("an installed package is apart from the files of its project")
    facts = dict(line.split(": ", 1) for line in citation.read_text().splitlines() if ": " in line)
    assert facts["version"] == trainkit.__version__
    releases = re.findall(r"^## (\S+) \((\S+)\)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert (facts["version"], facts["date-released"]) == releases[0]


MODULES = [name for name in dir(trainkit) if isinstance(getattr(trainkit, name), types.ModuleType)]


@pytest.mark.parametrize("name", MODULES)
def test_a_module_is_imported_by_its_name_in_the_package(name):
    assert importlib.import_module(f"trainkit.{name}") is getattr(trainkit, name)


def test_names_are_imported_from_such_modules_in_a_fresh_process():
    lines = [
        "from trainkit.train import Example, Features",
        "import trainkit.nn as nn; nn.relu",
        "from trainkit.errors import InvalidArgumentError",
        "import trainkit.distribute; trainkit.distribute.get_strategy",
        "from trainkit.utils import to_categorical",
        "from trainkit.keras.layers import Dense",
        "import trainkit.linalg; trainkit.linalg.norm",
    ]
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True, timeout=60)


_WARNED = """
import warnings
import trainkit
of_numpy = "overflow encountered in multiply", "Mean of empty slice"
for text in (*of_numpy, "a kernel can't be compiled"):
    warnings.warn_explicit(text, RuntimeWarning, "loops.py", 7, module="trainkit.kernels.loops")
"""


def test_numpys_warnings_about_numbers_are_dropped_and_the_packages_own_are_shown():
    given = {name: text for name, text in os.environ.items() if name != "PYTHONWARNINGS"}
    done = subprocess.run(
        [sys.executable, "-c", _WARNED], env=given, capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[:1] == [
        "loops.py:7: RuntimeWarning: a kernel can't be compiled"
    ]
    assert done.stderr.count("RuntimeWarning") == 1
