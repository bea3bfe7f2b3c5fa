"""A training step in a file: trained on by NumPy and h5py alone, with trainkit's own bits."""

import json
import os
import random
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest

import trainkit as tk
from tests.attacks.documents import mutated_document, parts_of, write_parts
from trainkit.saved_graph import standalone
from trainkit.saved_graph.training import _paths

pytestmark = pytest.mark.usefixtures("plain_kernels")

layers, optimizers, regularizers = tk.layers, tk.optimizers, tk.keras.regularizers
rng = np.random.default_rng(0)
ROWS = 20  # two batches of 8 and one of 4
X = rng.normal(size=(ROWS, 6)).astype("float32")
Y = rng.normal(size=(ROWS, 3)).astype("float32")
CLASSES = rng.integers(0, 3, ROWS)
IMAGES = rng.normal(size=(ROWS, 8, 8, 3)).astype("float32")
TOKENS = rng.integers(0, 11, (ROWS, 7)).astype("int32")
SERIES = rng.normal(size=(ROWS, 7, 4)).astype("float32")
CROSS_ENTROPY = "sparse_categorical_crossentropy"


def dense(*between, last=None, size=8, activation="relu", **settings):
    return [
        layers.Dense(size, activation=activation, **settings),
        *between,
        layers.Dense(3, activation=last),
    ]


def decaying():
    return optimizers.SGD(optimizers.schedules.CosineDecay(0.1, 6), momentum=0.9)


def smoothed():
    return tk.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)


EXAMPLES = {
    "mlp, SGD": (
        lambda: dense(),
        X,
        Y,
        lambda: optimizers.SGD(0.1, nesterov=True, momentum=0.9),
        "mse",
    ),
    "mlp, Adam": (lambda: dense(activation="tanh"), X, Y, lambda: optimizers.Adam(0.01), "mse"),
    "cnn": (
        lambda: [
            layers.Conv2D(4, 3, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.MaxPooling2D(),
            layers.Conv2D(20, 3, activation="relu"),
            layers.DepthwiseConv2D(2),
            layers.AveragePooling2D(1),
            layers.Flatten(),
            layers.Dense(3, activation="softmax"),
        ],
        IMAGES,
        CLASSES,
        lambda: optimizers.Adam(0.01),
        CROSS_ENTROPY,
    ),
    "dropout": (
        lambda: dense(layers.Dropout(0.4), layers.GaussianNoise(0.1), last="softmax"),
        X,
        CLASSES,
        lambda: optimizers.AdamW(0.01),
        CROSS_ENTROPY,
    ),
    "lstm": (
        lambda: [layers.LSTM(5, return_sequences=True), layers.GRU(4), *dense(last="softmax")],
        SERIES,
        CLASSES,
        lambda: optimizers.RMSprop(0.01),
        CROSS_ENTROPY,
    ),
    "embedding": (
        lambda: [
            layers.Embedding(11, 4),
            layers.GlobalAveragePooling1D(),
            *dense(last="softmax", activation="silu"),
        ],
        TOKENS,
        CLASSES,
        lambda: optimizers.Adagrad(0.1),
        CROSS_ENTROPY,
    ),
    "label smoothing": (
        lambda: dense(activation="gelu"),
        X,
        np.eye(3, dtype="float32")[CLASSES],
        lambda: optimizers.Nadam(0.01),
        smoothed(),
    ),
    "regularizers": (
        lambda: dense(
            kernel_regularizer=regularizers.L1L2(1e-3, 1e-2), bias_regularizer=regularizers.L1(1e-3)
        ),
        X,
        Y,
        lambda: optimizers.SGD(0.05),
        "mae",
    ),
    "gradient clipping": (
        lambda: dense(layers.LayerNormalization()),
        X,
        Y,
        lambda: optimizers.Adam(0.01, global_clipnorm=0.1),
        "huber",
    ),
    "learning rate schedule": (lambda: dense(activation="elu"), X, Y, decaying, "mse"),
    "averaged weights": (
        lambda: dense(activation="softplus"),
        X,
        Y,
        lambda: optimizers.Adam(0.01, use_ema=True, gradient_accumulation_steps=2),
        "log_cosh",
    ),
    "mixed precision": (
        lambda: [layers.Dense(8, activation="relu", dtype="mixed_float16"), layers.Dense(3)],
        X,
        Y,
        lambda: optimizers.LossScaleOptimizer(optimizers.Adam(0.01)),
        "mse",
    ),
    "attention": (
        lambda: [Attended(), layers.GlobalMaxPooling1D(), *dense(last="sigmoid")],
        SERIES,
        (Y > 0).astype("float32"),
        lambda: optimizers.Lion(0.01),
        "binary_crossentropy",
    ),
}


class Attended(layers.Layer):
    def __init__(self, **settings):
        super().__init__(**settings)
        self.attention = layers.MultiHeadAttention(2, 3, dropout=0.1)

    def call(self, x):
        return x + self.attention(x, x)


def made(name):
    parts, x, y, optimizer, loss = EXAMPLES[name]
    tk.random.set_seed(3)
    model = tk.Sequential([tk.keras.Input(x.shape[1:], dtype=x.dtype), *parts()])
    metric = "accuracy" if y.ndim == 1 else "mse"
    model.compile(optimizer(), loss, metrics=[metric])
    return model


def state(model):
    """All variables but those of metrics, by path."""
    metrics = {id(v) for metric in model.metrics for v in metric.variables}
    return {path: v.numpy() for v, path in _paths(model).values() if id(v) not in metrics}


def assert_same_bits(one, other):
    assert one.keys() == other.keys()
    for path, value in one.items():
        assert value.dtype == other[path].dtype, path
        assert value.tobytes() == other[path].tobytes(), path


BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("trainkit", "scipy", "numba", "ml_dtypes", "torch"):
            raise ImportError(name)
sys.meta_path.insert(0, Blocked())
from reader import main
status = main(sys.argv[1:])
files = {m.split(".")[0]: str(getattr(sys.modules[m], "__file__", "")) for m in sys.modules}
own = {name for name, file in files.items() if "site-packages" in file}
assert own <= {"numpy", "h5py", "_distutils_hack"}, own
sys.exit(status)
"""


def trained_alone(folder, *words, check=True):
    """Train in a process that has no trainkit; what it prints."""
    shutil.copy(standalone.__file__, folder / "reader.py")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, *words],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        env=environment,
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout if check else done.stderr


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_file_trains_itself_with_the_bits_of_trainkit(name, tmp_path):
    x, y = EXAMPLES[name][1:3]
    model = made(name)
    settings = dict(batch_size=8, shuffle=False, verbose=0)
    model.fit(x, y, epochs=1, **settings)
    tk.saved_graph.save_training(model, tmp_path / "train.h5")
    np.savez(tmp_path / "new.npz", x=x, y=y)
    words = ("train.h5", "--data", "new.npz", "--batch-size", "8")

    said = trained_alone(tmp_path, *words, "--epochs", "2").splitlines()
    history = model.fit(x, y, epochs=2, **settings).history
    for i, line in enumerate(said):
        logs = {k: f"{v[i]:.6g}" for k, v in history.items()}
        assert line.startswith(f"epoch {i + 1}: loss "), line
        assert dict(word.split(" ") for word in line.split(": ")[1].split(", ")) == logs
    assert len(said) == 2
    again = made(name)
    assert tk.saved_graph.load_training(tmp_path / "train.h5", again) == 2
    assert_same_bits(state(again), state(model))

    trained_alone(tmp_path, *words, "--output", "more.h5")
    model.fit(x, y, **settings)
    again.fit(x, y, **settings)
    assert_same_bits(state(again), state(model))
    assert tk.saved_graph.load_training(tmp_path / "more.h5", again) == 3
    assert_same_bits(state(again), state(model))
    assert tk.saved_graph.load_training(tmp_path / "train.h5", made(name)) == 2


def test_saving_leaves_the_model_as_it_was(tmp_path):
    model, other = made("dropout"), made("dropout")
    for path in ("a.h5", "b.h5"):
        tk.saved_graph.save_training(model, tmp_path / path, (X, CLASSES))
        for m in (model, other):
            m.fit(X, CLASSES, 8, shuffle=False, verbose=0)
        assert_same_bits(state(model), state(other))
    values = [m.get_metrics_result() for m in (model, other)]
    assert values[0] == values[1]


def test_results_may_be_arrays(tmp_path, capsys):
    one_hot = np.eye(3, dtype="float32")[CLASSES]
    model = tk.Sequential([tk.keras.Input((6,)), layers.Dense(3, activation="softmax")])
    model.compile("sgd", "categorical_crossentropy", metrics=[tk.metrics.F1Score()])
    tk.saved_graph.save_training(model, tmp_path / "t.h5", (X, one_hot))
    np.savez(tmp_path / "d.npz", x=X, y=one_hot)
    assert standalone.main([str(tmp_path / "t.h5"), "--data", str(tmp_path / "d.npz")]) == 0
    f1 = model.fit(X, one_hot, shuffle=False, verbose=0).history["f1_score"][0]
    assert f"f1_score {np.array2string(np.asarray(f1), precision=6)}" in capsys.readouterr().out


def test_eager_steps_have_these_bits_too(tmp_path):
    model = made("cnn")
    model.run_eagerly = True
    tk.saved_graph.save_training(model, tmp_path / "train.h5", (IMAGES, CLASSES))
    standalone.train(tmp_path / "train.h5", {"x": IMAGES, "y": CLASSES}, 2, 8)
    model.fit(IMAGES, CLASSES, 8, 2, shuffle=False, verbose=0)
    again = made("cnn")
    tk.saved_graph.load_training(tmp_path / "train.h5", again)
    assert_same_bits(state(again), state(model))


# ---------------------------------------------------------------------- files and data


@pytest.fixture
def small(tmp_path):
    model = made("mlp, Adam")
    tk.saved_graph.save_training(model, tmp_path / "train.h5", (X, Y))
    return tmp_path / "train.h5"


def test_big_arrays_are_sealed_too(tmp_path):
    model = tk.Sequential([tk.keras.Input((300,)), layers.Dense(200), layers.Dense(1)])
    model.compile("adam", "mse")
    x, y = rng.normal(size=(9, 300)).astype("float32"), np.ones((9, 1), "float32")
    tk.saved_graph.save_training(model, tmp_path / "t.h5", (x, y))
    standalone.train(tmp_path / "t.h5", {"x": x, "y": y})
    expected = standalone.TrainingFile(tmp_path / "t.h5").step.variables
    assert any(v.nbytes > 1 << 16 for v in expected.values())
    tk.saved_graph.load_training(tmp_path / "t.h5", model)
    assert any(np.array_equal(model.layers[0].kernel.numpy(), v) for v in expected.values())
    damaged = bytearray((tmp_path / "t.h5").read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (tmp_path / "t.h5").write_bytes(damaged)
    before = state(model)
    with pytest.raises(tk.errors.CheckpointError, match="damaged"):
        tk.saved_graph.load_training(tmp_path / "t.h5", model)
    assert_same_bits(state(model), before)


def test_several_inputs_and_weights_of_samples_go_by_name(tmp_path):
    a, b = tk.keras.Input((6,), name="a"), tk.keras.Input((3,), name="b")
    model = tk.keras.Model({"a": a, "b": b}, layers.Dense(3)(layers.Concatenate()([a, b])))
    model.compile("sgd", "mse", weighted_metrics=["mae"])
    weights = rng.uniform(size=ROWS).astype("float32")
    x = {"a": X, "b": Y}
    tk.saved_graph.save_training(model, tmp_path / "t.h5", (x, Y, weights))
    file = standalone.TrainingFile(tmp_path / "t.h5")
    assert file.names == ["x/a", "x/b", "y", "sample_weight"]
    arrays = {"x/a": X, "x/b": Y, "y": Y, "sample_weight": weights}
    np.savez(tmp_path / "d.npz", **arrays)
    with np.load(tmp_path / "d.npz") as data:
        history = file.train(dict(data), batch_size=8)
    expected = model.fit(x, Y, 8, shuffle=False, sample_weight=weights, verbose=0).history
    assert history == [{k: v[0] for k, v in expected.items()}]


def test_several_outputs_are_trained_on_data_of_fit(tmp_path):
    def build():
        tk.random.set_seed(4)
        x = tk.keras.Input((6,))
        hidden = layers.Dense(5, activation="relu")(x)
        outputs = {"a": layers.Dense(3, name="a")(hidden), "b": layers.Dense(1, name="b")(hidden)}
        model = tk.keras.Model(x, outputs)
        model.compile("adam", {"a": "mse", "b": "mae"}, loss_weights={"a": 1.0, "b": 0.5})
        return model

    model, again = build(), build()
    y = {"a": Y, "b": Y[:, :1]}
    data = tk.data.Dataset.from_tensor_slices((X, y)).batch(8)
    model.fit(data, verbose=0)
    tk.saved_graph.save_training(model, tmp_path / "t.h5")
    arrays = {"x": X, "y/a": Y, "y/b": Y[:, :1]}
    history = standalone.train(tmp_path / "t.h5", arrays, batch_size=8)
    assert history == [{k: v[0] for k, v in model.fit(data, verbose=0).history.items()}]
    tk.saved_graph.load_training(tmp_path / "t.h5", again)
    assert_same_bits(state(again), state(model))


class Loop(layers.Layer):
    """As many rounds as there are steps, with a branch by value in each."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.dense = layers.Dense(4, activation="tanh")

    @tk.function
    def call(self, x):
        h, i = tk.zeros_like(x[:, 0]), tk.constant(0)
        while i < tk.shape(x)[1]:
            h = self.dense(h + x[:, i])
            if tk.reduce_sum(h) > 0.0:
                h = h * 0.5
            i += 1
        return h


@pytest.mark.parametrize("layer", [lambda: layers.LSTM(4), Loop], ids=["lstm", "while"])
def test_lengths_may_be_unknown(layer, tmp_path):
    def build():
        tk.random.set_seed(4)
        model = tk.Sequential([tk.keras.Input((None, 4)), layer(), layers.Dense(3)])
        model.compile("adam", "mse")
        return model

    model, again = build(), build()
    specs = tk.TensorSpec([None, None, 4]), tk.TensorSpec([None, 3])
    tk.saved_graph.save_training(model, tmp_path / "t.h5", specs)
    for steps in (7, 4):
        x = SERIES[:, :steps]
        history = standalone.train(tmp_path / "t.h5", {"x": x, "y": Y}, batch_size=8)
        expected = model.fit(x, Y, 8, shuffle=False, verbose=0).history["loss"]
        assert [logs["loss"] for logs in history] == expected
    tk.saved_graph.load_training(tmp_path / "t.h5", again)
    assert_same_bits(state(again), state(model))


def test_a_step_of_ones_own_is_in_the_file(tmp_path):
    class Own(tk.keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = layers.Dense(3)

        def call(self, x):
            return self.dense(x)

        def train_step(self, data):
            x, y = data
            with tk.GradientTape() as tape:
                noise = tk.random.normal(tk.shape(x), stddev=0.1)
                loss = tk.reduce_mean(tk.abs(self(x + noise) - y))
            grads = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(grads, self.trainable_variables, strict=True))
            return {"distance": loss}

    def build():
        tk.random.set_seed(4)
        model = Own()
        model(X)
        model.compile("adam", "mse")
        return model

    model = build()
    tk.saved_graph.save_training(model, tmp_path / "t.h5", (X, Y))
    history = standalone.train(tmp_path / "t.h5", {"x": X, "y": Y}, 2, 8)
    expected = model.fit(X, Y, 8, 2, shuffle=False, verbose=0).history["distance"]
    assert [logs["distance"] for logs in history] == expected


def test_a_seed_gives_an_order_that_goes_on(small, tmp_path):
    shutil.copy(small, tmp_path / "other.h5")
    data = {"x": X, "y": Y}
    standalone.train(small, data, 2, 8, seed=5)
    for _ in range(2):
        standalone.train(tmp_path / "other.h5", data, 1, 8, seed=5)
    one, other = (standalone.TrainingFile(p).step.variables for p in (small, tmp_path / "other.h5"))
    assert_same_bits(one, other)
    in_order = standalone.TrainingFile(small)
    in_order.train(data, 1, 8)
    mixed = standalone.TrainingFile(small)
    mixed.train(data, 1, 8, seed=1)
    kernels = [v for v in in_order.step.variables if "kernel" in v]
    assert any((in_order.step.variables[k] != mixed.step.variables[k]).any() for k in kernels)


def test_the_step_is_a_saved_graph_like_others(small, capsys):
    logs = tk.saved_graph.load(small)((tk.constant(X), tk.constant(Y)))
    assert set(logs) == {"loss", "mse"}
    assert standalone.main([str(small)]) == 0
    shown = capsys.readouterr().out
    assert "<SavedGraph train_step(" in shown
    assert "trains on x, y; 0 epochs since it was saved" in shown


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ["--data", "x.npz"],
            "training takes x (float32[any, 6]), y (float32[any, 3]); given is x",
        ),
        (["--data", "wide.npz"], "x: needs shape (None, 6), given is (20, 3)"),
        (["--data", "rows.npz"], "the same number of rows of each, at least 1: x has 20, y has 3"),
        (["--data", "none.npz"], "x has 0, y has 0"),
        (["--data", "objects.npz"], "allow_pickle"),
        (["--data", "missing.npz"], "missing.npz"),
        (["--data", "x.npy"], "x.npy is no npz"),
        (["--data", "good.npz", "--epochs", "0"], "epochs is 0, it must be at least 1"),
        (["--data", "good.npz", "--batch-size", "0"], "batch_size is 0"),
        (["--data", "good.npz", "--seed", "-1"], "--seed is -1"),
        (["--epochs", "2"], "go with --data"),
        (["function.h5", "--data", "good.npz"], "one file is trained at a time"),
    ],
    ids=lambda x: str(x)[:30],
)
def test_what_does_not_fit_is_refused_and_the_file_is_as_it_was(words, text, small, tmp_path):
    np.savez(tmp_path / "good.npz", x=X, y=Y)
    np.savez(tmp_path / "x.npz", x=X)
    np.savez(tmp_path / "wide.npz", x=Y, y=Y)
    np.savez(tmp_path / "rows.npz", x=X, y=Y[:3])
    np.savez(tmp_path / "none.npz", x=X[:0], y=Y[:0])
    np.savez(tmp_path / "objects.npz", x=np.array([{}], object), y=Y)
    np.save(tmp_path / "x.npy", X)
    before = small.read_bytes()
    assert text in trained_alone(tmp_path, "train.h5", *words, check=False)
    assert small.read_bytes() == before
    assert not list(tmp_path.glob(".*"))


def test_a_failure_while_writing_leaves_the_file_as_it_was(small, monkeypatch):
    before, listed = small.read_bytes(), sorted(small.parent.iterdir())

    def fail(*_):
        raise OSError("no room")

    monkeypatch.setattr(standalone.os, "replace", fail)
    with pytest.raises(OSError, match="no room"):
        standalone.train(small, {"x": X, "y": Y})
    assert small.read_bytes() == before
    assert sorted(small.parent.iterdir()) == listed


def test_a_function_is_no_training_step(tmp_path):
    f = tk.function(lambda x: x, input_signature=[tk.TensorSpec([None])])
    tk.saved_graph.save(f, tmp_path / "f.h5")
    with pytest.raises(standalone.GraphError, match="holds a function and no training step"):
        standalone.train(tmp_path / "f.h5", {})
    with pytest.raises(tk.errors.CheckpointError, match="holds a function, no training step"):
        tk.saved_graph.load_training(tmp_path / "f.h5", made("mlp, Adam"))


def test_what_is_missing_is_said():
    model = tk.Sequential([layers.Dense(1)])
    with pytest.raises(TypeError, match="give a model"):
        tk.saved_graph.save_training(layers.Dense(1), "t.h5")
    with pytest.raises(tk.errors.InvalidArgumentError, match="has no weights yet"):
        tk.saved_graph.save_training(model, "t.h5")
    model(X)
    with pytest.raises(tk.errors.InvalidArgumentError, match="load_training: the model"):
        tk.saved_graph.load_training("t.h5", model)
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"call compile\(\) first"):
        tk.saved_graph.save_training(model, "t.h5")
    model.compile("sgd", "mse")
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"give data=\(x, y\)"):
        tk.saved_graph.save_training(model, "t.h5")
    with pytest.raises(tk.errors.InvalidArgumentError, match="data is a list"):
        tk.saved_graph.save_training(model, "t.h5", [X, Y])
    with pytest.raises(tk.errors.InvalidArgumentError, match="needs an axis of rows"):
        tk.saved_graph.save_training(model, "t.h5", (X, 1.0))
    assert not os.path.exists("t.h5")


def test_a_step_that_gives_no_results_by_name_is_refused(tmp_path):
    class Odd(tk.keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = layers.Dense(3)

        def call(self, x):
            return self.dense(x)

        def train_step(self, data):
            return self(data[0])

    model = Odd()
    model(X)
    model.compile("sgd", "mse")
    with pytest.raises(tk.errors.InvalidArgumentError, match="a dict of tensors by name"):
        tk.saved_graph.save_training(model, tmp_path / "t.h5", (X, Y))


def test_a_model_that_does_not_fit_is_left_as_it_was(small):
    other = tk.Sequential([tk.keras.Input((6,)), layers.Dense(4), layers.Dense(3)])
    other.compile("adam", "mse")
    before = [v.numpy() for v in other.trainable_variables]
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"is float32\[.*\] in the model and"):
        tk.saved_graph.load_training(small, other)
    other.compile("sgd", "mse")
    with pytest.raises(tk.errors.InvalidArgumentError, match="has no optimizer/"):
        tk.saved_graph.load_training(small, other)
    for value, v in zip(before, other.trainable_variables, strict=True):
        np.testing.assert_array_equal(value, v.numpy())


def test_bfloat16_variables_are_refused(tmp_path):
    model = tk.Sequential([tk.keras.Input((6,)), layers.Dense(3, dtype="bfloat16")])
    model.compile("sgd", "mse")
    tk.saved_graph.save_training(model, tmp_path / "t.h5", (X, Y))
    with pytest.raises(standalone.GraphError, match="has bfloat16 variables"):
        standalone.train(tmp_path / "t.h5", {"x": X, "y": Y})


TRAINING_FAULTS = [
    lambda t: t["inputs"].pop(),
    lambda t: t["inputs"].__setitem__(0, 5),
    lambda t: t["inputs"].__setitem__(0, "y"),
    lambda t: t["paths"].pop(),
    lambda t: t["paths"].__setitem__(1, t["paths"][0]),
    lambda t: t["resets"].append([999, 0]),
    lambda t: t["resets"].append("no"),
    lambda t: t["resets"].append([0, 0]),
    lambda t: t.__setitem__("epochs", 0),
    lambda t: t.__setitem__("epochs", "0"),
    lambda t: t.pop("resets"),
    lambda t: t.__setitem__("finish", 99),
    lambda t: t.__setitem__("finish", 0),
    lambda t: t.__setitem__("finish", "a"),
    lambda t: t.__setitem__("more", 1),
]


@pytest.mark.parametrize("number", range(len(TRAINING_FAULTS)))
def test_a_document_that_makes_no_sense_is_refused(number, small):
    with h5py.File(small) as file:
        document = json.loads(file["graph"][()].tobytes())
    standalone.check_document(document)
    TRAINING_FAULTS[number](document["training"])
    with pytest.raises(standalone.GraphError):
        standalone.check_document(document)


@pytest.mark.parametrize("name", ["cnn", "lstm"])
def test_a_hostile_document_ends_in_an_error_of_the_readers_own(name, tmp_path):
    x, y = EXAMPLES[name][1:3]
    tk.saved_graph.save_training(made(name), tmp_path / "t.h5", (x, y))
    document, values = parts_of(tmp_path / "t.h5")
    random_, ran, model = random.Random(name), 0, made(name)
    before = state(model)
    for _ in range(40):
        write_parts(tmp_path / "m.h5", mutated_document(document, random_), values)
        try:
            standalone.TrainingFile(tmp_path / "m.h5").train({"x": x, "y": y}, 1, 20)
            ran += 1
        except ValueError:  # GraphError is one
            pass
        try:
            tk.saved_graph.load_training(tmp_path / "m.h5", model)
        except (tk.errors.CheckpointError, tk.errors.InvalidArgumentError):
            assert_same_bits(state(model), before)
        before = state(model)
    assert 0 < ran < 40
