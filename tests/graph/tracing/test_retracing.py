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
    with pytest.warns(UserWarning, match="reshape it to one rank"):
        f(tk.ones([2, 2], tk.int32))
    table = f.explain()
    assert table.splitlines()[0] == "f: 5 traces"
    assert "  first call: x: tensor of shape (1,) and dtype float32, n: 1, act: 'a'" in table
    first = f.python_function.__code__.co_firstlineno + 4
    for i in range(5):
        assert (
            f'  {i + 1}  called at "{__file__}", line {first + i + (i == 4)}, in test_the_table'
            in table
        )
    assert "  x: tensor of shape (1,) and dtype float32 -> tensor of shape (2,)" in table
    assert "reduce_retracing=True, or an input_signature with None" in table
    assert "  n: 1 -> 3" in table
    assert "reshape it to one rank" in table
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
    f({"a": 1, "b": [3, 4]})
    f({"a": 1, "c": [3]})
    lines = [line.strip() for line in f.explain().splitlines()]
    assert "first call: d: {'a': 1, 'b': [2]}" in lines
    assert "d['b'][0]: 2 -> 3" in lines
    assert "d['b']: [3] -> [3, 4]" in lines
    assert "d: {'a': 1, 'b': [3, 4]} -> {'a': 1, 'c': [3]}" in lines
    assert lines.count("pass the same structure each time") == 2


def test_any_number_of_arguments():
    f = tk.function(lambda *xs, **named: 0)
    f(1)
    f(1, 2)
    f(1, 2, k=3)
    lines = [line.strip() for line in f.explain().splitlines()]
    assert {"first call: xs[0]: 1", "xs[1]: absent -> 2", "k: absent -> 3"} <= set(lines)


@pytest.mark.parametrize(
    ("values", "advice"),
    [
        ((True, False), "a bool makes two traces at most"),
        (("a", "b"), "each text has a trace of its own"),
        ((None, 1), "pass a value of one kind"),
        ((lambda: 0, lambda: 1), "make the function once"),
        (([1], (1,)), "pass the same structure"),
    ],
)
def test_the_advice_fits_what_changed(values, advice):
    f = tk.function(lambda x: 0)
    for value in values:
        f(value)
    assert advice in f.explain()


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
