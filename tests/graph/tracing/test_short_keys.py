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


OTHERS = [
    [X],
    {"a": X},
    Pair(X, Y),
    1.0,
    True,
    "a",
    np.float32(1),
    np.array(["a"]),
    np.array([1], object),
    np.ones(2, ">f4"),
    np.ones(2).view(np.recarray),
    object(),
]


@pytest.mark.parametrize("other", OTHERS, ids=lambda value: type(value).__name__)
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


def test_arrays_have_the_keys_of_tensors():
    for dtype in ("float32", "float64", "int64", "bool", "complex64"):
        array = np.ones((2, 3), dtype)
        assert short_key((array,), []) == short_key((tk.constant(array),), [])


def test_arrays_of_later_calls_are_copied():
    @tk.function
    def same(x, y=None):
        return x

    array = np.arange(6, dtype="float32").reshape(2, 3)
    for _ in range(3):
        result = same(array)
        array += 1
        np.testing.assert_array_equal(result, array - 1)
        assert same(array, None).shape == (2, 3)
    assert same.experimental_get_tracing_count() == 1


def test_arrays_by_columns_give_the_same_bits_in_each_call():
    w = tk.constant(np.random.default_rng(0).standard_normal((300, 70)).astype("float32"))
    product = tk.function(lambda x: tk.matmul(x, w))
    x = np.asfortranarray(np.random.default_rng(1).standard_normal((90, 300)).astype("float32"))
    first = product(x).numpy()
    for _ in range(3):
        assert product(x).numpy().tobytes() == first.tobytes()
    assert product(tk.constant(x)).numpy().tobytes() == first.tobytes()


def test_arrays_are_cast_to_a_signature_in_each_call():
    @tk.function(input_signature=[tk.TensorSpec([None], "float32")])
    def doubled(x):
        return x * 2.0

    for _ in range(3):
        for array in (np.ones(2, "float32"), np.ones(3, "float32"), np.ones(2, ">f4")):
            assert doubled(array).dtype == "float32"
            np.testing.assert_array_equal(doubled(array), array * 2)


def test_arrays_of_other_dtypes_have_graphs_of_their_own():
    f = tk.function(lambda x: x + 1)
    for _ in range(3):
        for dtype in ("float32", "float64", "int32", "int64"):
            assert f(np.ones(2, dtype)).dtype == dtype
    assert f.experimental_get_tracing_count() == 4
