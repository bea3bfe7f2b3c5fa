"""`autograph.experimental`: options of loops, and features; what `tk.function` takes besides."""

import inspect

import pytest

import trainkit as tk

OPTIONS = tk.autograph.experimental


def test_a_loop_ends_after_the_most_rounds():
    @tk.function
    def f(n):
        total, i = tk.constant(0), tk.constant(0)
        while i < n:
            OPTIONS.set_loop_options(maximum_iterations=4, parallel_iterations=1, swap_memory=True)
            total += i
            i += 1
        return total, i

    assert [int(x) for x in f(tk.constant(10))] == [6, 4]
    assert [int(x) for x in f(tk.constant(2))] == [1, 2]


def test_options_belong_to_the_innermost_loop():
    @tk.function
    def f(n):
        i, rounds = tk.constant(0), tk.constant(0)
        while i < n:
            j = tk.constant(0)
            while j < n:
                OPTIONS.set_loop_options(maximum_iterations=2)
                j += 1
                rounds += 1
            i += 1
        return i, rounds

    assert [int(x) for x in f(tk.constant(5))] == [5, 10]


def test_sizes_may_change_as_the_invariants_say():
    def f(n):
        x, i = tk.ones((1, 2)), tk.constant(0)
        while i < n:
            OPTIONS.set_loop_options(shape_invariants=[(x, tk.TensorShape([None, 2]))])
            x = tk.concat([x, x], 0)
            i += 1
        return x

    assert tk.function(f)(tk.constant(3)).shape == f(tk.constant(3)).shape == [8, 2]


def test_options_that_are_refused():
    @tk.function
    def wrong_shape(n):
        x = tk.ones((1, 2))
        while n > 0:
            OPTIONS.set_loop_options(shape_invariants=[(x, tk.TensorShape([None, 3]))])
            n -= 1
        return x

    with pytest.raises(tk.errors.InvalidArgumentError, match="invariant"):
        wrong_shape(tk.constant(1))

    @tk.function
    def no_int(n):
        while n > 0:
            OPTIONS.set_loop_options(maximum_iterations=n)
            n -= 1
        return n

    with pytest.raises(tk.errors.InvalidArgumentError, match="must be an int"):
        no_int(tk.constant(1))


ROWS = tk.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])


def total_of(rows, most):
    total, i = tk.zeros([2]), tk.constant(0)
    for row in rows:
        OPTIONS.set_loop_options(maximum_iterations=most)
        total += row
        i += 1
    return total, i


def until_large(rows, most):
    total, i = tk.zeros([2]), tk.constant(0)
    for row in rows:
        OPTIONS.set_loop_options(maximum_iterations=most)
        if total[0] > 3.5:
            break
        total += row
        i += 1
    return total, i


def of_rows_by_number(rows, most):
    total, i = tk.zeros([2]), tk.constant(0)
    for k in tk.range(tk.shape(rows)[0]):
        OPTIONS.set_loop_options(maximum_iterations=most)
        total += rows[k]
        i += 1
    return total, i


@pytest.mark.parametrize("most", [0, 1, 2, 4, 9, -1])
@pytest.mark.parametrize("known", [True, False], ids=["known size", "unknown size"])
@pytest.mark.parametrize("loop", [total_of, until_large, of_rows_by_number])
def test_a_for_loop_ends_after_the_most_rounds(loop, known, most):
    spec = tk.TensorSpec([4 if known else None, 2])
    f = tk.function(lambda rows: loop(rows, most), input_signature=[spec])
    total, rounds = f(ROWS)
    count = min(max(most, 0), 4, 2 if loop is until_large else 4)
    assert int(rounds) == count
    assert total.numpy().tolist() == tk.reduce_sum(ROWS[:count], 0).numpy().tolist()


@pytest.mark.parametrize("most", [0, 2, 9])
@pytest.mark.parametrize("loop", [total_of, until_large])
def test_a_loop_over_a_dataset_ends_after_the_most_rounds(loop, most):
    rows = tk.data.Dataset.from_tensor_slices(ROWS)
    total, rounds = tk.function(lambda: loop(rows, most))()
    count = min(most, 2 if loop is until_large else 4)
    assert int(rounds) == count
    assert total.numpy().tolist() == tk.reduce_sum(ROWS[:count], 0).numpy().tolist()


def test_a_limited_for_loop_has_gradients_and_fills_arrays():
    @tk.function
    def f(x):
        written = tk.TensorArray("float32", size=4, element_shape=[])
        for i in tk.range(4):
            OPTIONS.set_loop_options(maximum_iterations=3)
            written = written.write(i, x[i] * x[i])
        return written.stack()

    x = tk.constant([1.0, 2.0, 3.0, 4.0])
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert y.numpy().tolist() == [1.0, 4.0, 9.0, 0.0]
    assert tape.gradient(y, x).numpy().tolist() == [2.0, 4.0, 6.0, 0.0]


def test_options_of_a_loop_of_python_are_not_those_of_the_loop_around():
    @tk.function
    def f(n):
        i, rounds = tk.constant(0), tk.constant(0)
        while i < n:
            for _ in range(3):
                OPTIONS.set_loop_options(maximum_iterations=1)
                rounds += 1
            left = 2
            while left:
                OPTIONS.set_loop_options(maximum_iterations=1)
                left -= 1
                rounds += 1
            i += 1
        return i, rounds

    assert [int(x) for x in f(tk.constant(4))] == [4, 20]


def test_options_of_a_loop_that_defines_names_are_not_those_of_the_loop_around():
    @tk.function
    def f(n):
        i, rounds = tk.constant(0), tk.constant(0)
        while i < n:
            for _ in tk.range(3):
                OPTIONS.set_loop_options(maximum_iterations=1)
                first = rounds + 1
                rounds = first
            i += 1
        return i, rounds

    assert [int(x) for x in f(tk.constant(4))] == [4, 4]


def test_a_loop_over_an_iterator_takes_no_limit():
    rows = iter(tk.data.Dataset.from_tensor_slices(ROWS))
    with pytest.raises(tk.errors.InvalidArgumentError, match="iterator"):
        tk.function(lambda: total_of(rows, 2))()


def test_outside_of_a_staged_loop_options_do_nothing():
    OPTIONS.set_loop_options(maximum_iterations=1)
    total = 0
    for i in range(3):
        OPTIONS.set_loop_options(maximum_iterations=1)
        total += i
    assert total == 3


def test_features():
    feature = OPTIONS.Feature
    assert [f.name for f in feature][:3] == ["ALL", "AUTO_CONTROL_DEPS", "ASSERT_STATEMENTS"]
    assert feature.LISTS in feature.all()
    rest = feature.all_but(feature.LISTS)
    assert feature.ALL not in rest
    assert feature.LISTS not in rest
    assert feature.NAME_SCOPES in rest


@pytest.mark.parametrize(
    "settings",
    [
        {"experimental_autograph_options": OPTIONS.Feature.EQUALITY_OPERATORS},
        {"experimental_implements": "name"},
        {"experimental_attributes": {"key": "value"}},
        {"experimental_relax_shapes": True},
        {"experimental_compile": False},
        {"experimental_follow_type_hints": True},
    ],
    ids=lambda s: next(iter(s)),
)
def test_functions_take_tensorflows_settings(settings):
    assert float(tk.function(lambda x: x * 2.0, **settings)(tk.constant(3.0))) == 6.0


def test_settings_come_in_tensorflows_order():
    names = list(inspect.signature(tk.function).parameters)
    assert names[:6] == [
        "func",
        "input_signature",
        "autograph",
        "jit_compile",
        "reduce_retracing",
        "experimental_implements",
    ]


def test_older_names_of_settings_count():
    f = tk.function(lambda x: x, experimental_compile=True)
    assert f.get_concrete_function(tk.TensorSpec([2])).graph.jit_compile is True
    g = tk.function(lambda x: x, experimental_relax_shapes=True)
    for n in (1, 2, 3):
        g(tk.ones((n,)))
    assert g.experimental_get_tracing_count() == 2
