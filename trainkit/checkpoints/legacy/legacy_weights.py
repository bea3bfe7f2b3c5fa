"""Weights in Keras's HDF5 layout before `.weights.h5`, which whole models in `.h5` files have too.

A group for each layer directly in the model; its attribute `weight_names` lists the datasets in it,
trainable weights first, and the attribute `layer_names` of the group around them lists the layers.
Weights that the model holds itself are in `top_level_model_weights`, the state of an optimizer in
`optimizer_weights`, or in `optimizer_state`, which Keras does not look at: Keras 3 gives what is in
the first to an optimizer built for no weights, and the model, though read, can't be trained then.
Layers are matched by their order, or by name.
Source: the files that Keras 2.21 (tf_keras) and Keras 3.15 write.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from trainkit.checkpoints.format.reader import ArrayNode, GroupNode, SavedFile
from trainkit.checkpoints.format.regular_files import open_regular
from trainkit.checkpoints.format.writer import Entry, Group, Values
from trainkit.checkpoints.interop.keras_files import array_for_keras, problem_of, settle, shown
from trainkit.checkpoints.interop.keras_weights import Filler, optimizer_variables, own_variables
from trainkit.checkpoints.legacy.header_texts import HeaderTexts
from trainkit.checkpoints.restore.object_graph import slot_variables
from trainkit.checkpoints.restore.report import Difference
from trainkit.checkpoints.restore.restoration import IncompleteRestoreWarning, load_verified
from trainkit.core.errors import CheckpointError
from trainkit.core.trackable import Trackable
from trainkit.core.variable import Variable

MODEL, TOP = "model_weights", "top_level_model_weights"
_OPTIMIZER, _OPTIMIZER_OF_KERAS = "optimizer_state", "optimizer_weights"
_LAYERS, _NAMES = "layer_names", "weight_names"
_OF_THE_LAYOUT = ("layer_names0", "layer_names", "model_config", "keras_version")

_HEAD = {"iter", "iteration", "learning_rate"}
# What Keras 2's first optimizers, up to TensorFlow 2.10, call their slots in the names of weights.
_OLD_SLOTS = {
    "m": "momentum",
    "v": "velocity",
    "vhat": "velocity_hat",
    "momentum": "momentum",
    "rms": "velocity",
    "mg": "average_gradient",
    "accumulator": "accumulator",
}


# ---------------------------------------------------------------------- writing


def weight_entries(model: Any, facts: dict[str, str], base: str = "") -> list[Entry]:
    """What the layout has for the weights of a model.

    Args:
        model: its layers have weights.
        facts: attributes that go beside the list of layers.
        base: the group around it all.
    """
    layers = list(model.layers)
    entries: list[Entry] = []
    if base:
        entries.append(Group(base, {_LAYERS: [layer.name for layer in layers], **facts}))
    for layer in sorted(layers, key=lambda layer: str(layer.name)):
        entries += _subset(f"{base}/{layer.name}".lstrip("/"), _weights_of(layer))
    return entries + _subset(f"{base}/{TOP}".lstrip("/"), _own_of(model))


def optimizer_entries(optimizer: Trackable) -> list[Entry]:
    """What the layout has for the state of an optimizer; nothing where it has none."""
    items = optimizer_variables(optimizer)
    return _subset(_OPTIMIZER, items) if items else []


def _subset(path: str, items: Iterable[Any]) -> list[Entry]:
    items = list(items)
    names = _distinct([_name_of(item) for item in items])
    values = (
        Values(f"{path}/{name}", partial(array_for_keras, item))
        for name, item in zip(names, items, strict=True)
    )
    return [Group(path, {_NAMES: names}), *values]


def _name_of(item: Any) -> str:
    if isinstance(item, Filler):
        return "unused"
    return str(getattr(item, "path", None) or item.name).removesuffix(":0").strip("/")


def _distinct(names: list[str]) -> list[str]:
    """The names with numbers where one of them is another's, or stands for its group."""
    groups = {name[:at] for name in names for at, c in enumerate(name) if c == "/"}
    used: set[str] = set()
    distinct = []
    for name in names:
        number, free = 0, name
        while free in used or free in groups:
            number += 1
            free = f"{name}_{number}"
        used.add(free)
        distinct.append(free)
    return distinct


def _weights_of(layer: Any) -> list[Variable]:
    return [*layer.trainable_weights, *layer.non_trainable_weights]


def _own_of(model: Any) -> list[Variable]:
    weights = {id(weight) for weight in model.weights}
    return [weight for weight in own_variables(model) if id(weight) in weights]


# ---------------------------------------------------------------------- reading


def is_legacy(path: str) -> bool:
    """Whether a file that may be HDF5 says that it is of this layout.

    Raises:
        NotFoundError: there is no such file.
        CheckpointError: it is damaged.
    """
    fd = open_regular(path, "checkpoint")
    try:
        texts = HeaderTexts(fd, path)
        return any(name in _OF_THE_LAYOUT for name in texts.of(texts.root))
    except CheckpointError:
        return False  # who reads it finds out what is wrong
    finally:
        os.close(fd)


class LegacyFile:
    """A file of this layout, open for reading and checked; a context that closes it.

    Raises:
        NotFoundError: there is no such file.
        CheckpointError: it is damaged or hostile.
    """

    def __init__(self, path: str) -> None:
        self.name = path
        self.saved = SavedFile(path, foreign=True, with_lists=True)

    def __enter__(self) -> LegacyFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self.saved.close()

    def text(self, name: str) -> str | None:
        """An attribute of the root."""
        return self.saved.root.attributes.get(name)

    def weights(self) -> GroupNode:
        """The group that lists the layers.

        Raises:
            CheckpointError: there is none.
        """
        root = self.saved.root
        inner = root.children.get(MODEL)
        if _list(root, _LAYERS) is None and isinstance(inner, GroupNode):
            root = inner
        if _list(root, _LAYERS) is None:
            raise CheckpointError(f"{self.name} has no weights of a model: no list of its layers")
        return root

    def values(self, group: GroupNode) -> list[tuple[str, ArrayNode]]:
        """The weights that a group lists, by their names and in their order.

        Raises:
            CheckpointError: one of them is not there.
        """
        weights = []
        for name in _list(group, _NAMES) or ():
            node = group.find(name)
            if not isinstance(node, ArrayNode):
                raise CheckpointError(
                    f"{self.name} is damaged: '/{group.path}' lists {name!r}, which is not there"
                )
            weights.append((name, node))
        return weights

    def give(self, jobs: list[tuple[Variable, ArrayNode]]) -> None:
        """Give variables the values of their nodes, cast where the widths differ.

        Raises:
            CheckpointError: the file is damaged; nothing is changed.
        """
        self.saved.verify()
        same = [(v, node) for v, node in jobs if v.dtype == node.dtype.name]
        load_verified(self.saved, same)
        for variable, node in jobs:
            if variable.dtype != node.dtype.name:
                variable._store(self.saved.value(node).astype(variable.dtype.dtype))


def _list(group: GroupNode, name: str) -> list[str] | None:
    """A list among the attributes, which may have been split up; `None` if there is none."""
    if name in group.lists:
        return group.lists[name]
    if f"{name}0" not in group.lists:
        return None
    texts: list[str] = []
    number = 0
    while f"{name}{number}" in group.lists:
        texts += group.lists[f"{name}{number}"]
        number += 1
    return texts


def load_legacy(
    model: Any, path: str, skip_mismatch: bool = False, by_name: bool | None = False
) -> None:
    """Take the weights of a model from a file of this layout.

    Args:
        model: built.
        path: the file.
        skip_mismatch: take what fits and warn of the rest.
        by_name: match layers by their names, and leave those alone that the file does not have; by
            default the order says which is which.

    Raises:
        CheckpointMismatchError: something does not fit; nothing is changed.
        CheckpointError: the file is damaged or hostile.
    """
    with LegacyFile(path) as file:
        take_weights(model, file, skip_mismatch, bool(by_name))


def take_weights(
    model: Any, file: LegacyFile, skip_mismatch: bool = False, by_name: bool | None = None
) -> None:
    """`load_legacy` from an open file; by default by name where all names agree."""
    group = file.weights()
    match = _Matching(file)
    if by_name is None:
        listed = {name for name, node in _layer_groups(file, group) if file.values(node)}
        by_name = listed == {layer.name for layer in model.layers if _weights_of(layer)}
    pairs = (
        _pair_by_name(model, file, group) if by_name else _pair_by_order(model, file, group, match)
    )
    for layer, name, node in pairs:
        match.all(f"{layer.name} ({name!r})", _weights_of(layer), file.values(node))
    top = group.children.get(TOP)
    if isinstance(top, GroupNode):
        match.all("the model itself", _own_of(model), file.values(top))
    settle(file.name, match.differences, skip_mismatch)
    file.give(match.jobs)


class _Matching:
    """Which variable takes which value.

    Attributes:
        differences: what does not fit.
        jobs: what does.
    """

    def __init__(self, file: LegacyFile) -> None:
        self.file = file
        self.differences: list[Difference] = []
        self.jobs: list[tuple[Variable, ArrayNode]] = []

    def all(self, where: str, items: list[Variable], values: list[tuple[str, ArrayNode]]) -> None:
        """The weights of one layer, by their names, or in order where these don't tell."""
        if len(items) != len(values):
            text = f"object has {len(items)} weights, file {len(values)}"
            self.differences.append(Difference("other number", where, text))
            return
        for item, (name, node) in zip(items, _order(items, values), strict=True):
            problem = problem_of(f"{where}: {name}", item, node.shape, node.dtype)
            if problem:
                self.differences.append(problem)
            else:
                self.jobs.append((item, node))


def _order(
    items: list[Variable], values: list[tuple[str, ArrayNode]]
) -> list[tuple[str, ArrayNode]]:
    """The values in the order of the weights that have their names.

    Weights that were frozen by themselves stand last in the file, and no config tells of them: with
    the order alone, gamma and beta would change places.
    """
    names = [_last_name(_name_of(item)) for item in items]
    by_name = {_last_name(name): (name, node) for name, node in values}
    if len(by_name) < len(values) or by_name.keys() != set(names):
        return values
    return [by_name[name] for name in names]


def _last_name(path: str) -> str:
    return path.removesuffix(":0").rpartition("/")[2]


_Pairs = list[tuple[Any, str, GroupNode]]


def _pair_by_order(model: Any, file: LegacyFile, group: GroupNode, match: _Matching) -> _Pairs:
    """Layers with weights and groups with weights in turn; none if their numbers differ."""
    layers = [layer for layer in model.layers if _weights_of(layer)]
    groups = [(name, node) for name, node in _layer_groups(file, group) if file.values(node)]
    if len(layers) != len(groups):
        text = (
            f"object has {len(layers)} layers with weights "
            f"({', '.join(layer.name for layer in layers)}), "
            f"file {len(groups)} ({', '.join(name for name, _ in groups)})"
        )
        match.differences.append(Difference("other number", model.name, text))
        return []
    return [(layer, name, node) for layer, (name, node) in zip(layers, groups, strict=True)]


def _pair_by_name(model: Any, file: LegacyFile, group: GroupNode) -> _Pairs:
    """The layers that the file has a group of the same name for, with these groups."""
    groups = dict(_layer_groups(file, group))
    return [
        (layer, layer.name, groups[layer.name]) for layer in model.layers if layer.name in groups
    ]


def _layer_groups(file: LegacyFile, group: GroupNode) -> Iterator[tuple[str, GroupNode]]:
    for name in _list(group, _LAYERS) or ():
        node = group.find(name)
        if not isinstance(node, GroupNode):
            raise CheckpointError(
                f"{file.name} is damaged: it lists the layer {name!r}, which is not there"
            )
        yield name, node


# ---------------------------------------------------------------------- optimizers


def take_optimizer(optimizer: Trackable, file: LegacyFile) -> None:
    """Take the state of an optimizer whose slots are made.

    It stays new where the file's does not fit, which is said by a warning, as in Keras.
    """
    parts = file.saved.root.children
    group = parts.get(_OPTIMIZER, parts.get(_OPTIMIZER_OF_KERAS))
    if not isinstance(group, GroupNode):
        return
    values = file.values(group)
    items = _targets(optimizer, [name for name, _ in values])
    problems = [f"it has {len(items)} values, the file {len(values)}"]
    if len(items) == len(values):
        problems = [
            str(problem)
            for item, (name, node) in zip(items, values, strict=True)
            if (problem := _problem(name, item, node)) is not None
        ]
    if problems:
        warnings.warn(
            f"{file.name}: the state of the optimizer {type(optimizer).__name__} does not fit, so "
            f"it begins anew: {problems[0]}",
            IncompleteRestoreWarning,
            stacklevel=4,
        )
        return
    pairs = zip(items, values, strict=True)
    file.give([(item, node) for item, (_, node) in pairs if isinstance(item, Variable)])


def _problem(name: str, item: Any, node: ArrayNode) -> Difference | None:
    if isinstance(item, Filler):
        return None
    if tuple(item.shape) == node.shape:
        return problem_of(name, item, node.shape, node.dtype)
    return Difference("other shape", name, f"object {shown(item)}, file {node.shape}")


def _targets(optimizer: Trackable, names: list[str]) -> list[Any]:
    """The optimizer's variables in the order of the file's names."""
    items = list(optimizer_variables(optimizer))
    last = [name.removesuffix(":0").rpartition("/")[2] for name in names]
    if last and last[0] == "iter":
        return _old_targets(optimizer, items, last)
    if not any("learning_rate" in name for name in last):  # Keras 2 has it in the config alone
        rate = getattr(optimizer, "_learning_rate", None)
        items = [item for item in items if item is not rate]
    if _HEAD.issuperset(last):  # it was saved before it had slots
        return items[: len(names)]
    if not slot_variables(optimizer):  # Keras 2 keeps momenta that are not used
        items += [Filler((), "float32")] * (len(names) - len(items))
    return items


def _old_targets(optimizer: Trackable, items: list[Any], last: list[str]) -> list[Any]:
    """By the names of slots: all of one slot stand together, in the order of the weights."""
    slots: dict[str, list[Variable]] = {}
    for name, _, slot in slot_variables(optimizer):
        slots.setdefault(name, []).append(slot)
    used: dict[str, int] = {}
    targets = [items[0]]
    for name in last[1:]:
        mine = slots.get(_OLD_SLOTS.get(name, name), [])
        at = used[name] = used.get(name, -1) + 1
        if at >= len(mine):
            return []
        targets.append(mine[at])
    return targets
