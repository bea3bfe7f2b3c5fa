"""Sizes and counts that are tensors, and data of sizes not known yet, inside of functions."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import keras, ops
from trainkit.core import nest
from trainkit.core.errors import ShapeError

X = tk.constant(np.arange(6.0, dtype="float32").reshape(2, 3))
IMAGE = tk.constant(np.arange(24.0, dtype="float32").reshape(1, 3, 4, 2))
V = tk.constant(np.array([0.0, 2.0, 3.0], "float32"))

COUNTS = {
    "zeros": lambda n: ops.zeros((n, 2)),
    "ones": lambda n: ops.ones((n, 2), "int8"),
    "full": lambda n: ops.full((2, n), 3.0),
    "full_of_a_row": lambda n: ops.full((n, 2), ops.ones((2,))),
    "zeros_of_a_vector": lambda n: ops.zeros(ops.stack([n, n])),
    "eye": lambda n: ops.eye(n),
    "eye_wide": lambda n: ops.eye(2, n, k=1),
    "identity": lambda n: ops.identity(n, "int32"),
    "tri": lambda n: ops.tri(n),
    "linspace": lambda n: ops.linspace(0.0, 1.0, n),
    "linspace_step": lambda n: ops.linspace([0.0, 1.0], [1.0, 3.0], n, retstep=True, axis=1),
    "logspace": lambda n: ops.logspace(0.0, 1.0, n),
    "geomspace": lambda n: ops.geomspace(1.0, 8.0, n),
    "repeat": lambda n: ops.repeat(X, n, axis=1),
    "repeat_all": lambda n: ops.repeat(X, n),
    "roll": lambda n: ops.roll(X, n, axis=1),
    "tril": lambda n: ops.tril(X, k=n - 2),
    "triu": lambda n: ops.triu(X, k=n - 2),
    "slice": lambda n: ops.slice(X, [0, 0], [1, n]),
    "meshgrid": lambda n: ops.meshgrid(ops.arange(n), ops.arange(2)),
    **{
        name: lambda n, name=name: getattr(ops, name)(n)
        for name in ("bartlett", "blackman", "hamming", "hanning")
    },
    "kaiser": lambda n: ops.kaiser(n, 2.0),
    "pad": lambda n: ops.pad(X, [[0, n], [1, 0]]),
    "pad_mirrored": lambda n: ops.pad(X, ops.stack([[0, 1], [n - 1, 0]]), mode="reflect"),
    "top_k": lambda n: ops.top_k(X, n),
    "in_top_k": lambda n: ops.in_top_k([0, 2], X, n),
    "split": lambda n: ops.split(X, [1, n], axis=1),
    **{
        f"segment_{name}": lambda n, name=name: getattr(ops, f"segment_{name}")(X, [0, 0], n)
        for name in ("sum", "max", "min", "prod")
    },
    "bincount": lambda n: ops.bincount([0, 1, 1], minlength=n),
    "bincount_weights": lambda n: ops.bincount([0, 1], weights=[0.5, 2.0], minlength=n),
    "one_hot": lambda n: ops.one_hot([0, 2], n, axis=0),
    "multi_hot": lambda n: ops.multi_hot([[0, 2]], n),
    "extract_sequences": lambda n: ops.extract_sequences(X, n, 1),
    "diagonal": lambda n: ops.diagonal(X, offset=n - 2),
    "diag": lambda n: ops.diag(V, k=n),
    "diag_of_a_matrix": lambda n: ops.diag(X, k=n - 1),
    "unravel_index": lambda n: ops.unravel_index([1, 2], (n, 3)),
    "vander": lambda n: ops.vander(V, n),
    "resize": lambda n: ops.image.resize(IMAGE, (2 * n, n)),
    "crop_images": lambda n: ops.image.crop_images(IMAGE, 0, 1, target_height=n, target_width=2),
    "pad_images": lambda n: ops.image.pad_images(IMAGE, n, 0, 0, 1),
    "gaussian_blur": lambda n: ops.image.gaussian_blur(IMAGE, (3, 3), (ops.cast(n, "float32"), 1)),
    "frame": lambda n: tk.signal.frame(V, n, 1),
    "band_part": lambda n: tk.linalg.band_part(X, n - 1, 0),
    "istft": lambda n: ops.istft((X, X), 2, 1, 4, length=n),
    "dropout": lambda n: keras.random.dropout(ops.ones((n, 2)), 0.5, noise_shape=(n, 1), seed=1),
}


def same(got, wanted):
    for one, two in zip(nest.flatten(got), nest.flatten(wanted), strict=True):
        assert one.dtype == two.dtype
        assert one.shape == two.shape
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("name", COUNTS)
def test_counts_that_are_tensors(name):
    op = COUNTS[name]
    spec = tk.TensorSpec((None, 1))
    traced = tk.function(lambda x: op(ops.shape(x)[0]), input_signature=[spec])
    for n in (3, 1, 2):
        same(traced(tk.zeros((n, 1))), op(n))


DATA = {
    "kron": (lambda a: ops.kron(a, a), X, (None, None), 2),
    "kron_of_ranks": (lambda a: ops.kron(a, [1.0, 2.0]), X, (2, None), 2),
    "array_split": (lambda a: ops.array_split(a, 2, axis=1), X, (2, None), 2),
    "vander": (lambda a: ops.vander(a), V, (None,), 2),
    "vander_rising": (lambda a: ops.vander(a, increasing=True), V, (None,), 2),
    "meshgrid": (lambda a: ops.meshgrid(a, a[:2]), V, (None,), 2),
    "meshgrid_ij": (lambda a: ops.meshgrid(a, a[:2], a, indexing="ij"), V, (None,), 3),
    "meshgrid_of_matrices": (lambda a: ops.meshgrid(a, a), X, (None, 3), 2),
}


@pytest.mark.parametrize("name", DATA)
def test_data_of_unknown_sizes(name):
    op, x, sizes, rank = DATA[name]
    traced = tk.function(op, input_signature=[tk.TensorSpec(sizes)])
    with tk.GradientTape(persistent=True) as tape:
        tape.watch(x)
        got, wanted = traced(x), op(x)
    same(got, wanted)
    np.testing.assert_allclose(tape.gradient(got, x), tape.gradient(wanted, x))
    symbol = keras.Input(batch_shape=sizes)
    results = op(symbol)
    assert {len(y.shape) for y in nest.flatten(results)} == {rank}
    model = keras.Model(symbol, results)
    same(model(x), wanted)
    same(keras.Model.from_config(model.get_config())(x), wanted)


def test_layers_make_matrices_of_the_size_of_their_input():
    n = keras.layers.Lambda(lambda x: ops.tril(ops.ones((ops.shape(x)[1],) * 2), k=-1))
    symbol = keras.Input((None, 3))
    model = keras.Model(symbol, n(symbol))
    np.testing.assert_array_equal(model(np.ones((1, 2, 3), "float32")), [[0, 0], [1, 0]])


def test_axes_of_a_symbol_that_go_away_are_known_to_have_size_one():
    with pytest.raises(ShapeError, match="no known size"):
        ops.squeeze(keras.KerasTensor((None, 1)), axis=0)
    assert tuple(ops.squeeze(keras.KerasTensor((None, 1)), axis=-1).shape) == (None,)
    traced = tk.function(lambda x: ops.squeeze(x, 0), input_signature=[tk.TensorSpec((None, 2))])
    assert traced(tk.zeros((1, 2))).shape == (2,)


def test_places_in_a_sequence_of_unknown_length_are_int64():
    assert ops.searchsorted(V, [1.0, 9.0]).dtype == "int32"
    assert ops.searchsorted(keras.KerasTensor((None,)), keras.KerasTensor((2,))).dtype == "int64"
    traced = tk.function(ops.searchsorted, input_signature=[tk.TensorSpec((None,))] * 2)
    found = traced(V, tk.constant([1.0, 9.0]))
    assert found.dtype == "int64"
    assert found.numpy().tolist() == [1, 3]
    traced = tk.function(ops.digitize, input_signature=[tk.TensorSpec((None,))] * 2)
    assert traced(tk.constant([1.0, 9.0]), V).dtype == "int32"


def test_gradients_go_through_what_is_padded_later():
    def loss(n):
        with tk.GradientTape() as tape:
            tape.watch(X)
            y = ops.sum(ops.pad(X, [[0, n], [1, 0]]) ** 2)
        return tape.gradient(y, X)

    traced = tk.function(loss, input_signature=[tk.TensorSpec((), "int32")])
    np.testing.assert_allclose(traced(tk.constant(2)), 2 * X)


def test_how_a_symbol_is_blurred_may_be_a_symbol():
    sizes, sigma = keras.Input(batch_shape=(2,), dtype="int32"), keras.Input(batch_shape=(2,))
    images = keras.Input((3, 4, 2))
    blurred = ops.image.gaussian_blur(images, sizes, sigma)
    assert tuple(blurred.shape) == (None, 3, 4, 2)
    model = keras.Model([images, sizes, sigma], blurred)
    got = model([IMAGE, np.array([3, 3], "int32"), np.array([0.5, 1.0], "float32")])
    np.testing.assert_allclose(got, ops.image.gaussian_blur(IMAGE, (3, 3), (0.5, 1.0)), rtol=1e-6)


def test_the_number_of_pieces_must_be_known():
    traced = tk.function(lambda n: ops.split(X, n), input_signature=[tk.TensorSpec((), "int32")])
    with pytest.raises(ValueError, match="how many pieces there are must be known"):
        traced(tk.constant(2))


@pytest.mark.parametrize("unique", [tk.unique, tk.unique_with_counts])
def test_different_values_have_no_gradient_in_functions_either(unique):
    v = tk.Variable([1.0, 2.0, 2.0])

    def slope():
        with tk.GradientTape() as tape:
            y = unique(v)[0] * 2.0
        return tape.gradient(y, v)

    assert slope() is None
    assert tk.function(slope)() is None


@pytest.mark.parametrize("name", ["quantile", "percentile", "nanquantile", "nanpercentile"])
def test_shares_that_are_read_as_values_have_no_gradient_in_functions_either(name):
    def slopes(x, q):
        with tk.GradientTape() as tape:
            tape.watch([x, q])
            y = getattr(ops, name)(x, q)
        return tape.gradient(y, [x, q])

    eager, graph = slopes(V, tk.constant(0.5)), tk.function(slopes)(V, tk.constant(0.5))
    assert eager[1] is None
    assert graph[1] is None
    np.testing.assert_array_equal(eager[0].numpy(), graph[0].numpy())


def test_offsets_that_are_tensors_have_no_gradient_and_floats_are_refused_in_functions_too():
    def slopes(x, k):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = ops.tril(x, k)
        return tape.gradient(y, [x, k])

    for slope in (slopes, tk.function(slopes)):
        by_x, by_k = slope(X, tk.constant(0))
        assert by_x.numpy().tolist() == [[1, 0, 0], [1, 1, 0]]
        assert by_k is None
        with pytest.raises(tk.errors.InvalidArgumentError, match="tril: k must be a whole number"):
            slope(X, tk.constant(0.0))
