"""`print`, assertions and calls back into Python: kept by a graph, in order, in branches too."""

import numpy as np
import pytest

import trainkit as tk


def printed(capsys):
    return capsys.readouterr().err.splitlines()


def test_python_prints_while_tracing_and_the_librarys_print_each_time(capsys):
    @tk.function
    def f(x):
        print("tracing")
        tk.print("x =", x, [x, 2], sep="; ")

    f(tk.constant(1.5))
    f(tk.constant(2.0))
    out = capsys.readouterr()
    assert out.out.splitlines() == ["tracing"]
    assert out.err.splitlines() == ["x =; 1.5; [1.5, 2]", "x =; 2; [2, 2]"]


def test_prints_in_branches_and_loops(capsys):
    @tk.function
    def f(n):
        for i in tk.range(n):
            if i % 2 == 0:
                tk.print("even", i)
            else:
                tk.print("odd", i)

    f(tk.constant(3))
    assert printed(capsys) == ["even 0", "odd 1", "even 2"]


def test_prints_in_a_loop_over_a_dataset(capsys):
    data = tk.data.Dataset.range(2)

    @tk.function
    def f():
        for x in data:
            tk.print(x)

    f()
    f()
    assert printed(capsys) == ["0", "1", "0", "1"]


def test_print_goes_to_files_and_streams(tmp_path, capsys):
    import sys

    path = tmp_path / "log.txt"

    @tk.function
    def f(x):
        tk.print("to file", x, output_stream=f"file://{path}")
        tk.print("to stdout", x, output_stream=sys.stdout, end="!\n")

    f(tk.constant(1))
    f(tk.constant(2))
    assert path.read_text().splitlines() == ["to file 1", "to file 2"]


def test_print_cuts_long_tensors(capsys):
    f = tk.function(lambda x: tk.print(x, summarize=2))
    f(tk.range(9))
    f(tk.range(3))
    assert printed(capsys) == ["[0 1 ... 7 8]", "[0 1 2]"]


def test_an_assertion_is_checked_in_each_run():
    @tk.function
    def f(x):
        assert x > 0, "must be positive"
        return x

    assert float(f(tk.constant(1.0))) == 1.0
    with pytest.raises(tk.errors.InvalidArgumentError, match="must be positive"):
        f(tk.constant(-1.0))
    assert float(f(tk.constant(2.0))) == 2.0


def test_an_assertion_about_python_values_is_pythons():
    @tk.function
    def f(x, n):
        assert n > 2, f"n is {n}"
        return x

    f(tk.constant(1.0), 3)
    with pytest.raises(AssertionError, match="n is 1"):
        f(tk.constant(1.0), 1)


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (lambda x: tk.debugging.assert_positive(x), 1.0, -1.0),
        (lambda x: tk.debugging.assert_equal(x, 2.0, message="two?"), 2.0, 3.0),
        (lambda x: tk.debugging.assert_less(x, 5.0), 4.0, 5.0),
        (lambda x: tk.debugging.check_numerics(x, "not finite"), 1.0, float("nan")),
    ],
    ids=["positive", "equal", "less", "numerics"],
)
def test_assertions_of_the_library_inside_functions(check, good, bad):
    @tk.function
    def f(x):
        check(x)
        return x

    f(tk.constant(good))
    with pytest.raises(tk.errors.InvalidArgumentError):
        f(tk.constant(bad))


def test_an_assertion_in_a_branch_that_is_not_taken_is_not_checked():
    @tk.function
    def f(x):
        if x > 0:
            tk.debugging.assert_less(x, 10.0)
        return x

    f(tk.constant(-100.0))
    with pytest.raises(tk.errors.InvalidArgumentError):
        f(tk.constant(100.0))


def test_shapes_are_asserted_while_tracing():
    with pytest.raises((ValueError, tk.errors.InvalidArgumentError), match="rank"):
        tk.function(lambda x: tk.debugging.assert_rank(x, 2))(tk.ones([3]))


def test_a_failing_operation_that_nothing_needs_is_not_run():
    @tk.function
    def f(x):
        tk.gather(x, [7])
        return x

    assert f(tk.constant([1.0])).numpy().tolist() == [1.0]


def test_numpy_function_calls_python_in_each_run():
    seen = []

    def twice(a):
        seen.append(a.copy())
        return a * 2

    @tk.function
    def f(x):
        return tk.numpy_function(twice, [x + 1.0], tk.TensorSpec([None], tk.float32))

    assert f(tk.constant([1.0, 2.0])).numpy().tolist() == [4.0, 6.0]
    f(tk.constant([3.0, 4.0]))
    assert [a.tolist() for a in seen] == [[2.0, 3.0], [4.0, 5.0]]
    assert all(isinstance(a, np.ndarray) for a in seen)


def test_numpy_function_is_called_in_each_run_even_on_constants():
    seen = []
    f = tk.function(lambda: tk.numpy_function(lambda a: seen.append(a) or a, [1.0], tk.float32))
    f()
    f()
    assert len(seen) == 2
    assert float(tk.numpy_function(lambda a: a + 1, [1.0], tk.float32)) == 2.0


def test_numpy_function_of_another_rank_than_at_first_is_refused():
    given = iter([np.ones(2), np.ones(3), np.ones([1, 1])])
    f = tk.function(lambda x: tk.numpy_function(lambda a: next(given), [x], tk.float32))
    assert [f(tk.ones([])).shape for _ in range(2)] == [(2,), (3,)]
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"gave shape \(1, 1\).*tk.TensorSpec"):
        f(tk.ones([]))


def test_py_function_sees_tensors_and_gives_several_results():
    @tk.function
    def f(x):
        return tk.py_function(lambda t: (t + 1, float(t) > 0), [x], [tk.float32, tk.bool])

    a, b = f(tk.constant(1.0))
    assert float(a) == 2.0
    assert bool(b)


def test_gradients_go_through_a_py_function_in_a_graph_too():
    def cube(x):
        return tk.py_function(lambda t: t * t * t, [x], tk.TensorSpec([None], tk.float32))

    def second(x):
        with tk.GradientTape() as outer:
            outer.watch(x)
            with tk.GradientTape() as inner:
                inner.watch(x)
                y = cube(x)
            first = inner.gradient(y, x)
        return first, outer.gradient(first, x)

    x = tk.constant([1.0, 2.0])
    for run in (second, tk.function(second)):
        first, twice = run(x)
        assert first.numpy().tolist() == [3.0, 12.0]
        assert twice.numpy().tolist() == [6.0, 12.0]


def test_gradients_stop_at_a_numpy_function():
    def f(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = tk.numpy_function(lambda a: a * a, [x], tk.float32)
        return tape.gradient(y, x, unconnected_gradients="zero")

    assert float(f(tk.constant(3.0))) == float(tk.function(f)(tk.constant(3.0))) == 0.0


def test_what_a_nested_function_prints_and_raises_without_tensors_happens_when_it_runs(capsys):
    @tk.function
    def inner(x):
        tk.print("inside")
        return x + 1.0

    @tk.function
    def outer(x):
        return inner(x) * 2.0

    outer.get_concrete_function(tk.constant(1.0))
    assert printed(capsys) == []
    for _ in range(2):
        outer(tk.constant(1.0))
    assert printed(capsys) == ["inside", "inside"]


@pytest.mark.parametrize("inside", [True, False])
def test_gradients_of_loops_and_branches_do_not_call_back_into_python_again(inside):
    calls = []

    def cosine(a):
        calls.append(a)
        return np.cos(a)

    def loss(x):
        y = x
        for _ in tk.range(3):
            y = y * tk.numpy_function(cosine, [x], tk.float32)
        if x > 0:
            y = y * tk.numpy_function(cosine, [x], tk.float32)
        return y

    traced = tk.function(loss)

    def slope(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = (loss if inside else traced)(x)
        return tape.gradient(y, x)

    if inside:
        slope = tk.function(slope)
    assert float(slope(tk.constant(2.0))) == pytest.approx(np.cos(2.0) ** 4)
    assert len(calls) == 4


class Measured(ValueError):
    """An error of a user's whose arguments are not those of `args`."""

    def __init__(self, name, *, limit):
        super().__init__(f"{name} is above {limit}")
        self.name, self.limit = name, limit


@pytest.mark.parametrize(
    "make",
    [
        lambda: Measured("loss", limit=3),
        lambda: OSError(2, "missing", "file"),
        lambda: KeyError("k"),
    ],
)
def test_errors_of_users_are_raised_as_they_are(make):
    @tk.function
    def check(x):
        if tk.reduce_sum(x) > 3.0:
            raise make()
        return x

    expected = make()
    np.testing.assert_array_equal(check(tk.ones(2)), [1, 1])
    for _ in range(2):
        with pytest.raises(type(expected)) as caught:
            check(tk.ones(4))
        assert str(caught.value) == str(expected)
        assert caught.value.args == expected.args
        assert vars(caught.value).items() >= vars(expected).items()
        assert len(caught.value.__notes__) == 1


def test_prints_into_files_are_utf_8(tmp_path):
    path = tmp_path / "log"

    @tk.function
    def say(x):
        tk.print("größer", x, output_stream=f"file://{path}")

    say(tk.constant(1.0))
    assert path.read_bytes() == "größer 1\n".encode()


TEXTS = [
    (np.arange(8).reshape(2, 2, 2), "[[[0 1]\n  [2 3]]\n\n [[4 5]\n  [6 7]]]\n"),
    (np.array([1.5, -0.0], "float32"), "[1.5 -0]\n"),
    (np.zeros((2, 0), "float32"), "[\n ...]\n"),
    (np.zeros((0,), "float32"), "[]\n"),
]


@pytest.mark.parametrize(("array", "text"), TEXTS, ids=["axes", "zero", "empty_rows", "empty"])
def test_values_are_printed_as_tensorflow_prints_them(capsys, array, text):
    tk.print(tk.constant(array))
    tk.function(lambda x: tk.print(x))(tk.constant(array))
    assert capsys.readouterr().err == 2 * text


@pytest.mark.parametrize(
    ("array", "text"),
    [(1.5, "..."), ([1, 2], "[ ...]"), (np.zeros((2, 2)), "[\n ...]")],
    ids=["scalar", "vector", "matrix"],
)
def test_a_summary_of_no_items_shows_dots(capsys, array, text):
    tk.print(tk.constant(array), summarize=0)
    assert capsys.readouterr().err == text + "\n"


def test_structures_are_printed_as_pprint_shows_them(capsys):
    nested = {"z": None, "a": [tk.range(2), ("s", tk.constant("t"))], "b": np.arange(2)}
    tk.print("m:", nested, tk.float32, tk.TensorShape([2, None]))
    text = "m: {'a': [[0 1], ('s', \"t\")], 'b': array([0, 1]), 'z': None} tf.float32 "
    assert capsys.readouterr().err == text + "TensorShape([2, None])\n"


def test_each_value_is_printed_at_its_key_where_keys_do_not_sort(capsys):
    tk.print({2: tk.constant(2), "a": tk.constant(1), 1.5: tk.constant(3)})
    text = capsys.readouterr().err
    assert all(item in text for item in ("2: 2", "'a': 1", "1.5: 3"))
