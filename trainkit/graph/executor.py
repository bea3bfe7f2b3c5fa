"""The executor: a graph as a flat Python program over arrays.

The program has one line per node. There are no tensors, no dtype checks and no tapes in it: a line
calls
a kernel on local names, and names are dropped after their last use, so memory is freed as it goes.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core import devices
from trainkit.core.dtypes import bfloat16
from trainkit.core.primitive import _KERNEL_ERRORS
from trainkit.core.tensor import wrap
from trainkit.graph.graph import Graph, GraphTensor, Node, needed_nodes
from trainkit.graph.origins import located
from trainkit.kernels import registry


class Program:
    """A graph made executable: call it with one array per input, get one array per output.

    For a graph that is no branch, the values of its variables are read when it is called, and the
    assigned
    ones are given back by `run`.

    Attributes:
        source: the generated Python text, a line per node.
    """

    def __init__(self, graph: Graph, on_gpu: bool = False) -> None:
        self.graph = graph
        writer = _Writer(graph, on_gpu)
        self.source = writer.source()
        self._nodes = writer.line_nodes
        namespace = writer.namespace
        exec(compile(self.source, f"<graph {graph.name}>", "exec"), namespace)
        self._function: Callable[..., Any] = namespace["run"]
        self.variables = writer.variables
        self.assigned = [slot.variable for slot in graph.assigned] if graph.outer is None else []

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """Run on arrays; assigned variables are stored."""
        try:
            results: list[Any] = self._function(*arrays, *[v._value._array for v in self.variables])
        except _KERNEL_ERRORS as error:
            raise self._explained(error) from error
        if not self.assigned:
            return results
        count = len(results) - len(self.assigned)
        for variable, array in zip(self.assigned, results[count:], strict=True):
            variable._take(array)
        return results[:count]

    def _explained(self, error: Exception) -> Exception:
        """A kernel's error with the operation, the shapes and the user's line."""
        traceback = error.__traceback__
        node = None
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == f"<graph {self.graph.name}>":
                node = self._nodes.get(traceback.tb_lineno)
                values = traceback.tb_frame.f_locals
                break
            traceback = traceback.tb_next
        if node is None or node.primitive is None:
            return error
        inputs = tuple(
            wrap(values[_local(x)]) if isinstance(x, GraphTensor) and _local(x) in values else x
            for x in node.inputs
        )
        settings = {k: v for k, v in node.settings.items() if not isinstance(v, Graph)}
        return located(node.primitive.explained(error, inputs, settings), node)


_MODULES = sys.modules

START_SECONDS = 0.25
"""Time spent in a program after which its loops are compiled, in the background."""


class HotProgram:
    """A program that is interpreted at first, then replaced by one with fused loops when used much.

    Both give the same bits, so it does not matter when the change comes.
    """

    def __init__(self, graph: Graph, jit_compile: bool | None) -> None:
        from trainkit.graph.passes import optimised

        self.graph = optimised(graph)
        self.plain = Program(self.graph)
        self.fused: Program | None = None
        self.gpu: Program | None = None
        self._spent = 0.0
        self._waiting = jit_compile is not False and registry.mode() != "off"
        if jit_compile or (jit_compile is None and registry.mode() == "eager"):
            self._fuse()

    @property
    def source(self) -> str:
        """The generated Python text that runs at present."""
        return (self.fused or self.plain).source

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """Run on arrays; assigned variables are stored."""
        if "cupy" in _MODULES and self._is_on_gpu(arrays):
            if self.gpu is None:
                self.gpu = Program(self.graph, on_gpu=True)
            return self.gpu(arrays)
        if self.fused is not None:
            return self.fused(arrays)
        if not self._waiting:
            return self.plain(arrays)
        start = time.perf_counter()
        results = self.plain(arrays)
        self._spent += time.perf_counter() - start
        if self._spent > START_SECONDS:
            self._waiting = False
            threading.Thread(target=self._fuse, name="trainkit-compile", daemon=True).start()
        return results

    def _is_on_gpu(self, arrays: list[Any]) -> bool:
        held = [v._value._array for v in self.plain.variables]
        return any(devices.XP_OF[type(a)] is not np for a in [*arrays, *held])

    def _fuse(self) -> None:
        """Make the program with fused loops, compiled."""
        from trainkit.graph.fusion import fuse, warm

        self._waiting = False
        graph = fuse(self.graph)
        if graph is self.graph:
            return
        if not warm(graph):
            return
        self.fused = Program(graph)


def compile_graph(graph: Graph, jit_compile: bool | None = None) -> HotProgram:
    """Optimise `graph` and write its program.

    Args:
        graph: stays as it is.
        jit_compile: `True` compiles fused loops at once, `False` never, `None` when the program is
            used much.
    """
    return HotProgram(graph, jit_compile)


def _local(x: GraphTensor) -> str:
    """The name of the local that holds `x`."""
    return f"t{id(x.node):x}_{x.index}"


class _Writer:
    """Writes the text of a program and collects what it refers to."""

    def __init__(self, graph: Graph, on_gpu: bool = False) -> None:
        self.graph = graph
        self._on_gpu = on_gpu
        self.namespace: dict[str, Any] = {"np": np, "__name__": "trainkit.graph.program"}
        self.variables: list[Any] = []
        self.line_nodes: dict[int, Node] = {}
        self._lines: list[str] = []

    def source(self) -> str:
        nodes = needed_nodes(self.graph)
        results = list(self.graph.outputs)
        if self.graph.outer is None:
            results += [slot.now for slot in self.graph.assigned]
        last = self._last_uses(nodes, results)
        variable_names = []
        for node in nodes:
            if node.kind == "variable":
                self.variables.append(node.value)
                variable_names.append(_local(node.outputs[0]))
        parameters = [_local(x) for x in self.graph.inputs] + variable_names
        self._lines.append(f"def run({', '.join(parameters)}):")
        for node in nodes:
            if node.kind == "constant":
                self.namespace[_local(node.outputs[0])] = node.value._array
            elif node.kind == "op":
                self._write(node, last.get(node, ()))
        self._lines.append(f"    return [{', '.join(_local(y) for y in results)}]")
        return "\n".join(self._lines)

    @staticmethod
    def _last_uses(nodes: list[Node], results: list[GraphTensor]) -> dict[Node, list[str]]:
        """For each node the locals that nothing after it uses."""
        kept = set(results)
        user: dict[GraphTensor, Node] = {}
        for node in nodes:
            for x in node.inputs:
                if isinstance(x, GraphTensor) and x.node.kind == "op":
                    user[x] = node
        dropped: dict[Node, list[str]] = {}
        for x, node in user.items():
            if x not in kept:
                dropped.setdefault(node, []).append(_local(x))
        return dropped

    def _write(self, node: Node, dropped: Any) -> None:
        kernel = f"k{len(self._lines)}"
        self.namespace[kernel] = bound_kernel(node, self._on_gpu)
        values = ", ".join(
            _local(x) if isinstance(x, GraphTensor) else self._literal(x) for x in node.inputs
        )
        targets = ", ".join(_local(y) for y in node.outputs)
        if node.many:
            targets += ","
        line = (
            f"    {targets} = {kernel}({values})"
            if targets.strip(",")
            else f"    {kernel}({values})"
        )
        self._lines.append(line)
        self.line_nodes[len(self._lines)] = node
        if dropped:
            self._lines.append(f"    del {', '.join(sorted(dropped))}")

    def _literal(self, x: Any) -> str:
        if x is None or type(x) in (int, bool) or (type(x) is float and np.isfinite(x)):
            return repr(x)
        name = f"c{len(self.namespace)}"
        self.namespace[name] = x
        return name


def bound_kernel(node: Node, on_gpu: bool = False) -> Callable[..., Any]:
    """The kernel of a node with its settings, as a function of arrays alone."""
    primitive = node.primitive
    inputs = [x for x in node.inputs if isinstance(x, GraphTensor)]
    if on_gpu or any(x.dtype is bfloat16 for x in inputs):
        return functools.partial(_run, primitive, node.settings)
    if primitive.is_ufunc:
        kernel: Callable[..., Any] = primitive.kernel
        wanted = node.outputs[0].dtype.dtype
        return kernel if _dtype_given(node) == wanted else functools.partial(_cast, kernel, wanted)
    if primitive.name == "matmul" and _is_plain_product(inputs):
        return np.matmul
    if node.settings:
        return functools.partial(primitive.kernel, np, **node.settings)
    return functools.partial(primitive.kernel, np)


def _is_plain_product(inputs: list[GraphTensor]) -> bool:
    """Whether a product of these is NumPy's own: two matrices of a type that is not widened."""
    return all(
        len(x.shape) == 2 and x.dtype.name in ("float32", "float64", "int32", "int64")
        for x in inputs
    )


def _run(primitive: Any, settings: dict[str, Any], *arrays: Any) -> Any:
    return primitive.run(arrays, settings)


def _cast(kernel: Any, dtype: Any, *arrays: Any) -> Any:
    return kernel(*arrays).astype(dtype)


def _dtype_given(node: Node) -> Any:
    """The dtype that NumPy's own function gives on inputs like those of `node`."""
    like = [np.ones((), x.dtype.dtype) if isinstance(x, GraphTensor) else x for x in node.inputs]
    with np.errstate(all="ignore"):
        return node.primitive.kernel(*like).dtype
