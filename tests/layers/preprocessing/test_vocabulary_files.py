"""A vocabulary may be a file of the caller; a config, or a file with one in it, never names one."""

import json
import os
import pathlib
import zipfile

import numpy as np
import pytest

import trainkit as tk
from trainkit import layers
from trainkit.core.config_values import SafeModeScope

WORDS = ["low", "high"]


@pytest.fixture
def words(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("low\nhigh\n")
    return path


def numbers(tmp_path):
    path = tmp_path / "numbers.txt"
    path.write_text("7\n9\n")
    return path


def configs(path):
    return [
        {"class_name": "StringLookup", "config": {"vocabulary": path}},
        {"class_name": "IntegerLookup", "config": {"vocabulary": path}},
        {"class_name": "TextVectorization", "config": {"vocabulary": path}},
        {"class_name": "Sequential", "config": {"name": "s", "layers": [
            {"class_name": "TextVectorization", "config": {"vocabulary": path}}]}},
        {"class_name": "TimeDistributed", "config": {
            "layer": {"class_name": "StringLookup", "config": {"vocabulary": path}}}},
    ]  # fmt: skip


READERS = {
    "deserialize": layers.deserialize,
    "object": tk.utils.deserialize_keras_object,
    "model_from_config": tk.models.model_from_config,
    "json": lambda config: tk.models.model_from_json(json.dumps(config)),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("path", ["/proc/self/environ", "fifo", "words.txt", "file:///etc/passwd"])
def test_a_config_reads_no_file(read, path, words, monkeypatch):
    monkeypatch.chdir(words.parent)
    os.mkfifo("fifo")
    for config in configs(path):
        with pytest.raises(tk.errors.ConfigError, match=r"outside.*safe_mode=False"):
            read(config)


def forged(path, model, vocabulary, sealed):
    """An archive in which the layer's vocabulary is a path; without a seal as Keras writes it."""
    model.save(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    config = members["config.json"].decode()
    assert json.dumps(WORDS) in config
    members["config.json"] = config.replace(json.dumps(WORDS), json.dumps(str(vocabulary))).encode()
    said = json.loads(members["metadata.json"])
    said.pop("members")
    members["metadata.json"] = json.dumps(said).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            if sealed or not name.endswith("weights.h5"):
                archive.writestr(name, content)


@pytest.mark.parametrize("kind", [layers.StringLookup, layers.TextVectorization])
def test_an_archive_reads_no_file(kind, words, tmp_path):
    model = tk.Sequential([tk.Input((), dtype="string"), kind(vocabulary=WORDS)])
    forged(tmp_path / "m.keras", model, words, sealed=True)
    with pytest.raises(tk.errors.ConfigError, match="vocabulary outside"):
        tk.models.load_model(tmp_path / "m.keras")
    again = tk.models.load_model(tmp_path / "m.keras", safe_mode=False)
    assert again.layers[-1].get_vocabulary()[-2:] == WORDS
    forged(tmp_path / "n.keras", model, words, sealed=False)
    with pytest.raises(tk.errors.ConfigError, match="vocabulary outside"):
        tk.models.load_model(tmp_path / "n.keras")


def test_from_config_alone_reads_no_file_either(words):
    for kind in (layers.StringLookup, layers.TextVectorization, layers.IntegerLookup):
        with pytest.raises(tk.errors.ConfigError, match="vocabulary outside"):
            kind.from_config({"vocabulary": str(words)})
    with SafeModeScope(False):
        assert layers.StringLookup.from_config({"vocabulary": str(words)}).vocabulary_size() == 3


def test_a_layer_that_read_its_vocabulary_is_saved_cloned_and_loaded(words, tmp_path):
    layer = layers.StringLookup(vocabulary=str(words))
    model = tk.Sequential([tk.Input((2,), dtype="string"), layer])
    model.save(tmp_path / "m.keras")
    os.unlink(words)
    x = np.array([["low", "x"], ["high", "low"]], object)
    for other in (tk.models.clone_model(model), tk.models.load_model(tmp_path / "m.keras")):
        np.testing.assert_array_equal(other(tk.constant(x)), [[1, 0], [2, 1]])


@pytest.mark.parametrize("kind", [str, pathlib.Path, os.fsencode, "file://{}".format])
def test_the_caller_names_files_as_before(kind, words, tmp_path):
    assert layers.StringLookup(vocabulary=kind(words)).get_vocabulary() == ["[UNK]", *WORDS]
    layer = layers.TextVectorization()
    layer.set_vocabulary(kind(words))
    assert layer.get_vocabulary() == ["", "[UNK]", *WORDS]
    lookup = layers.IntegerLookup(vocabulary=kind(numbers(tmp_path)))
    assert lookup.get_vocabulary() == [-1, 7, 9]


def test_a_file_that_is_no_vocabulary(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "bytes").write_bytes(b"a\xff\n")
    with pytest.raises(tk.errors.InvalidArgumentError, match="no regular file"):
        layers.StringLookup(vocabulary=str(tmp_path / "fifo"))
    with pytest.raises(tk.errors.InvalidArgumentError, match="UTF-8"):
        layers.StringLookup(vocabulary=str(tmp_path / "bytes"))
    with pytest.raises(tk.errors.NotFoundError, match="no vocabulary"):
        layers.StringLookup(vocabulary=str(tmp_path / "nowhere"))
    with pytest.raises(tk.errors.UnimplementedError, match="scheme 'gs'"):
        layers.StringLookup(vocabulary="gs://bucket/words.txt")
    with pytest.raises(ValueError, match="a"):
        layers.IntegerLookup(vocabulary=str(tmp_path / "bytes"))
