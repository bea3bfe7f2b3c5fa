"""The values of a model's variables as nested dicts by path, and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.variable import Variable

_FORMATS = ("backend_tensor", "numpy_array")


def groups_of(model: Any) -> dict[str, list[Variable]]:
    """The variables of a model by what they are for."""
    optimizer = model.optimizer
    return {
        "trainable_variables": list(model.trainable_variables),
        "non_trainable_variables": list(model.non_trainable_variables),
        "optimizer_variables": [] if optimizer is None else list(optimizer.variables),
        "metrics_variables": list(model.metrics_variables),
    }


def state_tree(model: Any, value_format: str) -> dict[str, Any]:
    """The values of all variables, see `Model.get_state_tree`."""
    if value_format not in _FORMATS:
        raise InvalidArgumentError(
            f"get_state_tree: value_format must be one of {', '.join(_FORMATS)}, got "
            f"{value_format!r}"
        )
    return {
        name: _nested({path: _value(v, value_format) for path, v in _by_path(variables).items()})
        for name, variables in groups_of(model).items()
    }


def _value(variable: Variable, value_format: str) -> Any:
    return np.asarray(variable.numpy()) if value_format == "numpy_array" else variable.value()


def _by_path(variables: list[Variable]) -> dict[str, Variable]:
    by_path: dict[str, Variable] = {}
    for variable in variables:
        if variable.path in by_path:
            raise InvalidArgumentError(
                f"two variables of the model have the path {variable.path!r}, so a state tree "
                "can't hold both; give layers and other objects names of their own"
            )
        by_path[variable.path] = variable
    return by_path


def _nested(values: dict[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, value in values.items():
        *above, name = path.split("/")
        branch = tree
        for part in above:
            branch = branch.setdefault(part, {})
        branch[name] = value
    return tree


def _flat(tree: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}/")
        else:
            yield above + name, value


def set_state_tree(model: Any, tree: dict[str, Any]) -> None:
    """Take values for variables, see `Model.set_state_tree`."""
    groups = groups_of(model)
    jobs: list[tuple[Variable, Any]] = []
    for name, values in tree.items():
        if name not in groups:
            raise InvalidArgumentError(
                f"set_state_tree: there is no group {name!r}; there are {', '.join(groups)}"
            )
        by_path = {variable.path: variable for variable in groups[name]}
        for path, value in _flat(values):
            if path in by_path:
                jobs.append((by_path[path], _fitting(by_path[path], value)))
    for variable, value in jobs:
        variable.assign(value)


def _fitting(variable: Variable, value: Any) -> Any:
    array = np.asarray(value, dtype=variable.dtype.dtype)
    if not variable.shape.is_compatible_with(array.shape):
        raise ShapeError(
            f"set_state_tree: {variable.path!r} has shape {tuple(variable.shape)}, the value for "
            f"it has shape {array.shape}"
        )
    return array
