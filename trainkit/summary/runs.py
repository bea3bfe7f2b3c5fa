"""Summaries of a run as a whole: `graph` for its model, `hparams` for its settings."""

import hashlib
import json
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trainkit.summary.defaults import as_array, current_writer, whole_number
from trainkit.summary.protos import message_field, set_metadata, set_numbers, set_strings
from trainkit.summary.recording import record
from trainkit.summary.writer import SummaryWriter

SESSION_TAG = "_hparams_/session_start_info"
EXPERIMENT_TAG = "_hparams_/experiment"
PLUGIN_VERSION = b"1"

Setting = bool | int | float | str


def graph(graph_data: Any, step: Any = 0) -> bool:
    """Record a graph of operations, which TensorBoard draws.

    Args:
        graph_data: a GraphDef proto, such as tensorboardX's or that of a `tk.function`'s
            `graph.as_graph_def()`, one serialized to bytes, or an object with `as_graph_def()`.
        step: the step.

    Returns:
        Whether it was recorded: there is a default writer and `record_if` agrees.

    Raises:
        TypeError: `graph_data` is none of these.

    Example:
        >>> f = tk.function(lambda x: x + 1.0)
        >>> with tk.summary.create_file_writer("logs").as_default():
        ...     drawn = tk.summary.graph(f.get_concrete_function(tk.TensorSpec([2])).graph)
    """
    writer = current_writer()
    if writer is None:
        return False
    writer.add_graph(_serialize(graph_data), whole_number("graph", step))
    return True


def _serialize(graph_data: Any) -> bytes:
    if hasattr(graph_data, "as_graph_def"):
        graph_data = graph_data.as_graph_def()
    if hasattr(graph_data, "SerializeToString"):
        graph_data = graph_data.SerializeToString()
    if not isinstance(graph_data, bytes):
        raise TypeError(
            f"summary graph: graph_data is of type {type(graph_data).__name__}, expected a "
            "GraphDef proto, one serialized to bytes, or an object with as_graph_def()."
        )
    return graph_data


def keras_model(name: str, data: Any, step: Any = None) -> bool:
    """Record the layers of a model, which the page Graphs shows as its conceptual graph.

    Args:
        name: name of the graph.
        data: a model that `to_json` can describe, functional or sequential.
        step: the step; None for the default step.

    Returns:
        Whether it was recorded: there is a default writer, `record_if` agrees, and the model can
        be described; a warning says so if it can't.

    Raises:
        ValueError: there is no step.

    Example:
        >>> model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(2)])
        >>> with tk.summary.create_file_writer("logs").as_default():
        ...     bool(tk.summary.keras_model("model", model, step=0))
        True
    """
    if current_writer() is None:
        return False
    try:
        described = data.to_json()
    except Exception as error:  # layers of other kinds, which have no config
        warnings.warn(
            f"summary {name!r}: the model can't be described as JSON, so its conceptual graph is "
            f"left out: {error}",
            stacklevel=2,
        )
        return False
    return bool(record(_fill_plugin_text, name, described, step, "graph_keras_model"))


def _fill_plugin_text(value: Any, data: np.ndarray, plugin: str) -> None:
    text = data.item()
    set_strings(value, [text.encode() if isinstance(text, str) else text], [])
    set_metadata(value, plugin, PLUGIN_VERSION)


def run_graphs(name: str, graphs: Sequence[Any], step: Any) -> bool:
    """Record graphs of functions, which the page Graphs shows together under `name`."""
    writer = current_writer()
    if writer is None:
        return False
    # RunMetadata: function_graphs is field 4, pre_optimization_graph in it field 2
    inside = [message_field(4, message_field(2, _serialize(graph))) for graph in graphs]
    content = np.array(b"".join(inside), object)
    number = whole_number(name, step)
    writer.add(_fill_plugin_text, name, number, content, "graph_run_metadata_graph")
    return True


def hparams(
    hparams: Mapping[str, Setting],
    metrics: Sequence[str] = (),
    trial_id: str | None = None,
    start_time_secs: float | None = None,
) -> bool:
    """Record the settings of a run, which TensorBoard sets beside its results.

    Args:
        hparams: settings by name: bools, numbers and strings.
        metrics: names of scalars to show as results; without any, TensorBoard shows all it finds.
        trial_id: groups runs that repeat one trial; by default those of the same settings.
        start_time_secs: when the run began, in seconds since the epoch; now by default.

    Returns:
        Whether they were recorded: there is a default writer and `record_if` agrees.

    Raises:
        TypeError: a setting is of another type.

    Example:
        >>> with tk.summary.create_file_writer("logs").as_default():
        ...     recorded = tk.summary.hparams({"rate": 0.1, "units": 64})
    """
    writer = current_writer()
    if writer is None:
        return False
    settings = {name: _plain(name, setting) for name, setting in hparams.items()}
    start = time.time() if start_time_secs is None else start_time_secs
    if metrics:
        _add(writer, EXPERIMENT_TAG, _experiment(settings, metrics, start))
    _add(writer, SESSION_TAG, _session(settings, trial_id, start))
    return True


def _add(writer: SummaryWriter, tag: str, content: bytes) -> None:
    nothing = np.zeros(0, np.float32)  # readers skip a value that has no content
    writer.add(_fill_plugin, tag, 0, nothing, content)


def _fill_plugin(value: Any, data: np.ndarray, content: bytes) -> None:
    set_numbers(value, data)
    set_metadata(value, "hparams", content)


def _plain(name: str, setting: Any) -> Setting:
    """A setting as a bool, float or string of Python."""
    if isinstance(setting, str):
        return setting
    array = as_array(setting)
    if array.size != 1 or array.dtype.kind not in "biufV":
        raise TypeError(
            f"summary hparams: {name} is {setting!r}, expected a bool, a number or a string."
        )
    return bool(array.item()) if array.dtype.kind == "b" else float(array.item())


def _session(settings: Mapping[str, Setting], trial_id: str | None, start: float) -> bytes:
    from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData

    data = HParamsPluginData()
    info = data.session_start_info
    for name, setting in settings.items():
        setattr(info.hparams[name], _field(setting), setting)
    info.group_name = _trial_of(settings) if trial_id is None else trial_id
    info.start_time_secs = start
    return data.SerializeToString()


def _trial_of(settings: Mapping[str, Setting]) -> str:
    listed = json.dumps(settings, sort_keys=True).encode()
    return hashlib.sha256(listed).hexdigest()


def _field(setting: Setting) -> str:
    kinds = {bool: "bool_value", float: "number_value", str: "string_value"}
    return kinds[type(setting)]


def _experiment(settings: Mapping[str, Setting], metrics: Sequence[str], start: float) -> bytes:
    from tensorboardX.proto import api_pb2
    from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData

    data_types = {
        bool: api_pb2.DATA_TYPE_BOOL,
        float: api_pb2.DATA_TYPE_FLOAT64,
        str: api_pb2.DATA_TYPE_STRING,
    }
    data = HParamsPluginData()
    data.experiment.time_created_secs = start
    for name, setting in settings.items():
        data.experiment.hparam_infos.add(name=name, type=data_types[type(setting)])
    for metric in metrics:
        data.experiment.metric_infos.add().name.tag = metric
    return data.SerializeToString()
