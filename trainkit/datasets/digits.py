"""Digits: 1,797 handwritten digits of 8 x 8 pixels that come with scikit-learn.

Source: Alpaydin and Kaynak 1998, "Optical Recognition of Handwritten Digits", UCI Machine Learning
Repository (its test part).
"""

import gzip
from pathlib import Path

import numpy as np

from trainkit.core.process.requirements import install_command

SEED = 1797
TEST_SHARE = 0.2


def available() -> bool:
    """Whether scikit-learn, which carries the digits, is installed."""
    from importlib.util import find_spec

    return find_spec("sklearn") is not None


def load_data() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Load the digits; no network is needed.

    A fifth of each class is held out for testing. The split is the same on every machine.

    Returns:
        `((x_train, y_train), (x_test, y_test))`: images, uint8 of shape (images, 8, 8) with values
        from 0 (paper) to 16 (ink), and labels, uint8 of shape (images,) from 0 to 9. There are
        1,438 images to train on and 359 to test on.

    Raises:
        ImportError: scikit-learn is not installed.
    """
    x, y = _scans()
    train, test = _stratified_split(y)
    return (x[train], y[train]), (x[test], y[test])


def _scans() -> tuple[np.ndarray, np.ndarray]:
    """Images and labels, from scikit-learn's file: importing all of it takes two seconds."""
    from importlib.util import find_spec

    package = find_spec("sklearn")
    for folder in (package.submodule_search_locations or ()) if package else ():
        path = Path(folder) / "datasets" / "data" / "digits.csv.gz"
        if path.is_file():
            with gzip.open(path, "rt") as file:
                rows = np.array([line.split(",") for line in file], np.float32).astype(np.uint8)
            return rows[:, :-1].reshape(-1, 8, 8), rows[:, -1]
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError(
            f"digits come with scikit-learn, which is not installed: {install_command('examples')}"
        ) from error
    bunch = load_digits()
    return bunch.images.astype(np.uint8), bunch.target.astype(np.uint8)


def _stratified_split(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indices to train and to test on, each shuffled, with `TEST_SHARE` of every class in the last.

    RandomState is used because NumPy promises that its numbers stay the same in all versions.
    """
    chance = np.random.RandomState(SEED)
    train, test = [], []
    for label in np.unique(labels):
        members = chance.permutation(np.flatnonzero(labels == label))
        held_out = round(TEST_SHARE * len(members))
        test.append(members[:held_out])
        train.append(members[held_out:])
    return chance.permutation(np.concatenate(train)), chance.permutation(np.concatenate(test))
