"""Fusion of graphs whose sizes are not known: one program for all sizes in a range.

The graph is fused at a few known sizes, each time as any other graph. Where the results differ in
numbers alone, and each number is a·n + b, the code is written with these; what was decided by sizes
(which loops are joined, which are shared out to threads, which arrays are left to a kernel that is
better for large ones) is the same within the range, as it is at its ends.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainkit.compiler.generalized import Generalizer, SizeRange
from trainkit.compiler.ir import Unsupported, is_filled
from trainkit.compiler.llvm.llvm_kernel import LlvmCode
from trainkit.compiler.sizes import UnknownSize
from trainkit.core.cpu.cost_model import MOST_BYTES
from trainkit.core.process.side_work import give_way
from trainkit.graph.ir.graph import Graph, GraphTensor, Node
from trainkit.graph.ir.passes import copied, finished, rebuilt_frame, source_copied
from trainkit.graph.runtime.fused import FusedKernel
from trainkit.graph.runtime.fusion import FusionMemo, fuse
from trainkit.graph.runtime.program import Program
from trainkit.graph.runtime.sized_graphs import Axis, at_sizes, unknown_axes
from trainkit.graph.runtime.values_of_sizes import OF_SIZES, exact_settings, settings_of
from trainkit.kernels.jit.digests import digest_of

_MOST_UNKNOWN = 2
"""Sizes that differ and stay unknown; each doubles the sizes at which a graph is fused."""
_BISECTIONS = 3
"""Sizes that are tried between one that serves and one, half or twice of it, that does not."""
_NUMBERS = re.compile(r"0x[0-9A-FHKLMR]+|\d+|\\[0-9A-F]{2}")
"""In LLVM's language; also the bytes of numbers that are constants."""
_CONSTANT = re.compile(r"^@\S+ = private constant .*\n", re.MULTILINE)
"""A line that has the bytes of one: a size that another constant equals by chance has none."""


@dataclass(frozen=True)
class Sizes:
    """The sizes that a program is for.

    Attributes:
        axes: for each unknown axis of a graph the name of its size, or the size itself.
        range: from which to which number the named ones may go.
    """

    axes: tuple[str | int, ...]
    range: SizeRange

    @classmethod
    def like(cls, sizes: Sequence[int], axes: Sequence[Axis]) -> Sizes:
        """Those of one call: equal sizes are one; 0 and 1, which arrays treat otherwise, are fixed.

        Two axes of one array are two sizes: a square has n·n elements, which is no line in n.
        """
        names: dict[tuple[int, int], str] = {}
        keys: list[tuple[int, int]] = []
        for n, (input_index, _) in zip(sizes, axes, strict=True):
            earlier = zip(keys, axes[: len(keys)], strict=True)
            key = (n, sum(mine == n and other == input_index for (mine, _), (other, _) in earlier))
            keys.append(key)
            if n > 1 and key not in names and len(names) < _MOST_UNKNOWN:
                names[key] = f"n{len(names)}"
        # a range of one point so far, which `between` widens
        ends = tuple((n, n) for n, _ in names)
        symbols = tuple(names.get(key, key[0]) for key in keys)
        return cls(symbols, SizeRange(tuple(names.values()), ends))

    def at(self, point: dict[str, int]) -> tuple[int, ...]:
        """The size of each axis at a choice of the named ones."""
        return tuple(point[x] if isinstance(x, str) else x for x in self.axes)

    def include(self, sizes: Sequence[int]) -> bool:
        """Whether these, one for each axis, are sizes of it."""
        point: dict[str, int] = {}
        for axis, n in zip(self.axes, sizes, strict=True):
            if isinstance(axis, str) and point.setdefault(axis, n) == n:
                continue
            if axis != n:
                return False
        ends = dict(zip(self.range.names, self.range.ends, strict=True))
        return all(ends[name][0] <= n <= ends[name][1] for name, n in point.items())

    def conditions(self, axes: Sequence[Axis]) -> list[tuple[int, int, str | int, tuple[int, int]]]:
        """What a program asks of the arrays of a call, as it takes it."""
        ends = dict(zip(self.range.names, self.range.ends, strict=True))
        return [
            (*axis, size, ends[size] if isinstance(size, str) else (size, size))
            for axis, size in zip(axes, self.axes, strict=True)
        ]

    def between(self, low: Sequence[int], high: Sequence[int]) -> Sizes:
        """The same for a wider range."""
        return Sizes(self.axes, SizeRange(self.range.names, tuple(zip(low, high, strict=True))))


class GeneralFusion:
    """Makes fused graphs, each for sizes like those of a call."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._axes = unknown_axes(graph)
        self._memo = FusionMemo()
        self._fused: dict[tuple[int, ...], Graph] = {}
        self._outlines: dict[tuple[int, ...], list[Any]] = {}
        self._skeletons: dict[tuple[int, ...], str] = {}

    def widest(self, sizes: Sequence[int]) -> tuple[Graph, Sizes]:
        """The fused graph of the widest range of sizes that is found, and that range.

        Args:
            sizes: of the unknown axes at a call; they lie in the range.
        """
        try:
            return self._widest(sizes)
        finally:
            # graphs take memory; skeletons stay, as the next range begins where this one ends
            self._fused.clear()
            self._memo = FusionMemo()

    def _widest(self, sizes: Sequence[int]) -> tuple[Graph, Sizes]:
        exact = Sizes.like(sizes, self._axes)
        call_sizes = [low for low, _ in exact.range.ends]
        if call_sizes:
            high, low = self._upper_end(exact, call_sizes), self._lower_end(exact, call_sizes)
            # first a range in which no loop is lost; else loops that differ go node by node
            for strict in (True, False):
                # decisions by size often hold on one side of a call's sizes alone
                for one, other in ((low, high), (call_sizes, high), (low, call_sizes)):
                    general = self._merge_or_none(exact.between(one, other), strict)
                    if general is not None:
                        return general, exact.between(one, other)
        return self._exactly(tuple(sizes), exact), exact

    def _upper_end(self, exact: Sizes, sizes: list[int]) -> list[int]:
        """About the largest sizes up to which all is the same as here but for numbers."""
        # each look fuses the whole graph, so the end is doubled, then bisected a few times
        good, bad = sizes, [n << 1 for n in sizes]
        while self._agrees(exact, sizes, bad):
            good, bad = bad, [n << 1 for n in bad]
        return self._bisect(exact, good, bad)

    def _lower_end(self, exact: Sizes, sizes: list[int]) -> list[int]:
        """About the smallest sizes from which on all is the same as here but for numbers."""
        # not below 2: arrays broadcast axes of 1, and reductions of 0 have rules of their own
        good, bad = sizes, [2] * len(sizes)
        if self._agrees(exact, sizes, bad):
            return bad
        while max(half := [max(2, n >> 1) for n in good]) > 2 and self._agrees(exact, sizes, half):
            good = half
        return self._bisect(exact, good, [max(2, n >> 1) for n in good])

    def _bisect(self, exact: Sizes, good: list[int], bad: list[int]) -> list[int]:
        """An end between one that serves and one that does not, which serves.

        What is decided by sizes mostly changes at multiples of powers of two, so these are tried.
        """
        for _ in range(_BISECTIONS):
            middle = [_roundest_between(a, b) for a, b in zip(good, bad, strict=True)]
            if middle == good:
                break
            if self._agrees(exact, good, middle):
                good = middle
            else:
                bad = middle
        return good

    def _agrees(self, exact: Sizes, start: list[int], end: list[int]) -> bool:
        """Whether all is the same at two choices of sizes but for numbers; nearly always right."""
        if not self._fits_memory(exact, end):
            return False
        names = exact.range.names
        one, other = (exact.at(dict(zip(names, x, strict=True))) for x in (start, end))
        # the numbers are compared by `_merge`, at all corners; this only guides the search
        try:
            # texts are written only where outlines agree: writing takes as long as fusing
            return self._outline(one) == self._outline(other) and (
                self._skeleton(one) == self._skeleton(other)
            )
        except (Unsupported, MemoryError):
            return False

    def _outline(self, sizes: tuple[int, ...]) -> list[Any]:
        outline = self._outlines.get(sizes)
        if outline is None:
            outline = self._outlines[sizes] = _outline(self._at(sizes))
        return outline

    def _skeleton(self, sizes: tuple[int, ...]) -> str:
        """A digest of the texts of a fused graph's kernels, without their numbers."""
        skeleton = self._skeletons.get(sizes)
        if skeleton is None:
            graph = self._at(sizes)
            kernels = [n.primitive for n in graph.nodes if isinstance(n.primitive, FusedKernel)]
            texts = [_NUMBERS.sub("", _CONSTANT.sub("", k.code.text)) for k in kernels]
            skeleton = self._skeletons[sizes] = digest_of(*texts)
        return skeleton

    def _fits_memory(self, exact: Sizes, end: list[int]) -> bool:
        sizes = exact.at(dict(zip(exact.range.names, end, strict=True)))
        size_of_axis = dict(zip(self._axes, sizes, strict=True))
        return all(
            _bytes(x, [size_of_axis.get((input_index, axis), n) for axis, n in enumerate(x.shape)])
            <= MOST_BYTES  # the stand-in of an input is address space without memory
            for input_index, x in enumerate(self._graph.inputs)
        )

    def _merge_or_none(self, sizes: Sizes, strict: bool) -> Graph | None:
        if any(low >= high for low, high in sizes.range.ends):
            return None
        try:
            return self._merge(sizes, strict)
        except (Unsupported, MemoryError):
            return None

    def _at(self, sizes: tuple[int, ...]) -> Graph:
        graph = self._fused.get(sizes)
        if graph is None:
            give_way()
            graph = self._fused[sizes] = fuse(at_sizes(self._graph, sizes), memo=self._memo)
        return graph

    def _exactly(self, sizes: tuple[int, ...], exact: Sizes) -> Graph:
        """The graph of one choice of sizes, which follow from no array in it."""
        graph = self._at(sizes)
        merge = Generalizer(exact.range, exact.range.corners(), exact.range.corners()[0])
        return _replace(graph, {}, exact_settings(graph, merge))

    def _merge(self, sizes: Sizes, strict: bool) -> Graph:
        """One graph for all sizes in a range.

        Raises:
            Unsupported: at its ends, or between them, more than numbers differs.
        """
        points = sizes.range.corners()
        for step in (1, 2):  # sizes between the ends: whatever is no line shows there
            points.append(
                {
                    name: min(low + step, high)
                    for name, (low, high) in zip(sizes.range.names, sizes.range.ends, strict=True)
                }
            )
        graphs = [self._at(sizes.at(point)) for point in points]
        # not those that stay: what their ids stood for may be gone, and others may have these ids
        outlines = [_outline(graph) for graph in graphs]
        if any(outline != outlines[0] for outline in outlines):
            raise Unsupported("other operations at other sizes")
        # corners come first among the points, and the last of them has the largest sizes
        corners = len(sizes.range.corners())
        last = graphs[corners - 1]
        merge = Generalizer(sizes.range, points, sizes.range.corners()[-1])
        kernels: dict[Node, FusedKernel | None] = {}
        values: dict[Node, dict[str, Any]] = {}
        for nodes in zip(*(graph.nodes for graph in graphs), strict=True):
            node = nodes[corners - 1]
            settings = settings_of(nodes, merge)
            if settings is not None:
                values[node] = settings
            else:
                kernels[node] = _kernel(nodes, node, sizes.range, points, strict)
        return _replace(last, kernels, values)


def _roundest_between(end: int, other: int) -> int:
    """The multiple of the largest power of two between two numbers; `end` if there is none."""
    below, last = min(end, other), max(end, other) - 1
    if last <= below:
        return end
    power: int = 1 << (last ^ below).bit_length() - 1
    return last & -power


def _bytes(x: GraphTensor, shape: Sequence[int | None]) -> int:
    total = int(x.dtype.dtype.itemsize)
    for n in shape:
        total *= n or 1
    return total


def _outline(graph: Graph) -> list[Any]:
    """What a fused graph does, but for the numbers in its kernels."""
    index_of = {node: i for i, node in enumerate(graph.nodes)}

    def name(x: Any) -> Any:
        if isinstance(x, GraphTensor):
            return "tensor", index_of[x.node], x.index
        # 1, 1.0 and True are equal, and give results of other dtypes
        return type(x), repr(x)

    # copies of a node share its settings (see `sized_graphs`), so their ids tell whether two
    # nodes are copies of one
    lines: list[Any] = []
    for node in graph.nodes:
        kernel = isinstance(node.primitive, FusedKernel)
        lines.append(
            (
                node.kind,
                "fused" if kernel else node.primitive,
                tuple(map(name, node.inputs)),
                id(node.settings) if node.settings else None,
                _value(node),
                len(node.outputs),
            )
        )
    lines.append([name(y) for y in graph.outputs])
    lines.append([(id(slot.variable), name(slot.now)) for slot in graph.assigned])
    return lines


def _value(node: Node) -> Any:
    if node.kind != "constant":
        return id(node.value)
    # passes may make a constant anew at each size, so small ones are compared by what they hold
    array = node.value._array
    if (
        isinstance(array, np.ndarray | np.generic)
        and array.nbytes <= 1 << 16
        and array.dtype != object
    ):
        # of one number alone it may have another size where sizes are others
        if is_filled(array):
            return array.dtype, array.ndim, array.reshape(-1)[0].tobytes()
        return array.dtype, array.shape, array.tobytes()
    return id(array)


def _kernel(
    nodes: Sequence[Node], last: Node, sizes: SizeRange, points: list[dict[str, int]], strict: bool
) -> FusedKernel | None:
    """The kernel for all sizes of one that there is for each, `None` where there is none."""
    if not isinstance(last.primitive, FusedKernel):
        return None
    try:
        code = _code([node.primitive.code for node in nodes], sizes, points)
    except Unsupported:
        if strict:
            raise
        return None
    return FusedKernel(code, last.primitive.part, Program)


def _code(codes: list[LlvmCode], sizes: SizeRange, points: list[dict[str, int]]) -> LlvmCode:
    if all(code is codes[0] for code in codes):
        return codes[0]  # of a run in which nothing depends on sizes
    # A comparison of sizes is decided by the numbers of one corner (see `UnknownSize`). The text is
    # right for the whole range only if no corner decides otherwise.
    general = [_generalize(codes, sizes, points, at) for at in sizes.corners()]
    if any(code.text != general[0].text for code in general):
        raise Unsupported("other code at other sizes")
    return general[-1]


def _generalize(
    codes: list[LlvmCode], sizes: SizeRange, points: list[dict[str, int]], at: dict[str, int]
) -> LlvmCode:
    merge = Generalizer(sizes, points, at)
    arguments = [
        (merge.buffer([b for b, _, _ in forms]), merge.shape([s for _, s, _ in forms]), forms[0][2])
        for forms in zip(*(code.arguments for code in codes), strict=True)
    ]
    steps = merge.steps([code.steps for code in codes])
    views = [merge.view(forms) for forms in zip(*(code.views for code in codes), strict=True)]
    names = {
        name
        for _, shape, _ in arguments
        for size in shape
        if isinstance(size, UnknownSize)
        for names in size.terms
        for name in names
    }
    # a loop over weights alone has the same numbers at each size
    if not names:
        return codes[-1]
    used = [(n, ends) for n, ends in zip(sizes.names, sizes.ends, strict=True) if n in names]
    return LlvmCode(steps, arguments, views, SizeRange(*map(tuple, zip(*used, strict=True))))


def _replace(
    graph: Graph, kernels: Mapping[Node, FusedKernel | None], values: Mapping[Node, dict[str, Any]]
) -> Graph:
    """`graph` with other kernels, and nodes of sizes where there are settings for such.

    A fused node whose kernel is `None` becomes the nodes that it was made of.
    """
    new, env = rebuilt_frame(graph)
    for node in graph.nodes:
        inputs = tuple(env[x] if isinstance(x, GraphTensor) else x for x in node.inputs)
        if node in values:
            spec = node.outputs[0]._spec
            sized = Node(new, "op", OF_SIZES.name, (spec,), OF_SIZES, (), values[node])
            sized.where = node.where
            new.nodes.append(sized)
            env[node.outputs[0]] = sized.outputs[0]
        elif node.kind != "op":
            env[node.outputs[0]] = source_copied(new, node)
        elif not isinstance(node.primitive, FusedKernel) or node not in kernels:
            env.update(zip(node.outputs, copied(new, node, inputs), strict=True))
        elif kernels[node] is None:
            results = _unfused(new, node.primitive.part, inputs)
            env.update(zip(node.outputs, results, strict=True))
        else:
            outputs = copied(new, node, inputs)
            outputs[0].node.primitive = kernels[node]
            env.update(zip(node.outputs, outputs, strict=True))
    return finished(graph, new, env)


def _unfused(new: Graph, part: Graph, inputs: tuple[Any, ...]) -> list[GraphTensor]:
    env: dict[Any, Any] = dict(zip(part.inputs, inputs, strict=True))
    for node in part.nodes:
        if node.kind == "constant":
            env[node.outputs[0]] = new.constant(node.value)
        elif node.kind == "op":
            node_inputs = tuple(env[x] if isinstance(x, GraphTensor) else x for x in node.inputs)
            env.update(zip(node.outputs, copied(new, node, node_inputs), strict=True))
    return [env[y] for y in part.outputs]
