"""Trainings of small models, for `test_fit.py`: each gives numbers that must not depend on N.

Run as a program: `fit_cases.py OUTPUT CASE ...`; each rank writes `OUTPUT/RANK.json`.
"""

import json
import pathlib
import sys
import warnings

import numpy as np

import trainkit as tk
from tests.distribution import noise_draws
from trainkit import keras

STRATEGY = tk.distribute.MultiWorkerMirroredStrategy()
FOLDER = None  # where cases write, if they are not run as a program


def folder():
    return FOLDER or sys.argv[1]


RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(100, 6)).astype("float32")
Y = (X.sum(axis=1, keepdims=True) > 0).astype("float32")
WEIGHTS = RANDOM.uniform(0.5, 1.5, 100).astype("float32")
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def mlp(loss="binary_crossentropy", **settings):
    with STRATEGY.scope():
        model = keras.Sequential(
            [
                keras.Input((6,)),
                keras.layers.Dense(16, "relu", kernel_regularizer=keras.regularizers.L2(0.01)),
                keras.layers.Dense(1, "sigmoid"),
            ]
        )
        model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy", "AUC"], **settings)
    return model


def weights(model):
    return [w.numpy().tolist() for w in model.weights]


@case
def arrays():
    """50 steps and more, with uneven last batches, also such as leave ranks without rows."""
    model = mlp()
    data = (X[:31], Y[:31])
    history = model.fit(X, Y, 18, 9, 0, sample_weight=WEIGHTS, validation_data=data)
    few = model.evaluate(X[:3], Y[:3], verbose=0)
    outputs = model.predict(X[:50], batch_size=16, verbose=0)
    one = model.predict(X[:1], verbose=0)
    assert outputs.shape == (50, 1)
    return history.history, few, outputs.tolist(), one.tolist(), weights(model)


@case
def operation_by_operation():
    model = mlp(run_eagerly=True)
    history = model.fit(X, Y, 20, 2, 0, class_weight={0: 1.0, 1: 2.0}, validation_split=0.2)
    return history.history, weights(model)


@case
def several_steps_an_execution():
    model = mlp(steps_per_execution=3)
    history = model.fit(X, Y, 7, 2, 0, validation_data=(X, Y))
    outputs = model.predict(X[:43], batch_size=7, verbose=0)
    return history.history, outputs.tolist(), weights(model)


@case
def sums_as_losses():
    model = mlp(keras.losses.MeanSquaredError(reduction="sum"))
    return model.fit(X, Y, 18, 2, 0).history, weights(model)


def of_unequal_weights(eagerly):
    """Ranks whose weights and masks have other sums, and some that have none in some batches."""
    layers, losses = keras.layers, keras.losses
    steps = np.random.default_rng(2).normal(size=(52, 5, 3)).astype("float32")
    for row in range(52):  # sequences of 5, 4, ... steps, and some of none at all
        steps[row, 5 - row % 6 :] = 0.0
    steps[9:18] = 0.0  # the second of two ranks
    steps[12:15, 0] = 1.0
    counted = np.where(np.arange(52) % 18 < 9, 10.0, 0.1).astype("float32")
    counted[24:36] = 0.0  # two of three ranks
    found = []
    for reduction in ("sum_over_batch_size", "mean_with_sample_weight"):
        tk.random.set_seed(3)
        with STRATEGY.scope():
            inputs = keras.Input((5, 3))
            hidden = layers.LSTM(4, return_sequences=True)(layers.Masking()(inputs))
            each = layers.Dense(1, name="each")(hidden)
            one = layers.Dense(1, "sigmoid", name="one")(layers.LSTM(3)(hidden))
            model = keras.Model(inputs, {"each": each, "one": one})
            model.compile(
                keras.optimizers.SGD(0.1),
                {
                    "each": losses.MeanSquaredError(reduction=reduction),
                    "one": losses.BinaryCrossentropy(reduction=reduction),
                },
                {"each": 0.7, "one": 1.3},
                metrics={"one": ["accuracy"]},
                weighted_metrics={"each": ["mae"], "one": ["mse"]},
                run_eagerly=eagerly,
            )
        targets = {"each": steps[:, :, :1] + 1.0, "one": Y[:52]}
        data = (steps, targets, {"each": counted, "one": counted[::-1].copy()})
        history = model.fit(*data[:2], 18, 2, 0, shuffle=False, sample_weight=data[2],
                            validation_data=data)  # fmt: skip
        found += [history.history, model.evaluate(steps, targets, 18, 0), weights(model)]
        with STRATEGY.scope():
            plain = keras.Sequential([keras.Input((6,)), layers.Dense(1, "sigmoid")])
            loss = losses.BinaryCrossentropy(reduction=reduction)
            plain.compile("sgd", loss, run_eagerly=eagerly)
        found.append(plain.fit(X, Y, 18, 2, 0, class_weight={0: 0.01, 1: 20.0}).history)
        found.append(weights(plain))
    return found


@case
def weights_of_unequal_sums():
    return of_unequal_weights(False)


@case
def weights_of_unequal_sums_eagerly():
    return of_unequal_weights(True)


class Own(keras.Model):
    """A step of the user's own, with a metric of its own and a plain number in its logs."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.seen = keras.metrics.MeanAbsoluteError(name="seen")

    def call(self, x):
        return self.dense(x)

    @property
    def metrics(self):
        return [self.seen]

    def train_step(self, data):
        x, y = data
        with tk.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = tk.reduce_mean((y_pred - y) ** 2)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        self.seen.update_state(y, y_pred)
        return {"loss": loss, "seen": self.seen.result()}


@case
def step_of_the_users_own():
    with STRATEGY.scope():
        model = Own()
        model.compile(keras.optimizers.SGD(0.1))
    history = model.fit(X, Y, 25, 3, 0)
    return history.history, weights(model)


@case
def data_sets():
    model = mlp()
    data = tk.data.Dataset.from_tensor_slices((X, Y)).shuffle(100).batch(18).prefetch(2)
    mapped = data.map(lambda x, y: (x + 1.0, y))
    found = [model.fit(data, epochs=2, verbose=0).history]
    found.append(model.fit(mapped, epochs=1, verbose=0).history)
    endless = data.repeat()
    found.append(model.fit(endless, epochs=2, steps_per_epoch=4, verbose=0).history)
    part = STRATEGY.experimental_distribute_dataset(data)
    found.append(model.fit(part, verbose=0).history)
    found.append(model.evaluate(data.take(3), verbose=0))
    found.append(model.predict(tk.data.Dataset.from_tensor_slices(X).batch(9), verbose=0).tolist())
    return found, weights(model)


class Batches(keras.utils.PyDataset):
    """Batches by number."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        own = slice(25 * index, 25 * index + 25)
        return X[own], Y[own]


@case
def batches_of_python():
    model = mlp()

    def generator():
        while True:
            for low in range(0, 100, 30):
                yield X[low : low + 30], Y[low : low + 30]

    def once():
        for low in range(0, 100, 30):
            yield X[low : low + 30], Y[low : low + 30]

    found = [model.fit(generator(), epochs=2, steps_per_epoch=3, verbose=0).history]
    found.append(model.fit(once(), verbose=0).history)
    found.append(model.fit(Batches(), epochs=2, verbose=0).history)
    found.append(model.evaluate(once(), verbose=0))
    return found, weights(model)


@case
def one_batch():
    model = mlp()
    found = [model.train_on_batch(X[:10], Y[:10]) for _ in range(4)]
    found.append(model.test_on_batch(X[:3], Y[:3]))
    found.append(model.predict_on_batch(X[:5]).tolist())
    return found, weights(model)


class StopsInOne(keras.callbacks.Callback):
    """Wants to stop in the last rank alone."""

    def on_epoch_end(self, epoch, logs=None):
        last = STRATEGY.rank == STRATEGY.num_replicas_in_sync - 1
        self.model.stop_training |= last and epoch == 2


@case
def callbacks():
    """All ranks see the same numbers, and do the same."""
    model = mlp()
    seen = []
    hears = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: seen.append(dict(logs)),
        on_train_batch_end=lambda batch, logs: seen.append(dict(logs)),
    )
    slower = keras.callbacks.ReduceLROnPlateau("loss", 0.5, patience=0, min_delta=0.1)
    early = keras.callbacks.EarlyStopping("loss", min_delta=0.5, patience=3)
    schedule = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.9)
    some = [hears, slower, early, schedule, keras.callbacks.TerminateOnNaN()]
    first = model.fit(X, Y, 20, 10, 0, callbacks=some)
    assert len(first.epoch) < 10
    second = model.fit(X, Y, 20, 10, 0, callbacks=[StopsInOne()])
    assert second.epoch == [0, 1, 2]
    return first.history, seen, second.history, weights(model)


@case
def scaled_losses():
    """Where one rank has an infinite gradient, all leave the step out."""
    with STRATEGY.scope():
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
        optimizer = keras.optimizers.LossScaleOptimizer(
            keras.optimizers.SGD(0.1), initial_scale=8.0
        )
        model.compile(optimizer, "mse")
    model.fit(X, Y, 20, 1, 0, shuffle=False)
    broken = X.copy()
    broken[99] = np.inf
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "fit: the loss is inf")
        model.fit(broken, Y, 20, 1, 0, shuffle=False)
    return float(optimizer.dynamic_scale), int(optimizer.iterations), weights(model)


@case
def several_optimizers():
    with STRATEGY.scope():
        model = keras.Sequential(
            [keras.Input((6,)), keras.layers.Dense(4, name="a"), keras.layers.Dense(1, name="b")]
        )
        chosen = keras.optimizers.OptimizerMap(
            keras.optimizers.SGD(0.1), {"a/.*": keras.optimizers.Adam(0.01)}
        )
        model.compile(keras.optimizers.MultiOptimizer(chosen), "mse")
    return model.fit(X, Y, 18, 2, 0).history, weights(model)


@case
def weights_of_rank_0():
    """Ranks begin alike, whatever theirs were, and so do slots of one rank alone."""
    model = mlp()
    if STRATEGY.rank:
        model.set_weights([w + 1 for w in model.get_weights()])
    else:
        model.optimizer.build(model.trainable_variables)
        model.optimizer.iterations.assign(7)
    model.fit(X, Y, 20, 1, 0)
    return int(model.optimizer.iterations), weights(model)


@case
def slots_in_shares():
    """Each rank keeps some slots; a second `fit`, and files, have all of them."""
    strategy = tk.distribute.MultiWorkerMirroredStrategy(shard_optimizer_state=True)
    with strategy.scope():
        model = keras.Sequential(
            [keras.Input((6,)), keras.layers.Dense(4), keras.layers.Dense(1, "sigmoid")]
        )
        model.compile(keras.optimizers.Adam(0.01), "mse")
    model.fit(X, Y, 20, 2, 0)
    path = pathlib.Path(folder(), "shares.weights.h5")
    model.save_weights(path)
    model.fit(X, Y, 20, 2, 0)
    first = weights(model)
    STRATEGY.group.barrier("the file is there")
    model.load_weights(path)
    model.fit(X, Y, 20, 2, 0)
    return first, weights(model)


def in_small_buckets(optimizer, **settings):
    """Trained by `fit` in four ways, with buckets of one gradient or two."""
    options = tk.distribute.CommunicationOptions(bytes_per_pack=100)
    found = []
    for shares in (False, True):
        for eagerly in (False, True):
            tk.random.set_seed(3)
            strategy = tk.distribute.MultiWorkerMirroredStrategy(
                communication_options=options, shard_optimizer_state=shares
            )
            with strategy.scope():
                model = keras.Sequential(
                    [
                        keras.Input((6,)),
                        keras.layers.Dense(8, "tanh"),
                        keras.layers.Dense(5, "tanh"),
                        keras.layers.Dense(1, "sigmoid"),
                    ]
                )
                model.compile(optimizer(), "mse", run_eagerly=eagerly, **settings)
            found += [model.fit(X, Y, 18, 3, 0).history, weights(model)]
    return found


@case
def small_buckets():
    return in_small_buckets(lambda: keras.optimizers.Adam(0.01, global_clipnorm=0.1))


@case
def accumulated_gradients():
    """18 steps of which each fourth changes the weights; uneven batches, clipping of the means."""
    found = in_small_buckets(
        lambda: keras.optimizers.Adam(
            0.01, global_clipnorm=0.1, gradient_accumulation_steps=4, loss_scale_factor=8.0
        )
    )
    for wrapped in (keras.optimizers.LossScaleOptimizer, lambda one: one):
        inner = keras.optimizers.SGD(0.1, gradient_accumulation_steps=3)
        model = small(wrapped(inner))
        found += [model.fit(X, Y, 18, 2, 0).history, weights(model)]
    return found


def small(optimizer, **settings):
    tk.random.set_seed(3)
    with STRATEGY.scope():
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1, "sigmoid")])
        model.compile(optimizer, "mse", **settings)
    return model


@case
def accumulated_gradients_of_files():
    """A file that is written in the middle of a period goes on, in this process or another."""
    found = []
    for eagerly in (False, True):

        def made(eagerly=eagerly):
            optimizer = keras.optimizers.Adam(0.1, gradient_accumulation_steps=4)
            model = small(optimizer, run_eagerly=eagerly)
            return model, tk.train.Checkpoint(model=model, optimizer=optimizer)

        model, checkpoint = made()
        model.fit(X, Y, 18, 1, 0, shuffle=False)  # 6 steps
        path = checkpoint.write(str(pathlib.Path(folder(), f"half_{eagerly}")))
        STRATEGY.group.barrier("the file is there")
        for how in ("goes on", "with slots", "without slots"):
            if how != "goes on":
                model, checkpoint = made()
                if how == "with slots":
                    model.optimizer.build(model.trainable_variables)
                checkpoint.restore(path)
            model.fit(X, Y, 18, 1, 0, shuffle=False)
            found.append(weights(model))
        model, checkpoint = made()
        model.fit(X, Y, 18, 1, 0, shuffle=False)
        checkpoint.restore(path)
        with tk.device("/cpu:0"):
            data = tk.constant(X[:18]), tk.constant(Y[:18])
        found += [model.train_on_batch(*data) for _ in range(3)] + [weights(model)]
    return found


def deep(layers, shape, samples=66):
    """A model whose layers draw, trained for 50 steps with uneven last batches."""
    inputs = np.random.default_rng(1).normal(1, 2, size=(samples, *shape)).astype("float32")
    with STRATEGY.scope():
        model = keras.Sequential([keras.Input(shape), *layers(), keras.layers.Dense(1, "sigmoid")])
        model.compile(keras.optimizers.SGD(0.02, momentum=0.9), "binary_crossentropy")
    history = model.fit(inputs, Y[:samples], 14, 10, 0, validation_data=(inputs, Y[:samples]))
    return history.history, weights(model)


@case
def convolutions():
    layers = keras.layers
    return deep(
        lambda: [
            layers.Conv2D(4, 3, use_bias=False),
            layers.BatchNormalization(synchronized=True, momentum=0.9),
            layers.ReLU(),
            layers.SpatialDropout2D(0.2),
            layers.Flatten(),
            layers.Dropout(0.3),
        ],
        (6, 6, 2),
    )


class Mixes(keras.Model):
    """Mixes images and labels of the global batch before each step."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.dense = layer, keras.layers.Dense(5)

    def call(self, x):
        return self.dense(tk.reshape(x, (-1, 12)))

    def train_step(self, data):
        mixed = self.layer({"images": data[0], "labels": data[1]}, training=True)
        return super().train_step((mixed["images"], mixed["labels"]))


@case
def images_mixed_with_each_other():
    """Also where ranks have other numbers of rows, and one has none."""
    images = np.random.default_rng(4).normal(size=(16, 2, 2, 3)).astype("float32")
    labels, found = np.eye(5, dtype="float32")[np.arange(16) % 5], []
    for kind in (keras.layers.MixUp, keras.layers.CutMix):
        for eagerly in (False, True):
            tk.random.set_seed(3)
            with STRATEGY.scope():
                model = Mixes(kind(seed=1))
                model.compile("sgd", "mse", run_eagerly=eagerly)
            found += [model.fit(images, labels, 5, 3, 0).history, weights(model)]
            found.append(model.layer.seed_generator.state.numpy().tolist())
    return found


@case
def recurrent_layers():
    layers = keras.layers
    return deep(
        lambda: [layers.GaussianNoise(0.1), layers.LSTM(6, dropout=0.2), layers.Dropout(0.3)],
        (5, 3),
    )


@case
def statistics_of_own_rows():
    """Without `synchronized` the moving statistics are the mean over all rows."""
    layers = keras.layers
    with STRATEGY.scope():
        model = keras.Sequential([keras.Input((6,)), layers.BatchNormalization(momentum=0.5)])
        model.compile(keras.optimizers.SGD(0.0), "mse")
    model.fit(X, X, 20, 1, 0, shuffle=False)
    return model.layers[-1].moving_mean.numpy().tolist()


def with_noise(draw, eagerly=False):
    with STRATEGY.scope():
        layers = [
            keras.Input((6,)),
            keras.layers.Dense(3),
            noise_draws.Sampling(draw),
            keras.layers.Dense(1),
        ]
        model = keras.Sequential(layers)
        model.compile(keras.optimizers.SGD(0.001), "mse", run_eagerly=eagerly)
    return model.fit(X[:50], Y[:50], 18, 2, 0).history, weights(model)


@case
def noise_of_layers():
    found = {}
    for name, draw in {**noise_draws.DRAWS, **noise_draws.MEETING_DRAWS}.items():
        for eagerly in (False, True):
            tk.random.set_seed(3)
            found[f"{name} {eagerly}"] = with_noise(draw, eagerly)
    return found


class GAN(keras.Model):
    """Noise in a step of the user's own, and noisy labels for made and real rows together."""

    def __init__(self):
        super().__init__()
        self.maker, self.judge = keras.layers.Dense(6), keras.layers.Dense(1)

    def call(self, x):
        return self.judge(x)

    def train_step(self, data):
        x, _ = data
        size = tk.shape(x)[0]
        made = self.maker(tk.random.normal(shape=(size, 4)))
        both = tk.concat([made, x], axis=0)
        labels = tk.concat([tk.ones((size, 1)), tk.zeros((size, 1))], axis=0)
        labels += 0.05 * tk.random.uniform(tk.shape(labels))
        with tk.GradientTape() as tape:
            loss = tk.reduce_mean((self.judge(both) - labels) ** 2)
        part = self.judge.trainable_weights
        self.optimizer.apply_gradients(zip(tape.gradient(loss, part), part, strict=True))
        with tk.GradientTape() as tape:
            made = self.maker(tk.random.normal(shape=(size, 4)))
            other = tk.reduce_mean((self.judge(made) - 0.0) ** 2)
        part = self.maker.trainable_weights
        self.made_optimizer.apply_gradients(zip(tape.gradient(other, part), part, strict=True))
        return {"loss": loss, "other": other}


@case
def noise_of_a_step():
    with STRATEGY.scope():
        model = GAN()
        model.compile(keras.optimizers.SGD(0.1))
        model.made_optimizer = keras.optimizers.SGD(0.1)
    return model.fit(X, Y, 18, 3, 0).history, weights(model)


def overlap(y_true, y_pred):
    """One number for the whole batch."""
    both = tk.reduce_sum(y_true * y_pred)
    return 1.0 - both / (tk.reduce_sum(y_true) + tk.reduce_sum(y_pred) + 1.0)


class Spread(keras.losses.Loss):
    def call(self, y_true, y_pred):
        return tk.math.reduce_std(y_pred - y_true, axis=0)  # a number for each output


@case
def losses_of_the_whole_batch():
    """Also where the last batch leaves ranks with fewer rows, or without any."""
    kinds, found = keras.losses, {}
    for name, loss in {
        "dice": kinds.Dice(),
        "dice by columns": kinds.Dice(axis=0),
        "tversky": kinds.Tversky(0.3, 0.7),
        "of a function": overlap,
        "of sums": kinds.LossFunctionWrapper(overlap, reduction="sum"),
        "sum": lambda y, p: tk.reduce_sum((y - p) ** 2) / 100.0,
        "mean": lambda y, p: tk.reduce_mean((y - p) ** 2),
        "of a class": Spread(),
        "of a class, summed": Spread(reduction="sum"),
        "of rows": lambda y, p: tk.reduce_mean((y - p) ** 2, axis=-1),
    }.items():
        for eagerly in (False, True):
            tk.random.set_seed(3)
            with STRATEGY.scope():
                model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2, "sigmoid")])
                model.compile("sgd", loss, metrics=["mae", overlap], run_eagerly=eagerly)
            y = np.concatenate([Y, 1.0 - Y], axis=1)
            weighs = name in ("dice", "of a function", "of sums", "of rows", "sum")
            data = (X[:37], y[:37], WEIGHTS[:37] if weighs else None)
            history = model.fit(*data[:2], 18, 2, 0, sample_weight=data[2], validation_data=data)
            found[f"{name} {eagerly}"] = history.history, weights(model)
    return found


@case
def statistics_where_ranks_have_no_rows():
    found = {}
    for eagerly in (False, True):
        tk.random.set_seed(3)
        with STRATEGY.scope():
            norm = keras.layers.BatchNormalization(synchronized=True, momentum=0.5)
            model = keras.Sequential([keras.Input((6,)), norm, keras.layers.Dense(1)])
            model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=eagerly)
        history = model.fit(X[:14], Y[:14], 6, 3, 0, shuffle=False)
        found[str(eagerly)] = history.history, weights(model)
    return found


def main():
    tk.random.set_seed(3)
    found = {}
    for name in sys.argv[2:] or CASES:
        tk.random.set_seed(3)
        found[name] = CASES[name]()
    path = pathlib.Path(folder(), f"{STRATEGY.rank}.json")
    path.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
