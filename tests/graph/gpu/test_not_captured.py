"""What a replay would repeat is done anew in each call: draws, reads and calls of the CPU."""

import itertools

import numpy as np
import pytest

import trainkit as tk
from tests import stand_in

CALLS = 8


@pytest.fixture(autouse=True)
def _gpu():
    with stand_in.in_place():
        yield


def on_cpu(made):
    with tk.device("/cpu:0"):
        return made()


def draws(use):
    def make():
        seeds = on_cpu(lambda: tk.random.SeedGenerator(5))
        return lambda x: use(x, seeds)

    return make


def a_variable():
    count = on_cpu(lambda: tk.Variable([0.0, 0.0, 0.0]))

    def f(x):
        count.assign(count * 2.0 + 1.0)
        return x * count.read_value().gpu()

    return f


def a_number():
    rate = on_cpu(lambda: tk.Variable(0.0))

    def f(x):
        rate.assign_add(1.0)
        return x * rate

    return f


def an_array_of_the_program():
    kept = on_cpu(lambda: tk.Variable([1.0, 1.0, 1.0]))

    def f(x):
        kept.assign(kept * 2)
        return x + tk.reduce_sum(kept)

    return f


def a_table():
    values = tk.constant([3.0, 1.0, 4.0, 1.5, 9.0, 2.0, 6.0, 5.0, 3.5])
    made = tk.lookup.KeyValueTensorInitializer(tk.range(9, dtype=tk.int64), values)
    table = tk.lookup.StaticHashTable(made, -1.0)
    count = on_cpu(lambda: tk.Variable(0, dtype=tk.int64))

    def f(x):
        count.assign_add(1)
        return x * table.lookup(count.read_value())

    return f


def a_function_of_arrays():
    count = itertools.count(1)
    return lambda x: (
        x * tk.numpy_function(lambda a: np.float32(next(count)) + a.sum(), [x], tk.float32)
    )


def a_function_of_tensors():
    count = itertools.count(1)
    return lambda x: x * tk.py_function(lambda a: tk.reduce_sum(a) + next(count), [x], tk.float32)


def a_function_of_the_cpu():
    count = itertools.count(1)
    given = on_cpu(lambda: tk.constant(2.0))

    def f(x):
        y = tk.numpy_function(lambda a: np.float32(next(count)) * a, [given], tk.float32)
        return x * y

    return f


PROGRAMS = {
    "uniform": draws(lambda x, seeds: x + tk.keras.random.uniform((3,), seed=seeds)),
    "normal": draws(lambda x, seeds: x + tk.keras.random.normal((3,), seed=seeds)),
    "dropout": draws(lambda x, seeds: tk.keras.random.dropout(x, 0.5, seed=seeds)),
    "a drawn number": draws(lambda x, seeds: x * tk.keras.random.uniform((), seed=seeds)),
    "draws of the cpu": draws(
        lambda x, seeds: x + on_cpu(lambda: tk.keras.random.uniform((3,), seed=seeds)).gpu()
    ),
    "a drawn number of the cpu": draws(
        lambda x, seeds: x * on_cpu(lambda: tk.keras.random.uniform((), seed=seeds))
    ),
    "a sum of draws": draws(
        lambda x, seeds: x * on_cpu(lambda: tk.reduce_sum(tk.keras.random.normal((9,), seed=seeds)))
    ),
    "a variable": a_variable,
    "a number": a_number,
    "an array of the program": an_array_of_the_program,
    "a table": a_table,
    "a function of arrays": a_function_of_arrays,
    "a function of tensors": a_function_of_tensors,
    "a function of the cpu": a_function_of_the_cpu,
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("jit_compile", [None, True])
def test_each_call_is_that_of_an_eager_program(name, jit_compile):
    eager, f = PROGRAMS[name](), tk.function(PROGRAMS[name](), jit_compile=jit_compile)
    x = tk.constant([1.0, 2.0, 3.0])
    wanted = [eager(x).numpy() for _ in range(CALLS)]
    found = [f(x).numpy() for _ in range(CALLS)]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert len({y.tobytes() for y in found}) > CALLS // 2
