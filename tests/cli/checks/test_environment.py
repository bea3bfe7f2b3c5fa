import pathlib
import re

import pytest

import trainkit
from trainkit.cli.checks import environment


@pytest.fixture
def empty(monkeypatch):
    for name in list(environment.os.environ):
        if name in environment.MEANINGS or name.startswith("TRAINKIT_"):
            monkeypatch.delenv(name)
    return monkeypatch


def test_nothing_is_set(empty):
    (found,) = environment.check()
    assert found.text == "no environment variable changes anything"


def test_what_is_set_is_explained(empty):
    empty.setenv("TRAINKIT_JIT", "0")
    (found,) = environment.check()
    assert found.level == "note"
    assert found.text.startswith('TRAINKIT_JIT=0 is set: "0" compiles no kernels')
    assert found.facts == {"TRAINKIT_JIT": "0"}


def test_what_trainkit_has_set_itself_is_not_the_users(empty):
    empty.setenv("OPENBLAS_CORETYPE", "SkylakeX")
    empty.setattr(environment.blas_config, "SET", {"OPENBLAS_CORETYPE": "SkylakeX"})
    assert [f.level for f in environment.check()] == ["ok"]


def test_a_misspelt_name(empty):
    empty.setenv("TRAINKIT_JTI", "0")
    found = next(f for f in environment.check() if f.level == "warning")
    assert found.text == "TRAINKIT_JTI is set, which nothing reads; is it TRAINKIT_JIT?"
    assert found.mend == "unset TRAINKIT_JTI"


def test_every_variable_that_is_read_is_known():
    folder = pathlib.Path(trainkit.__file__).parent
    text = "".join(path.read_text() for path in folder.rglob("*.py"))
    read = set(re.findall(r'"(TRAINKIT_[A-Z0-9_]+)"', text)) - {"TRAINKIT_"}
    assert read == {name for name in environment.MEANINGS if name.startswith("TRAINKIT_")}
