"""A model with two inputs and two outputs: rent and demand, from numbers and a district.

Numbers go through dense layers, the district through an embedding, which gives each district a
vector of its own; both join. The data, made here by a rule with noise, is given by name.
"""

import argparse

import numpy as np

import trainkit as tk

DISTRICTS = ["harbour", "hill", "market", "station", "park"]
PRICES = np.array([14.0, 18.0, 22.0, 12.0, 16.0])  # per square metre


def flats(count, rng):
    """Inputs and targets by name."""
    district = rng.integers(0, len(DISTRICTS), count)
    area, floor, age = (
        rng.uniform(25, 120, count),
        rng.integers(0, 6, count),
        rng.gamma(2, 15, count),
    )
    rent = area * PRICES[district] * (1 + 0.02 * floor - 0.002 * age) + rng.normal(0, 40, count)
    wanted = rent / area < 15.0  # cheap ones have many applicants
    numbers = np.stack([area, floor, age], axis=1).astype("float32")
    inputs = {"numbers": numbers, "district": district.astype("int32")[:, None]}
    targets = {
        "rent": rent.astype("float32")[:, None] / 1000,
        "wanted": wanted.astype("float32")[:, None],
    }
    return inputs, targets


def part(data, where):
    """The same part of each array."""
    return {name: values[where] for name, values in data.items()}


def main():
    """Make flats, train, and compare districts for one and the same flat."""
    parser = argparse.ArgumentParser(description="Learn rents from two kinds of inputs.")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--samples", type=int, default=6000)
    args = parser.parse_args()

    tk.random.set_seed(0)
    inputs, targets = flats(args.samples, np.random.default_rng(0))
    cut = args.samples * 5 // 6
    known, new = slice(cut), slice(cut, None)

    # Mean and spread of the numbers are measured once, and belong to the model.
    scaled = tk.layers.Normalization()
    scaled.adapt(inputs["numbers"][known])

    numbers = tk.Input((3,), name="numbers")
    district = tk.Input((1,), dtype="int32", name="district")
    vector = tk.layers.Flatten()(tk.layers.Embedding(len(DISTRICTS), 4)(district))
    x = tk.layers.Concatenate()([scaled(numbers), vector])
    for _ in range(2):
        x = tk.layers.Dense(32, activation="relu")(x)
    outputs = {
        "rent": tk.layers.Dense(1, name="rent")(x),
        "wanted": tk.layers.Dense(1, activation="sigmoid", name="wanted")(x),
    }
    model = tk.Model({"numbers": numbers, "district": district}, outputs)
    model.compile(
        tk.optimizers.Adam(3e-3),
        loss={"rent": "mse", "wanted": "binary_crossentropy"},
        loss_weights={"rent": 1.0, "wanted": 0.2},
        metrics={"rent": ["mae"], "wanted": ["accuracy"]},
    )
    model.fit(
        part(inputs, known),
        part(targets, known),
        epochs=args.epochs,
        validation_data=(part(inputs, new), part(targets, new)),
        verbose=2,
    )

    flat = np.tile(np.array([[60.0, 2.0, 30.0]], "float32"), (len(DISTRICTS), 1))
    asked = {"numbers": flat, "district": np.arange(len(DISTRICTS), dtype="int32")[:, None]}
    found = model.predict(asked, verbose=0)
    for name, price, rent, wanted in zip(
        DISTRICTS, PRICES, found["rent"][:, 0], found["wanted"][:, 0], strict=True
    ):
        rule = 60.0 * price * (1 + 0.04 - 0.06)
        print(f"{name:8} {1000 * rent:5.0f} (by the rule {rule:5.0f}), wanted {wanted:4.0%}")


if __name__ == "__main__":
    main()
