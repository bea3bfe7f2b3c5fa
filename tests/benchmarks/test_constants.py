"""Numbers that may depend on the machine: all are known, and each can be made another."""

import pathlib
import re
import subprocess
import sys
from collections import Counter

import pytest

import trainkit

PACKAGE = pathlib.Path(trainkit.__file__).parent
TEXT = "A = 8\n_B, _C = 1 << 4, 0.5  # two\nLIMITS = {1: 3}\nname = 5\nTEXT = 'x'\nON = True\n"


@pytest.fixture
def bench(bench_modules, monkeypatch):
    """`bench(name)` imports a file of the folder `benchmarks/constants`."""
    folder = pathlib.Path(bench_modules("timing").__file__).parent / "constants"
    monkeypatch.syspath_prepend(str(folder))
    return bench_modules


def test_every_number_in_upper_case_is_of_a_known_kind(bench):
    kinds = bench("constant_kinds").kinds(PACKAGE)
    unknown = [f"{n.file}:{n.line} {n.names}" for n in kinds.pop("unknown", [])]
    assert not unknown, "say in benchmarks/constants/constant_kinds.py what these stand for"
    assert sum(len(found) for found in kinds.values()) > 200


def test_the_page_counts_each_kind(bench):
    page = (PACKAGE.parent / "docs" / "kernels.md").read_text(encoding="utf-8")
    counts = Counter()
    for kind, found in bench("constant_kinds").kinds(PACKAGE).items():
        counts[re.match(r"varied with|varied|of no machine|of a GPU|data", kind)[0]] += len(found)
    rows = re.findall(r"^\| (varied|only|of no machine|of a GPU|data)[^|]* \| (\d+)", page, re.M)
    assert {name.replace("only", "varied with"): int(n) for name, n in rows} == counts
    assert f"`ops/neural`, {counts.total()} of them" in page


def test_no_kind_names_a_number_that_is_not_there(bench):
    rows, found = bench("constant_rows"), bench("constant_numbers")
    kinds = bench("constant_kinds")
    there = {(n.file, name) for n in found.numbers(PACKAGE, kinds.FOLDERS) for name in n.names}
    said = {(row.file, row.name) for row in rows.ROWS if row.file and row.name not in found.FACTS}
    for kind in (kinds.VARIED_WITH, kinds.OF_NO_MACHINE, kinds.DATA):
        places = [place for text in kind.values() for place in kinds._places(text)]
        assert len(set(places)) == len(places)
        said |= set(places)
    assert said <= there
    assert set(kinds.VARIED_WITH) <= {row.name for row in rows.ROWS}


def test_rows_name_calls_that_there_are_and_every_call_serves_one(bench):
    calls = bench("constant_calls").CALLS
    used = [call for row in bench("constant_rows").ROWS for call in row.calls]
    assert set(used) == set(calls)


def test_every_row_can_be_changed(bench):
    changed = bench("constant_numbers").changed
    for row in bench("constant_rows").ROWS:
        if row.file:
            text = (PACKAGE / row.file).read_text()
            assert changed(text, row.name, 4.0) != text


def test_numbers_are_found_with_their_names_and_lines(bench, tmp_path):
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "x.py").write_text(TEXT)
    (tmp_path / "x.py").write_text("OUTSIDE = 3\n")
    found = bench("constant_numbers").numbers(tmp_path, ("inside",))
    assert [(n.file, n.names, n.text, n.line) for n in found] == [
        ("inside/x.py", ("A",), "8", 1),
        ("inside/x.py", ("_B", "_C"), "(1 << 4, 0.5)", 2),
        ("inside/x.py", ("LIMITS",), "{1: 3}", 3),
    ]


@pytest.mark.parametrize(
    ("name", "factor", "given", "line"),
    [
        ("A", 4.0, None, "A = (32)"),
        ("A", 0.01, None, "A = (1)"),
        ("A", 4.0, 9, "A = (9)"),
        ("_C", 0.25, None, "_B, _C = ((4, 0.125))  # two"),
    ],
)
def test_a_changed_text_differs_in_one_line(bench, name, factor, given, line):
    found = bench("constant_numbers").changed(TEXT, name, factor, given)
    differing = [new for old, new in zip(TEXT.split("\n"), found.split("\n"), strict=True)
                 if old != new]  # fmt: skip
    assert differing == [line]


def test_a_name_without_a_number_is_refused(bench):
    with pytest.raises(ValueError, match="no number MISSING"):
        bench("constant_numbers").changed(TEXT, "MISSING", 4.0)


@pytest.mark.parametrize("level", [1, 2])
def test_a_cache_is_made_another_without_touching_the_others(bench, level):
    text = "def cache_bytes(level):\n    return 1000 * level\n"
    text = bench("constant_numbers").changed(text, f"cache_bytes({level})", 0.25)
    scope = {}
    exec(text, scope)
    assert scope["cache_bytes"](level) == 250 * level
    assert scope["cache_bytes"](3 - level) == 1000 * (3 - level)


def test_a_copy_has_the_changed_text_and_links_to_all_else(bench, tmp_path):
    package = tmp_path / "a" / "parcel"
    (package / "deep").mkdir(parents=True)
    for file in ("__init__.py", "deep/__init__.py", "deep/same.py"):
        (package / file).write_text("")
    (package / "deep" / "size.py").write_text("SIZE = 8\n")
    bench("constant_numbers").copy_with(package, tmp_path / "b", {"deep/size.py": "SIZE = 32\n"})
    code = "from parcel.deep import same, size; print(size.SIZE, same.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "b", capture_output=True, text=True
    )
    assert found.stdout.split() == ["32", str(tmp_path / "b" / "parcel" / "deep" / "same.py")]
    assert (tmp_path / "b" / "parcel" / "deep" / "same.py").is_symlink()
    assert (package / "deep" / "size.py").read_text() == "SIZE = 8\n"


def test_ratios_are_medians_of_the_processor_and_a_low_tenth_of_the_clock(bench):
    constants = bench("constants")
    first = [(1.0, 2.0)] * 19 + [(50.0, 2.0)]
    second = [(3.0, 1.0)] * 11 + [(90.0, 80.0)] * 9
    assert constants.processor_ratios([first, second, first]) == [0.5, 1.0]
    assert constants.clock_ratios([first, second, first]) == [3.0, 1.0]


def test_a_row_is_measured_with_three_copies(bench, capsys):
    assert bench("constants").main(["_LEAST_EACH", "--rounds", "1"]) == 0
    cells = r"\| \d+\.\d\d \| \d+\.\d\d \|"
    assert re.search(
        rf"\| `_LEAST_EACH` of `product_tuned` \| stack .* {cells}", capsys.readouterr().out
    )


def test_a_name_that_no_row_has_is_an_error(bench, capsys):
    with pytest.raises(SystemExit):
        bench("constants").main(["NOBODY"])
    assert "no row varies NOBODY" in capsys.readouterr().err


def test_the_list_counts_each_kind(bench, capsys):
    assert bench("constants").main(["--list"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^varied, on one core: \d+$", text, re.M)
    assert "core/cpu/cost_model.py" in text
