"""`max_pool_with_argmax`: where the largest values of windows stand, and their gradients."""

import numpy as np
import pytest

import trainkit as tk

DTYPES = ["float16", "bfloat16", "float32", "float64"]
NAN, LOW = np.nan, -np.inf
# a line, windows of (1, n) at each stride, and TensorFlow's places: SAME pads before and after
LINES = [
    ([LOW, LOW, LOW], 2, 2, "SAME", [LOW, LOW], [0, 2]),
    ([LOW] * 4 + [0.0, LOW], 3, 1, "SAME", [LOW] * 3 + [0.0] * 3, [0, 0, 1, 4, 4, 4]),
    ([NAN, NAN, NAN], 2, 2, "SAME", [NAN, NAN], [0, 2]),
    ([LOW, LOW, 3.0, LOW], 2, 2, "VALID", [LOW, 3.0], [0, 2]),
    ([0.0, -0.0, -0.0, 0.0], 2, 2, "VALID", [0.0, -0.0], [0, 2]),
    ([1.0, 4.0, 4.0, 2.0, 4.0], 3, 2, "VALID", [4.0, 4.0], [1, 2]),
]
# NaN counts wherever it stands, as in max_pool
NAN_BEHIND_NUMBERS = ([1.0, NAN, 3.0, NAN, 2.0], 3, 2, "SAME", [NAN, NAN, NAN], [1, 1, 3])


def both_ways(call, *arguments):
    eager = call(*arguments)
    compiled = tk.function(call)
    for _ in range(2):
        for a, b in zip(eager, compiled(*arguments), strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            assert a.numpy().tobytes() == b.numpy().tobytes()
    return eager


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("line", [*LINES, NAN_BEHIND_NUMBERS], ids=str)
def test_places_are_inside_of_the_image(line, dtype):
    numbers, width, step, padding, values, positions = line
    x = tk.cast(np.reshape(numbers, (1, 1, -1, 1)), dtype)

    def pool(x):
        return tk.nn.max_pool_with_argmax(x, (1, width), (1, step), padding)

    y, argmax = both_ways(pool, x)
    assert y.dtype == dtype
    np.testing.assert_array_equal(tk.cast(y, "float32").numpy().ravel(), values)
    assert argmax.numpy().ravel().tolist() == positions


def by_hand(x, window, strides, padding):
    """Values, places in the image, and places in the batch, window by window."""
    n, height, width, channels = x.shape
    if padding == "SAME":
        out = [-(-size // s) for size, s in zip((height, width), strides, strict=True)]
        need = [
            max((o - 1) * s + k - size, 0)
            for o, s, k, size in zip(out, strides, window, (height, width), strict=True)
        ]
    else:
        need = [0, 0]
        out = [(a - k) // s + 1 for a, k, s in zip((height, width), window, strides, strict=True)]
    y = np.empty((n, *out, channels), x.dtype)
    argmax = np.empty(y.shape, np.int64)
    for b, i, j, c in np.ndindex(*y.shape):
        best = None
        for k, m in np.ndindex(*window):
            row, column = (i * strides[0] + k - need[0] // 2, j * strides[1] + m - need[1] // 2)
            if not (0 <= row < height and 0 <= column < width):
                continue
            value = x[b, row, column, c]
            if best is None or value > best or (np.isnan(value) and not np.isnan(best)):
                best = value
                y[b, i, j, c] = value
                argmax[b, i, j, c] = (row * width + column) * channels + c
    return y, argmax, argmax + np.arange(n).reshape(-1, 1, 1, 1) * height * width * channels


CASES = [
    ((2, 5, 6, 3), (2, 2), (2, 2), "SAME"),
    ((2, 5, 6, 3), (3, 2), (1, 2), "SAME"),
    ((3, 6, 4, 17), (2, 2), (2, 2), "VALID"),
    ((1, 7, 7, 1), (2, 3), (3, 4), "SAME"),
    ((2, 3, 3, 40), (3, 3), (2, 1), "VALID"),
]


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("dtype", [*DTYPES, "int32"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_places_beside_those_by_hand(rng, case, dtype):
    shape, window, strides, padding = case
    numbers = rng.integers(-3, 3, shape).astype("float64")
    if dtype != "int32":
        numbers.flat[::5], numbers.flat[1::17] = LOW, NAN
        numbers[-1] = LOW
    values, positions, in_batch = by_hand(numbers, window, strides, padding)
    x = tk.cast(numbers, dtype)
    for batch_counts, expected in (False, positions), (True, in_batch):
        for kind in "int64", "int32":

            def pool(x, kind=kind, batch_counts=batch_counts):
                return tk.nn.max_pool_with_argmax(
                    x, window, strides, padding, "NHWC", kind, batch_counts
                )

            y, argmax = both_ways(pool, x)
            assert (y.dtype, argmax.dtype) == (dtype, kind)
            np.testing.assert_array_equal(tk.cast(y, "float64").numpy(), values)
            np.testing.assert_array_equal(argmax.numpy(), expected)


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_go_to_the_places(rng, case, dtype):
    shape, window, strides, padding = case
    numbers = rng.integers(-3, 3, shape).astype("float64")
    numbers[0] = LOW
    numbers[-1, 0, 0, 0] = NAN
    values, _, in_batch = by_hand(numbers, window, strides, padding)
    slopes = rng.integers(-4, 5, values.shape)  # whose sums are exact in all dtypes
    total = np.zeros(shape)
    np.add.at(total.reshape(-1), in_batch.ravel(), slopes.ravel())
    x, g = tk.cast(numbers, dtype), tk.cast(slopes, dtype)

    def back(x, g):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y, _ = tk.nn.max_pool_with_argmax(x, window, strides, padding)
        return [tape.gradient(y, x, g)]

    (gradient,) = both_ways(back, x, g)
    assert gradient.dtype == dtype
    np.testing.assert_array_equal(tk.cast(gradient, "float64").numpy(), total)


def test_second_gradients(rng):
    x = tk.constant(rng.normal(size=(2, 4, 4, 2)))

    def second(x):
        with tk.GradientTape() as outer:
            outer.watch(x)
            with tk.GradientTape() as inner:
                inner.watch(x)
                y = tk.reduce_sum(tk.nn.max_pool_with_argmax(x, 2, 2, "VALID")[0] ** 3)
            slope = tk.reduce_sum(inner.gradient(y, x) ** 2)
        return [outer.gradient(slope, x)]

    (curvature,) = both_ways(second, x)
    largest = tk.reduce_max(tk.reshape(x, (2, 2, 2, 2, 2, 2)), (2, 4), keepdims=True).numpy()
    expected = np.where(
        x.numpy().reshape(2, 2, 2, 2, 2, 2) == largest, 36 * largest**3, 0.0
    ).reshape(x.shape)
    np.testing.assert_allclose(curvature.numpy(), expected)


@pytest.mark.parametrize("batch_counts", [False, True])
def test_images_whose_sizes_are_unknown(rng, batch_counts):
    @tk.function(input_signature=[tk.TensorSpec([None] * 4, "float32")])
    def pool(x):
        return tk.nn.max_pool_with_argmax(x, 2, 2, "SAME", include_batch_in_index=batch_counts)

    for shape in (2, 5, 4, 3), (3, 4, 6, 2), (1, 1, 1, 1):
        x = rng.normal(size=shape).astype("float32")
        expected = by_hand(x, (2, 2), (2, 2), "SAME")
        y, argmax = pool(x)
        np.testing.assert_array_equal(y.numpy(), expected[0])
        np.testing.assert_array_equal(argmax.numpy(), expected[1 + batch_counts])


@pytest.mark.usefixtures("mode")
@pytest.mark.parametrize("shape", [(0, 4, 4, 2), (2, 4, 4, 0)])
def test_no_images_and_no_channels(shape):
    x = tk.zeros(shape)
    with tk.GradientTape() as tape:
        tape.watch(x)
        y, argmax = tk.nn.max_pool_with_argmax(x, 2, 2, "VALID", include_batch_in_index=True)
    assert y.shape == argmax.shape == (shape[0], 2, 2, shape[3])
    assert tape.gradient(y, x).shape == shape


def test_each_image_of_a_stack(rng):
    x = tk.constant(rng.normal(size=(3, 2, 4, 5, 2)).astype("float32"))

    def pool(x):
        return tk.nn.max_pool_with_argmax(x, 2, 2, "SAME")

    for stacked, single in zip(
        tk.vectorized_map(pool, x), zip(*map(pool, x), strict=True), strict=True
    ):
        np.testing.assert_array_equal(stacked.numpy(), np.stack([one.numpy() for one in single]))


def test_arguments_that_are_not_supported():
    x = tk.zeros((1, 4, 4, 1))
    with pytest.raises(ValueError, match=r"NCHW.*use NHWC"):
        tk.nn.max_pool_with_argmax(x, 2, 2, "SAME", "NCHW")
    with pytest.raises(ValueError, match=r"int16.*use int32 or int64"):
        tk.nn.max_pool_with_argmax(x, 2, 2, "SAME", output_dtype="int16")
    with pytest.raises(ValueError, match="'FULL'; use 'SAME' or 'VALID'"):
        tk.nn.max_pool_with_argmax(x, 2, 2, "FULL")
    with pytest.raises(ValueError, match="ksize 0 must be one int above 0"):
        tk.nn.max_pool_with_argmax(x, 0, 2, "SAME")
    with pytest.raises(ValueError, match="batch and channels can only have 1"):
        tk.nn.max_pool_with_argmax(x, 2, (2, 2, 2, 1), "SAME")
    with pytest.raises(tk.errors.ShapeError, match=r"needs \(batch, height, width, channels\)"):
        tk.nn.max_pool_with_argmax(x[0], 2, 2, "SAME")
    with pytest.raises(tk.errors.ShapeError, match="the window spans 5 positions"):
        tk.nn.max_pool_with_argmax(x, 5, 1, "VALID")
