"""Which variables and layers belong to a layer, in Keras's order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from trainkit.core.errors import ConfigError
from trainkit.core.trackable import (
    Trackable,
    TrackedDict,
    TrackedList,
    TrackedTuple,
    gathered_lists,
)
from trainkit.core.values.attribute_state import CHANGES
from trainkit.core.variable import Variable

_CONTAINERS = (TrackedList, TrackedDict, TrackedTuple)


def leaves(parts: Iterable[Any], inside: tuple[int, ...] = ()) -> Iterator[Any]:
    """The parts, containers replaced by what they hold; one that holds itself ends there."""
    # `inside` holds the containers on the way down and no others: one that stands in two places is
    # gone through twice, which `once` evens out, and only a true cycle ends here.
    for part in parts:
        if not isinstance(part, _CONTAINERS):
            yield part
        elif id(part) not in inside:
            yield from leaves(part.parts().values(), (*inside, id(part)))


def once(items: Iterable[Any]) -> list[Any]:
    """The items without repetitions; the first of equal ones stays."""
    # By identity: variables and tensors compare element by element.
    return list({id(item): item for item in items}.values())


def was_trainable(variable: Variable) -> bool:
    """Whether the variable is trained when its layer is not frozen."""
    return bool(variable.trainable) or variable._frozen_by_layer


def set_trainable(variable: Variable, value: bool) -> None:
    """Freeze a variable together with its layer, or undo that."""
    # What is not trained by now was frozen by itself, and stays so when its layer is thawed.
    if not value and variable.trainable:
        variable.trainable = False
        variable._frozen_by_layer = True
    elif value and variable._frozen_by_layer:
        variable.trainable = True
        variable._frozen_by_layer = False


def frozen_alone(variables: list[Variable]) -> list[int]:
    """The numbers of those that were created trainable and frozen by themselves."""
    return [
        number
        for number, variable in enumerate(variables)
        if variable._created_trainable and not was_trainable(variable)
    ]


def freeze_alone(layer: Any, numbers: Any) -> None:
    """Freeze those of a layer's weights whose numbers `frozen_alone` gave.

    Raises:
        ConfigError: something else than numbers of its weights is given; none is frozen then.
    """
    weights = layer.weights
    if not isinstance(numbers, list | tuple) or any(
        type(n) is not int or not 0 <= n < len(weights) for n in numbers
    ):
        raise ConfigError(
            f"{layer.name}: frozen_weights must list numbers below {len(weights)}, that of its "
            f"weights, got {numbers!r:.100}"
        )
    for number in numbers:
        weights[number].trainable = False


def forget_parts(layer: Any) -> None:
    """Forget what was gathered of `layer`, whose parts are others now."""
    layer.__dict__["_parts_of"] = None
    CHANGES.parts += 1


def _parts_of(layer: Any) -> tuple[list[Variable], list[Any], list[Any]]:
    """Own variables, generators and other parts of `layer`.

    They are kept until an attribute is set. While there are containers, which may grow, only the
    attributes are.
    """
    # None: an attribute was set since. A list: the attributes, some of them containers, which grow
    # without telling anybody. A tuple: all three lists, good until an attribute is set.
    cached = layer.__dict__.get("_parts_of")
    if type(cached) is not tuple:
        parts = list(Trackable.parts(layer).values()) if cached is None else cached
        flat = once(leaves(parts))
        mine = once([*layer._own, *(part for part in flat if isinstance(part, Variable))])
        # The sort is stable, so both groups keep the order in which they were made.
        own = sorted(mine, key=lambda v: not v._created_trainable)
        sources = [part for part in flat if hasattr(type(part), "_is_generator")]
        cached = own, sources, [part for part in flat if not isinstance(part, Variable)]
        may_grow = any(isinstance(part, _CONTAINERS) for part in parts)
        layer.__dict__["_parts_of"] = parts if may_grow else cached
    return cached


def own_variables(layer: Any) -> list[Variable]:
    """The variables that `layer` holds itself in the order of creation.

    Those that were created trainable come first, also those of them that are frozen now: a file,
    and what is loaded from it, have one order then.
    """
    return _parts_of(layer)[0]


def generators(layer: Any) -> list[Any]:
    """The random generators that `layer` holds itself."""
    return _parts_of(layer)[1]


def parts_without_variables(owner: Trackable) -> list[Any]:
    """What an object holds beside variables, containers replaced by what they hold.

    That of a layer is gathered once, until an attribute of it is set.
    """
    if "_parts_of" in owner.__dict__:
        return _parts_of(owner)[2]
    parts = leaves(type(owner).parts(owner).values())
    return [part for part in parts if not isinstance(part, Variable)]


def sublayers(layer: Any, kind: type) -> list[Any]:
    """The layers (instances of `kind`) among the attributes of `layer`."""
    return [part for part in _parts_of(layer)[2] if isinstance(part, kind)]


def is_metric(part: Any) -> bool:
    """Whether `part` is a metric, recognized by what it can do."""
    return all(hasattr(type(part), name) for name in ("update_state", "reset_state", "result"))


def metrics(root: Any, kind: type) -> list[Any]:
    """The metrics among the attributes of `root` and of the layers inside, each once."""
    return once(m for layer in all_layers(root, kind) for m in _parts_of(layer)[2] if is_metric(m))


def all_layers(root: Any, kind: type) -> list[Any]:
    """`root` and the layers inside, outer ones first, each once; cycles end where they close."""
    by_id: dict[int, Any] = {}
    stack = [root]
    while stack:
        layer = stack.pop()
        if id(layer) not in by_id:
            by_id[id(layer)] = layer
            # Reversed, as the stack gives the last one first: attributes come in their order.
            stack.extend(part for part in reversed(_parts_of(layer)[2]) if isinstance(part, kind))
    return list(by_id.values())


def gathered(root: Any, kind: type, with_states: bool) -> list[Variable]:
    """The variables of `root` and of the layers inside, each once.

    Args:
        root: a layer.
        kind: what counts as a layer.
        with_states: whether the states of random generators belong to them.
    """
    lists = gathered_lists(root)
    variables = lists.get(with_states)
    if variables is None:
        variables = lists[with_states] = _gather(root, kind, with_states)
    return variables.copy()


def _gather(root: Any, kind: type, with_states: bool) -> list[Variable]:
    variables: dict[int, Variable] = {}
    for layer in all_layers(root, kind):
        own, sources, _ = _parts_of(layer)
        for variable in own:
            variables.setdefault(id(variable), variable)
        # After the weights of the same layer, where Keras has them, too.
        if with_states:
            for source in sources:
                variables.setdefault(id(source.state), source.state)
    return list(variables.values())
