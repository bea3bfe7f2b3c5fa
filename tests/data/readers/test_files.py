"""Data sets of files: names, lines, records, CSV, and elements kept in files."""

import gzip
import os
import struct
import zlib

import numpy as np
import pytest

import trainkit as tk
from trainkit.data import Dataset
from trainkit.records.framing import framed
from trainkit.records.writer import TFRecordOptions, TFRecordWriter

CsvDataset = tk.data.experimental.CsvDataset
make_csv_dataset = tk.data.experimental.make_csv_dataset
RECORDS = [b"one", b"", b"\x00\xff" * 700, "ü".encode()]


def plain(x):
    if isinstance(x, tuple):
        return tuple(plain(item) for item in x)
    if isinstance(x, dict):
        return {key: plain(value) for key, value in x.items()}
    return x.tolist() if isinstance(x, np.ndarray | np.generic) else x


def listed(dataset):
    return [plain(element) for element in dataset.as_numpy_iterator()]


@pytest.fixture
def texts(tmp_path):
    paths = []
    for name, text in {"a.txt": b"1\r\n2\n\n4", "b.txt": b"x\ny\n", "c.csv": b"z\n"}.items():
        (tmp_path / name).write_bytes(text)
        paths.append(str(tmp_path / name))
    return paths


# ------------------------------------------------------------------ names


def test_names_of_files(texts, tmp_path):
    pattern = str(tmp_path / "*.txt")
    wanted = [os.fsencode(path) for path in texts[:2]]
    assert listed(Dataset.list_files(pattern, shuffle=False)) == wanted
    assert sorted(listed(Dataset.list_files([pattern, texts[2]]))) == sorted(
        map(os.fsencode, texts)
    )
    assert listed(Dataset.list_files(tmp_path / "*.csv")) == [os.fsencode(texts[2])]
    orders = [tuple(listed(Dataset.list_files(str(tmp_path / "*"), seed=3))) for _ in range(2)]
    assert orders[0] == orders[1]
    with pytest.raises(tk.errors.InvalidArgumentError, match="no file matches"):
        Dataset.list_files(str(tmp_path / "*.png"))


def test_a_star_stands_for_the_dot_of_hidden_files_as_in_tensorflow(tmp_path):
    names = [str(tmp_path / name) for name in (".hidden.txt", "a.txt")]
    for name in names:
        tk.io.write_file(name, "1")
    pattern = str(tmp_path / "*.txt")
    assert listed(Dataset.list_files(pattern, shuffle=False)) == [os.fsencode(x) for x in names]
    assert tk.io.matching_files(pattern).numpy().tolist() == [os.fsencode(x) for x in names]
    assert tk.io.gfile.glob(pattern) == names


# ------------------------------------------------------------------ lines and records


@pytest.mark.parametrize("way", ["list", "one", "tensor", "dataset", "array"])
def test_lines(texts, way):
    names = texts[:2]
    given = {
        "list": names,
        "one": names[0],
        "tensor": tk.constant(names),
        "dataset": Dataset.from_tensor_slices(names),
        "array": np.array(names),
    }[way]
    wanted = [b"1", b"2", b"", b"4"] + ([] if way == "one" else [b"x", b"y"])
    assert listed(tk.data.TextLineDataset(given)) == wanted
    assert tk.data.TextLineDataset(given).element_spec == tk.TensorSpec((), tk.string)


def test_several_files_take_turns(texts):
    dataset = tk.data.TextLineDataset(texts[:2], num_parallel_reads=2)
    assert listed(dataset) == [b"1", b"x", b"2", b"y", b"", b"4"]
    by_hand = Dataset.from_tensor_slices(texts[:2]).interleave(tk.data.TextLineDataset, 2)
    assert listed(by_hand) == listed(dataset)
    assert listed(
        Dataset.from_tensor_slices(texts[:2]).flat_map(
            lambda name: tk.data.TextLineDataset(name).skip(1)
        )
    ) == [b"2", b"", b"4", b"y"]


@pytest.mark.parametrize("kind", ["", "GZIP", "ZLIB", None])
def test_records_are_read_as_written(tmp_path, kind):
    path = tmp_path / "records"
    with TFRecordWriter(path, TFRecordOptions(kind) if kind != "ZLIB" else "ZLIB") as writer:
        for record in RECORDS:
            writer.write(record)
    assert listed(tk.data.TFRecordDataset(path, compression_type=kind)) == RECORDS
    content = path.read_bytes()
    opened = {"GZIP": gzip.decompress, "ZLIB": zlib.decompress}.get(kind or "", lambda b: b)(
        content
    )
    assert opened == framed(RECORDS)
    with pytest.raises(tk.errors.FailedPreconditionError, match="closed"):
        writer.write(b"x")


def test_data_sets_are_written_as_records(tmp_path):
    path = str(tmp_path / "records")
    tk.data.experimental.TFRecordWriter(path).write(Dataset.from_tensor_slices(["a", "b"]))
    assert listed(tk.data.TFRecordDataset([path, path])) == [b"a", b"b"] * 2
    with pytest.raises(TypeError, match="string scalars"):
        tk.data.experimental.TFRecordWriter(path).write(Dataset.range(2))


@pytest.mark.parametrize("kind", ["", "GZIP"])
def test_records_of_one_length(tmp_path, kind):
    path = tmp_path / "records"
    content = b"HH" + b"abcdef" + b"F"
    path.write_bytes(gzip.compress(content) if kind else content)
    dataset = tk.data.FixedLengthRecordDataset(path, 3, 2, 1, compression_type=kind)
    assert listed(dataset) == [b"abc", b"def"]
    with pytest.raises(tk.errors.InvalidArgumentError, match="of 4 bytes"):
        listed(tk.data.FixedLengthRecordDataset(path, 4, 2, 1, compression_type=kind))
    with pytest.raises(tk.errors.InvalidArgumentError, match="at least 1"):
        tk.data.FixedLengthRecordDataset(path, 0)


DAMAGE = {
    "cut in the head": framed([b"abc"]) + framed([b"d"])[:5],
    "cut in the body": framed([b"abc"])[:-2],
    "a huge length": struct.pack("<Q", 1 << 60) + framed([b"abc"])[8:],
    "another byte": framed([b"abc"]).replace(b"abc", b"abd"),
    "no records": b"some text that is no record",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_records_are_data_loss(tmp_path, damage):
    path = tmp_path / "records"
    path.write_bytes(DAMAGE[damage])
    with pytest.raises(tk.errors.DataLossError, match="records"):
        listed(tk.data.TFRecordDataset(path))


def test_a_true_checksum_of_a_huge_length_takes_no_memory(tmp_path):
    from trainkit.records import framing

    path = tmp_path / "records"
    path.write_bytes(framing._header(1 << 50) + b"short")
    with pytest.raises(tk.errors.DataLossError, match="cut short"):
        listed(tk.data.TFRecordDataset(path))


@pytest.mark.parametrize("kind", ["GZIP", "ZLIB"])
@pytest.mark.parametrize("content", [b"", b"nothing compressed", "cut"])
def test_damaged_streams_are_data_loss(tmp_path, kind, content):
    path = tmp_path / "records"
    pack = gzip.compress if kind == "GZIP" else zlib.compress
    path.write_bytes(pack(framed([os.urandom(500)]))[:-9] if content == "cut" else content)
    if content == b"" and kind == "GZIP":
        assert listed(tk.data.TFRecordDataset(path, kind)) == []
        return
    for dataset in (tk.data.TFRecordDataset, tk.data.TextLineDataset):
        with pytest.raises(tk.errors.DataLossError, match="records"):
            listed(dataset(path, kind))


@pytest.mark.parametrize("make", [tk.data.TextLineDataset, tk.data.TFRecordDataset])
def test_missing_files_and_wrong_arguments(make, tmp_path):
    with pytest.raises(tk.errors.NotFoundError, match="there is no file"):
        listed(make(str(tmp_path / "none")))
    with pytest.raises(tk.errors.InvalidArgumentError, match="compression_type 'LZ'"):
        make("x", compression_type="LZ")
    with pytest.raises(TypeError, match="a path is a text"):
        make([1.5])
    with pytest.raises(tk.errors.InvalidArgumentError, match="num_parallel_reads"):
        make("x", num_parallel_reads=0)
    with pytest.raises(TypeError, match="must hold text"):
        make(Dataset.range(3))


@pytest.mark.parametrize("taken", [0, 3])
def test_a_position_in_files_is_taken_up_again(texts, taken, tmp_path):
    def make():
        return tk.data.TextLineDataset(texts, num_parallel_reads=2).map(lambda s: s + "!")

    iterator = iter(make())
    for _ in range(taken):
        next(iterator)
    path = tk.train.Checkpoint(iterator=iterator).save(str(tmp_path / "at"))
    rest = [x.numpy() for x in iterator]
    other = iter(make())
    tk.train.Checkpoint(iterator=other).restore(path)
    assert [x.numpy() for x in other] == rest
    assert len(rest) == 7 - taken


# ------------------------------------------------------------------ CSV


CSV = 'n,x,s,big\n1,1.5,"a, ""b""",1\n,2,,9999999999\n3,,c,2\n'


@pytest.fixture
def table(tmp_path):
    (tmp_path / "t.csv").write_text(CSV)
    return str(tmp_path / "t.csv")


def test_rows_of_csv_files(table):
    defaults = [tk.constant([0]), tk.float32, tk.constant([""], tk.string), tk.int64]
    with pytest.raises(tk.errors.InvalidArgumentError, match="row 3, field 1 is empty"):
        listed(CsvDataset(table, defaults, header=True))
    defaults[1] = [-1.0]
    wanted = [(1, 1.5, b'a, "b"', 1), (0, 2.0, b"", 9999999999), (3, -1.0, b"c", 2)]
    dataset = CsvDataset(table, defaults, header=True)
    assert listed(dataset) == wanted
    assert [spec.dtype for spec in dataset.element_spec] == [
        tk.int32,
        tk.float32,
        tk.string,
        tk.int64,
    ]
    some = CsvDataset([table] * 2, ["", tk.int64], header=True, select_cols=[2, 3])
    assert listed(some) == [row[2:] for row in wanted] * 2
    assert listed(CsvDataset(table, ["", tk.int64], header=True, exclude_cols=[0, 1])) == [
        row[2:] for row in wanted
    ]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda path: listed(CsvDataset(path, [tk.int32] * 4)), "'n', is no int32"),
        (lambda path: listed(CsvDataset(path, [""] * 3)), "has 4 fields, expected 3"),
        (
            lambda path: listed(CsvDataset(path, ["", 0], header=True, select_cols=[0, 3])),
            "fit int32",
        ),
        (lambda path: CsvDataset(path, [tk.bool]), "a column can't be bool"),
        (lambda path: CsvDataset(path, [""], select_cols=[1, 0]), "must grow"),
        (lambda path: CsvDataset(path, [], select_cols=[]), "must grow"),
        (lambda path: CsvDataset(path, [""], select_cols=[1], exclude_cols=[0]), "not both"),
    ],
)
def test_csv_that_does_not_fit(table, call, words):
    with pytest.raises(tk.errors.InvalidArgumentError, match=words):
        call(table)


@pytest.mark.parametrize("content", ['1,"2\n3', '"a"b,c', "a" * 200_000 + ",1"])
def test_csv_that_is_broken(tmp_path, content):
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(tk.errors.InvalidArgumentError, match="csv: "):
        listed(CsvDataset(str(tmp_path / "t.csv"), ["", ""]))


def test_columns_by_name(table):
    dataset = make_csv_dataset(table, 2, label_name="n", num_epochs=1, shuffle=False)
    assert listed(dataset) == [
        ({"x": [1.5, 2.0], "s": [b'a, "b"', b""], "big": [1, 9999999999]}, [1, 0]),
        ({"x": [0.0], "s": [b"c"], "big": [2]}, [3]),
    ]
    features, labels = dataset.element_spec
    assert labels == tk.TensorSpec((None,), tk.int32)
    assert [features[k].dtype for k in ("x", "s", "big")] == [tk.float32, tk.string, tk.int64]
    forever = make_csv_dataset([table, table], 4, select_columns=["big", 0], shuffle_seed=1)
    batches = list(forever.take(3))
    assert [list(batch) for batch in batches] == [["n", "big"]] * 3
    assert all(batch["n"].shape == (4,) for batch in batches)


def test_columns_with_given_names_and_types(tmp_path):
    (tmp_path / "t.csv").write_text("1;NA\n2;7\nx;8\n")
    dataset = make_csv_dataset(
        str(tmp_path / "*.csv"),
        2,
        column_names=["a", "b"],
        column_defaults=[tk.int32, [5]],
        field_delim=";",
        na_value="NA",
        header=False,
        num_epochs=1,
        shuffle=False,
        ignore_errors=True,
    )
    assert listed(dataset) == [{"a": [1, 2], "b": [5, 7]}]


def test_columns_that_do_not_fit(table, tmp_path):
    with pytest.raises(ValueError, match="label_name 'y' is none of"):
        make_csv_dataset(table, 2, label_name="y")
    with pytest.raises(ValueError, match="no column 'q'"):
        make_csv_dataset(table, 2, select_columns=["q"])
    with pytest.raises(ValueError, match="column_defaults for 4 columns"):
        make_csv_dataset(table, 2, column_defaults=[0])
    with pytest.raises(tk.errors.InvalidArgumentError, match="no file matches"):
        make_csv_dataset(str(tmp_path / "*.tsv"), 2)


# ------------------------------------------------------------------ elements in files


def counted(calls):
    def make():
        for n in range(3):
            calls.append(n)
            yield n, [f"s{n}"] * n

    spec = (tk.TensorSpec((), tk.int64), tk.TensorSpec((None,), tk.string))
    return Dataset.from_generator(make, output_signature=spec)


ELEMENTS = [(0, []), (1, [b"s1"]), (2, [b"s2", b"s2"])]


def test_a_cache_in_a_file_is_read_again(tmp_path):
    path, calls = str(tmp_path / "cache"), []
    dataset = counted(calls).cache(path)
    next(iter(dataset))
    assert not list(tmp_path.glob("*.index"))
    calls.clear()
    assert listed(dataset) == ELEMENTS
    assert listed(dataset) == ELEMENTS
    assert listed(counted(calls).cache(path).repeat(2)) == ELEMENTS * 2
    assert calls == [0, 1, 2]
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "cache.data-00000-of-00001",
        "cache.index",
    ]
    with pytest.raises(tk.errors.InvalidArgumentError, match="another pipeline"):
        listed(Dataset.range(3).cache(path))


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_saved_elements_are_loaded(tmp_path, compression):
    path = str(tmp_path / "deep" / "saved")
    counted([]).map(lambda n, s: {"n": n, "s": (s,)}).save(path, compression=compression)
    dataset = Dataset.load(path)
    assert listed(dataset) == [{"n": n, "s": (s,)} for n, s in ELEMENTS]
    assert len(dataset) == 3
    assert dataset.element_spec["n"] == tk.TensorSpec((), tk.int64)
    assert listed(Dataset.load(path, element_spec=dataset.element_spec)) == listed(dataset)
    with pytest.raises(TypeError, match="not"):
        Dataset.load(path, element_spec=tk.TensorSpec((), tk.int64))
    snapshot = counted([]).snapshot(str(tmp_path / "shot"))
    assert listed(snapshot) == listed(snapshot) == ELEMENTS


def test_damaged_elements_are_data_loss(tmp_path):
    path = tmp_path / "saved"
    with pytest.raises(tk.errors.NotFoundError, match="no stored data set"):
        Dataset.load(path)
    Dataset.range(4).save(path)
    data, index = path / "elements.data-00000-of-00001", path / "elements.index"
    whole = data.read_bytes()
    data.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(tk.errors.DataLossError):
        listed(Dataset.load(path))
    data.write_bytes(whole)
    text = index.read_text()
    index.write_text(text.replace('"count": 4', '"count": 9'))
    with pytest.raises(tk.errors.DataLossError, match="end at element 4"):
        listed(Dataset.load(path))
    index.write_text(text.replace("int64", "float32"))
    with pytest.raises(tk.errors.DataLossError, match="the index says"):
        listed(Dataset.load(path))
    for broken in ("", "[]", "{", text.replace("int64", "thing"), "[" * 100_000):
        index.write_text(broken)
        with pytest.raises(tk.errors.DataLossError, match="no index"):
            Dataset.load(path)


@pytest.mark.parametrize("taken", [0, 2])
def test_a_position_in_a_cache_file_is_taken_up_again(tmp_path, taken):
    dataset = Dataset.range(6).shuffle(6, seed=2).cache(str(tmp_path / "cache"))
    iterator = iter(dataset)
    for _ in range(taken):
        next(iterator)
    path = tk.train.Checkpoint(iterator=iterator).save(str(tmp_path / "at"))
    rest = [int(x) for x in iterator]
    other = iter(Dataset.range(6).shuffle(6, seed=2).cache(str(tmp_path / "other")))
    tk.train.Checkpoint(iterator=other).restore(path)
    assert [int(x) for x in other] == rest


def test_a_wrong_number_of_elements_is_told():
    right = (
        Dataset.range(3).filter(lambda n: True).apply(tk.data.experimental.assert_cardinality(3))
    )
    assert len(right) == 3
    assert listed(right) == [0, 1, 2]
    for wrong in (2, 4):
        dataset = Dataset.range(3).apply(tk.data.experimental.assert_cardinality(wrong))
        with pytest.raises(tk.errors.FailedPreconditionError, match="expected"):
            listed(dataset)


def test_older_spellings_are_the_methods():
    exp = tk.data.experimental
    assert listed(Dataset.range(4).apply(exp.map_and_batch(lambda n: n + 1, 3))) == [[1, 2, 3], [4]]
    assert listed(Dataset.range(4).apply(exp.take_while(lambda n: n < 2))) == [0, 1]
    assert listed(exp.Counter(5).take(2)) == [5, 6]
    assert int(exp.cardinality(Dataset.range(4))) == 4
    assert int(exp.get_single_element(Dataset.range(1))) == 0


def test_a_writer_takes_a_name_that_ends_in_a_slash(tmp_path):
    with tk.io.TFRecordWriter(f"{tmp_path}/data.tfrecords/") as file:
        file.write(b"record")
    assert [x.numpy() for x in tk.data.TFRecordDataset(f"{tmp_path}/data.tfrecords")] == [b"record"]
