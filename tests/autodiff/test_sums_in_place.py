"""Gradients that come to one tensor from several sides are summed in memory that is nobody's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trainkit as tk
from trainkit.core.dispatch import native

SIZES = [1, 15, 16, 1023, 1024, 4096, 5000]  # on both sides of what the two backward passes ask for


@pytest.fixture(autouse=True, params=["python", "compiled"])
def half(request):
    """Each test runs without the compiled half and with it."""
    if request.param == "compiled" and native.NATIVE is None:
        pytest.skip(str(native.FAILURE))
    before = native.switch(request.param == "compiled")
    yield request.param
    native.switch(before)


def chain(a):
    b = a * 2
    c = a + b
    d = c * 3
    s = a + c
    return (s + d) * 1


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("persistent", [False, True])
def test_a_sum_that_two_tensors_share_is_not_written(size, dtype, persistent):
    a = tk.ones([size], dtype)
    with tk.GradientTape(persistent=persistent) as tape:
        tape.watch(a)
        e = chain(a)
    assert tape.gradient(e, a).numpy().tolist() == [13.0] * size
    run = tk.function(chain, autograph=False)
    for _ in range(3):
        with tk.GradientTape() as tape:
            tape.watch(a)
            e = run(a)
        assert tape.gradient(e, a).numpy().tolist() == [13.0] * size


def test_a_gradient_inside_a_function_is_the_same():
    @tk.function
    def gradient(a):
        with tk.GradientTape() as tape:
            tape.watch(a)
            e = chain(a)
        return tape.gradient(e, a)

    for _ in range(3):
        assert gradient(tk.ones([2000])).numpy().tolist() == [13.0] * 2000


@pytest.mark.parametrize("size", SIZES)
def test_one_gradient_handed_to_many_inputs_stays_each_ones(size):
    x = tk.ones([size])
    with tk.GradientTape() as tape:
        tape.watch(x)
        a, b, c = x * 2, x * 3, x * 4
        middle = tk.keras.layers.Add()([x, a, b, c])
        y = middle * 5 + a * 7 + b + (c + x) * 2
    by = tape.gradient(y, [middle, x, a, b, c])
    # 5 + 2 for x itself, 12 by a, 6 by b, 7 by c
    expected = [5, 5 + 2 + 2 * 12 + 3 * 6 + 4 * 7, 12, 6, 7]
    assert [float(g[0]) for g in by] == expected
    assert [float(g[-1]) for g in by] == expected


@pytest.mark.parametrize("size", SIZES)
def test_seeds_and_gradients_that_were_given_out_stay(size):
    x, seed = tk.ones([size]), tk.fill([size], 2.0)
    with tk.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x + x
        z = y + x + y
    kept, numbers = [], []
    for target in (z, y, z):
        for by in ([x, y], [y], [x]):
            kept += [g for g in tape.gradient(target, by, output_gradients=seed) if g is not None]
            numbers += [g.numpy() for g in kept[len(numbers) :]]
    assert seed.numpy().tolist() == [2.0] * size
    for g, expected in zip(kept, numbers, strict=True):
        np.testing.assert_array_equal(g.numpy(), expected)
    assert [float(numbers[i][0]) for i in (0, 1, 2, 3)] == [10.0, 4.0, 4.0, 10.0]


@pytest.mark.parametrize("size", [16, 2000])
def test_what_a_gradient_of_ones_own_gives_and_keeps_stays(size):
    kept = []

    @tk.custom_gradient
    def handed(x):
        def backward(g):
            kept.append((g, g.numpy()))
            return g

        return tk.identity(x), backward

    x = tk.ones([size])
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = handed(x) + x * 2
        z = handed(y) + y + x
    assert tape.gradient(z, x).numpy().tolist() == [7.0] * size
    for g, expected in kept:
        np.testing.assert_array_equal(g.numpy(), expected)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_16_bit_floats_are_numpys(size, dtype, rng):
    a, b, c, x = (tk.cast(rng.normal(size=size), dtype) for _ in range(4))
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = x * a + x * b + x * c
    # the last product comes first
    expected = c.numpy() + b.numpy() + a.numpy()
    assert tape.gradient(y, x).numpy().tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_pass_begins_in_the_order_of_its_target(dtype, rng):
    x = tk.transpose(tk.cast(rng.normal(size=(40, 50)), dtype))
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = tk.nn.relu(x) * x
    gradient = tape.gradient(y, x)
    assert gradient._array.flags.f_contiguous
    expected = np.maximum(x.numpy(), 0) * np.asarray(2, x.numpy().dtype)
    np.testing.assert_array_equal(gradient.numpy(), expected)


def test_a_gradient_that_may_not_be_written_is_summed_elsewhere():
    fixed = np.full(2000, 3.0, "float32")
    fixed.flags.writeable = False

    @tk.custom_gradient
    def constant(x):
        return x * 1.0, lambda g: tk.constant(fixed)

    x = tk.ones([2000])
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = constant(x) + constant(x) + x
    assert tape.gradient(y, x).numpy().tolist() == [7.0] * 2000
    assert fixed.tolist() == [3.0] * 2000


# ---------------------------------------------------------------------- random programs

# Every operation is linear with whole coefficients, so float32 is exact.
OPERATIONS = [
    (1, lambda x: x * 2.0, lambda g: [2 * g]),
    (1, lambda x: -x, lambda g: [-g]),
    (1, tk.identity, lambda g: [g]),
    (1, lambda x: tk.reshape(tk.reshape(x, [1, -1]), [-1]), lambda g: [g]),
    (1, lambda x: tk.transpose(tk.transpose(x[None]))[0], lambda g: [g]),
    (1, lambda x: x[::-1], lambda g: [g[::-1]]),
    (1, lambda x: tk.concat([x[:1], x[1:]], 0), lambda g: [g]),
    (1, lambda x: tk.stop_gradient(x) + x, lambda g: [g]),
    (2, lambda x, y: x + y, lambda g: [g, g]),
    (2, lambda x, y: x - y, lambda g: [g, -g]),
    (3, lambda *xs: tk.add_n(xs), lambda g: [g, g, g]),
    (3, lambda *xs: tk.keras.layers.add(list(xs)), lambda g: [g, g, g]),
    (2, lambda x, y: tk.stack([x, y])[1], lambda g: [0 * g, g]),
    (2, lambda x, y: tk.reduce_sum(tk.stack([x, y]), 0), lambda g: [g, g]),
]
LINES = st.lists(
    st.tuples(st.integers(0, len(OPERATIONS) - 1), *[st.integers(0, 30)] * 3),
    min_size=2,
    max_size=14,
)


def run_lines(lines, leaves):
    """The values, and for each line its operation and the places of its inputs."""
    values, record = list(leaves), []
    for op, *places in lines:
        count, forward, backward = OPERATIONS[op]
        inputs = [place % len(values) for place in places[:count]]
        values.append(forward(*[values[i] for i in inputs]))
        record.append((backward, inputs))
    return values, record


def expected_gradients(record, count, size):
    """By each value, from the last: the transposed program, in new memory throughout."""
    grads = [np.zeros(size) for _ in range(count)]
    grads[-1] += 3.0
    for at, (backward, inputs) in reversed(list(enumerate(record, count - len(record)))):
        for i, g in zip(inputs, backward(grads[at]), strict=True):
            grads[i] = grads[i] + g
    return grads


@settings(max_examples=80, deadline=None)
@given(
    lines=LINES,
    size=st.sampled_from([3, 16, 1024, 5000]),
    dtype=st.sampled_from(["float32", "float64"]),
    persistent=st.booleans(),
    whole=st.booleans(),
)
def test_random_programs_have_the_gradients_of_numpy(lines, size, dtype, persistent, whole):
    first = tk.Variable(np.ones(size, dtype))
    second = tk.constant(np.full(size, 2.0, dtype))
    seed = tk.constant(np.full(size, 3.0, dtype))
    with tk.GradientTape(persistent=persistent) as tape:
        tape.watch(second)
        leaves = [first.value(), second]
        tape.watch(leaves[0])
        values, record = run_lines(lines, leaves)
    before = [x.numpy() for x in values]
    by = values if whole else leaves
    grads = tape.gradient(values[-1], by, output_gradients=seed, unconnected_gradients="zero")
    expected = expected_gradients(record, len(values), size)
    for g, e in zip(grads, expected if whole else expected[:2], strict=True):
        np.testing.assert_array_equal(g.numpy(), e)
    for x, e in zip([*values, seed], [*before, np.full(size, 3.0)], strict=True):
        np.testing.assert_array_equal(x.numpy(), e)


@pytest.mark.parametrize("chance", range(6))
def test_random_functions_have_the_gradients_of_numpy(chance):
    rng = np.random.default_rng(chance)
    lines = [
        (int(rng.integers(len(OPERATIONS))), *map(int, rng.integers(30, size=3))) for _ in range(12)
    ]
    size = [16, 2000][chance % 2]
    shapes = []

    @tk.function(autograph=False)
    def gradients(a, b):
        with tk.GradientTape() as tape:
            tape.watch([a, b])
            values, record = run_lines(lines, [a, b])
        shapes[:] = [record, len(values)]
        return tape.gradient(values[-1], [a, b], unconnected_gradients="zero")

    for _ in range(3):
        grads = gradients(tk.ones([size]), tk.fill([size], 2.0))
        for g, e in zip(grads, expected_gradients(*shapes, size), strict=False):
            np.testing.assert_array_equal(3.0 * g.numpy(), e)
