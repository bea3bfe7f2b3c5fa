"""`Model.summary`: the table and the words that Keras has."""

import re
import sys

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops

layers = tk.layers


def text_of(model, **arguments):
    found = []
    model.summary(print_fn=found.append, **{"line_length": 100, **arguments})
    (text,) = found
    return text


def cells(text):
    """The cells of the table by row; what was broken over lines is joined."""
    rows, begun = [], True
    for line in text.splitlines():
        if line.startswith(("┃", "│")):
            found = [cell.strip() for cell in line.strip("┃│").replace("┃", "│").split("│")]
            if begun:
                rows.append(found)
            else:
                rows[-1] = [f"{a} {b}".strip() for a, b in zip(rows[-1], found, strict=True)]
            begun = False
        else:
            begun = True
    return rows


def chain():
    return tk.Sequential(
        [tk.Input((8, 8, 1)), layers.Conv2D(4, 3), layers.BatchNormalization(), layers.Flatten()],
        name="chain",
    )


def branches():
    inner = tk.Sequential(
        [tk.Input((4,)), layers.Dense(5, name="a"), layers.Dense(4, name="b")], name="inner"
    )
    inner.layers[0].trainable = False
    x = tk.Input((4,), name="x")
    y = inner(x)
    shared = layers.Dense(2, name="shared")
    outputs = [shared(layers.Add(name="plus")([x, y])), shared(y)]
    return tk.Model(x, outputs, name="branches")


def test_a_chain_of_layers():
    text = text_of(chain())
    assert text.startswith('Model: "chain"\n┏━')
    assert cells(text)[0] == ["Layer (type)", "Output Shape", "Param #"]
    assert [row[1:] for row in cells(text)[1:]] == [
        ["(None, 6, 6, 4)", "40"],
        ["(None, 6, 6, 4)", "16"],
        ["(None, 144)", "0"],
    ]
    assert text.endswith(
        " Total params: 56 (224.00 B)\n"
        " Trainable params: 48 (192.00 B)\n"
        " Non-trainable params: 8 (32.00 B)"
    )


def test_the_optimizer_counts_once_it_is_built():
    model = tk.Sequential([tk.Input((4,)), layers.Dense(1)])
    model.compile("adam", "mse")
    assert "Optimizer" not in text_of(model)
    model.train_on_batch(np.ones((2, 4)), np.ones((2, 1)))
    total = 5 + 2 * 5 + 2
    assert f"Total params: {total} " in text_of(model)
    assert f"Optimizer params: {total - 5} " in text_of(model)


def test_branches_say_where_they_come_from():
    rows = {row[0]: row[1:] for row in cells(text_of(branches()))}
    assert rows["Layer (type)"] == ["Output Shape", "Param #", "Connected to"]
    assert rows["x (InputLayer)"] == ["(None, 4)", "0", "-"]
    assert rows["inner (Sequential)"] == ["(None, 4)", "49", "x[0][0]"]
    assert rows["plus (Add)"] == ["(None, 4)", "0", "x[0][0], inner[0][0]"]
    assert rows["shared (Dense)"] == ["(None, 2)", "10", "plus[0][0], inner[0][0]"]


def test_nested_layers_and_what_is_trained_are_shown_on_demand():
    assert "└ " not in text_of(branches())
    rows = {
        row[0]: row[1:]
        for row in cells(text_of(branches(), expand_nested=True, show_trainable=True))
    }
    assert rows["Layer (type)"][-1] == "Trainable"
    assert rows["inner (Sequential)"][-1] == "Y"
    assert rows["└ a (Dense)"] == ["(None, 5)", "25", "-", "N"]
    assert rows["└ b (Dense)"][-1] == "Y"
    assert rows["plus (Add)"][-1] == "-"


def test_operations_of_a_functional_model_have_rows():
    x = tk.Input((3,))
    rows = cells(text_of(tk.Model(x, ops.exp(x) + 1.0)))
    assert len(rows) == 4
    assert rows[2][1:3] == ["(None, 3)", "0"]


def test_a_range_of_layers():
    rows = cells(text_of(branches(), layer_range=["inner", "plus"]))
    assert [row[0] for row in rows[1:]] == ["inner (Sequential)", "plus (Add)"]
    assert cells(text_of(branches(), layer_range=["plu.", "x"]))[1][0] == "x (InputLayer)"
    with pytest.raises(ValueError, match="names 'no', and the layers are called x, inner"):
        text_of(branches(), layer_range=["no", "plus"])
    with pytest.raises(ValueError, match="must be two names"):
        text_of(branches(), layer_range="plus")


def test_layers_that_are_not_built_or_were_never_drawn_up():
    text = text_of(tk.Sequential([layers.Dense(3, name="d")], name="later"))
    assert cells(text)[1] == ["d (Dense)", "?", "0 (unbuilt)"]
    assert "not built yet" in text

    class Own(tk.Model):
        def __init__(self):
            super().__init__()
            self.inside = layers.Dense(3, name="d")

        def call(self, x):
            return self.inside(x)

    model = Own()
    model(np.ones((2, 4), np.float32))
    assert cells(text_of(model))[1] == ["d (Dense)", "(2, 3)", "15"]


@pytest.mark.parametrize("length", [60, 79, 80, 132])
def test_lines_are_as_long_as_asked(length):
    text = text_of(branches(), line_length=length, expand_nested=True, show_trainable=True)
    table = [line for line in text.splitlines() if not line.startswith((" ", "Model"))]
    assert max(map(len, table)) == min(map(len, table))
    assert length - 2 <= len(table[0]) <= length
    for name in ("batch_normalization", "plus (Add)", "shared (Dense)"):
        joined = "".join(row[0] for row in cells(text))
        assert name.replace(" ", "") in joined.replace(" ", "") or name.startswith("batch")


def test_positions_are_where_columns_end():
    table = text_of(chain(), positions=[30, 60, 80]).splitlines()
    assert [i for i, c in enumerate(table[2]) if c == "┃"] == [0, 30, 60, 80]
    table = text_of(chain(), positions=[0.5, 0.7, 1.0], line_length=101).splitlines()
    assert [i for i, c in enumerate(table[2]) if c == "┃"] == [0, 50, 70, 100]
    with pytest.raises(ValueError, match="positions has 2 numbers, the table has 3 columns"):
        text_of(chain(), positions=[0.5, 1.0])
    with pytest.raises(ValueError, match="too few"):
        text_of(chain(), line_length=12)


def test_a_stream_without_lines_gets_plain_characters(monkeypatch, capsys):
    class Ascii:
        encoding = "ascii"

        def write(self, text):
            text.encode("ascii")

        def flush(self):
            pass

    monkeypatch.setattr(sys, "stdout", Ascii())
    chain().summary()


def test_a_comma_never_begins_a_line():
    inside = tk.Input((3,), name="input_layer")
    merged = tk.layers.Add(name="sum")([inside, tk.layers.Dense(3, name="dense")(inside)])
    lines = []
    tk.Model(inside, merged).summary(print_fn=lines.append, line_length=75)
    cells = [cell.strip() for line in lines[0].splitlines() for cell in line.split("│")]
    assert "input_layer[0][0]" in cells
    assert "dense[0][0]" in cells
    assert not any(cell.startswith(",") for cell in cells)


@pytest.mark.parametrize("columns", [20, 40, 60, 90])
@pytest.mark.parametrize("trainable", [False, True])
def test_narrow_terminals_break_names_between_their_words(monkeypatch, columns, trainable):
    monkeypatch.setenv("COLUMNS", str(columns))
    names = ["max_pooling2d", "global_average_pooling2d", "normalization_of_features"]
    model = tk.Sequential(
        [
            tk.Input((28, 28, 1)),
            tk.layers.MaxPooling2D(name=names[0]),
            tk.layers.GlobalAveragePooling2D(name=names[1]),
            tk.layers.BatchNormalization(name=names[2]),
        ]
    )
    lines = []
    model.summary(print_fn=lines.append, show_trainable=trainable)
    table = [line for line in "\n".join(lines).splitlines() if line[0] in "│┃|"]
    assert len({len(line) for line in table}) == 1
    if not trainable and columns >= 40:
        assert len(table[0]) <= columns
    cells = "".join(re.split(r"[│┃|]", line)[1].strip() for line in table).replace(" ", "")
    for name, kind in zip(names, ("MaxPooling2D", "GlobalAveragePooling2D"), strict=False):
        assert f"{name}({kind})" in cells
    if columns >= 40 and not trainable:
        parts = {part for line in table for part in re.split(r"[│┃|]", line)[1].split()}
        whole = re.compile(r"(?<=_)(?=[^_])|(?<=[a-z])(?=[A-Z])|(?=\()")
        known = {
            piece
            for name in [
                *names,
                "(MaxPooling2D)",
                "(GlobalAveragePooling2D)",
                "(BatchNormalization)",
                "Layer",
                "(type)",
            ]
            for piece in whole.split(name)
        }
        assert {piece for part in parts for piece in whole.split(part)} <= known
