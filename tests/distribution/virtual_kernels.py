"""Models of sizes at which compiled kernels and threads of BLAS serve, trained by virtual replicas.

Run as a program: `virtual_kernels.py OUTPUT`; each rank writes `OUTPUT/RANK.json`.
"""

import hashlib
import json
import pathlib
import sys

import numpy as np

import trainkit as tk
from trainkit.kernels.jit import kernel_family

tk.random.set_seed(3)
STRATEGY = tk.distribute.MultiWorkerMirroredStrategy(virtual_replicas=2)
L = tk.keras.layers


class Attention(L.Layer):
    def __init__(self):
        super().__init__()
        self.inner = L.MultiHeadAttention(4, 16, dropout=0.1)

    def call(self, x):
        return x + self.inner(x, x)


def trained(layers, x, y):
    with STRATEGY.scope():
        model = tk.keras.Sequential([tk.keras.Input(x.shape[1:]), *layers])
        model.compile("adam", "mse")
    model.fit(x, y, 128, 2, 0)
    text = b"".join(np.ascontiguousarray(w.numpy()).tobytes() for w in model.weights)
    return hashlib.md5(text).hexdigest()


def main():
    assert kernel_family.mode() == "eager"
    random = np.random.default_rng(0)
    y = random.normal(size=(200, 1)).astype("float32")
    rows = random.normal(size=(200, 256)).astype("float32")
    images = random.normal(size=(200, 20, 20, 3)).astype("float32")
    steps = random.normal(size=(200, 16, 32)).astype("float32")
    found = {
        "dense": trained(
            [L.Dense(512, "gelu"), L.LayerNormalization(), L.Dense(512), L.Dense(1)], rows, y
        ),
        "wide": trained([L.Dense(300, "relu", dtype="float64"), L.Dense(1)], rows, y),
        "convolutions": trained(
            [
                L.Conv2D(32, 3, padding="same", use_bias=False),
                L.BatchNormalization(),
                L.ReLU(),
                L.MaxPooling2D(),
                L.Conv2D(32, 3, activation="relu"),
                L.DepthwiseConv2D(3),
                L.GlobalAveragePooling2D(),
                L.Dense(1),
            ],
            images,
            y,
        ),
        "recurrent": trained(
            [L.LSTM(64, return_sequences=True, dropout=0.1), L.GRU(48), L.Dense(1)], steps, y
        ),
        "attention": trained(
            [Attention(), L.Dense(128, "gelu"), L.GlobalAveragePooling1D(), L.Dense(1)], steps, y
        ),
    }
    folder = pathlib.Path(sys.argv[1])
    (folder / f"{STRATEGY.rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
