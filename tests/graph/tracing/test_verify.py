"""`function(verify=True)`: what a graph loses or computes differently is reported with its line."""

import pytest

import trainkit as tk
from trainkit.graph.tracing.verify import VerificationError

CALLS = 0


def refused(function, *args):
    traced = tk.function(function, verify=True)
    with pytest.raises(VerificationError) as caught:
        traced(*args)
    return str(caught.value)


def test_a_pure_function_passes_and_is_compared_three_times():
    runs = []

    class Noted:
        def __call__(self, x):
            return x * 2.0

    v = tk.Variable(0.0)

    @tk.function(verify=True)
    def f(x):
        v.assign_add(x)
        tk.print("x", x)
        return Noted()(x) + tk.random.normal([])

    results = [float(f(tk.constant(1.0))) for _ in range(5)]
    assert float(v) == 5.0
    assert len(set(results)) == 5
    assert runs == []


def test_the_number_of_compared_calls_can_be_given():
    calls = [0]

    def noted(a):
        calls[0] += 1
        return a

    f = tk.function(lambda x: tk.numpy_function(noted, [x], tk.float32), verify=2)
    for _ in range(4):
        f(tk.constant(1.0))
    assert calls[0] == 6


def test_a_print_is_reported_with_its_line_and_text():
    def f(x):
        print("hello", 3)
        return x

    text = refused(f, tk.constant(1.0))
    line = f.__code__.co_firstlineno + 1
    assert f'print at "{__file__}", line {line}' in text
    assert "'hello 3' is printed only while tracing; use tk.print" in text


def test_a_list_append_is_reported_with_its_line():
    seen = []

    def f(x):
        seen.append(1)
        return x

    text = refused(f, tk.constant(1.0))
    line = f.__code__.co_firstlineno + 1
    assert "seen changes from [1] to [1, 1] in Python" in text
    assert f'("{__file__}", line {line})' in text


def test_a_changed_global_is_reported_with_its_line():
    def f(x):
        global CALLS
        CALLS += 1
        return x

    text = refused(f, tk.constant(1.0))
    line = f.__code__.co_firstlineno + 2
    assert "CALLS changes from 1 to 2" in text
    assert f"line {line})" in text


def test_changed_dicts_and_attributes_are_reported():
    class Counter:
        def __init__(self):
            self.calls = 0

        def count(self, x):
            self.calls += 1
            return x

    table = {"calls": 0}
    counter = Counter()

    def f(x):
        table["calls"] += 1
        counter.calls += 1
        return x

    text = refused(f, tk.constant(1.0))
    assert "table changes from {'calls': 1} to {'calls': 2}" in text
    assert "counter.calls changes from 1 to 2" in text


def test_attributes_of_the_object_of_a_method_are_looked_at():
    class Model:
        def __init__(self):
            self.calls = 0

        @tk.function(verify=True)
        def run(self, x):
            self.calls += 1
            return x

    with pytest.raises(VerificationError, match=r"self.calls changes from 1 to 2"):
        Model().run(tk.constant(1.0))


def test_values_that_differ_are_shown_side_by_side():
    scale = [1.0, 2.0, 3.0]

    def f(x):
        return x * scale.pop()

    text = refused(f, tk.ones([2]))
    line = f.__code__.co_firstlineno + 1
    assert f'result ("{__file__}", line {line}, in f): 2 of 2 values differ' in text
    assert "first at (0,): 2 in Python, 3 in the graph" in text


def test_a_variable_that_ends_otherwise_is_reported():
    steps = iter([1.0, 5.0])
    v = tk.Variable(0.0, name="total")

    def f(x):
        v.assign_add(next(steps))
        return x

    line = f.__code__.co_firstlineno + 1
    text = refused(f, tk.constant(1.0))
    assert f"""variable 'total:0' ("{__file__}", line {line}, in f): 1 of 1""" in text


FOUND = []


def helper(x):
    global CALLS
    FOUND.append(1)
    CALLS += 1
    return x


def test_effects_in_functions_that_are_called_are_reported():
    def f(x):
        return helper(x)

    text = refused(f, tk.constant(1.0))
    line = helper.__code__.co_firstlineno + 2
    assert "FOUND changes from [1] to [1, 1] in Python, in the graph only while" in text
    assert f'tracing ("{__file__}", line {line})' in text
    assert "CALLS changes from" in text


def test_a_print_in_a_loop_is_reported_once():
    def f(x):
        for _ in tk.range(3):
            print("round")
            x = x + 1.0
        return x

    text = refused(f, tk.constant(1.0))
    assert text.count("'round' is printed only") == 1
    assert "use tk.print (3 times)" in text


def test_a_method_is_named_by_its_own_line():
    class Model:
        @tk.function(verify=True)
        def run(self, x):
            print("here")
            return x

    with pytest.raises(VerificationError, match=r"'run' \(.*test_verify.py:\d+\)"):
        Model().run(tk.constant(1.0))


def test_the_results_of_the_graph_are_given_and_kept():
    v = tk.Variable(1.0)
    f = tk.function(lambda x: v.assign(v * x), verify=True)
    f(tk.constant(3.0))
    assert float(v) == 3.0
