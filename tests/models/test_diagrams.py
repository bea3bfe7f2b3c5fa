"""Diagrams of models: the graph's boxes and arrows, and the files that come of them."""

import re
import shutil
import sys
import types

import pytest

import trainkit as tk
from trainkit import keras
from trainkit.keras import layers
from trainkit.keras.utils import model_to_dot, plot_model


def stack(name="stack"):
    first = layers.Dense(3, activation="relu", name=f"{name}_a")
    return keras.Sequential(
        [keras.Input((4,)), first, layers.Dense(2, name=f"{name}_b")], name=name
    )


def forked():
    """Two outputs, one of an operation; used by `joined` as a part."""
    x = keras.Input((2,), name="fork_in")
    return keras.Model(x, {"z": x * 2, "b": layers.Dense(2, name="fork_b")(x)}, name="fork")


def joined():
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    inner, fork = stack(), forked()
    parts = fork(inner(a))
    out = layers.Concatenate(name="join")([parts["z"], inner(b), parts["b"]])
    return keras.Model({"b": b, "a": a}, out)


class Own(keras.Model):
    def __init__(self):
        super().__init__(name="own")
        self.dense = layers.Dense(2)

    def call(self, x):
        return self.dense(x)


def arrows(model, **settings):
    """The arrows, by the names in the boxes."""
    text = model_to_dot(model, **settings).to_string()
    names = dict(re.findall(r"(layer_\d+) \[label=.*?<b>(.*?)</b>", text))
    assert len(names) == text.count("[label=")
    return {(names[a], names[b]) for a, b in re.findall(r"(\w+) -> (\w+)", text)}


def test_arrows_of_a_stack_leave_out_its_input():
    assert arrows(stack()) == {("stack_a", "stack_b")}


def test_arrows_of_a_functional_model():
    wanted = {("a", "stack"), ("b", "stack"), ("stack", "fork"), ("stack", "join")}
    assert arrows(joined()) == {*wanted, ("fork", "join")}


def test_models_inside_are_drawn_in_frames():
    model = joined()
    found = arrows(model, expand_nested=True)
    (operation,) = {b for a, b in found if a == "fork_in"} - {"fork_b"}
    assert found == {
        ("a", "stack_a"),
        ("b", "stack_a"),
        ("stack_a", "stack_b"),
        ("stack_b", "fork_in"),
        ("stack_b", "join"),
        ("fork_in", "fork_b"),
        ("fork_in", operation),
        ("fork_b", "join"),
        (operation, "join"),
    }
    text = str(model_to_dot(model, expand_nested=True))
    assert re.findall(r"subgraph (\w+) {\n.*label=<(\w+)>", text) == [
        ("cluster_1", "stack"),
        ("cluster_2", "fork"),
    ]
    assert "cluster" not in str(model_to_dot(model))
    deeper = keras.Sequential([keras.Input((4,)), keras.Sequential([stack()]), layers.ReLU()])
    assert len(arrows(deeper, expand_nested=True)) == 2


def test_a_frame_alone():
    text = str(model_to_dot(stack(), subgraph=True))
    assert text.startswith("subgraph cluster_1 {")
    assert "layer_0 -> layer_1" in text


@pytest.mark.parametrize("built", [True, False])
def test_a_subclassed_model_is_one_box(built):
    model = Own()
    if not built:
        with pytest.raises(ValueError, match="has not yet been built"):
            model_to_dot(model)
        return
    model(tk.ones((1, 3)))
    text = str(model_to_dot(model, show_shapes=True))
    assert text.count("<b>own</b> (Own)") == text.count("[label=") == 1
    assert "Output shape: <b>?</b>" in text


TOLD = {
    "show_shapes": ["Input shape: <b>(None, 4)</b>", "Output shape: <b>(None, 3)</b>"],
    "show_dtype": ["Output dtype: <b>float32</b>"],
    "show_layer_activations": ["Activation: <b>relu</b>", "Activation: <b>linear</b>"],
    "show_trainable": ["<b>Trainable</b>", "<b>Non-trainable</b>"],
    "show_layer_names": ["<b>stack_a</b> (Dense)"],
}


@pytest.mark.parametrize("setting", TOLD)
def test_what_boxes_tell(setting):
    model = stack()
    model.layers[1].trainable = False
    with_it = str(model_to_dot(model, **{"show_layer_names": False, setting: True}))
    without = str(model_to_dot(model, **{"show_layer_names": False, setting: False}))
    for words in TOLD[setting]:
        assert words in with_it
        assert words not in without


def test_several_inputs_and_outputs_are_told():
    text = str(model_to_dot(joined(), show_shapes=True))
    assert "Input shape: <b>[(None, 2), (None, 2), (None, 2)]</b>" in text
    assert "Output shape: <b>z: (None, 2), b: (None, 2)</b>" in text
    assert "<b>fork</b> (Functional)" in text


@pytest.mark.parametrize("name", ["a<b>&c", 'say "x"', "ä"])
def test_names_are_written_so_that_graphviz_reads_them(name, tmp_path):
    model = keras.Sequential([keras.Input((1,)), layers.Dense(1, name=name)])
    text = str(model_to_dot(model))
    assert f"<b>{name}</b>" not in text or name == "ä"
    plot_model(model, tmp_path / "m.dot", show_layer_names=True)
    assert (tmp_path / "m.dot").read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rankdir": "up"}, "rankdir must be one of TB, BT, LR, RL, got 'up'"),
        ({"splines": "round"}, "splines must be one of"),
        ({"dpi": 0}, "dpi must be positive"),
        ({"layer_range": ["a", "b"]}, "layer_range"),
        ({"colour": 1}, "Unrecognized keyword arguments: colour"),
    ],
)
@pytest.mark.parametrize("draw", [model_to_dot, plot_model])
def test_values_that_there_are_not(draw, settings, words):
    with pytest.raises(ValueError, match=words):
        draw(stack(), **settings)


def test_settings_of_the_whole_graph():
    text = str(model_to_dot(stack(), rankdir="LR", dpi=96, splines="curved"))
    assert 'rankdir="LR"' in text
    assert 'dpi="96"' in text
    assert 'splines="curved"' in text


def test_what_is_no_model_is_refused():
    with pytest.raises(TypeError, match="drawn of a model, got Dense"):
        model_to_dot(layers.Dense(2))


@pytest.fixture
def no_graphviz(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def notebook(monkeypatch):
    """What of IPython is there in a notebook."""
    display = types.ModuleType("IPython.display")
    display.Image = lambda filename, format: ("image", filename, format)
    display.SVG = lambda filename: ("svg", filename)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setitem(sys.modules, "IPython.core.magics.namespace", types.ModuleType("n"))


@pytest.fixture
def graphviz(monkeypatch, tmp_path):
    """A program in Graphviz's place: it gives its arguments and its input back."""
    program = tmp_path / "bin" / "dot"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\nimport sys\n"
        "if 'bad' in sys.argv[1]: sys.exit('no such format')\n"
        "sys.stdout.write(sys.argv[1] + '\\n' + sys.stdin.read())\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))


def test_without_graphviz_a_picture_is_an_error_that_says_what_to_install(no_graphviz, tmp_path):
    with pytest.raises(ImportError, match="Graphviz, whose program 'dot' is not installed"):
        plot_model(stack(), tmp_path / "m.png")
    assert not (tmp_path / "m.png").exists()
    assert plot_model(stack(), tmp_path / "m.dot") is None
    assert (tmp_path / "m.dot").read_text().startswith("digraph G {")


def test_without_graphviz_a_notebook_goes_on(no_graphviz, notebook, tmp_path, capsys):
    assert plot_model(stack(), tmp_path / "m.png") is None
    assert "Graphviz" in capsys.readouterr().out
    assert not (tmp_path / "m.png").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="programs are no scripts there")
@pytest.mark.parametrize(
    ("name", "kind"), [("m.png", "png"), ("m.svg", "svg"), ("m.pdf", "pdf"), ("m", "png")]
)
def test_pictures_are_made_of_the_text(graphviz, tmp_path, name, kind):
    model = joined()
    assert plot_model(model, tmp_path / name, show_shapes=True, rankdir="LR") is None
    text = str(model_to_dot(model, True, show_layer_names=False, rankdir="LR"))
    assert (tmp_path / name).read_text() == f"-T{kind}\n{text}"
    assert model_to_dot(model).create(prog="dot", format="svg").startswith(b"-Tsvg\n")


@pytest.mark.skipif(sys.platform == "win32", reason="programs are no scripts there")
def test_pictures_are_shown_in_a_notebook(graphviz, notebook, tmp_path):
    png, svg = str(tmp_path / "m.png"), str(tmp_path / "m.svg")
    assert plot_model(stack(), png) == ("image", png, "png")
    assert plot_model(stack(), svg) == ("svg", svg)
    assert plot_model(stack(), str(tmp_path / "m.pdf")) is None


@pytest.mark.skipif(sys.platform == "win32", reason="programs are no scripts there")
def test_a_format_that_graphviz_does_not_know(graphviz, tmp_path):
    with pytest.raises(RuntimeError, match="dot -Tbad failed: no such format"):
        plot_model(stack(), tmp_path / "m.bad")


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
@pytest.mark.parametrize("expand", [True, False])
def test_graphviz_takes_the_text(expand, tmp_path):
    model = joined()
    plot_model(model, tmp_path / "m.png", True, True, True, expand_nested=expand)
    assert (tmp_path / "m.png").read_bytes().startswith(b"\x89PNG")
    text = model_to_dot(model, expand_nested=expand).create(format="svg").decode()
    assert text.count('class="edge"') == len(arrows(model, expand_nested=expand))
    odd = keras.Sequential([keras.Input((1,)), layers.Dense(1, name="a<b>&c")], name='"say" <x>')
    outer = keras.Sequential([keras.Input((1,)), odd])
    assert b"a&lt;b&gt;&amp;c" in model_to_dot(outer, expand_nested=True).create(format="svg")
