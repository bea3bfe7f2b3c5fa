"""Text in ONNX files: what operators of it give, and what others say."""

import numpy as np
import pytest

import trainkit as tk
from tests.onnx.onnx_files import onnx_model
from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.saved_graph.onnx.onnx_messages import STRINGS, fill_tensor


def load(path, op_type, inputs, outputs="y", words=None, **attributes):
    """A model of one node, whose inputs are text (name, shape), with constant text in `words`."""
    stopwords = attributes.pop("stopwords", None)
    nodes = [(op_type, " ".join([*inputs, *(words or {})]), outputs, attributes)]
    model = onnx_model(nodes, [(n, s) for n, s in inputs.items()], outputs, version=20)
    if stopwords:
        model.graph.node[0].attribute.add(name="stopwords", type=STRINGS, strings=stopwords)
    for x in (*model.graph.input, *model.graph.output):
        x.type.tensor_type.elem_type = 8
    for name, items in (words or {}).items():
        message = model.graph.initializer.add()
        fill_tensor(message, name, np.zeros(0, np.float32))
        message.ClearField("raw_data")
        message.ClearField("dims")
        message.data_type = 8
        message.dims.append(len(items))
        message.string_data.extend(items)
    path = path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return tk.onnx.load(path)


def test_texts_are_joined(tmp_path):
    model = load(tmp_path, "StringConcat", {"a": ["N", 1]}, words={"b": [b"!", b"?", b""]})
    x = tk.constant([["äh"], ["b"]])
    expected = [["äh!", "äh?", "äh"], ["b!", "b?", "b"]]
    for function in (model, tk.function(model)):
        assert [[t.decode() for t in row] for row in function(x).numpy()] == expected


def test_texts_are_split(tmp_path):
    x = tk.constant(["a bc  d", "", "e"])
    results = load(tmp_path, "StringSplit", {"x": ["N"]}, "y z")(x)
    assert results["y"].numpy().tolist() == [[b"a", b"bc", b"d"], [b""] * 3, [b"e", b"", b""]]
    assert results["z"].numpy().tolist() == [3, 0, 1]
    results = load(tmp_path, "StringSplit", {"x": ["N"]}, "y z", delimiter=" ", maxsplit=1)(x)
    assert results["y"].numpy().tolist() == [[b"a", b"bc  d"], [b"", b""], [b"e", b""]]


def test_words_are_normalized(tmp_path):
    settings = {"case_change_action": "UPPER", "stopwords": [b"the"]}
    model = load(tmp_path, "StringNormalizer", {"x": ["N"]}, **settings)
    assert model(tk.constant(["The", "étude", "the"])).numpy().tolist() == ["ÉTUDE".encode()]
    assert model(tk.constant(["THE"])).numpy().tolist() == [b""]
    settings["is_case_sensitive"] = 1
    model = load(tmp_path, "StringNormalizer", {"x": [1, "N"]}, **settings)
    assert model(tk.constant([["The", "the"]])).numpy().tolist() == [[b"THE"]]


def test_what_takes_no_text_says_so(tmp_path):
    with pytest.raises(InvalidArgumentError, match=r"neither \(n,\) nor \(1, n\)"):
        load(tmp_path, "StringNormalizer", {"x": [2, "M"]})
    with pytest.raises(UnimplementedError, match="text is not read as numbers"):
        load(tmp_path, "Cast", {"x": ["N"]}, to=1)
    with pytest.raises(UnimplementedError, match=r"RegexFullMatch \(1\)"):
        load(tmp_path, "RegexFullMatch", {"x": ["N"]}, pattern="(a+)+b")
    with pytest.raises(UnimplementedError, match="the result is of text"):
        load(tmp_path, "Cast", {"x": ["N"]}, to=8)


def test_numbers_are_no_text(tmp_path):
    model = onnx_model([("StringSplit", "x", "y z", {})], [("x", ["N"])], "y z", version=20)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(InvalidArgumentError, match="is of float32, and has to be text"):
        tk.onnx.load(tmp_path / "m.onnx")
