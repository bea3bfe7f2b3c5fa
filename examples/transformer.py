"""Sort digits with a small transformer: each place of the output looks at all of the input.

A block is attention, which mixes places, then two dense layers, which work at each place; both add
to what came in. Since attention knows no order, the embedding adds one vector per place.
"""

import argparse

import numpy as np

import trainkit as tk

PLACES, DIGITS = 8, 10


class Embedded(tk.layers.Layer):
    """A vector for the digit plus a vector for its place."""

    def __init__(self, size, **kwargs):
        super().__init__(**kwargs)
        self.size = size
        self.digit = tk.layers.Embedding(DIGITS, size)
        self.place = tk.layers.Embedding(PLACES, size)

    def call(self, x):
        return self.digit(x) + self.place(tk.range(PLACES))


class Block(tk.layers.Layer):
    """Attention and a small network at each place, each with a way around it."""

    def __init__(self, size, heads, **kwargs):
        super().__init__(**kwargs)
        self.size, self.heads = size, heads
        self.attention = tk.layers.MultiHeadAttention(heads, size // heads)
        self.network = tk.Sequential(
            [tk.layers.Dense(2 * size, activation="gelu"), tk.layers.Dense(size)]
        )
        self.before_attention = tk.layers.LayerNormalization()
        self.before_network = tk.layers.LayerNormalization()

    def call(self, x):
        y = self.before_attention(x)
        x = x + self.attention(y, y)
        return x + self.network(self.before_network(x))


def main():
    """Make rows of digits, learn to sort them, and show some that were never seen."""
    parser = argparse.ArgumentParser(description="Sort digits with a transformer.")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--samples", type=int, default=9600)
    args = parser.parse_args()

    tk.random.set_seed(0)
    x = np.random.default_rng(0).integers(0, DIGITS, (args.samples, PLACES))
    y = np.sort(x, axis=1)
    cut = args.samples * 5 // 6

    inputs = tk.Input((PLACES,), dtype="int32")
    z = Embedded(32)(inputs)
    for _ in range(2):
        z = Block(32, heads=4)(z)
    model = tk.Model(inputs, tk.layers.Dense(DIGITS)(tk.layers.LayerNormalization()(z)))
    model.summary()

    # The outputs are logits: one score for each digit at each place.
    loss = tk.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tk.optimizers.Adam(2e-3), loss, metrics=["accuracy"])
    model.fit(
        x[:cut],
        y[:cut],
        batch_size=64,
        epochs=args.epochs,
        validation_data=(x[cut:], y[cut:]),
        verbose=2,
    )

    found = model.predict(x[cut:], verbose=0).argmax(axis=-1)
    for given, answer in zip(x[cut : cut + 3], found, strict=False):
        print(f"{given} -> {answer}")
    whole = (found == y[cut:]).all(axis=1).mean()
    print(f"{whole:.1%} of {len(found)} new rows are sorted without a mistake")


if __name__ == "__main__":
    main()
