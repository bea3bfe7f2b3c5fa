"""Configs of Keras 2, and of Keras 3's HDF5 files, in the form that Keras 3 gives to all others.

They name classes without their modules, by other names here and there, list the calls of a graph as
`[name, call, place, more]`, and have arguments that have been renamed or dropped since.
Source: the configs that Keras 2.21 (tf_keras) and Keras 3.15 write; Keras's lists of changes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from trainkit.core.errors import ConfigError
from trainkit.core.registry import FAMILIES, custom_object

OPERATIONS = "keras.src.ops.numpy"
"""The module of operations in configs; the name of the class alone says which it is."""

_RECURRENT = ("LSTM", "GRU", "SimpleRNN", "RNN", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D")
_ONE_GROUP = ("DepthwiseConv", "SeparableConv", "Conv1DTranspose", "Conv2DTranspose")
_OF_A_KERNEL = ("kernel_initializer", "kernel_regularizer", "kernel_constraint")
_OF_A_LAMBDA = ("module", "function_type", "output_shape_type", "output_shape_module")
_OF_ATTENTION = ("query_shape", "key_shape", "value_shape")
_OF_AN_OPTIMIZER = ("is_legacy_optimizer", "jit_compile")
_MODELS = ("Functional", "Model")
_ONCE_KERAS = ("tf_keras", "tensorflow")


def decoded(text: str, label: str) -> Any:
    """JSON in which Keras 2 has marked tuples.

    Args:
        text: the JSON.
        label: what errors call it.

    Raises:
        ConfigError: it is none, or nested without end.
    """
    try:
        return json.loads(text, object_hook=_mark)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{label} is no JSON: {error}") from error


def _mark(x: dict[str, Any]) -> Any:
    kind = x.get("class_name")
    if kind in ("__tuple__", "TensorShape") and isinstance(x.get("items"), list):
        return tuple(x["items"])
    if kind == "__ellipsis__" and "config" not in x:
        return Ellipsis
    return x


def is_legacy(config: Any) -> bool:
    """Whether a config is one that names its class without a module, as those of before do."""
    return isinstance(config, dict) and "class_name" in config and "module" not in config


def modern(x: Any) -> Any:
    """A config, and all configs in it, with the arguments and calls of today.

    Raises:
        ConfigError: an argument that is gone has a value that is not supported.
    """
    if isinstance(x, list | tuple):
        return type(x)(modern(item) for item in x)
    if not isinstance(x, dict):
        return x
    description = {key: modern(value) for key, value in x.items()}
    module = description.get("module")
    if isinstance(module, str) and module.partition(".")[0] in _ONCE_KERAS:
        description["module"] = "keras"
    kind, config = description.get("class_name"), description.get("config")
    if kind == "Sequential" and isinstance(config, list):  # as Keras had it before 2.2
        config = description["config"] = {"name": "sequential", "layers": config}
    if not isinstance(kind, str) or not isinstance(config, dict) or kind.startswith("__"):
        return description
    if custom_object(kind) is None:
        description["config"] = _settings(kind, config)
    if is_legacy(description) and ">" in kind:  # the package is written before the name
        description["registered_name"] = kind
        description["class_name"] = kind.rpartition(">")[2]
        if custom_object(kind) is None and kind.startswith("Custom>"):
            del description["registered_name"]
    elif is_legacy(description) and "trainable" in config:
        # An initializer is called Identity as well, and no initializer can be trained.
        description["module"] = "keras.layers"
    if "input_layers" in config and isinstance(config.get("layers"), list):
        description["config"] = modern_graph(description["config"])
    return description


# ---------------------------------------------------------------------- arguments


def _settings(kind: str, config: dict[str, Any]) -> dict[str, Any]:
    config = dict(config)
    axis = config.get("axis")
    if isinstance(axis, list | tuple) and len(axis) == 1:
        config["axis"] = int(axis[0])
    if kind == "InputLayer" and "batch_input_shape" in config:
        config["batch_shape"] = config.pop("batch_input_shape")
    for applies_to, change in _CHANGES:
        if applies_to(kind):
            change(kind, config)
    return config


def _gone(kind: str, config: dict[str, Any], name: str, *allowed: Any) -> None:
    """Leave out an argument that says what is always so now."""
    if name in config and config.pop(name) not in allowed:
        raise ConfigError(f"{kind}: {name} other than {allowed[0]!r} is no longer supported")


def _recurrent(kind: str, config: dict[str, Any]) -> None:
    _gone(kind, config, "time_major", False)


def _cell(kind: str, config: dict[str, Any]) -> None:
    config.pop("implementation", None)  # says how, and not what, is computed


def _group(kind: str, config: dict[str, Any]) -> None:
    _gone(kind, config, "groups", 1)
    if kind.startswith(("DepthwiseConv", "SeparableConv")):
        for name in _OF_A_KERNEL:
            config.pop(name, None)  # the kernels have arguments of their own


def _leaky(kind: str, config: dict[str, Any]) -> None:
    if "alpha" in config:
        config["negative_slope"] = float(config.pop("alpha"))


def _attention(kind: str, config: dict[str, Any]) -> None:
    for name in _OF_ATTENTION:
        config.pop(name, None)  # the layer builds itself
    _gone(kind, config, "softmax_robust_masking", False, None)


def _normalize(kind: str, config: dict[str, Any]) -> None:
    for name in ("virtual_batch_size", "adjustment"):
        _gone(kind, config, name, None)
    config.pop("fused", None)  # says how, and not what, is computed


def _lambda(kind: str, config: dict[str, Any]) -> None:
    function = config.get("function")
    if isinstance(function, list | tuple) and len(function) == 3:
        parts = dict(zip(("code", "defaults", "closure"), function, strict=True))
        config["function"] = {"class_name": "__lambda__", "config": parts}
    for name in _OF_A_LAMBDA:
        config.pop(name, None)


def _initializer(kind: str, config: dict[str, Any]) -> None:
    config.pop("dtype", None)  # the weight says it
    if config.get("distribution") == "normal":
        config["distribution"] = "truncated_normal"


_CHANGES: list[tuple[Callable[[str], bool], Callable[[str, dict[str, Any]], None]]] = [
    (lambda kind: kind in _RECURRENT, _recurrent),
    (lambda kind: kind in ("SimpleRNN", "SimpleRNNCell"), _cell),
    (lambda kind: kind.startswith(_ONE_GROUP) or kind == "Conv3DTranspose", _group),
    (lambda kind: kind == "LeakyReLU", _leaky),
    (lambda kind: kind == "MultiHeadAttention", _attention),
    (lambda kind: kind == "BatchNormalization", _normalize),
    (lambda kind: kind == "Lambda", _lambda),
    (
        lambda kind: (
            kind in ("Zeros", "Ones", "Constant", "VarianceScaling", "Orthogonal", "Identity")
            or kind.startswith(("Random", "Truncated", "Glorot", "He", "Lecun"))
        ),
        _initializer,
    ),
]


def modern_optimizer(config: dict[str, Any]) -> dict[str, Any]:
    """The config of an optimizer as it is today.

    Raises:
        ConfigError: it is none.
    """
    if not isinstance(config, dict) or not isinstance(config.get("config"), dict):
        raise ConfigError(f"{config!r} is no config of an optimizer")
    description = modern(config)
    settings = description["config"] = dict(description["config"])
    for name in _OF_AN_OPTIMIZER:
        settings.pop(name, None)
    if "lr" in settings:
        settings["learning_rate"] = settings.pop("lr")
    decay = settings.pop("decay", 0.0)
    if decay:
        settings["learning_rate"] = {
            "module": "keras.optimizers.schedules",
            "class_name": "InverseTimeDecay",
            "config": {
                "initial_learning_rate": settings.get("learning_rate", 0.001),
                "decay_steps": 1,
                "decay_rate": decay,
            },
        }
    return dict(description)


def modern_loss(config: Any) -> Any:
    """The config of a loss, or of several, as it is today."""
    config = modern(config)
    if isinstance(config, list | tuple):
        return [modern_loss(item) for item in config]
    if not isinstance(config, dict):
        return config
    settings = config.get("config")
    if "class_name" not in config or not isinstance(settings, dict):
        return {key: modern_loss(value) for key, value in config.items()}
    if config["class_name"] != "LossFunctionWrapper":
        settings.pop("fn", None)
    if settings.get("reduction") == "auto":
        settings["reduction"] = "sum_over_batch_size"
    return config


# ---------------------------------------------------------------------- graphs


def modern_graph(config: dict[str, Any]) -> dict[str, Any]:
    """The config of a functional model whose calls may be listed as Keras 2 lists them."""
    layers = [_operation(item) for item in config["layers"]]
    if not any(_is_listed(item) for item in layers):
        return {**config, "layers": layers}
    starts = {item["name"]: _first_call(item, layers) for item in layers}
    new = {**config, "layers": [_with_calls(item, starts) for item in layers]}
    kinds = {item["name"]: item.get("class_name") for item in layers}
    for ends in ("input_layers", "output_layers"):
        new[ends] = _ends(config[ends], starts, kinds)
    return new


def _operation(item: Any) -> Any:
    """A layer, or an operation, which HDF5 files of Keras 3 describe without its module.

    Its settings are its own alone, where nearly all layers say whether they are trainable.
    """
    if not isinstance(item, dict) or not isinstance(item.get("config"), dict):
        raise ConfigError(f"the config of a model lists {item!r}, which describes no layer")
    kind, settings = item.get("class_name"), item["config"]
    if not is_legacy(item) or not isinstance(kind, str) or custom_object(kind) is not None:
        return item
    if {"trainable", "layers"} & settings.keys() or not item.get("inbound_nodes"):
        return item
    if "dtype" in settings and kind in FAMILIES["layers"].named:
        return item
    return {**item, "module": OPERATIONS}


def _is_listed(item: dict[str, Any]) -> bool:
    nodes = item.get("inbound_nodes") or []
    return isinstance(nodes, list) and any(isinstance(node, list | tuple) for node in nodes)


def _is_place(x: Any, starts: dict[str, int]) -> bool:
    """Whether `x` names a result of a call: [name, call, place], and more in a list of inputs."""
    return (
        isinstance(x, list | tuple)
        and len(x) in (3, 4)
        and isinstance(x[0], str)
        and x[0] in starts
        and all(type(n) is int for n in x[1:3])
    )


def _first_call(item: dict[str, Any], layers: list[Any]) -> int:
    """The number of a layer's first call: 1 for models, whose drawing up counts as a call."""
    if item.get("class_name") not in (*_MODELS, "Sequential"):
        return 0
    name, calls = item["name"], len(item.get("inbound_nodes") or ())
    named = {number for other in layers for number in _calls_named(other, name)}
    if 0 in named:
        return 0
    if any(number >= calls for number in named):
        return 1
    inner = item["config"]["layers"] if isinstance(item["config"], dict) else item["config"]
    settings = inner[0].get("config") if inner else None
    has_shape = isinstance(settings, dict) and "batch_shape" in settings
    return 1 if item["class_name"] in _MODELS or has_shape else 0


def _calls_named(x: Any, name: str) -> set[int]:
    """The numbers of the calls of `name` that are named in the calls of a layer."""
    numbers: set[int] = set()
    stack: list[Any] = [x.get("inbound_nodes") if isinstance(x, dict) else None]
    while stack:
        item = stack.pop()
        if _is_place(item, {name: 0}):
            numbers.add(item[1])
        if isinstance(item, list | tuple):
            stack.extend(item)
        elif isinstance(item, dict):
            stack.extend(item.values())
    return numbers


def _with_calls(item: dict[str, Any], starts: dict[str, int]) -> dict[str, Any]:
    nodes = item.get("inbound_nodes") or []
    return {**item, "inbound_nodes": [_call(node, starts) for node in nodes]}


def _call(node: Any, starts: dict[str, int]) -> Any:
    """One call, as its arguments."""
    if isinstance(node, dict) and "args" in node:
        return node
    more: dict[str, Any] = {}
    if isinstance(node, dict):  # inputs by name
        args: Any = {key: _input(inbound, starts, more) for key, inbound in node.items()}
    elif _is_place(node, starts):
        args = _input(node, starts, more)
    else:
        args = [_input(inbound, starts, more) for inbound in node]
        args = args[0] if len(args) == 1 else args
    return {"args": [args], "kwargs": {key: _value(v, starts) for key, v in more.items()}}


def _input(inbound: Any, starts: dict[str, int], more: dict[str, Any]) -> Any:
    if isinstance(inbound, list | tuple) and len(inbound) == 4 and isinstance(inbound[3], dict):
        more.update(inbound[3])
    if isinstance(inbound, list | tuple) and len(inbound) > 2 and inbound[0] == "_CONSTANT_VALUE":
        return inbound[2]
    if not _is_place(inbound, starts):
        raise ConfigError(
            f"the config of the model calls a layer on {inbound!r}, which is no result"
        )
    name, call, index = inbound[:3]
    history = [name, call - starts[name], index]
    return {"class_name": "__keras_tensor__", "config": {"keras_history": history}}


def _value(x: Any, starts: dict[str, int]) -> Any:
    """An argument by name, in which results of other calls may be named."""
    if _is_place(x, starts) and len(x) == 3:
        return _input(x, starts, {})
    if isinstance(x, list | tuple):
        return [_value(item, starts) for item in x]
    if isinstance(x, dict) and "class_name" not in x:
        return {key: _value(item, starts) for key, item in x.items()}
    return x


def _ends(ends: Any, starts: dict[str, int], kinds: dict[str, Any], outer: bool = True) -> Any:
    """Ends of the graph, as Keras 3 counts the calls; a list of one stands for the one."""
    if _is_place(ends, starts):
        name, call, index = ends[:3]
        return [name, call - starts[name] + (1 if kinds[name] in _MODELS else 0), index]
    if isinstance(ends, dict):
        return {key: _ends(end, starts, kinds, False) for key, end in ends.items()}
    converted = [_ends(end, starts, kinds, False) for end in ends]
    return converted[0] if outer and len(converted) == 1 else converted
