"""Arguments of TensorFlow's functions that complete a family; numbers are TensorFlow 2.21's."""

import numpy as np
import pytest

import trainkit as tk


@pytest.mark.parametrize("wrap", [lambda f: f, tk.function], ids=["eager", "traced"])
def test_silu_with_a_factor(wrap):
    def both(x, beta):
        with tk.GradientTape() as tape:
            tape.watch([x, beta])
            y = tk.nn.silu(x, beta)
        return y, tape.gradient(y, [x, beta])

    y, (by_x, by_beta) = wrap(both)(tk.constant([1.0, 2.0]), tk.constant(2.0))
    np.testing.assert_allclose(y, [0.8807971, 1.9640275], rtol=1e-6)
    np.testing.assert_allclose(by_x, [1.0907842, 1.0526646], rtol=1e-6)
    np.testing.assert_allclose(by_beta, 0.17564452, rtol=1e-5)
    np.testing.assert_allclose(
        tk.nn.swish([1.0, 2.0], beta=0.5), [0.62245935, 1.4621172], rtol=1e-6
    )
    np.testing.assert_allclose(tk.nn.silu([1.0]), [0.7310586], rtol=1e-6)


@pytest.mark.parametrize("stride", [2, [2], [1, 2, 1]])
def test_conv1d_takes_a_stride(stride):
    x, w = tk.ones((1, 5, 2)), tk.ones((2, 2, 1))
    y = tk.nn.conv1d(x, w, stride=stride, padding="SAME")
    assert y.numpy().tolist() == [[[4.0], [4.0], [2.0]]]
    assert tk.nn.conv1d(x, w, stride, "VALID").shape == [1, 2, 1]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [[0, 1, 2], [1, 2, 0]]),
        ({"minlength": 5}, [[0, 1, 2, 0, 0], [1, 2, 0, 0, 0]]),
        ({"maxlength": 2}, [[0, 1], [1, 2]]),
        ({"binary_output": True}, [[0, 1, 1], [1, 1, 0]]),
        ({"weights": np.float32([[1, 2, 3], [4, 5, 6]])}, [[0, 1, 5], [4, 11, 0]]),
    ],
)
@pytest.mark.parametrize("wrap", [lambda f: f, tk.function], ids=["eager", "traced"])
def test_bincount_of_each_row(settings, expected, wrap):
    x = tk.constant([[1, 2, 2], [0, 1, 1]])
    assert wrap(lambda v: tk.math.bincount(v, axis=-1, **settings))(x).numpy().tolist() == expected


def test_bincount_of_nothing():
    empty = tk.constant([], dtype="int32")
    assert tk.math.bincount(empty).numpy().tolist() == []
    assert tk.math.bincount(empty, minlength=3).numpy().tolist() == [0, 0, 0]
    assert tk.math.bincount(tk.zeros((0, 3), "int32"), axis=-1).shape[0] == 0


IMAGE = np.arange(32.0, dtype=np.float32).reshape(1, 4, 4, 2)


def test_resizing_by_areas():
    method = tk.image.ResizeMethod.AREA
    halves = tk.image.resize(IMAGE, (2, 2), method)
    np.testing.assert_allclose(halves[0, :, :, 0], [[5, 9], [21, 25]])
    more = tk.image.resize(IMAGE, (6, 6), "area")
    np.testing.assert_allclose(more[0, 0, :, 0], [0, 1, 2, 4, 5, 6], atol=1e-5)
    other = tk.image.resize(IMAGE, (3, 5), method)
    np.testing.assert_allclose(other[0, 0, :, 0], [2, 3.5, 5, 6.5, 8], rtol=1e-5)
    assert tk.image.resize(IMAGE.astype("uint8"), (2, 2), "area").dtype == tk.float32


@pytest.mark.parametrize("method", ["area", "bilinear", "nearest", "gaussian"])
def test_resizing_to_a_size_that_is_a_tensor(method):
    f = tk.function(lambda x, size: tk.image.resize(x, size, method))
    found = f(tk.constant(IMAGE), tk.constant([3, 5]))
    np.testing.assert_allclose(found, tk.image.resize(IMAGE, (3, 5), method), rtol=1e-6)


def test_an_empty_name_leaves_all_scopes():
    with tk.name_scope("a") as outer, tk.name_scope("") as none:
        with tk.name_scope("b") as inner:
            assert (outer, none, inner) == ("a/", "", "b/")
    with tk.name_scope("a"):
        with tk.name_scope(""):
            pass
        with tk.name_scope("c") as again:
            assert again == "a/c/"


@pytest.mark.parametrize("wrap", [lambda f: f, tk.function], ids=["eager", "traced"])
def test_grad_pass_through_over_variables(wrap):
    v = tk.Variable(3.0)

    def both(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = tk.grad_pass_through(lambda z: z * v * 0.0 + 7.0)(x)
        return y, tape.gradient(y, [x, v])

    y, (by_x, by_v) = wrap(both)(tk.constant(2.0))
    assert (float(y), float(by_x), by_v) == (7.0, 1.0, None)


def test_grad_pass_through_an_assignment():
    v, w = tk.Variable(1.0), tk.Variable(2.0)
    with tk.GradientTape() as tape:
        z = tk.grad_pass_through(v.assign)(w * 5.0)
    assert float(v) == 10.0
    assert float(tape.gradient(z, w)) == 5.0


@pytest.mark.parametrize("wrap", [lambda f: f, tk.function], ids=["eager", "traced"])
@pytest.mark.parametrize("root", [tk.sqrt, tk.math.rsqrt], ids=["sqrt", "rsqrt"])
@pytest.mark.parametrize("copies", [1, 9000])
def test_a_root_that_is_not_chosen_has_no_gradient(wrap, root, copies):
    def slope(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = tk.where(x > 0.0, root(x), 0.0 * x)
        return tape.gradient(y, x)

    x = np.tile(np.float32([4.0, -2.0, 0.0]), copies)
    expected = 0.25 if root is tk.sqrt else -0.0625
    np.testing.assert_allclose(wrap(slope)(tk.constant(x)), np.tile([expected, 0, 0], copies))


def test_a_root_at_zero_has_an_infinite_slope():
    x = tk.constant([0.0])
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = tk.sqrt(x)
    assert tape.gradient(y, x).numpy().tolist() == [np.inf]


@pytest.mark.parametrize("wrap", [lambda f: f, tk.function], ids=["eager", "traced"])
@pytest.mark.parametrize(
    ("dtype", "least", "greatest"),
    [("float32", -np.inf, np.inf), ("int32", -(2**31), 2**31 - 1), ("uint8", 0, 255)],
)
def test_extremes_of_no_elements(wrap, dtype, least, greatest):
    x = tk.zeros((2, 0), dtype)
    assert wrap(lambda v: tk.reduce_max(v))(x).numpy() == least
    assert wrap(lambda v: tk.reduce_min(v, axis=1))(x).numpy().tolist() == [greatest] * 2
    assert wrap(lambda v: tk.reduce_max(v, axis=0))(x).shape == [0]


def test_selu_at_zero_has_the_slope_from_above():
    x = tk.constant([0.0, -1.0])
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = tk.nn.selu(x)
    np.testing.assert_allclose(tape.gradient(y, x), [1.050701, 0.64676857], rtol=1e-6)


def test_hues_turn_between_the_darkest_and_the_brightest_channel_to_the_last_bit():
    # by TensorFlow 2.21; a channel one unit too low would be cut to the integer below
    pixels = np.array([[[7, 40, 3], [250, 10, 130]]], np.int32)
    assert tk.image.adjust_hue(pixels, 0.3).numpy().tolist() == [[[3, 14, 40], [177, 250, 10]]]
    turned = tk.image.adjust_hue(np.float32([[[-2.0, -0.5, -1.0], [0.5, -0.25, 1.5]]]), -0.35)
    expected = np.float32([[[-0.5, -1.15, -2.0], [-0.25, 1.5, 0.325]]])
    np.testing.assert_allclose(turned.numpy(), expected, atol=1e-6)
    gray = tk.image.adjust_hue(np.float32([[[0.5, 0.5, 0.5]]]), 0.4)
    assert gray.numpy().tolist() == [[[0.5, 0.5, 0.5]]]


def test_a_gaussian_ends_before_one_and_a_half_pixels():
    # the middle one of three pixels lies 1.5 from the outer ones of four; by TensorFlow 2.21
    row = np.float32([1.0, 5.0, -2.0, 7.0]).reshape(1, 4, 1, 1)
    narrow = tk.image.resize(row, (3, 1), method="gaussian").numpy().ravel()
    np.testing.assert_allclose(narrow, [1.8344342, 1.5, 5.1225247], rtol=1e-6)
