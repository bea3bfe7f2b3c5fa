"""`keras.backend` as programs from before Keras 3 use it: `K.mean(K.square(x))`."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.keras import backend as K

X = np.linspace(-1.0, 1.5, 12, dtype="float32").reshape(3, 4)
IMAGES = np.arange(96, dtype="float32").reshape(2, 4, 4, 3)
P = np.array([[0.2, 0.5, 0.3], [0.7, 0.1, 0.2]], "float32")
ONE = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], "float32")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (lambda: K.mean(K.square(X), axis=-1, keepdims=True), (X**2).mean(-1, keepdims=True)),
        (lambda: K.sum(X), X.sum()),
        (lambda: K.std(X, axis=0), X.std(0)),
        (lambda: K.argmax(X), X.argmax(-1)),
        (lambda: K.argmin(X, axis=0), X.argmin(0)),
        (lambda: K.cumsum(X), X.cumsum(0)),
        (lambda: K.clip(X, -0.5, None), X.clip(-0.5, None)),
        (lambda: K.clip(X, 0.5, 0.0), np.full_like(X, 0.5)),
        (lambda: K.pow(X, 3), X**3),
        (lambda: K.concatenate([X, X]), np.concatenate([X, X], -1)),
        (lambda: K.permute_dimensions(X, (1, 0)), X.T),
        (lambda: K.flatten(X), X.reshape(-1)),
        (lambda: K.batch_flatten(IMAGES), IMAGES.reshape(2, -1)),
        (lambda: K.expand_dims(X), X[..., None]),
        (lambda: K.reverse(X, 1), X[:, ::-1]),
        (lambda: K.reverse(X, [0, 1]), X[::-1, ::-1]),
        (lambda: K.repeat(X, 2), np.repeat(X[:, None], 2, 1)),
        (lambda: K.repeat_elements(X, 2, axis=1), X.repeat(2, 1)),
        (lambda: K.tile(X, [2, 1]), np.tile(X, (2, 1))),
        (lambda: K.arange(5), np.arange(5)),
        (lambda: K.gather(X, [2, 0]), X[[2, 0]]),
        (lambda: K.dot(X, X.T), X @ X.T),
        (lambda: K.dot(X, np.ones((2, 4, 5), "float32")), np.dot(X, np.ones((2, 4, 5)))),
        (lambda: K.hard_sigmoid(X * 3), np.clip(X * 0.6 + 0.5, 0, 1)),
        (lambda: K.relu(X, alpha=0.1, max_value=1.0), np.where(X < 0, 0.1 * X, X.clip(None, 1.0))),
        (lambda: K.relu(X, threshold=0.5), np.where(X > 0.5, X, 0)),
        (lambda: K.bias_add(IMAGES, [1.0, 2.0, 3.0]), IMAGES + np.arange(1, 4)),
        (
            lambda: K.bias_add(IMAGES, [1.0, 2.0, 3.0, 4.0], "channels_first"),
            IMAGES + np.arange(1, 5).reshape(-1, 1, 1),
        ),
        (lambda: K.batch_normalization(X, 1.0, 4.0, 2.0, 3.0, epsilon=0.0), (X - 1) / 2 * 3 + 2),
        (lambda: K.binary_crossentropy(ONE, P), -np.log(np.where(ONE == 1, P, 1 - P))),
        (lambda: K.categorical_crossentropy(ONE, P), -np.log([0.5, 0.7])),
        (lambda: K.sparse_categorical_crossentropy([1, 0], P), -np.log([0.5, 0.7])),
        (
            lambda: K.sparse_categorical_crossentropy([1, -1], P, ignore_class=-1),
            [-np.log(0.5), 0.0],
        ),
        (
            lambda: K.binary_focal_crossentropy(ONE, P),
            -((1 - np.where(ONE == 1, P, 1 - P)) ** 2) * np.log(np.where(ONE == 1, P, 1 - P)),
        ),
        (
            lambda: K.categorical_focal_crossentropy(ONE, P),
            [-0.25 * 0.25 * np.log(0.5), -0.25 * 0.09 * np.log(0.7)],
        ),
        (lambda: K.in_top_k(P, [1, 2], 1), [True, False]),
        (lambda: K.spatial_2d_padding(IMAGES), np.pad(IMAGES, ((0, 0), (1, 1), (1, 1), (0, 0)))),
        (
            lambda: K.spatial_2d_padding(IMAGES, ((1, 0), (0, 2)), "channels_first"),
            np.pad(IMAGES, ((0, 0), (0, 0), (1, 0), (0, 2))),
        ),
        (
            lambda: K.temporal_padding(IMAGES[0], (2, 0)),
            np.pad(IMAGES[0], ((0, 0), (2, 0), (0, 0))),
        ),
        (lambda: K.resize_images(IMAGES, 2, 3, "channels_last"), IMAGES.repeat(2, 1).repeat(3, 2)),
        (lambda: K.resize_images(IMAGES, 2, 2, "channels_first"), IMAGES.repeat(2, 2).repeat(2, 3)),
        (
            lambda: K.resize_volumes(IMAGES[None], 2, 1, 3, "channels_last"),
            IMAGES[None].repeat(2, 1).repeat(3, 3),
        ),
        (lambda: K.pool2d(IMAGES, (4, 4), pool_mode="avg"), IMAGES.mean((1, 2), keepdims=True)),
        (lambda: K.pool2d(IMAGES, (4, 4)), IMAGES.max((1, 2), keepdims=True)),
        (lambda: K.switch(True, X, X * 2), X),
        (lambda: K.switch(tk.constant(0.0), X, lambda: X * 2), X * 2),
        (lambda: K.switch(X > 0, X, X * 2), np.where(X > 0, X, X * 2)),
        (
            lambda: K.switch(tk.constant([[True], [False], [True]]), X, X * 2),
            X * np.array([[1], [2], [1]]),
        ),
        (lambda: K.map_fn(lambda row: row * 2, tk.constant(X)), X * 2),
        (lambda: K.foldl(lambda a, b: a + b, tk.constant(X)), X.sum(0)),
    ],
)
def test_values(found, expected):
    np.testing.assert_allclose(found().numpy(), expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("x", "y", "axes", "letters"),
    [
        ((5, 3, 4), (5, 4, 2), None, "zab,zbc->zac"),
        ((5, 4), (5, 4), None, "za,za->z"),
        ((5, 3, 4), (5, 4), None, "zab,zb->za"),
        ((5, 1, 6), (5, 3, 6), 2, "zab,zcb->zac"),
        ((5, 3, 4), (5, 2, 3), (1, 2), "zab,zca->zbc"),
        ((5, 3, 4, 2), (5, 4, 7), (2, 1), "zabc,zbd->zacd"),
    ],
)
def test_products_of_each_row_of_a_batch(x, y, axes, letters):
    draw = np.random.default_rng(0)
    a, b = draw.normal(size=x), draw.normal(size=y)
    expected = np.einsum(letters, a, b)
    if expected.ndim == 1:
        expected = expected[:, None]
    np.testing.assert_allclose(K.batch_dot(a, b, axes).numpy(), expected)


def test_variables_have_the_default_float_type_and_are_updated():
    x = K.variable([[1, 2]], name="x")
    assert (K.dtype(x), K.int_shape(x), K.ndim(x), K.count_params(x)) == ("float32", (1, 2), 2, 2)
    K.update_add(x, [[1, 1]])
    K.update_sub(x, [[0, 1]])
    np.testing.assert_array_equal(K.get_value(x), [[2, 2]])
    K.set_value(x, np.array([[5.0, 6.0]]))
    K.moving_average_update(x, [[7.0, 8.0]], 0.75)
    np.testing.assert_array_equal(K.eval(x), [[5.5, 6.5]])
    K.batch_set_value([(x, [[1, 1]]), (K.zeros((2,)), [3, 4])])
    np.testing.assert_array_equal(K.batch_get_value([x, K.ones(2)])[0], [[1, 1]])
    assert isinstance(K.eye(3), tk.Variable)
    assert K.zeros((2, 3)).trainable


def test_a_learning_rate_is_read_and_set():
    model = tk.Sequential([tk.layers.Dense(1)])
    model.compile("adam", "mse")
    K.set_value(model.optimizer.learning_rate, 0.25)
    assert K.get_value(model.optimizer.learning_rate) == 0.25


def test_convolutions_are_those_of_ops():
    kernel = np.random.default_rng(1).normal(size=(3, 3, 3, 5)).astype("float32")
    found = K.conv2d(IMAGES, kernel, padding="same", strides=(2, 2))
    np.testing.assert_allclose(
        found.numpy(), tk.ops.conv(IMAGES, kernel, 2, "same").numpy(), rtol=1e-5
    )
    back = K.conv2d_transpose(found, kernel, (2, 4, 4, 3), strides=(2, 2), padding="same")
    assert back.shape == (2, 4, 4, 3)
    causal = K.conv1d(IMAGES[0], kernel[0], padding="causal")
    assert causal.shape == (4, 4, 5)
    np.testing.assert_allclose(causal[:, 0].numpy(), IMAGES[0][:, 0] @ kernel[0, 2], rtol=1e-5)
    assert K.depthwise_conv2d(IMAGES, kernel[..., :2]).shape == (2, 2, 2, 6)


def test_a_loss_and_a_layer_of_an_old_program_train():
    def dice(y_true, y_pred):
        y_true, y_pred = K.flatten(y_true), K.flatten(y_pred)
        both = K.sum(y_true * y_pred)
        return 1 - (2 * both + K.epsilon()) / (K.sum(y_true) + K.sum(y_pred) + K.epsilon())

    def sampled(arguments):
        mean, log_var = arguments
        noise = K.random_normal(shape=(K.shape(mean)[0], K.int_shape(mean)[1]))
        return mean + K.exp(0.5 * log_var) * noise

    inputs = tk.keras.Input((4,))
    latent = tk.layers.Lambda(sampled, output_shape=(2,))(
        [tk.layers.Dense(2)(inputs), tk.layers.Dense(2)(inputs)]
    )
    model = tk.Model(inputs, tk.layers.Dense(1, activation="sigmoid")(latent))
    model.compile("adam", dice, metrics=[lambda a, b: K.mean(K.equal(a, K.round(b)))])
    history = model.fit(X, (X[:, :1] > 0).astype("float32"), epochs=2, verbose=0)
    assert np.isfinite(history.history["loss"]).all()


def test_text_is_read_by_connectionist_temporal_classification():
    probabilities = np.full((1, 5, 3), 0.05, "float32")
    probabilities[0, np.arange(5), [0, 0, 2, 1, 2]] = 0.9
    paths, _ = K.ctc_decode(probabilities, [5])
    np.testing.assert_array_equal(paths[0].numpy(), [[0, 1, -1, -1, -1]])
    best, _ = K.ctc_decode(probabilities, [5], greedy=False, beam_width=10, top_paths=2)
    assert len(best) == 2
    np.testing.assert_array_equal(best[0].numpy()[0, :2], [0, 1])
    cost = K.ctc_batch_cost(np.array([[0, 1]]), probabilities, np.array([[5]]), np.array([[2]]))
    other = K.ctc_batch_cost(np.array([[1, 0]]), probabilities, np.array([[5]]), np.array([[2]]))
    assert cost.shape == (1, 1)
    assert float(cost[0, 0]) < float(other[0, 0])


def test_random_numbers_have_their_shapes_and_types():
    assert K.random_normal((2, 3), dtype="float64").dtype == "float64"
    assert set(np.unique(K.random_bernoulli((50,), 0.5).numpy())) == {0.0, 1.0}
    assert float(K.max(K.abs(K.truncated_normal((100,))))) <= 2.0
    assert K.random_uniform_variable((2,), 3.0, 4.0).numpy().min() >= 3.0
    assert K.dropout(K.ones((4,)), 0.5).shape == (4,)


def test_gradients_are_those_of_a_graph():
    square = tk.function(lambda x: K.gradients(K.sum(x * x), [x])[0])
    np.testing.assert_array_equal(square(tk.constant(X)), 2 * np.asarray(X))
    with pytest.raises(RuntimeError, match="GradientTape"):
        K.gradients(X, X)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: K.batch_dot(X, X, axes=0), "axis 0 is that of the batch"),
        (lambda: K.batch_dot(X, X[:2]), "sizes of the axes and of the batches"),
        (lambda: K.repeat(IMAGES, 2), "two axes"),
        (lambda: K.switch(X > 0, X[0], X[0]), "more axes"),
        (lambda: K.bias_add(X, np.ones((2, 2, 2))), "1 or 1 axes"),
        (lambda: K.pool2d(IMAGES, 2, pool_mode="min"), "'max' or 'avg'"),
        (lambda: K.resize_images(IMAGES, 2, 2, "NHWC"), "channels_last"),
        (lambda: K.batch_normalization(X, 0, 1, 0, 1, axis=0), "the last one"),
        (lambda: K.meann, "did you mean 'mean'"),
    ],
)
def test_mistakes_are_explained(call, words):
    with pytest.raises(
        (tk.errors.InvalidArgumentError, tk.errors.UnimplementedError, AttributeError), match=words
    ):
        call()


def test_names_are_listed():
    assert {"mean", "dot", "ctc_decode", "floatx", "clear_session"} <= set(dir(K))


def test_ranges_of_floats_are_floats_unless_a_dtype_is_asked_for():
    halves = K.arange(1, 3, 0.5)
    assert halves.dtype == tk.float32
    np.testing.assert_allclose(halves, [1.0, 1.5, 2.0, 2.5])
    assert K.arange(3).dtype == tk.int32
    assert K.arange(3, dtype="int64").dtype == tk.int64
    assert K.arange(0.0, 2.0, dtype="float64").dtype == tk.float64
    assert K.arange(-2).shape == (0,)
