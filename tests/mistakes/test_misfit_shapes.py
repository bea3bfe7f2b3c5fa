"""Shapes that do not fit a layer, and the like: the text names the layer and says what to do."""

import re
import warnings

import numpy as np
import pytest

import trainkit as tk

layers = tk.layers
RNG = np.random.default_rng(0)
SERIES = RNG.normal(size=(2, 5, 3)).astype("float32")


def pictures():
    return tk.Sequential(
        [tk.Input((28, 28, 1)), layers.Conv2D(4, 3), layers.Flatten(), layers.Dense(1)]
    )


def mask_of(shape):
    return np.ones(shape, bool)


LAYERS = {
    "a mask that is too long": (
        lambda: layers.LSTM(4)(SERIES, mask=mask_of((2, 7))),
        r"\(LSTM\): a mask says which steps .*\n  mask   \(2, 7\)",
    ),
    "a mask that is too short": (
        lambda: layers.SimpleRNN(4, unroll=True)(SERIES, mask=mask_of((2, 3))),
        r"mask   \(2, 3\)",
    ),
    "a mask of other sequences": (
        lambda: layers.GRU(4)(SERIES, mask=mask_of((3, 5))),
        r"\(GRU\).*\n  mask   \(3, 5\)",
    ),
    "a mask without steps": (
        lambda: layers.Bidirectional(layers.LSTM(4))(SERIES, mask=mask_of((2,))),
        r"mask   \(2,\)",
    ),
    "a mask while a model is drawn": (
        lambda: layers.LSTM(4)(tk.Input((5, 3)), mask=tk.Input((7,), dtype="bool")),
        "which steps",
    ),
    "a recurrent layer on the last step": (
        lambda: tk.Sequential([tk.Input((5, 3)), layers.LSTM(4), layers.LSTM(4)]),
        r"2\.\n.*\n.*return_sequences=True",
    ),
    "a recurrent layer on a row": (
        lambda: layers.RNN(layers.GRUCell(4))(SERIES[:, 0]),
        "axis of steps",
    ),
    "heads without steps": (
        lambda: layers.MultiHeadAttention(2, 4)(SERIES[0], SERIES[0]),
        r"'multi_head_attention\w*': attention is over the steps .* query \(5, 3\).*x\[:, None\]",
    ),
    "heads without steps, drawn": (
        lambda: layers.GroupedQueryAttention(4, 2, 1)(tk.Input((8,)), tk.Input((8,))),
        r"query \(None, 8\)",
    ),
    "attention without steps": (
        lambda: layers.Attention()([SERIES[0], SERIES[0]]),
        r"these have no steps: \(5, 3\), \(5",
    ),
    "scores without steps": (
        lambda: layers.AdditiveAttention()([SERIES[0], SERIES[0]]),
        "these have no steps",
    ),
    "one picture to predict": (
        lambda: pictures().predict(np.zeros((28, 28, 1), "float32"), verbose=0),
        r"\(None, 28, 28, 1\), it was given \(28, 28, 1\): one sample .* x\[None\]",
    ),
    "one picture for a functional model": (
        lambda: tk.Model(x := tk.Input((28, 28, 1)), layers.Flatten()(x))(np.zeros((28, 28, 1))),
        r"x\[None\]",
    ),
    "one row": (
        lambda: tk.Sequential([tk.Input((8,)), layers.Dense(1)])(np.zeros(8)),
        r"x\[None\]",
    ),
    "colours without their axis": (
        lambda: tk.Sequential([tk.Input((28, 28, 3)), layers.Flatten()])(np.zeros((5, 28, 28))),
        r"given \(5, 28, 28\)$",
    ),
    "one picture for a layer": (
        lambda: layers.Conv2D(4, 3)(np.zeros((28, 28, 1), "float32")),
        r"has 3\.\n.*\n.*x\[None\]",
    ),
    "pictures without channels for pooling": (
        lambda: layers.MaxPooling2D()(np.zeros((5, 28, 28), "float32")),
        r"x\[\.\.\., None\]",
    ),
}


@pytest.mark.parametrize("case", LAYERS)
def test_a_shape_that_does_not_fit_a_layer(case):
    call, text = LAYERS[case]
    with pytest.raises(tk.errors.InvalidArgumentError) as caught:
        call()
    assert re.search(text, str(caught.value).rpartition("\nlayer ")[0] or str(caught.value))


def test_shapes_that_only_look_like_mistakes():
    assert pictures().predict(np.zeros((5, 28, 28), "float32"), verbose=0).shape == (5, 1)
    square = tk.Sequential([tk.Input((4, 1)), layers.Flatten()])
    assert square(np.zeros((4, 4))).shape == (4, 4)  # four samples, as their last axis may miss
    assert layers.LSTM(4)(SERIES, mask=mask_of((2, 5))).shape == (2, 4)
    one_step = SERIES[:, :1]
    assert layers.MultiHeadAttention(2, 4)(one_step, one_step).shape == (2, 1, 3)


@pytest.mark.parametrize(
    ("layer", "shape", "sizes"),
    [
        (layers.Dense(10**9, name="head"), (1, 10_000), "10000, 1000000000"),
        (layers.Embedding(10**11, 100, name="head"), (1,), "100000000000, 100"),
    ],
)
def test_a_weight_without_memory_is_named(layer, shape, sizes):
    text = rf"'head'.* of shape \({sizes}\), 37,252.9 GiB .*fewer units"
    with pytest.raises(MemoryError, match=text):
        layer.build(shape)


def test_softmax_over_one_unit():
    with pytest.warns(UserWarning, match="'last' takes the softmax over 1 unit.*'sigmoid'") as told:
        layers.Dense(1, activation="softmax", name="last")
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layers.Dense(2, "softmax"), layers.Dense(1, "sigmoid"), layers.Dense(1)


def test_a_folder_that_cannot_be_written_to(tmp_path):
    model = tk.Sequential([tk.Input((2,)), layers.Dense(1)])
    (tmp_path / "notes").write_text("a file")
    (tmp_path / "runs.keras").mkdir()
    cases = {
        tmp_path / "notes" / "a.keras": model.save,
        tmp_path / "notes" / "a.weights.h5": model.save_weights,
        tmp_path / "notes" / "step": tk.train.Checkpoint(model=model).write,
    }
    for path, write in cases.items():
        with pytest.raises(OSError, match="nothing can be written into the folder") as caught:
            write(str(path))
        assert str(caught.value).endswith(repr(str(path)))
        assert ".tmp" not in str(caught.value)
        assert isinstance(caught.value, NotADirectoryError | FileExistsError)
