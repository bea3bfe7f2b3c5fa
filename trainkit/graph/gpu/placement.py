"""Which part of a graph runs on the CPU and which on a GPU, and a program of each.

A step of training counts its steps and works out its learning rate on the CPU, from variables that
lie there; all else is work of the GPU. Taken apart, the part of the GPU is a function of arrays
that waits for nothing, which a CUDA graph can be captured of, and the few numbers that the CPU
works out for it are handed over before each run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainkit.core.devices import (
    CPU,
    XP_OF,
    Device,
    device_of,
    kernels_on,
    other_gpu,
    several_gpus,
    to_numpy,
)
from trainkit.core.dispatch.facets import SHAPE
from trainkit.core.shapes import Spec
from trainkit.core.tensor import wrap
from trainkit.graph.ir.assigned_devices import brings_beside
from trainkit.graph.ir.graph import Graph, GraphTensor, Node, VariableSlot, needed_nodes
from trainkit.graph.ir.passes import copied, finished, place_of, rebuilt_frame, source_copied
from trainkit.graph.ir.user_lines import place_text
from trainkit.graph.runtime.program import Program


class NotApart(Exception):
    """The parts of a graph depend on each other, or on Python."""


class Seen:
    """What one run of a graph showed of its values.

    Attributes:
        on_host: the tensors that were arrays of the CPU, with these arrays.
        shapes: those of all tensors.
        places: the devices on which all lay.
    """

    def __init__(self) -> None:
        self.on_host: dict[GraphTensor, Any] = {}
        self.shapes: dict[GraphTensor, tuple[int, ...]] = {}
        self.places: dict[GraphTensor, Device] = {}

    def watched(self, node: Node, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """`kernel`, with a note of where its results lie."""
        kernel = on_its_gpu(node, kernel)

        def run(*arrays: Any) -> Any:
            result = kernel(*arrays)
            self.note(node.outputs, result if node.many else (result,))
            return result

        return run

    def note(self, tensors: Sequence[GraphTensor], arrays: Sequence[Any]) -> None:
        """These tensors had these values."""
        for y, array in zip(tensors, arrays, strict=True):
            self.shapes[y], self.places[y] = array.shape, device_of(array)
            if XP_OF[type(array)] is np:
                self.on_host[y] = np.asarray(array)

    @property
    def gpus(self) -> set[Device]:
        """The GPUs that had a part in it."""
        return set(self.places.values()) - {CPU}


def on_its_gpu(node: Node, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """`kernel`, launched on the GPU where its arrays lie."""
    if not several_gpus():
        return kernel

    def run(*arrays: Any) -> Any:
        where = other_gpu(arrays)
        if where is None:
            return kernel(*arrays)
        with kernels_on(where):
            return kernel(*arrays)

    return run


class Parts:
    """The two parts of a graph.

    Attributes:
        host: the part of the CPU as a graph; its inputs are `host_sources`.
        device: the part of the GPU; its inputs are `device_sources`, then `numbers`.
        host_sources: inputs and variables of the whole graph that the CPU's part reads.
        device_sources: those that the GPU's part reads.
        numbers: what the CPU's part works out for the GPU's, scalars.
        host_results: what else the CPU's part gives: outputs of the graph, values for variables.
        device_results: the same of the GPU's part.
    """

    def __init__(self, graph: Graph, observed: Seen) -> None:
        self.graph = graph
        self._observed = observed
        self._nodes = needed_nodes(graph)
        self._assigned: list[VariableSlot] = graph.assigned
        self._fixed = self._fixed_values()
        self._check()
        operations = [node for node in self._nodes if node.kind == "op"]
        operations = [node for node in operations if node.outputs[0] not in self._fixed]
        host_nodes = [n for n in operations if n.outputs[0] in observed.on_host]
        device_nodes = [n for n in operations if n.outputs[0] not in observed.on_host]
        self.numbers = self._numbers(device_nodes)
        results = list(dict.fromkeys([*graph.outputs, *(slot.now for slot in self._assigned)]))
        self.host_results = [y for y in results if y in observed.on_host]
        self.device_results = [y for y in results if y not in observed.on_host]
        for_host = [*self.numbers, *self.host_results]
        self.host, self.host_sources = self._part(host_nodes, [], for_host, to_host=True)
        self.device, self.device_sources = self._part(
            device_nodes, self.numbers, self.device_results
        )
        del self._observed

    @property
    def assigned(self) -> list[VariableSlot]:
        """The variables that the whole graph assigns."""
        return self._assigned

    # ------------------------------------------------------------------ what is known

    def _fixed_values(self) -> set[GraphTensor]:
        """Tensors of the CPU whose values are the same in all runs on arrays of these shapes."""
        fixed: set[GraphTensor] = set()
        shaped: set[GraphTensor] = set()
        for node in self._nodes:
            if self._has_fixed_shapes(node, shaped):
                shaped.update(node.outputs)
            if not node.outputs or node.outputs[0] not in self._observed.on_host or node.effect:
                continue
            if node.kind == "constant" or (node.kind == "op" and _is_settled(node, fixed, shaped)):
                fixed.update(node.outputs)
        return fixed

    def _has_fixed_shapes(self, node: Node, shaped: set[GraphTensor]) -> bool:
        """Whether the results have these shapes whenever the arrays of a call have theirs."""
        if node.kind != "op" or all(y.shape.is_fully_defined() for y in node.outputs):
            return True
        if not all(x in shaped for x in node.inputs if isinstance(x, GraphTensor)):
            return False
        specs = [
            Spec(self._observed.shapes[x], x.dtype) if isinstance(x, GraphTensor) else x
            for x in node.inputs
        ]
        try:
            results = node.primitive.shape_rule(*specs, **node.settings)
        except Exception:  # a rule that wants to see more than shapes
            return False
        results = results if isinstance(results, tuple) else (results,)
        return all(None not in tuple(spec.shape) for spec in results)

    def _check(self) -> None:
        """Refuse graphs that can't be taken apart.

        Raises:
            NotApart: with the reason.
        """
        if len(self._observed.gpus) > 1:
            raise NotApart("its arrays lie on several GPUs")
        for node in self._nodes:
            if node.kind != "op":
                continue
            if node.effect:
                raise NotApart(f"{_name_node(node)} does something besides its result")
            on_host = {y in self._observed.on_host for y in node.outputs}
            if len(on_host) > 1:
                raise NotApart(f"{_name_node(node)} gives values of the CPU and of the GPU")
            reads = [x for x in node.inputs if isinstance(x, GraphTensor) and x not in self._fixed]
            if True in on_host and node.outputs[0] not in self._fixed:
                if any(x not in self._observed.on_host and not _is_number(x) for x in reads):
                    raise NotApart(f"{_name_node(node)} brings values of the GPU to the CPU")
            elif False in on_host and any(
                x in self._observed.on_host and self._observed.on_host[x].ndim for x in reads
            ):
                raise NotApart(f"{_name_node(node)} takes an array of the CPU")

    def _numbers(self, device_nodes: list[Node]) -> list[GraphTensor]:
        numbers: dict[GraphTensor, None] = {}
        for node in device_nodes:
            for x in node.inputs:
                varies = isinstance(x, GraphTensor) and x not in self._fixed
                if varies and x in self._observed.on_host:
                    numbers[x] = None
        return list(numbers)

    # ------------------------------------------------------------------ graphs

    def _part(
        self,
        nodes: list[Node],
        number_inputs: list[GraphTensor],
        results: list[GraphTensor],
        to_host: bool = False,
    ) -> tuple[Graph, list[GraphTensor]]:
        """A graph of some of the nodes, and the inputs and variables that it reads."""
        part = Graph(self.graph.name)
        mine = {y for node in nodes for y in node.outputs}
        read = [x for node in nodes for x in node.inputs if isinstance(x, GraphTensor)]
        external_tensors = dict.fromkeys(x for x in [*read, *results] if x not in mine)
        sources = [x for x in external_tensors if x not in self._fixed and not self._is_constant(x)]
        sources = [x for x in sources if x.node.kind in ("input", "variable")]
        sources = [x for x in sources if not any(x is y for y in number_inputs)]
        env: dict[Any, Any] = {
            x: part.add_input(x._spec, x.node.name) for x in [*sources, *number_inputs]
        }
        for x in external_tensors:
            if x not in env:
                env[x] = part.constant(self._constant(x, to_host))
        for node in nodes:
            inputs = tuple(env[x] if isinstance(x, GraphTensor) else x for x in node.inputs)
            env.update(zip(node.outputs, copied(part, node, inputs), strict=True))
        part.outputs = [env[y] for y in results]
        return part, sources

    def _is_constant(self, x: GraphTensor) -> bool:
        return x.node.kind == "constant"

    def _constant(self, x: GraphTensor, to_host: bool) -> Any:
        value = x.node.value if self._is_constant(x) else wrap(self._observed.on_host[x])
        return wrap(to_numpy(value._array)) if to_host else value


def _is_number(x: GraphTensor) -> bool:
    """Whether `x` is a constant that goes along with arrays of either device."""
    return x.node.kind == "constant" and not x.shape.rank


def _is_settled(node: Node, fixed: set[GraphTensor], shaped: set[GraphTensor]) -> bool:
    """Whether all that a node reads of its inputs, their values or shapes, is the same always."""
    reads = node.primitive.facets.reads
    return all(
        x in (shaped if reads.get(i) == SHAPE else fixed)
        for i, x in enumerate(node.inputs)
        if isinstance(x, GraphTensor)
    )


def _name_node(node: Node) -> str:
    return f"{node.primitive.name}{place_text(node.where, ', at ')}"


def node_text(node: Node) -> str:
    """An operation and the user's line that asked for it."""
    return _name_node(node)


class Reader:
    """Picks the arrays of some sources out of a call.

    Args:
        graph: the whole one.
        sources: inputs and variables of it.

    Attributes:
        variables: for each source the variable that it is, `None` for an input.
    """

    def __init__(self, graph: Graph, sources: Sequence[GraphTensor]) -> None:
        is_input = [x.node.kind == "input" for x in sources]
        self.variables = [
            None if is_fed else x.node.value for x, is_fed in zip(sources, is_input, strict=True)
        ]
        self._places = [
            place_of(x, graph.inputs) if is_fed else -1
            for x, is_fed in zip(sources, is_input, strict=True)
        ]

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """The arrays of the sources."""
        pairs = zip(self._places, self.variables, strict=True)
        return [arrays[i] if v is None else v._value._array for i, v in pairs]

    def given(self, arrays: Sequence[Any]) -> list[Any]:
        """The arrays of those that are inputs."""
        return [arrays[i] for i in self._places if i >= 0]


def without_idle_copies(graph: Graph, observed: Seen) -> tuple[Graph, Seen]:
    """`graph` without copies to where a value lay already, and what was observed of its tensors."""
    if not any(map(brings_beside, graph.nodes)):
        return graph, observed
    new, env = rebuilt_frame(graph)
    for node in needed_nodes(graph):
        if node.kind != "op":
            env[node.outputs[0]] = source_copied(new, node)
            continue
        inputs = tuple(env[x] if isinstance(x, GraphTensor) else x for x in node.inputs)
        idle = (
            brings_beside(node)
            and observed.places[node.inputs[0]] is observed.places[node.outputs[0]]
        )
        results = inputs[:1] if idle else copied(new, node, inputs)
        env.update(zip(node.outputs, results, strict=True))
    observations = Seen()
    for x, y in env.items():
        if x in observed.on_host:
            observations.on_host[y] = observed.on_host[x]
        observations.shapes[y], observations.places[y] = observed.shapes[x], observed.places[x]
    return finished(graph, new, env), observations


def observed(graph: Graph, arrays: list[Any]) -> tuple[list[Any], Seen]:
    """Run a graph once, storing variables; gives its results, and what was seen."""
    observations = Seen()
    program = Program(graph, on_gpu=True, watched=observations.watched)
    for node in needed_nodes(graph):
        if node.kind == "constant":
            observations.note(node.outputs, [node.value._array])
        elif node.kind == "variable":
            observations.note(node.outputs, [node.value._value._array])
    observations.note(graph.inputs, arrays)
    return program(arrays), observations
