"""`WeightHolder`: the half of a layer that is its tree of weights and losses."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from trainkit.core.errors import ShapeError
from trainkit.core.trackable import Trackable, set_silently, tracked
from trainkit.core.values.attribute_state import CHANGES
from trainkit.core.variable import Variable
from trainkit.layers.base import tracking
from trainkit.layers.base.tracking import forget_parts
from trainkit.layers.base.weight_arguments import follow_policy

# What a copy works out anew, or must not take along: symbols of a call lead to the whole model that
# was drawn up with it, and losses to the tensors of a call.
_UNCOPIED = (
    "_facts",
    "_gathered",
    "_losses",
    "_parts_of",
    "_symbolic_call",
    "_pending_restore",
    "_repeated_calls",
)
# Lists and dicts that are no containers of parts, and are put back as they are.
_PLAIN = ("_init_arguments", "_own", "_losses", "_build_shapes")


class StateLock:
    """Whether a layer may still be given weights and layers: not once it is built."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer

    @property
    def locked(self) -> bool:
        """Whether the layer takes no more."""
        return bool(self._layer.__dict__.get("_locked"))

    def lock(self, msg: str | None = None) -> None:
        """Let the layer take no more; the text of the error is always the same."""
        set_silently(self._layer, _locked=True)

    def unlock(self) -> None:
        """Let the layer take weights and layers again."""
        set_silently(self._layer, _locked=False)


def check_unlocked(layer: Any) -> None:
    """Refuse weights and layers that come too late: `fit` and checkpoints would not know of them.

    Raises:
        ValueError: the layer is built.
    """
    if layer.__dict__.get("_locked"):
        raise ValueError(
            f"layer {layer.name!r} ({type(layer).__name__}) is built, so it can't be given new "
            "weights or layers any more; make them in __init__ or build"
        )


class WeightHolder(Trackable):
    """What a layer, and a model, is to optimizers and checkpoints."""

    _untracked = frozenset({"_init_arguments", "_own", "_losses", "_pending_restore", "input_spec"})
    name: str
    built: bool
    _trainable: bool
    _own: list[Variable]
    _losses: list[Any]
    _quantization: ClassVar[Any]
    _locks = True  # whether building it ends the time in which it may be given weights

    # ------------------------------------------------------------------ weights

    @property
    def weights(self) -> list[Variable]:
        """All weights: the own ones, trainable first, then those of the layers inside."""
        return tracking.gathered(self, WeightHolder, False)

    @property
    def variables(self) -> list[Variable]:
        """All weights and the states of random generators."""
        return tracking.gathered(self, WeightHolder, True)

    def _flatten_layers(self, include_self: bool = True, recursive: bool = True) -> list[Any]:
        """This layer and those inside, as Keras lists them for programs that traverse models."""
        if recursive:
            layers = tracking.all_layers(self, WeightHolder)
        else:
            layers = [self, *tracking.sublayers(self, WeightHolder)]
        return layers if include_self else layers[1:]

    @property
    def trainable_weights(self) -> list[Variable]:
        """The weights that optimizers train; none while the layer is frozen."""
        return [w for w in self.weights if w.trainable] if self._trainable else []

    @property
    def non_trainable_weights(self) -> list[Variable]:
        """The weights that optimizers leave alone; all of them while the layer is frozen."""
        return [w for w in self.weights if not w.trainable] if self._trainable else self.weights

    @property
    def trainable_variables(self) -> list[Variable]:
        """The variables that optimizers train; none while the layer is frozen."""
        return [v for v in self.variables if v.trainable] if self._trainable else []

    @property
    def non_trainable_variables(self) -> list[Variable]:
        """The variables that optimizers leave alone; all of them while the layer is frozen."""
        return [v for v in self.variables if not v.trainable] if self._trainable else self.variables

    @property
    def trainable(self) -> bool:
        """Whether the weights are trained; setting it does so for all layers inside as well."""
        return self._trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        # Compiled steps have the list of trained variables in them, and ask this number for
        # changes.
        CHANGES.trainable += 1
        for layer in tracking.all_layers(self, WeightHolder):
            set_silently(layer, _trainable=bool(value))
            for variable in tracking.own_variables(layer):
                tracking.set_trainable(variable, bool(value))

    def get_weights(self) -> list[np.ndarray]:
        """Copies of the weights as NumPy arrays, in the order of `weights`."""
        return [w.numpy() for w in self.weights]

    def set_weights(self, weights: Any) -> None:
        """Replace all weights.

        Args:
            weights: arrays in the order of `weights`.

        Raises:
            ValueError: the number of arrays or a shape differs; no weight is changed then.
        """
        mine, arrays = self.weights, [np.asarray(w) for w in weights]
        if len(mine) != len(arrays):
            hint = "" if self.built else "; it makes its weights when it is built or first called"
            raise ValueError(
                f"layer {self.name!r} has {len(mine)} weights, {len(arrays)} arrays were "
                f"given{hint}"
            )
        # All are looked at before the first is assigned, so that a wrong one changes nothing.
        for w, array in zip(mine, arrays, strict=True):
            if not w.shape.is_compatible_with(array.shape):
                raise ShapeError(
                    f"layer {self.name!r}: weight {w._name!r} has shape {tuple(w.shape)}, the "
                    f"array for it has shape {array.shape}"
                )
        for w, array in zip(mine, arrays, strict=True):
            w.assign(array)

    @property
    def metrics(self) -> list[Any]:
        """The metrics that are attributes of this layer and of the layers inside."""
        return tracking.metrics(self, WeightHolder)

    @property
    def metrics_variables(self) -> list[Variable]:
        """The variables of `metrics`."""
        return [variable for metric in self.metrics for variable in metric.variables]

    def count_params(self) -> int:
        """The number of scalars in all weights.

        Raises:
            ValueError: the layer is not built yet.
        """
        if not self.built and not self.weights:
            raise ValueError(
                f"layer {self.name!r} has no weights to count yet: build or call it first"
            )
        return sum(int(w.size) for w in self.weights)

    def save_own_variables(self, store: Any) -> None:
        """Put the variables that this layer holds itself into a dict; override it for others.

        Args:
            store: is given arrays by name: `"0"`, `"1"` ..., the trainable variables first.
        """
        for number, variable in enumerate(tracking.own_variables(self)):
            store[str(number)] = variable.numpy()

    def load_own_variables(self, store: Any) -> None:
        """Take the variables that this layer holds itself from what `save_own_variables` made.

        Raises:
            ValueError: it has more or fewer, or one of another shape; nothing is changed then.
        """
        mine = tracking.own_variables(self)
        if len(store.keys()) != len(mine):
            hint = "" if self.built else "; it makes its weights when it is built or first called"
            raise ValueError(
                f"layer {self.name!r} has {len(mine)} variables of its own, the file has "
                f"{len(store.keys())} for it{hint}"
            )
        # All are read and compared before the first is assigned: a file may be damaged at its end.
        values = [np.asarray(store[str(number)]) for number in range(len(mine))]
        for variable, value in zip(mine, values, strict=True):
            if not variable.shape.is_compatible_with(value.shape):
                raise ShapeError(
                    f"layer {self.name!r}: {variable._name!r} has shape {tuple(variable.shape)}, "
                    f"the file has shape {value.shape}"
                )
        for variable, value in zip(mine, values, strict=True):
            variable.assign(value.astype(variable.dtype.dtype))

    # ------------------------------------------------------------------ losses

    @property
    def losses(self) -> list[Any]:
        """Scalar losses: those of the last call and those of weight regularizers."""
        penalties = [w.regularizer(w) for w in self.trainable_weights if w.regularizer is not None]
        return self._call_losses() + penalties

    def _call_losses(self) -> list[Any]:
        layers = tracking.all_layers(self, WeightHolder)
        return tracking.once(loss for layer in layers for loss in layer._losses)

    def _clear_losses(self) -> None:
        for layer in tracking.all_layers(self, WeightHolder):
            layer.__dict__["_losses_held"] = False
            layer._losses.clear()

    # ------------------------------------------------------------------ attributes and parts

    def __setattr__(self, name: str, value: Any) -> None:
        # Any attribute can be a part, so what was gathered is forgotten first: a failure further
        # down then costs a search, not a stale list.
        self.__dict__["_parts_of"] = None
        old = self.__dict__.get(name)
        if self.__dict__.get("_locked") and isinstance(value, Variable | WeightHolder):
            self._check_known(value)
        # The short way through `__call__` rests on checks against these two.
        if name in ("input_spec", "dtype_policy"):
            self.__dict__["_ready_shape"] = None
        if name == "dtype_policy":
            value = self._quantization.policy_for(self, value)
        Trackable.__setattr__(self, name, value)
        CHANGES.note(value)
        if name == "dtype_policy":
            for variable in self._own:
                follow_policy(variable, self)
            self._quantization.follow_policy(self)
        # A weight that another one replaces is gone for optimizers and files as well, and one that
        # was made by itself becomes a weight by being an attribute.
        if isinstance(old, Variable) and old is not value:
            self._own[:] = [v for v in self._own if v is not old]
        if isinstance(value, Variable) and not any(value is v for v in self._own):
            self._own.append(value)
        CHANGES.parts += 1  # once more, as these are the last changes

    def _check_known(self, value: Any) -> None:
        parts = tracking.leaves(Trackable.parts(self).values())
        # A part that is set again, under another name or the same, is none that comes too late.
        if not any(value is part for part in [*self._own, *parts]):
            check_unlocked(self)

    @property
    def _tracker(self) -> StateLock:
        """What Keras's users unlock to add weights to a built layer."""
        return StateLock(self)

    def _untrack_variable(self, variable: Variable) -> None:
        """Let `variable` be no weight of this layer any more."""
        self._own[:] = [v for v in self._own if v is not variable]
        forget_parts(self)

    def __delattr__(self, name: str) -> None:
        value = self.__dict__.get(name)
        object.__delattr__(self, name)
        if isinstance(value, Variable):
            self._own[:] = [v for v in self._own if v is not value]
        forget_parts(self)

    def parts(self) -> dict[str, Trackable]:
        """The trackable attributes by name, then weights that no attribute holds by theirs."""
        parts = super().parts()
        attribute_ids = {id(part) for part in tracking.leaves(parts.values())}
        # Files name weights by these paths, so each needs one, and two of one name are numbered.
        for variable in self._own:
            if id(variable) not in attribute_ids:
                name, count = variable._name, 1
                while name in parts:
                    name, count = f"{variable._name}_{count}", count + 1
                parts[name] = variable
        return parts

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in _UNCOPIED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            self.__dict__[name] = value if name in _PLAIN else tracked(value)
