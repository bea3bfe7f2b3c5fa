"""Calls with tensors and tuples of them find their graph by a short key, others by a whole one."""

import collections

import numpy as np
import pytest

import trainkit as tk
from trainkit.graph.tracing.traced_arguments import short_key

Pair = collections.namedtuple("Pair", "a b")
X, Y = tk.constant([1.0, 2.0]), tk.constant([3, 4])


def test_tuples_and_none_are_told_apart():
    values = [
        (X, Y),
        ((X, Y),),
        ((X,), Y),
        (X, (Y,)),
        (X, None),
        ((X, None),),
        (X,),
        (None, X),
        (tk.constant([1.0]), Y),
        (tk.constant([1.0, 2.0], "float64"), Y),
    ]
    keys = [short_key(args, []) for args in values]
    assert None not in keys
    assert len(set(keys)) == len(keys)


def test_the_arrays_come_in_the_order_of_the_inputs():
    arrays = []
    short_key((X, (Y, None, (X,))), arrays)
    assert [array is tensor._array for array, tensor in zip(arrays, (X, Y, X), strict=True)]


@pytest.mark.parametrize("other", [[X], {"a": X}, Pair(X, Y), 1.0, True, "a", np.ones(2), object()])
def test_other_arguments_have_no_short_key(other):
    assert short_key((X, other), []) is None
    assert short_key(((X, other),), []) is None


def test_second_calls_give_what_first_calls_give():
    @tk.function
    def f(batch, scale=None):
        x, rest = batch
        total = x if rest is None else x + tk.cast(rest[0], "float32")
        return {"b": total if scale is None else total * scale, "a": (x,)}

    for _ in range(3):
        for batch in ((X, None), (X, (Y,))):
            for scale in (None, tk.constant(2.0)):
                found = f(batch, scale)
                wanted = f.python_function(batch, scale)
                assert list(found) == ["b", "a"]
                assert (found["b"].numpy() == wanted["b"].numpy()).all()
                assert type(found["a"]) is tuple
    assert f.experimental_get_tracing_count() == 4


def test_a_tape_and_a_variable_are_seen_by_calls_with_tuples():
    v = tk.Variable(2.0)

    @tk.function
    def f(batch):
        return batch[0] * v

    f((X,))
    f((X,))
    with tk.GradientTape() as tape:
        y = f((X,))
    assert float(tape.gradient(y, v)) == 3.0
    v.assign(5.0)
    assert f((X,)).numpy().tolist() == [5.0, 10.0]


def test_run_functions_eagerly_reaches_calls_with_tuples():
    seen = []

    @tk.function
    def f(batch):
        seen.append(1)
        return batch[0]

    f((X,))
    f((X,))
    tk.config.run_functions_eagerly(True)
    try:
        f((X,))
    finally:
        tk.config.run_functions_eagerly(False)
    assert len(seen) == 2
