"""The tutorial notebook runs from its first cell to its last, and what it trains learns."""

import json
import linecache
import pathlib

import matplotlib
import pytest

ROOT = pathlib.Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "tutorial.ipynb"


def code_cells():
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.slow
def test_every_cell_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("agg", force=True)
    from matplotlib import pyplot

    namespace = {}
    for number, code in enumerate(code_cells()):
        name = f"tutorial.ipynb, code cell {number}"
        # as Jupyter does, so that functions have their source
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        exec(compile(code, name, "exec"), namespace)
    pyplot.close("all")
    assert (namespace["guesses"] == namespace["y_test"]).mean() > 0.9
    assert namespace["losses"][-1] < namespace["losses"][0] / 5
    assert len(list((tmp_path / "logs").glob("events.out.tfevents.*"))) == 1


def test_it_is_stored_without_results():
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None
