"""Which line of the user's is running."""

import pathlib

import trainkit as tk
from trainkit.core import user_frames
from trainkit.core.user_frames import line_text, user_line


def test_the_line_that_calls_is_named():
    file, line, function = user_line()
    assert file == __file__
    assert function == "test_the_line_that_calls_is_named"
    assert "user_line()" in pathlib.Path(file).read_text().split("\n")[line - 1]


def test_frames_of_the_package_are_passed_over():
    found = []

    def f(x):
        found.append(user_line())
        return x

    tk.nest.map_structure(f, [1])
    assert found[0][2] == "f"


def test_generated_lines_lead_to_those_they_come_from(monkeypatch):
    origin = ("model.py", 12, "call")
    here, line, _ = user_line()
    monkeypatch.setitem(user_frames.SOURCE_MAPS, here, {line + 2: origin})
    assert user_line() == origin
    assert user_frames.origin_of(here, 1) is None


def test_texts():
    assert line_text(("a.py", 3, "f")) == '"a.py", line 3, in f'
    assert line_text(None) == "an unknown line"
