"""A program: 100 steps of Keras's convolutional network for MNIST, batch 128, and nothing else.

`first_steps.py FRAMEWORK`, of trainkit, tensorflow, jax (both by Keras) and torch; it ends with
status 3 where the framework is not installed.
"""

import os
import sys
from typing import Any

import numpy as np

STEPS, BATCH = 100, 128


def images() -> tuple[Any, Any]:
    """Images (n, 28, 28, 1) and labels."""
    rng = np.random.default_rng(0)
    count = STEPS * BATCH
    return rng.random((count, 28, 28, 1), dtype="float32"), rng.integers(0, 10, count)


def by_keras(keras: Any) -> None:
    """One epoch of `fit`."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dropout(0.5),
            layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    x, y = images()
    model.fit(x, y, batch_size=BATCH, epochs=1, verbose=0)


def by_torch() -> None:
    """The same steps by a loop."""
    import torch

    nn: Any = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.5), nn.Linear(1600, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters())
    x, y = images()
    x = torch.from_numpy(x.transpose(0, 3, 1, 2).copy())
    y = torch.from_numpy(y)
    right = 0
    for i in range(0, len(x), BATCH):
        logits = model(x[i : i + BATCH])
        loss = nn.functional.cross_entropy(logits, y[i : i + BATCH])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right += int((logits.argmax(1) == y[i : i + BATCH]).sum())


def main(framework: str) -> int:
    """Run the steps; the exit status."""
    try:
        if framework == "torch":
            by_torch()
        elif framework == "trainkit":
            import trainkit as tk

            by_keras(tk.keras)
        else:
            os.environ["KERAS_BACKEND"] = framework
            import keras

            by_keras(keras)
    except ImportError as error:
        print(error)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
