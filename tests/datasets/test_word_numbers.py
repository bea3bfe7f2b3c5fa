"""IMDB and Reuters are read as Keras reads them, and nothing in their files is run."""

import io
import json
import os
import pickle
import re
import tracemalloc
import zipfile

import numpy as np
import pytest

from trainkit.datasets import imdb, integer_lists, reuters

TEXTS = [[1, 5, 9], [2, 2], [7], [3, 4, 6, 8]]


def lists(rows):
    array = np.empty(len(rows), object)
    array[:] = rows
    return array


@pytest.fixture
def file(tmp_path):
    labels = np.array([0, 1, 0, 1])
    path = tmp_path / "words.npz"
    np.savez(
        path, x=lists(TEXTS), y=labels + 1, x_train=lists(TEXTS), y_train=labels,
        x_test=lists(TEXTS[:2]), y_test=labels[:2],
    )  # fmt: skip
    return path


def plain(part):
    return part[0].tolist(), part[1].tolist()


def test_reviews_are_marked_and_rare_words_replaced(file):
    train, test = imdb.load_data(file, num_words=9)
    assert plain(train) == ([[1, 6, 7, 2, 2], [1, 2], [1, 4, 8, 2], [1, 5, 5]], [1, 0, 0, 1])
    assert plain(test) == ([[1, 5, 5], [1, 4, 8, 2]], [1, 0])


@pytest.mark.parametrize(
    ("settings", "texts", "labels"),
    [
        ({}, [[1, 6, 7, 9, 11], [1, 10], [1, 4, 8, 2], [1, 5, 5]], [2, 1, 1, 2]),
        ({"oov_char": None}, [[1, 6, 7, 9, 11], [1, 10], [1, 4, 8], [1, 5, 5]], [2, 1, 1, 2]),
        ({"skip_top": 6}, [[2, 6, 7, 9, 11], [2, 10], [2, 2, 8, 2], [2, 2, 2]], [2, 1, 1, 2]),
        ({"maxlen": 4}, [[1, 2], [1, 5, 5]], [1, 2]),
        ({"start_char": None}, [[6, 7, 9, 11], [10], [4, 8, 2], [5, 5]], [2, 1, 1, 2]),
        (
            {"start_char": None, "index_from": 0},
            [[3, 4, 6, 8], [7], [1, 5, 2], [2, 2]],
            [2, 1, 1, 2],
        ),
    ],
)
def test_each_argument_does_what_it_does_in_keras(file, settings, texts, labels):
    train, test = reuters.load_data(file, test_split=0.5, **settings)
    found = [a + b for a, b in zip(plain(train), plain(test), strict=True)]
    assert found == [texts, labels]
    assert len(train[0]) == len(texts) // 2


def test_lists_of_one_length_stay_lists(tmp_path):
    np.savez(tmp_path / "r.npz", x=lists([[1, 2], [3, 4]]), y=[0, 1])
    (texts, _), _ = reuters.load_data(tmp_path / "r.npz", test_split=0)
    assert texts.shape == (2,)
    assert all(isinstance(text, list) for text in texts)


def test_no_text_left_is_told(file):
    with pytest.raises(ValueError, match="imdb: no text has fewer than maxlen=2 words"):
        imdb.load_data(file, maxlen=2)
    with pytest.raises(ValueError, match=r"test_split must be in \[0, 1\], got 2"):
        reuters.load_data(file, test_split=2)


def test_words_and_topics_have_names(tmp_path):
    (tmp_path / "w.json").write_text(json.dumps({"the": 1, "and": 2}))
    for family in (imdb, reuters):
        assert family.get_word_index(tmp_path / "w.json") == {"the": 1, "and": 2}
        (tmp_path / "bad.json").write_text('{"the": "1"}')
        with pytest.raises(ValueError, match="not a table of words"):
            family.get_word_index(tmp_path / "bad.json")
    names = reuters.get_label_names()
    assert (len(names), names[3], names[-1]) == (46, "earn", "lead")


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_files_of_all_ages_are_read(tmp_path, protocol):
    write_pickled(tmp_path / "r.npz", pickle.dumps(lists(TEXTS), protocol), len(TEXTS))
    found = integer_lists.read_integer_lists(tmp_path / "r.npz", ["x"])
    assert found["x"] == TEXTS


def write_pickled(path, data, rows):
    """An `.npz` file whose array of objects is `data`."""
    header = io.BytesIO()
    fields = {"descr": "|O", "fortran_order": False, "shape": (rows,)}
    np.lib.format.write_array_header_1_0(header, fields)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", header.getvalue() + data)


class Runs:
    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return os.mkdir, (self.marker,)


class Builds:
    def __reduce__(self):
        return Builds, (), {"ran": True}


def hostile():
    array = pickle.dumps(lists([[1]]), 2)
    yield "asks for", b"cos\nsystem\n(U\x04truetR."
    yield "asks for", b"\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R."
    yield "instruction", b"(S'true'\nios\nsystem\n."
    yield "instruction", b"\x82\x01."
    yield "instruction", b"I1\n."
    yield "too large", b"]r\xff\xff\xff\xff."
    yield "too large", b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f]."
    yield "a text of", b"X\xff\xff\xff\x7f."
    yield "a text of", b"B\xff\xff\xff\x7f."
    yield "cut short", array[:-1]
    yield "cut short", b"K"
    yield "no array of lists", b"]K\x01a."
    yield "something else than whole numbers", pickle.dumps(lists([[1, [2]]]), 2)
    yield "no array of lists", b"cnumpy\nndarray\n."
    yield "declares", pickle.dumps(lists([[1], [2]]), 2)
    yield "not an .npz file", b"cnumpy\nndarray\n]b."
    yield "not an .npz file", b"h\x05."
    yield "not an .npz file", b"."


@pytest.mark.parametrize(("words", "data"), list(hostile()))
def test_other_pickles_are_refused(tmp_path, words, data):
    write_pickled(tmp_path / "r.npz", data, 1)
    with pytest.raises(ValueError, match=re.escape(words)):
        integer_lists.read_integer_lists(tmp_path / "r.npz", ["x"])


def test_nothing_in_a_file_is_run(tmp_path):
    for hidden in (Runs(tmp_path / "marker"), [Runs(tmp_path / "marker")], Builds()):
        np.savez(tmp_path / "r.npz", x=lists([hidden]), y=[1])
        with pytest.raises(ValueError, match=r"asks for|instruction|a text of"):
            reuters.load_data(tmp_path / "r.npz")
    assert not (tmp_path / "marker").exists()


def test_a_small_file_does_not_grow_large(tmp_path):
    write_pickled(tmp_path / "r.npz", b"]" * (1 << 24) + b".", 1)
    tracemalloc.start()
    with pytest.raises(ValueError, match="it unpacks to"):
        integer_lists.read_integer_lists(tmp_path / "r.npz", ["x"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 22


def test_a_missing_array_is_named(tmp_path, file):
    np.savez(tmp_path / "r.npz", x=lists(TEXTS))
    with pytest.raises(ValueError, match="y not found"):
        reuters.load_data(tmp_path / "r.npz")
    np.savez(tmp_path / "r.npz", x=lists(TEXTS), y=np.zeros(3))
    with pytest.raises(ValueError, match="y has not a number for each of 4 texts"):
        reuters.load_data(tmp_path / "r.npz")
