"""`MultiOptimizer`: several optimizers, each for some of the weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from typing import Any, ClassVar, Self

from trainkit import ops
from trainkit.core.registry import deserialize_object, serialize_object
from trainkit.core.trackable import Trackable
from trainkit.core.variable import Variable
from trainkit.optimizers.base.grads_and_vars import checked_pairs, one_list, warn_of_missing
from trainkit.optimizers.base.optimizer import OPTIMIZERS, Optimizer
from trainkit.optimizers.base.slot_state import SlotState
from trainkit.optimizers.loss_scale import LossScaleOptimizer


@OPTIMIZERS.add
class OptimizerMap(MutableMapping[str, Any]):
    """Optimizers by the paths of weights.

    A key is a path, or a regular expression that has to fit a whole path, such as `"encoder/.*"`.

    Args:
        default_optimizer: for the weights that no key fits.
        optimizer_map: optimizers by key.

    Raises:
        TypeError: the default is no optimizer, or the map no dict.

    >>> from trainkit.optimizers import SGD, Adam
    >>> chosen = OptimizerMap(SGD(name="plain"), {"encoder/.*": Adam(name="first")})
    >>> chosen["encoder/kernel"].name, chosen["head/kernel"].name
    ('first', 'plain')
    """

    def __init__(
        self, default_optimizer: Optimizer, optimizer_map: dict[str, Optimizer] | None = None
    ) -> None:
        if not isinstance(default_optimizer, Optimizer):
            raise TypeError(
                f"OptimizerMap: default_optimizer must be an optimizer, got {default_optimizer!r}"
            )
        if optimizer_map is not None and not isinstance(optimizer_map, dict):
            raise TypeError(f"OptimizerMap: optimizer_map must be a dict, got {optimizer_map!r}")
        self._default_optimizer = default_optimizer
        self._optimizer_map: dict[str, Any] = {}
        for key, optimizer in (optimizer_map or {}).items():
            self[key] = optimizer

    @property
    def default_optimizer(self) -> Optimizer:
        """The optimizer of weights that no key fits."""
        return self._default_optimizer

    def __getitem__(self, key: str) -> Any:
        if key in self._optimizer_map:
            return self._optimizer_map[key]
        fitting = [pattern for pattern in self._optimizer_map if re.fullmatch(pattern, key)]
        if len(fitting) > 1:
            raise ValueError(
                f"OptimizerMap: {key!r} is fitted by several keys: {', '.join(map(repr, fitting))}"
            )
        return self._optimizer_map[fitting[0]] if fitting else self._default_optimizer

    def __setitem__(self, key: str, optimizer: Any) -> None:
        if not isinstance(key, str):
            raise ValueError(f"OptimizerMap: a key is a path or regular expression, got {key!r}")
        if key in self._optimizer_map:
            raise ValueError(
                f"OptimizerMap: {key!r} has an optimizer already, {self._optimizer_map[key]!r}"
            )
        check_inner(optimizer, f"the optimizer of {key!r}")
        self._optimizer_map[key] = optimizer

    def __delitem__(self, key: str) -> None:
        del self._optimizer_map[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._optimizer_map)

    def __len__(self) -> int:
        return len(self._optimizer_map)

    def __call__(self, variable: Variable) -> Any:
        """The optimizer of a weight."""
        return self[variable.path]

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments as plain data."""
        items = self._optimizer_map.items()
        return {
            "default_optimizer": serialize_object(self._default_optimizer),
            "optimizer_map": {key: serialize_object(optimizer) for key, optimizer in items},
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> Self:
        """A new map from what `get_config` gave.

        Args:
            config: as `get_config` gave it.
            custom_objects: further classes by name.
        """
        default = deserialize_object(config["default_optimizer"], custom_objects)
        items = config["optimizer_map"].items()
        return cls(default, {key: deserialize_object(one, custom_objects) for key, one in items})


def check_inner(optimizer: Any, what: str) -> None:
    """Raise `ValueError` unless `optimizer` is one that steps by itself."""
    if not isinstance(optimizer, Optimizer):
        raise ValueError(f"{what} must be an optimizer, got {optimizer!r}")
    if isinstance(optimizer, LossScaleOptimizer | MultiOptimizer):
        raise ValueError(
            f"{what} can't be a {type(optimizer).__name__}; a LossScaleOptimizer goes around the "
            "MultiOptimizer"
        )


class MultiOptimizer(Optimizer):
    """Several optimizers, each for some of the weights.

    Args:
        optimizer_map: an `OptimizerMap`, or a function that gives the optimizer of a weight.
        loss_scale_factor: see `OptimizerOptions`; it takes the place of that of the optimizers.
        name: what it is called.

    Attributes:
        optimizers: those that are used; there is no learning rate but theirs.

    Example:
        >>> head, body = tk.Variable(1.0, name="head"), tk.Variable(1.0, name="body")
        >>> rates = {"head": tk.optimizers.SGD(0.5), "body": tk.optimizers.SGD(0.1)}
        >>> optimizer = tk.optimizers.MultiOptimizer(lambda weight: rates[weight.name[:4]])
        >>> optimizer.apply([tk.constant(1.0), tk.constant(1.0)], [head, body])
        >>> float(head), round(float(body), 4)
        (0.5, 0.9)
    """

    sums_gradients_up: ClassVar[bool] = False

    def __init__(
        self, optimizer_map: Any, loss_scale_factor: float | None = None, name: str | None = None
    ) -> None:
        super().__init__(0.0, loss_scale_factor=loss_scale_factor, name=name)
        self.optimizers: list[Optimizer] = []
        self._optimizer_map: Callable[[Variable], Any] = optimizer_map
        self._var_to_optimizer_idx: dict[int, int] = {}
        if isinstance(optimizer_map, OptimizerMap):
            for optimizer in (*optimizer_map.values(), optimizer_map.default_optimizer):
                self._register(optimizer)

    def _register(self, optimizer: Optimizer) -> int:
        """The place of `optimizer` among all, where it is put if it is new."""
        for i, existing in enumerate(self.optimizers):
            if existing is optimizer:
                return i
        optimizer.loss_scale_factor = self.loss_scale_factor
        self.optimizers.append(optimizer)
        return len(self.optimizers) - 1

    # ------------------------------------------------------------------ what the others have

    @property
    def loss_scale_factor(self) -> float | None:
        """What the loss is multiplied and gradients are divided by, for all optimizers."""
        factor: float | None = self.__dict__.get("_loss_scale_factor")
        return factor

    @loss_scale_factor.setter
    def loss_scale_factor(self, value: float | None) -> None:
        self.__dict__["_loss_scale_factor"] = value
        for optimizer in self.__dict__.get("optimizers", ()):
            optimizer.loss_scale_factor = value

    @property
    def learning_rate(self) -> Any:
        """There is none: each of `optimizers` has its own."""
        raise AttributeError(f"{self.name} has no learning_rate; those of its optimizers have one")

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        raise AttributeError(f"{self.name} has no learning_rate; set that of one of its optimizers")

    @property
    def variables(self) -> list[Variable]:
        """The step count, then the variables of all optimizers."""
        return [self._iterations, *[v for one in self.optimizers for v in one.variables]]

    def parts(self) -> dict[str, Trackable]:
        """The step count and the optimizers."""
        return {"iterations": self._iterations, "optimizers": self.optimizers}  # type: ignore[dict-item]

    def slot_variables(self) -> list[tuple[str, Variable, Variable]]:
        """None of its own: the optimizers have them."""
        return []

    def _has_slots(self) -> bool:
        return bool(self._var_to_optimizer_idx)

    def build(
        self,
        variables: Iterable[Variable] | None = None,
        var_list: Iterable[Variable] | None = None,
    ) -> None:
        """Find the optimizer of each weight, and build it.

        Args:
            variables: the weights.
            var_list: the same, by the other name that Keras has for it.

        Raises:
            TypeError: there is not one list.
            ValueError: the map gave something else than an optimizer that steps by itself.
        """
        weights = one_list(self.name, variables, var_list)
        if self.built:
            return
        optimizers_by_weight = [self._optimizer_map(weight) for weight in weights]
        for weight, optimizer in zip(weights, optimizers_by_weight, strict=True):
            check_inner(optimizer, f"{self.name}: the optimizer of {weight.path!r}")
        indices = [self._register(optimizer) for optimizer in optimizers_by_weight]
        for i, optimizer in enumerate(self.optimizers):
            own = [weight for weight, index in zip(weights, indices, strict=True) if index == i]
            if own:
                optimizer.build(own)
        self._states.chosen = weights
        self._var_to_optimizer_idx = {
            id(w): index for w, index in zip(weights, indices, strict=True)
        }

    def keep_only(self, variables: Iterable[Variable]) -> None:
        weights = list(variables)
        super().keep_only(weights)
        for optimizer in self.optimizers:
            optimizer.keep_only(weights)
        ids = {id(weight) for weight in weights}
        index_pairs = self._var_to_optimizer_idx.items()
        self._var_to_optimizer_idx = {key: index for key, index in index_pairs if key in ids}

    def state_of(self, weight: Variable) -> SlotState:
        """What the optimizer of `weight` keeps for it."""
        if id(weight) not in self._var_to_optimizer_idx:
            return super().state_of(weight)
        return self.optimizers[self._var_to_optimizer_idx[id(weight)]].state_of(weight)

    def exclude_from_weight_decay(
        self, var_list: Iterable[Variable] | None = None, var_names: Iterable[str] | None = None
    ) -> None:
        weights, names = list(var_list or ()), list(var_names or ())
        for optimizer in self.optimizers:
            optimizer.exclude_from_weight_decay(weights, names)

    def finalize_variable_values(self, var_list: Iterable[Variable]) -> None:
        for optimizer, _, weights in self._share_out([], list(var_list)):
            optimizer.finalize_variable_values(weights)

    # ------------------------------------------------------------------ steps

    def _share_out(
        self, grads: Sequence[Any], weights: Sequence[Variable]
    ) -> list[tuple[Optimizer, list[Any], list[Variable]]]:
        """Each optimizer with its gradients and weights, but for those without any."""
        if not self.built:
            self.build(weights)
        unknown = [w.path for w in weights if id(w) not in self._var_to_optimizer_idx]
        if unknown:
            raise ValueError(
                f"{self.name}: {', '.join(unknown)} were not among the variables it was built with"
            )
        shares = []
        for i, optimizer in enumerate(self.optimizers):
            own = [
                k for k, weight in enumerate(weights) if self._var_to_optimizer_idx[id(weight)] == i
            ]
            if own:
                parts = [grads[k] for k in own] if grads else []
                shares.append((optimizer, parts, [weights[k] for k in own]))
        return shares

    def _step(self, grads: Sequence[Any], weights: Sequence[Any]) -> None:
        checked_grads, of, missing = checked_pairs(self.name, grads, weights)
        shares = self._share_out(checked_grads, of)
        if missing and self._states.is_news(missing):
            warn_of_missing(self.name, missing)
        for optimizer, own, its_weights in shares:
            optimizer._step(own, its_weights)
        self._iterations.assign_add(1)

    def _apply_where(self, grads: list[Any], weights: list[Variable], finite: Any) -> None:
        for optimizer, own, its_weights in self._share_out(grads, weights):
            optimizer._apply_where(own, its_weights, finite)
        self._iterations.assign_add(ops.cast(finite, self._iterations.dtype))

    # ------------------------------------------------------------------ configuration

    def get_config(self) -> dict[str, Any]:
        return {
            "optimizer_map": serialize_object(self._optimizer_map),
            "loss_scale_factor": self.loss_scale_factor,
            "name": self.name,
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> Self:
        """A new optimizer from what `get_config` gave; slots and step counts start afresh.

        Args:
            config: as `get_config` gave it.
            custom_objects: further classes by name.
        """
        mapping = deserialize_object(config["optimizer_map"], custom_objects)
        return cls(**{**config, "optimizer_map": mapping})
