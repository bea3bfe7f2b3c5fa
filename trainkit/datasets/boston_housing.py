"""Boston housing: 506 districts of Boston in the 1970s, 13 numbers and a price each.

Source: Harrison and Rubinfeld 1978, "Hedonic prices and the demand for clean air". One of the
columns, B, is made of the share of Black inhabitants; for anything but the history of such data
`california_housing` with version="small" is the better choice.
"""

import os

from trainkit.datasets.housing import MIRROR, Part, load_table
from trainkit.datasets.store import Source

SOURCE = Source(
    name="boston_housing",
    files={
        "boston_housing.npz": "f553886a1f8d56431e820c5b82552d9d95cfcb96d1e678153f8839538947dff5"
    },
    mirrors=(MIRROR,),
    folders=("", "boston_housing"),
)
available = SOURCE.available


def load_data(
    path: str | os.PathLike[str] = "boston_housing.npz", test_split: float = 0.2, seed: int = 113
) -> tuple[Part, Part]:
    """Load the districts, downloading them on first use.

    Args:
        path: the path of a copy of the file, or a bare name, under which it is looked for in the
            folder of `TRAINKIT_DATA` and in the cache (`TRAINKIT_CACHE`, else `~/.cache/trainkit`);
            it is otherwise downloaded and checked against its SHA-256.
        test_split: share of the districts for testing, in [0, 1).
        seed: of their order.

    Returns:
        `((x_train, y_train), (x_test, y_test))`: features, float64 of shape (districts, 13), and
        median prices in thousands of dollars, float64 of shape (districts,).

    Raises:
        FileNotFoundError: the file is not on this machine and cannot be downloaded.
        ValueError: `test_split` is outside of its range, or the file holds something else.
    """
    return load_table(SOURCE, path, 13, test_split, seed)
