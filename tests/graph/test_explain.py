"""`explain()` and the warning about many traces."""

import warnings

import pytest

import trainkit as tk


def test_the_table_says_what_changed_and_how_to_avoid_it():
    @tk.function
    def f(x, n=1, *, act="a"):
        return x * n

    f(tk.ones([1]))
    f(tk.ones([2]))
    f(tk.ones([2]), 3)
    f(tk.ones([2], tk.int32))
    table = f.explain()
    assert table.splitlines()[0] == "f: 4 traces"
    assert "1  first call: x: tensor of shape (1,) and dtype float32, n: 1, act: 'a'" in table
    assert "2  x: tensor of shape (1,) and dtype float32 -> tensor of shape (2,)" in table
    assert "reduce_retracing=True, or an input_signature with None" in table
    assert "3  n: 1 -> 3" in table
    assert "pass a tensor instead of a Python value" in table
    assert "cast it to one dtype" in table


def test_objects_are_told_apart_by_identity():
    class Settings:
        pass

    f = tk.function(lambda s: 0)
    kept = [Settings(), Settings()]
    for s in kept:
        f(s)
    assert "Settings object -> Settings object" in f.explain()
    assert "pass the same object each time" in f.explain()


def test_nested_arguments_are_shown():
    f = tk.function(lambda d: 0)
    f({"a": 1, "b": [2]})
    f({"a": 1, "b": [3]})
    assert "d: " in f.explain().splitlines()[2]


def test_a_function_that_was_not_called_has_no_traces():
    assert tk.function(lambda x: x).explain() == "<lambda>: 0 traces"


def test_the_fifth_trace_warns_once_with_the_reason_at_the_users_line():
    f = tk.function(lambda x, n: x * n)
    x = tk.constant(1.0)
    for n in range(4):
        f(x, n)
    with pytest.warns(
        UserWarning, match=r"5th time: 'n' changed from 3 to 4; pass a tensor"
    ) as seen:
        f(x, 4)
    assert seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(x, 5)
        f(x, 6)
