"""How a loop's body is differentiated: a body that keeps the residuals, and its backward pass.

The body and the backward pass of one round are traced together. What does not depend on upstream
gradients belongs to the forward pass; of that, whatever the backward pass uses is given by the body
as one more result, which the loop stacks. So the gradient of a loop is a loop over the stacks, in
reverse.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from trainkit.autodiff.tape import GradientTape
from trainkit.core.dispatch import late_ops, trace_state
from trainkit.graph.control_flow.residuals import Split, dependencies, quiet
from trainkit.graph.control_flow.while_loop import cut_like, cut_to_sizes
from trainkit.graph.ir.graph import Graph, GraphTensor, replay
from trainkit.graph.ir.passes import BEFORE_GRADIENTS, optimised, prune


@dataclass
class LoopVjpPlan:
    """The two graphs, and what they take and give.

    Attributes:
        base: the body that the plan extends.
        saving: the body with more results, without prints and assertions.
        with_effects: the same with them.
        padded: which of its stacked results may differ in size from round to round.
        backward: the backward pass of one round. It takes upstream gradients of loop variables,
            sums of gradients so far, rows, and captures; it gives the gradients, the sums, and
            rows of gradients.
        carried: loop variables that have gradients.
        given: stacked results whose gradients are used.
        summed: captures whose gradients are summed, as places among the inputs of the body.
        fed: rows that have gradients, likewise.
        rows: what the backward loop is fed: rows of the loop ("fed", i), stacked results
            ("stack", k), gradients of stacked results ("gradient", k).
        captured: captures that it uses, as places among the inputs of the body.
        asked: which gradients it was made for: by which inputs, from which results.
    """

    base: Graph
    saving: Graph
    with_effects: Graph
    padded: tuple[int, ...]
    backward: Graph
    carried: tuple[int, ...]
    given: tuple[int, ...]
    summed: tuple[int, ...]
    fed: tuple[int, ...]
    rows: tuple[tuple[str, int], ...]
    captured: tuple[int, ...]
    asked: tuple[tuple[bool, ...], tuple[bool, ...]]

    def serves(self, needed: tuple[bool, ...], seeded: tuple[bool, ...]) -> bool:
        """Whether a loop with this plan's body has kept all that these gradients need."""
        # A body that keeps residuals has more results than its plan was made for. Second gradients
        # are upstream of these, too, and need a plan of that body.
        had_needed, had_given = self.asked
        n = len(had_given)
        return (
            not any(seeded[n:])
            and all(map(_implies, needed, had_needed))
            and all(map(_implies, seeded[:n], had_given))
        )


def _implies(a: bool, b: bool) -> bool:
    return b or not a


def plan_of(
    body: Graph,
    count: int,
    fed: int,
    padded: tuple[int, ...],
    needed: tuple[bool, ...],
    given: tuple[bool, ...],
) -> LoopVjpPlan | None:
    """The plan for a body; `None` if none of the gradients asked for depends on what is given.

    Args:
        body: graph of `count` loop variables, `fed` rows and captures.
        count: how many loop variables.
        fed: how many rows.
        padded: which stacked results may differ in size.
        needed: for each input of the body, whether its gradient is of use.
        given: for each result of the body, whether it has an upstream gradient.
    """
    key = (count, fed, padded, needed, given)
    if key not in body.plans:
        body.plans[key] = _Planner(body, count, fed, padded, needed, given).plan()
    plan: LoopVjpPlan | None = body.plans[key]
    return plan


def _bits(flags: Iterable[bool]) -> int:
    return sum(1 << i for i, flag in enumerate(flags) if flag)


class _Reach:
    """Which inputs and results of a body lie on the way of a gradient, over any number of rounds.

    Attributes:
        wanted: inputs that depend on what is needed, as bits.
        results: results with an upstream gradient, as bits.
    """

    def __init__(self, body: Graph, count: int, needed: Any, has_upstream: Any) -> None:
        depends = dependencies(body)
        floats = _bits(x.dtype.is_differentiable for x in body.inputs)
        dependent, results, reached = _bits(needed) & floats, _bits(has_upstream), 0
        # What one round gives, the next one takes, so masks grow along loop variables. Each
        # pass over the body adds a bit to one of them, or is the last.
        while True:
            before = dependent, results, reached
            for i, mask in enumerate(depends):
                if i < count and mask & dependent:
                    dependent |= (1 << i) & floats
                if results >> i & 1:
                    reached |= mask
            # A gradient that reaches loop variable i at the start of a round is upstream of
            # result i of the round before.
            results |= reached & ((1 << count) - 1)
            if before == (dependent, results, reached):
                break
        self.wanted, self.reached = dependent, reached
        # Gradients of results that depend on nothing needed would be carried back for no use.
        self.results = results & _bits(bool(mask & dependent) for mask in depends)
        self.carried = [i for i in range(count) if dependent >> i & 1 and (results >> i) & 1]


class _Planner:
    """Makes one `LoopVjpPlan`."""

    def __init__(
        self, body: Graph, count: int, fed: int, padded: Any, needed: Any, has_upstream: Any
    ) -> None:
        self.body = body
        self.count, self.fed = count, fed
        self.padded = padded
        self.asked = (needed, has_upstream)
        reach = _Reach(body, count, needed, has_upstream)
        self.carried = tuple(reach.carried)
        self.given = tuple(
            k for k in range(len(body.outputs) - count) if reach.results >> (count + k) & 1
        )
        indices = [
            i for i in range(count, len(body.inputs)) if needed[i] and reach.reached >> i & 1
        ]
        self.rows = tuple(i for i in indices if i < count + fed)
        self.summed = tuple(i for i in indices if i >= count + fed)

    def plan(self) -> LoopVjpPlan | None:
        """The plan, `None` if there is no gradient."""
        if not (self.carried or self.given):
            return None
        joint = optimised(self._joint(), BEFORE_GRADIENTS)
        outs = len(self.body.outputs)
        split = Split(joint, self.count, self.fed, len(self.body.inputs))
        # What the loop stacks anyway serves as a residual. Not with unknown sizes: rows of these
        # may have been filled up, and their own sizes are not stacked.
        stack_numbers = {
            y: k for k, y in enumerate(joint.outputs[self.count : outs]) if None not in y.shape
        }
        needed = split.kept(joint.outputs[outs:])
        residuals = [x for x in needed if x not in stack_numbers]
        with_effects = self._saving(joint, outs, residuals)
        saving = quiet(with_effects)
        first = outs - self.count
        ragged = [k for k, x in enumerate(residuals) if None in tuple(x.shape)]
        # Behind the residuals come the sizes of those that are filled up, a vector for each.
        stacks = {x: stack_numbers[x] for x in needed if x in stack_numbers}
        stacks.update({x: first + k for k, x in enumerate(residuals)})
        sizes = {residuals[k]: first + len(residuals) + j for j, k in enumerate(ragged)}
        backward, rows, captured = self._backward(joint, split, stacks, sizes)
        plan = LoopVjpPlan(
            base=self.body,
            saving=saving,
            with_effects=with_effects,
            padded=(*self.padded, *(first + k for k in ragged)),
            backward=backward,
            carried=self.carried,
            given=self.given,
            summed=self.summed,
            fed=self.rows,
            rows=rows,
            captured=captured,
            asked=self.asked,
        )
        saving.made_by = with_effects.made_by = plan
        return plan

    def _joint(self) -> Graph:
        """Body and backward pass in one graph.

        Inputs are those of the body, upstream gradients of loop variables and of stacked results,
        and sums so far; outputs are the results of the body, then gradients.
        """
        joint, body, count = Graph("joint"), self.body, self.count
        xs = [joint.add_input(x._spec, x.node.name) for x in body.inputs]
        seeded = [*self.carried, *(count + k for k in self.given)]
        gs: list[Any] = [
            joint.add_input((body.inputs if i < count else body.outputs)[i]._spec, "gradient")
            for i in seeded
        ]
        sums = [joint.add_input(body.inputs[i]._spec, "sum") for i in self.summed]
        sources = [xs[i] for i in (*self.carried, *self.summed, *self.rows)]
        with joint, trace_state.silence():
            with GradientTape() as tape:
                tape.watch(sources)
                ys = replay(body, list(xs))
            for position, i in enumerate(seeded):
                # Rows of gradients have the size of the stack; this round may have given less.
                if i - count in self.padded:
                    gs[position] = cut_like(gs[position], ys[i])
                elif tuple(gs[position].shape) != tuple(ys[i].shape):
                    gs[position] = late_ops.reshape_like(gs[position], ys[i])
            # A sum so far is seeded as if it came from later use, so terms are added one by one in
            # the order in which a tape around all rounds adds them.
            targets = [ys[i] for i in seeded] + [xs[i] for i in self.summed]
            grads = tape.gradient(targets, sources, [*gs, *sums], unconnected_gradients="zero")
            joint.outputs = [joint.lift(y) for y in [*ys, *grads]]
        return joint

    def _saving(self, joint: Graph, outs: int, residuals: list[GraphTensor]) -> Graph:
        part = Graph(self.body.name)
        part.nodes, part.inputs = joint.nodes, joint.inputs[: len(self.body.inputs)]
        part.outputs = [*joint.outputs[:outs], *residuals]
        part.jit_compile = self.body.jit_compile
        saving = prune(part)
        shape = late_ops.shape.primitive
        # Rows of other sizes are filled up with zeros; by its sizes a row is cut again.
        for x in saving.outputs[outs:]:
            if None in tuple(x.shape):
                saving.outputs.append(saving.apply(shape, (x,), {}))
        return saving

    def _backward(
        self, joint: Graph, split: Split, stacks: dict[GraphTensor, int], sizes: Any
    ) -> tuple[Graph, tuple[tuple[str, int], ...], tuple[int, ...]]:
        """The backward pass as a graph, what it is fed, and which captures it uses."""
        back = Graph("backward")
        back.jit_compile = self.body.jit_compile
        env: dict[Any, Any] = {}
        inputs, outs = len(self.body.inputs), len(self.body.outputs)
        upstream = joint.inputs[inputs:]
        carried, stacked = len(self.carried), len(self.given)
        # The order of these calls is that of the scan's inputs: loop variables, rows, captures.
        for x in (*upstream[:carried], *upstream[carried + stacked :]):
            env[x] = back.add_input(x._spec, x.node.name)
        rows: list[tuple[str, int]] = []

        def row(kind: str, k: int, spec: Any, name: str) -> GraphTensor:
            rows.append((kind, k))
            return back.add_input(spec, name)

        for k, x in zip(self.given, upstream[carried : carried + stacked], strict=True):
            env[x] = row("gradient", k, x._spec, "gradient")
        used = split.used
        for i, x in enumerate(joint.inputs[self.count : self.count + self.fed]):
            # What the loop was fed is still there, so the backward loop is fed with it again.
            if x in used and x not in stacks:
                env[x] = row("fed", i, x._spec, x.node.name)
        cut = {}
        for x, k in stacks.items():
            env[x] = row("stack", k, x._spec, x.node.name)
            if x in sizes:
                spec = late_ops.shape.primitive.shape_rule(x._spec)
                cut[x] = row("stack", sizes[x], spec, "sizes")
        captured = []
        for i in range(self.count + self.fed, inputs):
            x = joint.inputs[i]
            if x in used:
                captured.append(i)
                env[x] = back.add_input(x._spec, x.node.name)
        # Before all else: operations of the backward pass were traced for rows without padding.
        with back, trace_state.silence():
            for x, length in cut.items():
                env[x] = cut_to_sizes(env[x], length, dims=tuple(x.shape))
        split.copy_into(back, env)
        back.outputs = [env[y] for y in joint.outputs[outs:]]
        return back, tuple(rows), tuple(captured)
