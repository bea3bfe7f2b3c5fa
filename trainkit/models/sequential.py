"""`Sequential`: layers one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trainkit.core.dispatch import eval_shape, trace_state
from trainkit.core.errors import ConfigError, InvalidArgumentError
from trainkit.core.registry import CustomObjectScope, deserialize_object, serialize_object
from trainkit.core.tensor import Tensor
from trainkit.core.trackable import set_silently
from trainkit.layers.base.building import put_back, state_of_all
from trainkit.layers.base.keras_tensor import KerasTensor, symbol_of
from trainkit.layers.base.layer import Layer
from trainkit.layers.base.paths import current_path, scope
from trainkit.layers.base.tracking import all_layers, forget_parts
from trainkit.layers.core import InputLayer
from trainkit.models.functional import FunctionalGraph
from trainkit.models.functional_inputs import fitted, masked
from trainkit.models.model import Model
from trainkit.models.repeated_calls import outputs_of


class Sequential(Model):
    """A stack of layers: the output of each is the input of the next.

    Weights are made when the shape of the input is known: from an `Input` in front, from `build`,
    or at the first call.

    Args:
        layers: list of layers; each is added by `add`.
        trainable: whether the weights are trained. TensorFlow 2 has the name in this place, which a
            string, or `None`, is.
        name: of the model.

    >>> model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(3), tk.layers.Dense(2)])
    >>> model.output_shape
    (None, 2)
    """

    _locks = False  # layers may be added at any time
    _ends: tuple[KerasTensor, KerasTensor] | None
    _takes: tuple[int, Any] | None

    def __init__(
        self,
        layers: Iterable[Any] | None = None,
        trainable: bool | str | None = True,
        name: str | None = None,
    ) -> None:
        if name is None and (trainable is None or isinstance(trainable, str)):
            name, trainable = trainable, True
        super().__init__(trainable=trainable, name=name)
        self._layers: list[Layer] = []
        self._drop_symbols()
        self._stack(layers or [])

    def _stack(self, layers: Iterable[Any]) -> None:
        """Put all layers on top, and draw the stack up once."""
        names: dict[str, Layer] = {}
        for layer in layers:
            self._layers.append(self._accept(layer, names))
        self._draw_up()

    # ------------------------------------------------------------------ the stack

    def add(self, layer: Any) -> None:
        """Put a layer on top.

        Raises:
            ValueError: it is no layer, another layer of its name is there already, or an `Input`
                comes after others.
        """
        names = {other.name: other for other in self._layers}
        self._layers.append(self._accept(layer, names))
        try:
            if self._ends is None:
                self._draw_up()
            else:
                self._set_ends(*self._drawn_through(self._ends, self._layers[-1:]))
        except BaseException:
            self._layers.pop()
            forget_parts(self)
            raise

    def _accept(self, layer: Any, names: dict[str, Layer]) -> Layer:
        """A layer that may be put on top of those in `names`, to which it is added."""
        if isinstance(layer, KerasTensor) and layer.node is not None:
            layer = layer.node.operation
        if not isinstance(layer, Layer):
            of = f"{layer!r} of type {type(layer).__name__}"
            if isinstance(layer, type):
                of = f"the class {layer.__name__}; call it to make one, {layer.__name__}(...)"
            raise InvalidArgumentError(f"Sequential takes layers, got {of}")
        if names.setdefault(layer.name, layer) is not layer:
            raise ValueError(
                f"model {self.name!r} has a layer {layer.name!r} already; names must differ"
            )
        if isinstance(layer, InputLayer) and self._layers:
            raise ValueError(f"model {self.name!r}: an Input must come before all layers")
        return layer

    def pop(self, rebuild: bool = True) -> Layer:
        """Take the last layer off.

        Args:
            rebuild: whether the stack below stays built.

        Raises:
            ValueError: there is none.
        """
        if not self.layers:
            raise ValueError(f"model {self.name!r} has no layers to take off")
        layer: Layer = self._layers.pop()
        forget_parts(self)
        ends = self._ends
        self._forget()
        if ends is not None and self._layers and rebuild:
            last = ends[1].node
            assert last is not None
            self._set_ends(ends[0], last.args[0])
        return layer

    def _forget(self) -> None:
        """Take it that the stack was never built."""
        set_silently(self, _ends=None, _chart=None, _takes=None, _ready_shape=None, built=False)

    def _draw_up(self) -> None:
        """Build on the shape of the input, if it is known, and note the symbolic tensors."""
        self._forget()
        x = self._entrance() if self._layers else None
        if x is not None:
            self._connect(x)

    def _entrance(self) -> KerasTensor | None:
        """The symbolic input, if anything says what it is."""
        first = self._layers[0]
        if isinstance(first, InputLayer):
            return symbol_of(first)
        if "_input_shape_argument" in first.__dict__:
            return symbol_of(InputLayer(batch_shape=first._input_shape_argument))
        inner = getattr(first, "_graph", None)
        if inner is not None and len(inner.flat_inputs) == 1:
            x = inner.flat_inputs[0]
            return symbol_of(InputLayer(batch_shape=tuple(x.shape), dtype=x.dtype))
        return None

    def _connect(self, x: KerasTensor) -> None:
        """Draw the stack up on this input; stay unbuilt where a layer can't tell its shapes."""
        try:
            ends = self._drawn_through((x, x), self.layers)
        except NotImplementedError:
            return
        self.built = True
        if isinstance(ends[1], KerasTensor):
            self._set_ends(*ends)

    def _drawn_through(self, ends: tuple[Any, Any], layers: list[Layer]) -> tuple[Any, Any]:
        """The input, and what the layers make of the output; a failure leaves them as they were."""
        before = [state for layer in layers for state in state_of_all(layer)]
        x, y = ends
        try:
            with eval_shape.eagerly(), trace_state.silence(), scope(self):
                set_silently(self, _path=current_path())
                for layer in layers:
                    y = layer(y)
        except BaseException:
            put_back(before)
            raise
        return x, y

    def _set_ends(self, x: KerasTensor, y: KerasTensor) -> None:
        rank_and_dtype = (len(x.shape), x.dtype.dtype)
        set_silently(self, _ends=(x, y), _chart=None, _takes=rank_and_dtype, _ready_shape=None)
        self.__dict__.setdefault("_build_shapes", {"input_shape": tuple(x.shape)})
        self.__dict__.setdefault("_in_build", False)
        self.built = True

    @property
    def _graph(self) -> FunctionalGraph | None:  # type: ignore[override]
        """What the stack is as a graph, drawn up when somebody asks."""
        drawn = self.__dict__.get("_chart")
        ends = self.__dict__.get("_ends")
        if drawn is None and ends is not None:
            drawn = self.__dict__["_chart"] = FunctionalGraph(*ends)
        return drawn

    @property
    def _functional(self) -> Model | None:
        """The stack as a functional model with the same layers, `None` while it is not built."""
        return None if self._ends is None else Model(*self._ends)

    @property
    def _counts_its_drawing(self) -> bool:
        return False

    @property
    def _config_identity(self) -> tuple[str, str, str | None] | None:
        return ("keras", "Sequential", None) if type(self) is Sequential else None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_ends": None, "_chart": self._graph}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        graph = state["_chart"]
        if graph is not None:
            set_silently(self, _ends=(graph.inputs, graph.outputs))

    @property
    def layers(self) -> list[Any]:
        """The layers, without the `Input` in front."""
        return [layer for layer in self._layers if not isinstance(layer, InputLayer)]

    # ------------------------------------------------------------------ running

    def build(self, input_shape: Any = None) -> None:
        """Make the weights for inputs of this shape, `None` for the batch size.

        Raises:
            ValueError: there is no shape, there are no layers, or the model takes other shapes.
        """
        if self._ends is not None:
            self._compare(input_shape)
            return
        if input_shape is None:
            raise ValueError(f"model {self.name!r}: build needs the shape of the input")
        if not self._layers:
            raise ValueError(f"model {self.name!r} has no layers to build; add() some first")
        if not isinstance(input_shape, tuple | list) or any(
            isinstance(n, tuple | list) for n in input_shape
        ):
            eval_shape.result_specs(self.call, input_shape)
            return
        self._connect(symbol_of(InputLayer(batch_shape=self._with_batch(input_shape))))

    def _with_batch(self, shape: Any) -> tuple[int | None, ...]:
        """The shape with any batch size, unless a layer keeps a state for each sample."""
        is_stateful = any(getattr(layer, "stateful", False) for layer in all_layers(self, Layer))
        return (shape[0] if is_stateful else None, *tuple(shape)[1:])

    def _compare(self, shape: Any) -> None:
        if not isinstance(shape, tuple | list) or self._ends is None:
            return
        mine = tuple(self._ends[0].shape)
        pairs = zip(mine, shape, strict=False)
        if len(shape) != len(mine) or any(None not in pair and len({*pair}) > 1 for pair in pairs):
            raise ValueError(
                f"model {self.name!r} takes inputs of shape {mine} already, it can't be built for "
                f"{tuple(shape)}"
            )

    def _build_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not self._layers:
            raise ValueError(f"model {self.name!r} has no layers to call; add() some first")
        x = args[0] if args else kwargs.get("inputs")
        if not isinstance(x, Tensor):
            self.built = True  # the call that follows builds the layers inside
            return
        shape = self._with_batch(x.shape)
        self._connect(symbol_of(InputLayer(batch_shape=shape, dtype=x.dtype)))

    def call(self, inputs: Any, mask: Any = None) -> Any:
        if mask is None:
            return outputs_of(self, inputs)
        if isinstance(inputs, Tensor):
            inputs = masked([inputs], [mask])[0]
        return self._run_layers(inputs)

    def _run_layers(self, inputs: Any) -> Any:
        x, takes = inputs, self._takes
        if takes is not None and not (
            type(x) is Tensor and x._array.ndim == takes[0] and x._array.dtype == takes[1]
        ):
            x = self._fit(x)
        for layer in self._layers:
            if type(layer) is not InputLayer or type(x) is not Tensor:  # it gives tensors back
                x = layer(x)
        return x

    def _fit(self, x: Any) -> Any:
        """The input in the rank and dtype that the stack was drawn up for."""
        assert self._ends is not None
        while isinstance(x, list | tuple) and len(x) == 1:
            x = x[0]
        name = self._ends[0].name
        if isinstance(x, dict) and name in x:
            x = x[name]
        return fitted(x, self._ends[0], sizes=False) if isinstance(x, Tensor) else x

    # ------------------------------------------------------------------ config

    def get_config(self) -> dict[str, Any]:
        config: dict[str, Any] = {"name": self.name, "trainable": self.trainable}
        layers: list[Any] = list(self._layers)
        if self._ends is not None:
            if not isinstance(self._layers[0], InputLayer):
                layers.insert(0, self._ends[0].node.operation)  # type: ignore[union-attr]
            config["build_input_shape"] = tuple(self._ends[0].shape)
        return {**config, "layers": [serialize_object(layer) for layer in layers]}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """A new stack made by what `get_config` gave; its weights are new.

        Args:
            config: what `get_config` gave.
            custom_objects: classes and functions that it may name, by name.

        Raises:
            ValueError: it has no name or no layers, or names a class that is not known.
        """
        if "name" not in config or "layers" not in config:
            raise ConfigError(
                "the config of a Sequential model must have 'name' and 'layers', it has "
                f"{', '.join(map(repr, config))}"
            )
        with CustomObjectScope(custom_objects):
            model = cls(name=config["name"])
            model._stack(deserialize_object(layer) for layer in config["layers"])
        shape = config.get("build_input_shape")
        if model._ends is None and isinstance(shape, tuple | list) and model._layers:
            model.build(shape)
        if not config.get("trainable", True):
            model.trainable = False
        return model
