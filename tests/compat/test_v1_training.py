"""Training in sessions of version 1. The losses are those of TensorFlow 2.21's compat.v1."""

import numpy as np
import pytest

import trainkit as tk

v1 = tk.compat.v1
train = v1.train

RNG = np.random.RandomState(0)
X = RNG.rand(8, 3).astype("float32")
Y = np.eye(2, dtype="float32")[RNG.randint(0, 2, 8)]
W1, W2 = RNG.randn(3, 4).astype("float32"), RNG.randn(4, 2).astype("float32")


def _clipped(loss, step):
    optimizer = train.AdamOptimizer(0.1)
    pairs = optimizer.compute_gradients(loss)
    clipped = [(tk.clip_by_norm(g, 0.1), v) for g, v in pairs if g is not None]
    return optimizer.apply_gradients(clipped, global_step=step)


def _by(make):
    return lambda loss, step: make(step).minimize(loss, global_step=step)


def _decayed(decay, *args, **kwargs):
    return _by(lambda n: train.GradientDescentOptimizer(decay(0.5, n, *args, **kwargs)))


STEPS = {
    "descent": (
        _by(lambda n: train.GradientDescentOptimizer(0.1)),
        [0.96699, 0.89879, 0.85058, 0.81574, 0.78852],
        4,
    ),
    "momentum": (
        _by(lambda n: train.MomentumOptimizer(0.1, 0.9)),
        [0.96699, 0.89879, 0.80755, 0.72621, 0.68762],
        7,
    ),
    "nesterov": (
        _by(lambda n: train.MomentumOptimizer(0.1, 0.9, use_nesterov=True)),
        [0.96699, 0.84745, 0.75394, 0.70001, 0.68128],
        7,
    ),
    "adam": (
        _by(lambda n: train.AdamOptimizer(0.1)),
        [0.96699, 0.77452, 0.7332, 0.73713, 0.70511],
        12,
    ),
    "adagrad": (
        _by(lambda n: train.AdagradOptimizer(0.1)),
        [0.96699, 0.83571, 0.77696, 0.74008, 0.71892],
        7,
    ),
    "rmsprop": (
        _by(lambda n: train.RMSPropOptimizer(0.1)),
        [0.96699, 0.89593, 0.8444, 0.80672, 0.77603],
        10,
    ),
    "centered": (
        _by(lambda n: train.RMSPropOptimizer(0.1, momentum=0.9, centered=True)),
        [0.96699, 0.89588, 0.79978, 0.71787, 0.68416],
        13,
    ),
    "adadelta": (
        _by(lambda n: train.AdadeltaOptimizer(0.1)),
        [0.96699, 0.96687, 0.96674, 0.96662, 0.9665],
        10,
    ),
    "clipped": (_clipped, [0.96699, 0.77453, 0.73824, 0.71115, 0.68429], 12),
    "exponential": (
        _decayed(train.exponential_decay, 2, 0.5),
        [0.96699, 0.7254, 0.69898, 0.68975, 0.68496],
        4,
    ),
    "staircase": (
        _decayed(train.exponential_decay, 2, 0.5, staircase=True),
        [0.96699, 0.7254, 0.69116, 0.68445, 0.67912],
        4,
    ),
    "polynomial": (
        _decayed(train.polynomial_decay, 3),
        [0.96699, 0.7254, 0.70019, 0.69355, 0.69355],
        4,
    ),
    "inverse time": (
        _decayed(train.inverse_time_decay, 2, 0.5),
        [0.96699, 0.7254, 0.69631, 0.68552, 0.67912],
        4,
    ),
    "piecewise": (
        _by(
            lambda n: train.GradientDescentOptimizer(
                train.piecewise_constant(n, [1, 3], [0.5, 0.1, 0.01])
            )
        ),
        [0.96699, 0.7254, 0.69116, 0.68837, 0.68584],
        4,
    ),
}


@pytest.mark.parametrize(("make", "losses", "count"), STEPS.values(), ids=STEPS)
def test_losses_of_a_training_loop_are_those_of_tensorflow(make, losses, count):
    with v1.Graph().as_default():
        x = v1.placeholder(tk.float32, [None, 3])
        y = v1.placeholder(tk.float32, [None, 2])
        with v1.variable_scope("net"):
            w1 = v1.get_variable("w1", initializer=W1)
            b1 = v1.Variable(tk.zeros([4]))
            w2 = v1.get_variable("w2", initializer=W2)
        logits = tk.matmul(tk.nn.relu(tk.matmul(x, w1) + b1), w2)
        loss = tk.reduce_mean(tk.nn.softmax_cross_entropy_with_logits(labels=y, logits=logits))
        step = train.get_or_create_global_step()
        operation = make(loss, step)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for i, expected in enumerate(losses):
                _, value = session.run([operation, loss], {x: X, y: Y})
                assert value == pytest.approx(expected, abs=1.1e-5), i
            assert session.run(step) == len(losses)
        assert len(v1.global_variables()) == count
        assert v1.trainable_variables() == [w1, b1, w2]


def test_a_rate_is_fed_and_initializers_begin_anew():
    with v1.Graph().as_default():
        w = v1.Variable(1.0)
        rate = v1.placeholder(tk.float32, [])
        optimizer = train.MomentumOptimizer(rate, 0.9)
        operation = optimizer.minimize(w * w)
        init = v1.global_variables_initializer()
        velocity = optimizer.get_slot(w, "momentum")
        with v1.Session() as session:
            session.run(init)
            operation.run({rate: 0.1})
            session.run(operation, {rate: 0.1})
            assert session.run([w, velocity]) == pytest.approx([0.46, 3.4])
            session.run(init)
            session.run(operation, {rate: 0.5})
            assert session.run([w, velocity]) == pytest.approx([0.0, 2.0])
        assert optimizer.get_slot_names() == ["momentum"]
        assert optimizer.variables() == [velocity]
        assert optimizer.get_name() == "Momentum"


def test_gradients_of_rows_and_of_several_dtypes():
    with v1.Graph().as_default():
        table = v1.Variable(np.ones((4, 2)))
        ids = v1.placeholder(tk.int32, [None])
        loss = tk.reduce_sum(tk.nn.embedding_lookup(table, ids))
        operation = train.AdamOptimizer(0.1).minimize(loss)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(operation, {ids: [1, 1, 3]})
            rows = session.run(table)
    assert rows.dtype == np.float64
    np.testing.assert_allclose(rows, [[1, 1], [0.9, 0.9], [1, 1], [0.9, 0.9]], atol=1e-6)


def test_optimizers_make_their_step_at_once_outside_of_graphs():
    w = tk.Variable(5.0)
    count = tk.Variable(0, dtype="int64")
    optimizer = train.AdamOptimizer(0.1)
    optimizer.minimize(lambda: w * w, global_step=count)
    assert float(w) == pytest.approx(4.9)
    assert int(count) == 1
    with pytest.raises(TypeError, match="wrap it in a lambda"):
        optimizer.minimize(w * w)


def test_what_can_not_be_trained_says_why():
    with v1.Graph().as_default():
        x = v1.placeholder(tk.float32, [])
        with pytest.raises(ValueError, match="no variables to train"):
            train.GradientDescentOptimizer(0.1).minimize(x)
        v1.Variable(1.0)
        with pytest.raises(ValueError, match="no gradients for any variable"):
            train.GradientDescentOptimizer(0.1).minimize(x * 2.0)
        with pytest.raises(ValueError, match="must be above 0"):
            train.AdagradOptimizer(0.1, 0.0)
        train.create_global_step()
        with pytest.raises(ValueError, match="the graph has one"):
            train.create_global_step()
    assert "AdamOptimizer" in dir(train)
    assert train.Checkpoint is tk.train.Checkpoint


def test_moving_averages_are_updated_by_operations_of_a_collection():
    with v1.Graph().as_default():
        x = v1.placeholder(tk.float32, [None, 2])
        layer = tk.layers.BatchNormalization(momentum=0.5)
        loss = tk.reduce_mean(layer(x, training=True) ** 2 * x)
        updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
        assert len(updates) == 2
        with tk.control_dependencies(updates):
            operation = train.GradientDescentOptimizer(0.1).minimize(loss)
        data = np.array([[1.0, 2.0], [3.0, 6.0]], "float32")
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(loss, {x: data})
            assert layer.moving_mean.numpy().tolist() == [0.0, 0.0]
            session.run(operation, {x: data})
            assert layer.moving_mean.numpy().tolist() == [1.0, 2.0]
            assert session.run(layer.gamma).tolist() != [1.0, 1.0]
