"""MNIST: 70,000 handwritten digits.

Source: LeCun, Bottou, Bengio and Haffner 1998, "Gradient-based learning applied to document
recognition".
"""

import os

from trainkit.datasets.mnist_like import Parts, load_parts
from trainkit.datasets.store import Source

SOURCE = Source(
    name="mnist",
    files={
        "train-images-idx3-ubyte.gz": (
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"
        ),
        "train-labels-idx1-ubyte.gz": (
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"
        ),
        "t10k-images-idx3-ubyte.gz": (
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"
        ),
        "t10k-labels-idx1-ubyte.gz": (
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"
        ),
    },
    mirrors=(
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
    ),
    folders=("", "mnist"),
)


def available() -> bool:
    """Whether `load_data()` finds the files on this machine, without a network."""
    return SOURCE.available()


def load_data(path: str | os.PathLike[str] | None = None) -> Parts:
    """Load the digits, downloading them on first use.

    Args:
        path: a folder that holds the four IDX files (`train-images-idx3-ubyte.gz`, ..., packed or
            not), or an `.npz` file in Keras's layout. Without it they are looked for in the folder
            of `TRAINKIT_DATA`, then in the cache (`TRAINKIT_CACHE`, else `~/.cache/trainkit`), and
            are otherwise downloaded and checked against their SHA-256.

    Returns:
        `((x_train, y_train), (x_test, y_test))`: images, uint8 of shape (images, 28, 28) with
        values from 0 (paper) to 255 (ink), and labels, uint8 of shape (images,) from 0 to 9. The
        full set has 60,000 and 10,000 images; a user's own folder may hold fewer.

    Raises:
        FileNotFoundError: the files are not on this machine and cannot be downloaded.
        ValueError: a file is broken; the message names it with expected and found values.
    """
    return load_parts(SOURCE, path)
