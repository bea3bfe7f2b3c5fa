"""`TensorBoard(write_gradients=True)`: true gradients, the same training, and a budget."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.callbacks.time_budget import TimeBudget

pytest.importorskip("tensorboard")


class Clock:
    """Seconds that pass only when told."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize("cost", [0.001, 0.5, 30.0])
@pytest.mark.parametrize("share", [0.02, 0.2])
def test_a_budget_is_kept_whatever_the_work_costs(share, cost):
    clock = Clock()
    budget = TimeBudget(share, clock)
    times, costs = [], 0.0
    for step in range(200_000):
        clock.now += 0.01
        if budget.may_spend(0.04):
            clock.now += cost
            costs += cost
            budget.note(cost)
            times.append(step)
    assert times
    # the first time its cost is not known
    assert costs <= max(share * clock.now, cost) + 1e-6
    if cost < 30:
        assert costs >= min(0.8 * share * clock.now, 0.9 * 200_000 * cost)


def test_work_that_becomes_dearer_becomes_rarer():
    clock = Clock()
    budget = TimeBudget(0.02, clock)
    counts = []
    for cost in (0.01, 1.0):
        counts.append(0)
        for _ in range(50_000):
            clock.now += 0.01
            if budget.may_spend(0.01):
                clock.now += cost
                budget.note(cost)
                counts[-1] += 1
    assert counts[0] > 50 * counts[1] > 0
    assert budget.spent <= 0.02 * clock.now


@pytest.mark.parametrize("cost", [0.001, 0.5, 30.0])
@pytest.mark.parametrize("share", [0.02, 0.2, 1.0])
def test_a_budget_says_how_long_to_wait(share, cost):
    clock = Clock()
    budget = TimeBudget(share, clock)
    for guess in (0.04, 123.0, 123.0):  # only the first time is it a guess
        wait = budget.seconds_until(guess)
        clock.now += 0.99 * wait
        assert budget.may_spend(guess) is (wait == 0.0)
        clock.now += 0.01 * wait + 1e-6
        assert budget.may_spend(guess)
        assert budget.seconds_until(guess) == 0.0
        clock.now += cost
        budget.note(cost)


@pytest.mark.parametrize("share", [0.0, -1, 1.5])
def test_a_share_is_a_share(share):
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        tk.callbacks.TensorBoard(write_gradients=True, time_budget=share)


def model_of(optimizer, **compiled):
    tk.random.set_seed(3)
    layers = [tk.Input((6,)), tk.layers.Dense(8, activation="tanh"), tk.layers.Dropout(0.2)]
    model = tk.Sequential([*layers, tk.layers.BatchNormalization(), tk.layers.Dense(2)])
    model.compile(optimizer, "mse", **compiled)
    return model


def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(48, 6)).astype("float32"), rng.normal(size=(48, 2)).astype("float32")


def train(model, *callbacks):
    model.fit(*data(), batch_size=4, epochs=2, verbose=0, callbacks=list(callbacks), shuffle=False)
    return model.get_weights()


def read(folder):
    from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    events = EventAccumulator(str(folder), tensor_size_guidance={"tensors": 0, "histograms": 0})
    events.Reload()
    return {
        tag: [(e.step, make_ndarray(e.tensor_proto)) for e in events.Tensors(tag)]
        for tag in events.Tags()["tensors"]
    }


OPTIMIZERS = {
    "sgd": lambda: tk.optimizers.SGD(0.1),
    "adam": lambda: tk.optimizers.Adam(0.01),
    "scaled": lambda: tk.optimizers.LossScaleOptimizer(tk.optimizers.SGD(0.1)),
}


@pytest.mark.parametrize("compiled", [{}, {"run_eagerly": True}, {"steps_per_execution": 3}])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_looking_changes_nothing(tmp_path, name, compiled):
    plain = train(model_of(OPTIMIZERS[name](), **compiled))
    board = tk.callbacks.TensorBoard(tmp_path, write_gradients=True, time_budget=1.0)
    model = model_of(OPTIMIZERS[name](), **compiled)
    for a, b in zip(plain, train(model, board), strict=True):
        np.testing.assert_array_equal(a, b)
    inner = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    assert "_step" not in vars(inner)
    found = read(tmp_path / "train")
    norms = [tag for tag in found if tag.startswith("gradient_norm/")]
    assert len(norms) == len(model.trainable_weights) == 6
    assert len(found[norms[0]]) > 3
    assert "batch_learning_rate" in found


def test_gradients_and_updates_are_those_of_the_step(tmp_path):
    model = model_of(tk.optimizers.SGD(0.1), run_eagerly=True)
    expected = {}

    class Recompute(tk.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if batch == 0:
                self.epoch = getattr(self, "epoch", -1) + 1
            self.before = [w.numpy().copy() for w in self.model.trainable_weights]

        def on_train_batch_end(self, batch, logs=None):
            step = self.epoch * 12 + batch + 1
            for weight, old in zip(self.model.trainable_weights, self.before, strict=True):
                change = np.linalg.norm(weight.numpy() - old)
                # plain SGD: the update is the gradient times the rate
                ratio = change / max(np.linalg.norm(old), 1e-12)
                expected[weight.path, step] = change / 0.1, ratio

    board = tk.callbacks.TensorBoard(tmp_path, write_gradients=True, time_budget=1.0)
    train(model, Recompute(), board)
    found = read(tmp_path / "train")
    paths = {weight.path for weight in model.trainable_weights}
    for path in paths:
        for tag, which in (("gradient_norm", 0), ("update_ratio", 1)):
            assert found[f"{tag}/{path}"]
            for step, value in found[f"{tag}/{path}"]:
                np.testing.assert_allclose(value, expected[path, step][which], rtol=1e-3, atol=1e-5)
    assert found[f"gradients/{next(iter(paths))}"][0][1].shape == (30, 3)


def test_a_training_that_failed_leaves_nothing_behind(tmp_path):
    board = tk.callbacks.TensorBoard(tmp_path, write_gradients=True, time_budget=1.0)
    model = model_of("sgd")

    def fail(batch, logs):
        if batch == 7:
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        train(model, tk.callbacks.LambdaCallback(on_train_batch_begin=fail), board)
    train(model, board)
    assert "_step" not in vars(model.optimizer)
    assert model.train_function.step.eager_steps == 0


def test_no_gradients_without_being_asked(tmp_path):
    train(model_of("sgd"), tk.callbacks.TensorBoard(tmp_path, update_freq="batch"))
    assert not [tag for tag in read(tmp_path / "train") if tag.startswith("gradient")]
