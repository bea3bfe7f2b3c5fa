"""The loss that `compile` was given, for one output or for each of several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from trainkit import losses, ops
from trainkit.core import dtypes, nest
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.registry import snake_case
from trainkit.core.tensor import Tensor
from trainkit.metrics import Mean
from trainkit.models.training.outputs import (
    Path,
    aligned,
    at,
    described,
    keys_of,
    rebuilt,
    unknown_key,
)
from trainkit.ops.collective.denominators import of_all_rows
from trainkit.ops.collective.global_rows import REPLICAS

_BY_SHAPES = ("crossentropy", "ce")


class Term(NamedTuple):
    """The loss of one output.

    Attributes:
        path: where the output is in the nest of all.
        function: takes targets, outputs and sample weights; gives a scalar.
        factor: what it counts in the sum.
        name: what it is called.
    """

    path: Path
    function: Callable[..., Any]
    factor: float
    name: str


class CompiledLoss:
    """One number from all targets and outputs.

    Args:
        loss: name, function, `Loss`, or a nest of these like the outputs; a dict may leave outputs
            out, and so may `None`. What stands for a part of the outputs that is a nest itself
            gets that whole nest, of targets and of outputs; so does each item of a list for a
            dict or a tuple, and of a tuple for a list, as in `[of_all, {"a": "mse"}]`.
        weights: what each loss is multiplied by, nested as the losses or as the outputs are, or
            a flat list with one for each loss; one number for all.
        output_names: names of the model's outputs, if it knows them.
        added: called with each metric that is made, one for the loss of each of several outputs.

    Raises:
        ValueError: a name is that of no loss, or a weight is text.
    """

    def __init__(
        self,
        loss: Any,
        weights: Any = None,
        output_names: list[str] | None = None,
        added: Callable[[Any], Any] = lambda metric: None,
    ) -> None:
        self.given, self.weights, self.names, self.added = loss, weights, output_names, added
        self.trackers: list[Any] = []
        self._terms: list[Term] | None = None
        for one in nest.flatten(loss):
            if one not in _BY_SHAPES:
                losses.get(one)  # an unknown name is an error now
        for one in nest.flatten(weights):
            if isinstance(one, str):
                raise ValueError(
                    f"compile: loss_weights holds {one!r}, and takes numbers; metrics are an "
                    f"argument of their own: compile(..., metrics=[{one!r}])"
                )

    @property
    def built(self) -> bool:
        """Whether the losses have been made."""
        return self._terms is not None

    @property
    def metrics(self) -> list[Any]:
        """A `Mean` for the loss of each of several outputs."""
        return self.trackers

    def build(self, y_true: Any, y_pred: Any) -> list[Term]:
        """Make the losses for targets and outputs like these, tensors or `Spec`s."""
        if self._terms is None:
            terms = _Terms(y_true, y_pred, self.names).all(self.given, self.weights)
            entries = list(dict.fromkeys((term.path, term.name) for term in terms))
            names = _apart([f"{name}_loss" for _, name in entries])
            trackers = [Mean(name=name) for name in names] if len(entries) > 1 else []
            self._terms, self.trackers = terms, trackers
            for tracker in trackers:
                self.added(tracker)
        return self._terms

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """The weighted sum of the losses of all outputs, a scalar tensor."""
        terms = self._terms
        if terms is None or len(terms) != 1 or type(y_pred) is not Tensor:
            return self._several(y_true, y_pred, sample_weight)
        if type(y_true) in (list, tuple, dict) or type(sample_weight) in (list, tuple, dict):
            return self._several(y_true, y_pred, sample_weight)
        _, function, factor, _ = terms[0]
        value = function(y_true, y_pred, sample_weight)
        if REPLICAS:
            value = of_all_rows(function, value)
        return value if factor == 1.0 else value * factor

    def _several(self, y_true: Any, y_pred: Any, sample_weight: Any) -> Any:
        names = keys_of(y_pred, self.names)
        targets = self._targets(y_true, y_pred, names)
        terms = self.build(targets, y_pred)
        weights = sample_weight
        if nest.is_nested(sample_weight):
            weights = aligned(sample_weight, y_pred, names, "sample weights")
        total = None
        values: dict[tuple[Path, str], Any] = {}  # losses of one name at one output are one
        for path, function, factor, name in terms:
            target, output = at(targets, path), at(y_pred, path)
            if target is None:
                raise ValueError(f"the output {name!r} has a loss, but the data has no target")
            weight = at(weights, path) if nest.is_nested(weights) else weights
            value = function(target, output, weight)
            if REPLICAS:
                value = of_all_rows(function, value)
            before = values.get((path, name))
            values[path, name] = value if before is None else before + value
            value = value if factor == 1.0 else value * factor
            total = value if total is None else total + value
        if self.trackers:
            for tracker, ((path, _), value) in zip(self.trackers, values.items(), strict=True):
                tracker.update_state(value, sample_weight=batch_size(at(y_pred, path)))
        return total

    def each(self, y_true: Any, y_pred: Any) -> list[tuple[Path, Any, Any, Any]]:
        """The losses that were made: path of the output, function, its targets and its outputs."""
        targets = y_true
        if nest.is_nested(y_pred) or nest.is_nested(y_true):
            targets = self._targets(y_true, y_pred, keys_of(y_pred, self.names))
        terms = self.build(targets, y_pred)
        return [(t.path, t.function, at(targets, t.path), at(y_pred, t.path)) for t in terms]

    def _targets(self, y_true: Any, y_pred: Any, names: list[str] | None) -> Any:
        try:
            return aligned(y_true, y_pred, names, "targets")
        except ValueError:
            used = [t.path for t in self.build(None, y_pred)]
            flat = nest.flatten(y_true)
            if isinstance(y_true, dict) or len(flat) != len(used):
                raise
        # targets for the outputs with a loss alone
        leaves = dict(zip(used, flat, strict=True))
        return _nest_leaves(y_pred, (), leaves)


def _nest_leaves(like: Any, path: Path, leaves: dict[Path, Any]) -> Any:
    if isinstance(like, dict):
        keys = nest.sorted_keys(like)
        return rebuilt(like, [_nest_leaves(like[key], (*path, key), leaves) for key in keys])
    if isinstance(like, list | tuple):
        return rebuilt(like, [_nest_leaves(y, (*path, i), leaves) for i, y in enumerate(like)])
    return leaves.get(path)


def batch_size(x: Any) -> Any:
    """How many samples a batch has: a number, or a tensor where a graph does not know it."""
    if type(x) is Tensor:
        return x._array.shape[0]
    first = next(leaf for leaf in nest.flatten(x) if leaf is not None)
    size = first.shape[0]
    return ops.shape(first)[0] if size is None else size


class _Terms:
    """Makes a list of `Term`s for targets, outputs and names of the outputs."""

    def __init__(self, y_true: Any, y_pred: Any, names: list[str] | None) -> None:
        self.y_true, self.y_pred = y_true, y_pred
        flat = nest.flatten(y_pred)
        all_named = names is not None and len(names) == len(flat)
        self.names = nest.pack(y_pred, list(names or ()) if all_named else [None] * len(flat))
        self.flat_names = names if all_named else None
        self.terms: list[Term] = []

    def all(self, loss: Any, weights: Any) -> list[Term]:
        loss, weights = self._by_name(loss, "loss"), self._by_name(weights, "loss_weights")
        if not nest.is_nested(loss):
            loss = nest.map_structure(lambda _: loss, self.y_pred)
        if _is_flat(loss) and not (_by_index(loss, self.y_pred) or _of_all(loss, self.y_pred)):
            loss = self._for_each(loss, "loss")
        weights = self._factors(weights, loss)
        self._collect(loss, weights, self.y_true, self.y_pred, self.names, ())
        return self.terms

    def _by_name(self, values: Any, argument: str) -> Any:
        """A dict by the names of outputs that are a list or one tensor, as these are."""
        if not isinstance(values, dict) or isinstance(self.y_pred, dict):
            return values
        names = self.flat_names
        if names is None or not set(values) <= set(names):
            wrong = [key for key in values if key not in (names or [])]
            known_names = (
                f"are {', '.join(names)}" if names else f"have none: {described(self.y_pred)}"
            )
            raise ValueError(
                f"{argument} names the outputs {wrong}; the names of the model's {known_names}"
            )
        return nest.pack(self.y_pred, [values.get(name) for name in names])

    def _for_each(self, values: Any, argument: str) -> Any:
        """A flat list with an entry for each output, nested as the outputs are."""
        packed, count = _pack(values, self.y_pred), len(nest.flatten(self.y_pred))
        if _is_flat(values) and len(values) != count and (count > 1 or argument == "loss_weights"):
            outputs = ", ".join(self.flat_names) if self.flat_names else described(self.y_pred)
            raise ValueError(
                f"{argument} has {len(values)} entries, the model has {count} outputs: {outputs}"
            )
        return packed

    def _factors(self, weights: Any, loss: Any) -> Any:
        """The weights, nested as the losses are where there are as many, else as the outputs."""
        if not isinstance(weights, list | tuple):
            return weights
        flat = nest.flatten(weights)
        if nest.is_nested(loss) and len(flat) == len(nest.flatten(loss)):
            return nest.pack(loss, flat)
        return self._for_each(weights, "loss_weights")

    def _collect(
        self, loss: Any, weight: Any, y_true: Any, y_pred: Any, name: Any, at: Path
    ) -> None:
        if loss is None:
            return
        if nest.is_nested(y_pred) and _is_flat(loss) and len(loss) == len(nest.flatten(y_pred)):
            loss, weight = _pack(loss, y_pred), _pack(weight, y_pred)
        if not nest.is_nested(loss):
            self._add(loss, weight, y_true, y_pred, name, at)
        elif isinstance(loss, dict):
            if not isinstance(y_pred, dict):
                raise unknown_key("loss", next(iter(loss)), at, described(y_pred))
            self._check(weight, y_pred, at)
            for key, one in loss.items():
                if key not in y_pred:
                    raise unknown_key("loss", key, at, described(y_pred))
                self._inner(one, weight, y_true, y_pred, name, at, key)
        elif _by_index(loss, y_pred):
            for i in range(len(loss)):
                self._inner(loss[i], weight, y_true, y_pred, name, at, i)
        elif isinstance(y_pred, list | tuple) and not _of_all(loss, y_pred):
            raise ValueError(
                f"loss{list(at) or ''} {described(loss)} is not nested as the outputs are: "
                f"{described(y_pred)}"
            )
        else:  # several losses of one output, or of one nest of them
            for i in range(len(loss)):
                self._collect(loss[i], _part(weight, i), y_true, y_pred, name, at)

    def _inner(
        self, loss: Any, weight: Any, y_true: Any, y_pred: Any, name: Any, at: Path, key: Any
    ) -> None:
        inner = [_part(x, key) for x in (weight, y_true, y_pred, name)]
        self._collect(loss, inner[0], inner[1], inner[2], inner[3], (*at, key))

    def _check(self, weight: Any, y_pred: Any, at: Path) -> None:
        if isinstance(weight, dict):
            for key in weight:
                if key not in y_pred:
                    raise unknown_key("loss_weights", key, at, described(y_pred))

    def _add(self, loss: Any, weight: Any, y_true: Any, y_pred: Any, name: Any, at: Path) -> None:
        function = _as_loss(loss, y_true, y_pred)
        _require_numbers(function, y_true, at)
        path = list(at)
        if nest.is_nested(name):  # a loss of several outputs at once
            path = path or ["_".join(_names_in(name) or [_name_of(loss, function)])]
        elif not path or isinstance(path[-1], int):
            path[-1:] = [name if isinstance(name, str) else _name_of(loss, function)]
        if nest.is_nested(weight):
            raise ValueError(f"loss_weights{list(at) or ''} must be a number, got {weight!r}")
        factor = 1.0 if weight is None else float(weight)
        self.terms.append(Term(at, function, factor, "/".join(map(str, path))))


def _require_numbers(function: Any, y_true: Any, at: Path) -> None:
    """Refuse targets that are texts for a loss of numbers; one of the user's may take texts.

    Raises:
        InvalidArgumentError: they are.
    """
    dtype = getattr(y_true, "dtype", None)
    if dtype is not dtypes.string:
        return
    formula = getattr(function, "fn", type(function))
    if not str(getattr(formula, "__module__", "")).startswith("trainkit.losses"):
        return
    texts = y_true.numpy().ravel() if hasattr(y_true, "numpy") else []
    first = f", such as {texts[0].decode(errors='replace')!r}" if len(texts) else ""
    where = "".join(f"[{key!r}]" for key in at)
    raise InvalidArgumentError(
        f"the targets y{where} are texts{first}, and the loss {function.name!r} takes numbers: "
        "number the classes, as with classes, y = numpy.unique(y, return_inverse=True), or "
        "layers.StringLookup"
    )


def _names_in(name: Any) -> list[str]:
    """The names of the outputs of one nest; the keys of a dict, in its own order."""
    if isinstance(name, dict):
        return [str(key) for key in name]
    return [str(one) for one in nest.flatten(name) if one is not None]


def _is_flat(structure: Any) -> bool:
    """Whether it is a list or tuple without nests in it."""
    return isinstance(structure, list | tuple) and not any(map(nest.is_nested, structure))


def _pack(structure: Any, y_pred: Any) -> Any:
    """A flat list with an entry for each output nested as these are; else what was given."""
    if _is_flat(structure) and len(structure) == len(nest.flatten(y_pred)):
        return nest.pack(y_pred, list(structure))
    return structure


def _by_index(loss: Any, y_pred: Any) -> bool:
    """Whether the items of a list or tuple of losses belong to those of the outputs."""
    if not isinstance(y_pred, list | tuple) or not isinstance(loss, list | tuple):
        return False
    flat = len(nest.flatten(y_pred)) == len(loss) and _is_flat(loss)
    return len(loss) == len(y_pred) and (flat or not _of_all(loss, y_pred))


def _of_all(loss: Any, y_pred: Any) -> bool:
    """Whether each item of a list or tuple is a loss of the whole nest of outputs.

    That is so where the outputs are of another type, and a function tells that it is meant: a
    loss given by its name is one of a single output.
    """
    if not isinstance(loss, list | tuple) or not nest.is_nested(y_pred):
        return False
    kind = list if isinstance(loss, list) else type(loss) if hasattr(loss, "_fields") else tuple
    unlike = not isinstance(y_pred, kind)
    return unlike and any(callable(one) for one in loss)


def _apart(names: list[str]) -> list[str]:
    """The names, with numbers behind those that have come before."""
    unique_names: list[str] = []
    for original in names:
        name, count = original, 1
        while name in unique_names:
            name, count = f"{original}_{count}", count + 1
        unique_names.append(name)
    return unique_names


def _part(x: Any, key: Any) -> Any:
    """The part of a nest, or what stands for all its parts."""
    if isinstance(x, dict):
        return x.get(key)
    return x[key] if isinstance(x, list | tuple) else x


def _name_of(identifier: Any, function: Any) -> str:
    return identifier if isinstance(identifier, str) else str(function.name)


def _as_loss(item: Any, y_true: Any, y_pred: Any) -> Any:
    """A loss with `(y_true, y_pred, sample_weight)` that gives a scalar."""
    if isinstance(item, str) and item in _BY_SHAPES:
        item = kind_by_shapes(y_true, y_pred) + "_crossentropy"
    loss = losses.get(item)
    if isinstance(loss, losses.Loss):
        return loss
    name = item if isinstance(item, str) else getattr(loss, "__name__", type(loss).__name__)
    return losses.LossFunctionWrapper(loss, name=snake_case(name))


def kind_by_shapes(y_true: Any, y_pred: Any) -> str:
    """Which accuracy or cross-entropy is meant: binary, sparse_categorical or categorical.

    Binary if the last axis of `y_pred` has size 1, sparse if `y_true` holds class numbers.
    """
    truth, guess = tuple(y_true.shape), tuple(y_pred.shape)
    if not guess or guess[-1] == 1 or len(guess) < 2:
        return "binary"
    sparse = len(truth) < len(guess) or truth[-1] == 1
    return "sparse_categorical" if sparse else "categorical"
