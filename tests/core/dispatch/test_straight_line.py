import sys

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.dispatch.straight_line import (
    NotStraight,
    StepProgram,
    StepTrace,
    overwritten_operands,
)
from trainkit.core.shapes import Spec
from trainkit.core.symbolic_tensor import SymbolicTensor


def noted(function, *shapes, dtype="float32"):
    """The symbols, steps and results of a function of arrays of these shapes."""
    symbols = [SymbolicTensor(Spec(shape, dtype)) for shape in shapes]
    trace = StepTrace()
    result = trace.run(function, *symbols)
    results = list(result) if isinstance(result, list | tuple) else [result]
    return symbols, trace.steps, results


def run(function, *arrays):
    symbols, steps, results = noted(function, *[x.shape for x in arrays])
    return StepProgram(symbols, steps, results)(list(arrays))


def overwritten(function, *shapes):
    """For each step the index of the step whose result is written over, or `None`."""
    _, steps, results = noted(function, *shapes)
    operands = overwritten_operands(steps, results)
    made_by = {id(step.results[0]): i for i, step in enumerate(steps)}
    return [None if x is None else made_by[id(x)] for x in operands]


def test_a_program_gives_the_bits_of_the_function(rng):
    def function(x, y):
        both = tk.concat([x, y], 0)
        values, indices = tk.math.top_k(tk.tanh(both * 2.0 + 1.0) / 3.0, 2)
        return values, indices, tk.reduce_sum(both), tk.cast(x, "int32"), tk.constant([7])

    arrays = [rng.normal(size=(2, 3)).astype("float32") for _ in range(2)]
    expected = [y.numpy() for y in function(*map(tk.constant, arrays))]
    before = [x.copy() for x in arrays]
    for _ in range(2):  # a second run gets nothing of the first
        results = run(function, *arrays)
        for y, z in zip(results, expected, strict=True):
            assert y.dtype == z.dtype
            np.testing.assert_array_equal(y, z)
    np.testing.assert_array_equal(arrays, before)


def test_results_come_in_memory_that_is_free():
    add = tk.add
    # The input is somebody else's; the first sum is free at the second.
    assert overwritten(lambda x: add(add(x, 1.0), 1.0), (3,)) == [None, 0]
    # It is used again, or is a result itself.
    assert overwritten(lambda x: (lambda t: add(add(t, 1.0), t))(x + x), (3,)) == [None, None, 1]
    assert overwritten(lambda x: (lambda t: [t, add(t, 1.0)])(x + x), (3,)) == [None, None]
    # The other operand may be the one, and a broadcast one is too small.
    assert overwritten(lambda x, y: add(y, add(x, 1.0)), (3,), (3,)) == [None, 0]
    assert overwritten(lambda x, y: add(y, add(x, 1.0)), (3,), (2, 3)) == [None, None]
    # Comparisons have another dtype, and other kernels take nothing to write to.
    assert overwritten(lambda x: tk.less(x + 1.0, 2.0), (3,)) == [None, None]
    assert overwritten(lambda x: tk.nn.relu(x + 1.0), (3,)) == [None, None]
    # A view of it may be read later.
    assert overwritten(lambda x: (lambda t: [t[:1], t + 1.0])(x + x), (3,)) == [None, None, None]


def test_each_step_is_looked_at_once_for_free_memory():
    def calls(length):
        def chain(x):
            for _ in range(length):
                x = tk.add(x, 1.0)
            return x

        _, steps, results = noted(chain, (3,))
        count, before = 0, sys.getprofile()

        def note(frame, event, arg):
            nonlocal count
            count += event == "call"

        sys.setprofile(note)
        try:
            overwritten_operands(steps, results)
        finally:
            sys.setprofile(before)
        return count

    assert 0 < calls(200) <= 2.2 * calls(100)


def test_a_number_of_a_class_of_its_own_is_weak_as_a_float(rng):
    class Share(float):
        pass

    x = rng.normal(size=(3,)).astype("float32")
    (y,) = run(lambda x: (x + 1.0) * Share(0.5), x)
    np.testing.assert_array_equal(y, (tk.constant(x) + 1.0) * 0.5)


def test_a_view_of_the_input_is_not_written_over(rng):
    x = rng.normal(size=(2, 3)).astype("float32")
    before = x.copy()
    (y,) = run(lambda x: tk.transpose(x) + 1.0, x)
    np.testing.assert_array_equal(y, before.T + 1)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + tk.Variable(1.0),
        lambda x: tk.cond(tk.reduce_sum(x) > 0, lambda: x, lambda: -x),
        lambda x: tk.while_loop(lambda y: tk.reduce_sum(y) < 9, lambda y: y + 1.0, [x]),
        lambda x: tk.scan(lambda a, y: a + y, x),
        tk.print,
    ],
    ids=["variable", "branch", "loop", "fold", "effect"],
)
def test_what_may_differ_in_a_second_run_is_refused(function):
    with pytest.raises(NotStraight):
        noted(function, (3,))
    assert tk.executing_eagerly()


def test_a_tape_around_hears_nothing():
    with tk.GradientTape() as tape:
        x = tk.constant([1.0])
        tape.watch(x)
        noted(lambda y: y + x, (1,))
    assert len(tape.tracked) == 1
