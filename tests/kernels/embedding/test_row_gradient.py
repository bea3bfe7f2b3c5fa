"""Gradients of tables by their rows: in the places and with the bits of dense ones."""

import ctypes
import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trainkit as tk
from trainkit import keras
from trainkit.kernels.embedding import embedding_tuned, row_gradient
from trainkit.kernels.embedding.row_gradient import RowGradient, pays
from trainkit.kernels.jit import kernel_code

pytestmark = pytest.mark.usefixtures("on_cpu")


@pytest.fixture(scope="module")
def add_up():
    """What adds rows up, compiled."""
    kernel = kernel_code.compiled_kernel("embedding.embedding_compiled", "sum_by_id", ())
    return functools.partial(embedding_tuned.add_up, kernel)


def read(pieces, shape):
    """The array that pieces are of, element by element from their addresses."""
    result, start = np.full(int(np.prod(shape)), np.nan, np.float32), 0
    for end, address in pieces.view(np.int64).reshape(-1, 2).tolist():
        part = (ctypes.c_float * (end - start)).from_address(address)
        result[start:end] = np.frombuffer(part, np.float32)
        start = end
    assert start == result.size
    return result.reshape(shape)


@given(st.data())
def test_pieces_have_the_bits_of_the_dense_gradient(add_up, data):
    count = data.draw(st.integers(1, 3000))
    features = data.draw(st.sampled_from([1, 3, 32, 2048]) if count < 50 else st.integers(1, 40))
    n = data.draw(st.integers(1, 60))
    ends = st.sampled_from([0, count - 1])
    id_of = st.one_of(ends, st.integers(0, count - 1))
    ids = np.array(data.draw(st.lists(id_of, min_size=n, max_size=n)))
    ids = ids.astype(data.draw(st.sampled_from([np.int32, np.int64, np.uint16])))
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    rows = rng.standard_normal((n, features)).astype(np.float32)
    rows[rng.random(rows.shape) < 0.3] = -0.0
    gradient = RowGradient(rows, ids, (count, features), add_up)
    pieces, sums = gradient.pieces()
    assert read(pieces, gradient.shape).tobytes() == gradient.dense().tobytes()
    expected = np.zeros((count, features))
    np.add.at(expected, ids, rows)
    np.testing.assert_allclose(gradient.dense(), expected, atol=1e-5)
    assert len(sums) == len(np.unique(ids))


def test_rows_pay_for_few_ids_of_a_large_table():
    table = np.zeros((50_000, 8), np.float32)
    assert pays(table, 100)
    assert not pays(table, 50_000)
    assert not pays(table, 0)
    assert not pays(table.astype(np.float64), 100)
    assert not pays(table[:100], 1)
    assert not pays(table[:0], 1)
    assert not pays(table.reshape(10, -1), 1)


# ------------------------------------------------------------------ in programs

COUNT, FEATURES, BATCH = 80_000, 8, 12
IDS = np.random.default_rng(0).integers(0, COUNT, (BATCH, 3))
IDS[0], IDS[1], IDS[2] = 0, COUNT - 1, [7, 8, 7]
TARGETS = np.random.default_rng(1).random((BATCH, 1)).astype(np.float32)
OPTIMIZERS = {
    "SGD": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "Adam": lambda: keras.optimizers.Adam(0.01),
    "AMSGrad": lambda: keras.optimizers.Adam(0.01, amsgrad=True),
    "AdamW": lambda: keras.optimizers.AdamW(0.01, weight_decay=0.1),
    "RMSprop": lambda: keras.optimizers.RMSprop(0.01, momentum=0.9, centered=True),
    "Adagrad": lambda: keras.optimizers.Adagrad(0.1),
    "averages": lambda: keras.optimizers.Adam(0.01, use_ema=True),
    "scaled": lambda: keras.mixed_precision.LossScaleOptimizer(keras.optimizers.Adam(0.01)),
}


@pytest.fixture
def rows_taken(monkeypatch):
    """The shapes of tables whose gradients were taken by rows, in order."""
    shapes, old = [], RowGradient.pieces

    def pieces(self):
        shapes.append(self.shape)
        return old(self)

    monkeypatch.setattr(RowGradient, "pieces", pieces)
    return shapes


def model_of(optimizer, run_eagerly=False, **embedding):
    keras.utils.set_random_seed(3)
    layers = [
        keras.layers.Embedding(COUNT, FEATURES, **embedding),
        keras.layers.Flatten(),
        keras.layers.Dense(1),
    ]
    model = keras.Sequential(layers)
    model.compile(optimizer, "mse", run_eagerly=run_eagerly)
    return model


def bits_of(model):
    return [np.asarray(x).tobytes() for x in (*model.weights, *model.optimizer.variables)]


def trained(optimizer, **options):
    model = model_of(optimizer, **options)
    losses = [float(model.train_on_batch((IDS + k) % COUNT, TARGETS)) for k in range(5)]
    return losses, bits_of(model)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_compiled_step_takes_rows_and_has_the_bits_of_an_eager_one(name, mode, rows_taken):
    compiled = trained(OPTIMIZERS[name]())
    # what is divided by a scale first is no gradient of rows any more
    is_dense = name == "scaled" or mode == "off"
    assert set(rows_taken) == (set() if is_dense else {(COUNT, FEATURES)})
    rows_taken.clear()
    assert trained(OPTIMIZERS[name](), run_eagerly=True) == compiled
    assert not rows_taken


@pytest.mark.parametrize("mode", ["eager"], indirect=True)
def test_what_reads_a_whole_gradient_gets_it(mode, rows_taken):
    for optimizer, options in (
        (keras.optimizers.Adam(0.01, clipnorm=0.1), {}),
        (keras.optimizers.Adam(0.01, global_clipnorm=0.1), {}),
        (keras.optimizers.Adam(0.01, clipvalue=1e-3), {}),
        (keras.optimizers.Adam(0.01), {"embeddings_regularizer": "l2"}),
        (keras.optimizers.Adam(0.01, gradient_accumulation_steps=2), {}),
    ):
        trained(optimizer, **options)
        assert not rows_taken, optimizer.get_config()


@pytest.mark.parametrize("mode", ["eager"], indirect=True)
def test_a_gradient_that_is_a_result_is_an_array(mode, rows_taken):
    table, optimizer = tk.Variable(tk.random.normal([COUNT, FEATURES])), tk.optimizers.Adam(0.01)

    @tk.function
    def step(ids):
        with tk.GradientTape() as tape:
            loss = tk.reduce_sum(tk.nn.embedding_lookup(table, ids) ** 2)
        gradient = tape.gradient(loss, table)
        optimizer.apply_gradients([(gradient, table)])
        return gradient

    for _ in range(3):
        gradient = step(tk.constant([3, 5, 3]))
    assert not rows_taken
    assert gradient.shape == (COUNT, FEATURES)
    assert np.flatnonzero(gradient.numpy().any(axis=1)).tolist() == [3, 5]


@pytest.mark.parametrize(
    ("lookup", "last"),
    [(tk.nn.embedding_lookup, 5), (tk.gather, 5), (lambda x, i: keras.ops.take(x, i, axis=0), -1)],
)
@pytest.mark.parametrize("shape", [(600_000,), (COUNT, 4, 2)], ids=str)
@pytest.mark.parametrize("mode", ["eager"], indirect=True)
def test_lookups_of_tables_with_any_axes(shape, lookup, last, mode, rows_taken):
    def steps(wrapped):
        start = np.random.default_rng(2).random(shape).astype(np.float32)
        table, optimizer = tk.Variable(start), tk.optimizers.Adam(0.01)

        @wrapped
        def step(ids):
            with tk.GradientTape() as tape:
                loss = tk.reduce_sum(lookup(table, ids) ** 2)
            optimizer.apply_gradients([(tape.gradient(loss, table), table)])
            return loss

        losses = [float(step(tk.constant([[3, last], [k, 3]]))) for k in range(4)]
        return losses, table.numpy().tobytes()

    compiled = steps(tk.function)
    assert set(rows_taken) == {shape}
    assert steps(lambda function: function) == compiled


@pytest.mark.parametrize("mode", ["eager"], indirect=True)
def test_what_else_reads_the_gradient_of_rows_does_not_write_over_it(mode, rows_taken):
    """It is read when the optimizer steps, after all that could take its memory."""

    def steps(wrapped):
        table = tk.Variable(tk.reshape(tk.range(COUNT * FEATURES, dtype="float32"), [COUNT, -1]))
        bias, optimizer = tk.Variable(tk.ones([512, FEATURES])), tk.optimizers.Adam(0.01)

        @wrapped
        def step(ids):
            with tk.GradientTape() as tape:
                rows = tk.nn.embedding_lookup(table, ids) * 1e-6 + tk.tanh(tk.sigmoid(bias))
                loss = tk.reduce_sum(tk.sin(rows) ** 2)
            gradients = tape.gradient(loss, [table, bias])
            optimizer.apply_gradients(zip(gradients, [table, bias], strict=True))
            return loss

        ids = np.random.default_rng(5).integers(0, COUNT, (4, 512))
        losses = [float(step(tk.constant(x))) for x in ids]
        return losses, table.numpy().tobytes(), bias.numpy().tobytes()

    compiled = steps(lambda function: tk.function(function, jit_compile=True))
    assert rows_taken
    assert steps(lambda function: function) == compiled


@pytest.mark.parametrize("mode", ["eager"], indirect=True)
def test_two_lookups_of_one_table_add_up_densely(mode, rows_taken):
    table, optimizer = tk.Variable(tk.ones([COUNT, FEATURES])), tk.optimizers.SGD(1.0)

    @tk.function
    def step(a, b):
        with tk.GradientTape() as tape:
            both = tk.nn.embedding_lookup(table, a) + tk.nn.embedding_lookup(table, b)
            loss = tk.reduce_sum(both)
        optimizer.apply_gradients([(tape.gradient(loss, table), table)])

    for _ in range(2):
        step(tk.constant([3, 5]), tk.constant([5, 9]))
    assert not rows_taken
    changed = table.numpy()[:, 0] - 1
    assert {i: float(changed[i]) for i in np.flatnonzero(changed)} == {3: -2, 5: -4, 9: -2}


@pytest.mark.parametrize("mode", ["eager"], indirect=True)
def test_an_id_outside_is_told_and_changes_nothing(mode):
    model = model_of(keras.optimizers.Adam(0.01))
    for _ in range(3):
        model.train_on_batch(IDS, TARGETS)
    before = bits_of(model)
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"= 80000 is not in \[0, 80000\)"):
        model.train_on_batch(np.full_like(IDS, COUNT), TARGETS)
    assert bits_of(model) == before


@pytest.mark.parametrize("mode", ["eager"], indirect=True)
def test_values_that_others_hold_stay_as_they_were(mode, rows_taken):
    model = model_of(keras.optimizers.Adam(0.01))
    for _ in range(3):
        model.train_on_batch(IDS, TARGETS)
    held = tk.convert_to_tensor(model.weights[0])
    before = held.numpy().copy()
    model.train_on_batch(IDS, TARGETS)
    assert rows_taken
    np.testing.assert_array_equal(held.numpy(), before)
    assert model.weights[0].numpy().tobytes() != before.tobytes()


def test_an_error_of_a_step_shows_the_gradient_as_a_tensor(add_up):
    gradient = RowGradient(np.ones((1, 2), np.float32), np.ones(1, int), (3, 2), add_up)
    np.testing.assert_array_equal(row_gradient.dense(gradient), [[0, 0], [1, 1], [0, 0]])


@pytest.mark.parametrize("mode", ["eager"], indirect=True)
def test_a_row_that_is_longer_than_the_zeros_is_dense(mode, rows_taken):
    features = row_gradient._ZEROS.size + 1
    model = keras.Sequential([keras.layers.Embedding(300, features), keras.layers.Flatten()])
    model.compile("sgd", "mse")
    for _ in range(3):
        model.train_on_batch(IDS[:2, :1] % 300, np.zeros((2, features), np.float32))
    assert not rows_taken
