"""Texts of public names tell their arguments and what they raise: the counts may only fall."""

import pytest

from tests.structure import told_arguments


def test_no_door_has_more_texts_with_gaps_than_before():
    table, _ = told_arguments.find_gaps()
    more = list(told_arguments.grown(told_arguments.counts(table), told_arguments.read_kept()))
    assert not more, (
        "\n".join(more)
        + "\nwrite these parts of the text; python -m tests.structure.told_arguments --list names"
        + " the texts"
    )


def raising(x):
    if x:
        raise ValueError("no")


def raising_again(x):
    try:
        return x
    except KeyError:
        raise


@pytest.mark.parametrize(
    ("text", "has_arguments", "has_errors", "missing"),
    [
        ("A line.", True, True, ["Args", "Raises"]),
        ("A line.", False, False, []),
        ("A line.\n\nArgs:\n    x: a value.", True, True, ["Raises"]),
        ("A line.\n\nRaises:\n    ValueError: never.", True, True, ["Args"]),
        ("A line.\n\nRaises: what is no heading.", False, True, ["Raises"]),
    ],
)
def test_gaps_of_a_text(text, has_arguments, has_errors, missing):
    assert list(told_arguments.gaps(text, has_arguments, has_errors)) == missing


def test_what_counts_as_an_argument_and_as_an_error():
    def function(self, x, *args, axis=0, name=None, _own=1, **kwargs): ...

    assert told_arguments.arguments(function) == {"x", "axis"}
    assert told_arguments.raises(raising)
    assert not told_arguments.raises(raising_again)
    assert not told_arguments.raises(function)


def test_a_count_that_grows_is_named():
    before = {"tk.nn": [0, 1]}
    assert list(told_arguments.grown({"tk.nn": [0, 1]}, before)) == []
    assert list(told_arguments.grown({"tk.nn": [1, 1], "tk.io": [0, 1]}, before)) == [
        "tk.nn: 1 texts without 'Args', 0 before",
        "tk.io: 1 texts without 'Raises', 0 before",
    ]
