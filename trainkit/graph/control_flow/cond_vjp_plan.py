"""How a choice of branches is differentiated: branches that keep what is needed, and vjps.

Each branch and its backward pass are traced together, as `loop_vjp_plan` does it for loops. What
the backward pass uses of the branch's own operations is given by the branch as one more result. A
result has to come from both branches, so what they keep shares places where shapes and dtypes
agree, and has zeros that take no memory in its place where not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trainkit.autodiff.tape import GradientTape
from trainkit.core.dispatch import late_ops, trace_state
from trainkit.core.dispatch.eval_shape import eagerly
from trainkit.core.shapes import Spec
from trainkit.core.tensor import convert_to_tensor
from trainkit.graph.control_flow.residuals import Split, dependencies, quiet
from trainkit.graph.ir.graph import Graph, GraphTensor, Node, needed_nodes, replay
from trainkit.graph.ir.passes import BEFORE_GRADIENTS, optimised, prune

Flags = tuple[bool, ...]
Source = tuple[str, int]


@dataclass(eq=False)
class BranchPlan:
    """Branches that keep what gradients need, and their vjps.

    Attributes:
        saving: both branches with more results, without prints and assertions.
        with_effects: the same with them.
        backward: the vjps of both branches. They give gradients, in the same order.
        sources: for each of them what it takes: upstream gradients ("gradient", i), inputs of the
            choice ("input", i), its results ("result", i).
        places: for each gradient the number of the input that it belongs to.
        asked: which gradients it was made for: by which inputs, from which results.
    """

    saving: tuple[Graph, Graph]
    with_effects: tuple[Graph, Graph]
    backward: tuple[Graph, Graph]
    sources: tuple[list[Source], list[Source]]
    places: list[int]
    asked: tuple[Flags, Flags]

    @property
    def keeps_more(self) -> bool:
        """Whether the results of the branches are not all that the vjps need."""
        return len(self.saving[0].outputs) > len(self.asked[1])

    def serves(self, needed: Flags, now_seeded: Flags) -> bool:
        """Whether these branches have kept all that these gradients need."""
        # Branches that keep residuals have more results than their plan was made for. Second
        # gradients are upstream of these, too, and need a plan of the branches that keep.
        had_needed, had_given = self.asked
        n = len(had_given)
        return (
            not any(now_seeded[n:])
            and all(had or not need for need, had in zip(needed, had_needed, strict=True))
            and all(had or not seeded for seeded, had in zip(now_seeded, had_given, strict=False))
        )


@dataclass(eq=False)
class Kept:
    """What a branch that keeps more was made from.

    Attributes:
        base: the branch as it was.
        plan: the plan that the branch belongs to.
        with_effects: the branch with its effects.
    """

    base: Graph
    plan: BranchPlan
    with_effects: Graph


def plan_of_branches(
    true: Graph, false: Graph, needed: Flags, given: Flags, twins: tuple[int | None, ...]
) -> BranchPlan | None:
    """The plan for two branches; `None` if no gradient that is asked for depends on what is given.

    Args:
        true: graph of as many inputs as `needed` is longer than `twins`.
        false: graph of as many inputs as `twins` is long.
        needed: for each input of `true`, then of `false`, whether its gradient is of use.
        given: for each result, whether it has an upstream gradient.
        twins: for each input of `false` the input of `true` that is given the same value.
    """
    key = (false, needed, given, twins)
    if key not in true.plans:
        true.plans[key] = _plan((true, false), needed, given, twins)
    plan: BranchPlan | None = true.plans[key]
    return plan


def _plan(
    graphs: tuple[Graph, Graph], needed: Flags, has_upstream: Flags, twins: tuple[int | None, ...]
) -> BranchPlan | None:
    count = len(needed) - len(twins)
    one = _Branch(graphs[0], needed[:count], has_upstream)
    two = _Branch(graphs[1], needed[count:], has_upstream)
    pairs = _pairs(one.wanted, two.wanted, twins)
    # Asked of the masks alone: a choice without a gradient costs no trace of a backward pass.
    if not pairs:
        return None
    one.take_apart()
    two.take_apart()
    _share_places(one, two)
    starts = (0, count)
    # A twin counts once, as the input of the first branch: its gradient is one value, whichever
    # branch runs.
    indices = [i if i is not None else count + (j or 0) for i, j in pairs]
    vjps = [
        branch.backward(start, [pair[k] for pair in pairs], indices, graphs, count)
        for k, (branch, start) in enumerate(zip((one, two), starts, strict=True))
    ]
    with_effects = (one.saving(), two.saving())
    plan = BranchPlan(
        saving=(quiet(with_effects[0]), quiet(with_effects[1])),
        with_effects=with_effects,
        backward=(vjps[0][0], vjps[1][0]),
        sources=(vjps[0][1], vjps[1][1]),
        places=indices,
        asked=(needed, has_upstream),
    )
    for k, base in enumerate(graphs):
        # Later gradients recognise these graphs by it, and `merge_calls` what they stand for.
        for graph in (plan.saving[k], plan.with_effects[k]):
            graph.made_by = Kept(base, plan, plan.with_effects[k])
    return plan


def _pairs(
    one: list[int], two: list[int], twins: tuple[int | None, ...]
) -> list[tuple[int | None, int | None]]:
    """Inputs that get a gradient: each with its number in one branch, in the other, or in both."""
    other = {i: j for j, i in enumerate(twins) if i is not None}
    pairs: list[tuple[int | None, int | None]] = [(i, other.get(i)) for i in one]
    return pairs + [(twins[j], j) for j in two if twins[j] is None or twins[j] not in one]


class _Branch:
    """One branch on its way to a plan.

    Attributes:
        wanted: inputs that get a gradient from it.
        kept: what it gives besides its results, `None` where a place belongs to the other branch.
    """

    def __init__(self, body: Graph, needed: Flags, has_upstream: Flags) -> None:
        self.body = body
        depends = dependencies(body)
        needed_bits = sum(1 << i for i, flag in enumerate(needed) if flag)
        # Sets of inputs are ints, a bit for each. Results that lead to no needed input are not
        # seeded, and inputs that no seeded result depends on get no gradient.
        self._seeded = [
            i for i, mask in enumerate(depends) if has_upstream[i] and mask & needed_bits
        ]
        reached = 0
        for i in self._seeded:
            reached |= depends[i]
        self.wanted = [i for i, flag in enumerate(needed) if flag and reached >> i & 1]
        self.kept: list[GraphTensor | None] = []
        self._gradients: list[GraphTensor] = []

    @property
    def _count(self) -> int:
        return len(self.body.outputs)

    def take_apart(self) -> None:
        """Trace the branch with its backward pass, and see what one uses of the other."""
        inputs = len(self.body.inputs)
        self._joint = optimised(self._traced(), BEFORE_GRADIENTS)
        results = self._joint.outputs[: self._count]
        self._gradients = self._joint.outputs[self._count :]
        # All inputs count as rows: the backward pass has them as they are, and what is made of
        # them is kept. What the tape adds, though no upstream gradient comes into it, is left to
        # the backward pass, as the branch itself has no use for it.
        self._split = Split(self._joint, 0, inputs, inputs, there=self._forward_nodes())
        self._results = {y: i for i, y in reversed(list(enumerate(results)))}
        # A residual leaves a branch as it is, without a copy to a stack as in a loop, so nothing
        # is cheaper to compute again.
        needed = self._split.kept(self._gradients, recompute=False)
        self._used_results = [y for y in needed if y in self._results]
        self.kept = [y for y in needed if y not in self._results]

    def _traced(self) -> Graph:
        """Branch and backward pass in one graph.

        Inputs are those of the branch and upstream gradients, outputs the branch's, then gradients.
        """
        joint, body = Graph("joint"), self.body
        xs = [joint.add_input(x._spec, x.node.name) for x in body.inputs]
        gs: list[Any] = [joint.add_input(body.outputs[i]._spec, "gradient") for i in self._seeded]
        sources = [xs[i] for i in self.wanted]
        # Tapes outside must not see this trace; the one that is opened inside of the block does.
        with joint, trace_state.silence():
            with GradientTape() as tape:
                tape.watch(sources)
                ys = replay(body, list(xs))
            for k, i in enumerate(self._seeded):
                # Traced anew, operations may know other sizes than before, and a tape refuses
                # a seed whose shape is not that of its target.
                if tuple(gs[k].shape) != tuple(ys[i].shape):
                    gs[k] = late_ops.reshape_like(gs[k], ys[i])
            targets = [ys[i] for i in self._seeded]
            grads = tape.gradient(targets, sources, gs, unconnected_gradients="zero")
            joint.outputs = [joint.lift(y) for y in [*ys, *grads]]
        return joint

    def _forward_nodes(self) -> set[Node]:
        """The operations of the branch itself; others belong to the backward pass alone."""
        part = Graph("forward")
        part.nodes, part.outputs = self._joint.nodes, self._joint.outputs[: self._count]
        return set(needed_nodes(part))

    def saving(self) -> Graph:
        """The branch, effects and all, with what it keeps."""
        part = Graph(self.body.name)
        part.nodes, part.inputs = self._joint.nodes, self._joint.inputs[: len(self.body.inputs)]
        stands = [y for y in self.kept if y is not None]
        part.outputs = [*self._joint.outputs[: self._count], *stands]
        part.jit_compile = self.body.jit_compile
        # The nodes are those of the joint graph; pruning leaves those of the branch.
        saving = prune(part)
        residuals = iter(saving.outputs[self._count :])
        del saving.outputs[self._count :]
        for y, spec in zip(self.kept, self._specs, strict=True):
            saving.outputs.append(next(residuals) if y is not None else _stand_in(saving, spec))
        return saving

    def place(self, residuals: list[GraphTensor | None], specs: list[Spec]) -> None:
        """Say where the results are that it keeps."""
        self.kept, self._specs = residuals, specs

    def backward(
        self,
        start: int,
        own_indices: Sequence[int | None],
        indices: list[int],
        graphs: tuple[Graph, Graph],
        count: int,
    ) -> tuple[Graph, list[Source]]:
        """The backward pass as a graph, and what it takes.

        Args:
            start: the number of the branch's first input among those of the choice.
            own_indices: the branch's inputs whose gradients to give, `None` for one of the other's.
            indices: the same as numbers among all inputs.
            graphs: both branches.
            count: how many inputs the first has.
        """
        back = Graph(f"{self.body.name}_gradient")
        back.jit_compile = self.body.jit_compile
        sources: list[Source] = []
        env: dict[Any, Any] = {}

        def take(x: GraphTensor, kind: str, i: int) -> GraphTensor:
            sources.append((kind, i))
            return back.add_input(x._spec, x.node.name)

        inputs = self._joint.inputs[: len(self.body.inputs)]
        for x, i in zip(self._joint.inputs[len(inputs) :], self._seeded, strict=True):
            env[x] = take(x, "gradient", i)
        for i, x in enumerate(inputs):
            if x in self._split.used:
                env[x] = take(x, "input", start + i)
        for y in self._used_results:
            env[y] = take(y, "result", self._results[y])
        for i, residual in enumerate(self.kept):
            if residual is not None:
                env[residual] = take(residual, "result", self._count + i)
        self._split.copy_into(back, env)
        gradients = {i: env[gx] for i, gx in zip(self.wanted, self._gradients, strict=True)}
        for mine, index in zip(own_indices, indices, strict=True):
            # Both backward passes give the same gradients in the same order, as branches must.
            if mine in gradients:
                back.outputs.append(gradients[mine])
                continue
            # The input belongs to the other branch: its gradient is zeros, of the shape it has now.
            x = (*graphs[0].inputs[:count], *graphs[1].inputs)[index]
            zeros = back.apply(
                late_ops.zeros_like.primitive, (take(x, "input", index),), {"dtype": None}
            )
            back.outputs.append(zeros)
        return back, sources


def _share_places(one: _Branch, two: _Branch) -> None:
    """Let what both branches keep be the same results where shapes and dtypes agree."""
    # Without this `cond` would have a result for each residual of either branch, one of the two
    # always a stand-in.
    mine, free = list(one.kept), list(two.kept)
    other: list[GraphTensor | None] = []
    for x in mine:
        twin = next((y for y in free if y is not None and _fits(x, y)), None)
        other.append(twin)
        # Each residual is shared once; `is`, as `==` of tensors compares values.
        free = [y for y in free if y is not twin]
    specs = [x._spec for x in (*mine, *free) if x is not None]
    one.place([*mine, *[None] * len(free)], specs)
    two.place([*other, *free], specs)


def _fits(x: GraphTensor | None, y: GraphTensor) -> bool:
    return x is not None and None not in tuple(x.shape) and x._spec == y._spec


def _stand_in(graph: Graph, spec: Spec) -> GraphTensor:
    """What a branch gives in a place that belongs to the other: zeros that take no memory."""
    # Nobody reads it, as the backward pass of this branch takes only what the branch kept. It has
    # the rank and dtype that the result of the other branch has, and strides of 0.
    is_static = None not in tuple(spec.shape)
    dims = tuple(spec.shape) if is_static else (0,) * len(spec.shape)
    with eagerly():
        zero = convert_to_tensor(False if spec.dtype.is_bool else 0, dtype=spec.dtype)
    scalar = graph.constant(zero)
    if not dims:
        return scalar
    zeros: GraphTensor = graph.apply(late_ops.broadcast_to.primitive, (scalar,), {"shape": dims})
    return zeros
