"""Pages of what programs did: they are of what was kept, and the messages still are said."""

import importlib
import json
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = ROOT / "benchmarks" / "mistakes"


@pytest.fixture(scope="module")
def modules():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield importlib.import_module("run"), importlib.import_module("keras_cases").CASES
        for name in ("run", "keras_cases"):
            sys.modules.pop(name, None)


def test_the_page_is_written_from_the_words(modules):
    script, cases = modules
    rows = json.loads(script.WORDS.read_text(encoding="utf-8"))
    families = {name: family for name, (family, _) in cases.items()}
    assert len(cases) == 60
    assert set(rows["trainkit"]["words"]) == set(rows["keras"]["words"]) == set(cases)
    assert set(rows["torch"]["words"]) <= set(cases)
    written = script.PAGE.read_text(encoding="utf-8")
    assert written == script.page(rows, families), "python benchmarks/mistakes/run.py --write-page"


@pytest.mark.slow
def test_no_mistake_passes_in_silence(modules):
    script, cases = modules
    words = script.run("trainkit")
    assert [name for name in cases if not words[name]] == []
    stored = json.loads(script.WORDS.read_text(encoding="utf-8"))["trainkit"]["words"]
    kinds = {name: text.partition(":")[0] for name, text in words.items()}
    assert kinds == {name: text.partition(":")[0] for name, text in stored.items()}


def test_the_page_of_scripts_is_written_from_the_results():
    folder = ROOT / "benchmarks" / "public_scripts"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        script = importlib.import_module("write_page")
    sys.modules.pop("write_page")
    rows = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    assert len(rows) >= 100
    assert {row["outcome"] for row in rows} == set(script.OUTCOMES)
    assert script.PAGE.read_text(encoding="utf-8") == script.page(rows)
