import numpy as np
import pytest

import trainkit as tk

MutableHashTable = tk.lookup.experimental.MutableHashTable
DenseHashTable = tk.lookup.experimental.DenseHashTable


def words():
    table = MutableHashTable(tk.string, tk.int64, -1)
    table.insert(["a", "b", "a"], [1, 2, 3])
    return table


def vectors():
    table = MutableHashTable(tk.int64, tk.float32, [0.0, -1.0])
    table.insert([1, 2], [[1.0, 2.0], [3.0, 4.0]])
    return table


def contents(table):
    keys, values = table.export()
    return dict(zip(keys.numpy().tolist(), values.numpy().tolist(), strict=True))


def test_keys_have_the_value_inserted_last():
    table = words()
    result = table.lookup([["a", "z"], ["b", "b"]])
    assert result.dtype == tk.int64
    assert result.numpy().tolist() == [[3, -1], [2, 2]]
    assert table[tk.constant("a")].numpy() == 3
    size = table.size()
    assert (size.dtype, int(size)) == (tk.int64, 2)
    assert contents(table) == {b"a": 3, b"b": 2}


def test_removed_keys_have_the_default():
    table = words()
    table.remove(tk.constant(["a", "q"]))
    assert table.lookup(["a", "b"]).numpy().tolist() == [-1, 2]
    assert contents(table) == {b"b": 2}


def test_defaults_of_one_call():
    table = words()
    assert table.lookup(["a", "z"], tk.constant([7, 8], tk.int64)).numpy().tolist() == [3, 8]
    assert table.lookup(["a", "z"], 7).numpy().tolist() == [3, 7]
    assert vectors().lookup([2, 5], [9.0, 8.0]).numpy().tolist() == [[3, 4], [9, 8]]


def test_values_may_be_vectors():
    table = vectors()
    assert table.lookup([2, 5]).numpy().tolist() == [[3, 4], [0, -1]]
    assert table.lookup(tk.constant(2, tk.int64)).numpy().tolist() == [3, 4]
    assert table.lookup(np.zeros((0, 3), np.int64)).shape == (0, 3, 2)
    assert contents(table) == {1: [1, 2], 2: [3, 4]}
    keys, values = MutableHashTable(tk.int64, tk.float32, [0.0, -1.0]).export()
    assert (keys.shape, values.shape) == ((0,), (0, 2))


@pytest.mark.parametrize(
    ("value_dtype", "default", "values"),
    [("string", "", [b"x", b"yy"]), ("bool", False, [True, True]), ("float16", 0.0, [0.5, 1.5])],
)
def test_values_of_other_dtypes(value_dtype, default, values):
    table = MutableHashTable(tk.int32, value_dtype, default)
    table.insert([5, 6], values)
    result = table.lookup([6, 7])
    assert result.dtype == value_dtype
    assert result.numpy().tolist() == [values[1], default.encode() if default == "" else default]


def test_what_is_inserted_is_a_copy():
    values = np.array([[1.0, 2.0]], "f")
    table = MutableHashTable(tk.int64, tk.float32, [0.0, 0.0])
    table.insert([1], values)
    values[:] = 9
    assert table.lookup([1]).numpy().tolist() == [[1, 2]]


@pytest.mark.parametrize("table", [words, lambda: DenseHashTable("string", "int64", -1, "", "$")])
def test_functions_change_tables_in_the_order_of_the_program(table):
    table = table()

    @tk.function
    def step(keys):
        table.insert(keys, tk.constant([5], tk.int64))
        before = table.lookup(keys)
        table.remove(keys)
        return before, table.lookup(keys), table.size()

    size = int(table.size())
    for _ in range(2):
        before, after, left = step(tk.constant(["k"]))
        assert (before.numpy(), after.numpy(), left.numpy()) == ([5], [-1], size)


def test_functions_count_without_results():
    table = MutableHashTable(tk.int64, tk.int64, 0)

    @tk.function
    def count(keys):
        for key in keys:
            table.insert(key, table.lookup(key) + 1)
        table.insert([100], [7])

    for _ in range(2):
        count(tk.constant([3, 4, 3], tk.int64))
    assert contents(table) == {3: 4, 4: 2, 100: 7}
    exported = tk.function(table.export)()
    assert dict(zip(*(x.numpy().tolist() for x in exported), strict=True)) == contents(table)


def test_tables_serve_data_sets():
    table = words()
    data = tk.data.Dataset.from_tensor_slices(["b", "z"]).map(table.lookup)
    assert [int(x) for x in data] == [2, -1]
    table.insert(["z"], [8])
    assert [int(x) for x in data] == [2, 8]


TABLES = {
    "words": (words, lambda t: t.insert(["a", "n"], [9, 9])),
    "vectors": (vectors, lambda t: t.remove([1])),
    "empty": (lambda: MutableHashTable("string", "string", ""), lambda t: t.insert(["x"], ["y"])),
}


@pytest.mark.parametrize(("make", "change"), TABLES.values(), ids=list(TABLES))
def test_checkpoints_restore_tables(tmp_path, make, change):
    table = make()
    path = tk.train.Checkpoint(table=table).write(tmp_path / "state")
    before = contents(table)
    change(table)
    assert contents(table) != before
    tk.train.Checkpoint(table=table).read(path).assert_consumed()
    assert contents(table) == before


def test_checkpoints_leave_tables_out_on_demand(tmp_path):
    table = MutableHashTable("int64", "int64", -1, checkpoint=False)
    table.insert([1], [2])
    assert table.state_arrays() == {}
    with pytest.raises(ValueError, match=r"stores .*, the file has"):
        table.load_state_arrays(words().state_arrays())
    with pytest.raises(ValueError, match="are not float32"):
        vectors().load_state_arrays({"keys": np.array([1]), "values": np.zeros((1, 3), "f")})


def test_two_keys_are_refused():
    table = DenseHashTable(tk.string, tk.int64, -1, empty_key="", deleted_key="$")
    table.insert_or_assign(["a", "b"], [1, 2])
    table.erase(tk.constant(["a"]))
    assert contents(table) == {b"b": 2}
    for call in (table.lookup, table.remove, lambda keys: table.insert(keys, [1])):
        with pytest.raises(tk.errors.InvalidArgumentError, match="the empty_key b'' is no key"):
            call([""])
        with pytest.raises(tk.errors.InvalidArgumentError, match=r"the deleted_key .* is no key"):
            call(["$"])


ERRORS = [
    (lambda: words().lookup(tk.constant([1])), "keys must be string, got int32"),
    (lambda: words().remove(tk.constant([1])), "keys must be string, got int32"),
    (lambda: words().insert(["a"], tk.constant([1.0])), "values must be int64, got float32"),
    (lambda: words().insert(["a"], [1, 2]), r"must have shape \(1,\), got \(2,\)"),
    (lambda: vectors().insert([1], [[1.0]]), r"must have shape \(1, 2\), got \(1, 1\)"),
    (lambda: words().lookup(["a"], [7, 8]), r"must have shape \(\) or \(1,\), got \(2,\)"),
    (lambda: MutableHashTable("float32", "int64", 0), "text or integers, got key_dtype float32"),
    (
        lambda: MutableHashTable("int64", "int64", 0, experimental_is_anonymous=True),
        "experimental_is_anonymous must be False",
    ),
    (lambda: DenseHashTable("int64", "int64", 0, 1, 1), "empty_key and deleted_key are both 1"),
    (lambda: DenseHashTable("int64", "int64", 0, 1, 2, 3), "a power of 2, got 3"),
]


@pytest.mark.parametrize(("call", "text"), ERRORS, ids=[text for _, text in ERRORS])
def test_errors_say_what_is_wrong(call, text):
    with pytest.raises((TypeError, tk.errors.InvalidArgumentError), match=text):
        call()
