"""The digits of scikit-learn: real scans, split once and for all."""

import hashlib
import subprocess
import sys

import numpy as np
import pytest

from trainkit.datasets import digits


def test_every_scan_is_in_one_part():
    from sklearn.datasets import load_digits

    (x_train, y_train), (x_test, y_test) = digits.load_data()
    assert x_train.shape == (1438, 8, 8)
    assert x_test.shape == (359, 8, 8)
    assert {a.dtype for a in (x_train, y_train, x_test, y_test)} == {np.dtype(np.uint8)}
    assert (x_train.min(), x_train.max()) == (0, 16)
    bunch = load_digits()
    given = sorted(
        zip(map(bytes, bunch.images.astype(np.uint8)), bunch.target.tolist(), strict=True)
    )
    found = sorted(
        zip(map(bytes, [*x_train, *x_test]), [*y_train.tolist(), *y_test.tolist()], strict=True)
    )
    assert found == given


def test_the_scans_are_read_without_importing_their_package():
    script = """
import sys
from trainkit.datasets import digits
(x, _), _ = digits.load_data()
assert len(x) == 1438
assert "sklearn" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_package_that_keeps_them_elsewhere_is_asked(monkeypatch):
    expected = digits.load_data()
    monkeypatch.setattr(digits.Path, "is_file", lambda path: False)
    for found, part in zip(digits.load_data(), expected, strict=True):
        np.testing.assert_array_equal(found[0], part[0])
        np.testing.assert_array_equal(found[1], part[1])


def test_each_class_has_a_fifth_held_out():
    (_, y_train), (_, y_test) = digits.load_data()
    train, test = np.bincount(y_train), np.bincount(y_test)
    assert len(train) == len(test) == 10
    np.testing.assert_array_equal(test, np.rint((train + test) * 0.2))


def test_classes_are_mixed():
    (_, y_train), (_, y_test) = digits.load_data()
    assert np.count_nonzero(np.diff(y_train.astype(int))) > 1200
    assert np.count_nonzero(np.diff(y_test.astype(int))) > 280


def test_the_split_is_always_the_same():
    np.random.seed(5)
    (x_train, y_train), (x_test, y_test) = digits.load_data()
    digest = hashlib.sha256(b"".join(map(bytes, (x_train, y_train, x_test, y_test)))).hexdigest()
    assert digest == "05fe34b7e05604689d9290206107d9837834715061bf0038b647c5daad22191d"


def test_loading_leaves_the_global_random_numbers_alone():
    np.random.seed(5)
    expected = np.random.rand(3)
    np.random.seed(5)
    digits.load_data()
    np.testing.assert_array_equal(np.random.rand(3), expected)


def test_without_scikit_learn_the_error_says_what_to_install(monkeypatch):
    assert digits.available()
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"pip install 'scikit-learn>="):
        digits.load_data()
