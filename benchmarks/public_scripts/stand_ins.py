"""Runs one script as `python -m trainkit run` does, with made-up data in place of downloads.

python benchmarks/public_scripts/stand_ins.py script.py

Data sets have the sizes of the real ones. `fit` takes one epoch of four steps at most, `get_file`
gives an empty folder, `tensorflow_datasets.load` a few made-up images.
"""

import pathlib
import sys
import tempfile
import types

import numpy as np

import trainkit as tk
from trainkit.cli.main import main

STEPS = 4


def _images(*shape, classes=10):
    generator = np.random.default_rng(0)

    def part(count, small):
        pixels = generator.integers(0, 256, (count, *shape), "uint8")
        labels = generator.integers(0, classes, count).astype("uint8")
        return pixels, labels.reshape(-1, 1) if small else labels

    def load_data(*args, **options):
        small = len(shape) == 3  # labels of CIFAR stand in a column
        return part(50_000 if small else 60_000, small), part(10_000, small)

    return load_data


def _texts(classes, counts):
    def load_data(path=None, num_words=None, maxlen=None, **options):
        generator = np.random.default_rng(0)
        most = num_words or 20_000

        def part(count):
            lengths = generator.integers(10, maxlen or 300, count)
            words = [generator.integers(1, most, n).tolist() for n in lengths]
            return np.array(words, object), generator.integers(0, classes, count)

        return part(counts[0]), part(counts[1])

    return load_data


def _rows(columns, count):
    def load_data(*args, **options):
        generator = np.random.default_rng(0)
        x = generator.normal(size=(count, columns)).astype("float32")
        y = generator.uniform(5, 50, count).astype("float32")
        cut = count * 4 // 5
        return (x[:cut], y[:cut]), (x[cut:], y[cut:])

    return load_data


def _word_index(*args, **options):
    return {f"word{n}": n for n in range(1, 20_000)}


def _get_file(fname=None, origin=None, *args, **options):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="no-download-"))
    return str(folder / str(fname or pathlib.PurePosixPath(str(origin)).name))


def _cut_fit():
    fit = tk.Model.fit

    def shorter(self, x=None, y=None, *args, **options):
        options["epochs"] = min(options.get("epochs", 1), options.get("initial_epoch", 0) + 1)
        steps = options.get("steps_per_epoch")
        options["steps_per_epoch"] = min(steps or STEPS, STEPS)
        if options.get("validation_data") is not None and not options.get("validation_split"):
            options["validation_steps"] = min(options.get("validation_steps") or STEPS, STEPS)
        return fit(self, x, y, *args, **options)

    tk.Model.fit = shorter


def _made_up_datasets():
    """A module that stands for tensorflow_datasets: images with labels, whatever is asked for."""
    module = types.ModuleType("tensorflow_datasets")

    def load(name, split=None, with_info=False, as_supervised=False, **options):
        generator = np.random.default_rng(0)
        pixels = generator.integers(0, 256, (64, 64, 64, 3), "uint8")
        labels = generator.integers(0, 2, 64)
        rows = (pixels, labels) if as_supervised else {"image": pixels, "label": labels}
        data = tk.data.Dataset.from_tensor_slices(rows)
        parts = [data for _ in split] if isinstance(split, list | tuple) else data
        parts = {"train": data, "test": data} if split is None else parts
        return (parts, types.SimpleNamespace()) if with_info else parts

    module.load = load
    module.Split = types.SimpleNamespace(TRAIN="train", TEST="test", VALIDATION="validation")
    module.disable_progress_bar = lambda: None
    return module


def install():
    """Replace what would download, and shorten what would train for long."""
    datasets = tk.keras.datasets
    for name, load in {
        "mnist": _images(28, 28),
        "fashion_mnist": _images(28, 28),
        "cifar10": _images(32, 32, 3),
        "cifar100": _images(32, 32, 3, classes=100),
        "imdb": _texts(2, (25_000, 25_000)),
        "reuters": _texts(46, (8_982, 2_246)),
        "boston_housing": _rows(13, 506),
        "california_housing": _rows(8, 20_640),
    }.items():
        getattr(datasets, name).load_data = load
    datasets.imdb.get_word_index = datasets.reuters.get_word_index = _word_index
    tk.utils.get_file = tk.keras.utils.get_file = _get_file
    sys.modules["tensorflow_datasets"] = _made_up_datasets()
    _cut_fit()


if __name__ == "__main__":
    install()
    sys.exit(main(["run", *sys.argv[1:]]))
