"""`Function`: what lies between symbolic tensors, to be called again on others."""

from __future__ import annotations

from typing import Any

from trainkit.core import keras_tree, nest
from trainkit.core.dispatch import eval_shape
from trainkit.core.errors import ShapeError
from trainkit.core.names import unique_name
from trainkit.core.shapes import Spec
from trainkit.core.tensor import convert_to_tensor, is_tensor
from trainkit.layers.base.nested_shapes import specs_of
from trainkit.models.functional import FunctionalGraph


class Function:
    """The operations and layers between some symbolic tensors and others, as a function.

    It has neither weights nor training of its own: `Model` adds these.

    Args:
        inputs: `KerasTensor`s, nested as you like; operations before them do not belong to it.
        outputs: `KerasTensor`s that are computed from them.
        name: `function`, `function_1` ... by default.

    Attributes:
        operations: the operations and layers.

    Raises:
        ValueError: there are no inputs or outputs, or an output does not depend on the inputs
            alone.

    >>> x = tk.keras.KerasTensor((None, 2))
    >>> Function(x, x * 2 + 1)([[1.0, 2.0]]).numpy().tolist()
    [[3.0, 5.0]]
    """

    def __init__(self, inputs: Any, outputs: Any, name: str | None = None) -> None:
        for argument, structure in (("inputs", inputs), ("outputs", outputs)):
            if not keras_tree.flatten(structure):
                raise ValueError(
                    f"Function: {argument} must hold a symbolic tensor, got {structure!r}"
                )
        self.name = name or unique_name("function")
        self._graph = FunctionalGraph(inputs, outputs)

    @property
    def operations(self) -> list[Any]:
        """The operations and layers between inputs and outputs."""
        return [node.operation for node in self._graph.nodes if node.outputs is not None]

    @property
    def inputs(self) -> list[Any]:
        """The symbolic inputs in order."""
        return list(self._graph.flat_inputs)

    @property
    def outputs(self) -> list[Any]:
        """The symbolic outputs in order."""
        return list(self._graph.flat_outputs)

    def __call__(self, inputs: Any) -> Any:
        """The outputs for `inputs`, nested like those of the function; symbolic for symbols.

        Inputs keep their dtypes, also where the symbols have others; models cast them.

        Raises:
            ValueError: they are nested otherwise, or a rank or size differs.
        """
        return self._graph.run(self._fit_value(inputs), fits=True)

    def _fit_value(self, inputs: Any) -> Any:
        symbols = self._graph.inputs
        if is_tensor(symbols):
            inputs = _tensor(inputs)
        else:
            try:
                inputs = keras_tree.map_structure_up_to(symbols, _tensor, inputs)
            except ValueError as error:
                raise ValueError(f"Function {self.name!r}: {error}") from None
        pairs = zip(self._graph.flat_inputs, nest.flatten(inputs), strict=True)
        for symbol, x in pairs:
            if not symbol.shape.is_compatible_with(x.shape):
                raise ShapeError(
                    f"Function {self.name!r}: an input has shape {tuple(x.shape)}, it was made for "
                    f"{tuple(symbol.shape)}"
                )
        return inputs

    def compute_output_spec(self, inputs: Any) -> Any:
        """Symbolic outputs for symbolic inputs."""
        return self(inputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The shapes of the outputs for inputs of these shapes, as tuples."""
        specs = eval_shape.result_specs(self, specs_of(input_shape, self.inputs[0].dtype))
        return keras_tree.map_structure(
            lambda y: tuple(y.shape) if isinstance(y, Spec) else y, specs
        )


def _tensor(x: Any) -> Any:
    if isinstance(x, dict) or (isinstance(x, list | tuple) and any(map(is_tensor, x))):
        raise ValueError(f"one tensor was expected, got the nest {x!r}")
    return x if is_tensor(x) else convert_to_tensor(x)
