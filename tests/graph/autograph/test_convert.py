"""Python's control flow over tensors: the same results as running the function as Python."""

import functools

import numpy as np
import pytest

import trainkit as tk


def both(function, *args):
    """The results of `function` as Python and as a graph, which must agree."""
    eager = function(*args)
    graph = tk.function(function)(*args)
    for a, b in zip(tk.nest.flatten(eager), tk.nest.flatten(graph), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    return graph


def numbers(*values):
    return [tk.constant(v) for v in values]


# ---------------------------------------------------------------------- if


@pytest.mark.parametrize("x", [5.0, -5.0, 0.0])
def test_if_else_and_early_return(x):
    def f(x):
        if x > 0.0:
            return x * 2.0
        elif x < 0.0:
            y = -x
            return y
        return x + 100.0

    both(f, tk.constant(x))


@pytest.mark.parametrize("x", [5, 11, -7, -1, 0])
def test_and_or_not_and_chained_comparisons(x):
    def f(x):
        a = 1 if (x > 0 and x < 10) or not x > -5 else 0
        b = 1 if 0 < x < 10 else 0
        c = 1 if not (x == 0) else 0
        return tk.stack([a, b, c])

    both(f, tk.constant(x))


def test_and_and_or_keep_python_values():
    @tk.function
    def f(x, flag):
        if flag and x is not None:
            return x
        name = flag or "none"
        return x if name == "none" else -x

    assert float(f(tk.constant(1.0), True)) == 1.0
    assert float(f(tk.constant(1.0), "")) == 1.0


def test_an_operand_that_python_would_not_evaluate_is_not_run():
    seen = []

    @tk.function
    def f(x):
        if x > 0.0 and tk.numpy_function(lambda a: (seen.append(1), a > 1)[1], [x], tk.bool):
            return x
        return -x

    assert float(f(tk.constant(-1.0))) == 1.0
    assert seen == []
    assert float(f(tk.constant(2.0))) == 2.0
    assert seen == [1]


def test_conditional_expressions_lambdas_and_comprehensions():
    def f(x):
        y = x * 2 if x > 0 else -x
        larger = lambda z: z + 1 if z > 0 else z  # noqa: E731
        return larger(y) + sum([y * i for i in range(3)])

    both(f, tk.constant(3.0))
    both(f, tk.constant(-3.0))


def test_a_name_set_in_both_branches_and_nested_ifs():
    def f(x, y):
        if x > 0:
            if y > 0:
                z, w = x, y
            else:
                z, w = y, x
        else:
            z, w = x - y, y
        return z, w

    for x, y in [(1, 1), (1, -1), (-1, 1)]:
        both(f, tk.constant(x), tk.constant(y))


def test_attributes_and_items_are_changed_by_branches_and_loops():
    class Box:
        value = None

    def f(x):
        box = Box()
        box.value = x
        table = {"a": x, "b": x * 2}
        for _ in tk.range(3):
            if box.value < 100:
                box.value = box.value * 2
            table["a"] = table["a"] + table["b"]
        return box.value, table["a"]

    both(f, tk.constant(3))
    both(f, tk.constant(60))


# ---------------------------------------------------------------------- loops


def test_while_with_continue_and_break():
    def f(n):
        i, total = tk.constant(0), tk.constant(0)
        while i < n:
            i += 1
            if i % 2 == 0:
                continue
            if i > 7:
                break
            total += i
        return i, total

    for n in (0, 5, 20):
        both(f, tk.constant(n))


@pytest.mark.parametrize("values", [[1.0, 3.0, 5.0], [1.0, 1.0, 1.0], []])
def test_return_inside_a_loop_over_a_tensor(values):
    def f(xs):
        for x in xs:
            if x > 2.0:
                return x
        return tk.constant(-1.0)

    both(f, tk.constant(values, tk.float32))


def test_return_inside_while():
    def f(x):
        while x < 100:
            if x % 7 == 0:
                return x
            x = x + 1
        return x * 0

    both(f, tk.constant(10))
    both(f, tk.constant(99))


def test_nested_loops_with_breaks():
    def f(n):
        total = 0
        for i in tk.range(n):
            for j in tk.range(i):
                if j == 3:
                    break
                if (i + j) % 2 == 0:
                    continue
                total += i * j
        return tk.convert_to_tensor(total)

    both(f, tk.constant(7))


def test_a_loop_over_a_matrix_gives_its_rows():
    def f(m):
        total = tk.zeros([2])
        for row in m:
            total += row * row[0]
        return total

    both(f, tk.constant([[1.0, 2.0], [3.0, 4.0]]))


def test_a_loop_over_rows_of_an_unknown_number():
    @tk.function(input_signature=[tk.TensorSpec([None, 2])])
    def f(m):
        total = tk.zeros([2])
        for row in m:
            total += row
        return total

    assert f(tk.ones([3, 2])).numpy().tolist() == [3.0, 3.0]
    assert f(tk.ones([0, 2])).numpy().tolist() == [0.0, 0.0]


def test_a_python_loop_is_unrolled_and_may_break_on_a_tensor():
    def f(x):
        for i in range(5):
            if x > 10:
                break
            x = x * 2 + i
        return x

    both(f, tk.constant(1))
    both(f, tk.constant(30))


def test_zip_enumerate_and_dicts_in_python_loops():
    def f(x):
        for i, (a, b) in enumerate(zip([1, 2], [3, 4], strict=True)):
            x = x + a * b * i
        for key, value in {"p": 1, "q": 2}.items():
            x = x * value if key == "q" else x
        return x

    both(f, tk.constant(1))


def test_builtins_over_tensors():
    @tk.function
    def f(x, n):
        big = max(x[0], x[1])
        small = min(x[0], x[1])
        return big - small, len(x), int(big), float(n), bool(n)

    big, count, whole, number, flag = f(tk.constant([1.5, 4.5]), tk.constant(3))
    assert [float(big), int(count), int(whole), float(number), bool(flag)] == [3.0, 2, 4, 3.0, True]


def test_a_size_that_changes_inside_a_loop_becomes_unknown():
    @tk.function
    def doubled(n):
        x = tk.zeros([1])
        for _ in tk.range(n):
            shape = tk.TensorShape([None])
            tk.autograph.experimental.set_loop_options(shape_invariants=[(x, shape)])
            x = tk.concat([x, x], 0)
        return x

    assert doubled(tk.constant(3)).shape == (8,)
    assert doubled.get_concrete_function(tk.constant(3)).outputs[0].shape == (None,)


def test_a_python_number_takes_the_dtype_that_the_loop_gives_it():
    @tk.function
    def f(n):
        s = 0
        for _ in tk.range(n):
            s = s + 0.5
        return s

    assert float(f(tk.constant(3))) == 1.5


def test_a_name_that_only_the_loop_defines():
    @tk.function
    def f(xs):
        for x in xs:
            last = x * 2
        return last

    assert float(f(tk.constant([1.0, 4.0]))) == 8.0


def test_nested_state_in_a_loop():
    def f(n):
        d = {"a": tk.constant(1), "b": (tk.constant(2), 3)}
        for _ in tk.range(n):
            d = {"a": d["b"][0], "b": (d["a"] + d["b"][0], d["b"][1] + 1)}
        return d["a"], d["b"][1]

    assert [int(y) for y in tk.function(f)(tk.constant(5))] == [int(y) for y in f(tk.constant(5))]


# ---------------------------------------------------------------------- variables


def test_variables_change_inside_branches_and_loops():
    def make():
        count, total = tk.Variable(0), tk.Variable(0.0)

        def f(xs):
            for x in xs:
                if x > 0:
                    count.assign_add(1)
                    total.assign(total * 2.0 + x)
                else:
                    total.assign_sub(1.0)
            while total > 10.0:
                total.assign(total / 2.0)
                count.assign_add(10)
            return count.read_value(), total.read_value()

        return f

    xs = tk.constant([1.0, -2.0, 30.0, -1.0])
    assert [float(y) for y in tk.function(make())(xs)] == [float(y) for y in make()(xs)]


def test_a_condition_that_reads_a_variable_sees_it_change():
    v = tk.Variable(0)

    @tk.function
    def f():
        while v < 5:
            v.assign_add(2)
        return v.read_value()

    assert int(f()) == 6
    assert int(f()) == 6


# ---------------------------------------------------------------------- datasets


def test_a_loop_over_a_dataset():
    data = tk.data.Dataset.range(5)
    v = tk.Variable(0, dtype=tk.int64)

    @tk.function
    def f():
        total = tk.constant(0, tk.int64)
        for x in data:
            total += x * x
            v.assign_add(x)
        return total

    assert int(f()) == 30
    assert int(f()) == 30
    assert int(v) == 20
    assert f.experimental_get_tracing_count() == 1


def test_break_stops_reading_a_dataset():
    seen = []

    def numbers():
        for i in range(1000):
            seen.append(i)
            yield i

    spec = tk.TensorSpec([], tk.int32)
    data = tk.data.Dataset.from_generator(numbers, output_signature=spec)

    @tk.function
    def f(limit):
        total = tk.constant(0)
        for x in data:
            if x > limit:
                break
            total += x
        return total

    assert int(f(tk.constant(3))) == 6
    assert len(seen) < 20


def test_return_and_continue_inside_a_loop_over_a_dataset():
    data = tk.data.Dataset.range(6)

    @tk.function
    def f(limit):
        skipped = tk.constant(0)
        for x in data:
            if x % 2 == 0:
                skipped += 1
                continue
            if x > limit:
                return x * 10 + tk.cast(skipped, tk.int64)
        return tk.constant(-1, tk.int64)

    assert int(f(tk.constant(2, tk.int64))) == 32
    assert int(f(tk.constant(9, tk.int64))) == -1


def test_pairs_of_a_dataset_and_the_training_step_inside():
    x = np.arange(8, dtype="float32").reshape(8, 1)
    data = tk.data.Dataset.from_tensor_slices((x, 3 * x)).batch(2)
    w = tk.Variable(0.0)

    def epoch():
        for a, b in data:
            with tk.GradientTape() as tape:
                loss = tk.reduce_mean((a * w - b) ** 2)
            w.assign_sub(0.01 * tape.gradient(loss, w))

    epoch()
    eager = float(w)
    w.assign(0.0)
    tk.function(epoch)()
    assert float(w) == pytest.approx(eager, rel=1e-6)


def test_a_loop_over_a_dataset_that_only_looks_is_traced_once():
    data = tk.data.Dataset.range(6).batch(2)
    shapes = []

    @tk.function
    def f(elements):
        for x in elements:
            shapes.append(tuple(x.shape))
            x + 1
        return 3

    assert int(f(data)) == 3
    assert int(f(data)) == 3
    assert shapes == [(None,)]


# ---------------------------------------------------------------------- lists, arrays of tensors


def test_appending_to_a_list_in_an_unrolled_loop():
    def f(x):
        parts = []
        for i in range(3):
            parts.append(x * i)
        return tk.stack(parts)

    both(f, tk.constant(2.0))


def test_appending_to_a_list_in_a_staged_loop_points_to_the_tensor_array():
    @tk.function
    def f(xs):
        parts = []
        for x in xs:
            parts.append(x * 2)
        return tk.stack(parts)

    with pytest.raises(
        tk.errors.InvalidArgumentError, match=r"body of a loop.*TensorArray"
    ) as caught:
        f(tk.constant([1.0, 2.0]))
    assert __file__ in str(caught.value)


# ---------------------------------------------------------------------- what is not converted


def test_a_construct_that_can_not_be_converted_runs_as_python_with_a_reason():
    namespace = {}
    exec("def f(x):\n    return x + 1", namespace)

    def called(x):
        return namespace["f"](x)

    assert float(tk.function(called)(tk.constant(1.0))) == 2.0

    def with_match(x, mode):
        match mode:
            case "double":
                x = x * 2
            case _:
                x = x + 1
        return x

    text = r"with_match .*test_convert.py:\d+.* run as Python.*`match` statement in line \d+"
    with pytest.warns(UserWarning, match=text):
        assert float(tk.function(with_match)(tk.constant(1.0), "double")) == 2.0
    from trainkit.graph.autograph.convert import reason_unconverted

    assert "match" in reason_unconverted(with_match)


def test_do_not_convert_leaves_python_alone():
    @tk.autograph.experimental.do_not_convert
    def plain(x):
        if x > 0:
            return x
        return -x

    with pytest.raises(TypeError, match="needs a value"):
        tk.function(plain)(tk.constant(1.0))


def test_autograph_can_be_turned_off():
    @tk.function(autograph=False)
    def f(x):
        if x > 0:
            return x
        return -x

    with pytest.raises(TypeError, match="bool\\(\\) needs a value"):
        f(tk.constant(1.0))


def test_generators_context_managers_and_exceptions_run_as_python():
    def items(x):
        yield x
        yield x * 2

    @tk.function
    def f(x):
        total = 0.0
        for item in items(x):
            total += item
        try:
            total = total + {}["missing"]
        except KeyError:
            total = total + 1
        with tk.GradientTape() as tape:
            tape.watch(total)
            y = total * total
        return tape.gradient(y, total)

    assert float(f(tk.constant(1.0))) == 8.0


def test_closures_globals_nonlocals_and_super():
    class Base:
        def call(self, x):
            return x + 1.0

    class Child(Base):
        def call(self, x):
            if x > 0.0:
                return super().call(x)
            return x

    @tk.function
    def f(x):
        count = 0

        def step():
            nonlocal count
            count = count + 1
            return x if x > 0 else -x

        total = step() + step()
        return total * count, Child().call(x)

    assert [float(y) for y in f(tk.constant(-3.0))] == [12.0, -3.0]


def test_decorated_functions_are_converted_inside():
    def shifted(function):
        @functools.wraps(function)
        def call(x):
            return function(x) + 1.0

        return call

    @tk.function
    @shifted
    def f(x):
        if x > 0:
            return x
        return -x

    assert float(f(tk.constant(-2.0))) == 3.0


def test_default_arguments_and_star_arguments_survive_the_conversion():
    def inner(a, b=2.0, *rest, c=3.0, **named):
        if a > 0:
            return a * b + c + sum(rest) + named.get("d", 0.0)
        return a

    @tk.function
    def f(x):
        return inner(x), inner(x, 5.0, 7.0, c=1.0, d=4.0)

    assert [float(y) for y in f(tk.constant(1.0))] == [5.0, 17.0]


# ---------------------------------------------------------------------- lambdas


def _kept(*lambdas):
    """A decorator that keeps what it is called with."""

    def decorate(function):
        function.lambdas = lambdas
        return function

    return decorate


@_kept(lambda x: x if x > 0 else -x, lambda x: x * 2 if x > 0 else x)
@_kept(lambda x: x)
def _decorated():
    """Its last decorator has one line."""


@_kept(
    lambda x: x if x > 0 else -x,
    lambda x, *y, k=(lambda z: z + 1 if z > 0 else z), **w: k(x) if x > 0 else k(-x),
    lambda x: (
        x + 1
        if x > 0  # in several lines
        else x - 1
    ),
)
def _decorated_in_lines():
    """Its decorator has several lines."""


ON_ONE_LINE = [lambda x: x if x > 0 else -x, lambda x: "é" and (x * 3 if x > 0 else x)]
INSIDE = (lambda: lambda x: (lambda y: y * 2 if y > 0 else y)(x if x < 9 else -x))()


def _lambdas():
    cases = {
        "decorator": _decorated.lambdas,
        "decorator in lines": _decorated_in_lines.lambdas,
        "one line": ON_ONE_LINE,
        "inside": [INSIDE],
    }
    return {f"{name} {i}": f for name, fs in cases.items() for i, f in enumerate(fs)}


@pytest.mark.parametrize("name", _lambdas())
def test_a_lambda_is_found_wherever_it_stands(name):
    function = _lambdas()[name]
    for x in (5.0, -5.0, 10.0):
        both(function, tk.constant(x))


def test_code_that_is_replaced_is_converted_anew():
    """As `%autoreload` of IPython does with a function that others hold."""

    def old(x):
        return x + 1 if x > 0 else x

    def new(x):
        return x + 10 if x > 0 else x

    both(old, tk.constant(1.0))
    old.__code__ = new.__code__
    assert float(both(old, tk.constant(1.0))) == 11.0


def test_and_and_or_give_the_operand_as_in_python():
    def f(n, flag):
        return n and 5, n or 5, n and n + 2, n or n + 2, flag and n > 1, flag or n > 1, n and n > 1

    for n in (0, 1, 7):
        for flag in (False, True):
            values = [tk.constant(n), tk.constant(flag)]
            expected, results = f(*values), tk.function(f)(*values)
            assert [int(y) for y in results] == [int(y) for y in expected]


@pytest.mark.parametrize("other", [5, 0.5, "text", [1], None], ids=repr)
def test_a_bool_of_the_graph_meets_no_other_values(other):
    flag = tk.constant(True)
    with pytest.raises(tk.errors.InvalidArgumentError, match="and: the left operand"):
        tk.function(lambda flag: flag and other)(flag)
    with pytest.raises(tk.errors.InvalidArgumentError, match="or: the left operand"):
        tk.function(lambda flag: flag or other)(flag)
    if other is not None:
        assert bool(tk.function(lambda flag: flag and other is not None)(flag))


def test_elements_that_hold_none_are_taken_by_a_loop_over_a_dataset():
    dataset = tk.data.Dataset.range(4).map(lambda x: {"x": x, "y": (None, x * 2)})

    @tk.function
    def total(dataset):
        result = tk.constant(0, tk.int64)
        for element in dataset:
            none, y = element["y"]
            assert none is None
            result += element["x"] + y
        return result

    assert int(total(dataset)) == int(total(dataset)) == 18
    assert int(total(iter(dataset))) == 18


def test_a_loop_over_windows_in_a_function_is_refused_by_name():
    @tk.function
    def count(dataset):
        result = 0
        for _ in dataset:
            result += 1
        return result

    with pytest.raises(tk.errors.InvalidArgumentError, match="can't take datasets as elements"):
        count(tk.data.Dataset.range(4).window(2))
    assert int(count(tk.data.Dataset.range(4).batch(2))) == 2
