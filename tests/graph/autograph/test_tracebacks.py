"""Tracebacks that show the user's lines: each entry is one that Python itself could have made.

What shows tracebacks in notebooks looks up the instruction of each entry in its code, and searches
for ever where there is none.
"""

import linecache

import numpy as np
import pytest

import trainkit as tk

ROWS = tk.constant(np.ones([2, 3], np.float32))


def faults_of(error):
    """What is wrong with the entries of an error's traceback, and with those it came from."""
    faults, seen = [], set()
    while error is not None:
        if id(error) in seen:
            return [*faults, f"{error!r} is a cause of itself"]
        seen.add(id(error))
        entry = error.__traceback__
        while entry is not None:
            faults += _faults_of_entry(entry)
            entry = entry.tb_next
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return faults


def _faults_of_entry(entry):
    code, index, line = entry.tb_frame.f_code, entry.tb_lasti, entry.tb_lineno
    where = f"{code.co_filename}:{line}"
    if code.co_filename.endswith((".pyx", ".pxi")):  # compiled: there are no instructions
        return []
    if "__autograph_generated" in code.co_filename:
        return [f"{where} is no line of the user's"]
    if index not in range(0, len(code.co_code), 2):
        return [f"{where}: no instruction is at {index}"]
    first, last, _, end = list(code.co_positions())[index // 2]
    if not first <= line <= last:
        return [f"{where}: the instruction at {index} is of line {first}"]
    text = linecache.getline(code.co_filename, last)
    if end is not None and text and end > len(text.encode()):
        return [f"{where}: column {end} is behind the line's end"]
    return []


def product(x):
    return x @ tk.ones([5, 5])


def in_a_branch(x):
    if tk.reduce_sum(x) > 0:
        x = product(x)
    return x


def in_a_loop(x):
    for _ in tk.range(3):
        while tk.reduce_sum(x) > 0:
            x = product(x)
    return x


def in_an_inner_function(x):
    def inner(y):
        return in_a_branch(y)

    return tk.function(inner)(x)


def in_cond(x):
    return tk.cond(tk.reduce_sum(x) > 0, lambda: product(x), lambda: x)


def in_while_loop(x):
    return tk.while_loop(lambda y: tk.reduce_sum(y) > 0, product, [x])


def of_python(x):
    if tk.reduce_sum(x) > 0:
        x = x * (1 // 0)
    return x


def of_the_run(x):
    for i in tk.range(3):
        if i > 1:
            raise KeyError("mine")
    return x


def of_a_kernel(x):
    return tk.gather(x, tk.cast(tk.reduce_sum(x), tk.int32))


def of_an_assertion(x):
    tk.debugging.assert_less(x, 1.0)
    return x


def of_a_host_call(x):
    return tk.py_function(of_python, [x], tk.float32)


def with_a_cause(x):
    try:
        return product(x)
    except tk.errors.InvalidArgumentError as error:
        raise RuntimeError("outer") from error


def in_a_layer(x):
    class Steps(tk.layers.Layer):
        def call(self, x):
            return in_a_loop(x)

    return tk.Sequential([Steps()])(x)


def in_a_gradient(x):
    @tk.custom_gradient
    def identity(x):
        return x, product

    with tk.GradientTape() as tape:
        tape.watch(x)
        y = identity(x)
    return tape.gradient(y, x)


def in_fit(_):
    class Own(tk.Model):
        def train_step(self, data):
            return in_a_branch(data)

    model = Own()
    model.compile("sgd", "mse")
    model.fit(np.ones([4, 3], np.float32), verbose=0)


def in_map(_):
    list(tk.data.Dataset.from_tensors(ROWS).map(tk.function(in_a_loop)))


TRACED = [
    in_a_branch,
    in_a_loop,
    in_an_inner_function,
    in_cond,
    in_while_loop,
    of_python,
    of_the_run,
    of_a_kernel,
    of_an_assertion,
    of_a_host_call,
    with_a_cause,
    in_a_layer,
    in_a_gradient,
]


@pytest.mark.parametrize(
    "function", [*map(tk.function, TRACED), in_fit, in_map], ids=lambda f: f.__name__
)
def test_each_entry_of_a_traceback_is_one_that_python_could_make(function):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - of many kinds
        function(ROWS)
    assert faults_of(caught.value) == []


def test_the_check_sees_an_instruction_that_is_not_there():
    with pytest.raises(ZeroDivisionError) as caught:
        of_python(ROWS)
    entry = caught.value.__traceback__
    broken = type(entry)(None, entry.tb_frame, -1, entry.tb_lineno)
    assert "no instruction is at -1" in faults_of(caught.value.with_traceback(broken))[0]


def test_an_interruption_of_tracing_leaves_nothing_behind():
    interrupts = [KeyboardInterrupt()]

    @tk.function
    def halve(x):
        if tk.reduce_sum(x) > 0:
            if interrupts:
                raise interrupts.pop()
            x = x / 2
        return x

    with pytest.raises(KeyboardInterrupt) as caught:
        halve(ROWS)
    assert faults_of(caught.value) == []
    assert tk.executing_eagerly()
    assert halve(ROWS).numpy().max() == 0.5


def test_an_error_without_a_cause_keeps_its_context():
    @tk.function
    def f(x):
        try:
            return product(x)
        except tk.errors.InvalidArgumentError:
            raise RuntimeError("outer")  # noqa: B904 - its context is what is tested

    with pytest.raises(RuntimeError) as caught:
        f(ROWS)
    assert isinstance(caught.value.__context__, tk.errors.InvalidArgumentError)
    assert not caught.value.__suppress_context__
