"""safetensors in one file and several, `.npz`, Keras's files and folders, both ways."""

import json
import os

import ml_dtypes
import numpy as np
import pytest

import trainkit as tk
from tests.weights.torch_files import write_state
from trainkit.checkpoints.format.atomic import AtomicFile
from trainkit.core.errors import (
    CheckpointError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotBuiltError,
    NotFoundError,
    UnimplementedError,
)
from trainkit.weights import weight_files

ARRAYS = {
    "bytes": np.arange(3, dtype="uint8"),
    "layers.0.weight": np.arange(6, dtype="float32").reshape(2, 3),
    "brain": np.ones(5, ml_dtypes.bfloat16),
    "small": np.ones((2, 2), ml_dtypes.float8_e4m3fn),
    "smaller": np.ones(1, ml_dtypes.float8_e5m2),
    "turned": np.arange(6.0).reshape(2, 3).T,
    "number": np.array(3),
    "mask": np.array([True]),
    "none": np.zeros((0, 2), "float32"),
}


def assert_same(loaded, arrays):
    assert loaded.keys() == arrays.keys()
    for name, array in arrays.items():
        assert loaded[name].dtype == array.dtype, name
        assert loaded[name].shape == array.shape, name
        assert loaded[name].tobytes() == array.tobytes(), name
        assert not loaded[name].flags.writeable


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("size", [None, 30, "1GB", "0.02 KB"])
def test_safetensors_come_back(tmp_path, mapped, size):
    path = tmp_path / "model.safetensors"
    tk.weights.save(ARRAYS, path, max_shard_size=size, metadata={"by": "me"})
    is_one = size in (None, "1GB")
    source = path if is_one else tmp_path / "model.safetensors.index.json"
    assert_same(tk.weights.load(source, mapped=mapped), ARRAYS)
    assert path.exists() == is_one
    assert_same(tk.weights.load(tmp_path), ARRAYS)  # as a folder
    first = path if is_one else next(iter(sorted(tmp_path.glob("model-00001-of-*"))))
    with tk.weights.open(first) as table:
        assert table.metadata["by"] == "me"
        assert len(table.metadata["sha256"]) == 64


def test_the_library_reads_what_is_written_and_the_other_way_round(tmp_path):
    library = pytest.importorskip("safetensors.numpy")
    plain = {
        n: a for n, a in ARRAYS.items() if "float8" not in a.dtype.name and a.dtype.kind != "V"
    }
    tk.weights.save(plain, tmp_path / "ours.safetensors")
    theirs = library.load_file(tmp_path / "ours.safetensors")
    assert all(np.array_equal(theirs[name], array) for name, array in plain.items())
    contiguous = {name: np.array(array, order="C") for name, array in plain.items()}
    library.save_file(contiguous, tmp_path / "theirs.safetensors", metadata={"format": "pt"})
    loaded = tk.weights.load(tmp_path / "theirs.safetensors")
    assert_same(loaded, {name: plain[name] for name in loaded})
    assert loaded.keys() == plain.keys()


def test_wide_elements_come_first_so_that_all_are_aligned(tmp_path):
    tk.weights.save(
        {"a": np.ones(3, "uint8"), "b": np.ones(1, "float64")}, tmp_path / "w.safetensors"
    )
    assert all(
        a.flags.aligned for a in tk.weights.load(tmp_path / "w.safetensors", mapped=True).values()
    )


def flip(path, at=-1):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_a_changed_value_is_noticed_unless_asked_not_to(tmp_path):
    path = tmp_path / "w.safetensors"
    tk.weights.save({"a": np.ones(3, "float32")}, path)
    flip(path)
    with pytest.raises(CheckpointError, match=r"SHA-256 .* verify=False"):
        tk.weights.load(path)
    assert tk.weights.load(path, verify=False)["a"].shape == (3,)


@pytest.fixture
def shards(tmp_path):
    tk.weights.save({"a": np.ones(3, "float32"), "b": np.zeros(3, "float32")},
                    tmp_path / "w.safetensors", max_shard_size=12)  # fmt: skip
    return tmp_path / "w.safetensors.index.json"


def rewritten(index, change):
    content = json.loads(index.read_text())
    change(content)
    index.write_text(json.dumps(content))


SECOND = "w-00002-of-00002.safetensors"


def test_the_names_of_shards_are_those_of_others(shards, tmp_path):
    content = json.loads(shards.read_text())
    assert content["weight_map"] == {"a": "w-00001-of-00002.safetensors", "b": SECOND}
    assert content["metadata"]["total_size"] == 24


def test_shards_of_two_saves_are_noticed(shards, tmp_path):
    tk.weights.save({"b": np.ones(3, "float32")}, tmp_path / SECOND)
    with pytest.raises(CheckpointError, match="is of another save than"):
        tk.weights.load(shards)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["weight_map"].update(b="../w.safetensors"), "no name of a file beside it"),
        (lambda c: c["weight_map"].update(b="/etc/passwd"), "no name of a file beside it"),
        (lambda c: c["weight_map"].update(b="C:w.safetensors"), "no name of a file beside it"),
        (lambda c: c["weight_map"].update(b="w.safetensors.index.json"), "no name of a file"),
        (lambda c: c["weight_map"].update(b=3), "no name of a file beside it"),
        (lambda c: c["weight_map"].update(c=SECOND), "'c' is in w-00002.*does not have it"),
        (lambda c: c["weight_map"].pop("a") and c["weight_map"].update(b=SECOND, a=SECOND),
         "'a' is in w-00002.*does not have it"),
        (lambda c: c.update(weight_map={}), "weight_map is empty"),
        (lambda c: c.update(metadata=[]), "metadata is no table"),
        (lambda c: c.pop("weight_map"), "no index of weights: 'weight_map'"),
    ],
)  # fmt: skip
def test_a_forged_index_is_refused(shards, change, message):
    rewritten(shards, change)
    with pytest.raises(CheckpointError, match=message):
        tk.weights.load(shards)


def test_the_size_of_an_index_is_bounded(shards, monkeypatch):
    monkeypatch.setattr(weight_files, "MOST_SHARDS", 1)
    with pytest.raises(CheckpointError, match="names more than 1 files"):
        tk.weights.load(shards)
    monkeypatch.setattr(weight_files, "LARGEST_INDEX", 10)
    with pytest.raises(CheckpointError, match="is refused: it has"):
        tk.weights.load(shards)


def test_names_of_layers_that_are_not_there_are_refused(tmp_path):
    arguments = {"layout": "torch", "names": {"fc": "layers/7"}}
    with pytest.raises(InvalidArgumentError, match=r"'fc': 'layers/7', and there is no such layer"):
        tk.weights.save(small_model(), tmp_path / "w.npz", **arguments)
    model = tk.Sequential([tk.Input((3,)), tk.layers.Dense(2), tk.layers.Dense(2)])
    with pytest.raises(InvalidArgumentError, match=r"two layers have the name 'fc\.weight'"):
        tk.weights.save(model, tmp_path / "w.npz", layout="torch", names={"fc": "layers/*"})
    with pytest.raises(InvalidArgumentError, match=r"\.weights\.h5 has Keras's layout"):
        tk.weights.save(model, tmp_path / "w.weights.h5", layout="torch")
    assert not any(tmp_path.iterdir())


def test_a_missing_shard_is_named(shards, tmp_path):
    (tmp_path / SECOND).unlink()
    with pytest.raises(NotFoundError, match=SECOND):
        tk.weights.load(shards)


def test_an_array_of_a_shard_that_the_index_does_not_know(shards, tmp_path):
    tk.weights.save({"b": np.ones(3), "c": np.ones(3)}, tmp_path / SECOND)
    with pytest.raises(CheckpointError, match=r"has 'c', which .* does not know of"):
        tk.weights.load(shards)


def test_shards_of_torch_have_an_index_too(tmp_path):
    write_state(tmp_path / "pytorch_model-00001-of-00001.bin", {"a": np.ones(2, "float32")})
    index = {"weight_map": {"a": "pytorch_model-00001-of-00001.bin"}}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    with tk.weights.open(tmp_path) as table:
        assert table.format == "torch"
        assert table["a"].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"a": {"dtype": "F4", "shape": [1], "data_offsets": [0, 1]}}, "no dtype 'F4', only"),
        ({"__metadata__": {"a": 1}}, "no table of texts"),
        ({"__metadata__": []}, "no table of texts"),
        ({"a": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 4]}}, "does not take 4"),
    ],
)
def test_a_forged_header_is_refused(tmp_path, header, message):
    text = json.dumps(header).encode()
    (tmp_path / "a.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(4))
    with pytest.raises(CheckpointError, match=message):
        tk.weights.load(tmp_path / "a.safetensors")


def small_model():
    return tk.Sequential([tk.Input((3,)), tk.layers.Dense(2, name="head")])


def test_a_model_is_written_by_its_paths_and_read_by_them(tmp_path):
    model, other = small_model(), small_model()
    path = tmp_path / "w.safetensors"
    tk.weights.save(model, path)
    assert list(tk.weights.load(path)) == ["layers/1/kernel", "layers/1/bias"]
    report = tk.weights.load_into(other, path)
    assert {t.reason for t in report.transfers} == {"the same name"}
    np.testing.assert_array_equal(other.layers[0].kernel, model.layers[0].kernel)
    model.load_weights(str(path))


@pytest.mark.parametrize("ending", ["npz", "weights.h5", "keras"])
def test_other_formats_are_sources_and_targets(tmp_path, ending):
    model, other = small_model(), small_model()
    path = tmp_path / f"w.{ending}"
    if ending == "keras":
        model.save(path)
    else:
        tk.weights.save(model, path)
    assert {a.shape for a in tk.weights.load(path).values()} == {(3, 2), (2,)}
    report = tk.weights.load_into(other, path)
    assert len(report) == 2
    np.testing.assert_array_equal(other.layers[0].kernel, model.layers[0].kernel)


def test_npz_has_no_float8(tmp_path):
    with pytest.raises(UnimplementedError, match=r"'small': \.npz has no dtype for float8_e4m3fn"):
        tk.weights.save({"small": ARRAYS["small"]}, tmp_path / "w.npz")


BAD_SAVES = {
    "ending": ("w.bin", {}, "must end in .safetensors, .npz.*PyTorch reads .safetensors"),
    "layout": ("w.safetensors", {"layout": "flax"}, "layout must be None or 'torch', got 'flax'"),
    "layout of arrays": ("w.safetensors", {"layout": "torch"}, "is for models and layers"),
    "names": ("w.safetensors", {"names": {}}, "go with layout='torch'"),
    "shards of npz": ("w.npz", {"max_shard_size": 3}, "are for .safetensors"),
    "no size": ("w.safetensors", {"max_shard_size": "5 apples"}, "such as '5GB', got '5 apples'"),
    "metadata": ("w.safetensors", {"metadata": {"a": 1}}, "metadata= is a dict of texts"),
    "a checksum": ("w.safetensors", {"metadata": {"sha256": "0"}}, "gets from its values"),
    "size 0": ("w.safetensors", {"max_shard_size": 0}, "number of bytes"),
}


@pytest.mark.parametrize("case", BAD_SAVES)
def test_arguments_of_save_are_checked(tmp_path, case):
    base, arguments, message = BAD_SAVES[case]
    with pytest.raises(InvalidArgumentError, match=message):
        tk.weights.save({"a": np.ones(2)}, tmp_path / base, **arguments)
    assert not any(tmp_path.iterdir())


def test_what_is_no_array_is_refused(tmp_path):
    for arrays, message in (
        ({"a": "text"}, "'a' is no array of numbers, got str"),
        ({3: np.ones(2)}, "3 is no name"),
        ({"__metadata__": np.ones(2)}, "is no name"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            tk.weights.save(arrays, tmp_path / "w.safetensors")
    with pytest.raises(InvalidArgumentError, match="source must be a model"):
        tk.weights.save([np.ones(2)], tmp_path / "w.safetensors")
    with pytest.raises(NotBuiltError, match="has no weights yet"):
        tk.weights.save(tk.Sequential([tk.layers.Dense(2)]), tmp_path / "w.safetensors")


def test_tensors_and_variables_are_written(tmp_path):
    tk.weights.save({"t": tk.ones((2,)), "v": tk.Variable([3.0])}, tmp_path / "w.npz")
    loaded = tk.weights.load(tmp_path / "w.npz")
    assert loaded["t"].tolist() == [1, 1]
    assert loaded["v"].tolist() == [3]


def test_a_failed_save_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "w.safetensors"
    tk.weights.save({"a": np.ones(2)}, path)
    before = path.read_bytes()
    with pytest.raises(UnimplementedError, match="'b': safetensors has no dtype for complex128"):
        tk.weights.save({"a": np.zeros(2), "b": np.ones(2, complex)}, path)
    with pytest.raises(UnimplementedError):
        tk.weights.save({"a": np.zeros(2), "b": np.ones(2, complex)}, path, max_shard_size=8)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["w.safetensors"]


def test_shards_appear_together(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(AtomicFile, "commit", lambda self: written.append(self.path.name))
    tk.weights.save(
        {"a": np.ones(2), "b": np.ones(2)}, tmp_path / "w.safetensors", max_shard_size=16
    )
    assert written[-1] == "w.safetensors.index.json"
    assert len(written) == 3


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("m.gguf", "GGUF file.*safetensors"),
        ("__0_0.distcp", "dcp_to_torch_save"),
        ("m.onnx", r"tk\.onnx\.load"),
        ("m.tflite", "TensorFlow Lite"),
        ("m.pb", r"model\.save_weights"),
        ("m.pkl", "runs code"),
        ("m.ckpt.index", r"checkpoint of TensorFlow.*save_weights\('model\.weights\.h5'\)"),
        ("m.ckpt.data-00000-of-00001", "checkpoint of TensorFlow"),
    ],
)
def test_formats_that_are_not_read_say_what_to_do(tmp_path, base, message):
    (tmp_path / base).write_bytes(b"GGUF" + bytes(20))
    with pytest.raises(UnimplementedError, match=message):
        tk.weights.load(tmp_path / base)
    if base == "m.ckpt.index":
        with pytest.raises(UnimplementedError, match=message):
            tk.weights.load(tmp_path / "m.ckpt")


@pytest.mark.parametrize(
    ("entry", "error", "message"),
    [
        ("__0_0.distcp", UnimplementedError, "dcp_to_torch_save"),
        ("_CHECKPOINT_METADATA", UnimplementedError, "checkpoint of Orbax"),
        ("saved_model.pb", UnimplementedError, "checkpoint of TensorFlow"),
        ("m.gguf", UnimplementedError, "GGUF"),
        ("notes.txt", NotFoundError, r"no weights; looked for model\.safetensors"),
    ],
)
def test_folders_without_weights_say_what_they_are(tmp_path, entry, error, message):
    (tmp_path / entry).touch()
    with pytest.raises(error, match=message):
        tk.weights.load(tmp_path)


@pytest.mark.parametrize("ending", ["npz", "weights.h5"])
def test_formats_that_are_packed_are_not_mapped(tmp_path, ending):
    tk.weights.save(small_model(), tmp_path / f"w.{ending}")
    with pytest.raises(InvalidArgumentError, match="mapped=True is for files of torch"):
        tk.weights.load(tmp_path / f"w.{ending}", mapped=True)


def test_a_part_is_of_files_of_torch_alone(tmp_path):
    tk.weights.save({"a": np.ones(2)}, tmp_path / "w.safetensors")
    with pytest.raises(InvalidArgumentError, match=r"part='model' is for files of torch\.save"):
        tk.weights.load(tmp_path / "w.safetensors", part="model")


@pytest.mark.parametrize("argument", ["names", "flattened", "partial"])
def test_files_of_keras_say_themselves_what_is_what(tmp_path, argument):
    arguments = {"names": {}, "flattened": {}, "partial": True}
    model = small_model()
    tk.weights.save(model, tmp_path / "w.weights.h5")
    with pytest.raises(InvalidArgumentError, match=f"{argument}= is for weights of PyTorch"):
        tk.weights.load_into(model, tmp_path / "w.weights.h5", **{argument: arguments[argument]})


@pytest.mark.parametrize("ending", ["safetensors", "npz", "pt", "safetensors.index.json"])
def test_a_closed_table_is_not_read(tmp_path, ending, monkeypatch):
    path = tmp_path / f"w.{ending}"
    if ending == "pt":
        write_state(path, {"a": np.ones(2, "float32")})
    else:
        size = 8 if "index" in ending else None
        arrays = {"a": np.ones(2, "float32"), "b": np.ones(2, "float32")}
        tk.weights.save(arrays, str(path).removesuffix(".index.json"), max_shard_size=size)
    table = tk.weights.open(path)
    table.close()
    table.close()
    for use in (lambda: table["a"], table.arrays, table.verify):
        with pytest.raises(FailedPreconditionError, match="is closed; read in the `with` block"):
            use()


def test_load_weights_names_the_function_for_files_of_torch(tmp_path):
    write_state(tmp_path / "w.pt", {"a": np.ones(2, "float32")})
    with pytest.raises(InvalidArgumentError, match=r"torch\.save.*tk\.weights\.load_into"):
        small_model().load_weights(tmp_path / "w.pt")


def test_a_table_is_written_and_taken_like_arrays(tmp_path):
    model = small_model()
    state = {"fc.weight": np.ones((2, 3), "float32"), "fc.bias": np.ones(2, "float32")}
    write_state(tmp_path / "w.pt", state)
    with tk.weights.open(tmp_path / "w.pt") as table:
        tk.weights.save(table, tmp_path / "w.safetensors")
        tk.weights.load_into(model, table)
    assert model(np.ones((1, 3))).numpy().tolist() == [[4, 4]]
    assert_same(tk.weights.load(tmp_path / "w.safetensors"), state)
