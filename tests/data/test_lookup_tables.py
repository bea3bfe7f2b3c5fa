"""`tk.lookup`; the expected values are TensorFlow's."""

import numpy as np
import pytest

import trainkit as tk
from tests import stand_in

L = tk.lookup


def vocabulary(buckets=5, keys=("", "a", "b")):
    init = L.KeyValueTensorInitializer(
        list(keys), range(len(keys)), key_dtype=tk.string, value_dtype=tk.int64
    )
    return L.StaticVocabularyTable(init, buckets)


@pytest.mark.parametrize("call", [lambda f: f, tk.function])
def test_unknown_texts_share_buckets(call):
    table = vocabulary()
    x = tk.constant([["a", "zz"], ["", "ξ"]])
    found = call(table.lookup)(x)
    assert (found.dtype, found.numpy().tolist()) == (tk.int64, [[1, 5], [0, 6]])
    assert int(table.size()) == 8
    assert table[x].numpy().tolist() == [[1, 5], [0, 6]]
    alone = L.StaticVocabularyTable(None, 4)
    assert alone.lookup(tk.constant(["a", "b", "c"])).numpy().tolist() == [3, 2, 0]


def test_integers_have_numbers():
    keys, values = (tk.constant(x, dtype="int64") for x in ([4, 7], [0, 1]))
    table = L.StaticVocabularyTable(L.KeyValueTensorInitializer(keys, values), 3)
    assert table.lookup(tk.constant([4, 7, -1, 99], dtype="int64")).numpy().tolist() == [0, 1, 2, 2]


@pytest.mark.parametrize(
    ("keys", "values", "default", "asked", "wanted"),
    [
        ([4, 7], ["x", "y"], "?", [7, 1], [b"y", b"?"]),
        (["a"], [1.5], -1, ["a", "b"], [1.5, -1.0]),
        ([2], [True], False, [[2, 3]], [[True, False]]),
        (["a", "a"], [1, 1], 0, [], []),
    ],
)
def test_unknown_keys_have_a_default(keys, values, default, asked, wanted):
    table = L.StaticHashTable(L.KeyValueTensorInitializer(keys, values), default)
    x = tk.constant(asked, dtype=table.key_dtype)
    assert table.lookup(x).numpy().tolist() == wanted
    assert tk.function(table.lookup)(x).numpy().tolist() == wanted
    assert int(table.size()) == len(set(keys))


def test_files_hold_tables(tmp_path):
    path = tmp_path / "v.txt"
    path.write_text("a 1\nb 2\r\nc 3", encoding="utf-8")
    columns = L.TextFileInitializer(str(path), tk.string, 0, tk.int64, 1, delimiter=" ")
    found = L.StaticHashTable(columns, -1).lookup(tk.constant(["b", "c", "z"]))
    assert found.numpy().tolist() == [2, 3, -1]
    whole, number = L.TextFileIndex.WHOLE_LINE, L.TextFileIndex.LINE_NUMBER
    lines = L.TextFileInitializer(
        str(path), tk.string, whole, tk.int64, number, vocab_size=2, value_index_offset=5
    )
    assert L.StaticHashTable(lines, -1)[tk.constant(["b 2", "c 3"])].numpy().tolist() == [6, -1]


def test_layers_and_data_sets_look_up():
    class Numbered(tk.layers.Layer):
        def __init__(self):
            super().__init__()
            self.table = vocabulary(1)

        def call(self, x):
            return self.table.lookup(x)

    net = tk.Sequential([Numbered(), tk.layers.Embedding(4, 2)])
    assert net(tk.constant([["a", "zz"]])).shape == (1, 2, 2)
    data = tk.data.Dataset.from_tensor_slices(["a", "q"]).map(vocabulary(1).lookup)
    assert data.element_spec == tk.TensorSpec((), tk.int64)
    assert list(data.as_numpy_iterator()) == [1, 3]


PAIR = L.KeyValueTensorInitializer(["a"], [1])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: vocabulary().lookup(tk.constant([1])), "takes keys of string, got int32"),
        (lambda: L.KeyValueTensorInitializer(["a"], [1, 2]), r"\(1,\) and values of shape \(2,\)"),
        (
            lambda: L.StaticHashTable(L.KeyValueTensorInitializer(["a", "a"], [1, 2]), 0),
            "b'a' has two values",
        ),
        (lambda: vocabulary(0), "num_oov_buckets"),
        (lambda: L.StaticVocabularyTable(PAIR, 1), "values int64, got string and int32"),
        (lambda: L.StaticVocabularyTable(None, 1, experimental_is_anonymous=True), "anonymous"),
        (lambda: L.StaticHashTable(PAIR, 0, experimental_is_anonymous=True), "anonymous"),
    ],
)
def test_what_does_not_fit_is_told(call, words):
    with pytest.raises(tk.errors.InvalidArgumentError, match=words):
        call()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"value_index": 2}, "line 1 has 2 columns, there is no column 2"),
        ({"vocab_size": 3}, "has 2 lines, vocab_size is 3"),
        ({"value_dtype": tk.int64, "value_index": 0}, "invalid literal"),
    ],
)
def test_files_that_do_not_fit_are_told(tmp_path, settings, words):
    path = tmp_path / "v.txt"
    path.write_text("a 1\nb 2\n")
    given = {"key_dtype": tk.string, "key_index": 0, "value_dtype": tk.string, "value_index": 1}
    with pytest.raises(tk.errors.InvalidArgumentError, match=words):
        L.TextFileInitializer(str(path), **{**given, **settings}, delimiter=" ")


def test_a_text_tensor_names_the_file(tmp_path):
    (tmp_path / "v.txt").write_text("a\n")
    init = L.TextFileInitializer(tk.constant(str(tmp_path / "v.txt")), "string", -2, "int32", -1)
    np.testing.assert_array_equal(L.StaticHashTable(init, 9)[tk.constant(["a", "b"])], [0, 9])


@pytest.mark.parametrize("call", [lambda f: f, tk.function])
@pytest.mark.parametrize("current", ["/gpu:0", "/cpu:0"])
def test_numbers_of_texts_are_on_the_current_device(call, current):
    with stand_in.in_place():
        known = L.StaticHashTable(L.KeyValueTensorInitializer(["a"], [1.5]), -1)
        with tk.device(current):
            for table, wanted in ((vocabulary(1), [1, 3]), (known, [1.5, -1])):
                found = call(table.lookup)(tk.constant(["a", "q"]))
                assert found.device == tk.ones(()).device
                assert found.numpy().tolist() == wanted
        rows = tk.data.Dataset.from_tensor_slices(["a", "q"]).map(known.lookup)
        assert list(rows.as_numpy_iterator()) == [1.5, -1]


@pytest.mark.parametrize("lies", ["/gpu:0", "/cpu:0"])
def test_values_of_numbers_are_where_the_keys_are(lies):
    with stand_in.in_place():
        table = L.StaticHashTable(L.KeyValueTensorInitializer([4, 7], [1.5, 2.5]), -1)
        with tk.device(lies):
            keys = tk.constant([7, 1], dtype=table.key_dtype)
        found = table.lookup(keys)
        assert (found.device, found.numpy().tolist()) == (keys.device, [2.5, -1])


def test_tables_are_exported():
    numbers = L.StaticHashTable(L.KeyValueTensorInitializer(["a", "b"], [1, 2]), -1)
    keys, values = numbers.export()
    assert (keys.numpy().tolist(), values.numpy().tolist()) == ([b"a", b"b"], [1, 2])
    texts = L.StaticHashTable(L.KeyValueTensorInitializer([3, 4], ["x", "y"]), "z")
    keys, values = texts.export(name="n")
    assert (keys.dtype, values.dtype) == (tk.int32, tk.string)
    assert (keys.numpy().tolist(), values.numpy().tolist()) == ([3, 4], [b"x", b"y"])
