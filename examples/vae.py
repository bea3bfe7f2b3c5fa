"""A variational autoencoder: pictures as points of a plane, and new pictures from new points.

The encoder gives a mean and a spread for each picture; the decoder draws from a point taken there
by chance. The loss asks for a good drawing, and for points spread like a normal distribution, so
that any point near 0 means a picture.
Source: Kingma and Welling 2014, "Auto-encoding variational Bayes", arXiv:1312.6114.
"""

import argparse

import numpy as np

import trainkit as tk

SIZE = 12


def pictures(count, rng):
    """Bars of any angle and thickness, (count, 12, 12) from 0 to 1."""
    rows, columns = np.mgrid[:SIZE, :SIZE] - (SIZE - 1) / 2
    angle = rng.uniform(0, np.pi, (count, 1, 1))
    thickness = rng.uniform(0.7, 2.5, (count, 1, 1))
    distance = np.abs(rows * np.cos(angle) - columns * np.sin(angle))
    return np.clip(thickness - distance + 0.5, 0, 1).astype("float32")


class Sampled(tk.layers.Layer):
    """A point of a normal distribution around each mean; adds the loss that keeps them near 0."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seed_generator = tk.keras.random.SeedGenerator(7)

    def call(self, mean, log_variance):
        # divergence of N(mean, exp(log_variance)) from N(0, 1), for each picture
        terms = 1.0 + log_variance - tk.square(mean) - tk.exp(log_variance)
        self.add_loss(-0.5 * tk.reduce_mean(tk.reduce_sum(terms, axis=-1)) / SIZE**2)
        noise = tk.keras.random.normal(tk.shape(mean), seed=self.seed_generator)
        return mean + tk.exp(0.5 * log_variance) * noise


def text_of(rows):
    """Pictures side by side as lines of letters."""
    joined = np.concatenate(list(rows), axis=1)
    return ["".join(" .:*#"[round(4 * float(v))] for v in row) for row in joined]


def main():
    """Draw bars, train, and walk along a line through the plane."""
    parser = argparse.ArgumentParser(description="Train a variational autoencoder.")
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--samples", type=int, default=4000)
    args = parser.parse_args()

    tk.random.set_seed(0)
    drawn = pictures(args.samples, np.random.default_rng(0))

    inputs = tk.Input((SIZE, SIZE))
    x = tk.layers.Dense(128, activation="relu")(tk.layers.Flatten()(inputs))
    mean, log_variance = tk.layers.Dense(2)(x), tk.layers.Dense(2)(x)
    encoder = tk.Model(inputs, [mean, log_variance], name="encoder")

    decoder = tk.Sequential(
        [
            tk.Input((2,)),
            tk.layers.Dense(128, activation="relu"),
            tk.layers.Dense(SIZE * SIZE, activation="sigmoid"),
            tk.layers.Reshape((SIZE, SIZE)),
        ],
        name="decoder",
    )
    model = tk.Model(inputs, decoder(Sampled()(*encoder(inputs))))
    model.compile(tk.optimizers.Adam(2e-3), "binary_crossentropy")
    history = model.fit(drawn, drawn, batch_size=64, epochs=args.epochs, verbose=2).history
    print(f"loss: {history['loss'][0]:.4f} at first, {history['loss'][-1]:.4f} at last")

    turn = np.linspace(0, 2 * np.pi, 7)[:-1]
    points = np.stack([np.cos(turn), np.sin(turn)], axis=1).astype("float32")
    print("new pictures, from points on a circle around 0:")
    print("\n".join(text_of(decoder.predict(points, verbose=0))))


if __name__ == "__main__":
    main()
