"""Labels, sequences, parts of data sets, and single downloads."""

import hashlib

import numpy as np
import pytest

import trainkit as tk
from trainkit.keras import utils


@pytest.mark.parametrize(
    ("labels", "count", "wanted"),
    [
        ([0, 2], None, [[1, 0, 0], [0, 0, 1]]),
        ([[1], [0]], 2, [[0, 1], [1, 0]]),
        ([[0, 1]], 2, [[[1, 0], [0, 1]]]),
        (1, 3, [0, 1, 0]),
        ([], 2, np.zeros((0, 2))),
    ],
)
def test_one_hot_labels(labels, count, wanted):
    np.testing.assert_array_equal(utils.to_categorical(labels, count), wanted)


@pytest.mark.parametrize("labels", [[3], [-1]])
def test_labels_outside_of_the_classes(labels):
    with pytest.raises(ValueError, match=rf"labels go from {labels[0]} .* classes from 0 to 2"):
        utils.to_categorical(labels, 3)


def test_rows_of_length_one():
    x = np.array([[3.0, 4.0], [0.0, 0.0]])
    np.testing.assert_allclose(utils.normalize(x), [[0.6, 0.8], [0, 0]])
    np.testing.assert_allclose(utils.normalize(x, axis=0, order=1), [[1, 1], [0, 0]])


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, [[0, 0, 1], [2, 3, 4]]),
        ({"padding": "post"}, [[1, 0, 0], [2, 3, 4]]),
        ({"maxlen": 2}, [[0, 1], [3, 4]]),
        ({"maxlen": 2, "truncating": "post"}, [[0, 1], [2, 3]]),
        ({"maxlen": 1, "value": -1}, [[1], [4]]),
    ],
)
def test_padded_sequences(settings, wanted):
    assert utils.pad_sequences([[1], [2, 3, 4]], **settings).tolist() == wanted


def test_padded_sequences_of_vectors():
    rows = utils.pad_sequences([[[1.0, 2.0]], []], maxlen=2, dtype="float32")
    assert rows.dtype == np.float32
    assert rows.tolist() == [[[0, 0], [1, 2]], [[0, 0], [0, 0]]]


@pytest.mark.parametrize(
    ("sequences", "settings", "words"),
    [
        ([[1]], {"padding": "left"}, "padding='left' must be 'pre' or 'post'"),
        ([[1]], {"truncating": "left"}, "truncating='left' must be"),
        ([1], {}, "item 0 is no sequence"),
        ([[[1, 2]], [[1]]], {}, r"elements of sequence 1 have shape \(1,\), those before \(2,\)"),
    ],
)
def test_sequences_that_do_not_fit(sequences, settings, words):
    with pytest.raises(ValueError, match=words):
        utils.pad_sequences(sequences, **settings)


@pytest.mark.parametrize(
    ("sizes", "counts"),
    [
        ((0.3, None), (3, 7)),
        ((0.66, 0.26), (7, 3)),
        ((None, 0.05001), (9, 1)),
        ((None, 2), (8, 2)),
        ((4, 5), (4, 5)),
    ],
)
def test_split_data_sets(sizes, counts):
    left, right = utils.split_dataset(np.arange(10), *sizes)
    assert (len(left), len(right)) == counts
    assert [int(x) for x in left] == list(range(counts[0]))
    assert [int(x) for x in right] == list(range(10 - counts[1], 10))


def test_a_shuffled_split_leaves_nothing_out():
    left, right = utils.split_dataset(tk.data.Dataset.range(20), 0.5, shuffle=True, seed=3)
    parts = [int(x) for x in left], [int(x) for x in right]
    assert sorted(parts[0] + parts[1]) == list(range(20))
    assert parts[0] != sorted(parts[0])
    assert parts[0] == [int(x) for x in left]


def test_splits_that_do_not_fit():
    with pytest.raises(ValueError, match="give left_size or right_size"):
        utils.split_dataset(np.arange(4))
    with pytest.raises(ValueError, match="there are 4 elements; left_size=3 and right_size=2"):
        utils.split_dataset(np.arange(4), 3, 2)
    with pytest.raises(ValueError, match="parts of 0 and 4, which have to be above 0"):
        utils.split_dataset(np.arange(4), 0.1)
    with pytest.raises(ValueError, match="are more than the whole"):
        utils.split_dataset(np.arange(4), 0.8, 0.3)


# ------------------------------------------------------------------ one file


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "published" / "words.txt"
    path.parent.mkdir()
    path.write_text("to be")
    return path


def test_a_file_is_copied_to_the_cache_once(source, tmp_path):
    address = source.as_uri()
    path = utils.get_file(origin=address, cache_dir=tmp_path / "cache")
    assert path == str(tmp_path / "cache" / "datasets" / "words.txt")
    source.write_text("or not")
    utils.get_file(origin=address, cache_dir=tmp_path / "cache")
    assert open_text(path) == "to be"
    utils.get_file(origin=address, cache_dir=tmp_path / "cache", force_download=True)
    assert open_text(path) == "or not"


def open_text(path):
    with open(path) as file:
        return file.read()


@pytest.mark.parametrize("kind", ["md5", "sha256"])
def test_hashes_are_checked(source, tmp_path, kind):
    digits = hashlib.new(kind, source.read_bytes()).hexdigest()
    settings = {"origin": source.as_uri(), "cache_dir": tmp_path}
    assert utils.get_file("a", file_hash=digits, **settings).endswith("a")
    with pytest.raises(ValueError, match="hash"):
        utils.get_file("b", file_hash=digits[:-1] + "x", **settings)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "give `origin`"),
        ({"origin": "file:///x", "fname": "../x"}, "must be a plain file name"),
        ({"origin": "file:///x", "file_hash": "12"}, "is neither MD5 nor SHA-256"),
    ],
)
def test_wrong_arguments(settings, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        utils.get_file(**settings, cache_dir=tmp_path)


def test_tensors_stay_tensors():
    labels = tk.constant([[0], [2]])
    rows = tk.keras.utils.to_categorical(labels, 3)
    assert tk.is_tensor(rows)
    assert (rows.dtype, rows.numpy().tolist()) == (tk.float32, [[1, 0, 0], [0, 0, 1]])
    with pytest.raises(tk.errors.InvalidArgumentError, match="labels go from 0 to 2"):
        tk.keras.utils.to_categorical(labels, 2)
    vectors = np.array([[3.0, 4.0], [0.0, 0.0]], "float32")
    for order in (1, 2, 3):
        found = tk.keras.utils.normalize(tk.constant(vectors), order=order)
        assert tk.is_tensor(found)
        wanted = tk.keras.utils.normalize(vectors, order=order)
        assert isinstance(wanted, np.ndarray)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("sizes", [(1.0, None), (2.7, None), (None, 0.0), (-0.5, None)])
def test_a_share_is_between_0_and_1(sizes):
    with pytest.raises(ValueError, match=r"_size=.* is no share between 0 and 1; give a whole"):
        utils.split_dataset(np.arange(4), *sizes)
