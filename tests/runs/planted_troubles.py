"""Runs with planted troubles, and clean ones: `python -m tests.runs.planted_troubles` counts.

Each trouble has four variants, of other data, networks, losses and seeds.
"""

import argparse
import collections
import os
import tempfile
import time

import numpy as np

import trainkit as tk

ROWS, FEATURES, CLASSES = 480, 8, 4
VARIANTS = 4
EPOCHS = 8


# ------------------------------------------------------------------ data and networks


def blobs(seed, rows=ROWS, spread=1.0, features=FEATURES, classes=CLASSES):
    """Normal clouds around the corners of a cube, one for each class."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(classes, features)) * 1.5
    y = rng.integers(0, classes, rows)
    x = centers[y] + spread * rng.normal(size=(rows, features))
    return (x / np.sqrt(3.25)).astype(np.float32), y


def wave(seed, rows=ROWS, features=FEATURES):
    """A smooth function of the inputs."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, features)).astype(np.float32)
    weights = rng.normal(size=(features, 1))
    y = np.tanh(x @ weights) + 0.05 * rng.normal(size=(rows, 1))
    return x, y.astype(np.float32)


def network(seed, layers=(), outputs=CLASSES, units=16, activation="relu", **compile_arguments):
    tk.keras.utils.set_random_seed(seed)
    model = tk.Sequential(
        [
            tk.Input((FEATURES,)),
            tk.layers.Dense(units, activation=activation),
            *layers,
            tk.layers.Dense(units, activation=activation),
            tk.layers.Dense(outputs),
        ]
    )
    loss = "mse"
    arguments = {"optimizer": tk.optimizers.Adam(0.005), **compile_arguments}
    if outputs > 1:
        loss = tk.losses.SparseCategoricalCrossentropy(from_logits=True)
        arguments.setdefault("metrics", ["accuracy"])
    model.compile(loss=loss, **arguments)
    return model


def fit(model, x, y, folder, epochs=None, batch_size=32, **arguments):
    epochs = EPOCHS if epochs is None else epochs
    journal = tk.callbacks.RunJournal(folder, digest_every=1)
    model.fit(x, y, batch_size, epochs, verbose=0, run=journal, **arguments)


def network_of(number, **arguments):
    """A network for classes or for numbers, with its data; odd numbers are for regression."""
    if number % 2:
        return network(number, outputs=1, **arguments), *wave(number)
    return network(number, **arguments), *blobs(number)


# ------------------------------------------------------------------ troubles


def bad_rows(number, folder):
    """A few rows whose inputs or targets are far off, met late in the first epochs."""
    model, x, y = network_of(number)
    rows = np.random.default_rng(number).integers(200, 400, 1 + number % 2)
    if number == 3:
        y[rows] += 80
    else:
        x[rows] *= 300
        y[rows] = (y[rows] + 2) % CLASSES if number % 2 == 0 else y[rows]
    fit(model, x, y, folder, shuffle=False)
    return "loss jump", "row"


def rate_step(number, folder):
    """The learning rate is raised in the middle, the loss jumps and stays."""
    model, x, y = network_of(number, optimizer=tk.optimizers.SGD(0.05))
    raised = tk.callbacks.LearningRateScheduler(lambda epoch: 0.05 if epoch < 5 else 20.0 + number)
    fit(model, x, y, folder, callbacks=[raised])
    return ("loss jump", "nan"), "step 7"


def spiked_gradient(number, folder):
    """One step has a gradient many times as long: a sample counts a thousand times."""
    model, x, y = network_of(number)
    weights = np.ones(len(x), np.float32)
    weights[300 + number] = 2000
    fit(model, x, y, folder, sample_weight=weights, shuffle=False)
    return "gradient", "times the median"


def dead_units(number, folder):
    """Biases are so low that units never fire, from the beginning or after some epochs."""
    model, x, y = network_of(number)

    def kill(epoch=0, logs=None):
        if epoch == (number % 3):
            layer = model.layers[0 if number < 2 else 1]
            bias = np.array(layer.bias.numpy())
            bias[: 10 + number] = -1000
            layer.bias.assign(bias)

    callback = tk.callbacks.LambdaCallback(on_epoch_begin=kill)
    fit(model, x, y, folder, callbacks=[callback])
    return "dead units", "units of"


def vanishing(number, folder):
    """Weights that get next to no gradient: before saturated units or in them."""
    model, x, y = network_of(number, activation="tanh", optimizer=tk.optimizers.SGD(0.02))
    model.layers[number % 2].bias.assign(np.full(16, 60 - 10 * number, np.float32))
    fit(model, x, y, folder)
    return "small updates", "does not learn"


def drifted(number, folder):
    """Statistics of BatchNormalization that move too slowly, or were spoiled."""
    momentum = 0.9999 if number < 2 else 0.99
    layers = [tk.layers.BatchNormalization(momentum=momentum)]
    model, x, y = network_of(number, layers=layers)
    x = x * 3 + 4

    def spoil(epoch, logs=None):
        if epoch == EPOCHS - 1:
            layers[0].moving_mean.assign(layers[0].moving_mean + 8)

    callbacks = [tk.callbacks.LambdaCallback(on_epoch_end=spoil)] if number >= 2 else []
    fit(model, x, y, folder, callbacks=callbacks)
    return "batch statistics", "moving statistics"


def overfitted(number, folder):
    """More weights than rows, labels with noise: the validation gets worse."""
    x, y = blobs(number, rows=120, spread=3.5)
    held = blobs(number, rows=400, spread=3.5)
    model = network(number, units=96, optimizer=tk.optimizers.Adam(0.01))
    fit(model, x, y, folder, epochs=25, validation_data=(held[0][120:], held[1][120:]))
    return "validation", "epoch"


def sorted_rows(number, folder):
    """Rows sorted by their targets, and not shuffled."""
    model, x, y = network_of(number)
    order = np.argsort(y.ravel(), kind="stable")
    fit(model, x[order], y[order], folder, shuffle=False)
    return "order", "not shuffled"


def duplicates(number, folder):
    """Rows of training among those of the validation."""
    model, x, y = network_of(number)
    count = 20 * (number + 1)
    held = (np.concatenate([x[:count], x[400:]]), np.concatenate([y[:count], y[400:]]))
    fit(model, x[:400], y[:400], folder, validation_data=held)
    return "duplicates", "rows of the validation"


def slow_data(number, folder):
    """A data set that takes longer than the steps, in all epochs or in one."""
    model, x, y = network_of(number)
    passes = []

    def batches():
        passes.append(None)
        for i in range(0, ROWS, 32):
            if number < 2 or len(passes) == 3:
                time.sleep(0.03)
            yield x[i : i + 32], y[i : i + 32]

    spec = (tk.TensorSpec((None, FEATURES)), tk.TensorSpec((None, *y.shape[1:]), y.dtype))
    data = tk.data.Dataset.from_generator(batches, output_signature=spec)
    journal = tk.callbacks.RunJournal(folder, digest_every=1)
    model.fit(data, epochs=4, verbose=0, run=journal)
    return "waiting", "for data"


def not_finite(number, folder):
    """NaN or infinity in a row, a logarithm of zero, weights that overflow."""
    model, x, y = network_of(number)
    if number == 2:
        x[123, 3] = np.inf
    elif number == 3:
        y[77] = np.nan
    elif number == 0:
        x[205, 1] = np.nan
    else:

        def loss(y_true, y_pred):
            return tk.reduce_mean(-tk.math.log(tk.maximum(y_pred, -1.0) + 1.0 - 0 * y_true), -1)

        model.compile(tk.optimizers.SGD(0.1), loss)
    fit(model, x, y, folder, epochs=3)
    return "nan", "from step"


def high_rate(number, folder):
    """A learning rate with which the loss grows."""
    optimizers = [
        tk.optimizers.SGD(30.0), tk.optimizers.SGD(3.0, momentum=0.9),
        tk.optimizers.Adam(3.0), tk.optimizers.RMSprop(2.0),
    ]  # fmt: skip
    model, x, y = network_of(number, optimizer=optimizers[number])
    fit(model, x, y, folder)
    return "high rate", "too high"


def low_rate(number, folder):
    """A learning rate with which nothing happens."""
    optimizers = [
        tk.optimizers.SGD(1e-6), tk.optimizers.SGD(1e-5, momentum=0.9),
        tk.optimizers.Adam(1e-7), tk.optimizers.RMSprop(1e-7),
    ]  # fmt: skip
    model, x, y = network_of(number, optimizer=optimizers[number])
    fit(model, x, y, folder)
    return "low rate", "too low"


def shifted_labels(number, folder):
    """Labels that belong to the row before or after, or other numbers in the validation."""
    model, x, y = network_of(number)
    if number == 2:
        fit(model, x[:360], y[:360], folder, validation_data=(x[360:], (y[360:] + 1) % CLASSES))
    else:
        fit(model, x, np.roll(y, (1, -1, 0, 2)[number], axis=0), folder)
    return "labels", "shifted"


def unscaled(number, folder):
    """Inputs as bytes of an image, as years, as amounts beside shares."""
    model, x, y = network_of(number, optimizer=tk.optimizers.Adam(0.001))
    if number == 0:
        x = np.clip((x + 3) * 42, 0, 255)
    elif number == 1:
        x = x * 20 + 2000
    elif number == 2:
        x = x * np.array([1, 1, 1, 1, 1, 1, 1, 20000], np.float32)
    else:
        x = x * 400
    fit(model, x.astype(np.float32), y, folder)
    return "scale", "not scaled"


def unbalanced(number, folder):
    """Hardly any rows of one class, or nearly all of another."""
    x, y = blobs(number, rows=4000)
    shares = [[1, 1, 1, 0.01], [1, 0.02, 0.02, 0.02], [1, 1, 0.03, 0.03], [1, 0.1, 0.05, 0.05]]
    keep = np.random.default_rng(number).uniform(size=len(y)) < np.array(shares[number])[y]
    fit(network(number), x[keep], y[keep], folder, epochs=4)
    return "imbalance", "class"


TROUBLES = [
    bad_rows, rate_step, spiked_gradient, dead_units, vanishing, drifted, overfitted, sorted_rows,
    duplicates, slow_data, not_finite, high_rate, low_rate, shifted_labels, unscaled, unbalanced,
]  # fmt: skip
"""Sixteen, of which four variants are 64; `planted` takes 60."""


def planted():
    """60 troubles: (name, function, number of the variant)."""
    every = [(f"{t.__name__}-{n}", t, n) for n in range(VARIANTS) for t in TROUBLES]
    return every[:60]


# ------------------------------------------------------------------ clean runs


def clean_classes(number, folder):
    fit(network(number), *blobs(number), folder)


def clean_numbers(number, folder):
    fit(network(number, outputs=1), *wave(number), folder)


def clean_validated(number, folder):
    x, y = blobs(number)
    fit(network(number), x, y, folder, validation_split=0.2)


def clean_dropout(number, folder):
    layers = [tk.layers.Dropout(0.2)]
    fit(network(number, layers=layers, units=32), *blobs(number), folder, epochs=12)


def clean_normalized(number, folder):
    layers = [tk.layers.BatchNormalization(momentum=0.9)]
    fit(network(number, layers=layers), *blobs(number), folder, validation_split=0.25)


def clean_small_batches(number, folder):
    optimizer = tk.optimizers.SGD(0.05, momentum=0.9)
    fit(network(number, optimizer=optimizer), *blobs(number), folder, batch_size=4, epochs=6)


def clean_fixed_order(number, folder):
    fit(network(number), *blobs(number), folder, shuffle=False)


def clean_dataset(number, folder):
    x, y = blobs(number)
    data = tk.data.Dataset.from_tensor_slices((x, y)).shuffle(ROWS, seed=number).batch(32)
    journal = tk.callbacks.RunJournal(folder, digest_every=1)
    network(number).fit(data, epochs=6, verbose=0, run=journal)


def clean_binary(number, folder):
    x, y = blobs(number, classes=2)
    tk.keras.utils.set_random_seed(number)
    model = tk.Sequential(
        [
            tk.Input((FEATURES,)),
            tk.layers.Dense(8, activation="tanh"),
            tk.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(tk.optimizers.Adam(0.01), "binary_crossentropy", metrics=["accuracy"])
    fit(model, x, y.astype(np.float32)[:, None], folder, validation_split=0.2)


def clean_decay(number, folder):
    rate = tk.callbacks.LearningRateScheduler(lambda epoch: 0.01 * 0.7**epoch)
    fit(network(number), *blobs(number), folder, callbacks=[rate], epochs=12)


CLEAN = [
    clean_classes, clean_numbers, clean_validated, clean_dropout, clean_normalized,
    clean_small_batches, clean_fixed_order, clean_dataset, clean_binary, clean_decay,
]  # fmt: skip


def clean():
    """20 runs that are well: (name, function, seed)."""
    return [(f"{make.__name__}-{n}", make, n) for n in (11, 12) for make in CLEAN]


# ------------------------------------------------------------------ counting


def named(make, number, folder):
    """Whether a planted trouble is named, and the diagnosis."""
    kinds, text = make(number, folder)
    diagnosis = tk.runs.open(folder).why()
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    hits = [f for f in diagnosis.findings if f.kind in kinds and text in f.sentence]
    return bool(hits), diagnosis


def main():
    """Make all runs, and count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names that begin so")
    only = parser.parse_args().only
    hits, alarms, times = [], [], []
    others = collections.Counter()
    with tempfile.TemporaryDirectory() as scratch:
        for name, make, number in [item for item in planted() if item[0].startswith(only)]:
            began = time.perf_counter()
            is_named, diagnosis = named(make, number, os.path.join(scratch, name))
            times.append(time.perf_counter() - began)
            hits.append(is_named)
            kinds = [finding.kind for finding in diagnosis.findings]
            others.update(kinds)
            print("named " if is_named else "MISSED", f"{name:<20}", kinds, diagnosis.unknown)
            if not is_named or only:
                print(diagnosis)
        for name, make, number in [item for item in clean() if item[0].startswith(only)]:
            folder = os.path.join(scratch, name)
            make(number, folder)
            diagnosis = tk.runs.open(folder).why()
            alarms.append(len(diagnosis.findings))
            print("ALARM " if diagnosis.findings else "quiet ", f"{name:<24}", diagnosis.unknown)
            if diagnosis.findings:
                print(diagnosis)
    print(f"{sum(hits)} of {len(hits)} planted troubles are named, with {dict(others)}")
    print(f"{sum(map(bool, alarms))} of {len(alarms)} clean runs raise an alarm")
    if times:
        print(f"median time to train and ask: {np.median(times):.2f} s")


if __name__ == "__main__":
    main()
