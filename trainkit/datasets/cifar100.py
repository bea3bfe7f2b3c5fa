"""CIFAR-100: 60,000 small colour photographs in 100 classes of 20 kinds.

Source: Krizhevsky 2009, "Learning Multiple Layers of Features from Tiny Images". The binary edition
is read: records of two label bytes and 3,072 pixel bytes, which unlike the other need no pickle.
"""

import os

from trainkit.core.errors import InvalidArgumentError
from trainkit.datasets.cifar_like import PIXELS, Edition, Part
from trainkit.datasets.store import Source

ARCHIVE = "cifar-100-binary.tar.gz"
SOURCE = Source(
    name="cifar100",
    files={ARCHIVE: "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"},
    mirrors=("https://www.cs.toronto.edu/~kriz/",),
    folders=("", "cifar100", "cifar-100"),
)
FOLDER = "cifar-100-binary"
TRAIN_FILES = ("train.bin",)
TEST_FILES = ("test.bin",)
RECORD = 2 + PIXELS

_LABELS = ("coarse", "fine")  # in the order in which they stand before the pixels
_EDITION = Edition(SOURCE, FOLDER, TRAIN_FILES, TEST_FILES, classes=(20, 100))
available = _EDITION.available


def load_data(
    label_mode: str = "fine", path: str | os.PathLike[str] | None = None
) -> tuple[Part, Part]:
    """Load the photographs, downloading them on first use (161 MiB).

    Args:
        label_mode: `"fine"` for labels of the 100 classes, `"coarse"` for those of the 20 kinds.
        path: a folder that holds `train.bin` and `test.bin`, or the archive
            `cifar-100-binary.tar.gz`. Without it either is looked for in the folder of
            `TRAINKIT_DATA`, then the archive in the cache (`TRAINKIT_CACHE`, else
            `~/.cache/trainkit`), and it is otherwise downloaded and checked against its SHA-256.

    Returns:
        `((x_train, y_train), (x_test, y_test))`: images, uint8 of shape (images, 32, 32, 3), red,
        green and blue from 0 to 255 (before the height where the data format in force is
        `"channels_first"`), and labels, uint8 of shape (images, 1). The full set has 50,000 and
        10,000 images.

    Raises:
        FileNotFoundError: the files are not on this machine and cannot be downloaded.
        ValueError: `label_mode` is neither, or a file is broken; the message names it with expected
            and found values.
    """
    if label_mode not in _LABELS:
        raise InvalidArgumentError(
            f"cifar100: label_mode must be 'fine' or 'coarse', got {label_mode!r}"
        )
    return _EDITION.load(path, _LABELS.index(label_mode))
