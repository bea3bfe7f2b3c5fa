"""`scan`, `map`, `fori_loop`, `while_loop` ... in a graph: one traced body, eager numbers."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops

XS = np.linspace(-1.0, 1.0, 12).reshape(6, 2)


class Counted:
    """A function that counts its calls."""

    def __init__(self, function):
        self.function = function
        self.calls = 0

    def __call__(self, *args):
        self.calls += 1
        return self.function(*args)


def scan(f, x):
    return ops.scan(f, x[0], x)


def scan_back(f, x):
    return ops.scan(f, x[0], x, reverse=True)


def scan_pairs(f, x):
    (carry, count), ys = ops.scan(
        lambda c, row: ((f(c[0], row["a"])[0], c[1] + 1), {"y": c[0] * row["b"], "none": None}),
        (x[0], 0),
        {"a": x, "b": x * 2.0},
    )
    return carry, count, ys["y"], ys["none"]


def scan_without_rows(f, x):
    return ops.scan(lambda c, _: f(c, x[1]), x[0], length=4)


def mapped(f, x):
    return ops.map(lambda row: f(row, row + 1.0)[0], x)


def mapped_pairs(f, x):
    return ops.map(lambda r: (f(r[0], r[1])[0], r[0]), (x, x * 2.0))


def folded(f, x):
    return ops.fori_loop(1, 5, lambda i, v: f(v, x[i])[0] * ops.cast(i, v.dtype), x[0])


def looped(f, x):
    return ops.while_loop(
        lambda i, v: i < 4, lambda i, v: (i + 1, f(v, x[i])[0]), (tk.constant(0), x[0])
    )


def looped_from_numbers(f, x):
    return ops.while_loop(
        lambda i, v: i < 7, lambda i, v: [i + 2, v + 0.5 * f(x[0], x[1])[0][0]], [0, 1.0]
    )


def at_once(f, x):
    return ops.vectorized_map(lambda row: f(row, row * 2.0)[0], x)


def all_totals(f, x):
    return ops.associative_scan(lambda a, b: (f(a, b), a * b)[1], x)


def tf_scan(f, x):
    return tk.scan(lambda c, row: f(c, row)[0], x, x[0])


def tf_folds(f, x):
    g = lambda c, row: f(c, row)[0]  # noqa: E731
    return tk.foldl(g, x), tk.foldr(g, x, x[1])


WAYS = {
    scan: 1,
    scan_back: 1,
    scan_pairs: 1,
    scan_without_rows: 1,
    mapped: 1,
    mapped_pairs: 1,
    folded: 1,
    looped: 1,
    looped_from_numbers: 2,
    at_once: 1,
    all_totals: 5,
    tf_scan: 1,
    tf_folds: 2,
}


def step(c, row):
    new = ops.tanh(c) * row + c
    return new, new * row


def arrays(result):
    return [np.asarray(y) for y in tk.nest.flatten(result) if y is not None]


@pytest.mark.parametrize("way", WAYS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("rows", [6, None])
def test_a_body_is_traced_once_and_gives_the_eager_numbers(way, rows):
    counted = Counted(step)
    traced = tk.function(
        lambda x: way(counted, x),
        input_signature=[tk.TensorSpec([rows, 2], tk.float64)],
        autograph=False,
    )
    x = tk.constant(XS)
    expected = way(step, x)
    got = traced(x)
    if rows is not None or way is not all_totals:
        assert counted.calls <= WAYS[way]
    for a, b in zip(arrays(expected), arrays(got), strict=True):
        if way is all_totals:  # in another order where the size is not known
            np.testing.assert_allclose(b, a, rtol=1e-12)
        else:
            np.testing.assert_array_equal(b, a)


@pytest.mark.parametrize("way", WAYS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("rows", [6, None])
def test_gradients_of_first_and_second_order(way, rows):
    def slopes(x):
        with tk.GradientTape() as outer:
            outer.watch(x)
            with tk.GradientTape() as inner:
                inner.watch(x)
                ys = [y for y in tk.nest.flatten(way(step, x)) if y is not None]
                floats = [y for y in ys if tk.is_tensor(y) and y.dtype.is_floating]
                loss = sum(ops.sum(ops.cast(y, "float64") ** 2) for y in floats)
            first = inner.gradient(loss, x)
            length = ops.sum(first**3)
        return first, outer.gradient(length, x)

    spec = [tk.TensorSpec([rows, 2], tk.float64)]
    x = tk.constant(XS)
    for a, b in zip(slopes(x), tk.function(slopes, input_signature=spec)(x), strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-9, atol=1e-11)


def test_zero_rows():
    traced = tk.function(lambda x: ops.scan(step, tk.zeros([2], x.dtype), x))
    carry, ys = traced(tk.zeros([0, 2], tk.float64))
    assert carry.numpy().tolist() == [0.0, 0.0]
    assert ys.shape == (0, 2)


def test_a_carry_that_changes_its_structure_or_dtype_is_refused():
    x = tk.constant(XS)
    with pytest.raises(tk.errors.InvalidArgumentError, match="carry of 2 values"):
        tk.function(lambda x: ops.scan(lambda c, r: ((c, c), None), x[0], x))(x)
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"float64 before .* float32 after"):
        tk.function(lambda x: ops.scan(lambda c, r: (ops.cast(c, "float32"), None), x[0], x))(x)
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"scan: .* shape .* rank"):
        tk.function(lambda x: ops.scan(lambda c, r: (c[None], None), x[0], x))(x)


def test_a_limit_that_is_a_tensor():
    @tk.function
    def f(x, most):
        return tk.while_loop(lambda v: v < 100.0, lambda v: v * 2.0, [x], maximum_iterations=most)

    assert float(f(tk.constant(1.0), tk.constant(3))[0]) == 8.0
    assert float(f(tk.constant(60.0), tk.constant(3))[0]) == 120.0


def test_vectorized_map_draws_and_prints_row_by_row(capsys):
    @tk.function
    def f(x):
        def one(row):
            tk.print(row)
            return row * 2.0

        return tk.vectorized_map(one, x)

    assert f(tk.constant([1.0, 2.0])).numpy().tolist() == [2.0, 4.0]
    assert capsys.readouterr().err == "1\n2\n"


def test_vectorized_map_reads_variables_and_conditions():
    v = tk.Variable(3.0)

    @tk.function
    def f(x):
        return tk.vectorized_map(lambda r: tk.cond(r > 1.5, lambda: r * v, lambda: r - v), x)

    assert f(tk.constant([1.0, 2.0])).numpy().tolist() == [-2.0, 6.0]


def test_an_output_that_is_the_state_has_the_gradients_of_eager_steps():
    w = tk.Variable(np.random.default_rng(0).normal(size=(5, 5)).astype("float32"))
    x = tk.constant(np.random.default_rng(1).normal(size=(6, 3, 5)).astype("float32"))

    def step(h, row):
        gate = tk.sigmoid(h @ w + row)
        h = gate * h + (1 - gate) * tk.tanh(h @ w)
        return h, {"state": h, "none": None, "own": h * 2.0}

    def gradients(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            last, states = ops.scan(step, x[0] + 0.0, x)
            loss = tk.reduce_sum(states["state"] ** 2) + tk.reduce_sum(states["own"] * last)
        return tape.gradient(loss, [w, x])

    for one, other in zip(gradients(x), tk.function(gradients)(x), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_no_round_at_all_and_sizes_that_the_graph_does_not_know():
    @tk.function(input_signature=[tk.TensorSpec((None, None, 3), "float32")])
    def gradient(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            rows = x[1:]
            last = ops.scan(lambda c, row: (c + row * row, None), x[0], rows)[0]
            loss = tk.reduce_sum(last)
        return tape.gradient(loss, x)

    np.testing.assert_array_equal(gradient(tk.ones((1, 2, 3))), np.ones((1, 2, 3)))
    np.testing.assert_array_equal(gradient(tk.ones((2, 2, 3)))[1], np.full((2, 3), 2.0))


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("loop", ["for", "while"])
def test_what_a_loop_and_the_code_after_it_use_has_the_bits_of_eager_steps(loop, order):
    rng = np.random.default_rng(0)
    w = tk.Variable(rng.normal(size=(5, 5)).astype("float32") * 0.4)
    x = tk.constant(rng.normal(size=(3, 5)).astype("float32"))

    def loss(x):
        h, n = x, tk.constant(0)
        if loop == "for":
            for _ in tk.range(6):
                h = tk.tanh(h @ w)
        else:
            while n < 6:
                h, n = tk.tanh(h @ w), n + 1
        return tk.reduce_sum(h * h) + 0.3 * tk.reduce_sum(tk.abs(w)) + tk.reduce_sum((x @ w) * x)

    def gradients(x):
        with tk.GradientTape() as outer:
            outer.watch(x)
            with tk.GradientTape() as tape:
                tape.watch(x)
                y = loss(x)
            first = tape.gradient(y, [w, x])
            penalty = tk.reduce_sum(first[0] ** 2) + tk.reduce_sum(tk.sin(first[1]))
        return first if order == 1 else outer.gradient(penalty, [w, x])

    eager, traced = gradients(x), tk.function(gradients)(x)
    for one, other in zip(eager, traced, strict=True):
        if order == 1:
            np.testing.assert_array_equal(one.numpy(), other.numpy())
        else:
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)
