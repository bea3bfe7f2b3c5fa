"""`Bidirectional`: a recurrent layer and its mirror image."""

from __future__ import annotations

from typing import Any

from trainkit import ops
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.registry import CustomObjectScope, deserialize_object, serialize_object
from trainkit.core.trackable import traverse
from trainkit.layers.base.arguments import one_of
from trainkit.layers.base.layer import Layer
from trainkit.layers.rnn.cells import has_many


class Bidirectional(Layer):
    """A recurrent layer run from the first step and its like run from the last.

    Source: Schuster and Paliwal 1997, "Bidirectional recurrent neural networks".
    Shapes: input (batch, steps, features); output that of the layer, with twice the features for
    `"concat"`.

    Args:
        layer: an `RNN`, `LSTM`, `GRU` or `SimpleRNN`, or a layer with their settings.
        merge_mode: how the two outputs are joined: `"concat"`, `"sum"`, `"mul"`, `"ave"`, or `None`
            for a tuple of both.
        weights: arrays to start with.
        backward_layer: the one that runs from the last step; by default made like `layer`.

    Raises:
        InvalidArgumentError: the merge mode is none of these, or the layers' settings do not agree.

    Example:
        >>> layer = tk.layers.Bidirectional(tk.layers.LSTM(4, return_sequences=True))
        >>> layer(tk.ones((2, 5, 3))).shape
        TensorShape([2, 5, 8])
    """

    def __init__(
        self,
        layer: Any,
        merge_mode: str | None = "concat",
        weights: Any = None,
        backward_layer: Any = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(layer, Layer):
            raise InvalidArgumentError(f"Bidirectional: layer must be a Layer, got {layer!r}")
        super().__init__(**kwargs)
        recurrent: Any = layer
        self.merge_mode = one_of(
            self, "merge_mode", merge_mode, ("sum", "mul", "ave", "concat", None)
        )
        self._has_own_backward = backward_layer is not None
        backwards = recurrent.go_backwards
        forward = _twin(layer, f"forward_{layer.name}", backwards)
        backward = backward_layer or _twin(layer, f"backward_{layer.name}", not backwards)
        _check_agreement(forward, backward)
        for one in (forward, backward):  # as in Keras: no output is carried over masked steps
            if getattr(one, "zero_output_for_mask", None) is not None:
                one.zero_output_for_mask = one.return_sequences
        self.forward_layer = forward
        self.backward_layer = backward
        self._start_weights = weights
        self.stateful = recurrent.stateful
        self.return_sequences = recurrent.return_sequences
        self.return_state = recurrent.return_state
        self.supports_masking = True
        self.input_spec = layer.input_spec

    @property
    def layer(self) -> Any:
        """The layer that runs from the first step."""
        return self.forward_layer

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        # Weights are stored as such, and a backward layer that was made like `layer` is so again.
        config.pop("weights", None)
        config.pop("backward_layer", None)
        forward = serialize_object(self.forward_layer)
        # The name that `layer` had, before which `__init__` will write `forward_` again.
        forward["config"]["name"] = self.forward_layer.name.removeprefix("forward_")
        config["layer"] = forward
        if self._has_own_backward:
            config["backward_layer"] = serialize_object(self.backward_layer)
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        return cls(**{key: deserialize_object(value) for key, value in config.items()})

    def build(self, sequences_shape: Any, initial_state_shape: Any = None) -> None:
        for layer in (self.forward_layer, self.backward_layer):
            if not layer.built:
                layer.build(sequences_shape)
        if self._start_weights is not None:
            half = len(self._start_weights) // 2
            self.forward_layer.set_weights(self._start_weights[:half])
            self.backward_layer.set_weights(self._start_weights[half:])

    def reset_state(self) -> None:
        """Put the kept states of both layers back to zeros."""
        self.forward_layer.reset_state()
        self.backward_layer.reset_state()

    reset_states = reset_state

    def call(
        self, sequences: Any, initial_state: Any = None, mask: Any = None, training: Any = None
    ) -> Any:
        first, last = {}, {}
        if initial_state is not None:
            half = len(initial_state) // 2
            first = {"initial_state": list(initial_state[:half])}
            last = {"initial_state": list(initial_state[half:])}
        y = self.forward_layer(sequences, mask=mask, training=training, **first)
        y_back = self.backward_layer(sequences, mask=mask, training=training, **last)
        states: tuple[Any, ...] = ()
        if self.return_state:
            states = (*y[1:], *y_back[1:])
            y, y_back = y[0], y_back[0]
        if self.return_sequences:
            y_back = ops.flip(y_back, axis=1)
        merged = self._merge(y, y_back)
        if not self.return_state:
            return merged
        return (*merged, *states) if self.merge_mode is None else (merged, *states)

    def _merge(self, a: Any, b: Any) -> Any:
        if self.merge_mode == "concat":
            return ops.concatenate([a, b], axis=-1)
        if self.merge_mode == "sum":
            return ops.add(a, b)
        if self.merge_mode == "ave":
            return ops.multiply(ops.add(a, b), 0.5)
        return ops.multiply(a, b) if self.merge_mode == "mul" else (a, b)

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        if not self.return_sequences or previous_mask is None:
            return None
        mask = previous_mask[0] if isinstance(previous_mask, list | tuple) else previous_mask
        count = 2 if self.merge_mode is None else 1
        extra = 0
        if self.return_state:
            sizes = self.forward_layer.cell.state_size
            extra = 2 * (len(sizes) if has_many(sizes) else 1)
        return mask if count + extra == 1 else [mask] * count + [None] * extra


def _twin(layer: Any, name: str, go_backwards: bool) -> Any:
    """A new layer with the settings of `layer`; its cells may be of classes nobody registered."""
    config = layer.get_config()
    inside = {
        type(part).__name__: type(part) for _, part in traverse(layer) if isinstance(part, Layer)
    }
    with CustomObjectScope({name: kind for name, kind in inside.items() if _is_foreign(kind)}):
        return type(layer).from_config({**config, "name": name, "go_backwards": go_backwards})


def _is_foreign(kind: type) -> bool:
    """Whether a class is none of this package."""
    return not kind.__module__.startswith("trainkit.")


def _check_agreement(forward: Any, backward: Any) -> None:
    if forward.go_backwards == backward.go_backwards:
        raise InvalidArgumentError(
            "Bidirectional: layer and backward_layer must run in opposite directions (go_backwards)"
        )
    for name in ("stateful", "return_sequences", "return_state"):
        if getattr(forward, name) != getattr(backward, name):
            raise InvalidArgumentError(
                f"Bidirectional: layer has {name}={getattr(forward, name)}, backward_layer has "
                f"{name}={getattr(backward, name)}; they must be the same"
            )
