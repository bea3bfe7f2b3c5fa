"""Keras 3's own layout of weights: which path each variable of a model has in a `.weights.h5`.

A layer's own variables are `PATH/vars/0`, `PATH/vars/1` ..., those created trainable first. The
layers of a Sequential or Functional model are `layers/CLASS_NAME`, with `_1`, `_2` ... for further
ones of the class; other layers go by the attribute that holds them, in alphabetical order and
private ones last, those in lists and dicts by class name again. An optimizer's variables are
`optimizer/vars/0` ... . An object is stored where it is met first.
Source: the files that Keras 3.15 writes.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainkit.checkpoints.restore.object_graph import has_slots, slot_variables
from trainkit.core.dtypes import as_dtype
from trainkit.core.trackable import Trackable, TrackedDict, TrackedList, TrackedTuple
from trainkit.core.variable import OVERWRITTEN, Variable

_UNWALKED = ("metrics", "layers", "weights", "variables", "losses")
_CONTAINERS = (TrackedList, TrackedDict, TrackedTuple)

_FIRST = ("average", "accumulated_gradient")
SCALED = "inner_optimizer"


@dataclass(frozen=True)
class Filler:
    """A value that Keras stores and nobody uses."""

    shape: tuple[int, ...]
    dtype: str

    def _host_view(self) -> Any:
        """Zeros."""
        return np.zeros(self.shape, as_dtype(self.dtype).dtype)


Item = Variable | Filler


@dataclass
class Saveable:
    """An object with a place in Keras's layout.

    Attributes:
        part: the object.
        path: the group, without `/vars`.
        name: its name, or None.
        variables: its own ones, in the order of their numbers, with fillers where Keras has such.
        optional: whether a file may lack it.
        others: further paths that lead to it.
    """

    part: Trackable
    path: str
    name: str | None
    variables: Sequence[Item] = ()
    optional: bool = False
    others: list[str] = field(default_factory=list)

    @property
    def base(self) -> str:
        """The group of the values."""
        return f"{self.path}/vars" if self.path else "vars"

    def items(self) -> Iterator[tuple[str, Item]]:
        """Each variable with its path."""
        for number, variable in enumerate(self.variables):
            yield f"{self.base}/{number}", variable


def layout(model: Trackable, skipped: Iterable[Any] = ()) -> list[Saveable]:
    """All that Keras would store of `model`, parents first.

    Args:
        model: the objects.
        skipped: objects that are left out, with all below them.
    """
    traversal = _StateTraversal(skipped)
    traversal.visit(model, "")
    return traversal.found


def overrides(part: Any, method: str) -> bool:
    """Whether the class of `part`, or a base of it outside of this package, has its own method."""
    if getattr(type(part), "_stores_itself", False):
        return True
    first = next((base for base in type(part).__mro__ if method in base.__dict__), None)
    return first is not None and not first.__module__.startswith("trainkit.")


class _StateTraversal:
    def __init__(self, skipped: Iterable[Any] = ()) -> None:
        self.found: list[Saveable] = []
        self._positions: dict[str, int] = {}
        self._names_by_part: dict[int, str | None] = {id(part): None for part in skipped}

    def visit(self, part: Trackable, path: str) -> None:
        if id(part) in self._names_by_part:
            self._also(self._names_by_part[id(part)], path)
            return
        self._names_by_part[id(part)] = path
        self._positions.setdefault(path, len(self.found))
        name = getattr(part, "name", None)
        name = name if isinstance(name, str) else None
        if has_slots(part):
            scaled = path.endswith(SCALED)
            items = optimizer_variables(part, scaled)
            self.found.append(Saveable(part, path, name, items, True))
            self._inner_optimizers(part, path)
            return
        self.found.append(Saveable(part, path, name, own_variables(part)))
        names = getattr(type(part), "_names_in_keras", {})
        for child_name, child in _children(part):
            below = f"{path}/{names.get(child_name, child_name)}".lstrip("/")
            if isinstance(child, _CONTAINERS):
                self._container(child, below, set())
            else:
                self.visit(child, below)
            if child_name in names:  # files of before have it under the attribute here
                self._also(below, f"{path}/{child_name}".lstrip("/"))

    def _inner_optimizers(self, optimizer: Trackable, path: str) -> None:
        """The optimizers inside one, whose values Keras stores with its own and by themselves."""
        parts = type(optimizer).parts(optimizer)
        if "inner_optimizer" in parts:
            self.visit(parts["inner_optimizer"], f"{path}/{SCALED}".lstrip("/"))
        if "optimizers" in parts:
            self._container(parts["optimizers"], f"{path}/optimizers".lstrip("/"), set())

    def _also(self, first_path: str | None, path: str) -> None:
        """Note that what is at `first_path`, and all below it, is at `path` too."""
        if not first_path or first_path not in self._positions:
            return
        # depth first, what is below a path comes right behind it
        for item in itertools.islice(self.found, self._positions[first_path], None):
            if item.path != first_path and not item.path.startswith(f"{first_path}/"):
                return
            item.others.append(path + item.path[len(first_path) :])

    def _container(self, container: Trackable, path: str, open_ones: set[int]) -> None:
        if id(container) in open_ones:
            return
        open_ones.add(id(container))
        self._positions.setdefault(path, len(self.found))
        used: dict[str, int] = {}
        for item in type(container).parts(container).values():
            if isinstance(item, _CONTAINERS):
                self._container(item, f"{path}/{_unique('container', used)}", open_ones)
            elif not isinstance(item, Variable) and not _is_generator(item):
                self.visit(item, f"{path}/{_unique(class_name(item), used)}")


def _children(part: Trackable) -> Iterator[tuple[str, Trackable]]:
    """What Keras goes on to from `part`, in its order, with the names that it uses."""
    layers = _listed_layers(part)
    if layers is not None:
        yield "layers", TrackedList(layers)
    is_model = callable(getattr(part, "compile", None))
    children = {**dict(type(part).parts(part)), **_by_properties(part)}
    if is_model and layers is None:  # of a subclass Keras sees the property among the attributes
        children["layers"] = TrackedList(part.layers)  # type: ignore[attr-defined]
    for name in sorted(children, key=lambda name: ("~" if name.startswith("_") else "") + name):
        child = children[name]
        if isinstance(child, Variable) or _is_generator(child) or (is_model and _is_metric(child)):
            continue
        if hasattr(type(child), "_is_sequence_state"):  # its batch size is no model's business
            continue
        yield name, child


def _by_properties(part: Trackable) -> dict[str, Trackable]:
    """What the properties of a class outside of this package give, as Keras visits these too."""
    children = {}
    for kind in type(part).__mro__:
        if kind.__module__.startswith("trainkit."):
            break
        for name, value in vars(kind).items():
            if isinstance(value, property) and name not in _UNWALKED:
                with contextlib.suppress(Exception):  # a property may want what is not there yet
                    child = getattr(part, name)
                    if isinstance(child, Trackable):
                        children[name] = child
    return children


def _listed_layers(part: Trackable) -> list[Any] | None:
    """The layers of a Sequential or Functional model, None for other objects."""
    if kind_of_model(part) is None:
        return None
    return list(part.layers)  # type: ignore[attr-defined]


def kind_of_model(part: Trackable) -> str | None:
    """`"sequential"` or `"functional"` for models of these kinds, None for other objects."""
    names = {kind.__name__ for kind in type(part).__mro__}
    if "Sequential" in names:
        return "sequential"
    if "Functional" in names or getattr(part, "_graph", None) is not None:
        return "functional"
    return None


def own_variables(part: Trackable) -> list[Variable]:
    """The variables that `part` holds itself: those created trainable, then the others."""
    variables = [*getattr(part, "_own", ()), *_find_variables(type(part).parts(part).values())]
    mine = list({id(v): v for v in variables}.values())
    return sorted(mine, key=lambda v: not v._created_trainable)


def _find_variables(parts: Any, inside: tuple[int, ...] = ()) -> Iterator[Variable]:
    """The variables among the parts and in their containers, which may hold themselves."""
    for part in parts:
        if isinstance(part, Variable):
            yield part
        elif isinstance(part, _CONTAINERS) and id(part) not in inside:
            yield from _find_variables(part.parts().values(), (*inside, id(part)))


def optimizer_variables(optimizer: Any, scaled: bool = False) -> list[Item]:
    """An optimizer's variables in Keras's order: step, rate, averages, slots, other numbers.

    Args:
        optimizer: with its slots, if it has them yet.
        scaled: whether it is inside of a `LossScaleOptimizer`, where Keras's don't keep what they
            hold outside of slots: the numbers of `counters`, and what Adafactor does not use.
    """
    parts = type(optimizer).parts(optimizer)
    if "inner_optimizer" in parts:
        wrapper = [*_NEVER_CHANGED, parts["step_counter"], parts["dynamic_scale"]]
        return [*wrapper, *optimizer_variables(parts["inner_optimizer"], True)]
    if "optimizers" in parts:
        inner = [v for one in parts["optimizers"] for v in optimizer_variables(one)]
        return [parts["iterations"], _NEVER_CHANGED[1], *inner]
    own = {name: p for name, p in parts.items() if isinstance(p, Variable)}
    head = [own.pop(name) for name in ("iterations", "learning_rate") if name in own]
    # Keras makes no slots for weights that become their gradients.
    slots = [item for item in slot_variables(optimizer) if id(item[1]) not in OVERWRITTEN]
    head += [slot for first in _FIRST for name, _, slot in slots if name == first]
    slots = [item for item in slots if item[0] not in _FIRST]
    if type(optimizer).__name__ == "Adafactor":
        factored = _factor(slots)
        unused = Filler((), "int32")
        return [*head, *(item for item in factored if not (scaled and item == unused))]
    names = [name for name, _, _ in slots]
    groups = optimizer.slot_groups
    other_names = tuple(
        name for name in dict.fromkeys(names) if not any(name in group for group in groups)
    )
    ordered = [s for group in [*groups, other_names] for name, _, s in slots if name in group]
    return [*head, *ordered, *(() if scaled else own.values())]


# Step and rate that an optimizer around others has by itself, and never changes.
_NEVER_CHANGED = (Filler((), "int64"), Filler((), "float32"))


def _factor(slots: list[tuple[str, Any, Any]]) -> Iterator[Item]:
    """Adafactor's slots: row means, column means and velocity of each weight, in use or not."""
    by_weight: dict[int, tuple[Any, dict[str, Any]]] = {}
    for name, weight, slot in slots:
        by_weight.setdefault(id(weight), (weight, {}))[1][name] = slot
    for weight, slots_by_name in by_weight.values():
        yield slots_by_name.get("r", Filler((), "int32"))
        yield slots_by_name.get("c", Filler((), "int32"))
        yield slots_by_name.get("v", Filler(tuple(weight.shape), weight.dtype.name))


def class_name(part: Trackable) -> str:
    """The class of `part` in snake case, as Keras puts it into paths."""
    return kind_of_builtin(part) or snake_case(type(part).__name__)


def kind_of_builtin(part: Trackable) -> str | None:
    """The Keras class of a model that is drawn up by hand or from symbols; None for subclasses."""
    kind = kind_of_model(part)
    return kind if type(part).__name__ in ("Model", "Sequential", "Functional") else None


@functools.cache
def snake_case(name: str) -> str:
    """`"MaxPooling2D"` as `"max_pooling2d"`."""
    name = re.sub(r"\W+", "", name)
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()


def _unique(name: str, used: dict[str, int]) -> str:
    count = used[name] = used.get(name, -1) + 1
    return f"{name}_{count}" if count else name


def _is_generator(part: Any) -> bool:
    return hasattr(type(part), "_is_generator")


def _is_metric(part: Any, inside: tuple[int, ...] = ()) -> bool:
    if isinstance(part, _CONTAINERS):
        items = part.parts().values()
        inside = (*inside, id(part))
        return bool(items) and all(
            id(item) not in inside and _is_metric(item, inside) for item in items
        )
    return callable(getattr(part, "update_state", None)) and callable(getattr(part, "result", None))
