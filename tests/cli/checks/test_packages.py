import importlib.metadata

import pytest

from trainkit.cli.checks import packages


@pytest.fixture
def installed(monkeypatch):
    """Versions by name, and what trainkit asks for."""
    versions = {"numpy": "2.1.0", "h5py": "3.12.1rc1", "malt": "3.0"}
    asked = ["numpy>=2.1", "h5py>=3.12", "malt>=2.15.2,<3", "mypy>=99; extra == 'dev'"]

    def version(name):
        if name not in versions:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(packages.importlib.metadata, "version", version)
    monkeypatch.setattr(packages.importlib.metadata, "requires", lambda name: asked)
    return versions


def test_versions_that_will_do(installed):
    installed["malt"] = "2.15.10"
    assert [f.level for f in packages.check()] == ["ok", "ok"]


def test_a_version_that_is_too_new(installed):
    (problem,) = [f for f in packages.check() if f.level == "problem"]
    assert problem.text == "malt 3.0 is installed, trainkit needs malt>=2.15.2,<3"
    assert problem.mend == "pip install 'malt>=2.15.2,<3'"


def test_a_package_that_is_not_there(installed):
    del installed["h5py"]
    texts = [f.text for f in packages.check() if f.level == "problem"]
    assert "h5py is not installed" in texts


def test_a_copy_that_is_not_installed(monkeypatch):
    def requires(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(packages.importlib.metadata, "requires", requires)
    assert [f.level for f in packages.check()] == ["ok", "note"]


@pytest.mark.parametrize(
    ("version", "sign", "bound", "holds"),
    [
        ("2.10", ">=", "2.9", True),
        ("2.1", ">=", "2.1.0", False),
        ("2.9.9", "<", "3", True),
        ("3", "<", "3", False),
        ("1.2", "==", "1.2", True),
    ],
)
def test_versions_are_compared_number_by_number(version, sign, bound, holds):
    assert packages._holds(version, sign, bound) is holds
