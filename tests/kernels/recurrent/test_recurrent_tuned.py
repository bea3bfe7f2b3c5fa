"""The compiled LSTM and GRU against the plain ones."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import layers
from trainkit.kernels.recurrent import recurrent_reference, recurrent_tuned

SIZES = [(3, 4, 33), (17, 5, 33), (8, 1, 10), (1, 2, 10)]


def floats(rng, *shapes):
    return [rng.normal(size=shape).astype("float32") for shape in shapes]


def assert_all_close(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * max(1, abs(b).max()))


@pytest.mark.parametrize("with_memory", [True, False])
@pytest.mark.parametrize(("batch", "steps", "units"), SIZES)
def test_lstm_and_its_gradient_equal_the_plain_version(
    eager, rng, batch, steps, units, with_memory
):
    states = (batch, units)
    inputs = floats(rng, (batch, steps, 4 * units), states, states, (units, 4 * units))
    inputs[0] *= 3
    expected = recurrent_reference.lstm(np, *inputs)
    assert_all_close(recurrent_tuned.lstm(*inputs), expected)
    by_hidden, by_memory = floats(rng, (batch, steps, units), (batch, steps, units))
    given = (by_hidden, by_memory if with_memory else None, *inputs[1:], *expected)
    found = recurrent_tuned.lstm_gradient(*given)
    assert_all_close(found, recurrent_reference.lstm_gradient(np, *given))


@pytest.mark.parametrize(
    ("reset_after", "with_bias"), [(True, True), (True, False), (False, False)]
)
@pytest.mark.parametrize(("batch", "steps", "units"), SIZES)
def test_gru_and_its_gradient_equal_the_plain_version(
    eager, rng, batch, steps, units, reset_after, with_bias
):
    shapes = (batch, steps, 3 * units), (batch, units), (units, 3 * units), (3 * units,)
    projected, h, kernel, bias = floats(rng, *shapes)
    projected *= 3
    bias = bias if with_bias else None
    expected = recurrent_reference.gru(np, projected, h, kernel, bias, reset_after)
    assert_all_close(recurrent_tuned.gru(projected, h, kernel, bias, reset_after), expected)
    (by_hidden,) = floats(rng, (batch, steps, units))
    given = (by_hidden, h, kernel, *expected, reset_after)
    found = recurrent_tuned.gru_gradient(*given)
    assert_all_close(found, recurrent_reference.gru_gradient(np, *given))


EPSILONS = {np.dtype("float16"): 2.0**-10, tk.bfloat16.dtype: 2.0**-7}


def of_halves(rng, dtype, *shapes):
    """Arrays of 16-bit floats, and the same numbers as float32."""
    halves = [array.astype(dtype) for array in floats(rng, *shapes)]
    return halves, [array.astype(np.float32) for array in halves]


def assert_rounded_once(halves, expected):
    """Arrays of 16-bit floats that equal those of float32, rounded, to the bit."""
    for a, b in zip(halves, expected, strict=True):
        np.testing.assert_array_equal(a.view(np.uint16), b.astype(a.dtype).view(np.uint16))


def assert_near(halves, expected):
    """The same but for a second rounding, of what products and sums are made of."""
    for a, b in zip(halves, expected, strict=True):
        step = EPSILONS[a.dtype]
        np.testing.assert_allclose(a.astype("float32"), b, rtol=2 * step, atol=step * abs(b).max())


@pytest.mark.parametrize("dtype", EPSILONS, ids=str)
@pytest.mark.parametrize(("batch", "steps", "units"), SIZES)
def test_recurrences_read_16_bit_floats_and_round_once(eager, rng, batch, steps, units, dtype):
    states, by_step = (batch, units), (batch, steps, units)
    shapes = (batch, steps, 4 * units), states, states, (units, 4 * units)
    inputs, wide = of_halves(rng, dtype, *shapes)
    results = recurrent_tuned.lstm(*inputs)
    assert_rounded_once(results, recurrent_tuned.lstm(*wide))
    assert recurrent_tuned.lstm(*inputs, hidden_alone=True)[1:] == (None, None)
    assert_rounded_once(recurrent_tuned.lstm(*inputs, hidden_alone=True)[:1], results[:1])
    (by_hidden, by_memory), wide_by = of_halves(rng, dtype, by_step, by_step)
    for one, two in ((by_memory, wide_by[1]), (None, None)):
        gradients = recurrent_tuned.lstm_gradient(by_hidden, one, *inputs[1:], *results)
        saved = [x.astype(np.float32) for x in results]
        expected = recurrent_tuned.lstm_gradient(wide_by[0], two, *wide[1:], *saved)
        assert_rounded_once(gradients[:3], expected[:3])
        assert_near(gradients[3:], expected[3:])
    shapes = (batch, steps, 3 * units), states, (units, 3 * units), (3 * units,)
    inputs, wide = of_halves(rng, dtype, *shapes)
    results = recurrent_tuned.gru(*inputs, True)
    assert_rounded_once(results, recurrent_tuned.gru(*wide, True))
    alone = recurrent_tuned.gru(*inputs, True, hidden_alone=True)
    assert alone[1] is None
    assert_rounded_once(alone[:1], results[:1])
    gradients = recurrent_tuned.gru_gradient(by_hidden, *inputs[1:3], *results, True)
    saved = [x.astype(np.float32) for x in results]
    expected = recurrent_tuned.gru_gradient(wide_by[0], *wide[1:3], *saved, True)
    assert_rounded_once(gradients[:2], expected[:2])
    assert_near(gradients[2:], expected[2:])


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("units", [10, 33, 70])
def test_a_sample_has_the_same_bits_whatever_comes_with_it(eager, rng, units, count):
    """One alone takes its own way through the products, and so do several and the last."""
    few, states = slice(8, 8 + count), (9 + count, units)
    x, h, c = floats(rng, (states[0], 3, 4 * units), states, states)
    kernel, bias, by_hidden = floats(rng, (units, 4 * units), (3 * units,), (states[0], 3, units))
    x_gru, narrow = x[..., : 3 * units], kernel[:, : 3 * units]

    def results(rows):
        parts = recurrent_tuned.lstm(x[rows], h[rows], c[rows], kernel)
        states = h[rows], c[rows], kernel
        yield from parts
        yield from recurrent_tuned.lstm_gradient(by_hidden[rows], None, *states, *parts)[:3]
        for reset_after in (True, False):
            given = x_gru[rows], h[rows], narrow, bias if reset_after else None, reset_after
            parts = recurrent_tuned.gru(*given)
            yield from parts
            given = by_hidden[rows], h[rows], narrow, *parts, reset_after
            yield from recurrent_tuned.gru_gradient(*given)[:2]

    for alone, among in zip(results(few), results(slice(None)), strict=True):
        np.testing.assert_array_equal(alone, among[few])


def test_arrays_that_do_not_lie_in_order_are_taken(eager, rng):
    x, h, kernel = floats(rng, (3, 6, 30), (10, 3), (30, 10))
    given = x[:, ::2], h.T, kernel.T
    found = recurrent_tuned.gru(*given, None, True)
    assert_all_close(found, recurrent_reference.gru(np, *given, None, True))


def test_other_dtypes_large_kernels_and_no_samples_are_left_to_the_plain_version(eager, rng):
    shapes = (2, 3, 128), (2, 32), (2, 32), (32, 128)
    assert recurrent_tuned.lstm(*(rng.normal(size=s) for s in shapes)) is None
    assert recurrent_tuned.lstm(*floats(rng, (0, 3, 128), (0, 32), (0, 32), (32, 128))) is None
    assert recurrent_tuned.lstm(*floats(rng, (2, 0, 128), (2, 32), (2, 32), (32, 128))) is None
    units = 4 + int((recurrent_tuned.LARGEST_KERNEL_BYTES / 12) ** 0.5)
    x, h, kernel = floats(rng, (2, 3, 3 * units), (2, units), (units, 3 * units))
    assert recurrent_tuned.gru(x, h, kernel, None, True) is None
    x, h, kernel = (rng.normal(size=s) for s in ((2, 3, 96), (2, 32), (32, 96)))
    assert recurrent_tuned.gru(x, h, kernel, None, False) is None


SETTINGS = [
    {},
    {"return_sequences": True, "return_state": True},
    {"go_backwards": True},
    {"use_bias": False},
    {"dropout": 0.5, "seed": 3},
    {"recurrent_dropout": 0.5, "seed": 3},
]


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "GRU before"])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize(
    ("dtype", "masked"),
    [("float32", False), ("float32", True), ("float16", False), ("float64", False)],
)
def test_layers_give_with_kernels_what_they_give_without(
    kernels, rng, kind, settings, dtype, masked
):
    def results(mode):
        kernels(mode)
        tk.random.set_seed(1)
        more = {"reset_after": False} if kind == "GRU before" else {}
        layer = getattr(layers, kind[:4].strip())(10, dtype=dtype, **settings, **more)
        layer.build(x.shape)
        with tk.GradientTape() as tape:
            y = layer(x, training=True, mask=mask)
            y = y if type(y) is tuple else (y,)
            total = sum(tk.reduce_sum(part * part) for part in y)
        return *y, *tape.gradient(total, layer.trainable_variables)

    x = tk.constant(rng.normal(size=(9, 5, 4)), dtype)
    mask = rng.uniform(size=(9, 5)) < 0.7 if masked else None
    tolerance = {"float16": 5e-2, "float32": 1e-3, "float64": 1e-12}[dtype]
    for a, b in zip(results("eager"), results("off"), strict=True):
        assert a.dtype == b.dtype
        a, b = a.numpy().astype("float64"), b.numpy().astype("float64")
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * abs(b).max())


@pytest.mark.parametrize("kind", [layers.LSTM, layers.GRU])
def test_functions_give_the_bits_of_eager_calls(eager, rng, kind):
    x = tk.constant(rng.normal(size=(9, 5, 4)), "float32")
    layer = kind(10)
    layer.build(x.shape)

    def step():
        with tk.GradientTape() as tape:
            y = layer(x)
            total = tk.reduce_sum(y * y)
        return y, *tape.gradient(total, layer.trainable_variables)

    for a, b in zip(step(), tk.function(step)(), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_products_of_all_steps_are_made_on_the_pool(eager, rng, monkeypatch):
    """Threads of BLAS wait for each other, which beside busy processes took most of a step."""
    sizes, found = [], recurrent_tuned.pooled_product
    monkeypatch.setattr(
        recurrent_tuned,
        "pooled_product",
        lambda x, w: (sizes.append((*x.shape, w.shape[1])), found(x, w))[1],
    )
    batch, steps, units = 17, 5, 33
    states = (batch, units)
    inputs = floats(rng, (batch, steps, 4 * units), states, states, (units, 4 * units))
    kept = recurrent_tuned.lstm(*inputs)
    (by_hidden,) = floats(rng, (batch, steps, units))
    assert recurrent_tuned.lstm_gradient(by_hidden, None, *inputs[1:], *kept) is not None
    assert sizes == [(units, batch * steps, 4 * units)]
    for reset_after in (True, False):
        sizes.clear()
        projected, kernel = floats(rng, (batch, steps, 3 * units), (units, 3 * units))
        kept = recurrent_tuned.gru(projected, inputs[1], kernel, None, reset_after)
        recurrent_tuned.gru_gradient(by_hidden, inputs[1], kernel, *kept, reset_after)
        assert sorted(sizes) == [(units, batch * steps, units), (units, batch * steps, 2 * units)]


def at_each_address(array):
    """Copies whose first number is 0 to 15 numbers behind the beginning of a line of the cache."""
    room = np.empty(array.size + 32, np.float32)
    first = -room.ctypes.data % 64 // 4
    for offset in range(16):
        copy = room[first + offset :][: array.size].reshape(array.shape)
        copy[...] = array
        yield copy


@pytest.mark.parametrize("units", [16, 33])
def test_where_the_recurrent_kernel_is_read_changes_no_bits(eager, rng, units):
    """One sequence of many steps reads a copy whose rows begin at lines of the cache."""
    x, h, c, kernel = floats(rng, (1, 20, 4 * units), *[(1, units)] * 2, (units, 4 * units))
    runs = [(kernel, lambda x, kernel: recurrent_tuned.lstm(x, h, c, kernel))]
    for reset_after in (True, False):

        def run_gru(x, kernel, reset_after=reset_after):
            return recurrent_tuned.gru(x, h, kernel, None, reset_after)

        runs.append((np.ascontiguousarray(kernel[:, : 3 * units]), run_gru))
    for weights, run in runs:
        steps = np.ascontiguousarray(x[..., : weights.shape[1]])
        few = run(np.ascontiguousarray(steps[:, :15]), weights)
        for copy in at_each_address(weights):
            for a, b in zip(run(steps, copy), few, strict=True):
                np.testing.assert_array_equal(a[:, :15], b)
