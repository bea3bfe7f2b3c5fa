"""`vectorized_map`: once for all items where that can be, once per item where not."""

import numpy as np
import pytest

import trainkit as tk

XS = tk.constant(np.random.default_rng(1).normal(size=(5, 4, 3)), tk.float64)


class Counted:
    """A function that counts how often it is called."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, x):
        self.calls += 1
        return self.function(x)


def assert_same(got, wanted):
    for a, b in zip(tk.nest.flatten(got), tk.nest.flatten(wanted), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-12)


W = tk.Variable(np.random.default_rng(2).normal(size=(3, 2)))
ONCE = {
    "sum": lambda x: tk.reduce_sum(x),
    "matmul": lambda x: tk.tanh(x @ W.value()),
    "norm": lambda x: x / tk.norm(x, axis=-1, keepdims=True),
    "items": lambda x: {"a": x[0], "b": (x[1:, 2], x[..., None])},
    "constant": lambda x: (x, tk.constant(2.0), 3.0),
    "softmax": lambda x: tk.nn.softmax(x, axis=0),
    "transposed": lambda x: tk.transpose(x) @ x,
    "reshaped": lambda x: tk.reshape(x, [2, 6]),
    "pick": lambda x: tk.where(x > 0, x, tk.zeros_like(x)),
    "largest": lambda x: tk.argmax(x, axis=1),
    "stacked": lambda x: tk.stack([x[0], x[1]]) + tk.concat([x[:1], x[2:3]], axis=0),
}


@pytest.mark.parametrize("name", ONCE)
def test_the_function_runs_once_and_gives_what_a_loop_gives(name):
    function = Counted(ONCE[name])
    got = tk.vectorized_map(function, XS)
    assert function.calls == 1
    assert_same(got, tk.ops.map(ONCE[name], XS))


SEVERAL = {
    "float()": lambda x: x * float(tk.reduce_sum(x)),
    "numpy()": lambda x: tk.constant(x.numpy()) + 1,
    "if": lambda x: x if tk.reduce_sum(x) > 0 else -x,
    "cond": lambda x: tk.cond(tk.reduce_sum(x) > 0, lambda: x, lambda: -x),
    "while": lambda x: tk.while_loop(
        lambda y: tk.reduce_sum(y * y) > 1.0, lambda y: [y * 0.5], [x]
    )[0],
}


@pytest.mark.parametrize("name", SEVERAL)
def test_a_function_that_looks_at_values_runs_once_per_item(name):
    function = Counted(SEVERAL[name])
    got = tk.vectorized_map(function, XS)
    assert function.calls == 1 + len(XS)
    assert_same(got, tk.ops.map(SEVERAL[name], XS))


def test_items_draw_their_own_random_numbers():
    draws = tk.vectorized_map(lambda x: tk.random.normal([2]), XS).numpy()
    assert len(np.unique(draws)) == draws.size


def test_each_item_assigns_by_itself():
    count = tk.Variable(0)

    def f(x):
        count.assign_add(1)
        return x

    assert_same(tk.vectorized_map(f, XS), XS)
    assert int(count) == len(XS)


def test_a_function_that_can_not_run_once_is_an_error_where_that_is_asked_for():
    with pytest.raises(ValueError, match=r"vectorized_map: .* stands for many"):
        tk.vectorized_map(lambda x: float(x[0, 0]), XS, fallback_to_while_loop=False)


def test_several_elements():
    got = tk.vectorized_map(lambda ab: ab[0] * ab[1]["x"], (XS, {"x": XS[:, 0]}))
    np.testing.assert_allclose(got.numpy(), XS.numpy() * XS.numpy()[:, :1])


def loss(x):
    return tk.reduce_sum(tk.tanh(x @ W) ** 2)


def test_gradients_per_item():
    def slopes(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = loss(x)
        return tape.gradient(y, [x, W])

    function = Counted(slopes)
    got = tk.vectorized_map(function, XS)
    assert function.calls == 1
    assert [tuple(g.shape) for g in got] == [(5, 4, 3), (5, 3, 2)]
    assert_same(got, tk.ops.map(slopes, XS))


def test_second_derivatives_per_item():
    def curvature(x):
        with tk.GradientTape() as outer:
            outer.watch(x)
            with tk.GradientTape() as inner:
                inner.watch(x)
                y = loss(x)
            slope = tk.reduce_sum(inner.gradient(y, x) ** 2)
        return outer.gradient(slope, x)

    assert_same(tk.vectorized_map(curvature, XS), tk.ops.map(curvature, XS))


def test_gradients_go_through_the_map():
    slopes = []
    for mapping in (tk.vectorized_map, tk.ops.map):
        with tk.GradientTape() as tape:
            tape.watch(XS)
            y = tk.reduce_sum(mapping(loss, XS) ** 2)
        slopes.append(tape.gradient(y, [XS, W]))
    assert_same(*slopes)


def test_layers_take_single_items():
    layer = tk.keras.layers.Dense(2, activation="relu", dtype="float64")
    layer(XS)
    got = tk.vectorized_map(lambda x: layer(x[None])[0], XS)
    assert_same(got, layer(XS))


def test_it_can_be_traced():
    assert_same(tk.function(lambda x: tk.vectorized_map(loss, x))(XS), tk.ops.map(loss, XS))


@pytest.mark.parametrize(
    ("elements", "words"),
    [
        (tk.constant(1.0), "one size of the first axis"),
        ((tk.zeros([2]), tk.zeros([3])), r"their shapes are \[\(2,\), \(3,\)\]"),
        ((tk.zeros([0]), tk.zeros([3])), r"their shapes are \[\(0,\), \(3,\)\]"),
    ],
)
def test_elements_that_do_not_fit(elements, words):
    with pytest.raises(ValueError, match=words):
        tk.vectorized_map(lambda x: x, elements)


def test_a_function_is_needed():
    with pytest.raises(TypeError, match="give a function of one item"):
        tk.vectorized_map(3, XS)


def test_the_functions_own_errors_come_through():
    with pytest.raises(ValueError, match="do not broadcast"):
        tk.vectorized_map(lambda x: x + tk.zeros([7]), XS)


# ------------------------------------------------------------------ maps within maps

A, B = tk.constant([1.0, 2.0, 3.0]), tk.constant([10.0, 20.0, 30.0])


def test_items_of_two_maps_meet_in_all_combinations():
    got = tk.vectorized_map(
        lambda a: tk.vectorized_map(lambda b: a * b, B, fallback_to_while_loop=False),
        A,
        fallback_to_while_loop=False,
    )
    assert_same(got, A[:, None] * B)


def test_an_inner_map_may_use_items_of_the_outer_one_alone():
    got = tk.vectorized_map(lambda a: tk.vectorized_map(lambda b: a, B), A)
    assert_same(got, tk.repeat(A[:, None], 3, axis=1))


def test_jacobians_per_item():
    def rows(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = tk.tanh(x @ W)
        return tape.jacobian(y, x)

    function = Counted(rows)
    got = tk.vectorized_map(function, XS, fallback_to_while_loop=False)
    assert function.calls == 1
    assert_same(got, tk.stack([rows(x) for x in XS]))


def test_a_map_within_a_map_within_a_function():
    @tk.function
    def products(a, b):
        return tk.vectorized_map(lambda x: tk.vectorized_map(lambda y: x * y + x, b), a)

    assert_same(products(A, B), A[:, None] * B + A[:, None])


# ------------------------------------------------------------------ positions of each item


@pytest.mark.parametrize(
    "pick",
    [
        lambda x, i: tk.gather(x, i),
        lambda x, i: tk.nn.embedding_lookup(x, i),
        lambda x, i: tk.math.unsorted_segment_sum(x[:1], i, 4),
    ],
)
def test_a_position_outside_is_named(pick, on_cpu):
    positions = tk.constant([[0], [3], [1], [4], [2]])
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"\[3, ?0\] = 4 is not in \[0, 4\)"):
        tk.vectorized_map(lambda xi: pick(*xi), (XS.cpu(), positions))


STARTS = tk.constant([[0, 0], [2, 1], [1, 0], [2, 0], [0, 1]])


@pytest.mark.parametrize(
    "block",
    [
        lambda x, at: tk.ops.slice(x, (at[0], at[1]), (2, 2)),
        lambda x, at: tk.ops.slice(x, (at[0], 0), (2, -1)),
        lambda x, at: tk.ops.slice_update(x, (at[0], at[1]), x[:2, :2] * 10.0),
    ],
)
def test_items_have_blocks_at_places_of_their_own(block):
    function = Counted(lambda xi: block(*xi))
    got = tk.vectorized_map(function, (XS, STARTS), fallback_to_while_loop=False)
    assert function.calls == 1
    rows = [block(x, [int(i) for i in at]) for x, at in zip(XS, STARTS, strict=True)]
    assert_same(got, tk.stack(rows))


def test_a_block_of_an_item_that_reaches_outside_is_refused():
    with pytest.raises(ValueError, match="positions 3 to 5 of axis 0 are outside"):
        tk.vectorized_map(lambda xi: tk.ops.slice(xi[0], (xi[1][0], 0), (2, 1)), (XS, STARTS + 1))


def test_gradients_go_back_to_blocks_at_places_of_their_own():
    def gradient(xi):
        x, at = xi
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = tk.reduce_sum(tk.ops.slice(x, (at[0], at[1]), (2, 2)) ** 2)
        return tape.gradient(y, x)

    got = tk.vectorized_map(gradient, (XS, STARTS), fallback_to_while_loop=False)
    wanted = np.zeros(XS.shape)
    for i, (a, b) in enumerate(STARTS.numpy()):
        wanted[i, a : a + 2, b : b + 2] = 2 * XS.numpy()[i, a : a + 2, b : b + 2]
    np.testing.assert_allclose(got.numpy(), wanted)


def test_the_size_of_an_item_is_one_number():
    seen = []

    def sizes(x):
        seen.append((int(tk.size(x)), tk.shape(x).numpy().tolist()))
        return x

    tk.vectorized_map(sizes, XS, fallback_to_while_loop=False)
    assert seen == [(12, [4, 3])]


# ------------------------------------------------------------------ layers, loops


def test_gradients_of_a_convolution_with_a_rectifier_per_image():
    layer = tk.keras.layers.Conv2D(2, 3, activation="relu", dtype="float64")
    images = tk.constant(np.random.default_rng(3).normal(size=(4, 6, 6, 1)))
    layer(images)

    def gradients(x):
        with tk.GradientTape() as tape:
            y = tk.reduce_sum(layer(x[None]) ** 2)
        return tape.gradient(y, layer.trainable_variables)

    function = Counted(gradients)
    got = tk.vectorized_map(function, images, fallback_to_while_loop=False)
    assert function.calls == 1
    assert_same(got, [tk.stack(g) for g in zip(*map(gradients, images), strict=True)])


def test_a_jacobian_by_the_bias_of_a_rectified_convolution():
    layer = tk.keras.layers.Conv2D(2, 2, activation="relu", dtype="float64")
    images = tk.constant(np.random.default_rng(3).normal(size=(1, 3, 3, 1)))
    with tk.GradientTape() as tape:
        y = layer(images)
    found = tape.jacobian(y, layer.bias)
    np.testing.assert_array_equal(found.numpy(), (y.numpy() > 0)[..., None] * np.eye(2))


def test_jacobians_through_loops_and_branches():
    @tk.function
    def looped(x):
        for _ in tk.range(3):
            x = tk.sin(x) * x
        if tk.reduce_sum(x) < 100.0:
            x = x * 2.0
        return x

    with tk.GradientTape(persistent=True) as tape:
        tape.watch(A)
        y = looped(A)
    rows = [tape.gradient(y, A, unit) for unit in tk.eye(3)]
    assert_same(tape.jacobian(y, A), tk.stack(rows))
