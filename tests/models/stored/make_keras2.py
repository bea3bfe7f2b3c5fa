"""Writes `keras2.h5` and `keras2.npz`, with Keras 2 (`tf_keras`); `python make_keras2.py`."""

import pathlib

import numpy as np
import tf_keras as keras

HERE = pathlib.Path(__file__).parent


def model():
    """Shared layers, a model and a stack inside, old names of arguments, two inputs and outputs."""
    layers = keras.layers
    a, b = layers.Input((4, 3), name="a"), layers.Input((3,), name="b")
    steps = layers.LSTM(3, return_sequences=True)(a)
    last = layers.Bidirectional(layers.GRU(2))(steps)
    both = layers.Dense(3, name="both")
    inner_x = layers.Input((3,))
    inner_y = layers.LeakyReLU(0.2)(layers.BatchNormalization()(inner_x))
    inner = keras.Model(inner_x, layers.Dense(3)(inner_y), name="inner")
    stack = keras.Sequential([layers.Dense(3, input_shape=(3,))], name="stack")
    y = layers.Add()([inner(both(b)), stack(inner(both(layers.Dense(3)(last))))])
    one = layers.Dense(1, name="one")(layers.Concatenate()([y, last]))
    query = layers.Reshape((1, 3))(y)
    two = layers.MultiHeadAttention(1, 2)(query, value=steps)
    return keras.Model({"a": a, "b": b}, {"one": one, "two": layers.Flatten(name="two")(two)})


if __name__ == "__main__":
    keras.utils.set_random_seed(1)
    rng = np.random.default_rng(1)
    found = model()
    found.compile(
        keras.optimizers.Adam(0.01),
        loss={"one": "mse", "two": keras.losses.Huber(0.5)},
        loss_weights={"one": 1.0, "two": 0.5},
        metrics={"one": ["mae"], "two": [keras.metrics.RootMeanSquaredError()]},
    )
    x = {"a": rng.normal(size=(8, 4, 3)).astype("f4"), "b": rng.normal(size=(8, 3)).astype("f4")}
    y = {"one": rng.normal(size=(8, 1)).astype("f4"), "two": rng.normal(size=(8, 3)).astype("f4")}
    found.fit(x, y, epochs=2, batch_size=4, shuffle=False, verbose=0)
    found.save(HERE / "keras2.h5")
    results = found.evaluate(x, y, verbose=0, return_dict=True)
    np.savez(
        HERE / "keras2.npz",
        **{f"x_{name}": value for name, value in x.items()},
        **{f"y_{name}": value for name, value in y.items()},
        **{f"p_{name}": value for name, value in found.predict(x, verbose=0).items()},
        **{f"e_{name}": value for name, value in results.items()},
        config=found.to_json(),
    )
