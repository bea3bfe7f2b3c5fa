"""PR curves, layouts, meshes, conceptual graphs and the projector's files, as TensorBoard reads."""

import json

import numpy as np
import pytest

import trainkit as tk
from trainkit import summary
from trainkit.summary.charts import pr_table
from trainkit.summary.projector import sprite_sheet, write_entries

LABELS = np.array([1, 0, 1, 1, 0, 0, 1, 0], bool)
SCORES = np.array([0.95, 0.9, 0.7, 0.5, 0.5, 0.2, 0.05, 0.0], np.float32)


def brute_force(labels, scores, weights, count):
    rows = []
    for k in range(count):
        chosen = np.floor(scores * np.float32(count - 1)) >= k
        tp, fp = weights[labels & chosen].sum(), weights[~labels & chosen].sum()
        tn, fn = weights[~labels & ~chosen].sum(), weights[labels & ~chosen].sum()
        rows.append([tp, fp, tn, fn, tp / max(tp + fp, 1e-7), tp / max(tp + fn, 1e-7)])
    return np.array(rows).T


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("count", [2, 11, 201])
def test_pr_curves_are_counted_at_each_threshold(writer, events, count, weighted):
    weights = np.arange(1.0, 9.0) if weighted else np.ones(8)
    given = weights if weighted else None
    assert summary.pr_curve("pr", LABELS, SCORES, count, given, step=4, description="of *x*")
    writer.flush()
    ((step, table),) = events().tensors("pr")
    assert step == 4
    np.testing.assert_allclose(table, brute_force(LABELS, SCORES, weights, count), rtol=1e-6)
    from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData

    metadata = events().metadata("pr")
    assert metadata.plugin_data.plugin_name == "pr_curves"
    assert PrCurvePluginData.FromString(metadata.plugin_data.content).num_thresholds == count
    assert metadata.summary_description == "of *x*"


def test_the_numbers_are_those_of_tensorboard():
    rng = np.random.default_rng(0)
    labels, scores = rng.random(1000) < 0.3, rng.random(1000).astype(np.float32)
    table = pr_table(labels.astype(np.float32), scores, np.ones(1000), 127)
    from tensorboardX.summary import compute_curve

    np.testing.assert_allclose(table, compute_curve(labels, scores, 127), rtol=1e-12)


def test_pr_curves_in_a_function(writer, events):
    @tk.function
    def evaluate(labels, scores, step):
        return summary.pr_curve("pr", labels, scores, step=step)

    for step in range(2):
        assert bool(evaluate(tk.constant(LABELS), tk.constant(SCORES), tk.constant(step)))
    with summary.record_if(False):
        assert not summary.pr_curve("pr", LABELS, SCORES, step=2)
    writer.flush()
    found = events().tensors("pr")
    assert [step for step, _ in found] == [0, 1]
    np.testing.assert_allclose(found[1][1], brute_force(LABELS, SCORES, np.ones(8), 201), rtol=1e-6)


def test_wrong_curves_are_refused(writer):
    with pytest.raises(ValueError, match="labels have shape \\(8,\\), predictions \\(7,\\)"):
        summary.pr_curve("pr", LABELS, SCORES[:7], step=0)
    with pytest.raises(ValueError, match=r"predictions go from -1\.0 to 2\.0"):
        summary.pr_curve("pr", [True, False], [-1.0, 2.0], step=0)
    with pytest.raises(ValueError, match="num_thresholds is 1"):
        summary.pr_curve("pr", LABELS, SCORES, 1, step=0)
    with pytest.raises(ValueError, match="has no step"):
        summary.pr_curve("pr", LABELS, SCORES)


def test_layouts_of_charts(writer, events):
    layout = {
        "losses": {
            "all": ["Multiline", ["loss/.*", "error"]],
            "bounds": ["Margin", ["mean", "low", "high"]],
        }
    }
    assert summary.custom_scalars(layout)
    writer.flush()
    from tensorboard.plugins.custom_scalar import layout_pb2

    ((_, content),) = events().tensors("custom_scalars__config__")
    (category,) = layout_pb2.Layout.FromString(content.item()).category
    assert category.title == "losses"
    assert list(category.chart[0].multiline.tag) == ["loss/.*", "error"]
    assert category.chart[1].margin.series[0].lower == "low"
    assert events().plugin("custom_scalars__config__") == "custom_scalars"


@pytest.mark.parametrize(
    ("chart", "words"),
    [
        (["Lines", ["a"]], "expected \\['Multiline'"),
        (["Multiline", "a"], "expected \\['Multiline'"),
        (["Margin", ["a", "b"]], "has 2 names"),
    ],
    ids=str,
)
def test_wrong_layouts_are_refused(writer, chart, words):
    with pytest.raises(ValueError, match=words):
        summary.custom_scalars({"c": {"chart": chart}})


def test_meshes(writer, events):
    corners = np.array([[[0, 0, 0], [1, 0, 0], [0, 1, 0]]], np.float64)
    faces, colors = [[[0, 1, 2]]], np.full((1, 3, 3), 200)
    config = {"material": {"cls": "PointsMaterial", "size": 0.5}}
    assert summary.mesh("m", corners, faces, colors, config, step=2, description="d")
    assert summary.mesh("cloud", corners.astype(np.float32), step=2)
    writer.flush()
    from tensorboard.plugins.mesh import metadata

    found = events()
    kinds = {"m_VERTEX": "float32", "m_FACE": "int32", "m_COLOR": "uint8"}
    for tag, dtype in kinds.items():
        ((step, array),) = found.tensors(tag)
        assert (step, array.dtype.name, array.shape[2]) == (2, dtype, 3)
        content = metadata.parse_plugin_metadata(found.metadata(tag).plugin_data.content)
        assert (content.name, list(content.shape)) == ("m", list(array.shape))
        assert content.components == 2 + 4 + 8
        assert json.loads(content.json_config) == config
    assert "cloud_FACE" not in found.tags
    with pytest.raises(ValueError, match="expected \\(meshes, points or triangles, 3\\)"):
        summary.mesh("m", corners[0], step=0)


def test_meshes_in_a_function(writer, events):
    cloud = tk.function(lambda x: summary.mesh("cloud", x * 2.0, step=1))
    assert bool(cloud(tk.ones((1, 4, 3))))
    writer.flush()
    ((_, array),) = events().tensors("cloud_VERTEX")
    np.testing.assert_array_equal(array, np.full((1, 4, 3), 2.0))


# ------------------------------------------------------------------ graphs of models


def test_conceptual_graphs(writer, events):
    x = tk.Input((4,), name="x")
    inner = tk.Sequential([tk.Input((4,)), tk.layers.Dense(4, name="inside")], name="inner")
    y = tk.layers.Add(name="plus")([x, inner(x)])
    model = tk.Model(x, tk.layers.Dense(2, name="head")(y), name="whole")
    assert summary.keras_model("model", model, step=0)
    writer.flush()
    from tensorboard.plugins.graph import keras_util

    found = events()
    assert found.metadata("model").plugin_data.content == b"1"
    assert found.plugin("model") == "graph_keras_model"
    ((_, content),) = found.tensors("model")
    graph = keras_util.keras_model_to_graph_def(json.loads(content.item()))
    inputs = {node.name: list(node.input) for node in graph.node}
    assert inputs["whole/head"] == ["whole/plus"]
    assert inputs["whole/plus"] == ["whole/x", "whole/inner/inside"]


def test_a_model_without_a_config_is_left_out(writer):
    class Own(tk.Model):
        def __init__(self, given):
            super().__init__()
            self.given = given

    with pytest.warns(UserWarning, match="conceptual graph is left out"):
        assert not summary.keras_model("model", Own(object()), step=0)


# ------------------------------------------------------------------ the projector

VECTORS = np.arange(12, dtype=np.float32).reshape(6, 2) / 7


def projector_config(folder):
    from google.protobuf import text_format
    from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

    text = (folder / "projector_config.pbtxt").read_text()
    return {e.tensor_name: e for e in text_format.Parse(text, ProjectorConfig()).embeddings}


def test_embeddings_have_labels_and_pictures(writer, tmp_path):
    pictures = np.linspace(0, 1, 6 * 3 * 4).reshape(6, 3, 4, 1)
    labels = ["a", "b\tc", "", "d", "e", 7]
    assert summary.embedding("words/all", VECTORS, 5, labels, sprites=pictures)
    entry = projector_config(tmp_path)["words/all"]
    np.testing.assert_allclose(np.loadtxt(tmp_path / entry.tensor_path), VECTORS, rtol=1e-6)
    lines = (tmp_path / entry.metadata_path).read_text().split("\n")
    assert lines == ["a", "b c", " ", "d", "e", "7", ""]
    assert list(entry.sprite.single_image_dim) == [4, 3]
    sheet = tk.io.decode_png((tmp_path / entry.sprite.image_path).read_bytes()).numpy()
    np.testing.assert_array_equal(sheet, sprite_sheet("words", pictures))
    assert sheet.shape == (9, 12, 1)
    np.testing.assert_array_equal(sheet[3:6, 4:8], (pictures[4] * 255.5).astype(np.uint8))


def test_a_later_call_takes_the_place_of_the_earlier_one(writer, tmp_path):
    for step in (1, 2):
        summary.embedding("a", VECTORS, step)
    summary.embedding('b "quoted"', VECTORS, 1, [["x", 1]] * 6, ["kind", "size"])
    found = projector_config(tmp_path)
    assert set(found) == {"a", 'b "quoted"'}
    assert found["a"].tensor_path == "a-2.tsv"
    labels = (tmp_path / found['b "quoted"'].metadata_path).read_text()
    assert labels.startswith("kind\tsize\nx\t1\n")
    write_entries(tmp_path, {})
    assert projector_config(tmp_path) == found


def test_embeddings_in_a_function(writer, tmp_path):
    f = tk.function(lambda x, step: summary.embedding("v", x, step))
    assert bool(f(tk.constant(VECTORS), tk.constant(3)))
    assert projector_config(tmp_path)["v"].tensor_path == "v-3.tsv"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"vectors": VECTORS[0]}, "expected numbers of shape"),
        ({"metadata": ["a"]}, "6 vectors and 1 labels"),
        ({"sprites": np.ones((5, 2, 2, 1))}, "6 vectors and 5 sprites"),
        ({"sprites": np.ones((6, 2, 2, 2))}, "with 1, 3 or 4 channels"),
        ({"sprites": np.ones((6, 1, 9000, 1))}, "need a picture of 27000 pixels"),
        ({"metadata": [["a", "b"]], "metadata_header": ["x"]}, "has 1 columns|has 2 columns"),
    ],
    ids=str,
)
def test_embeddings_that_do_not_fit_are_refused(writer, tmp_path, arguments, words):
    with pytest.raises(ValueError, match=words):
        summary.embedding("e", **{"vectors": VECTORS, "step": 0, **arguments})
    assert not (tmp_path / "projector_config.pbtxt").exists()


def test_nothing_is_recorded_without_a_writer(tmp_path):
    assert not summary.embedding("e", VECTORS, 0)
    assert not summary.pr_curve("p", LABELS, SCORES)
    assert not summary.mesh("m", np.ones((1, 2, 3)))
    assert not summary.custom_scalars({})
    assert not summary.keras_model("k", None)
