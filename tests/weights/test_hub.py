"""Folders of models as the Hugging Face Hub has them."""

import json
import sys
import types

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.errors import (
    CheckpointError,
    InvalidArgumentError,
    NotFoundError,
    UnimplementedError,
)
from trainkit.weights import hub_folders


@pytest.fixture
def model():
    model = tk.Sequential(
        [
            tk.Input((3,)),
            tk.layers.Dense(4, "relu"),
            tk.layers.BatchNormalization(),
            tk.layers.Dense(2),
        ]
    )
    model.compile("adam", "mse")
    return model


@pytest.mark.parametrize("size", ["5GB", 40])
def test_a_model_comes_back(model, tmp_path, size):
    tk.hub.save(model, tmp_path / "m", max_shard_size=size)
    other = tk.hub.load(tmp_path / "m")
    x = np.ones((2, 3), "float32")
    np.testing.assert_array_equal(other(x), model(x))
    assert "model.safetensors" in " ".join(p.name for p in (tmp_path / "m").iterdir())


def test_the_card_says_how_to_load_and_is_kept(model, tmp_path):
    tk.hub.save(model, tmp_path)
    readme = tmp_path / "README.md"
    assert readme.read_text().startswith("---\nlibrary_name: trainkit\n---\n")
    readme.write_text("mine")
    tk.hub.save(model, tmp_path)
    assert readme.read_text() == "mine"
    tk.hub.save(model, tmp_path, card="new")
    assert readme.read_text() == "new"


def test_a_folder_of_keras_is_read(model, tmp_path):
    model.save(tmp_path / "k", zipped=False)
    x = np.ones((2, 3), "float32")
    np.testing.assert_array_equal(tk.hub.load(tmp_path / "k")(x), model(x))


def test_a_model_of_another_library_says_how_to_take_its_weights(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["BertModel"]}))
    with pytest.raises(UnimplementedError, match=r"\(\['BertModel'\]\).*tk\.weights\.load_into"):
        tk.hub.load(tmp_path)


@pytest.mark.parametrize("text", ["[]", "{", "[" * 100_000])
def test_a_damaged_config_is_refused(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(CheckpointError, match="is damaged or no config"):
        tk.hub.load(tmp_path)


def test_the_size_of_a_config_is_bounded(model, tmp_path, monkeypatch):
    tk.hub.save(model, tmp_path)
    monkeypatch.setattr(hub_folders, "LARGEST_CONFIG", 100)
    with pytest.raises(CheckpointError, match="is refused: it has"):
        tk.hub.load(tmp_path)
    with pytest.raises(InvalidArgumentError, match="and 100 are read again at most"):
        tk.hub.save(model, tmp_path)


def test_what_is_missing_is_named(tmp_path, model):
    with pytest.raises(NotFoundError, match="no folder"):
        tk.hub.load(tmp_path / "none")
    with pytest.raises(NotFoundError, match=r"no config of a model .*config\.json"):
        tk.hub.load(tmp_path)
    tk.hub.save(model, tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(NotFoundError, match="has no weights"):
        tk.hub.load(tmp_path)
    with pytest.raises(InvalidArgumentError, match="model must be a Model"):
        tk.hub.save(tk.layers.Dense(2), tmp_path)


def test_a_config_that_asks_for_far_more_than_the_weights_is_refused(model, tmp_path):
    tk.hub.save(model, tmp_path)
    config = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(config.replace('"units": 4', '"units": 1000000000'))
    with pytest.raises(CheckpointError, match="is refused"):
        tk.hub.load(tmp_path)


def test_a_lambda_in_a_config_is_refused(tmp_path):
    model = tk.Sequential([tk.Input((3,)), tk.layers.Dense(2), tk.layers.Lambda(lambda x: x + 1)])
    tk.hub.save(model, tmp_path)
    with pytest.raises(ValueError, match=r"[Ll]ambda"):
        tk.hub.load(tmp_path)


def test_an_address_needs_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match="pip install huggingface_hub; or download the folder"):
        tk.hub.load("hf://me/name")
    with pytest.raises(ImportError, match="huggingface_hub"):
        tk.weights.load("hf://me/name")
    with pytest.raises(
        InvalidArgumentError, match=r"hf://owner/name@revision, got 'hf://\.\./x/y'"
    ):
        tk.hub.load("hf://../x/y")


def test_an_address_is_downloaded_by_the_package(monkeypatch, tmp_path, model):
    tk.hub.save(model, tmp_path)
    asked = []

    def snapshot_download(name, revision, allow_patterns):
        asked.append((name, revision))
        return str(tmp_path)

    package = types.SimpleNamespace(snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", package)
    assert tk.hub.load("hf://me/name@v1").output_shape == (None, 2)
    assert len(tk.weights.load("hf://me/name")) == len(model.weights)
    assert asked == [("me/name", "v1"), ("me/name", None)]
