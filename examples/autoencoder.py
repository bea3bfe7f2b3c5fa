"""Take noise out of pictures with a convolutional autoencoder.

The first half halves the picture twice, so that only its gist is left; the second half draws it
again. It is shown noisy pictures and asked for the clean ones. The pictures, circles and frames,
are drawn here.
"""

import argparse

import numpy as np

import trainkit as tk

SIZE = 16


def pictures(count, rng):
    """Circles and square frames of any size and place, (count, 16, 16, 1) from 0 to 1."""
    rows, columns = np.mgrid[:SIZE, :SIZE]
    drawn = np.zeros((count, SIZE, SIZE, 1), "float32")
    for picture in drawn:
        y, x = rng.uniform(5, 11, 2)
        radius = rng.uniform(3, 5)
        across = np.abs(rows - y), np.abs(columns - x)
        distance = np.hypot(*across) if rng.random() < 0.5 else np.maximum(*across)
        picture[..., 0] = np.clip(1.5 - np.abs(distance - radius), 0, 1)
    return drawn


def text_of(picture):
    """A picture as lines of letters."""
    return ["".join(" .:*#"[round(4 * float(v))] for v in row) for row in np.clip(picture, 0, 1)]


def main():
    """Draw, train, and show a noisy picture beside what the model makes of it."""
    parser = argparse.ArgumentParser(description="Take noise out of pictures.")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--samples", type=int, default=3000)
    args = parser.parse_args()

    tk.random.set_seed(0)
    rng = np.random.default_rng(0)
    clean = pictures(args.samples, rng)
    noisy = (clean + rng.normal(0, 0.4, clean.shape)).astype("float32")
    cut = args.samples * 5 // 6

    convolution = {"kernel_size": 3, "strides": 2, "padding": "same", "activation": "relu"}
    encoder = tk.Sequential(
        [
            tk.Input((SIZE, SIZE, 1)),
            tk.layers.Conv2D(16, **convolution),  # 8 x 8
            tk.layers.Conv2D(32, **convolution),  # 4 x 4
        ],
        name="encoder",
    )
    decoder = tk.Sequential(
        [
            tk.layers.Conv2DTranspose(32, **convolution),  # 8 x 8
            tk.layers.Conv2DTranspose(16, **convolution),  # 16 x 16
            tk.layers.Conv2D(1, 3, padding="same"),
        ],
        name="decoder",
    )
    model = tk.Sequential([encoder, decoder])
    model.compile("adam", "mse")
    model.fit(
        noisy[:cut],
        clean[:cut],
        epochs=args.epochs,
        validation_data=(noisy[cut:], clean[cut:]),
        verbose=2,
    )

    found = model.predict(noisy[cut:], verbose=0)
    for left, right in zip(text_of(noisy[cut, ..., 0]), text_of(found[0, ..., 0]), strict=True):
        print(f"{left} | {right}")
    before, after = (float(np.mean((p - clean[cut:]) ** 2)) for p in (noisy[cut:], found))
    print(f"mean squared error: {before:.4f} with noise, {after:.4f} without")


if __name__ == "__main__":
    main()
