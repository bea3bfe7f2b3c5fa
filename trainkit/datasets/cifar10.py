"""CIFAR-10: 60,000 small colour photographs in 10 classes.

Source: Krizhevsky 2009, "Learning Multiple Layers of Features from Tiny Images". The binary edition
is read: records of one label byte and 3,072 pixel bytes, which unlike the other need no pickle.
"""

import os

from trainkit.datasets.cifar_like import PIXELS, Edition, Part
from trainkit.datasets.store import Source

ARCHIVE = "cifar-10-binary.tar.gz"
SOURCE = Source(
    name="cifar10",
    files={ARCHIVE: "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"},
    mirrors=("https://www.cs.toronto.edu/~kriz/",),
    folders=("", "cifar10", "cifar-10"),
)
FOLDER = "cifar-10-batches-bin"
TRAIN_FILES = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST_FILES = ("test_batch.bin",)
RECORD = 1 + PIXELS

_EDITION = Edition(SOURCE, FOLDER, TRAIN_FILES, TEST_FILES, classes=(10,))
available = _EDITION.available


def load_data(path: str | os.PathLike[str] | None = None) -> tuple[Part, Part]:
    """Load the photographs, downloading them on first use (163 MiB).

    Args:
        path: a folder that holds `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin`, or
            the archive `cifar-10-binary.tar.gz`. Without it either is looked for in the folder of
            `TRAINKIT_DATA`, then the archive in the cache (`TRAINKIT_CACHE`, else
            `~/.cache/trainkit`), and it is otherwise downloaded and checked against its SHA-256.

    Returns:
        `((x_train, y_train), (x_test, y_test))`: images, uint8 of shape (images, 32, 32, 3), red,
        green and blue from 0 to 255 (before the height where the data format in force is
        `"channels_first"`), and labels, uint8 of shape (images, 1): 0 airplane, 1 automobile,
        2 bird, 3 cat, 4 deer, 5 dog, 6 frog, 7 horse, 8 ship, 9 truck. The full set has 50,000 and
        10,000 images.

    Raises:
        FileNotFoundError: the files are not on this machine and cannot be downloaded.
        ValueError: a file is broken; the message names it with expected and found values.
    """
    return _EDITION.load(path)
