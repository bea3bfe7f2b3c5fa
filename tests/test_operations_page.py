"""docs/operations.md says what the declarations say."""

import importlib.util
import pathlib

SCRIPT = pathlib.Path(__file__).parents[1] / "docs" / "operations.py"


def loaded():
    spec = importlib.util.spec_from_file_location("operations_page", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_operations_is_up_to_date():
    script = loaded()
    written = script.PAGE.read_text(encoding="utf-8")
    assert written == script.page(), "run `python docs/operations.py`"


def test_every_operation_has_a_row():
    script = loaded()
    rows = [line for line in script.page().splitlines() if line.startswith("| `")]
    assert sorted(row.split("`")[1] for row in rows) == sorted(p.name for p in script.declared())
