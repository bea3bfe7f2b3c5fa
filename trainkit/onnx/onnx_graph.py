"""`OnnxGraph`: the layer that runs the graph of an ONNX file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainkit.core.errors import UnimplementedError
from trainkit.core.variable import Variable
from trainkit.layers.base.layer import Layer
from trainkit.onnx.graph_records import ImportedGraph
from trainkit.onnx.graph_running import GraphRun, check_result
from trainkit.ops.sampling import generators


class GraphParts:
    """What a layer runs, as one object that is not looked into.

    Attributes:
        graph: the record.
        constants: by the number of a graph, arrays and variables by name.
        outputs: names of the values that a call gives.
        file: the name for errors.
    """

    def __init__(
        self,
        graph: ImportedGraph,
        constants: dict[int, dict[str, Any]],
        outputs: Sequence[str],
        file: str,
    ) -> None:
        self.graph = graph
        self.constants = constants
        self.outputs = list(outputs)
        self.file = file


class OnnxGraph(Layer):
    """The graph of an ONNX file, as a layer.

    Its weights have the names and shapes that they have in the file.
    """

    def __init__(self, parts: GraphParts, parameters: list[Variable], **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.parameters = parameters
        self.seed_generator = generators.SeedGenerator(None)
        self.imported = parts

    def call(self, inputs: Any, training: Any = None) -> Any:
        """Run the graph.

        Args:
            inputs: a tensor, or several by the names that they have in the file.
            training: whether dropout drops and batch normalization uses the batch.
        """
        parts = self.imported
        names = [v.name for v in parts.graph.inputs]
        values = [inputs[name] for name in names] if isinstance(inputs, dict) else [inputs]
        run = GraphRun(parts.file, parts.constants, bool(training), self)
        results = run.results(parts.graph, values if names else [], parts.outputs)
        tensors = [check_result(y, n) for y, n in zip(results, parts.outputs, strict=True)]
        return tensors[0] if len(tensors) == 1 else dict(zip(parts.outputs, tensors, strict=True))

    def get_config(self) -> dict[str, Any]:
        """Refused: a file of Keras has no place for a graph.

        Raises:
            UnimplementedError: always; the text says what to do.
        """
        raise UnimplementedError(
            f"the layer {self.name!r} holds the graph of an ONNX file, which has no config; write "
            "the model by model.export('model.onnx'), and its weights by model.save_weights(...)"
        )
