"""Models that are trained, written by one library, and trained on in the other; runs in both.

python training_exchange.py write FOLDER      by Keras
python training_exchange.py read FOLDER       one line of JSON: what goes on otherwise
"""

import json
import os
import pathlib
import sys

import numpy as np

X = np.linspace(-1, 1, 4 * 6 * 4, dtype="float32").reshape(4, 6, 4)


def stack(lib, x, *layers):
    return lib.Sequential([lib.Input(x.shape[1:]), *layers]), x


def recurrent(lib):
    layer = lib.layers
    cells = [layer.LSTMCell(3), layer.GRUCell(3)]
    return stack(
        lib,
        X * (np.arange(6) < 4)[:, None],
        layer.Masking(),
        layer.Bidirectional(layer.GRU(3, return_sequences=True)),
        layer.RNN(cells, return_sequences=True),
        layer.LSTM(2),
    )


def attention(lib):
    layer = lib.layers
    x = lib.Input((None, 4))
    y = layer.MultiHeadAttention(2, 3)(x, x, use_causal_mask=True)
    y = layer.LayerNormalization()(y + x)
    y = layer.AdditiveAttention()([y, layer.GroupQueryAttention(2, 2, 1)(y, y)])
    return lib.Model(x, lib.ops.mean(y, axis=1)), X


def shared_parts(lib):
    layer = lib.layers
    block = lib.Sequential([lib.Input((4,)), layer.Dense(4, "tanh"), layer.Dense(3)])
    a, b = lib.Input((6, 4), name="b"), lib.Input((6, 4), name="a")
    first, second = (block(lib.ops.max(x, axis=1)) for x in (a, b))
    return lib.Model({"b": a, "a": b}, layer.Subtract()([first, second])), {"b": X, "a": -X}


def dense(lib):
    layer = lib.layers
    return stack(lib, X[:, 0], layer.Dense(3, "tanh"), layer.Dense(2))


def rounded(lib):
    return stack(lib, X[:, 0], lib.layers.Dense(3, dtype="bfloat16"))


NETWORKS = (recurrent, attention, shared_parts, rounded)
OPTIMIZERS = {
    "sgd": lambda o: o.SGD(o.schedules.ExponentialDecay(0.1, 2, 0.5), momentum=0.9, clipnorm=1.0),
    "adam": lambda o: o.Adam(0.05, amsgrad=True, use_ema=True, ema_overwrite_frequency=4),
    "nadam": lambda o: o.Nadam(0.05, weight_decay=0.1),
    "adafactor": lambda o: o.Adafactor(0.05, gradient_accumulation_steps=2),
    "scaled": lambda o: o.LossScaleOptimizer(o.Adafactor(0.05), initial_scale=8.0),
}


def cases(lib):
    """By name, a compiled model and its input."""
    for network in NETWORKS:
        model, x = network(lib)
        model.compile(lib.optimizers.SGD(0.1, momentum=0.9), loss=lib.losses.MeanSquaredError())
        yield network.__name__, model, x
    for name, make in OPTIMIZERS.items():
        model, x = dense(lib)
        model.compile(make(lib.optimizers), loss=lib.losses.MeanSquaredError())
        yield name, model, x


def endings(name):
    """Keras can't write the slots of Adafactor into .h5: their names are not distinct."""
    return ("keras",) if name in OPTIMIZERS else ("keras", "h5")


def arrays(lib, values):
    return [np.asarray(lib.ops.convert_to_numpy(value)).astype("float32") for value in values]


def train(model, x, steps):
    y = np.ones((4, *model.output_shape[1:]), "float32")
    for _ in range(steps):
        model.train_on_batch(x, y)


def write(lib, folder):
    """A model after two steps in two files, what it gives then, and its weights three steps on."""
    for name, model, x in cases(lib):
        train(model, x, 2)
        for ending in endings(name):
            model.save(folder / f"{name}.{ending}")
        outputs = arrays(lib, [model(x)])
        train(model, x, 3)
        np.savez(folder / f"{name}.npz", *outputs, *arrays(lib, model.weights))


def differences(lib, folder):
    """By file, what loads with an error, gives something else or trains otherwise."""
    faults = {}
    for name, _, x in cases(lib):
        with np.load(folder / f"{name}.npz") as stored:
            expected = [stored[key] for key in stored.files]
        tolerance = 1e-2 if name == "rounded" else 1e-4
        for ending in endings(name):
            try:
                model = lib.saving.load_model(str(folder / f"{name}.{ending}"))
                values = arrays(lib, [model(x)])
                train(model, x, 3)
            except Exception as error:
                faults[f"{name}.{ending}"] = f"{type(error).__name__}: {str(error)[:300]}"
                continue
            # Keras makes an optimizer anew from .h5: its weights are others then.
            if ending == "keras" or lib.__name__ != "keras":
                values += arrays(lib, model.weights)
            errors = [np.abs(a - b).max() for a, b in zip(values, expected, strict=False)]
            if not max(errors) < tolerance:
                faults[f"{name}.{ending}"] = str(errors)
    return faults


if __name__ == "__main__":
    os.environ.setdefault("KERAS_BACKEND", "jax")
    import keras

    what, place = sys.argv[1], pathlib.Path(sys.argv[2])
    print(write(keras, place) if what == "write" else json.dumps(differences(keras, place)))
