"""`Sequential`: layers one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trainkit.core import abstract, recorder
from trainkit.core.registry import deserialize_object, serialize_object
from trainkit.core.tensor import Tensor
from trainkit.layers.building import put_back, state_of_all
from trainkit.layers.core import InputLayer
from trainkit.layers.layer import Layer
from trainkit.layers.paths import current_path, scope
from trainkit.layers.symbolic import KerasTensor, symbol_of
from trainkit.models.functional import Graph
from trainkit.models.model import Model


class Sequential(Model):
    """A stack of layers: the output of each is the input of the next.

    Weights are made when the shape of the input is known: from an `Input` in front, from `build`,
    or at the first call.

    Args:
        layers: list of layers; each is added by `add`.
        trainable: whether the weights are trained.
        name: of the model.

    >>> model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(3), tk.layers.Dense(2)])
    >>> model.output_shape
    (None, 2)
    """

    _locks = False  # layers may be added at any time

    def __init__(
        self, layers: Iterable[Any] | None = None, trainable: bool = True, name: str | None = None
    ) -> None:
        super().__init__(trainable=trainable, name=name)
        self._layers: list[Layer] = []
        for layer in layers or []:
            self.add(layer)

    # ------------------------------------------------------------------ the stack

    def add(self, layer: Any) -> None:
        """Put a layer on top.

        Raises:
            TypeError: it is no layer.
            ValueError: a layer of this name is there already, or an `Input` comes after others.
        """
        if isinstance(layer, KerasTensor) and layer.node is not None:
            layer = layer.node.operation
        if not isinstance(layer, Layer):
            raise TypeError(f"Sequential takes layers, got {layer!r}")
        if any(layer.name == other.name for other in self._layers):
            raise ValueError(
                f"model {self.name!r} has a layer {layer.name!r} already; names must differ"
            )
        if isinstance(layer, InputLayer) and self._layers:
            raise ValueError(f"model {self.name!r}: an Input must come before all layers")
        self._layers.append(layer)
        try:
            self._draw_up()
        except BaseException:
            self._layers.pop()
            self.__dict__["_found"] = None
            raise

    def pop(self) -> Layer:
        """Take the last layer off.

        Raises:
            ValueError: there is none.
        """
        if not self.layers:
            raise ValueError(f"model {self.name!r} has no layers to take off")
        layer: Layer = self._layers.pop()
        self.__dict__["_found"] = None
        self._redraw()
        return layer

    def _redraw(self) -> None:
        self.__dict__.update(_graph=None, _ready_shape=None)
        self._draw_up()

    def _draw_up(self) -> None:
        """Build on the shape of the input, if it is known, and note the symbolic tensors."""
        self.__dict__["_ready_shape"] = None
        if not self._layers:
            self.built = False
            return
        first = self._layers[0]
        if isinstance(first, InputLayer):
            x: Any = symbol_of(first)
        elif "_input_shape_argument" in first.__dict__:
            x = symbol_of(InputLayer(batch_shape=first._input_shape_argument))
        else:
            x = self._symbolic_input()
        if x is None:
            return
        self._connect(x)

    def _symbolic_input(self) -> Any:
        """What the stack was built on before."""
        return None if self._graph is None else self._graph.inputs

    def _connect(self, x: Any) -> None:
        before = state_of_all(self)
        try:
            with abstract.eagerly(), recorder.silence(), scope(self):
                self.__dict__["_path"] = current_path()
                y = x
                for layer in self.layers:
                    y = layer(y)
        except BaseException:
            put_back(before)
            raise
        self.__dict__["_graph"] = Graph(x, y) if isinstance(y, KerasTensor) else None
        self.built = True

    @property
    def layers(self) -> list[Layer]:
        """The layers, without the `Input` in front."""
        return [layer for layer in self._layers if not isinstance(layer, InputLayer)]

    # ------------------------------------------------------------------ running

    def build(self, input_shape: Any = None) -> None:
        """Make the weights for inputs of this shape, `None` for the batch size."""
        if self.built and self._graph is not None:
            return
        if input_shape is None:
            raise ValueError(f"model {self.name!r}: build needs the shape of the input")
        if not isinstance(input_shape, tuple | list) or any(
            isinstance(n, tuple | list) for n in input_shape
        ):
            abstract.result_specs(self.call, input_shape)
            return
        self._connect(symbol_of(InputLayer(batch_shape=(None, *tuple(input_shape)[1:]))))

    def _build_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        x = args[0] if args else kwargs.get("inputs")
        if not isinstance(x, Tensor):
            self.built = True  # the call that follows builds the layers inside
            return
        shape = (None, *tuple(x.shape)[1:])
        self._connect(symbol_of(InputLayer(batch_shape=shape, dtype=x.dtype)))

    def call(self, inputs: Any) -> Any:
        x = inputs
        for layer in self._layers:
            if type(layer) is not InputLayer or type(x) is not Tensor:  # it gives tensors back
                x = layer(x)
        return x

    # ------------------------------------------------------------------ config

    def get_config(self) -> dict[str, Any]:
        config: dict[str, Any] = {"name": self.name, "trainable": self.trainable}
        layers: list[Any] = list(self._layers)
        if self._graph is not None and not isinstance(self._layers[0], InputLayer):
            layers.insert(0, self._graph.inputs.node.operation)
            config["build_input_shape"] = list(self._graph.inputs.shape)
        return {**config, "layers": [serialize_object(layer) for layer in layers]}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        layers = [deserialize_object(layer) for layer in config["layers"]]
        return cls(layers, trainable=config.get("trainable", True), name=config.get("name"))
