"""Trainings of virtual replicas, for `test_virtual_replicas.py`: the same bits for any number.

Run as a program: `virtual_cases.py OUTPUT BACKUP`; each rank writes `OUTPUT/RANK.json`, digests by
case. Four processes write a run into the folder BACKUP, others go on with it.
"""

import hashlib
import json
import pathlib
import shutil
import sys

import numpy as np

import trainkit as tk
from tests.distribution import noise_draws
from trainkit import keras
from trainkit.collectives.tree_sum import TreeSum

L = keras.layers
COUNT = 4
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(106, 6)).astype("float32")
Y = (X.sum(axis=1, keepdims=True) > 0).astype("float32")
WEIGHTS = RANDOM.uniform(0.5, 1.5, 106).astype("float32")
IMAGES = RANDOM.normal(3, 2, size=(59, 8, 8, 2)).astype("float32")
STEPS = RANDOM.normal(size=(59, 7, 3)).astype("float32")
CASES = {}
OUTPUT, BACKUP = map(pathlib.Path, sys.argv[1:])


def case(function):
    CASES[function.__name__] = function
    return function


def strategy(**settings):
    tk.random.set_seed(3)
    options = tk.distribute.CommunicationOptions(bytes_per_pack=256)  # several buckets
    return tk.distribute.MultiWorkerMirroredStrategy(
        communication_options=options, virtual_replicas=COUNT, **settings
    )


def bits(model, *further):
    """Digests of all weights, statistics and optimizer variables, and further numbers as they are.

    Numbers stay readable, so that a test which fails says how far they are apart.
    """
    variables = [*model.weights, *model.optimizer.variables]
    text = b"".join(np.ascontiguousarray(v.numpy()).tobytes() for v in variables)
    return [hashlib.md5(text).hexdigest(), *further]


def mlp(used=None, optimizer=None, policy=None, **settings):
    with (used or strategy()).scope():
        model = keras.Sequential(
            [
                keras.Input((6,)),
                L.Dense(16, "relu", kernel_regularizer="l2", dtype=policy),
                L.Dropout(0.3, dtype=policy),
                L.Dense(1, "sigmoid", dtype=policy),
            ]
        )
        model.compile(
            optimizer or keras.optimizers.Adam(0.01),
            "binary_crossentropy",
            metrics=["accuracy", "AUC"],
            **settings,
        )
    return model


def digest(array):
    return hashlib.md5(np.ascontiguousarray(array).tobytes()).hexdigest()


@case
def dense():
    """More than 20 steps; the last batch of an epoch has two rows, fewer than replicas."""
    model = mlp()
    data = (X[:31], Y[:31])
    history = model.fit(X, Y, 26, 5, 0, sample_weight=WEIGHTS, validation_data=data)
    few = model.evaluate(X[:3], Y[:3], verbose=0)
    return bits(model, history.history, few, digest(model.predict(X, 18, 0)))


@case
def convolutions():
    with strategy().scope():
        model = keras.Sequential(
            [
                keras.Input((8, 8, 2)),
                L.RandomFlip(),
                L.Conv2D(4, 3, use_bias=False),
                L.BatchNormalization(momentum=0.9),
                L.ReLU(),
                L.SpatialDropout2D(0.2),
                L.Flatten(),
                L.Dense(1),
            ]
        )
        model.compile("adam", "mse", metrics=["mae"])
    history = model.fit(IMAGES, Y[:59], 17, 5, 0).history
    return bits(model, history, model.evaluate(IMAGES, Y[:59], 17, 0))


@case
def recurrent_layers():
    with strategy().scope():
        model = keras.Sequential(
            [keras.Input((7, 3)), L.GaussianNoise(0.1), L.LSTM(6, dropout=0.2), L.Dense(1)]
        )
        rate = keras.optimizers.schedules.ExponentialDecay(0.02, 5, 0.9)
        model.compile(keras.optimizers.Adam(rate, global_clipnorm=0.1, use_ema=True), "mse")
    return bits(model, model.fit(STEPS, Y[:59], 15, 5, 0).history)


@case
def losses_that_are_scaled():
    """A step whose gradients overflow in one replica alone is left out in all."""
    optimizer = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(0.1), initial_scale=2.0**13
    )
    model = mlp(optimizer=optimizer, policy="mixed_float16")
    x = X.copy()
    x[1] = 6e4
    history = model.fit(x, Y, 26, 5, 0, shuffle=False).history
    steps, scale = int(optimizer.iterations), float(optimizer.dynamic_scale.numpy())
    assert steps == 20
    assert scale < 2.0**13
    return bits(model, history["accuracy"])


@case
def gradients_that_are_accumulated():
    optimizer = keras.optimizers.Adam(0.01, gradient_accumulation_steps=3)
    model = mlp(optimizer=optimizer)
    return bits(model, model.fit(X, Y, 26, 2, 0).history)


@case
def state_in_shares():
    model = mlp(strategy(shard_optimizer_state=True), keras.optimizers.Adam(0.01, clipnorm=0.05))
    history = model.fit(X, Y, 26, 3, 0).history
    return [digest(np.concatenate([w.numpy().ravel() for w in model.weights])), history]


@case
def ways_to_run():
    """Steps by operations, compiled, fused and several in a row come to the same weights."""
    found = []
    for settings in (
        {"run_eagerly": True},
        {"jit_compile": False},
        {"jit_compile": True},
        {"steps_per_execution": 3},
    ):
        model = mlp(**settings)
        found.append(bits(model, model.fit(X, Y, 26, 2, 0).history["accuracy"]))
    assert all(other == found[0] for other in found), found
    return found[0]


class Own(keras.Model):
    """A step of the user's own, with a number in its logs, and a seed and a counter."""

    def __init__(self):
        super().__init__()
        self.hidden, self.drop, self.last = L.Dense(8, "tanh"), L.Dropout(0.4), L.Dense(1)
        self.norm = L.BatchNormalization()
        self.count = tk.Variable(0, trainable=False, dtype="int32")

    def call(self, x, training=False):
        hidden = self.drop(self.hidden(x), training=training)
        return self.last(self.norm(hidden, training=training))

    def train_step(self, data):
        x, y = data
        with tk.GradientTape() as tape:
            loss = tk.reduce_mean((self(x, training=True) - y) ** 2)
        weights = self.trainable_variables
        gradients = tape.gradient(loss, weights)
        self.optimizer.apply_gradients(zip(gradients, weights, strict=True))
        self.count.assign_add(1)
        return {"loss": loss, "first": tk.reduce_sum(x[0])}


@case
def own_steps():
    """A model that is built by its first step; data of a generator, a data set and one batch."""
    with strategy().scope():
        model = Own()
        model.compile("rmsprop")

    def batches():
        for at in range(0, 100, 9):
            yield X[at : at + 9], Y[at : at + 9]

    history = [model.fit(batches(), epochs=1, verbose=0).history]
    data = tk.data.Dataset.from_tensor_slices((X, Y)).shuffle(40, seed=1).batch(11).prefetch(2)
    history.append(model.fit(data, epochs=2, verbose=0).history)
    whole = model.distribute_strategy.experimental_distribute_dataset(data)
    history.append(model.fit(whole, epochs=1, verbose=0).history)
    history.append(model.train_on_batch(X[:9], Y[:9]))
    assert int(model.count.numpy()) == 12 + 3 * 10 + 1
    return bits(model, history)


@case
def a_step_that_raises():
    """It leaves the model as it was, random numbers included."""
    with strategy().scope():
        model = keras.Sequential([keras.Input((6,)), L.Dropout(0.5), L.Dense(1), Refusing()])
        model.compile("sgd", "mse", run_eagerly=True)
    found = []
    for _ in range(2):
        Refusing.after = None
        model.fit(X, Y, 53, 1, 0, shuffle=False)
        before = bits(model)
        Refusing.after = model.distribute_strategy.num_replicas_in_sync // SIZE - 1
        try:
            model.train_on_batch(X, Y)
        except ArithmeticError:
            found.append(bits(model) == before)
    assert found == [True, True]
    return bits(model)


class Refusing(L.Layer):
    after = None

    def call(self, x):
        if Refusing.after is not None:
            Refusing.after -= 1
            if Refusing.after < 0:
                raise ArithmeticError("no more")
        return x


@case
def noise():
    """What layers and steps draw for a batch, also from generators that nothing tracks."""
    found, beside = [], keras.random.SeedGenerator(4)
    draws = {**noise_draws.DRAWS, "beside": lambda mean, seeds: beside.normal(mean.shape)}
    for name, draw in draws.items():
        with strategy().scope():
            layers = [keras.Input((6,)), L.Dense(3), noise_draws.Sampling(draw), L.Dense(1)]
            model = keras.Sequential(layers)
            model.compile(keras.optimizers.SGD(0.001), "mse")
        found.append([name, *bits(model, model.fit(X[:50], Y[:50], 18, 2, 0).history)])
    return found


def backup(folder, epochs):
    model = mlp()
    callback = keras.callbacks.BackupAndRestore(folder, delete_checkpoint=False)
    history = model.fit(X, Y, 26, epochs, 0, callbacks=[callback]).history
    return bits(model), history


@case
def runs_that_go_on():
    """Four processes make two epochs of four; the others go on with what they have left."""
    if SIZE == 4:
        backup(BACKUP / "run", 2)
        return backup(BACKUP / "run", 4)[0]
    own = BACKUP / f"of_{SIZE}"
    if RANK == 0:
        shutil.copytree(BACKUP / "run", own)
    strategy().group.barrier()
    went_on = backup(own, 4)[0]
    at_once, _ = backup(BACKUP / f"none_{SIZE}", 4)
    assert went_on == at_once
    return went_on


@case
def trees():
    """Sums of as many leaves as processes have, of more, and of numbers that are no power of 2."""
    found, group = [], FIRST.group
    for count in (4, 12, 20, 24):
        for shapes in [(1,)], [(3, 5), (), (1000,)]:
            leaves = [[RANDOM.normal(size=s) for s in shapes] for _ in range(count)]
            sums = TreeSum(group, count, np.float64, "leaves")
            each = count // group.size
            for arrays in leaves[group.rank * each : (group.rank + 1) * each]:
                sums.add(arrays, 0.3)
            found += [digest(part) for part in sums.parts(sums.total(), shapes)]
    return found


if __name__ == "__main__":
    FIRST = strategy()
    RANK, SIZE = FIRST.rank, FIRST.group.size
    found = {name: function() for name, function in CASES.items()}
    (OUTPUT / f"{RANK}.json").write_text(json.dumps(found))
