"""California housing: 20,640 districts of California in 1990, 8 numbers and a price each.

Source: Pace and Barry 1997, "Sparse spatial autoregressions". The columns are median income, age
of the houses, rooms, bedrooms, inhabitants and people a household, latitude and longitude.
"""

import os

from trainkit.core.errors import InvalidArgumentError
from trainkit.datasets.housing import MIRROR, Part, load_table
from trainkit.datasets.store import Source

SOURCE = Source(
    name="california_housing",
    files={
        "california_housing.npz": (
            "1a2e3a52e0398de6463aebe6f4a8da34fb21fbb6b934cf88c3425e766f2a1a6f"
        )
    },
    mirrors=(MIRROR,),
    folders=("", "california_housing"),
)
_ROWS = {"small": 600, "large": None}
available = SOURCE.available


def load_data(
    version: str = "large",
    path: str | os.PathLike[str] = "california_housing.npz",
    test_split: float = 0.2,
    seed: int = 113,
) -> tuple[Part, Part]:
    """Load the districts, downloading them on first use.

    Args:
        version: `"large"` for all, `"small"` for the first 600.
        path: the path of a copy of the file, or a bare name, under which it is looked for in the
            folder of `TRAINKIT_DATA` and in the cache (`TRAINKIT_CACHE`, else `~/.cache/trainkit`);
            it is otherwise downloaded and checked against its SHA-256.
        test_split: share of the districts for testing, in [0, 1).
        seed: of their order.

    Returns:
        `((x_train, y_train), (x_test, y_test))`: features, floats of shape (districts, 8), and
        median prices in dollars, floats of shape (districts,).

    Raises:
        FileNotFoundError: the file is not on this machine and cannot be downloaded.
        ValueError: an argument is outside of its range, or the file holds something else.
    """
    if version not in _ROWS:
        raise InvalidArgumentError(
            f"california_housing: version must be 'small' or 'large', got {version!r}"
        )
    return load_table(SOURCE, path, 8, test_split, seed, _ROWS[version])
