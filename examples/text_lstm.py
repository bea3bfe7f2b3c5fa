"""Tell praise from blame in short sentences, with an LSTM that reads words in order.

The sentences are made here. "not good" is blame and "not bad" is praise, so that counting words is
not enough: the order matters, and the layer has to remember.
"""

import argparse

import numpy as np

import trainkit as tk

GOOD = ["good", "lovely", "clever", "moving", "bright", "funny"]
BAD = ["bad", "dull", "clumsy", "empty", "slow", "tired"]
OPENINGS = ["the film is", "i found it", "her new book was", "this song is", "we thought it"]
ENDINGS = ["", "from start to end", "as my friend said", "if you ask me"]


def sentences(count, rng):
    """Texts and their labels, 1 for praise."""
    texts, labels = [], []
    for _ in range(count):
        good, negated = rng.random(2) < 0.5
        words = ["not"] * int(negated) + [str(rng.choice(GOOD if good else BAD))]
        texts.append(" ".join([str(rng.choice(OPENINGS)), *words, str(rng.choice(ENDINGS))]))
        labels.append(float(good != negated))
    return np.array(texts), np.array(labels, "float32")


def main():
    """Make sentences, train on most of them, and ask about a few new ones."""
    parser = argparse.ArgumentParser(description="Classify sentences with an LSTM.")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--samples", type=int, default=4000)
    args = parser.parse_args()

    tk.random.set_seed(0)
    texts, labels = sentences(args.samples, np.random.default_rng(0))
    cut = args.samples * 3 // 4

    # Words become numbers: 0 fills up short sentences, 1 is a word never seen.
    numbers = tk.layers.TextVectorization(output_sequence_length=12)
    numbers.adapt(texts[:cut])
    print(f"{numbers.vocabulary_size()} words, such as {numbers.get_vocabulary()[2:6]}")

    # `mask_zero` tells the LSTM where a sentence ends; it skips what only fills up.
    model = tk.Sequential(
        [
            tk.layers.Embedding(numbers.vocabulary_size(), 16, mask_zero=True),
            tk.layers.LSTM(16),
            tk.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(tk.optimizers.Adam(0.01), "binary_crossentropy", metrics=["accuracy"])
    x = numbers(texts)
    model.fit(
        x[:cut],
        labels[:cut],
        epochs=args.epochs,
        validation_data=(x[cut:], labels[cut:]),
        verbose=2,
    )

    asked = ["the film is good", "the film is not good", "this song is not bad if you ask me"]
    for text, share in zip(asked, model.predict(numbers(asked), verbose=0)[:, 0], strict=True):
        print(f"{share:6.1%} praise: {text}")


if __name__ == "__main__":
    main()
