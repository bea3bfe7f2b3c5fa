"""Whole models in archives: what goes in besides the weights, and what is refused."""

import io
import json
import os
import zipfile

import numpy as np
import pytest

import trainkit as tk
from trainkit.checkpoints.interop import keras_archive
from trainkit.keras import saving

L = tk.layers
X = np.random.default_rng(0).standard_normal((8, 4)).astype("float32")
Y = X[:, :2] * 2


def stack():
    return tk.Sequential([tk.Input((4,)), L.Dense(3, activation="relu"), L.Dense(2)])


def graph():
    x = tk.Input((4,), name="in")
    return tk.Model(x, [L.Dense(2)(L.Dense(3)(x))])


class Custom(tk.Model):
    def __init__(self, units=3, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.one, self.two = L.Dense(units), L.Dense(2)

    def call(self, x):
        return self.two(self.one(x))


def late():
    return tk.Sequential([L.Dense(2)])


def again(model, path, **kwargs):
    model.save(path)
    return tk.models.load_model(path, custom_objects={"Custom": Custom}, **kwargs)


@pytest.mark.parametrize(
    "optimizer", ["adam", "rmsprop", "sgd", "adafactor", "ftrl", "lion", "adamw"]
)
@pytest.mark.parametrize("make", [stack, graph])
def test_a_model_that_was_compiled_and_never_trained(tmp_path, make, optimizer):
    model = make()
    model.compile(optimizer, "mse", metrics=["mae"])
    other = again(model, tmp_path / "m.keras")
    assert other.compiled
    np.testing.assert_array_equal(other(X).numpy(), model(X).numpy())
    for each in (model, other):
        each.fit(X, Y, epochs=2, shuffle=False, verbose=0)
    for one, two in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)
    path = tmp_path / "trained.keras"
    third = again(model, path)
    assert int(third.optimizer.iterations) == 2
    assert not again(model, path, compile=False).compiled


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("make", [late, Custom])
def test_a_model_without_weights_yet(tmp_path, make, compiled):
    model = make()
    if compiled:
        model.compile("adam", "mse")
    with pytest.warns(UserWarning, match="is not built, so the file has no weights"):
        other = again(model, tmp_path / "m.keras")
    assert not other.built
    assert other(X).shape == (8, 2)
    if compiled:
        assert np.isfinite(other.fit(X, Y, verbose=0).history["loss"][0])
    with pytest.raises(ValueError, match="no weights yet"):
        model.save_weights(tmp_path / "m.weights.h5")


def test_folders_and_open_files(tmp_path):
    model = stack()
    model.save(tmp_path / "folder", zipped=False)
    assert sorted(os.listdir(tmp_path / "folder")) == [
        "config.json",
        "metadata.json",
        "model.weights.h5",
    ]
    held = io.BytesIO()
    saving.save_model(model, held)
    with open(tmp_path / "m.bin", "wb") as file:
        file.write(held.getvalue())
    held.seek(0)
    for source in (tmp_path / "folder", held, open(tmp_path / "m.bin", "rb")):
        other = tk.models.load_model(source)
        np.testing.assert_array_equal(other(X).numpy(), model(X).numpy())
        if hasattr(source, "close"):
            source.close()
    with pytest.raises(FileExistsError):
        model.save(tmp_path / "folder", zipped=False, overwrite=False)


@saving.register_keras_serializable("tests")
class Words(L.Layer):
    """A layer with files, and with values that it stores its own way."""

    def __init__(self, words=(), **kwargs):
        super().__init__(**kwargs)
        self.words, self.table = list(words), np.zeros(3)

    def get_config(self):
        return {"name": self.name}

    def build(self, input_shape):
        self.scale = self.add_weight("scale", (1,), initializer="ones")

    def call(self, x):
        return x * self.scale + float(self.table.sum())

    def save_own_variables(self, store):
        super().save_own_variables(store)
        store["table"] = self.table

    def load_own_variables(self, store):
        self.table = np.array(store["table"])
        super().load_own_variables({key: store[key] for key in store if key != "table"})

    def save_assets(self, folder):
        with open(os.path.join(folder, "words.txt"), "w") as file:
            file.write(" ".join(self.words))

    def load_assets(self, folder):
        with open(os.path.join(folder, "words.txt")) as file:
            self.words = file.read().split()


@pytest.mark.parametrize("zipped", [True, False])
def test_files_and_values_of_a_layers_own(tmp_path, zipped):
    layer = Words(["one", "two"])
    model = tk.Sequential([tk.Input((4,)), layer, L.Dense(2)])
    layer.table += 2.0
    layer.scale.assign([3.0])
    path = tmp_path / ("m.keras" if zipped else "m")
    model.save(path, zipped=zipped)
    other = tk.models.load_model(path)
    assert other.layers[0].words == ["one", "two"]
    np.testing.assert_array_equal(other(X).numpy(), model(X).numpy())
    model.save_weights(tmp_path / "m.weights.h5")
    layer.table *= 0
    model.load_weights(tmp_path / "m.weights.h5")
    np.testing.assert_array_equal(layer.table, [2.0] * 3)


def test_a_layer_that_refuses_its_values_leaves_all_as_it_was(tmp_path):
    class Refusing(L.Dense):
        def load_own_variables(self, store):
            self.kernel.assign(self.kernel * 0.0)
            raise ValueError("not mine")

    model = tk.Sequential([tk.Input((4,)), L.Dense(3), Refusing(2)])
    model.save_weights(tmp_path / "m.weights.h5")
    model.layers[0].kernel.assign(np.ones((4, 3)))
    before = model.get_weights()
    with pytest.raises(tk.errors.CheckpointError, match="not mine"):
        model.load_weights(tmp_path / "m.weights.h5")
    for one, two in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(one, two)


def test_shards(tmp_path):
    model = tk.Sequential([tk.Input((64,)), *(L.Dense(64) for _ in range(4))])
    model.compile("adam", "mse")
    model.save_weights(tmp_path / "m.weights.json", max_shard_size=20_000 / 2**30)
    shards = sorted(p.name for p in tmp_path.iterdir())
    assert shards[0] == "m.weights.json"
    assert shards[1:] == [f"m_{n:05}.weights.h5" for n in range(4)]
    said = json.loads((tmp_path / "m.weights.json").read_text())
    assert said["metadata"]["total_size"] >= 4 * 65 * 64 * 4
    assert said["weight_map"]["/layers/dense/vars"] == "m_00000.weights.h5"
    other = tk.models.clone_model(model)
    other.load_weights(tmp_path / "m.weights.json")
    for one, two in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)
    with pytest.raises(ValueError, match="max_shard_size"):
        model.save_weights(tmp_path / "m.weights.json", max_shard_size=1e-6)
    with pytest.raises(ValueError, match="max_shard_size"):
        model.save_weights(tmp_path / "m.npz", max_shard_size=1)
    (tmp_path / shards[2]).unlink()
    before = other.get_weights()
    with pytest.raises(tk.errors.NotFoundError):
        other.load_weights(tmp_path / "m.weights.json")
    np.testing.assert_array_equal(other.get_weights()[0], before[0])


def test_a_map_of_shards_names_files_of_its_folder_only(tmp_path):
    model = stack()
    for names in (["../x.h5"], ["/etc/passwd"], [3], "a/b.h5"):
        text = json.dumps({"weight_map": {"/vars": names}})
        (tmp_path / "m.weights.json").write_text(text)
        with pytest.raises(tk.errors.CheckpointError, match="plain file name"):
            model.load_weights(tmp_path / "m.weights.json")


def test_objects_may_be_skipped(tmp_path):
    model, other = stack(), stack()
    path = tmp_path / "m.weights.h5"
    model.save_weights(path, objects_to_skip=[model.layers[0]])
    with pytest.raises(tk.errors.CheckpointMismatchError):
        other.load_weights(path)
    kept = other.layers[0].get_weights()
    other.load_weights(path, objects_to_skip=[other.layers[0]])
    np.testing.assert_array_equal(other.layers[0].get_weights()[0], kept[0])
    np.testing.assert_array_equal(other.get_weights()[2], model.get_weights()[2])


@pytest.mark.parametrize("source", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("target", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["m.weights.h5", "m.npz", "m.safetensors"])
def test_weights_of_another_float_type_are_cast(tmp_path, name, source, target):
    def made(dtype):
        return tk.Sequential([tk.Input((4,)), L.Dense(3, dtype=dtype)])

    model, other = made(source), made(target)
    model.save_weights(tmp_path / name)
    other.load_weights(tmp_path / name)
    assert other.weights[0].dtype == target
    expected = model.weights[0].numpy().astype(other.weights[0].numpy().dtype)
    np.testing.assert_array_equal(other.weights[0].numpy(), expected)


def test_a_class_with_its_own_compile_is_not_compiled_by_the_file(tmp_path):
    class Own(Custom):
        def compile(self, extra=1, **kwargs):
            super().compile("sgd", "mse", **kwargs)

    class Told(Own):
        def get_compile_config(self):
            return {"extra": 5}

        def compile_from_config(self, config):
            self.seen = config
            self.compile(**config)

    for kind in (Own, Told):
        model = kind()
        model.compile()
        model(X)
        model.save(tmp_path / "m.keras")
        if kind is Own:
            with pytest.warns(UserWarning, match="custom"):
                other = tk.models.load_model(tmp_path / "m.keras", custom_objects={"Own": Own})
            assert not other.compiled
        else:
            other = tk.models.load_model(tmp_path / "m.keras", custom_objects={"Told": Told})
            assert other.compiled
            assert other.seen == {"extra": 5}


def test_a_stored_lambda_needs_leave(tmp_path):
    model = tk.Sequential([tk.Input((4,)), L.Lambda(lambda x: x * 3.0)])
    model.save(tmp_path / "m.keras")
    with pytest.raises(ValueError, match="safe_mode"):
        tk.models.load_model(tmp_path / "m.keras")
    other = tk.models.load_model(tmp_path / "m.keras", safe_mode=False)
    np.testing.assert_array_equal(other(X).numpy(), X * 3.0)


def keras_layer(kind, name, inbound, module="keras.layers", **config):
    return {
        "module": module,
        "class_name": kind,
        "config": {"name": name, **config},
        "registered_name": None,
        "name": name,
        "inbound_nodes": inbound,
    }


def call(*args, **kwargs):
    return {"args": list(args), "kwargs": kwargs}


def place(name, shape, index=0):
    config = {"shape": [None, *shape], "dtype": "float32", "keras_history": [name, index, 0]}
    return {"class_name": "__keras_tensor__", "config": config}


def keras_model(layers, inputs, outputs, name="functional"):
    return {
        "module": "keras.src.models.functional",
        "class_name": "Functional",
        "config": {
            "name": name,
            "trainable": True,
            "layers": layers,
            "input_layers": inputs,
            "output_layers": outputs,
        },
        "registered_name": "Functional",
        "build_config": {"input_shape": None},
    }


POLICY = {"module": "keras", "class_name": "DTypePolicy", "config": {"name": "float32"}}
GLOROT = {
    "module": "keras.initializers",
    "class_name": "GlorotUniform",
    "config": {"seed": None, "input_axes": None, "output_axes": None},
    "registered_name": None,
}


def entrance(name):
    return keras_layer(
        "InputLayer", name, [], batch_shape=[None, 4], dtype="float32", ragged=False, sparse=False
    )


def test_operations_in_a_config_of_keras():
    ops = "keras.src.ops.numpy"
    key = [
        {"class_name": "__slice__", "config": {"start": None, "stop": None, "step": None}},
        {"class_name": "__slice__", "config": {"start": 1, "stop": 3, "step": None}},
    ]
    config = keras_model(
        [
            entrance("in"),
            keras_layer("Multiply", "multiply", [call(place("in", [4]), 2.0)], ops),
            keras_layer("Mean", "mean", [call(place("in", [4]))], ops, axis=-1, keepdims=True),
            keras_layer("Subtract", "sub", [call(place("multiply", [4]), place("mean", [1]))], ops),
            keras_layer("Relu", "relu", [call(place("sub", [4]))], "keras.src.ops.nn"),
            keras_layer("GetItem", "get_item", [call(place("relu", [4]), key)], ops),
            keras_layer("Reshape", "re", [call(place("get_item", [2]))], ops, newshape=[-1, 1, 2]),
        ],
        ["in", 0, 0],
        [["re", 0, 0]],
    )
    model = tk.models.model_from_json(json.dumps(config))
    expected = np.maximum(X * 2 - X.mean(axis=-1, keepdims=True), 0)[:, 1:3].reshape(-1, 1, 2)
    np.testing.assert_allclose(model(X).numpy(), expected, rtol=1e-6)
    again = tk.models.model_from_json(model.to_json())
    np.testing.assert_array_equal(again(X).numpy(), model(X).numpy())


@pytest.mark.parametrize(
    "node",
    [
        keras_layer("Ones", "o", [call([10**9, 10**9])], "keras.src.ops.numpy"),
        keras_layer("NoSuch", "o", [call(place("in", [4]))], "keras.src.ops.numpy"),
        keras_layer("Mean", "o", [call(place("in", [4]))], "keras.src.ops.numpy", axs=1),
    ],
)
def test_operations_that_can_not_be_called(node):
    config = keras_model([entrance("in"), node], ["in", 0, 0], ["o", 0, 0])
    with pytest.raises(tk.errors.ConfigError):
        tk.models.model_from_config(config)


def test_inner_models_in_a_config_of_keras():
    dense = keras_layer(
        "Dense",
        "dense",
        [call(place("a", [4]))],
        units=4,
        dtype=POLICY,
        kernel_initializer=GLOROT,
        quantization_config=None,
    )
    inner = keras_model([entrance("a"), dense], ["a", 0, 0], ["dense", 0, 0], "inner")
    inner["name"] = "inner"
    inner["inbound_nodes"] = [
        call(place("in", [4]), mask=None),
        call(place("inner", [4], 0), mask=None),
    ]
    config = keras_model([entrance("in"), inner], ["in", 0, 0], ["inner", 2, 0])
    model = tk.models.model_from_config(config)
    kernel = model.weights[0].numpy()
    np.testing.assert_allclose(model(X).numpy(), X @ kernel @ kernel, rtol=1e-4, atol=1e-5)
    written = json.loads(model.to_json())["config"]
    assert written["output_layers"] == ["inner", 2, 0]
    history = written["layers"][1]["inbound_nodes"][1]["args"][0]["config"]["keras_history"]
    assert history == ["inner", 0, 0]


def test_a_list_that_holds_itself(tmp_path):
    class Cyclic(tk.Model):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.blocks = []
            self.blocks.append(self.blocks)
            self.out = L.Dense(2)

        def call(self, x):
            return self.out(x)

    model = Cyclic()
    model(X)
    model.save(tmp_path / "m.keras")
    other = tk.models.load_model(tmp_path / "m.keras", custom_objects={"Cyclic": Cyclic})
    np.testing.assert_array_equal(other(X).numpy(), model(X).numpy())


def test_an_object_is_found_by_its_other_name(tmp_path):
    class Plain(tk.Model):
        def __init__(self):
            super().__init__()
            self.dense = L.Dense(2)

        def call(self, x):
            return self.dense(x)

    class Renamed(Plain):
        def __init__(self):
            tk.Model.__init__(self)
            self.a_dense = L.Dense(2)

        dense = property(lambda self: self.a_dense)

    one, other = Plain(), Renamed()
    assert one(X).shape == other(X).shape
    one.save_weights(tmp_path / "m.weights.h5")
    other.load_weights(tmp_path / "m.weights.h5")
    np.testing.assert_array_equal(other(X).numpy(), one(X).numpy())


def test_masks_may_be_given_to_models():
    steps = np.ones((2, 4, 3), "float32")
    kept = np.array([[True, True, False, False]] * 2)
    x = tk.Input((4, 3))
    lstm = L.LSTM(2)
    expected = lstm(steps, mask=kept).numpy()
    for model in (tk.Model(x, lstm(x)), tk.Sequential([tk.Input((4, 3)), lstm])):
        np.testing.assert_array_equal(model(steps, mask=kept).numpy(), expected)
        assert np.abs(model(steps).numpy() - expected).max() > 1e-4


def test_state_trees():
    model = tk.Sequential([tk.Input((4,)), L.Dense(2, name="out")], name="net")
    model.compile("adam", "mse")
    tree = model.get_state_tree("numpy_array")
    assert set(tree["trainable_variables"]["net"]["out"]) == {"kernel", "bias"}
    assert tree["optimizer_variables"][model.optimizer.name]["iteration"] == 0
    assert tree["metrics_variables"]["loss"]["count"] == 0
    tree["trainable_variables"]["net"]["out"]["bias"] += 3.0
    model.set_state_tree(tree)
    np.testing.assert_array_equal(model.weights[1].numpy(), [3.0, 3.0])
    tree["trainable_variables"]["net"]["out"] = {"bias": [1.0, 2.0], "kernel": [1.0]}
    with pytest.raises(tk.errors.ShapeError, match="net/out/kernel"):
        model.set_state_tree(tree)
    np.testing.assert_array_equal(model.weights[1].numpy(), [3.0, 3.0])
    with pytest.raises(ValueError, match="no group"):
        model.set_state_tree({"weights": {}})
    with pytest.raises(ValueError, match="value_format"):
        model.get_state_tree("json")


def test_two_variables_of_one_path_are_no_tree():
    class Twice(L.Layer):
        def build(self, shape):
            self.a = self.add_weight("w", (1,))
            self.b = self.add_weight("w", (1,))

        def call(self, x):
            return x * self.a * self.b

    model = tk.Sequential([tk.Input((4,)), Twice()])
    with pytest.raises(ValueError, match="path"):
        model.get_state_tree()


# ---------------------------------------------------------------------- what is refused


def forged(path, change):
    """The archive with its members changed, as a forger would: the checksums are left out."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["metadata.json"] = b"{}"
    change(members)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.fixture
def saved(tmp_path):
    stack().save(tmp_path / "m.keras")
    return tmp_path / "m.keras"


def test_weights_that_are_missing_are_not_made_up(saved):
    forged(saved, lambda members: members.pop("model.weights.h5"))
    with pytest.raises(tk.errors.CheckpointError, match="no member"):
        tk.models.load_model(saved)


@pytest.mark.parametrize("member", ["config.json", "model.weights.h5"])
def test_a_member_that_was_renamed_is_noticed(saved, member):
    with zipfile.ZipFile(saved) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(saved, "w") as archive:
        for name, content in members.items():
            archive.writestr("other" if name == member else name, content)
    with pytest.raises(tk.errors.CheckpointError, match="missing"):
        tk.models.load_model(saved)


@pytest.mark.parametrize("member", ["config.json", "model.weights.h5"])
def test_a_member_that_was_changed_is_noticed(saved, member):
    with zipfile.ZipFile(saved) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    if member == "config.json":
        members[member] = members[member].replace(b"relu", b"tanh")
    else:
        with zipfile.ZipFile(saved) as archive, archive.open(member) as file:
            content = bytearray(file.read())
        content[:512] = bytes(512)  # where the seal begins
        members[member] = bytes(content)
    with zipfile.ZipFile(saved, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(tk.errors.CheckpointError, match="damaged"):
        tk.models.load_model(saved)


def test_a_config_that_asks_for_far_more_than_the_file_has(saved, monkeypatch):
    made = []
    monkeypatch.setattr(tk.initializers.GlorotUniform, "__call__", lambda *a, **k: made.append(a))

    def change(members):
        text = members["config.json"].decode()
        members["config.json"] = text.replace('"units": 3', '"units": 150000000').encode()

    with pytest.raises(tk.errors.CheckpointError, match=r"\(4, 150000000\), 2400000000 bytes"):
        tk.models.load_model(forged(saved, change))
    assert not made


def test_a_long_config_in_a_short_file(saved):
    def change(members):
        members["config.json"] += b" " * (7 << 20)

    with pytest.raises(tk.errors.CheckpointError, match="would unpack to"):
        tk.models.load_model(forged(saved, change))
    with zipfile.ZipFile(saved, "w") as archive:
        archive.writestr("config.json", b" " * (keras_archive.LARGEST_CONFIG + 1))
    with pytest.raises(tk.errors.CheckpointError, match="the most that is read"):
        tk.models.load_model(saved)


def test_a_config_too_long_to_be_read_is_not_written(saved, monkeypatch):
    monkeypatch.setattr("trainkit.models.saving.LARGEST_CONFIG", 100)
    with pytest.raises(ValueError, match="no more than 100 would be read"):
        stack().save(saved)
    monkeypatch.undo()
    assert tk.models.load_model(saved).built


@pytest.mark.parametrize(
    "config",
    [
        b"[" * 100_000,
        b"[]",
        b'{"class_name": 3, "config": {}}',
        b'{"class_name": "Dense", "module": "keras.layers", "config": {"units": 2}}',
        b'{"class_name": "Functional", "module": "keras.src.models.functional", "config": {}}',
        b'{"class_name": "Sequential", "config": {"name": "s", "layers": [{}]}}',
        b"\xff\xfe",
    ],
)
def test_configs_that_describe_no_model(saved, config):
    forged(saved, lambda members: members.update({"config.json": config}))
    with pytest.raises((tk.errors.CheckpointError, tk.errors.InvalidArgumentError)):
        tk.models.load_model(saved)


def test_names_of_assets_stay_in_their_folder(saved, tmp_path):
    forged(saved, lambda members: members.update({"assets/../../owned": b"x"}))
    with pytest.raises(tk.errors.CheckpointError, match="no name of an asset"):
        tk.models.load_model(saved)
    assert not (tmp_path.parent / "owned").exists()


def test_a_member_twice_is_refused(saved):
    with zipfile.ZipFile(saved, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("config.json", b"{}")
    with pytest.raises(tk.errors.CheckpointError, match="twice"):
        tk.models.load_model(saved)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_no_archive(tmp_path):
    os.mkfifo(tmp_path / "m.keras")
    for load in (tk.models.load_model, stack().load_weights):
        with pytest.raises(tk.errors.CheckpointError, match="no regular file"):
            load(tmp_path / "m.keras")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m, p: saving.save_weights(m, p / "m.npz"), "must end in .weights.h5"),
        (lambda m, p: saving.save_weights(m, p / "m.weights.json"), "must end in .weights.h5"),
        (lambda m, p: m.save_weights(p / "m.weights.json"), "needs max_shard_size"),
        (lambda m, p: saving.load_weights(m, p / "m.pkl"), "must end in"),
        (lambda m, p: saving.load_weights(m, p / "m.weights.h5", by_name=True), "by_name"),
        (lambda m, p: m.load_weights(p / "m.pkl"), "no checkpoint"),
        (lambda m, p: m.load_weights(p / "m.keras", objects_to_skip=[m]), "objects_to_skip"),
        (lambda m, p: m.save(p / "m.tf", save_format="tf"), "save_format"),
        (lambda m, p: tk.models.load_model(p / "none"), ".keras"),
    ],
)
def test_mistakes(tmp_path, call, words):
    with pytest.raises(ValueError, match=words):
        call(stack(), tmp_path)


@pytest.mark.parametrize(
    ("make", "kind", "settings"),
    [
        (lambda x: x * 2.0, "keras.src.ops.numpy.Multiply", {}),
        (lambda x: tk.nn.relu(x), "keras.src.ops.nn.Relu", {}),
        (lambda x: tk.ops.sum(x, axis=(1,), keepdims=True), "keras.src.ops.numpy.Sum", None),
        (lambda x: tk.ops.reshape(x, (-1, 2, 2)), "keras.src.ops.numpy.Reshape", None),
        (lambda x: x[:, 1:, None], "keras.src.ops.numpy.GetItem", {}),
        (lambda x: x[..., -1], "keras.src.ops.numpy.GetItem", {}),
        (lambda x: tk.ops.concatenate([x, x], axis=1), "keras.src.ops.numpy.Concatenate", None),
        (lambda x: tk.ops.argmax(x, axis=1), "keras.src.ops.numpy.Argmax", None),
        (lambda x: tk.argmax(x, axis=1), "keras.src.ops.core.Cast", None),
        (lambda x: tk.ops.rsqrt(x * x), "keras.src.ops.math.Rsqrt", {}),
    ],
)
def test_operations_are_written_as_keras_calls_them(make, kind, settings):
    x = tk.Input((4,))
    model = tk.Model(x, make(x))
    text = model.to_json()
    last = json.loads(text)["config"]["layers"][-1]
    assert f"{last['module']}.{last['class_name']}" == kind
    if settings is not None:
        assert last["config"] == {"name": last["name"], **settings}
    again = tk.models.model_from_json(text)
    np.testing.assert_array_equal(again(X).numpy(), model(X).numpy())
    assert again.to_json() == text


def test_a_batch_that_no_memory_holds(tmp_path):
    x = tk.Input((3, 2), batch_size=5)
    tk.Model(x, L.LSTM(2)(x)).save(tmp_path / "m.keras")

    def change(members):
        text = members["config.json"].decode()
        members["config.json"] = text.replace("[5, 3, 2]", f"[{2**45}, 3, 2]").encode()

    with pytest.raises(tk.errors.OpError):
        tk.models.load_model(forged(tmp_path / "m.keras", change))


@pytest.mark.parametrize(
    "load",
    [
        tk.models.load_model,
        lambda path: stack().load_weights(path),
        lambda path: tk.train.Checkpoint(model=stack()).read(path),
        tk.train.list_variables,
        tk.saved_model.load,
        tk.saved_graph.load,
    ],
)
def test_a_name_that_no_file_can_have_is_one_clear_error(load):
    for ending in (".keras", ".h5", ".npz", ".safetensors", ""):
        with pytest.raises(tk.errors.CheckpointError, match="can't be opened"):
            load(f"a\0b{ending}")


@pytest.mark.parametrize("load", [tk.models.load_model, lambda path: stack().load_weights(path)])
def test_an_archive_that_there_is_not_is_a_value_error_too(load, tmp_path):
    with pytest.raises(ValueError, match=r"there is no .*nowhere\.keras") as caught:
        load(tmp_path / "nowhere.keras")
    assert isinstance(caught.value, tk.errors.NotFoundError)
