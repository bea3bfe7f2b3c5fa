"""Whole models in HDF5 files, the format of Keras 2: written, read, refused."""

import pathlib

import h5py
import numpy as np
import pytest

import trainkit as tk
from trainkit import keras, layers
from trainkit.core.errors import CheckpointError, CheckpointMismatchError, ConfigError

STORED = pathlib.Path(__file__).parent / "stored"


def stack(names=("first", "second")):
    model = tk.Sequential(
        [
            tk.Input((3,)),
            layers.Dense(4, "relu", name=names[0]),
            layers.BatchNormalization(),
            layers.Dense(2, name=names[1]),
        ]
    )
    model.compile("adam", "mse", metrics=["mae"])
    return model


def graph():
    """Shared layers, a model called twice, operations, two inputs and outputs."""
    a, b = tk.Input((3,), name="a"), tk.Input((3,), name="b")
    both = layers.Dense(3, name="both")
    x = tk.Input((3,))
    inner = tk.Model(x, layers.Dense(3)(x), name="inner")
    y = inner(both(a)) + tk.ops.relu(inner(both(b)))
    outputs = {"one": layers.Dense(1, name="one")(y), "two": layers.Dense(2, name="two")(y)}
    model = tk.Model({"a": a, "b": b}, outputs)
    model.compile(
        tk.optimizers.SGD(0.05, momentum=0.9),
        loss={"one": "mse", "two": tk.losses.Huber(0.5)},
        loss_weights={"one": 1.0, "two": 0.5},
        metrics={"one": ["mae"], "two": [tk.metrics.RootMeanSquaredError()]},
    )
    return model


def data(build):
    rng = np.random.default_rng(0)

    def draw(n):
        return rng.normal(size=(8, n)).astype("f4")

    if build is graph:
        return {"a": draw(3), "b": draw(3)}, {"one": draw(1), "two": draw(2)}
    return draw(3), draw(2)


def fit(model, build):
    model.fit(*data(build), epochs=2, batch_size=4, shuffle=False, verbose=0)
    return model


def equal(a, b, x):
    tk.nest.map_structure(np.testing.assert_array_equal, a.predict(x), b.predict(x))


@pytest.mark.parametrize("build", [stack, graph])
@pytest.mark.parametrize("ending", ["h5", "hdf5"])
def test_a_model_goes_on_as_if_never_saved(tmp_path, build, ending):
    path = tmp_path / "deep" / "folder" / f"m.{ending}"
    model = fit(build(), build)
    model.save(path)
    again = tk.models.load_model(path)
    x, y = data(build)
    equal(model, again, x)
    assert again.evaluate(x, y, return_dict=True) == model.evaluate(x, y, return_dict=True)
    fit(model, build), fit(again, build)
    equal(model, again, x)
    again.save(path)
    equal(again, tk.models.load_model(path), x)


def test_a_stored_file_of_keras_2():
    stored = np.load(STORED / "keras2.npz")
    x, y, wanted = ({n: stored[f"{k}_{n}"] for n in names} for k, names in KINDS)
    model = tk.models.load_model(STORED / "keras2.h5")
    found = model.predict(x)
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, 1e-4, 1e-5)
    results = model.evaluate(x, y, return_dict=True)
    for name in RESULTS:
        np.testing.assert_allclose(results[name], stored[f"e_{name}"], 1e-4)
    assert int(model.optimizer.iterations) == 4
    assert all(np.any(slot.numpy()) for _, _, slot in model.optimizer.slot_variables())
    again = tk.models.model_from_json(str(stored["config"]))
    again.load_weights(STORED / "keras2.h5")
    np.testing.assert_array_equal(again.predict(x)["one"], found["one"])


KINDS = [("x", "ab"), ("y", ("one", "two")), ("p", ("one", "two"))]
RESULTS = ("loss", "one_loss", "two_loss", "one_mae", "two_root_mean_squared_error")


def test_a_model_that_was_never_trained_or_compiled(tmp_path):
    model = stack()
    model.save(tmp_path / "m.h5")
    assert int(tk.models.load_model(tmp_path / "m.h5").optimizer.iterations) == 0
    bare = tk.Sequential([tk.Input((3,)), layers.Dense(2)])
    bare.save(tmp_path / "m.h5")
    with pytest.warns(UserWarning, match="call compile"):
        again = tk.models.load_model(tmp_path / "m.h5")
    assert not again.compiled
    equal(bare, again, data(stack)[0])


def test_the_optimizer_may_stay_behind(tmp_path):
    fit(model := stack(), stack).save(tmp_path / "m.h5", include_optimizer=False)
    with h5py.File(tmp_path / "m.h5") as file:
        assert "training_config" not in file.attrs
        assert "optimizer_weights" not in file
    again = keras.models.load_model(tmp_path / "m.h5", compile=False)
    assert not again.compiled
    equal(model, again, data(stack)[0])
    model.save(tmp_path / "m.h5")
    assert not keras.models.load_model(tmp_path / "m.h5", compile=False).compiled


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "mixed_float16"])
def test_dtypes(tmp_path, dtype):
    model = tk.Sequential([tk.Input((3,)), layers.Dense(2, dtype=dtype)])
    model.save(tmp_path / "m.h5")
    again = tk.models.load_model(tmp_path / "m.h5", compile=False)
    assert again.layers[0].dtype_policy.name == dtype
    for a, b in zip(model.weights, again.weights, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a.numpy(), b.numpy())


class Scaled(layers.Layer):
    def __init__(self, factor, **kwargs):
        super().__init__(**kwargs)
        self.factor = factor

    def build(self, shape):
        self.shift = self.add_weight(shape=(shape[-1],), name="shift", initializer="ones")
        self.fixed = self.add_weight(shape=(), name="fixed", trainable=False)

    def call(self, x):
        return x * self.factor + self.shift + self.fixed

    def get_config(self):
        return {**super().get_config(), "factor": self.factor}


def off_by(y_true, y_pred):
    return tk.ops.mean(tk.ops.abs(y_true - y_pred), axis=-1)


def test_custom_objects(tmp_path):
    model = tk.Sequential([tk.Input((3,)), Scaled(2.0), layers.Dense(2)])
    model.compile("sgd", loss=off_by, metrics=[off_by])
    model.save(tmp_path / "m.h5")
    with pytest.raises(ConfigError, match="'Scaled'"):
        tk.models.load_model(tmp_path / "m.h5")
    again = tk.models.load_model(tmp_path / "m.h5", {"Scaled": Scaled, "off_by": off_by})
    assert again.loss is off_by
    equal(model, again, data(stack)[0])
    with keras.saving.custom_object_scope({"Scaled": Scaled, "off_by": off_by}):
        equal(model, tk.models.load_model(tmp_path / "m.h5"), data(stack)[0])


def test_registered_classes(tmp_path):
    kind = keras.saving.register_keras_serializable("h5_tests")(
        type("Doubled", (Scaled,), {"__module__": __name__})
    )
    model = tk.Sequential([tk.Input((3,)), kind(2.0)])
    model.save(tmp_path / "m.h5")
    again = tk.models.load_model(tmp_path / "m.h5", compile=False)
    assert type(again.layers[0]) is kind


class Mine(tk.Model):
    def __init__(self, units=2, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.dense = layers.Dense(units)
        self.shift = self.add_weight(shape=(1,), name="shift", initializer="ones")

    def call(self, x):
        return self.dense(x) + self.shift


class Nameless(Mine):
    def __init__(self, something, **kwargs):
        super().__init__(**kwargs)
        self.something = something


def test_a_subclass(tmp_path):
    model = Mine()
    x = data(stack)[0]
    model(x)
    model.save(tmp_path / "m.h5")
    equal(model, tk.models.load_model(tmp_path / "m.h5", {"Mine": Mine}, compile=False), x)
    other = Mine()
    other(x)
    other.load_weights(tmp_path / "m.h5")
    equal(model, other, x)


def test_a_subclass_without_a_config_is_refused_in_words(tmp_path):
    model = Nameless(object())
    model(data(stack)[0])
    with pytest.raises(NotImplementedError, match=r"Nameless.*save_weights"):
        model.save(tmp_path / "m.h5")
    assert not list(tmp_path.iterdir())


def test_a_save_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "m.h5"
    stack().save(path)
    before = path.read_bytes()
    with pytest.raises(FileExistsError):
        stack().save(path, overwrite=False)

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        stack().save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.h5"]


def test_names_and_configs_beyond_64_kib(tmp_path):
    names = [f"{'n' * 200}{number}" for number in range(400)]
    model = tk.Sequential([tk.Input((1,)), *(layers.Dense(1, name=name) for name in names)])
    model.save(tmp_path / "m.h5")
    with h5py.File(tmp_path / "m.h5") as file:
        assert len(file.attrs["model_config"]) > 1 << 16
        assert {"layer_names0", "layer_names1"} <= set(file["model_weights"].attrs)
    again = tk.models.load_model(tmp_path / "m.h5", compile=False)
    assert [layer.name for layer in again.layers] == names


def test_a_lambda_written_here(tmp_path):
    model = tk.Sequential([tk.Input((3,)), layers.Lambda(lambda x: x * 3)])
    model.save(tmp_path / "m.h5")
    with pytest.raises(ValueError, match="arbitrary code"):
        tk.models.load_model(tmp_path / "m.h5", compile=False)
    again = tk.models.load_model(tmp_path / "m.h5", compile=False, safe_mode=False)
    equal(model, again, data(stack)[0])


def test_a_sealed_file_notices_damage(tmp_path):
    fit(stack(), stack).save(tmp_path / "m.h5")
    content = bytearray((tmp_path / "m.h5").read_bytes())
    content[len(content) // 2] ^= 255
    (tmp_path / "m.h5").write_bytes(content)
    with pytest.raises(CheckpointError, match="damaged"):
        tk.models.load_model(tmp_path / "m.h5")


# ---------------------------------------------------------------------- weights alone


def test_by_name(tmp_path):
    source = stack()
    source.save(tmp_path / "m.h5")
    model = stack(("second_not", "second"))
    before = [w.numpy() for w in model.layers[0].weights]
    model.load_weights(tmp_path / "m.h5", by_name=True)
    for w, b in zip(model.layers[0].weights, before, strict=True):
        np.testing.assert_array_equal(w.numpy(), b)
    np.testing.assert_array_equal(model.layers[2].kernel.numpy(), source.layers[2].kernel.numpy())


def test_the_order_counts_and_not_the_names(tmp_path):
    def square(names):
        return tk.Sequential([tk.Input((3,)), *(layers.Dense(3, name=name) for name in names)])

    source = square("pq")
    source.save(tmp_path / "m.h5")
    model = square("qp")
    model.load_weights(tmp_path / "m.h5")
    equal(source, model, data(stack)[0])
    model.load_weights(tmp_path / "m.h5", by_name=True)
    np.testing.assert_array_equal(model.layers[0].kernel.numpy(), source.layers[1].kernel.numpy())


def test_what_does_not_fit(tmp_path):
    stack().save(tmp_path / "m.h5")
    model = tk.Sequential([tk.Input((3,)), layers.Dense(4), layers.Dense(2)])
    before = model.get_weights()
    with pytest.raises(CheckpointMismatchError, match="2 layers with weights"):
        model.load_weights(tmp_path / "m.h5")
    wide = tk.Sequential(
        [tk.Input((3,)), layers.Dense(4), layers.BatchNormalization(), layers.Dense(5)]
    )
    kept = wide.layers[2].kernel.numpy()
    with pytest.raises(CheckpointMismatchError, match=r"(?s)\(4, 5\).*\(4, 2\)"):
        wide.load_weights(tmp_path / "m.h5")
    with pytest.warns(UserWarning, match="other shape"):
        wide.load_weights(tmp_path / "m.h5", skip_mismatch=True)
    np.testing.assert_array_equal(wide.layers[2].kernel.numpy(), kept)
    assert np.any(wide.layers[0].kernel.numpy() != 0)
    for a, b in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("m.keras", {"by_name": True}),
        ("m.weights.h5", {"by_name": True}),
        ("m.h5", {"objects_to_skip": [layers.Dense(1)]}),
    ],
)
def test_arguments_that_do_not_go_with_the_file(tmp_path, name, arguments):
    model = stack()
    (model.save_weights if name == "m.weights.h5" else model.save)(tmp_path / name)
    with pytest.raises(ValueError, match="layout"):
        model.load_weights(tmp_path / name, **arguments)
