"""Trains models of several kinds, and prints a checksum of the bits of each.

python -m tests.kernels.determined THREADS determined|free [KIND ...]
"""

import hashlib
import json
import sys

import numpy as np

import trainkit as tk

RNG = np.random.default_rng(0)


def images(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def mlp(layers):
    return [layers.Dense(300, "gelu"), layers.LayerNormalization(), layers.Dense(257, "relu"),
            layers.Dropout(0.3), layers.Dense(1)], images(512, 200)  # fmt: skip


def vector(layers):
    return [layers.Dense(1)], images(600, 5000)


def cnn(layers):
    return [layers.Conv2D(16, 3, padding="same"), layers.BatchNormalization(),
            layers.Activation("relu"), layers.MaxPooling2D(), layers.Conv2D(24, 3, strides=2),
            layers.Conv2D(8, 1), layers.GlobalAveragePooling2D(),
            layers.Dense(1)], images(64, 28, 28, 3)  # fmt: skip


def depthwise(layers):
    return [layers.Conv2D(16, 1), layers.DepthwiseConv2D(3, padding="same"),
            layers.SeparableConv2D(24, 3), layers.AveragePooling2D(), layers.Flatten(),
            layers.Dense(1)], images(48, 24, 24, 4)  # fmt: skip


def lstm(layers):
    return [layers.LSTM(96, return_sequences=True), layers.GRU(64), layers.Dense(1)], images(
        96, 30, 40
    )


def attention(layers):
    class Block(layers.Layer):
        def __init__(self):
            super().__init__()
            self.attention = layers.MultiHeadAttention(4, 32)
            self.norm = layers.LayerNormalization()

        def call(self, x):
            return self.norm(x + self.attention(x, x))

    return [layers.Dense(64), Block(), layers.GlobalAveragePooling1D(), layers.Dense(1)], images(
        32, 64, 24
    )


def text(layers):
    ids = RNG.integers(0, 4000, (256, 60)).astype(np.int32)
    return [layers.Embedding(4000, 64), layers.Conv1D(64, 5), layers.GlobalMaxPooling1D(),
            layers.Dense(1)], ids  # fmt: skip


def mixed_cnn(layers):
    """Of bfloat16: transforms, products of windows, direct sums, means, maxima and norms."""
    tk.mixed_precision.set_global_policy("mixed_bfloat16")
    return [layers.Conv2D(32, 3, padding="same"), layers.BatchNormalization(),
            layers.Activation("silu"), layers.Conv2D(40, 3, padding="same"),
            layers.MaxPooling2D(), layers.Conv2D(48, 3, strides=2), layers.GroupNormalization(8),
            layers.DepthwiseConv2D(3, padding="same"), layers.AveragePooling2D(3, 1),
            layers.Conv2DTranspose(32, 2, strides=2), layers.LayerNormalization(),
            layers.GlobalAveragePooling2D(),
            layers.Dense(1, dtype="float32")], images(64, 20, 20, 3)  # fmt: skip


KINDS = (mlp, vector, cnn, depthwise, lstm, attention, text, mixed_cnn)


def digest(kind):
    """The checksum of all weights and slots after some steps, and of the losses."""
    tk.random.set_seed(1)
    stack, x = kind(tk.layers)
    y = RNG.standard_normal((len(x), 1)).astype(np.float32)
    model = tk.Sequential(stack)
    model.compile(tk.optimizers.Adam(0.01), "mse", metrics=["mae"])
    history = model.fit(x, y, batch_size=len(x) // 2, epochs=2, verbose=0).history
    found = hashlib.sha256(json.dumps(history, sort_keys=True).encode())
    for array in [*model.get_weights(), *(v.numpy() for v in model.optimizer.variables)]:
        found.update(np.ascontiguousarray(array).tobytes())
    found.update(model.predict(x, verbose=0).tobytes())
    sums = [tk.reduce_sum(x), tk.linalg.norm(tk.cast(x, "float32")), tk.math.cumsum(x, axis=0)]
    for value in sums:
        found.update(value.numpy().tobytes())
    return found.hexdigest()[:16]


def main(threads, how, *names):
    """Print the checksums as JSON."""
    if how == "determined":
        tk.config.experimental.enable_op_determinism()
    tk.config.threading.set_intra_op_parallelism_threads(int(threads))
    global RNG
    found = {}
    for kind in KINDS:
        if not names or kind.__name__ in names:
            tk.mixed_precision.set_global_policy("float32")
            RNG = np.random.default_rng(0)
            found[kind.__name__] = digest(kind)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
