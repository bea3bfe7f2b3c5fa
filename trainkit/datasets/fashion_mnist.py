"""Fashion-MNIST: 70,000 pictures of clothes, in the form of MNIST.

Source: Xiao, Rasul and Vollgraf 2017, arXiv:1708.07747.
"""

import os

from trainkit.datasets.mnist_like import Parts, load_parts
from trainkit.datasets.store import Source

SOURCE = Source(
    name="fashion_mnist",
    files={
        "train-images-idx3-ubyte.gz": (
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"
        ),
        "train-labels-idx1-ubyte.gz": (
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"
        ),
        "t10k-images-idx3-ubyte.gz": (
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"
        ),
        "t10k-labels-idx1-ubyte.gz": (
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"
        ),
    },
    mirrors=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
    folders=("fashion_mnist", "fashion-mnist"),
)


def available() -> bool:
    """Whether `load_data()` finds the files on this machine, without a network."""
    return SOURCE.available()


def load_data(path: str | os.PathLike[str] | None = None) -> Parts:
    """Load the pictures, downloading them on first use.

    Args:
        path: a folder that holds the four IDX files (`train-images-idx3-ubyte.gz`, ..., packed or
            not), or an `.npz` file in Keras's layout. Without it they are looked for in the folder
            `fashion_mnist` below that of `TRAINKIT_DATA`, then in the cache (`TRAINKIT_CACHE`,
            else `~/.cache/trainkit`), and are otherwise downloaded and checked against their
            SHA-256.

    Returns:
        `((x_train, y_train), (x_test, y_test))`: images, uint8 of shape (images, 28, 28) with
        values from 0 to 255, and labels, uint8 of shape (images,): 0 T-shirt, 1 trousers,
        2 pullover, 3 dress, 4 coat, 5 sandal, 6 shirt, 7 sneaker, 8 bag, 9 ankle boot. The full
        set has 60,000 and 10,000 images; a user's own folder may hold fewer.

    Raises:
        FileNotFoundError: the files are not on this machine and cannot be downloaded.
        ValueError: a file is broken; the message names it with expected and found values.
    """
    return load_parts(SOURCE, path)
