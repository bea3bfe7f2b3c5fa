"""Learn from few pictures by showing each of them moved, turned and zoomed in ever new ways.

There are 150 pictures to learn from, all upright and in the middle; those of the test lie anywhere.
The layers of the pipeline run in the data set, while training alone; the same model is trained
with and without them.
"""

import argparse

import numpy as np

import trainkit as tk

SIZE = 16
KINDS = ["circle", "frame", "cross"]


def pictures(count, rng, spread):
    """Pictures (count, 16, 16, 1) from 0 to 1 whose middle is up to `spread` pixels off; kinds."""
    rows, columns = np.mgrid[:SIZE, :SIZE]
    kinds = rng.integers(0, len(KINDS), count)
    drawn = np.zeros((count, SIZE, SIZE, 1), "float32")
    for picture, kind in zip(drawn, kinds, strict=True):
        y, x = 7.5 + rng.uniform(-spread, spread, 2)
        radius = rng.uniform(3, 4.5)
        down, across = np.abs(rows - y), np.abs(columns - x)
        if KINDS[kind] == "circle":
            off = np.abs(np.hypot(down, across) - radius)
        elif KINDS[kind] == "frame":
            off = np.abs(np.maximum(down, across) - radius)
        else:
            off = np.minimum(down, across) + 2 * (np.maximum(down, across) > radius)
        picture[..., 0] = np.clip(1.5 - off, 0, 1)
    return drawn + rng.normal(0, 0.1, drawn.shape).astype("float32"), kinds


def network():
    """Two convolutions and a dense layer."""
    return tk.Sequential(
        [
            tk.Input((SIZE, SIZE, 1)),
            tk.layers.Conv2D(16, 3, strides=2, activation="relu"),
            tk.layers.Conv2D(32, 3, strides=2, activation="relu"),
            tk.layers.Flatten(),
            tk.layers.Dense(len(KINDS)),
        ]
    )


def main():
    """Train twice on the same pictures, and compare on the same test."""
    parser = argparse.ArgumentParser(description="Train with and without augmentation.")
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--samples", type=int, default=150)
    args = parser.parse_args()

    rng = np.random.default_rng(0)
    x, y = pictures(args.samples, rng, spread=0.5)
    test = pictures(1000, rng, spread=3.5)

    tk.random.set_seed(0)
    augment = tk.Sequential(
        [
            tk.layers.RandomTranslation(0.25, 0.25, fill_mode="constant", seed=1),
            tk.layers.RandomRotation(0.05, fill_mode="constant", seed=2),
            tk.layers.RandomZoom(0.15, fill_mode="constant", seed=3),
        ]
    )
    plain = tk.data.Dataset.from_tensor_slices((x, y)).shuffle(args.samples, seed=4).batch(32)
    moved = plain.map(lambda x, y: (augment(x, training=True), y))

    scores = {}
    for name, batches in (("as they are", plain), ("augmented", moved)):
        tk.random.set_seed(0)
        model = network()
        loss = tk.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(tk.optimizers.Adam(3e-3), loss, metrics=["accuracy"])
        history = model.fit(batches, epochs=args.epochs, verbose=0).history
        scores[name] = model.evaluate(*test, verbose=0)[1]
        print(
            f"{name:11}  right on {history['accuracy'][-1]:.1%} of the pictures learnt from, "
            f"{scores[name]:.1%} of the test"
        )


if __name__ == "__main__":
    main()
