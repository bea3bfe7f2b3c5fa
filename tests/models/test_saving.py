"""Whole models in one file."""

import json
import zipfile

import numpy as np
import pytest

import trainkit as tk

L = tk.layers
X = np.random.default_rng(0).standard_normal((8, 4)).astype("float32")
Y = X[:, :2] * 2


def stack():
    return tk.Sequential([tk.Input((4,)), L.Dense(3, activation="relu"), L.Dense(2)])


def graph():
    x = tk.Input((4,), name="in")
    h = L.Dense(3, activation="tanh")(x)
    return tk.Model(x, L.Concatenate()([h, x * 2.0])[:, :2])


class Custom(tk.Model):
    def __init__(self, units=3, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.one, self.two = L.Dense(units), L.Dense(2)

    def call(self, x):
        return self.two(self.one(x))


@pytest.mark.parametrize("make", [stack, graph, Custom])
def test_round_trip(tmp_path, make):
    model = make()
    model.compile(tk.optimizers.Adam(0.01), loss="mse", metrics=["mae"])
    model.fit(X, Y, epochs=2, verbose=0)
    path = tmp_path / "model.keras"
    model.save(path)
    again = tk.models.load_model(path, custom_objects={"Custom": Custom})
    np.testing.assert_array_equal(again(X).numpy(), model(X).numpy())
    assert again.evaluate(X, Y, verbose=0) == model.evaluate(X, Y, verbose=0)
    # The optimizer goes on too.
    one = model.fit(X, Y, epochs=1, shuffle=False, verbose=0).history["loss"]
    assert again.fit(X, Y, epochs=1, shuffle=False, verbose=0).history["loss"] == one
    np.testing.assert_array_equal(again.get_weights()[0], model.get_weights()[0])


def test_the_file_has_keras_layout(tmp_path):
    model = stack()
    model.compile("adam", "mse")
    model.save(tmp_path / "m.keras")
    with zipfile.ZipFile(tmp_path / "m.keras") as archive:
        assert set(archive.namelist()) == {"config.json", "metadata.json", "model.weights.h5"}
        config = json.loads(archive.read("config.json"))
        assert "keras_version" in json.loads(archive.read("metadata.json"))
    assert config["class_name"] == "Sequential"
    assert config["build_config"] == {"input_shape": [None, 4]}
    assert config["compile_config"]["loss"] == "mse"
    names = [layer["class_name"] for layer in config["config"]["layers"]]
    assert names == ["InputLayer", "Dense", "Dense"]


def test_a_class_that_nobody_registered_is_refused(tmp_path):
    model = Custom()
    model(X)
    model.save(tmp_path / "m.keras")
    with pytest.raises(ValueError, match=r"'Custom'.*custom_objects"):
        tk.models.load_model(tmp_path / "m.keras")


def rewritten(path, config):
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["config.json"] = json.dumps(config).encode()
    members["metadata.json"] = b"{}"  # whoever forges a file leaves the checksums out
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    "hostile",
    [
        {"module": "os", "class_name": "system", "config": "echo owned > owned"},
        {"module": "builtins", "class_name": "function", "config": "eval"},
        {"module": "subprocess", "class_name": "Popen", "config": {"args": ["touch", "owned"]}},
        {"class_name": "__lambda__", "config": {"value": "4wEAAAAA"}},
    ],
)
def test_nothing_in_a_file_is_executed(tmp_path, monkeypatch, hostile):
    monkeypatch.chdir(tmp_path)
    model = stack()
    model.save("m.keras")
    with zipfile.ZipFile("m.keras") as archive:
        config = json.loads(archive.read("config.json"))
    config["config"]["layers"].append(hostile)
    rewritten("m.keras", config)
    with pytest.raises((ValueError, TypeError)):
        tk.models.load_model("m.keras")
    assert not (tmp_path / "owned").exists()


def test_damage_is_an_error(tmp_path):
    path = tmp_path / "m.keras"
    stack().save(path)
    whole = path.read_bytes()
    for content in (b"no zip", whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(tk.errors.CheckpointError):
            tk.models.load_model(path)
    with pytest.raises(tk.errors.NotFoundError):
        tk.models.load_model(tmp_path / "none.keras")


def test_a_failed_save_leaves_the_older_file(tmp_path, monkeypatch):
    path = tmp_path / "m.keras"
    model = stack()
    model.save(path)
    before = path.read_bytes()

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        model.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.keras"]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda m, p: m.save(p / "m.pkl"), ValueError, ".keras"),
        (lambda m, p: m.save(p / "m.keras", zipped=False), ValueError, "a folder"),
        (lambda m, p: m.save(p / "m.keras", include_optimizer=False), ValueError, "optimizer"),
        (lambda m, p: m.save(p / "m.keras", formt="keras"), ValueError, "'formt'"),
        (lambda m, p: tk.models.load_model(p / "m.h5"), FileNotFoundError, "m.h5"),
        (lambda m, p: tk.models.load_model(p / "m.keras"), ValueError, "no Keras archive"),
    ],
)
def test_mistakes(tmp_path, call, error, words):
    with pytest.raises(error, match=words):
        call(stack(), tmp_path)


def test_overwrite_is_asked_for(tmp_path):
    model = stack()
    model.save(tmp_path / "m.keras")
    with pytest.raises(FileExistsError):
        model.save(tmp_path / "m.keras", overwrite=False)
    model.save_weights(tmp_path / "m.weights.h5")
    with pytest.raises(FileExistsError):
        model.save_weights(tmp_path / "m.weights.h5", overwrite=False)


def test_json_and_clone():
    model = graph()
    again = tk.models.model_from_json(model.to_json())
    again.set_weights(model.get_weights())
    np.testing.assert_array_equal(again(X).numpy(), model(X).numpy())
    twin = tk.models.clone_model(model)
    assert not np.array_equal(twin.get_weights()[0], model.get_weights()[0])
    assert [w.shape for w in twin.weights] == [w.shape for w in model.weights]


def test_weights_go_from_model_to_model(tmp_path):
    model, other = stack(), stack()
    for name in ("m.weights.h5", "m.npz"):
        model.save_weights(tmp_path / name)
        other.set_weights([w * 0 for w in other.get_weights()])
        other.load_weights(tmp_path / name)
        np.testing.assert_array_equal(other(X).numpy(), model(X).numpy())
    model.save(tmp_path / "m.keras")
    other.load_weights(tmp_path / "m.keras")
