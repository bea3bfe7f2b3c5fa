"""Files have the order of weights, slots and names that Keras's classes read."""

import copy
import json
import pickle

import h5py
import numpy as np
import pytest

import trainkit as tk
from trainkit import keras
from trainkit.checkpoints.interop.keras_weights import own_variables

L = keras.layers
X = np.linspace(-1, 1, 20, dtype="float32").reshape(4, 5)
Y = np.cos(X[:, :3])


def trained(model, optimizer="adam", x=X, y=Y):
    model.compile(optimizer, loss="mse")
    for _ in range(2):
        model.train_on_batch(x, y)
    return model


def check_goes_on(model, path, x=X, y=Y):
    """A model that was read gives and trains what the one that was written does."""
    model.save(path)
    again = keras.saving.load_model(path)
    for _ in range(2):
        np.testing.assert_array_equal(again(x), model(x))
        model.train_on_batch(x, y)
        again.train_on_batch(x, y)
    for one, other in zip(again.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "copied", [lambda x: x, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_a_weight_frozen_by_itself_keeps_its_number(copied):
    layer = L.Dense(4)
    layer.build((None, 4))
    layer.kernel.trainable = False
    layer = copied(layer)
    assert [w.name for w in layer.weights] == ["kernel", "bias"]
    assert [w.name for w in own_variables(layer)] == ["kernel", "bias"]
    assert [w.name for w in layer.trainable_weights] == ["bias"]
    layer.trainable = False
    layer = copied(layer)
    assert layer.trainable_weights == []
    layer.trainable = True
    assert [w.name for w in layer.trainable_weights] == ["bias"]


def test_a_model_with_weights_frozen_by_themselves_goes_on(tmp_path):
    attention = L.MultiHeadAttention(2, 2)
    model = keras.Sequential([L.Input((5,)), L.Dense(4), L.BatchNormalization(), L.Reshape((2, 2))])
    x = model.output
    model = keras.Model(model.inputs, L.Dense(3)(L.Flatten()(attention(x, x))))
    frozen = [model.layers[1].kernel, model.layers[2].gamma, attention.key_dense.bias]
    for weight in frozen:
        weight.trainable = False
    check_goes_on(trained(model), tmp_path / "m.keras")
    again = keras.saving.load_model(tmp_path / "m.keras")
    assert [w.trainable for w in again.weights] == [w.trainable for w in model.weights]
    assert sum(w.trainable for w in again.weights) == len(model.weights) - 2 - len(frozen)


def test_gamma_and_beta_keep_their_places_in_old_files(tmp_path):
    model = keras.Sequential([L.Input((5,)), L.BatchNormalization()])
    model.layers[0].gamma.trainable = False
    trained(model, "sgd", X, X * 2 + 1).save(tmp_path / "m.h5", include_optimizer=False)
    again = keras.saving.load_model(tmp_path / "m.h5", compile=False)
    np.testing.assert_array_equal(again(X), model(X))


@pytest.mark.parametrize("settings", [{"use_ema": True}, {"gradient_accumulation_steps": 3}])
def test_factored_slots_stand_behind_what_all_optimizers_have(tmp_path, settings):
    model = keras.Sequential([L.Input((5,)), L.Dense(4), L.Dense(3)])
    optimizer = keras.optimizers.Adafactor(0.01, **settings)
    trained(model, optimizer).save_weights(tmp_path / "m.weights.h5")
    with h5py.File(tmp_path / "m.weights.h5") as file:
        values = [file[f"optimizer/vars/{number}"][()] for number in range(2, 6)]
    name = "average" if "use_ema" in settings else "accumulated_gradient"
    slots = [slot.numpy() for key, _, slot in optimizer.slot_variables() if key == name]
    for value, slot in zip(values, slots, strict=True):
        np.testing.assert_array_equal(value, slot)
    check_goes_on(model, tmp_path / "m.keras")


@pytest.mark.parametrize("ending", ["keras", "h5"])
def test_scales_of_float8_stand_in_front_however_the_layer_got_them(tmp_path, ending, capsys):
    model = keras.Sequential([L.Input((5,)), L.Dense(4, "relu"), L.Dense(3)])
    model.quantize("float8")
    built = L.Dense(4, dtype="float8_from_float32")
    built.build((None, 5))
    assert [w.name for w in model.layers[0].weights] == [w.name for w in built.weights]
    check_goes_on(trained(model), tmp_path / f"m.{ending}")


def test_old_files_keep_the_optimizer_where_keras_does_not_break_on_it(tmp_path):
    x = L.Input((2, 4))
    y = L.Identity()(L.GroupQueryAttention(2, 2, 1)(x, x))
    values = tk.random.normal((3, 2, 4))
    model = trained(keras.Model(x, y), "adam", values, values)
    model.save(tmp_path / "m.h5")
    with h5py.File(tmp_path / "m.h5") as file:
        assert set(file) == {"model_weights", "optimizer_state"}
        config = json.loads(file.attrs["model_config"])
    classes = [layer["class_name"] for layer in config["config"]["layers"]]
    assert classes == ["InputLayer", "GroupedQueryAttention", "Identity"]
    check_goes_on(model, tmp_path / "again.h5", values, values)


@pytest.mark.parametrize(("name", "count"), [("Nadam", 14), ("Adafactor", 14), ("Adam", 14)])
def test_an_optimizer_with_a_loss_scale_has_as_many_values_as_keras_has(tmp_path, name, count):
    """Keras leaves out what such an optimizer holds outside of slots, and takes all or nothing."""
    model = keras.Sequential([L.Input((5,)), L.Dense(4), L.Dense(3)])
    inner = getattr(keras.optimizers, name)(0.01)
    trained(model, keras.optimizers.LossScaleOptimizer(inner))
    model.save_weights(tmp_path / "m.weights.h5")
    with h5py.File(tmp_path / "m.weights.h5") as file:
        sizes = [len(file[f"optimizer/{part}"]) for part in ("vars", "inner_optimizer/vars")]
    assert sizes == [count, count - 4]
    check_goes_on(model, tmp_path / "m.keras")


@pytest.mark.parametrize("ending", ["weights.h5", "h5"])
def test_bfloat16_stands_as_float32_which_keras_does_not_take_for_integers(tmp_path, ending):
    model, other = (
        keras.Sequential([L.Input((5,)), L.Dense(3, dtype="bfloat16")]) for _ in range(2)
    )
    path = f"{tmp_path}/m.{ending}"
    model.save(path) if ending == "h5" else model.save_weights(path)
    dtypes = set()
    with h5py.File(path) as file:
        file.visititems(lambda _, item: dtypes.add(str(getattr(item, "dtype", "float32"))))
    assert dtypes == {"float32"}
    other.load_weights(path)
    for one, again in zip(model.get_weights(), other.get_weights(), strict=True):
        assert one.dtype == again.dtype == "bfloat16"
        np.testing.assert_array_equal(one, again)


def test_operations_of_old_files_may_have_a_dtype():
    """Keras's HDF5 files leave out the module; nearly all layers say whether they are trainable."""
    symbol = {"class_name": "__keras_tensor__", "config": {"keras_history": ["a", 0, 0]}}

    def described(kind, name, *args, **settings):
        nodes = [{"args": list(args), "kwargs": {}}] if args else []
        config = {"name": name, **settings}
        return {"class_name": kind, "name": name, "config": config, "inbound_nodes": nodes}

    layers = [
        described("InputLayer", "a", batch_shape=[None, 3], dtype="float32"),
        described("Cumsum", "b", symbol, axis=1, dtype=None),
        described("Discretization", "c", symbol, bin_boundaries=[0.0], dtype="float32"),
    ]
    ends = {"input_layers": [["a", 0, 0]], "output_layers": [["b", 0, 0], ["c", 0, 0]]}
    config = {"name": "m", "layers": layers, **ends}
    model = keras.models.model_from_config({"class_name": "Functional", "config": config})
    cumulated, bins = model(np.float32([[-1, 2, 3]]))
    np.testing.assert_array_equal(cumulated, [[-1, 1, 4]])
    np.testing.assert_array_equal(bins, [[0, 1, 1]])


def test_a_loss_scale_that_a_config_does_not_tell_is_in_the_file(tmp_path):
    """Keras puts it around the optimizer of a model made under mixed_float16."""
    model = keras.Sequential([L.Input((5,)), L.Dense(3)])
    trained(model, keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01)))
    config = model.get_compile_config()
    plain = {**config, "optimizer": config["optimizer"]["config"]["inner_optimizer"]}
    model.get_compile_config = lambda: plain
    check_goes_on(model, tmp_path / "m.keras")


@pytest.mark.parametrize("numbers", [[2], [-1], ["0"], [True], [0.0], 0, None, "0"])
def test_frozen_weights_that_are_none_of_the_layer_are_refused(numbers):
    layer = keras.layers.Dense(2)
    with pytest.raises(ValueError, match="frozen_weights must list numbers below 2"):
        layer.build_from_config({"input_shape": (None, 3), "frozen_weights": numbers})
    assert [weight.trainable for weight in layer.weights] == [True, True]


@pytest.mark.parametrize("ending", ["keras", "h5"])
def test_weights_that_are_frozen_by_themselves_stay_so_and_training_goes_on(ending, tmp_path):
    x = keras.Input((6, 5))
    recurrent, dense = keras.layers.LSTM(3), keras.layers.Dense(2)
    model = keras.Model(x, dense(recurrent(x)))
    recurrent.cell.kernel.trainable = dense.bias.trainable = False
    model.compile(keras.optimizers.Adam(0.1), "mse")
    batch = np.ones((3, 6, 5), "float32"), np.ones((3, 2), "float32")
    model.train_on_batch(*batch)
    path = str(tmp_path / f"m.{ending}")
    model.save(path)
    again = keras.saving.load_model(path)
    assert [v.trainable for v in again.weights] == [False, True, True, True, False]
    assert int(again.optimizer.iterations) == 1
    for _ in range(3):
        model.train_on_batch(*batch)
        again.train_on_batch(*batch)
    for a, b in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
