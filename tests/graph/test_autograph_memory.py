"""Functions that were rewritten go when nobody holds them any more."""

import functools
import gc
import importlib.util
import linecache
import pickle
import sys
import tracemalloc
import warnings
import weakref

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.user_frames import SOURCE_MAPS
from trainkit.graph.autograph.convert import converted

HALVE = """
def halve(x):
    while x > 1.0:
        x = x / 2.0
    return x
"""


def closed_over(value):
    def scaled(x):
        if tk.reduce_sum(x) > 0:
            x = x * value
        return x

    return scaled


def closed_over_itself(value):
    def countdown(n, x):
        if n > 0:
            x = countdown(n - 1, x) + value
        return x

    return countdown


def open_one(value):
    def doubled(x, scale=value):
        if tk.reduce_sum(x) > 0:
            x = x * scale
        return x

    return doubled


def unconvertible(value):
    def matched(x):
        match value:
            case None:
                return x
            case _:
                return x * 2

    return matched


def call(function, *args):
    """`function` traced once, on its own and called from another one."""

    def outer(*args):
        return function(*args)

    tk.function(function)(*args)
    tk.function(outer)(*args)


@pytest.mark.parametrize("make", [closed_over, closed_over_itself, open_one])
def test_a_rewritten_function_goes_with_what_it_closes_over(make):
    args = (2, tk.ones((2,))) if make is closed_over_itself else (tk.ones((2,)),)
    gone = []
    for _ in range(3):
        value = tk.Variable(tk.ones((1000,)))[:2]
        function = make(value)
        call(function, *args)
        gone += [weakref.ref(function), weakref.ref(value)]
        del function, value
    gc.collect()
    assert [ref() for ref in gone] == [None] * 6


def test_methods_and_objects_with_call_go_too():
    class Step:
        def __init__(self):
            self.weights = tk.Variable(tk.ones((1000,)))

        def train(self, x):
            if tk.reduce_sum(x) > 0:
                x = x + self.weights[0]
            return x

        def __call__(self, x):
            return self.train(x)

    step = Step()
    call(step.train, tk.ones((2,)))
    call(step, tk.ones((2,)))
    gone = weakref.ref(step)
    del step
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("make", [closed_over, closed_over_itself, open_one, unconvertible])
def test_thousands_of_functions_in_a_loop_take_no_memory(make):
    def convert(count):
        for _ in range(count):
            converted(make(np.ones(100)))
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if make is unconvertible else "error")
            before = convert(100)
            assert convert(2_500) - before < 50_000
    finally:
        tracemalloc.stop()


def test_the_same_function_is_rewritten_once():
    function = closed_over(2.0)
    assert converted(function) is converted(function)
    assert converted(function) is not function


def test_two_functions_of_one_code_keep_their_own_closures():
    three, five = closed_over(3.0), closed_over(5.0)
    x = tk.ones((2,))
    for function, value in ((three, 3.0), (five, 5.0), (three, 3.0)):
        np.testing.assert_array_equal(tk.function(function)(x), [value] * 2)
        np.testing.assert_array_equal(tk.function(lambda x, f=function: f(x))(x), [value] * 2)


def test_a_function_that_wraps_another_is_rewritten_itself():
    inner = closed_over(3.0)
    converted(inner)

    @functools.wraps(inner)
    def outer(x):
        if tk.reduce_sum(x) < 10.0:
            x = inner(x) + 1.0
        return x

    np.testing.assert_array_equal(tk.function(outer)(tk.ones((2,))), [4.0, 4.0])


def test_what_was_rewritten_does_not_go_into_pickles():
    function = closed_over(2.0)
    converted(function)
    copied = pickle.loads(pickle.dumps(function.__dict__))  # as packages that pickle closures do
    assert all(mark.result is None for mark in copied.values())
    twin = type(function)(function.__code__, function.__globals__, closure=function.__closure__)
    twin.__dict__.update(copied)
    assert converted(twin) is not twin


def test_why_code_runs_as_python_is_told_once():
    def make(value):
        def matched(x):
            match value:
                case None:
                    return x
            return x * 2

        return matched

    with pytest.warns(UserWarning, match="control flow is not converted"):
        converted(make(1))
    assert converted(make(2)).__name__ == "matched"  # warnings are errors in tests


def test_the_module_of_a_rewritten_function_goes_with_its_code(tmp_path):
    """As when a cell of a notebook is run again and again."""

    def load(number):
        path = tmp_path / f"cell_{number}.py"
        path.write_text(HALVE)
        spec = importlib.util.spec_from_file_location(f"cell_{number}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert float(tk.function(module.halve)(tk.constant(5.0))) == 0.625
        linecache.clearcache()

    load(0)
    gc.collect()
    before = len(SOURCE_MAPS), len(sys.modules)
    for number in range(1, 6):
        load(number)
    gc.collect()
    assert (len(SOURCE_MAPS), len(sys.modules)) == before
