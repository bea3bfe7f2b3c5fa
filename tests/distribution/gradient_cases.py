"""Trainings that write gradients of single steps, for `test_gradient_summaries.py`.

Run as a program: `gradient_cases.py OUTPUT`; rank 0 writes summaries into folders of `OUTPUT`, and
each rank writes `OUTPUT/RANK.json`, its weights by case. It ends with an error.
"""

import json
import pathlib
import sys

import numpy as np

import trainkit as tk
from trainkit import keras
from trainkit.callbacks.gradients import GradientSampler

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(37, 6)).astype("float32")  # in batches of 18, so the last has one row
Y = (X.sum(axis=1, keepdims=True) > 0).astype("float32")
SMALL_BUCKETS = tk.distribute.CommunicationOptions(bytes_per_pack=100)


def several():
    chosen = keras.optimizers.OptimizerMap(
        keras.optimizers.SGD(0.1), {"a/.*": keras.optimizers.Adam(0.01)}
    )
    return keras.optimizers.MultiOptimizer(chosen)


CASES = {
    "clipped": (lambda: keras.optimizers.SGD(0.1, global_clipnorm=0.1), {}),
    "scaled": (lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1)), {}),
    "several": (several, {}),
    "accumulated": (lambda: keras.optimizers.Adam(0.1, gradient_accumulation_steps=3), {}),
    "eager": (lambda: keras.optimizers.Adam(0.01), {"run_eagerly": True}),
    "in_a_row": (lambda: keras.optimizers.Adam(0.01), {"steps_per_execution": 2}),
}


def compiled(strategy, optimizer, **settings):
    tk.random.set_seed(3)
    layers = keras.layers
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input((6,)),
                layers.Dense(16, "tanh", name="a"),
                layers.Dropout(0.2),
                layers.Dense(1, "sigmoid", name="b"),
            ],
            name="small",
        )
        model.compile(optimizer, "mse", **settings)
    return model


def train(strategy, name, folder=None):
    """The weights after a training in which each step is looked at, but for the first two."""
    optimizer, settings = CASES[name]
    model = compiled(strategy, optimizer(), **settings)
    boards = []
    if folder is not None:
        boards.append(keras.callbacks.TensorBoard(folder, write_gradients=True, time_budget=1.0))
    for _ in range(2):  # the second one begins anew, where the first has ended
        model.fit(X, Y, 18, 4, 0, callbacks=boards)
    return [w.numpy().tolist() for w in model.weights]


class Steps(keras.callbacks.Callback):
    """Notes how far each step of plain SGD has gone; has a clock, on which looks are dear.

    Args:
        dear: seconds that a step takes that is looked at; others take one.
    """

    def __init__(self, dear):
        super().__init__()
        self.lengths, self.dear, self.now = [], dear, 0.0

    def on_train_batch_begin(self, batch, logs=None):
        self.before = [w.numpy().copy() for w in self.model.trainable_weights]

    def on_train_batch_end(self, batch, logs=None):
        pairs = zip(self.model.trainable_weights, self.before, strict=True)
        self.lengths.append({w.path: float(np.linalg.norm(w.numpy() - old)) for w, old in pairs})
        is_looked_at = "_step" in vars(self.model.optimizer)
        self.now += self.dear if is_looked_at else 1.0


def train_by_clocks(strategy, folder):
    """Each rank has a clock of its own, and only some steps are looked at."""
    model = compiled(strategy, keras.optimizers.SGD(0.1))
    steps = Steps(4.0 + 3.0 * strategy.rank)
    board = keras.callbacks.TensorBoard(folder, write_gradients=True)
    board.__dict__["sampler"] = GradientSampler(0.2, lambda: steps.now)
    model.fit(X, Y, 18, 16, 0, callbacks=[steps, board])
    assert model.train_function.step.eager_steps == 0
    assert "_step" not in vars(model.optimizer)
    return steps.lengths


def main():
    folder = pathlib.Path(sys.argv[1])
    used = tk.distribute.MultiWorkerMirroredStrategy(communication_options=SMALL_BUCKETS)
    shares = tk.distribute.MultiWorkerMirroredStrategy(shard_optimizer_state=True)
    found = {name: train(used, name, folder / name) for name in CASES}
    found["shares"] = train(shares, "accumulated", folder / "shares")
    found["clocks"] = train_by_clocks(used, folder / "clocks")
    (folder / f"{used.rank}.json").write_text(json.dumps(found))
    used.group.barrier("all is written")
    model = compiled(used, "sgd")
    boards = [keras.callbacks.TensorBoard(folder / "alone", write_gradients=True)]
    model.fit(X, Y, 18, 1, 0, callbacks=boards if used.rank == 0 else [])  # raises


if __name__ == "__main__":
    main()
