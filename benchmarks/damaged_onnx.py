"""Damaged ONNX files: each ends in an error of trainkit's or in a model.

    python benchmarks/damaged_onnx.py [files...] [--count 2000] [--seed 0]

Without files, three that trainkit writes are damaged: a convolutional network, a transformer and a
recurrent one. Bytes are changed, cut out, doubled and cut off; sizes are made large. It prints how
many loaded, how many ended in which error, and the largest memory of the process.
"""

from __future__ import annotations

import argparse
import pathlib
import random
import resource
import tempfile
import traceback
import warnings
from collections import Counter

from file_damage import damaged

import trainkit as tk
from trainkit import keras
from trainkit.core.errors import OpError

layers = keras.layers


def samples(folder: pathlib.Path) -> list[pathlib.Path]:
    """Small files that trainkit writes."""
    images = keras.Sequential(
        [keras.Input((8, 8, 3)), layers.Conv2D(4, 3, padding="same", activation="relu"),
         layers.MaxPooling2D(2), layers.BatchNormalization(), layers.Flatten(), layers.Dense(2)]
    )  # fmt: skip
    x = keras.Input((None, 8))
    texts = keras.Model(x, layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4)(x, x)))
    steps = keras.Sequential(
        [keras.Input((None, 4)), layers.LSTM(3, return_sequences=True), layers.GRU(2)]
    )
    paths = []
    for name, model in (("images", images), ("texts", texts), ("steps", steps)):
        paths.append(folder / f"{name}.onnx")
        model.export(paths[-1], verbose=False)
    return paths


def main() -> None:
    """Damage files and count what becomes of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rng, counts, faults = random.Random(arguments.seed), Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        files = arguments.files or samples(pathlib.Path(folder))
        contents = [path.read_bytes() for path in files]
        path = pathlib.Path(folder) / "damaged.onnx"
        for _ in range(arguments.count):
            path.write_bytes(damaged(rng.choice(contents), rng))
            try:
                tk.onnx.load(path)
                counts["loaded"] += 1
            except OpError as error:
                counts[type(error).__name__] += 1
            except Exception:
                faults += 1
                traceback.print_exc(limit=-4)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{dict(counts)}, other errors: {faults}, largest memory {peak} MB")


if __name__ == "__main__":
    main()
