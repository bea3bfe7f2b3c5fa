"""Files that nobody vouches for: damaged, forged, or with a foot outside of their folder."""

import os
import random

import numpy as np
import pytest

import trainkit as tk
from tests.onnx.onnx_files import fill_graph, onnx_model
from trainkit import keras
from trainkit.core.errors import DataLossError, OpError, UnimplementedError
from trainkit.onnx import message_reading
from trainkit.saved_graph.onnx.onnx_messages import GraphProto, fill_value

MATMUL = [("MatMul", "x w", "y", {})], [("x", [None, 3])], "y"


def forged(tmp_path, change):
    model = onnx_model(*MATMUL, {"w": np.ones((3, 2), np.float32)})
    change(model)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def weights(model):
    return model.graph.initializer[0]


def outside(**facts):
    def change(model):
        weights(model).ClearField("raw_data")
        weights(model).data_location = 1
        for key, value in {"location": "w.data", **facts}.items():
            weights(model).external_data.add(key=key, value=value)

    return change


def values(**fields):
    def change(model):
        for name, value in fields.items():
            if isinstance(value, list):
                weights(model).ClearField(name)
                getattr(weights(model), name).extend(value)
            else:
                setattr(weights(model), name, value)

    return change


def renamed(model):
    model.graph.node[0].input[0] = "z"


def made_twice(model):
    model.graph.node.add(op_type="Relu", input=["x"], output=["y"])


def endless(model):
    model.functions.add(name="f", domain="d", input=["a"], output=["b"])
    for part in (model.functions[0], model.graph):
        part.node.add(op_type="f", domain="d", input=["a" if part is not model.graph else "x"],
                      output=["b"])  # fmt: skip


def typed(number):
    def change(model):
        model.graph.node[0].attribute.add(name="a", type=number)

    return change


def opset(version):
    def change(model):
        model.opset_import[0].version = version

    return change


def asked_again(model):
    """Six tensors of the bytes of one, where weights that are tied need two or three."""
    outside()(model)
    for i in range(5):
        model.graph.initializer.add().CopyFrom(weights(model))
        model.graph.initializer[-1].name = f"w{i}"


FORGED = {
    "more dims than values": (values(dims=[1 << 40, 1 << 40]), DataLossError, "asks|bytes"),
    "a negative size": (values(dims=[-3, -2]), DataLossError, "shape"),
    "too many axes": (values(dims=[1] * 40), DataLossError, "shape"),
    "an unknown element type": (values(data_type=99), UnimplementedError, "element type 99"),
    "text": (values(data_type=8), DataLossError, "0 texts, and its shape asks for 6"),
    "a path up": (outside(location="../w.data"), DataLossError, "no path below the folder"),
    "a path from the top": (outside(location="/etc/passwd"), DataLossError, "no path below"),
    "no path": (outside(location=""), DataLossError, "no path below"),
    "a link": (outside(location="link"), DataLossError, "link"),
    "a linked folder": (outside(location="up/w.data"), DataLossError, "link"),
    "a folder": (outside(location="folder"), DataLossError, "regular|read"),
    "no file": (outside(location="gone"), DataLossError, "can't be read"),
    "bytes behind the end": (outside(offset="8"), DataLossError, "ends at byte 32"),
    "an offset below 0": (outside(offset="-1"), DataLossError, "no number"),
    "another length": (outside(length="4"), DataLossError, "needs 24"),
    "the same bytes over and over": (asked_again, DataLossError, "120 bytes of its 24, and 4"),
    "a value of no node": (renamed, DataLossError, "needs 'z', which nothing"),
    "a value made twice": (made_twice, DataLossError, "there already"),
    "functions without end": (endless, DataLossError, "for ever"),
    "an attribute of a type": (typed(13), UnimplementedError, "type 13"),
    "an old opset": (opset(5), UnimplementedError, "opset 5"),
    "a new opset": (opset(99), UnimplementedError, "opset 99"),
}


@pytest.mark.parametrize(("change", "error", "text"), FORGED.values(), ids=FORGED)
def test_forged_files_end_in_errors(change, error, text, tmp_path):
    folder = tmp_path / "m"
    (folder / "folder").mkdir(parents=True)
    (folder / "w.data").write_bytes(bytes(24))
    (tmp_path / "secret").write_bytes(bytes(24))
    os.symlink(tmp_path / "secret", folder / "link")
    os.symlink(folder, folder / "up")
    with pytest.raises(error, match=text):
        tk.onnx.load(forged(folder, change))


def test_external_data_beside_the_file_is_read(tmp_path):
    w = np.arange(6, dtype=np.float32).reshape(3, 2)
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "w.data").write_bytes(b"....." + w.tobytes())
    path = forged(tmp_path, outside(location="parts/w.data", offset="5", length="24"))
    np.testing.assert_allclose(tk.onnx.load(path)(np.ones((1, 3))), w.sum(0)[None])


@pytest.mark.parametrize("counted", [True, False])
def test_a_loop_without_end_does_not_hold_up_loading(tmp_path, counted):
    """Its inputs are known when the file is loaded, so that it could be run then."""
    nodes = [("Identity", "going", "on", {}), ("Add", "total one", "more", {})]
    inputs = [("i", [], "int64"), ("going", [], "bool"), ("total", [])]
    body = fill_graph(GraphProto(), nodes, inputs, "", {"one": np.float32(1)})
    for name, dtype in (("on", "bool"), ("more", "float32")):
        fill_value(body.output.add(), name, dtype, [])
    names = "rounds yes zero"
    constants = {"rounds": np.array(10**12), "yes": np.array(True), "zero": np.float32(0)}
    loop = ("Loop", names, "sum", {"body": body})
    model = onnx_model([loop, ("Add", "x sum", "y", {})], [("x", [None, 3])], "y", constants)
    if not counted:
        model.graph.node[0].input[:] = ["", "yes", "zero"]
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    loaded = tk.onnx.load(tmp_path / "m.onnx")
    assert tuple(loaded.output.shape) == (None, 3)


def test_nested_and_numerous_parts_are_refused_before_they_are_made(tmp_path, monkeypatch):
    deep = b""
    for _ in range(60):  # an attribute in a node in a graph in an attribute
        deep = b"".join(b"\x32" + _size(inner) + inner for inner in [deep])
        for tag in (b"\x2a", b"\x0a"):
            deep = tag + _size(deep) + deep
    (tmp_path / "deep.onnx").write_bytes(b"\x3a" + _size(deep) + deep)
    many = b"\x0a\x00" * 1001
    monkeypatch.setattr(message_reading, "MOST_PARTS", 1000)
    (tmp_path / "many.onnx").write_bytes(b"\x3a" + _size(many) + many)
    with pytest.raises(DataLossError, match="nested more than"):
        tk.onnx.load(tmp_path / "deep.onnx")
    with pytest.raises(DataLossError, match="more than 1,000 parts"):
        tk.onnx.load(tmp_path / "many.onnx")


def _size(data):
    n, parts = len(data), []
    while True:
        parts.append(n & 0x7F | (0x80 if n > 0x7F else 0))
        n >>= 7
        if not n:
            return bytes(parts)


def test_tensors_made_of_little_are_bounded(tmp_path):
    nodes = [("Expand", "x big", "y", {})]
    path = tmp_path / "m.onnx"
    held = {"big": np.array([1 << 20, 1 << 20])}
    path.write_bytes(onnx_model(nodes, [("x", [1, 1])], "y", held).SerializeToString())
    with pytest.raises(OpError, match=r"\(Expand\).*at most"):
        tk.onnx.load(path)


def test_damaged_files_load_or_end_in_errors(tmp_path):
    """`benchmarks/damaged_onnx.py` tries thousands."""
    layers = keras.layers
    model = keras.Sequential(
        [keras.Input((6, 6, 2)), layers.Conv2D(3, 3), layers.Flatten(), layers.Dense(2)]
    )
    model.export(tmp_path / "m.onnx", verbose=False)
    data, rng = (tmp_path / "m.onnx").read_bytes(), random.Random(3)
    path, loaded = tmp_path / "damaged.onnx", 0
    for _ in range(60):
        damaged = bytearray(data)
        for _ in range(rng.randrange(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged[: rng.choice([len(data), rng.randrange(len(data))])])
        try:
            tk.onnx.load(path)
            loaded += 1
        except OpError:
            pass
    assert loaded
