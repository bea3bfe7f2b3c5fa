"""`Network`: the model class of the first eager API."""

from __future__ import annotations

from typing import Any

from trainkit.layers.base.layer import Layer
from trainkit.models.model import Model


class Network(Model):
    """A model that also keeps layers without an attribute of their own, by `track_layer`.

    >>> class TwoLayers(Network):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.first = self.track_layer(tk.layers.Dense(4))
    ...         self.last = self.track_layer(tk.layers.Dense(2))
    ...     def call(self, x):
    ...         return self.last(self.first(x))
    >>> TwoLayers()(tk.zeros([1, 3])).shape
    TensorShape([1, 2])
    """

    def track_layer(self, layer: Any) -> Any:
        """Keep `layer` as a part of this model, and give it back.

        Args:
            layer: a layer, or a model.

        Raises:
            TypeError: it is neither.
        """
        if not isinstance(layer, Layer):
            raise TypeError(
                f"track_layer: {layer!r} is no layer; it takes trainkit's layers and models"
            )
        if "_tracked_layers" not in self.__dict__:
            self._tracked_layers: list[Any] = []
        if not any(layer is tracked for tracked in self._tracked_layers):
            self._tracked_layers.append(layer)
        return layer
