"""Forecast a series a day ahead from windows of the last days, and compare with simple guesses.

The series, made here, has a daily and a weekly rhythm, a slow trend and noise. A window of past
hours goes through a convolution and a GRU; what they say is how the next value differs from that
of a day before, which is the best simple guess.
"""

import argparse

import numpy as np

import trainkit as tk

DAY, WEEK = 24, 168
WINDOW = 3 * DAY


def series(hours, rng):
    """Values for so many hours, about -3 to 3."""
    t = np.arange(hours)
    daily = np.sin(2 * np.pi * t / DAY) * (1 + 0.5 * np.sin(2 * np.pi * t / WEEK))
    drift = np.cumsum(rng.normal(0, 0.03, hours))
    return (daily + 0.4 * np.cos(2 * np.pi * t / WEEK) + drift + rng.normal(0, 0.1, hours)).astype(
        "float32"
    )


def windows(values, shuffle):
    """Batches of windows, and of the step from a day before the target to the target."""
    steps = values[WINDOW:] - values[WINDOW - DAY : -DAY]
    return tk.keras.utils.timeseries_dataset_from_array(
        values[:-1, None], steps, WINDOW, batch_size=64, shuffle=shuffle, seed=0
    )


def main():
    """Make a series, train on its beginning, and forecast its end."""
    parser = argparse.ArgumentParser(description="Forecast a time series.")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--hours", type=int, default=8000)
    args = parser.parse_args()

    tk.random.set_seed(0)
    values = series(args.hours, np.random.default_rng(0))
    cut = args.hours * 3 // 4  # the end is new: a random split would tell the model the future
    known, new = windows(values[:cut], shuffle=True), windows(values[cut:], shuffle=False)

    model = tk.Sequential(
        [
            tk.Input((WINDOW, 1)),
            tk.layers.Conv1D(16, 6, strides=3, activation="relu"),
            tk.layers.GRU(24),
            tk.layers.Dense(1),
        ]
    )
    model.compile(tk.optimizers.Adam(3e-3), "mse", metrics=["mae"])
    stop = tk.callbacks.EarlyStopping("val_loss", patience=3, restore_best_weights=True)
    model.fit(known, epochs=args.epochs, validation_data=new, callbacks=[stop], verbose=2)

    end = values[cut:]
    target, before = end[WINDOW:], end[WINDOW - DAY : -DAY]
    found = before + model.predict(new, verbose=0)[:, 0]
    for name, guess in (
        ("the value of an hour before", end[WINDOW - 1 : -1]),
        ("the value of a day before", before),
        ("the model", found),
    ):
        print(f"mean error {np.abs(guess - target).mean():.3f}: {name}")


if __name__ == "__main__":
    main()
