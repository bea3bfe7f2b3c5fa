"""House prices are split as Keras splits them."""

import numpy as np
import pooch
import pytest

from trainkit.datasets import boston_housing, california_housing


@pytest.fixture(autouse=True)
def _no_files(monkeypatch, tmp_path):
    monkeypatch.delenv("TRAINKIT_DATA", raising=False)
    monkeypatch.setenv("TRAINKIT_CACHE", str(tmp_path / "cache"))


def write(path, rows, columns):
    x = np.arange(float(rows * columns)).reshape(rows, columns)
    np.savez(path, x=x, y=np.arange(float(rows)))
    return path


def test_rows_are_in_the_order_of_keras(tmp_path):
    path = write(tmp_path / "b.npz", 10, 13)
    (x_train, y_train), (x_test, y_test) = boston_housing.load_data(path)
    order = np.arange(10)
    np.random.RandomState(113).shuffle(order)
    np.testing.assert_array_equal(np.concatenate([y_train, y_test]), order)
    np.testing.assert_array_equal(x_test[:, 0], 13 * y_test)
    assert x_train.shape == (8, 13)
    assert boston_housing.load_data(path, test_split=0)[1][0].shape == (0, 13)


@pytest.mark.parametrize(("version", "rows"), [("large", 700), ("small", 600)])
def test_california_comes_in_two_sizes(tmp_path, version, rows):
    path = write(tmp_path / "c.npz", 700, 8)
    (x_train, y_train), (_, y_test) = california_housing.load_data(version, path, 0.25, seed=2)
    assert x_train.shape == (int(rows * 0.75), 8)
    assert sorted([*y_train, *y_test]) == list(range(rows))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"version": "tiny"}, "'small' or 'large', got 'tiny'"),
        ({"test_split": 1.0}, r"in \[0, 1\), got 1.0"),
        ({"test_split": -0.1}, r"in \[0, 1\), got -0.1"),
    ],
)
def test_arguments_are_checked(tmp_path, settings, words):
    with pytest.raises(ValueError, match=words):
        california_housing.load_data(path=write(tmp_path / "c.npz", 10, 8), **settings)


def test_another_table_is_refused(tmp_path):
    path = write(tmp_path / "c.npz", 10, 9)
    with pytest.raises(ValueError, match=r"\(10, 9\) and y \(10,\), expected \(rows, 8\)"):
        california_housing.load_data(path=path)
    (tmp_path / "n.npz").write_bytes(b"PK nothing")
    with pytest.raises(ValueError, match=r"n\.npz: not an \.npz file"):
        california_housing.load_data(path=tmp_path / "n.npz")


def test_a_bare_name_is_one_in_the_folders_of_files(monkeypatch, tmp_path):
    monkeypatch.setenv("TRAINKIT_DATA", str(tmp_path))
    write(tmp_path / "mine.npz", 10, 13)
    assert not boston_housing.available()
    assert boston_housing.load_data("mine.npz")[0][0].shape == (8, 13)
    write(tmp_path / "boston_housing.npz", 20, 13)
    assert boston_housing.available()
    assert boston_housing.load_data()[0][0].shape == (16, 13)
    with pytest.raises(FileNotFoundError, match=r"no file '\./other\.npz'.*copy of boston_housing"):
        boston_housing.load_data("./other.npz")


def test_a_file_is_downloaded_under_the_wanted_name(monkeypatch, tmp_path):
    asked = []

    def retrieve(url, known_hash, fname, path, downloader):
        asked.append((url, known_hash, fname, path))
        return write(tmp_path / "got.npz", 10, 13)

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    boston_housing.load_data("b.npz")
    ((url, known, name, folder),) = asked
    assert url.endswith("/tf-keras-datasets/boston_housing.npz")
    assert known.startswith("sha256:f553886a")
    assert (name, folder.name) == ("b.npz", "boston_housing")
