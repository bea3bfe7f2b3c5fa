import json
import zipfile

import h5py
import ml_dtypes
import numpy as np
import pytest

from trainkit import layers, optimizers
from trainkit.checkpoints.interop.keras_weights import layout, snake_case
from trainkit.checkpoints.restore.restoration import IncompleteRestoreWarning
from trainkit.checkpoints.weights import load_weights, save_weights
from trainkit.core.errors import (
    CheckpointError,
    CheckpointMismatchError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
)

ENDINGS = ["m.weights.h5", "m.safetensors", "m.npz", "m"]


class Sequential(layers.Layer):
    """As much of a model as files of weights need."""

    def __init__(self, *parts, optimizer=None):
        super().__init__()
        self._parts_in_order = list(parts)
        if optimizer is not None:
            self.optimizer = optimizer

    @property
    def layers(self):
        return list(self._parts_in_order)

    def make(self, features):
        """Build all layers for inputs of so many features."""
        for layer in self.layers:
            layer.build((None, features))
            features = getattr(layer, "units", features)
        return self


class Block(layers.Layer):
    def __init__(self, width):
        super().__init__(name="block")
        self.second = layers.Dense(width)
        self._hidden = layers.Dense(1)
        self.many = [layers.Dense(2), [layers.Dense(3)]]
        self.by_name = {"z": layers.Dense(2), "a": layers.BatchNormalization()}

    def build(self, shape):
        self.scale = self.add_weight("scale", (1,), initializer="ones")
        for layer in (self.second, self._hidden, self.many[0], self.many[1][0]):
            layer.build(shape)
        for layer in self.by_name.values():
            layer.build(shape)

    units = 2


def small_model(fill=None, optimizer=None):
    model = Sequential(
        layers.Dense(3),
        layers.BatchNormalization(),
        layers.Dropout(0.5),
        layers.Dense(2),
        optimizer=optimizer,
    )
    model.make(4)
    for i, weight in enumerate(model.weights):
        if fill is not None:
            weight.assign(np.full(weight.shape, fill + i, np.float32))
    return model


def values(model):
    return [weight.numpy().copy() for weight in model.weights]


def assert_same(model, other):
    for a, b in zip(model.weights, other.weights, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def trained(optimizer, steps=2):
    model = small_model(1.0, optimizer)
    for _ in range(steps):
        grads = [np.ones(w.shape, np.float32) for w in model.trainable_weights]
        optimizer.apply_gradients(zip(grads, model.trainable_weights, strict=True))
    return model


@pytest.mark.parametrize("ending", ENDINGS)
def test_weights_come_back(tmp_path, ending):
    model, other = small_model(1.0), small_model()
    save_weights(model, tmp_path / ending)
    load_weights(other, tmp_path / ending)
    assert_same(model, other)


@pytest.mark.parametrize("ending", ENDINGS)
def test_another_shape_or_missing_weight_is_an_error_and_changes_nothing(tmp_path, ending):
    save_weights(small_model(1.0), tmp_path / ending)
    other = Sequential(layers.Dense(3), layers.BatchNormalization(), layers.Dropout(0.5))
    other.more = layers.Dense(2)
    other.make(5)
    other.more.build((None, 3))
    before = values(other)
    with pytest.raises(CheckpointMismatchError) as caught:
        load_weights(other, tmp_path / ending)
    text = str(caught.value)
    assert "other shape: object (5, 3) float32, file (4, 3) float32" in text
    assert "not in the file" in text or ending == "m"
    for old, new in zip(before, values(other), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_with_more_weights_is_an_error(tmp_path, ending):
    save_weights(small_model(1.0), tmp_path / ending)
    other = Sequential(layers.Dense(3))
    other.make(4)
    with pytest.raises(CheckpointMismatchError, match="in the file only"):
        load_weights(other, tmp_path / ending)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_model_without_weights_is_an_error(tmp_path, ending):
    save_weights(small_model(1.0), tmp_path / ending)
    fresh = Sequential(layers.Dense(3))
    with pytest.raises(FailedPreconditionError, match="no weights yet"):
        load_weights(fresh, tmp_path / ending)
    with pytest.raises(FailedPreconditionError, match="no weights yet"):
        save_weights(fresh, tmp_path / ending)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_layer_that_needs_no_weights_is_saved_and_loaded(tmp_path, ending):
    model = layers.Dropout(0.5)
    model.build((None, 3))
    save_weights(model, tmp_path / ending)
    load_weights(model, tmp_path / ending)
    save_weights(small_model(1.0), tmp_path / ending)
    with pytest.raises(CheckpointMismatchError, match="in the file only"):
        load_weights(model, tmp_path / ending)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_missing_file_is_named(tmp_path, ending):
    with pytest.raises(NotFoundError, match=ending):
        load_weights(small_model(), tmp_path / ending)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_damaged_file_is_an_error(tmp_path, ending):
    path = tmp_path / ending
    save_weights(small_model(1.0), path)
    model = small_model(5.0)
    path.write_bytes(path.read_bytes()[:-9])
    before = values(model)
    with pytest.raises(CheckpointError):
        load_weights(model, path)
    for old, new in zip(before, values(model), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("ending", ["m.weights.h5", "m.npz", "m.safetensors"])
def test_what_fits_may_be_taken_alone(tmp_path, ending):
    save_weights(small_model(1.0), tmp_path / ending)
    other = Sequential(layers.Dense(3), layers.BatchNormalization())
    other.make(9)
    with pytest.warns(IncompleteRestoreWarning, match="other shape"):
        load_weights(other, tmp_path / ending, skip_mismatch=True)
    assert other.weights[1].numpy().tolist() == [2.0] * 3


# ------------------------------------------------------------------ Keras's layout


def test_paths_are_those_of_keras(tmp_path):
    model = Sequential(layers.Dense(3), Block(2), layers.Dense(3))
    model.make(4)
    found = {
        item.path: [v._name for v in item.variables] for item in layout(model) if item.variables
    }
    dense = ["kernel", "bias"]
    assert found == {
        "layers/dense": dense,
        "layers/block": ["scale"],
        "layers/block/by_name/dense": dense,
        "layers/block/by_name/batch_normalization": [
            "gamma",
            "beta",
            "moving_mean",
            "moving_variance",
        ],
        "layers/block/many/dense": dense,
        "layers/block/many/container/dense": dense,
        "layers/block/second": dense,
        "layers/block/_hidden": dense,
        "layers/dense_1": dense,
    }
    save_weights(model, tmp_path / "m.weights.h5")
    with h5py.File(tmp_path / "m.weights.h5") as file:
        assert file["layers/block/second/vars/1"].shape == (2,)
        assert file["layers/block/vars"].attrs["name"] == b"block"


@pytest.mark.parametrize(
    ("name", "snake"),
    [
        ("Dense", "dense"),
        ("MaxPooling2D", "max_pooling2d"),
        ("LSTM", "lstm"),
        ("RMSprop", "rm_sprop"),
    ],
)
def test_class_names_are_spelled_as_in_keras(name, snake):
    assert snake_case(name) == snake


def test_the_optimizer_of_a_compiled_model_is_saved_and_restored(tmp_path):
    adam = optimizers.Adam(0.25)
    model = trained(adam)
    save_weights(model, tmp_path / "m.weights.h5")
    fresh = optimizers.Adam(0.5)
    other = small_model(0.0, fresh)
    load_weights(other, tmp_path / "m.weights.h5")
    assert_same(model, other)
    assert int(fresh.iterations) == 2
    assert float(fresh.learning_rate) == 0.25
    for (name, _, slot), (other_name, _, other_slot) in zip(
        adam.slot_variables(), fresh.slot_variables(), strict=True
    ):
        assert name == other_name
        np.testing.assert_array_equal(slot.numpy(), other_slot.numpy())


def test_the_state_of_another_optimizer_is_an_error(tmp_path):
    save_weights(trained(optimizers.Adam()), tmp_path / "m.weights.h5")
    other = trained(optimizers.SGD(momentum=0.5))
    with pytest.raises(CheckpointMismatchError, match="optimizer"):
        load_weights(other, tmp_path / "m.weights.h5")


def test_a_model_without_an_optimizer_takes_the_weights_alone(tmp_path):
    model = trained(optimizers.Adam())
    save_weights(model, tmp_path / "m.weights.h5")
    other = small_model()
    load_weights(other, tmp_path / "m.weights.h5")
    assert_same(model, other)


def keras_file(path, model, bfloat16=False):
    """A file as Keras writes it, with the values 0, 1, 2 ... of `model`'s variables."""
    with h5py.File(path, "w") as file:
        for number, item in enumerate(item for item in layout(model) if item.name):
            group = file.create_group(f"{item.path}/vars".lstrip("/"))
            group.attrs["name"] = item.name
            for i, variable in enumerate(item.variables):
                value = np.full(variable.shape, number, np.float32)
                if bfloat16:
                    group.create_dataset(str(i), data=value.astype(ml_dtypes.bfloat16))
                    group[str(i)].attrs["dtype"] = "bfloat16"
                else:
                    group[str(i)] = value


def test_a_file_without_a_seal_is_read(tmp_path):
    model = small_model(7.0)
    keras_file(tmp_path / "k.weights.h5", model)
    load_weights(model, tmp_path / "k.weights.h5")
    assert [float(w.numpy().max()) for w in model.weights] == [1, 1, 2, 2, 2, 2, 4, 4]


def test_bfloat16_as_keras_stores_it_is_read(tmp_path):
    layer = layers.Dense(2, dtype="bfloat16")
    layer.build((None, 3))
    keras_file(tmp_path / "k.weights.h5", layer, bfloat16=True)
    load_weights(layer, tmp_path / "k.weights.h5")
    assert layer.kernel.dtype == "bfloat16"
    assert not layer.kernel.numpy().any()


def archive(path, members):
    with zipfile.ZipFile(path, "w") as target:
        for name, data in members:
            target.writestr(name, data)


def test_the_weights_in_a_keras_archive_are_read(tmp_path):
    model = small_model(7.0)
    keras_file(tmp_path / "k.h5", model)
    config = json.dumps({"class_name": "Lambda"})
    archive(
        tmp_path / "m.keras",
        [("config.json", config), ("model.weights.h5", (tmp_path / "k.h5").read_bytes())],
    )
    load_weights(model, tmp_path / "m.keras")
    assert float(model.weights[-1].numpy().max()) == 4.0


@pytest.mark.parametrize(
    "members",
    [[], [("../model.weights.h5", b"x")], [("model.weights.h5", b"not hdf5")]],
    ids=["empty", "path outside", "no HDF5"],
)
def test_an_archive_that_is_none_is_refused(tmp_path, members):
    archive(tmp_path / "m.keras", members)
    with pytest.raises(CheckpointError, match=r"m\.keras"):
        load_weights(small_model(), tmp_path / "m.keras")


def test_an_archive_that_unpacks_to_far_more_than_it_is_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "m.keras", "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr("model.weights.h5", bytes(50_000_000))
    with pytest.raises(CheckpointError, match="would unpack to 50000000,"):
        load_weights(small_model(), tmp_path / "m.keras")


def test_writing_an_archive_is_refused(tmp_path):
    with pytest.raises(InvalidArgumentError, match=r"model\.save"):
        save_weights(small_model(), tmp_path / "m.keras")
