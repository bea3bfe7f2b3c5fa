"""Fusion: runs of nodes become one function of machine code each.

What is compiled is rounded exactly, in the order in which it stands, and everything else calls
NumPy's own loops, so a fused graph gives the same bits as an interpreted one.
"""

from __future__ import annotations

import functools
import heapq
import math
import warnings
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainkit.compiler.ir import Buffer, Loop, Unsupported, is_half, results_of, sources_of
from trainkit.compiler.llvm.llvm_kernel import LlvmCode, LlvmTracer
from trainkit.compiler.tracer import KernelTracer, TracedArray
from trainkit.core.process.side_work import give_way
from trainkit.core.tensor import wrap
from trainkit.graph.ir.graph import Graph, GraphTensor, Node, needed_nodes
from trainkit.graph.ir.passes import copied, finished, rebuilt_frame, source_copied
from trainkit.graph.runtime.fused import FusedKernel
from trainkit.graph.runtime.fusible import may_be_traced, traced
from trainkit.graph.runtime.program import Program

MOST_STEPS = 400
"""Longer runs become several functions: the time to compile one grows faster than its length, and
Python's exit may have to wait for one."""


# ------------------------------------------------------------------ which nodes, in what order


@dataclass(frozen=True)
class Target:
    """What code is made for.

    Attributes:
        trace: makes a trace, which says what there is code for.
        code: makes the code of a trace and its results; `None` where it is not worth a call.
        kernel: makes what a fused node calls, of the code, the nodes as a graph of their own, and
            what makes the program of that graph.
        results_last: whether results that no other operation needs, such as new values of
            variables, are all worked out in the last run: where one launch does many of them.
        most_steps: longer runs become several functions.
    """

    trace: Callable[[], KernelTracer]
    code: Callable[[KernelTracer, list[TracedArray]], Any]
    kernel: Callable[[Any, Graph, Callable[..., Any]], Any]
    results_last: bool = False
    most_steps: float = math.inf


def _traceable(
    nodes: list[Node], target: Target, steps_by_key: dict[Any, int | None]
) -> dict[Node, int]:
    """The nodes that can be compiled when their inputs lie in row-major order.

    Returns:
        For each how many steps of code it takes.
    """
    step_counts: dict[Node, int] = {}
    for node in nodes:
        # most graphs are fused in a thread behind the steps, which need Python's lock, too
        give_way()
        if may_be_traced(node):
            specs = tuple(x._spec if isinstance(x, GraphTensor) else repr(x) for x in node.inputs)
            # a network has thousands of nodes of few kinds: one of each is traced, and the
            # others have its number of steps
            key = (node.primitive, specs, repr(node.settings), tuple(y._spec for y in node.outputs))
            if key not in steps_by_key:
                steps_by_key[key] = _steps_of(node, target)
            steps = steps_by_key[key]
            if steps is not None:
                step_counts[node] = steps
    return step_counts


def _steps_of(node: Node, target: Target) -> int | None:
    """How many steps of code a node takes, `None` where there is no code for it."""
    # a trace of its own: an attempt that fails half-way leaves its steps behind
    trace = target.trace()
    try:
        traced(trace, node, tuple(_trace_operand(trace, x) for x in node.inputs))
    except Unsupported:
        return None
    return len(trace.steps)


def _trace_operand(trace: KernelTracer, x: Any) -> Any:
    """An input of a node as an array of a trace; numbers as they are."""
    if not isinstance(x, GraphTensor):
        return x
    if x.node.kind == "constant" and trace.embeds:
        array = x.node.value._array
        if not isinstance(array, np.ndarray):
            raise Unsupported("a constant is on a GPU")
        return trace.constant(array)
    return trace.input(x._spec.shape, x.dtype.dtype)


def _runs(nodes: list[Node], fusible_nodes: Collection[Node], late: set[Node]) -> list[list[Node]]:
    """All operations in an order in which inputs come first, in runs of chosen ones and others.

    Each run takes in turn all that is ready, so there are few runs; `late` ones make the last.
    What is ready lies in two heaps by its place in `nodes`, so each node is looked at once.
    """
    operations = [node for node in nodes if node.kind == "op"]
    last = [node for node in operations if node in late]
    left = [node for node in operations if node not in late]
    readers, missing = _waiting(left)
    ready: dict[bool, list[int]] = {True: [], False: []}
    for i, node in enumerate(left):
        if not missing[i]:
            ready[node in fusible_nodes].append(i)  # in order, so it is a heap
    order: list[list[Node]] = []
    # begins with chosen nodes; where none is ready this run is empty, and left out
    is_chosen = True
    while ready[True] or ready[False]:
        run = []
        while ready[is_chosen]:
            i = heapq.heappop(ready[is_chosen])
            run.append(left[i])
            for j in readers[i]:
                missing[j] -= 1
                # a reader of the same kind joins this very run, so a chain of nodes is one
                if not missing[j]:
                    heapq.heappush(ready[left[j] in fusible_nodes], j)
        if run:
            order.append(run)
        is_chosen = not is_chosen
    if last and order and is_chosen is False:
        order[-1] += last  # the run before was one of chosen nodes, too
    elif last:
        order.append(last)
    return order


def _waiting(operations: list[Node]) -> tuple[list[list[int]], list[int]]:
    """For each operation the places of those that wait for it, and for how many it waits.

    What has an effect waits for the effect before it.
    """
    index_of = {node: i for i, node in enumerate(operations)}
    readers: list[list[int]] = [[] for _ in operations]
    missing = [0] * len(operations)
    effect = None
    for i, node in enumerate(operations):
        # a set: a node that reads another twice waits for it once
        sources = {index_of.get(x.node) for x in node.inputs if isinstance(x, GraphTensor)} - {None}
        # calls of Python, prints and their like keep the order in which they were traced
        if node.effect:
            sources |= {effect} - {None}
            effect = i
        missing[i] = len(sources)
        for source in sources:
            readers[source].append(i)  # type: ignore[index]
    return readers, missing


def _parts(run: list[Node], step_counts: dict[Node, int], limit: float) -> list[list[Node]]:
    """A run in parts of at most `limit` steps of code, or of one node that has more."""
    if run[0] not in step_counts:
        return [run]
    parts: list[list[Node]] = [[]]
    steps = 0
    # inputs come first within a run, so they do after any cut, too
    for node in run:
        if parts[-1] and steps + step_counts[node] > limit:
            parts.append([])
            steps = 0
        parts[-1].append(node)
        steps += step_counts[node]
    return parts


def _leading_nowhere(nodes: list[Node], fusible_nodes: Collection[Node]) -> set[Node]:
    """The chosen nodes whose results no other operation needs, but chosen ones of the same kind."""
    readers: dict[Node, set[Node]] = {}
    for node in nodes:
        for x in node.inputs:
            if isinstance(x, GraphTensor):
                readers.setdefault(x.node, set()).add(node)
    dead_ends: set[Node] = set()
    # from the end, so all readers of a node are judged before it
    for node in reversed(nodes):
        if node in fusible_nodes and not node.effect and readers.get(node, set()) <= dead_ends:
            dead_ends.add(node)
    return dead_ends


# ------------------------------------------------------------------ one run


class _Run:
    """A run of nodes that is to be compiled.

    Attributes:
        inputs: tensors of other nodes that it reads.
        outputs: tensors that its code gives.
        aliases: tensors that are inputs under another name.
        constants: tensors that are the same in all calls, with their values.
        outside: nodes that only look at an output in another way; they are done once more, outside.
    """

    def __init__(self, nodes: list[Node], used_outside: set[GraphTensor], target: Target) -> None:
        self.nodes = nodes
        self.target = target
        self.trace = target.trace()
        self.inputs: list[GraphTensor] = []
        self.env: dict[GraphTensor, TracedArray] = {}
        self.aliases: dict[GraphTensor, GraphTensor] = {}
        self.constants: dict[GraphTensor, Any] = {}
        self.outside: list[Node] = []
        self.outputs: list[GraphTensor] = []
        for node in nodes:
            give_way()
            self._trace(node)
        self._settle([y for node in nodes for y in node.outputs if y in used_outside])

    def _trace(self, node: Node) -> None:
        try:
            results = traced(self.trace, node, tuple(map(self._seen, node.inputs)))
        except Unsupported as error:
            raise _Refused(node) from error
        self.env.update(zip(node.outputs, results, strict=True))

    def _seen(self, x: Any) -> Any:
        """An input of a node as an array of the trace; numbers as they are."""
        if not isinstance(x, GraphTensor):
            return x
        if x not in self.env:
            self.env[x] = _trace_operand(self.trace, x)
            if x.node.kind != "constant" or not self.trace.embeds:
                self.inputs.append(x)
        return self.env[x]

    def _settle(self, used_outside: list[GraphTensor]) -> None:
        """Decide for each tensor that others want how they get it."""
        inside = set(self.nodes)
        sources = {self.env[x].buffer: x for x in self.inputs}
        output_of: dict[Buffer, GraphTensor] = {}
        # breadth first: what is done once more outside may need further nodes of the run
        todo, settled = deque(used_outside), set()
        outside: set[Node] = set()
        while todo:
            y = todo.popleft()
            if y in settled or y.node in outside:
                continue
            settled.add(y)
            mine = self.env[y]
            source = sources.get(mine.buffer)
            # a view of an input in the input's layout is the input: nothing is copied
            if source is not None and _same(mine, self.env[source]):
                self.aliases[y] = source
            elif mine.buffer.kind == "constant" and mine.view.whole and self.trace.embeds:
                self.constants[y] = mine.buffer.value[1].reshape(mine.array.shape)
            # one tensor has the buffer as its array; further views of it go to `outside`
            elif mine.buffer.kind == "temporary" and _fills(mine) and mine.buffer not in output_of:
                output_of[mine.buffer] = y
            else:
                outside.add(y.node)
                # these inputs were nobody's wish, but have to leave the code now
                todo += [
                    x for x in y.node.inputs if isinstance(x, GraphTensor) and x.node in inside
                ]
        self.outputs = list(output_of.values())
        self.outside = [node for node in self.nodes if node in outside]

    def code(self) -> Any:
        """The code of the run, `None` where it is not worth it."""
        if not self.outputs:
            return None
        return self.target.code(self.trace, [self.env[y] for y in self.outputs])

    def structure(self) -> tuple[Any, ...]:
        """All that its code depends on, equal for runs that have the same code.

        Copies of a node share its settings, and copies of a constant its value, so ids stand for
        these; they mean something for as long as the nodes are there.
        """
        index_of = {node: i for i, node in enumerate(self.nodes)}
        inputs = {x: i for i, x in enumerate(self.inputs)}

        def name(x: Any) -> Any:
            if not isinstance(x, GraphTensor):
                return type(x), repr(x)
            if x.node in index_of:
                return "inside", index_of[x.node], x.index
            return ("input", inputs[x], x._spec) if x in inputs else ("constant", id(x.node.value))

        lines = [
            (
                node.primitive,
                id(node.settings) if node.settings else None,
                tuple(map(name, node.inputs)),
                tuple(y._spec for y in node.outputs),
            )
            for node in self.nodes
        ]
        return (*lines, tuple(map(name, self.outputs)))

    def part(self) -> Graph:
        """The nodes of the run as a graph of their own."""
        part = Graph("segment", self.nodes[0].graph)
        env: dict[Any, Any] = {x: part.add_input(x._spec, x.node.name) for x in self.inputs}
        for node in self.nodes:
            for x in node.inputs:
                if isinstance(x, GraphTensor) and x.node.kind == "constant":
                    env[x] = part.constant(x.node.value)
            inputs = tuple(env[x] if isinstance(x, GraphTensor) else x for x in node.inputs)
            env.update(zip(node.outputs, copied(part, node, inputs), strict=True))
        part.outputs = [env[y] for y in self.outputs]
        return part


class FusionMemo:
    """What is known of parts of a graph when it is fused once more, at other sizes.

    Most nodes of a training step are the optimizer's: they work on weights, whatever the size of a
    batch, so runs of them have one code.

    Attributes:
        steps: how many steps of code nodes take, by what they are.
    """

    def __init__(self) -> None:
        self.steps: dict[Any, int | None] = {}
        self._codes: dict[Any, tuple[Any, _Run]] = {}

    def code(self, run: _Run) -> Any:
        """The code of a run, as `_Run.code` gives it."""
        structure = run.structure()
        if structure not in self._codes:
            self._codes[structure] = run.code(), run  # the run keeps what ids stand for
        return self._codes[structure][0]


class _Refused(Exception):
    """A node can't be compiled in its run, because of the layout of what it is given."""

    def __init__(self, node: Node) -> None:
        self.node = node


def _same(a: TracedArray, b: TracedArray) -> bool:
    return a.view == b.view


def _fills(x: TracedArray) -> bool:
    """Whether an array takes all of its buffer, whatever the order of its axes."""
    # an axis of one element may have any stride
    steps = sorted((s, n) for s, n in zip(x.array.strides, x.array.shape, strict=True) if n != 1)
    expected = x.array.itemsize
    # from the innermost axis on: each stride has to be the size of all that lies within it
    for stride, n in steps:
        if stride != expected:
            return False
        expected *= n
    return bool(x.array.nbytes == x.buffer.size)


def _code(trace: KernelTracer, results: list[TracedArray]) -> LlvmCode | None:
    """LlvmCode for the CPU, where a call of it saves something."""
    code = LlvmCode.of(trace, results)
    steps = sum(len(s.members) + len(s.ends) if isinstance(s, Loop) else 1 for s in code.steps)
    # One step is left to NumPy, which does it on one core, unless it is long enough for several: a
    # sum of two branches stands alone between kernels.
    if steps > 1 or code.is_shared_out or _has_halves(code):
        return code
    return None


def _has_halves(code: LlvmCode) -> bool:
    """Whether the code works on 16-bit floats, whose loops outside of it go number by number."""
    views = [v for step in code.steps for v in (*sources_of(step), *results_of(step))]
    return any(is_half(v.dtype) for v in views)


CPU = Target(LlvmTracer, _code, FusedKernel, most_steps=MOST_STEPS)


# ------------------------------------------------------------------ the pass


def fuse(
    graph: Graph,
    target: Target = CPU,
    left_out: Collection[Node] = (),
    memo: FusionMemo | None = None,
) -> Graph:
    """Replace runs of nodes by one node each, `graph` itself where there are none.

    Args:
        graph: stays as it is.
        target: what code is made for.
        left_out: nodes that stay as they are.
        memo: what is known from fusing the graph at other sizes; nothing by default.
    """
    nodes = needed_nodes(graph)
    memo = memo or FusionMemo()
    counts = {n: k for n, k in _traceable(nodes, target, memo.steps).items() if n not in left_out}
    # a refusal changes few runs; the others stay as they are, and are traced once
    traced_runs: dict[Any, tuple[_Run, Any]] = {}
    fused_runs: dict[int, tuple[_Run, Any]] = {}
    # A layout shows only when a run is traced as a whole. The node that can't take one leaves,
    # and runs are cut anew: each round has a chosen node less, so there is a last one.
    while True:
        late = _leading_nowhere(nodes, counts) if target.results_last else set()
        unsplit_runs = _runs(nodes, counts, late)
        runs = [part for run in unsplit_runs for part in _parts(run, counts, target.most_steps)]
        used_tensors = _wanted(graph, runs)
        try:
            for i, run in enumerate(runs):
                if run[0] in counts:
                    key = (tuple(run), frozenset(used_tensors[i]))
                    if key not in traced_runs:
                        traced_run = _Run(run, used_tensors[i], target)
                        traced_runs[key] = traced_run, memo.code(traced_run)
                    if traced_runs[key][1] is not None:
                        fused_runs[i] = traced_runs[key]
            break
        except _Refused as refused:
            del counts[refused.node]
            # its keys are positions among the runs, which differ in the next round
            fused_runs.clear()
    return _replace(graph, nodes, runs, fused_runs) if fused_runs else graph


def _wanted(graph: Graph, runs: list[list[Node]]) -> list[set[GraphTensor]]:
    """For each run the tensors that others use."""
    results = set(graph.outputs)
    # a branch or body stores nothing: its new values are among its outputs
    if graph.outer is None:
        results |= {slot.now for slot in graph.assigned}
    run_index = {node: i for i, run in enumerate(runs) for node in run}
    used_tensors: list[set[GraphTensor]] = [set() for _ in runs]
    for y in results:
        if y.node in run_index:
            used_tensors[run_index[y.node]].add(y)
    for node, i in run_index.items():
        for x in node.inputs:
            if isinstance(x, GraphTensor) and run_index.get(x.node, i) != i:
                used_tensors[run_index[x.node]].add(x)
    return used_tensors


def _replace(
    graph: Graph, nodes: list[Node], runs: list[list[Node]], fused_runs: dict[int, tuple[_Run, Any]]
) -> Graph:
    new, env = rebuilt_frame(graph)
    # inputs, variables and constants first: runs read them in another order than they stood
    for node in nodes:
        if node.kind != "op":
            env[node.outputs[0]] = source_copied(new, node)
    for i, run in enumerate(runs):
        fused_run = fused_runs.get(i)
        if fused_run is None:
            _copy(new, run, env)
        else:
            _emit(new, *fused_run, env)
    return finished(graph, new, env)


def _copy(new: Graph, nodes: list[Node], env: dict[Any, Any]) -> None:
    for node in nodes:
        inputs = tuple(env[x] if isinstance(x, GraphTensor) else x for x in node.inputs)
        env.update(zip(node.outputs, copied(new, node, inputs), strict=True))


def _emit(new: Graph, run: _Run, code: Any, env: dict[Any, Any]) -> None:
    """Add the node of one run to the new graph."""
    primitive = run.target.kernel(code, run.part(), Program)
    inputs = tuple(env[x] for x in run.inputs)
    specs = tuple(y._spec for y in run.outputs)
    node = Node(new, "op", "Fused", specs, primitive, inputs, {})
    node.many = True
    # an error of the call itself is shown at one line of the user's: the last of the run
    node.where = run.nodes[-1].where
    new.nodes.append(node)
    env.update(zip(run.outputs, node.outputs, strict=True))
    env.update({y: env[x] for y, x in run.aliases.items()})
    env.update({y: new.constant(wrap(value)) for y, value in run.constants.items()})
    _copy(new, run.outside, env)


def warm(graph: Graph) -> bool:
    """Compile the code of all fused nodes.

    Returns:
        False, with a warning, when that can't be done here; the graph must not be run then.
    """
    try:
        for node in graph.nodes:
            give_way()
            if node.kind == "op" and isinstance(node.primitive, FusedKernel):
                node.primitive.compile()
    except Exception as error:
        _tell_once(
            f"fused loops can't be compiled here ({type(error).__name__}: {error}); graphs run "
            "without them. TRAINKIT_JIT=0 turns them off."
        )
        return False
    return True


@functools.lru_cache
def _tell_once(text: str) -> None:
    """Warn, but not again for each further graph."""
    warnings.warn(text, RuntimeWarning, stacklevel=3)
