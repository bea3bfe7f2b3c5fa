"""The table of contents: the same tree as HDF5's, enough to load from, and trusted no more."""

import json
import os

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainkit.checkpoints.checkpoint import Checkpoint
from trainkit.checkpoints.format import index, reader
from trainkit.checkpoints.format.checksum import SMALL
from trainkit.checkpoints.format.header import verify_header, write_header
from trainkit.checkpoints.format.index import Contents
from trainkit.checkpoints.format.reader import SavedFile, outline
from trainkit.checkpoints.format.writer import CheckpointOptions, Group, Link, Values, write_file
from trainkit.cli.main import main
from trainkit.core.errors import CheckpointError
from trainkit.core.trackable import Trackable
from trainkit.core.variable import Variable

ARRAYS = [
    np.float32(3),
    np.arange(6, dtype=np.int64).reshape(2, 3),
    np.zeros((0, 3), np.float32),
    np.array([True, False]),
    np.array([1 + 2j], np.complex128),
    np.array(["a", "longer ü"]),
    np.array([""]),
    np.arange(SMALL // 4 + 7, dtype=np.float32),
    np.arange(3, dtype=np.uint16),
]


@st.composite
def entries(draw):
    """Entries of a file: groups, arrays, second names, in an order that can be written."""
    made = [""]
    found = []
    for number in range(draw(st.integers(0, 12))):
        path = f"{draw(st.sampled_from(made))}/{draw(st.sampled_from('zaäB'))}{number}".lstrip("/")
        kind = draw(st.sampled_from(("group", "array", "array", "link", "between")))
        if kind == "group":
            attributes = draw(st.dictionaries(st.sampled_from(("type", "note")), st.text("aü\n")))
            found.append(Group(path, attributes))
            made.append(path)
        elif kind == "link":
            targets = [e.path for e in found] + [""]
            found.append(Link(path, draw(st.sampled_from(targets))))
        else:
            path = f"{path}/below" if kind == "between" else path
            array = draw(st.sampled_from(ARRAYS))
            found.append(Values(path, lambda array=array: array, draw(st.booleans())))
    return found


ROOT = {"format": "trainkit", "manifest": "{}", "cycles": "yes"}


@settings(max_examples=60, deadline=None)
@given(entries(), st.sampled_from((None, "float16", "bfloat16")))
def test_the_table_says_what_hdf5_says(tmp_path_factory, made, slots):
    path = tmp_path_factory.mktemp("contents") / "file"
    write_file(path, made, ROOT, CheckpointOptions(slot_dtype=slots))
    file = SavedFile(path)
    there = outline(file._read_tree())
    assert outline(file.root) == there
    file.verify_structure()
    file.verify()
    assert list(there) == list(outline(file.root))
    file.close()


def checkpoint(value=1.0):
    shared, root = Trackable(), Trackable()
    shared.kernel = Variable(np.full((3, 2), value, np.float32))
    root.big = Variable(np.full(SMALL, value, np.float32))
    root.a, root.b, root.me = shared, shared, root
    return Checkpoint(net=root)


@pytest.fixture
def path(tmp_path):
    return checkpoint().write(tmp_path / "ckpt-1")


def test_a_checkpoint_loads_without_the_hdf5_library(path, monkeypatch):
    monkeypatch.setattr(reader, "opened", lambda *a: pytest.fail("opened by HDF5"))
    fresh = checkpoint(0.0)
    fresh.read(path).assert_consumed()
    assert fresh.net.a.kernel.numpy().min() == fresh.net.big.numpy().min() == 1.0


def test_hdf5_readers_do_not_see_the_table(path):
    with h5py.File(path) as file:
        assert file["net/a/kernel"][0, 0] == 1.0
        assert file["net/a"] == file["net/b"]


def header_of(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        return verify_header(fd, "")[0]
    finally:
        os.close(fd)


def test_a_compressed_file_has_none(tmp_path):
    path = checkpoint().write(tmp_path / "packed", CheckpointOptions(compression="gzip"))
    assert header_of(path).contents == 0
    fresh = checkpoint(0.0)
    fresh.read(path).assert_consumed()
    assert fresh.net.big.numpy().min() == 1.0


def test_a_file_of_very_many_objects_has_none(tmp_path, monkeypatch):
    monkeypatch.setattr(index, "MAX_BYTES", 100)
    path = checkpoint().write(tmp_path / "many")
    assert header_of(path).contents == 0
    checkpoint(0.0).read(path).assert_consumed()


def sealed_with(path, table):
    """Seal the file again with `table` (text or what JSON makes of it) for its contents."""
    data = table.encode() if isinstance(table, str) else json.dumps(table).encode()
    fd = os.open(path, os.O_RDWR)
    header, extents = verify_header(fd, "")
    os.ftruncate(fd, header.table - header.contents)
    write_header(fd, extents, 1, data)
    os.close(fd)
    return path


def table_of(path):
    header = header_of(path)
    with open(path, "rb") as file:
        file.seek(header.table - header.contents)
        return json.loads(file.read(header.contents))


TEXTS = {"format": "trainkit", "version": "1"}


def root(**children):
    return [[TEXTS, {name: number + 1 for number, name in enumerate(children)}], *children.values()]


def array(shape=(1,), dtype="<f4", offset=600, attributes=None):
    return [attributes or {}, shape, dtype, offset]


HOSTILE = [
    ("{", "its table of contents is none"),
    ("[" * 100_000, "its table of contents is none"),
    ("[]", "its table of contents is none"),
    ([[{}]], "its table of contents is none"),
    ([[TEXTS, {}, {}]], "its table of contents is none"),
    ([[TEXTS, [], "<f4", None]], "'/' declares 4 bytes"),
    ([[TEXTS, [0], "<f4", None]], "'/' is not a group"),
    ([[TEXTS, {"a": 7}]], "its table of contents is none"),
    ([[TEXTS, {"a": -1}]], "'/a' is the object '-1', which is no number"),
    ([[TEXTS, {"a": True}], [{}, {}]], "'/a' is the object 'True'"),
    ([[TEXTS, {"a": [1]}]], r"'/a' is the object '\[1\]'"),
    ([[TEXTS, {"a": 0}]], "'/a' contains itself: it is also '/'"),
    ([[TEXTS, {"": 1}], [{}, {}]], "'/' has a child named ''"),
    ([[TEXTS, {"a/b": 1}], [{}, {}]], "'/' has a child named 'a/b'"),
    ('[[{"format":"trainkit"},{"\\ud800":1}],[{},{}]]', "its table of contents is none"),
    ([[TEXTS, []]], "'/' has no list of what it holds"),
    ([[[], {}]], "has no attributes"),
    ([[{str(i): "" for i in range(65)}, {}]], "has no attributes, or more than 64"),
    ([[{**TEXTS, "a": 3}, {}]], "an attribute that is no text up to 65536"),
    ([[{**TEXTS, "a": "x" * 65537}, {}]], "an attribute that is no text up to 65536"),
    (root(a=array(dtype="|O")), "'/a' holds values of type '|O'"),
    (root(a=array(dtype="f4")), "'/a' holds values of type 'f4'"),
    (root(a=array(dtype="<f4,<f4")), "'/a' holds values of type"),
    (root(a=array(dtype="0,f4")), "'/a' holds values of type '0,f4'"),
    (root(a=array(dtype="<f3")), "its table of contents is none"),
    (root(a=array(dtype=3)), "'/a' holds values of type '3'"),
    (root(a=array(dtype="|V8")), "'/a' holds values of type"),
    (root(a=array(shape=(-1,))), r"'/a' has the sizes \[-1\]"),
    (root(a=array(shape=(2.0,))), r"'/a' has the sizes \[2.0\]"),
    (root(a=array(shape=(0, 1 << 40, 1 << 40))), "'/a' has the sizes"),
    (root(a=array(shape=(1,) * 33)), "'/a' has the sizes"),
    (root(a=array(offset=-8)), "'/a' stands at '-8'"),
    (root(a=array(offset=1.5)), "'/a' stands at '1.5'"),
    (root(a=array(offset=None)), "'/a' declares 4 bytes, which are not all in the file"),
    (root(a=array(offset=1 << 70)), "'/a' declares 4 bytes, which are not all in the file"),
    (root(a=array(shape=(1 << 50,))), "'/a' declares"),
    (root(a=array(attributes={"dtype": "int8"})), "'/a' calls itself 'int8' and holds float32"),
]


@pytest.mark.parametrize(("table", "words"), HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_table_is_refused(path, table, words):
    fresh = checkpoint(0.0)
    with pytest.raises(CheckpointError, match=words):
        fresh.read(sealed_with(path, table)).assert_consumed()
    assert not fresh.net.big.numpy().any()


def test_a_deep_table_is_refused(path):
    chain = [[TEXTS, {"a": 1}], *([{}, {"a": i + 2}] for i in range(300)), [{}, {}]]
    with pytest.raises(CheckpointError, match="nested more than 256 levels deep"):
        checkpoint(0.0).read(sealed_with(path, chain))


def test_a_long_table_is_refused_unread(path):
    long = " " * (index.MAX_BYTES + 1)
    with pytest.raises(CheckpointError, match=f"has {len(long)} bytes, more than"):
        checkpoint(0.0).read(sealed_with(path, long))


def test_an_array_that_reaches_into_another_ones_checksum_is_refused(path):
    table = table_of(path)
    big = next(entry for entry in table if entry[1] == [SMALL])
    big[3] += 4
    with pytest.raises(CheckpointError, match="'/net/big' shares its bytes with another array"):
        checkpoint(0.0).read(sealed_with(path, table))


def test_a_table_in_another_byte_order_is_left_to_hdf5(path):
    table = table_of(path)
    for entry in table:
        if len(entry) == 4:
            entry[2] = entry[2].replace("<", ">")
    fresh = checkpoint(0.0)
    fresh.read(sealed_with(path, table)).assert_consumed()
    assert fresh.net.big.numpy().min() == 1.0


def test_verify_finds_a_table_that_is_not_hdf5s(path, capsys):
    table = table_of(path)
    big = next(entry for entry in table if entry[1] == [SMALL])
    big[1] = [2, SMALL // 2]
    sealed_with(path, table)
    assert main(["ckpt", "verify", str(path)]) == 1
    said = capsys.readouterr().out
    assert f"its table of contents has (2, {SMALL // 2}) float32" in said
    assert f"as '/net/big', HDF5 has ({SMALL},) float32" in said


def test_a_table_of_an_empty_file():
    assert Contents({"a": "b"}).encode() == b'[[{"a":"b"},{}]]'
