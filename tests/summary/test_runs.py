"""The graph and the settings of a run, as TensorBoard reads them."""

import types

import numpy as np
import pytest
from tensorboardX.proto.graph_pb2 import GraphDef

from trainkit import summary


@pytest.fixture
def graph_def():
    graph = GraphDef()
    graph.node.add(name="x", op="Placeholder")
    graph.node.add(name="y", op="Exp", input=["x"])
    return graph


def nodes(accumulator):
    return [(node.name, node.op, list(node.input)) for node in accumulator.Graph().node]


@pytest.mark.parametrize(
    "form",
    [
        lambda g: g,
        lambda g: g.SerializeToString(),
        lambda g: types.SimpleNamespace(as_graph_def=lambda: g),
    ],
    ids=["proto", "bytes", "owner"],
)
def test_a_graph_is_read_back(writer, events, graph_def, form):
    assert summary.graph(form(graph_def))
    writer.flush()
    assert nodes(events().accumulator) == [("x", "Placeholder", []), ("y", "Exp", ["x"])]


def test_a_graph_has_a_step(writer, events, graph_def):
    summary.graph(graph_def, step=12)
    writer.flush()
    assert [event.step for event in events().raw if event.graph_def] == [12]


def test_something_else_is_no_graph(writer):
    with pytest.raises(TypeError, match="graph_data is of type dict, expected a GraphDef proto"):
        summary.graph({"x": 1})


def sessions(found):
    from tensorboard.plugins.hparams.metadata import parse_session_start_info_plugin_data as parse

    tag = "_hparams_/session_start_info"
    assert found.plugin(tag) == "hparams"
    return parse(found.metadata(tag).plugin_data.content)


def test_settings_are_read_back(writer, events):
    settings = {"lr": 1e-3, "units": np.int64(128), "nesterov": True, "optimizer": "adam"}
    assert summary.hparams(settings, start_time_secs=5.0)
    writer.flush()
    found = sessions(events())
    assert {name: value.WhichOneof("kind") for name, value in found.hparams.items()} == {
        "lr": "number_value",
        "units": "number_value",
        "nesterov": "bool_value",
        "optimizer": "string_value",
    }
    assert found.hparams["lr"].number_value == 1e-3
    assert found.hparams["units"].number_value == 128
    assert found.hparams["nesterov"].bool_value is True
    assert found.hparams["optimizer"].string_value == "adam"
    assert found.start_time_secs == 5.0


def test_runs_of_the_same_settings_are_one_trial(tmp_path, events):
    def trial(run, settings, **kwargs):
        with summary.create_file_writer(tmp_path / run).as_default():
            summary.hparams(settings, **kwargs)
        return sessions(events(tmp_path / run)).group_name

    one = trial("1", {"lr": 0.1, "units": 8})
    assert trial("2", {"units": 8, "lr": 0.1}) == one
    assert trial("3", {"lr": 0.1, "units": 9}) != one
    assert trial("4", {"lr": 0.1}, trial_id="mine") == "mine"


def test_metrics_are_listed(writer, events):
    from tensorboard.plugins.hparams.metadata import parse_experiment_plugin_data

    summary.hparams({"lr": 0.1, "on": False, "kind": "a"}, metrics=["loss", "val/accuracy"])
    writer.flush()
    content = events().metadata("_hparams_/experiment").plugin_data.content
    experiment = parse_experiment_plugin_data(content)
    assert [m.name.tag for m in experiment.metric_infos] == ["loss", "val/accuracy"]
    assert [h.name for h in experiment.hparam_infos] == ["lr", "on", "kind"]


@pytest.mark.parametrize("setting", [None, [1, 2], object(), 1j])
def test_other_settings_are_refused(writer, setting):
    with pytest.raises(TypeError, match=r"summary hparams: lr is .*, expected a bool, a number"):
        summary.hparams({"lr": setting})
