"""A graph as a flat Python program over arrays.

The program has one line per node. There are no tensors, no dtype checks and no tapes in it: a line
calls a kernel on local names, and names are dropped after their last use, so memory is freed as it
goes. Variables are read at its start and stored at its end, when nothing can fail any more.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trainkit.compiler.ir import layout_of
from trainkit.compiler.sizes import ALIGNMENT, ROUNDED, UnknownSize, python_text, terms_of
from trainkit.core.cpu.processor import cache_bytes
from trainkit.core.dispatch import ownership
from trainkit.core.dispatch.eager import KERNEL_ERRORS
from trainkit.core.dispatch.native import aligned_run
from trainkit.core.process.side_work import give_way
from trainkit.core.tensor import Tensor, wrap
from trainkit.core.variable import laid_out
from trainkit.graph.ir.graph import Graph, GraphTensor, Node, needed_nodes
from trainkit.graph.ir.user_lines import located
from trainkit.graph.runtime.bound_kernels import bound_kernel
from trainkit.graph.runtime.fused import FusedKernel
from trainkit.graph.runtime.values_of_sizes import OF_SIZES, ValuesOfSizes, of_sizes, text_of
from trainkit.kernels.embedding.row_gradient import dense
from trainkit.kernels.matmul.prepared_weights import let_go
from trainkit.ops.indexing.gathering import pick_gradient, take_sum
from trainkit.ops.math.update_weights import update_weights
from trainkit.ops.neural.embedding import embedding_gradient, lookup_gradient

_UPDATE = update_weights.primitive
_BY_ROWS: dict[Any, Callable[..., Any]] = {
    embedding_gradient.primitive: lookup_gradient,
    take_sum.primitive: pick_gradient,
}
"""Gradients of tables that a step may read by their rows, and what gives them so."""
_VALUES_OF_SIZES, _SIZED = "values_of_sizes", "sized"
"""In a program's text: the function that computes what follows from sizes, and what it gave."""


class Program:
    """A graph made executable: call it with one array per input, get one array per output.

    For a graph that is no branch, the values of its variables are read when it is called, and
    the assigned ones are stored when it has run.

    With conditions, `run` gives `None` for arrays whose sizes are others than it says.

    Args:
        graph: what is run.
        on_gpu: whether arrays may lie on a GPU.
        watched: function of a node and its kernel to the kernel that is called, for the profiler.
        conditions: of axes whose sizes the graph does not know: which input, which axis, the name
            that the size has in fused code (or which number it is), the least and the largest.

    Attributes:
        source: the generated Python text, a line per node.
        run: the function made of it: arrays by position, a list of arrays back.
        code: the code object that frames of that function have.
    """

    def __init__(
        self,
        graph: Graph,
        on_gpu: bool = False,
        watched: Any = None,
        conditions: Sequence[tuple[int, int, str | int, tuple[int, int]]] = (),
    ) -> None:
        self.graph = graph
        writer = _ProgramWriter(graph, on_gpu, watched, conditions)
        self.source = writer.source()
        self._nodes = writer.line_nodes
        namespace = writer.namespace
        namespace["explained"] = self._explain_stop
        # by this name of a file `_place_of` knows the program's frame in a traceback
        exec(compile(self.source, f"<graph {graph.name}>", "exec"), namespace)
        run = namespace["run"]
        self.code = run.__code__
        self.run: Callable[..., Any] = run
        if not on_gpu and not _is_small(graph):
            # a step of training fills more than the few megabytes that a cache has
            self.run = aligned_run(run, comes_back=not graph.assigned)
        if _VALUES_OF_SIZES in namespace:
            namespace[_SIZED] = ValuesOfSizes(namespace[_VALUES_OF_SIZES])
        self.variables = writer.variables

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """Run on arrays; assigned variables are stored."""
        results: list[Any] = self.run(*arrays)
        return results

    def _explain_stop(self, error: Exception) -> Exception:
        """A kernel's error with the operation, the shapes and the user's line."""
        node, values = self._place_of(error)
        if node is None or node.primitive is None:
            return error
        # no local holds what an optimizer's step was about to write over
        inputs = tuple(
            wrap(dense(values[_local(x)]))
            if isinstance(x, GraphTensor) and _local(x) in values
            else x
            for x in node.inputs
        )
        settings = {k: v for k, v in node.settings.items() if not isinstance(v, Graph)}
        return located(node.primitive.explained(error, inputs, settings), node)

    def node_of(self, error: BaseException) -> Node | None:
        """The node whose kernel raised `error`, `None` where it is not from a node."""
        return self._place_of(error)[0]

    def _place_of(self, error: BaseException) -> tuple[Node | None, dict[str, Any]]:
        """The node that was at work, with the locals of the program."""
        traceback = error.__traceback__
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == f"<graph {self.graph.name}>":
                node = self._nodes.get(traceback.tb_lineno)
                # the line that asks for values of sizes is of no node, but one of theirs is within
                if node is not None:
                    return node, traceback.tb_frame.f_locals
            traceback = traceback.tb_next
        return None, {}


def _is_small(graph: Graph) -> bool:
    """Whether each array that a graph computes takes less than the first cache."""
    limit = cache_bytes(1)
    return all(
        (elements := x.shape.num_elements()) is not None and elements * x.dtype.size < limit
        for node in graph.nodes
        for x in node.outputs
    )


def _local(x: GraphTensor) -> str:
    """The name of the local that holds `x`."""
    # the graph keeps its nodes alive, so no two of them have one id
    return f"t{id(x.node):x}_{x.index}"


class _ProgramWriter:
    """Writes the text of a program and collects what it refers to."""

    def __init__(
        self, graph: Graph, on_gpu: bool = False, watched: Any = None, conditions: Any = ()
    ) -> None:
        self.graph = graph
        self._conditions = conditions
        self._on_gpu = on_gpu
        self._watched = watched
        self.namespace: dict[str, Any] = {
            "np": np,
            "__name__": "trainkit.graph.runtime.program",
            "errors": KERNEL_ERRORS,
            "wrap": wrap,
            "Tensor": Tensor,
            "laid_out": laid_out,
            "ndarray": np.ndarray,
            "empty": np.empty,
            "uint8": np.uint8,
            **ownership.NAMES,
        }
        self.variables: list[Any] = []
        self.line_nodes: dict[int, Node] = {}
        self._lines: list[str] = []
        self._sizes: list[str] = []
        self._variable_names: dict[GraphTensor, str] = {}
        self._in_place: set[GraphTensor] = set()
        self._written_by_node: set[GraphTensor] = set()
        self._read_after_writing: set[GraphTensor] = set()
        self._row_gradients: set[Node] = set()
        self._result_counts: Counter[int] = Counter()

    def source(self) -> str:
        nodes = needed_nodes(self.graph)
        # a branch or body stores nothing: who runs it takes its new values from the results
        stored = self.graph.assigned if self.graph.outer is None else []
        results = [*self.graph.outputs, *(slot.now for slot in stored)]
        self._result_counts = Counter(map(id, results))  # by identity: `==` compares elements
        operations = [node for node in nodes if node.kind == "op"]
        # they come again at each call with the same sizes, and nothing writes over them
        sized = of_sizes(operations, results)
        sized_nodes = set(sized)
        operations = _updates_last([node for node in operations if node not in sized_nodes])
        # what Python may assign and read is never written over
        alone = not any(node.runs_python for node in operations)
        # from there on no error can come between the first new value and the last
        ending = _ending(operations) if alone else len(operations)
        slots = {id(slot.now): slot for slot in stored}
        last = self._last_uses(operations, results)
        written = self._written_variables(operations, ending, slots)
        self._row_gradients = (
            set() if self._on_gpu else self._only_stepped_along(operations, written)
        )
        self._say(f"def run({', '.join(_local(x) for x in self.graph.inputs)}):", 0)
        self._compare_sizes()
        if stored:
            self.namespace["changed"] = [slot.variable for slot in stored]
            self.namespace["let_go"] = let_go
            self._say("let_go(changed)")
        self._read_variables(nodes, self._only_written(operations, written))
        self._say("try:" if operations else "if True:")
        for node in nodes:
            # globals of the program: no line drops a constant or writes over it
            if node.kind == "constant":
                self.namespace[_local(node.outputs[0])] = node.value._array
        sized_names = "".join(f"{_local(y)}, " for node in sized for y in node.outputs)
        if sized:
            self._say(f"{sized_names[:-1]} = {_SIZED}[{', '.join(self._sizes) or '()'}]", 2)
        readers = _readers(operations)
        for i, node in enumerate(operations):
            if isinstance(node.primitive, FusedKernel):
                give_way()
                reused = {} if i < ending else self._reused(node, slots, readers, i)
                self._write_fused(node, reused, last.get(node, []))
            elif node in written:
                self._write_update(node, written[node])
            else:
                self._write(node)
            if last.get(node):
                self._say(f"del {', '.join(sorted(last[node]))}", 2)
        # `if True:` needs a body where there are no operations
        self._say("pass", 2)
        if operations:
            self._say("except errors as error:")
            self._say("explanation = explained(error)", 2)
            self._say("if explanation is error: raise", 2)  # no error is a cause of itself
            self._say("raise explanation from error", 2)
        self._store(stored)
        if stored:  # another thread may have looked while values were written over
            self._say("let_go(changed)")
        self._say(f"return [{', '.join(_local(y) for y in self.graph.outputs)}]")
        if sized:
            self._say(f"def {_VALUES_OF_SIZES}({', '.join(self._sizes)}):", 0)
            self._say("if True:")  # lines of nodes stand as deep as in `run`
            for node in sized:
                self._write(node)
            self._say(f"return ({sized_names})")
        return "\n".join(self._lines)

    def _say(self, text: str, depth: int = 1) -> None:
        self._lines.append("    " * depth + text)

    def _compare_sizes(self) -> None:
        """Give names to the sizes that the graph does not know, and leave where they do not fit."""
        conditions = []
        for input_index, axis, size, (low, high) in self._conditions:
            size_expression = f"{_local(self.graph.inputs[input_index])}.shape[{axis}]"
            if isinstance(size, str) and size not in self._sizes:
                self._sizes.append(size)
                self._say(f"{size} = {size_expression}")
                conditions.append(f"{low} <= {size} <= {high}")
            else:
                conditions.append(f"{size_expression} == {size}")
        # before anything is read or run, so that the program of another range starts afresh
        if conditions:
            self._say(f"if not ({' and '.join(conditions)}):")
            self._say("return None", 2)
        # sizes of scratch are sums of rounded sizes, as each piece begins at a line of memory
        kernels = [n.primitive for n in self.graph.nodes if isinstance(n.primitive, FusedKernel)]
        terms = [terms_of(kernel.code.scratch) for kernel in kernels]
        rounded = {name for polynomial in terms for names in polynomial for name in names}
        for name in self._sizes:
            if name + ROUNDED in rounded:
                self._say(f"{name}{ROUNDED} = {name} + {ALIGNMENT - 1} & -{ALIGNMENT}")

    # ------------------------------------------------------------------ variables

    def _read_variables(self, nodes: list[Node], left_out: set[GraphTensor]) -> None:
        for node in nodes:
            # an optimizer's step reads it from the variable: a name here would be a further holder
            if node.kind == "variable" and node.outputs[0] in left_out:
                self.variables.append(node.value)
            elif node.kind == "variable":
                name = f"v{len(self.variables)}"
                self.variables.append(node.value)
                self.namespace[name] = node.value
                self._variable_names[node.outputs[0]] = name
                self._say(f"{_local(node.outputs[0])} = {name}._value._array")

    def _store(self, stored: list[Any]) -> None:
        """Give variables what was assigned; those that were written in place have it.

        Nobody else will write to these arrays, so they are held without a copy, and without a call.
        """
        for i, slot in enumerate(stored):
            if slot.now in self._written_by_node:
                continue
            self.namespace[f"s{i}"] = slot.variable
            # an array written in place is the one that the variable has already
            value, depth = _local(slot.now), 1
            if slot.now in self._in_place:
                self._say(f"if {value} is not {_local(slot.first)}:")
                depth = 2
            self._say("held = Tensor()", depth)
            plain = f"{value}.shape and {value}.flags.c_contiguous"  # most are, without a call
            self._say(f"held._array = {value} if {plain} else laid_out({value})", depth)
            self._say(f"s{i}._value = held", depth)

    # ------------------------------------------------------------------ operations

    @staticmethod
    def _last_uses(nodes: list[Node], results: list[GraphTensor]) -> dict[Node, list[str]]:
        """For each node the locals that nothing after it uses."""
        returned = set(results)
        # only results are dropped: callers and variables hold the other arrays anyway
        user: dict[GraphTensor, Node] = {}
        operations = set(nodes)
        for node in nodes:
            for x in node.inputs:
                if isinstance(x, GraphTensor) and x.node in operations:
                    user[x] = node
        dropped: dict[Node, list[str]] = {}
        for x, node in user.items():
            if x not in returned:
                dropped.setdefault(node, []).append(_local(x))
        return dropped

    def _write(self, node: Node) -> None:
        kernel = f"k{len(self._lines)}"
        if node.primitive is OF_SIZES:
            text, self.namespace[kernel] = text_of(node, kernel)
            self._say(f"{_local(node.outputs[0])} = {text}", 2)
            self.line_nodes[len(self._lines)] = node
            return
        bound = (
            functools.partial(_BY_ROWS[node.primitive], **node.settings)
            if node in self._row_gradients
            else bound_kernel(node, self._on_gpu)
        )
        self.namespace[kernel] = bound if self._watched is None else self._watched(node, bound)
        values = ", ".join(
            _local(x) if isinstance(x, GraphTensor) else self._literal(x) for x in node.inputs
        )
        targets = ", ".join(_local(y) for y in node.outputs)
        if node.many:
            targets += ","
        called = f"{kernel}({values})"
        self._say(f"{targets} = {called}" if targets.strip(",") else called, 2)
        # lines of tracebacks count from 1, so this is the one just written
        self.line_nodes[len(self._lines)] = node

    def _written_variables(
        self, operations: list[Node], ending: int, slots: dict[int, Any]
    ) -> dict[Node, list[GraphTensor | None]]:
        """For steps of optimizers what they may write over, in the order of their results.

        These are values of variables that nothing reads after the node, or as another input of it,
        where the new value is what the variable has in the end; `None` stands for the others. As of
        `_reused`, there are none but nodes that can't fail after it.
        """
        last = {x: i for i, node in enumerate(operations) for x in node.inputs if _is_tensor(x)}
        read = {x for node in operations for x in node.inputs if _is_tensor(x)}
        written: dict[Node, list[GraphTensor | None]] = {}
        for index, node in list(enumerate(operations))[ending:]:
            if node.primitive is not _UPDATE:
                continue
            uses = Counter(map(id, node.inputs))
            operands: list[GraphTensor | None] = []
            for x, y in zip(_buffers(node), node.outputs, strict=True):
                slot = slots.get(id(y))
                # The new value is the variable's own array: nodes behind it may read it, but it is
                # no result; and the array must not come in twice, e.g. as its own gradient.
                is_free = (
                    slot is not None
                    and slot.first is x
                    and x.node.kind == "variable"
                    and last[x] == index
                    and uses[id(x)] == 1
                    and self._result_counts[id(y)] == 1
                    and id(x) not in self._result_counts
                )
                operands.append(x if is_free else None)
                if is_free:
                    self._written_by_node.add(y)
                    if y in read:
                        self._read_after_writing.add(y)
            if any(x is not None for x in operands):
                written[node] = operands
        return written

    def _only_stepped_along(
        self, operations: list[Node], written: dict[Node, list[GraphTensor | None]]
    ) -> set[Node]:
        """Gradients of tables by rows that nothing reads but the step that writes to the table."""
        readers = Counter(id(x) for node in operations for x in node.inputs if _is_tensor(x))
        rows: set[Node] = set()
        for node, over in written.items():
            rule = node.settings["rule"]
            grads = node.inputs[rule.n_numbers + 1 :: rule.n_buffers]
            # a step that gives arrays back has the same code for all of its gradients
            if None not in over:
                rows.update(
                    x.node
                    for x in grads
                    if _is_tensor(x)
                    and x.node.primitive in _BY_ROWS
                    and readers[id(x)] == 1
                    and id(x) not in self._result_counts
                )
        return rows

    @staticmethod
    def _only_written(
        operations: list[Node], written: dict[Node, list[GraphTensor | None]]
    ) -> set[GraphTensor]:
        """Values of variables that need no name, as only a step of an optimizer reads them."""
        over = {x for chosen in written.values() for x in chosen if x is not None}
        for node in operations:
            mine = {x for x in written.get(node, ()) if x is not None}
            # another reader needs the value before the step, so it has a name all the same
            over -= {x for x in node.inputs if _is_tensor(x)} - mine
        return over

    def _write_update(self, node: Node, over: list[GraphTensor | None]) -> None:
        """The call of an optimizer's step, which writes to variables itself.

        No name holds their arrays any more, so that it can tell whether anybody else does.
        """
        number = len(self._lines)
        overwritten = dict.fromkeys(x for x in over if x is not None)  # a set in one order
        names = [_local(x) for x in overwritten if x in self._variable_names]
        if names:
            self._say(f"del {', '.join(names)}", 2)
        bound = node.settings["rule"].bound([None if x is None else x.node.value for x in over])
        self.namespace[f"u{number}"] = (
            bound if self._watched is None else self._watched(node, bound)
        )
        inputs = ", ".join(_local(x) for x in node.inputs if x not in overwritten)
        targets = [_local(y) for x, y in zip(over, node.outputs, strict=True) if x is None]
        called = f"u{number}({inputs})"
        self._say(f"{', '.join(targets)}, = {called}" if targets else called, 2)
        self.line_nodes[len(self._lines)] = node
        for i, (x, y) in enumerate(zip(over, node.outputs, strict=True)):
            if x is not None and y in self._read_after_writing:
                self.namespace[f"w{number}_{i}"] = x.node.value
                self._say(f"{_local(y)} = w{number}_{i}._value._array", 2)

    def _write_fused(
        self, node: Node, reused: dict[GraphTensor, GraphTensor], dropped: list[str]
    ) -> None:
        """The call of compiled code, with the memory that it is to write to."""
        kernel: FusedKernel = node.primitive
        number = len(self._lines)
        self.namespace[f"f{number}"] = kernel.compile()
        self.namespace[f"p{number}"] = kernel.interpreted
        reused = reused | self._dying_inputs(node, reused, dropped)
        for i, y in enumerate(node.outputs):
            allocation = self._allocation(kernel.code, i, f"e{number}_{i}")
            if y in reused:
                allocation = f"{_local(reused[y])} if {self._free(reused[y])} else {allocation}"
            self._say(f"{_local(y)} = {allocation}", 2)
        input_names = [_local(x) for x in node.inputs]
        arguments = [*input_names, *self._constants(kernel, number), *map(_local, node.outputs)]
        targets = ", ".join(map(_local, node.outputs)) + ","
        if kernel.code.scratch:
            arguments.append(f"m{number}")
            self.namespace[f"q{number}"] = kernel.scratch
            size = python_text(kernel.code.scratch)
            self._say(f"m{number} = q{number}.pop() if q{number} else empty({size}, uint8)", 2)
            # a piece that a call of smaller sizes has left may be too short
            if kernel.code.unknown:
                self._say(f"if m{number}.size < {size}:", 2)
                self._say(f"m{number} = empty({size}, uint8)", 3)
        # all checks stand at the start of compiled code: where it refuses, inputs are as they were
        self._say(f"if not f{number}({', '.join(arguments)}):", 2)
        self.line_nodes[len(self._lines)] = node
        self._say(f"{targets} = p{number}({', '.join(input_names)})", 3)
        self.line_nodes[len(self._lines)] = node
        if kernel.code.scratch:
            self._say(f"q{number}.append(m{number})", 2)

    def _allocation(self, code: Any, i: int, name: str) -> str:
        """An expression that makes the array of an output."""
        if not any(isinstance(n, UnknownSize) for n in code.views[i].shape):
            self.namespace[name] = code.makers[i]
            return f"{name}()"
        # `empty` gives row-major arrays: axes come in the order of memory, then are turned back
        inside, back = layout_of(code.views[i])
        self.namespace[name] = code.views[i].dtype
        dims = "".join(f"{python_text(n)}, " for n in inside)
        return f"empty(({dims}), {name})" + (f".transpose({back})" if back else "")

    def _constants(self, kernel: FusedKernel, number: int) -> list[str]:
        names = [f"c{number}_{i}" for i in range(len(kernel.code.constants))]
        self.namespace.update(zip(names, kernel.code.constants, strict=True))
        return names

    def _free(self, first: GraphTensor) -> str:
        """A condition: nobody but this program, and the variable, holds the array."""
        # the memory of a view belongs to another array, which someone else may read
        value = _local(first)
        is_held_here_alone = ownership.condition(value, self._variable_names.get(first))
        return f"type({value}) is ndarray and {value}.base is None and {is_held_here_alone}"

    @staticmethod
    def _dying_inputs(
        node: Node, reused: dict[GraphTensor, GraphTensor], dropped: list[str]
    ) -> dict[GraphTensor, GraphTensor]:
        """Outputs that may be written over results of earlier nodes that nothing needs later."""
        overwritten: dict[GraphTensor, GraphTensor] = {}
        unused, written = set(dropped), set()
        # in one order in every process, so the same program writes to the same places
        for output_index, source in sorted(node.primitive.code.reusable):
            y, x = node.outputs[output_index], node.inputs[source]
            # one input's memory serves one output, also where it comes in twice
            is_taken = y in reused or y in overwritten or id(x) in written
            if not is_taken and _local(x) in unused:
                overwritten[y] = x
                written.add(id(x))
        return overwritten

    def _reused(
        self, node: Node, slots: dict[int, Any], readers: dict[int, list[int]], index: int
    ) -> dict[GraphTensor, GraphTensor]:
        """Outputs that are new values of variables, and may be written over the old ones.

        Nothing after this node can fail or reads the old value, and no other node than a fused one
        has seen it, so nothing but the variable can refer to it; whether anything does is asked
        when it runs.

        Args:
            node: a fused one, after which there are none but such that can't fail.
            slots: those of assigned variables, by `id` of the new value.
            readers: by `id` of a tensor the indices of the operations that read it, -1 for one that
                is not fused.
            index: that of `node`.
        """
        input_indices = {x: i for i, x in enumerate(node.inputs)}
        overwritten: dict[GraphTensor, GraphTensor] = {}
        for i, y in enumerate(node.outputs):
            slot = slots.get(id(y))
            if slot is None or id(slot.first) in self._result_counts:
                continue
            if (i, input_indices.get(slot.first)) not in node.primitive.code.reusable:
                continue
            reader_indices = readers[id(slot.first)]
            fused = min(reader_indices) >= 0 and max(reader_indices) == index
            # a value that is also returned, or that two variables get, has memory of its own
            if fused and self._result_counts[id(slot.now)] == 1:
                overwritten[slot.now] = slot.first
        self._in_place |= set(overwritten)
        return overwritten

    def _literal(self, x: Any) -> str:
        if x is None or type(x) in (int, bool) or (type(x) is float and np.isfinite(x)):
            return repr(x)
        # nan and inf have no literal, and NumPy's numbers would lose their type as one
        name = f"c{len(self.namespace)}"
        self.namespace[name] = x
        return name


def _readers(operations: list[Node]) -> dict[int, list[int]]:
    """By `id` of a tensor the places of the operations that read it, -1 for one not fused."""
    readers: dict[int, list[int]] = {}
    for i, node in enumerate(operations):
        index = i if isinstance(node.primitive, FusedKernel) else -1
        for x in node.inputs:
            if isinstance(x, GraphTensor):
                readers.setdefault(id(x), []).append(index)
    return readers


def _ending(operations: list[Node]) -> int:
    """The place from which on there are only fused nodes, and those after the first can't fail.

    No more can steps of optimizers along gradients whose sizes are known.
    """
    start = len(operations)
    while start:
        primitive = operations[start - 1].primitive
        if not isinstance(primitive, FusedKernel) and primitive is not _UPDATE:
            break
        start -= 1
        # this one still counts: it may refuse its arrays, but does so before it writes
        if _may_fail(operations[start]):
            break
    return start


def _may_fail(node: Node) -> bool:
    """Whether a fused node, or an optimizer's step, may refuse its arrays."""
    if isinstance(node.primitive, FusedKernel):
        return node.primitive.code.may_fail
    rule = node.settings["rule"]
    arrays = node.inputs[rule.n_numbers :]
    # weight and gradient of each member, whose shapes are compared; slots follow the weight
    return not all(
        x.shape.is_fully_defined() for i, x in enumerate(arrays) if i % rule.n_buffers < 2
    )


def _updates_last(operations: list[Node]) -> list[Node]:
    """The operations, with steps of optimizers that none but such read behind the rest.

    Nothing can fail then once they begin, so they may write over the old values.
    """
    readers: dict[Node, set[Node]] = {}
    for node in operations:
        for x in node.inputs:
            if _is_tensor(x):
                readers.setdefault(x.node, set()).add(node)
    late: set[Node] = set()
    # from the end, so that it is known of all readers whether they come last
    for node in reversed(operations):
        if node.primitive is _UPDATE and late.issuperset(readers.get(node, ())):
            late.add(node)
    if not late:
        return operations
    return [x for x in operations if x not in late] + [x for x in operations if x in late]


def _buffers(node: Node) -> list[Any]:
    """The weights and slots that a step of an optimizer reads, in the order of its results."""
    rule = node.settings["rule"]
    arrays = node.inputs[rule.n_numbers :]
    # all but gradients, which no step writes to
    return [x for i, x in enumerate(arrays) if i % rule.n_buffers != 1]


def _is_tensor(x: Any) -> bool:
    return isinstance(x, GraphTensor)
