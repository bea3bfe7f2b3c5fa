"""HDF5 files of models as Keras 2 wrote them, damaged ones, and hostile ones."""

import binascii
import json
import marshal
import struct

import h5py
import numpy as np
import pytest

import trainkit as tk
from trainkit import layers
from trainkit.core.errors import CheckpointError, ConfigError

X = np.random.default_rng(0).normal(size=(8, 3)).astype("f4")


def keras_2_file(path, config, weights, training=None, optimizer=None):
    """A file as Keras 2 writes it: texts and names of variable length."""

    def subset(group, values):
        group.attrs["weight_names"] = [name.encode() for name in values]
        for name, value in values.items():
            group[name] = value

    with h5py.File(path, "w") as file:
        file.attrs["keras_version"] = "2.4.0"
        file.attrs["backend"] = "tensorflow"
        file.attrs["model_config"] = json.dumps(config).encode()
        if training is not None:
            file.attrs["training_config"] = json.dumps(training).encode()
        outer = file.create_group("model_weights")
        outer.attrs["layer_names"] = [name.encode() for name in weights]
        for name, values in weights.items():
            subset(outer.create_group(name), values)
        if optimizer:
            subset(file.create_group("optimizer_weights"), optimizer)


def described(kind, **settings):
    return {"class_name": kind, "config": settings}


def dense_config(units=2, **more):
    start = described(
        "VarianceScaling", scale=1.0, mode="fan_avg", distribution="normal", seed=None
    )
    return described("Dense", name="dense", units=units, kernel_initializer=start, **more)


KERNEL = np.arange(6, dtype="f4").reshape(3, 2)
WEIGHTS = {"dense": {"dense/kernel:0": KERNEL, "dense/bias:0": np.ones(2, "f4")}}
FIRST = dense_config(batch_input_shape=[None, 3], dtype="float32", trainable=True)


@pytest.mark.parametrize("bare", [False, True])
def test_a_stack_of_old(tmp_path, bare):
    config = [FIRST] if bare else {"name": "old", "layers": [FIRST]}
    keras_2_file(tmp_path / "m.h5", {"class_name": "Sequential", "config": config}, WEIGHTS)
    model = tk.models.load_model(tmp_path / "m.h5", compile=False)
    np.testing.assert_allclose(model.predict(X), X @ KERNEL + 1, 1e-5)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_an_optimizer_of_old(tmp_path, decay):
    """Slots stand together by their kind, and the rate is called `lr`."""
    settings = {"lr": 0.5, "decay": decay, "beta_1": 0.8, "name": "Adam"}
    training = {
        "optimizer_config": {"class_name": "Adam", "config": settings},
        "loss": "mse",
        "metrics": ["mae"],
        "weighted_metrics": None,
        "loss_weights": None,
        "sample_weight_mode": None,
    }
    state = {"Adam/iter:0": np.int64(7)}
    for place, slot in enumerate("mv"):
        state[f"Adam/dense/kernel/{slot}:0"] = KERNEL + place
        state[f"Adam/dense/bias/{slot}:0"] = np.full(2, place + 5, "f4")
    config = {"class_name": "Sequential", "config": {"name": "old", "layers": [FIRST]}}
    keras_2_file(tmp_path / "m.h5", config, WEIGHTS, training, state)
    model = tk.models.load_model(tmp_path / "m.h5")
    optimizer = model.optimizer
    assert (int(optimizer.iterations), optimizer.beta_1) == (7, 0.8)
    assert float(optimizer.learning_rate) == pytest.approx(0.5 / (1 + 7 * decay))
    slots = {(name, len(w.shape)): slot.numpy() for name, w, slot in optimizer.slot_variables()}
    np.testing.assert_array_equal(slots["velocity", 2], KERNEL + 1)
    np.testing.assert_array_equal(slots["momentum", 1], [5, 5])


def test_a_state_that_does_not_fit_begins_anew(tmp_path):
    training = {"optimizer_config": {"class_name": "Adam", "config": {}}, "loss": "mse"}
    config = {"class_name": "Sequential", "config": {"name": "old", "layers": [FIRST]}}
    state = {"iteration:0": np.int64(7), "Adam/m/dense/kernel:0": KERNEL}
    keras_2_file(tmp_path / "m.h5", config, WEIGHTS, training, state)
    with pytest.warns(UserWarning, match="begins anew"):
        model = tk.models.load_model(tmp_path / "m.h5")
    assert int(model.optimizer.iterations) == 0


OLD_LAYERS = [
    (described("LeakyReLU", alpha=0.2), lambda layer: layer.negative_slope, 0.2),
    (described("BatchNormalization", axis=[1], fused=None), lambda layer: layer.axis, 1),
    (described("LSTM", units=2, time_major=False, implementation=2), lambda layer: layer.units, 2),
    (described("SimpleRNN", units=2, implementation=1), lambda layer: layer.units, 2),
    (described("DepthwiseConv2D", kernel_size=[3, 3], groups=1), lambda x: x.kernel_size, (3, 3)),
    (described("Conv2DTranspose", filters=1, kernel_size=3, groups=1), lambda x: x.filters, 1),
    (
        described("SeparableConv2D", filters=1, kernel_size=3, groups=1, kernel_initializer="ones"),
        lambda layer: layer.filters,
        1,
    ),
    (
        described("MultiHeadAttention", num_heads=1, key_dim=2, query_shape=[None, 1, 3]),
        lambda layer: layer.key_dim,
        2,
    ),
    (
        described("Dense", units=2, dtype=described("Policy", name="mixed_float16")),
        lambda layer: layer.compute_dtype,
        "float16",
    ),
    (
        described("TimeDistributed", layer=described("LSTM", units=2, time_major=False)),
        lambda layer: layer.layer.units,
        2,
    ),
]


@pytest.mark.parametrize(
    ("config", "look", "wanted"), OLD_LAYERS, ids=lambda x: "" if callable(x) else str(x)[:40]
)
def test_old_arguments(config, look, wanted):
    config["config"]["name"] = "old"
    model = {"class_name": "Sequential", "config": {"name": "s", "layers": [config]}}
    assert look(tk.models.model_from_json(json.dumps(model)).layers[0]) == wanted


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (described("LSTM", units=2, time_major=True), "time_major"),
        (described("DepthwiseConv2D", kernel_size=3, groups=3), "groups"),
        (described("CuDNNLSTM", units=2), "CuDNNLSTM"),
    ],
)
def test_what_is_gone_is_refused(config, words):
    model = {"class_name": "Sequential", "config": {"name": "s", "layers": [config]}}
    with pytest.raises(ConfigError, match=words):
        tk.models.model_from_json(json.dumps(model))


def lambda_model(code):
    """A model of Keras 2 whose lambda is `code`."""
    text = binascii.b2a_base64(marshal.dumps(code)).decode()
    layer = described(
        "Lambda", name="l", function=[text, None, None], function_type="lambda", module="m"
    )
    layer["config"]["batch_input_shape"] = [None, 3]
    return {"class_name": "Sequential", "config": {"name": "s", "layers": [layer]}}


def test_code_is_refused(tmp_path):
    keras_2_file(tmp_path / "m.h5", lambda_model((lambda x: x * 3).__code__), {})
    with pytest.raises(ValueError, match="arbitrary code"):
        tk.models.load_model(tmp_path / "m.h5", compile=False)
    model = tk.models.load_model(tmp_path / "m.h5", compile=False, safe_mode=False)
    np.testing.assert_array_equal(model.predict(np.ones((1, 3))), [[3, 3, 3]])


# ---------------------------------------------------------------------- damaged and hostile files


CONFIG = {"class_name": "Sequential", "config": {"name": "old", "layers": [FIRST]}}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda file: file.attrs.__delitem__("model_config"), "no config"),
        (lambda file: file.attrs.__setitem__("model_config", "{"), "JSON"),
        (lambda file: file.attrs.__setitem__("model_config", "[" * 100_000), "JSON"),
        (lambda file: file.attrs.__setitem__("model_config", "3"), "no model"),
        (lambda file: file.__delitem__("model_weights"), "no weights of a model"),
        (lambda file: file["model_weights/dense"].__delitem__("dense"), "not there"),
        (lambda file: file["model_weights"].__delitem__("dense"), "not there"),
        (lambda file: _linked(file, h5py.SoftLink("/model_weights/dense")), "a soft link"),
        (lambda file: _linked(file, h5py.ExternalLink("o.h5", "/")), "an external link"),
        (lambda file: _larger(file), "not all"),
    ],
)
def test_files_that_do_not_make_sense(tmp_path, change, words):
    keras_2_file(tmp_path / "m.h5", CONFIG, WEIGHTS)
    with h5py.File(tmp_path / "m.h5", "a") as file:
        change(file)
    with pytest.raises(ValueError, match=words):
        tk.models.load_model(tmp_path / "m.h5", compile=False)


def _linked(file, link):
    file["model_weights/other"] = link


def _larger(file):
    del file["model_weights/dense/dense/kernel:0"]
    file.create_dataset("model_weights/dense/dense/kernel:0", (1 << 30, 2), "f4")


def test_a_text_that_says_it_has_4_gib_takes_no_memory(tmp_path):
    import tracemalloc

    path = tmp_path / "m.h5"
    keras_2_file(path, CONFIG, WEIGHTS)
    text = json.dumps(CONFIG).encode()
    content = bytearray(path.read_bytes())
    reference = content.index(struct.pack("<I", len(text)))
    content[reference : reference + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match="4294967295 bytes"):
            tk.models.load_model(path, compile=False)
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


def test_a_config_that_asks_for_far_more_than_the_file_has(tmp_path):
    first = dense_config(units=1 << 30, batch_input_shape=[None, 1 << 10])
    config = {"class_name": "Sequential", "config": {"name": "old", "layers": [first]}}
    keras_2_file(tmp_path / "m.h5", config, WEIGHTS)
    with pytest.raises(ValueError, match=r"refused|more than"):
        tk.models.load_model(tmp_path / "m.h5", compile=False)


@pytest.mark.parametrize("seed", range(4))
def test_damage_is_an_error_in_words(tmp_path, seed):
    """Whatever bytes are changed: the values are read, or an error of this package is raised."""
    path = tmp_path / "m.h5"
    keras_2_file(path, CONFIG, WEIGHTS)
    content = path.read_bytes()
    rng = np.random.default_rng(seed)
    model = tk.Sequential([tk.Input((3,)), layers.Dense(2)])
    for _ in range(60):
        damaged = bytearray(content)
        for at in rng.integers(0, len(content), 3):
            damaged[at] = rng.integers(0, 256)
        path.write_bytes(damaged)
        try:
            model.load_weights(path)
        except ValueError:  # CheckpointError is one
            continue
