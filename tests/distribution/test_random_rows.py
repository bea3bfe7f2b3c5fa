"""Random numbers by position in the global batch: replicas draw what one process would draw."""

import enum

import numpy as np
import pytest

import trainkit as tk
from trainkit.collectives.process_group import ProcessGroup
from trainkit.collectives.replica import GlobalRows, Replica
from trainkit.core.values.batch_size import BatchSize
from trainkit.ops.sampling import philox

L = tk.keras.layers
SPLITS = [(4, 4), (3, 5), (1, 6, 1), (0, 7, 1), (2, 2, 2, 2)]


class Other(ProcessGroup):
    """A group whose other processes do nothing."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size


def replicas(sizes):
    start, total = 0, sum(sizes)
    for rank, size in enumerate(sizes):
        yield (
            slice(start, start + size),
            Replica(Other(rank, len(sizes)), GlobalRows(start, size, total)),
        )
        start += size


STATE = np.array([2**64 - 3, 5, 1234567], np.uint64)
DRAWS = [
    ("uniform", philox.philox_uniform, {"dtype": "float32"}),
    ("uniform scaled", philox.philox_uniform, {"dtype": "float32", "scale": 3.0, "offset": -1.0}),
    ("uniform float64", philox.philox_uniform, {"dtype": "float64"}),
    ("uniform float16", philox.philox_uniform, {"dtype": "float16"}),
    ("normal", philox.philox_normal, {"dtype": "float32"}),
    ("normal float64", philox.philox_normal, {"dtype": "float64"}),
    ("truncated", philox.philox_truncated_normal, {"dtype": "float32"}),
    ("integers", philox.philox_integers, {"dtype": "int32", "low": -3, "high": 9}),
    ("mask", philox.philox_mask, {"dtype": "float32", "rate": 0.3, "scale": 1.4}),
    ("kept", philox.philox_kept, {"rate": 0.3}),
]


@pytest.mark.parametrize(("draw", "settings"), [d[1:] for d in DRAWS], ids=[d[0] for d in DRAWS])
@pytest.mark.parametrize("inner", [(), (1,), (3,), (5, 7), (3001,)])
@pytest.mark.parametrize("multiple", [1, 3])
def test_rows_are_cut_out_of_the_draw_for_the_whole_batch(draw, settings, inner, multiple):
    total = 8 * multiple
    whole, after = draw(STATE, shape=(total, *inner), **settings)
    for sizes in SPLITS:
        start = 0
        for size in sizes:
            if size == 0 and multiple > 1:
                continue  # nothing tells how many numbers a row has
            shape = (size * multiple, *inner)
            part, state = draw(STATE, shape=shape, rows=(start, size, 8), **settings)
            first = start * multiple
            np.testing.assert_array_equal(part.numpy(), whole.numpy()[first : first + shape[0]])
            np.testing.assert_array_equal(state.numpy(), after.numpy())
            start += size


LAYERS = {
    "dropout": (lambda: L.Dropout(0.4, seed=1), (8, 5)),
    "dropout shared by steps": (lambda: L.Dropout(0.4, (None, 1, 3), seed=1), (8, 5, 3)),
    "dropout shared by rows": (lambda: L.Dropout(0.4, (1, 5), seed=1), (8, 5)),
    "spatial": (lambda: L.SpatialDropout2D(0.4, seed=1), (8, 3, 3, 5)),
    "noise": (lambda: L.GaussianNoise(0.5, seed=1), (8, 5)),
    "gaussian dropout": (lambda: L.GaussianDropout(0.5, seed=1), (8, 5, 3)),
    "alpha": (lambda: L.AlphaDropout(0.5, seed=1), (8, 5)),
    "alpha shared by rows": (lambda: L.AlphaDropout(0.5, (1, 5), seed=1), (8, 5)),
    "lstm": (lambda: L.LSTM(3, dropout=0.3, recurrent_dropout=0.2, seed=1), (8, 6, 5)),
    "lstm over time": (lambda: L.LSTM(3, dropout=0.3, seed=1, return_sequences=True), (8, 6, 5)),
    "attention": (lambda: SelfAttention(), (8, 6, 4)),
    "flip": (lambda: L.RandomFlip(seed=1), (8, 6, 6, 3)),
    "rotation": (lambda: L.RandomRotation(0.2, seed=1), (8, 6, 6, 3)),
    "erasing": (lambda: L.RandomErasing(1.0, (0.2, 0.4), seed=1), (8, 6, 6, 3)),
    "blur": (lambda: L.RandomGaussianBlur(0.5, 3, 1.0, seed=1), (8, 6, 6, 3)),
    "elastic": (lambda: L.RandomElasticTransform(0.8, 0.7, seed=1), (8, 6, 6, 3)),
    "grayscale": (lambda: L.RandomGrayscale(0.5, seed=1), (8, 6, 6, 3)),
    "jitter": (lambda: L.RandomColorJitter((0, 1), 0.3, 0.3, 0.3, 0.3, seed=1), (8, 6, 6, 3)),
    "function": (lambda: lambda x, training: tk.random.dropout(x, 0.5, seed=3), (8, 5)),
    "nn": (lambda: lambda x, training: tk.nn.dropout(x, 0.5, seed=(1, 2)), (8, 5)),
}


class SelfAttention(L.Layer):
    def __init__(self):
        super().__init__()
        self.inner = L.MultiHeadAttention(2, 3, dropout=0.4, seed=1)

    def call(self, x, training=False):
        return self.inner(x, x, training=training)


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_draw_their_rows_of_the_global_batch(name, mode):
    make, shape = LAYERS[name]
    x = np.random.default_rng(0).normal(size=shape).astype("float32")

    def outputs(part, context):
        tk.random.set_seed(7)
        layer = make()
        if hasattr(layer, "build"):
            layer(tk.constant(x), training=False)

        def call(given):
            return layer(given, training=True)

        run = tk.function(call) if mode == "compiled" else call
        with context:
            results = [run(tk.constant(x[part])).numpy() for _ in range(3)]
        generators = [w.numpy() for w in getattr(layer, "variables", ()) if w.dtype == "uint64"]
        return results, generators

    alone, state = outputs(slice(None), Replica(ProcessGroup()))
    for sizes in [(4, 4), (3, 4, 1)]:
        parts = [outputs(part, replica) for part, replica in replicas(sizes)]
        for i, whole in enumerate(alone):
            joined = np.concatenate([results[i] for results, _ in parts])
            np.testing.assert_allclose(joined, whole, rtol=1e-5, atol=1e-5)
        for _, other in parts:
            np.testing.assert_array_equal(other, state)


def test_draws_without_a_batch_are_the_same_in_all_replicas():
    def numbers(replica):
        tk.random.set_seed(3)
        with replica:
            return [
                tk.random.uniform((4, 3)).numpy(),
                tk.random.normal((4,)).numpy(),
                L.Dense(2).compute_output_shape((4, 3)),
                tk.keras.initializers.GlorotUniform()((4, 3)).numpy(),
            ]

    first, second = (numbers(replica) for _, replica in replicas((4, 4)))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


def test_losses_of_replicas_add_up_to_that_of_the_batch():
    losses = tk.constant([1.0, 3.0])
    assert float(tk.nn.compute_average_loss(losses)) == 2.0
    with Replica(Other(0, 4)):
        assert float(tk.nn.compute_average_loss(losses)) == 0.5
        assert float(tk.nn.compute_average_loss(losses, global_batch_size=4)) == 1.0
        assert float(tk.nn.scale_regularization_loss(losses)) == 1.0
    with Replica(Other(0, 4), averages=True):
        assert float(tk.nn.compute_average_loss(losses)) == 2.0
        assert float(tk.nn.scale_regularization_loss(losses)) == 4.0


def test_a_graph_with_unknown_batch_sizes_draws_the_rows():
    layer = L.Dropout(0.5, seed=1)
    spec = tk.TensorSpec((None, 5), "float32")
    call = tk.function(lambda x: layer(x, training=True), input_signature=[spec])
    x = np.ones((8, 5), "float32")
    alone = L.Dropout(0.5, seed=1)(x, training=True).numpy()
    parts = []
    for part, replica in replicas((3, 5)):
        layer.seed_generator.reset_from_seed(1)
        with replica:
            parts.append(call(tk.constant(x[part])).numpy())
    np.testing.assert_array_equal(np.concatenate(parts), alone)


def test_a_size_that_comes_from_the_batch_says_so():
    x, weight = tk.ones((4, 3)), tk.Variable(tk.ones((4, 3)))
    _, replica = next(replicas((4, 4)))
    assert type(x.shape[0]) is int
    with replica:
        sizes = [
            x.shape[0],
            tk.ops.shape(x)[0],
            x.shape[0] * 3,
            3 * x.shape[0],
            tk.concat([x, x], 0).shape[0],
        ]
        assert [type(n) for n in sizes] == [BatchSize] * 5
        assert sizes == [4, 4, 12, 12, 8]
        plain = [weight.shape[0], tk.ops.shape(weight)[0], x.shape[1], tk.ones((3, 4)).shape[0]]
        assert [type(n) for n in plain] == [int] * 4


@pytest.mark.parametrize(
    "n", [BatchSize(4), enum.IntEnum("Size", {"FOUR": 4}).FOUR], ids=["rows", "enum"]
)
def test_whole_numbers_of_other_classes_are_weak_numbers(n):
    half, counts = tk.ones((4, 3), "float16"), tk.ones((4,), "uint8")
    for result, plain in [
        (half / n, half / 4),
        (n * half, 4 * half),
        (counts + n, counts + 4),
        (tk.range(n), tk.range(4)),
        (tk.eye(n), tk.eye(4)),
        (half[:n], half[:4]),
    ]:
        assert result.dtype == plain.dtype
        np.testing.assert_array_equal(result, plain)
