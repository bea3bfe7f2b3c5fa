"""`cond`, `while_loop` and `for_each` as primitives over graphs, and their gradients.

Branches and loop bodies are graphs of their own. What they use from outside comes in as captures; a
variable that they assign becomes one more result of the branch, or one more loop variable.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from trainkit.autodiff.tape import GradientTape, zeros_like
from trainkit.core import nest, recorder
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.primitive import primitive
from trainkit.core.shapes import Spec
from trainkit.core.tensor import (
    PRIMITIVES,
    SymbolicTensor,
    Tensor,
    convert_to_tensor,
    is_tensor,
    wrap,
)
from trainkit.graph.graph import Graph, GraphTensor, replay

# ---------------------------------------------------------------------- primitives


def _cond_rule(pred: Any, *inputs: Any, true: Graph, false: Graph, split: int) -> tuple[Spec, ...]:
    return tuple(
        Spec(merged_dims(a.shape, b.shape), a.dtype)
        for a, b in zip(true.outputs, false.outputs, strict=True)
    )


@primitive(_cond_rule, name="cond")
def cond_primitive(xp: Any, pred: Any, *arrays: Any, true: Graph, false: Graph, split: int) -> Any:
    """Run one of two graphs: `true` on the first `split` arrays, `false` on the others."""
    if bool(pred):
        return tuple(true.program()(list(arrays[:split])))
    return tuple(false.program()(list(arrays[split:])))


@cond_primitive.joint_gradient
def _cond_gradient(
    g: Any, y: Any, pred: Any, *inputs: Any, true: Graph, false: Graph, split: int
) -> tuple[Any, ...]:
    here, there = inputs[:split], inputs[split:]
    wanted = [i for i, x in enumerate(inputs) if x.dtype.is_differentiable]

    def from_true() -> list[Any]:
        grads = vjp(lambda *xs: replay(true, list(xs)), here, g)
        return _only(wanted, grads + [zeros_like(x) for x in there])

    def from_false() -> list[Any]:
        grads = vjp(lambda *xs: replay(false, list(xs)), there, g)
        return _only(wanted, [zeros_like(x) for x in here] + grads)

    trace = recorder.current_trace()
    if trace is not None and isinstance(pred, SymbolicTensor):
        chosen = traced_cond(trace, pred, from_true, from_false)
    else:
        chosen = from_true() if bool(pred) else from_false()
    result: list[Any] = [None] * len(inputs)
    for i, gx in zip(wanted, chosen, strict=True):
        result[i] = gx
    return (None, *result)


def _only(wanted: list[int], grads: list[Any]) -> list[Any]:
    return [grads[i] for i in wanted]


def vjp(function: Callable[..., Any], inputs: Sequence[Any], g: Any) -> list[Any]:
    """Gradients of `function`'s results, weighted by `g`, by each of `inputs`; zeros where none."""
    floats = [x for x in inputs if x.dtype.is_differentiable]
    with GradientTape() as tape:
        tape.watch(floats)
        ys = function(*inputs)
    ys = list(ys) if isinstance(ys, list | tuple) else [ys]
    gs = list(g) if isinstance(g, tuple) else [g]
    pairs = [(y, gy) for y, gy in zip(ys, gs, strict=True) if y.dtype.is_differentiable]
    if not pairs or not floats:
        return [zeros_like(x) if x.dtype.is_differentiable else None for x in inputs]
    grads = tape.gradient(
        [y for y, _ in pairs], floats, [gy for _, gy in pairs], unconnected_gradients="zero"
    )
    found = iter(grads)
    return [next(found) if x.dtype.is_differentiable else None for x in inputs]


def _while_rule(*inputs: Any, cond: Graph, body: Graph, count: int, split: int, limit: Any) -> Any:
    return tuple(Spec(x.shape, x.dtype) for x in body.inputs[:count])


@primitive(_while_rule, name="while_loop")
def while_primitive(
    xp: Any, *arrays: Any, cond: Graph, body: Graph, count: int, split: int, limit: int | None
) -> Any:
    """Run the graph `body` on `count` loop variables while the graph `cond` gives True.

    The next `split` arrays are captures of `cond`, the rest those of `body`.
    """
    state = list(arrays[:count])
    for_cond, for_body = list(arrays[count : count + split]), list(arrays[count + split :])
    test, step = cond.program(), body.program()
    done = 0
    while (limit is None or done < limit) and bool(test(state + for_cond)[0]):
        state = step(state + for_body)
        done += 1
    return tuple(state)


@while_primitive.joint_gradient
def _while_gradient_rule(g: Any, y: Any, *inputs: Any, **settings: Any) -> Any:
    results = deferred_vjp(
        *inputs, *g, function=Replayed("while_loop", **settings), count=len(inputs)
    )
    return spread(results, inputs)


def spread(results: Any, inputs: Sequence[Any]) -> list[Any]:
    """Gradients of the differentiable inputs in their places, `None` in the others."""
    found = iter(results if isinstance(results, tuple) else (results,))
    return [next(found) if x.dtype.is_differentiable else None for x in inputs]


class Replayed:
    """A primitive with subgraphs as a function of tensors that runs every node as an operation."""

    def __init__(self, name: str, **settings: Any) -> None:
        self.name = name
        self.settings = settings

    def __call__(self, *inputs: Any) -> list[Any]:
        """The results for eager tensors; tapes that record see each operation inside."""
        settings = self.settings
        count, split = settings["count"], settings["split"]
        state = list(inputs[:count])
        for_cond = list(inputs[count : count + split])
        for_body = list(inputs[count + split :])
        done, limit = 0, settings["limit"]
        while (limit is None or done < limit) and bool(
            replay(settings["cond"], state + for_cond)[0]
        ):
            state = replay(settings["body"], state + for_body)
            done += 1
        return state


class _Vjp:
    """The function of `deferred_vjp` as something that can be differentiated once more."""

    def __init__(self, function: Callable[..., Any], count: int) -> None:
        self.function = function
        self.count = count

    def __call__(self, *inputs: Any) -> list[Any]:
        """The gradients by the differentiable ones of the first `count` inputs."""
        xs, gs = inputs[: self.count], inputs[self.count :]
        return [gx for gx in vjp(self.function, xs, tuple(gs)) if gx is not None]


def _vjp_rule(*inputs: Any, function: Any, count: int) -> Any:
    return tuple(Spec(x.shape, x.dtype) for x in inputs[:count] if x.dtype.is_differentiable)


@primitive(_vjp_rule, name="deferred_vjp")
def deferred_vjp(xp: Any, *arrays: Any, function: Callable[..., Any], count: int) -> Any:
    """Gradients of a Python function of tensors, computed with a tape when the values are there.

    The first `count` arrays are the function's inputs, the others weigh its results.
    """
    with recorder.silence():
        grads = _Vjp(function, count)(*[wrap(a) for a in arrays])
    return tuple(gx._array for gx in grads)


@deferred_vjp.joint_gradient
def _vjp_gradient(g: Any, y: Any, *inputs: Any, function: Any, count: int) -> Any:
    gs = g if isinstance(g, tuple) else (g,)
    results = deferred_vjp(*inputs, *gs, function=_Vjp(function, count), count=len(inputs))
    return spread(results, inputs)


def _for_rule(
    *inputs: Any, body: Graph, count: int, source: Any, fed: int, stops: bool = False
) -> Any:
    return tuple(Spec(x.shape, x.dtype) for x in body.inputs[:count])


@primitive(_for_rule, name="for_each", effect=True)
def for_primitive(
    xp: Any, *arrays: Any, body: Graph, count: int, source: Any, fed: int, stops: bool = False
) -> Any:
    """Run the graph `body` on the loop variables and each element of the dataset `source`.

    With `stops` the last result of the body says whether to go on; no element is read after it
    says no.
    """
    state, captured = list(arrays[:count]), list(arrays[count:])
    step = body.program()
    for element in source:
        leaves = [_array_of(x) for x in nest.flatten(element)]
        state = step(state + leaves + captured)
        if stops and not bool(state.pop()):
            break
    return tuple(state)


def _array_of(x: Any) -> Any:
    return x._array if isinstance(x, Tensor) else convert_to_tensor(x)._array


@for_primitive.joint_gradient
def _for_gradient(g: Any, y: Any, *inputs: Any, **settings: Any) -> Any:
    raise InvalidArgumentError(
        "for_each: no gradient goes back through a loop over a dataset inside a function; "
        "put the tape inside the loop's body"
    )


# ---------------------------------------------------------------------- tracing branches


def merged_dims(a: Any, b: Any) -> tuple[int | None, ...]:
    """Sizes that fit both shapes: `None` where they differ.

    Raises:
        InvalidArgumentError: the ranks differ.
    """
    a, b = tuple(a), tuple(b)
    if len(a) != len(b):
        raise InvalidArgumentError(f"shapes {a} and {b} have different ranks")
    return tuple(m if m == n else None for m, n in zip(a, b, strict=True))


def trace_into(graph: Graph, function: Callable[[], Any]) -> Any:
    """Run `function` with `graph` as the current trace, unseen by the tapes outside."""
    graph.watchers = [t for t in recorder.TAPES if t.thread == recorder.get_ident()]
    with graph, recorder.silence():
        return function()


def add_node(outer: Graph, op: Any, inputs: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """A call of `op` as a node of `outer`, even if no input is symbolic."""
    if not inputs:
        return outer.apply(op.primitive, (), settings)
    return op(*[outer.lift(x) for x in inputs], **settings)


def is_number(x: Any) -> bool:
    """Whether `x` is a Python or NumPy number, or an array."""
    return isinstance(x, bool | int | float | complex) or hasattr(x, "__array__")


def traced_cond(
    outer: Graph,
    pred: Any,
    true_fn: Callable[[], Any],
    false_fn: Callable[[], Any],
    merge: Callable[[Graph, Any, Graph, Any], Any] | None = None,
) -> Any:
    """Trace both branches and add one `cond` node.

    Args:
        outer: the graph being traced.
        pred: symbolic scalar.
        true_fn: function without arguments.
        false_fn: the same; its result has the structure of that of `true_fn`.
        merge: brings the raw results of both branches to one structure; by default they must agree.

    Returns:
        The structure of the branches' results; Python values that both give stay as they are.

    Raises:
        InvalidArgumentError: structures, ranks or dtypes of the branches differ.
    """
    pred = scalar_pred(pred)
    true, false = Graph("true", outer), Graph("false", outer)
    one = trace_into(true, true_fn)
    two = trace_into(false, false_fn)
    if merge is not None:
        one, two = merge(true, one, false, two)
    leaves_one, leaves_two = nest.flatten(one), nest.flatten(two)
    if len(leaves_one) != len(leaves_two):
        raise InvalidArgumentError(
            f"cond: the branches return different structures, {_outline(one)} and {_outline(two)}"
        )
    places = []
    for i, (a, b) in enumerate(zip(leaves_one, leaves_two, strict=True)):
        if _same_python(a, b):
            continue
        with true:
            a = _as_output(true, a, b, "true")
        with false:
            b = _as_output(false, b, a, "false")
        a, b = _same_dtype(true, a, false, b, i)
        true.outputs.append(a)
        false.outputs.append(b)
        places.append(i)
    variables = {id(s.variable): s.variable for s in true.assigned + false.assigned}
    for variable in variables.values():
        true.outputs.append(true.lift(true.read_variable(variable)))
        false.outputs.append(false.lift(false.read_variable(variable)))
    if not true.outputs and not (true.has_effects or false.has_effects):
        return one
    _ensure_effect_output(true, false)
    captured = (*true.captures, *false.captures)
    settings = {"true": true, "false": false, "split": len(true.captures)}
    outputs = add_node(outer, cond_primitive, (pred, *captured), settings)
    for i, y in zip(places, outputs, strict=False):
        leaves_one[i] = y
    for variable, y in zip(variables.values(), outputs[len(places) :], strict=False):
        outer.assign_variable(variable, y)
    return nest.pack(one, leaves_one)


def _ensure_effect_output(true: Graph, false: Graph) -> None:
    """Give branches that only print or assert one output, since a node has at least one."""
    if not true.outputs:
        true.outputs.append(true.constant(convert_to_tensor(True)))
        false.outputs.append(false.constant(convert_to_tensor(False)))


def scalar_pred(pred: Any) -> Any:
    """`pred` as a symbolic bool scalar.

    Raises:
        InvalidArgumentError: it has more than one element.
    """
    if tuple(pred.shape) not in ((), (1,), (None,)):
        raise InvalidArgumentError(
            f"a condition must be a scalar, this one has shape {tuple(pred.shape)}; use "
            "tk.reduce_all or "
            "tk.reduce_any"
        )
    return pred


def _same_python(a: Any, b: Any) -> bool:
    if is_tensor(a) or is_tensor(b):
        return a is b and not isinstance(a, GraphTensor)
    return a is b or equal_values(a, b)


def equal_values(a: Any, b: Any) -> bool:
    """Whether two Python values are of one type and equal; a comparison that raises says no."""
    try:
        return bool(type(a) is type(b) and a == b)
    except Exception:
        return False


def _outline(x: Any) -> str:
    return str(nest.map_structure(lambda leaf: f"{type(leaf).__name__}", x))


def _as_output(graph: Graph, x: Any, other: Any, branch: str) -> GraphTensor:
    """A leaf of a branch's result as a symbolic tensor of its graph."""
    if is_tensor(x):
        return graph.lift(x)
    if not is_number(x):
        raise InvalidArgumentError(
            f"cond: the {branch} branch returns {x!r} where the other returns {other!r}; both "
            "must return tensors "
            "of the same dtype"
        )
    hint = other.dtype if is_tensor(other) else None
    if hint is not None and isinstance(x, bool | int | float):
        if isinstance(x, bool):
            fits = hint.is_bool
        else:
            fits = hint.is_floating or hint.is_complex or (hint.is_integer and isinstance(x, int))
        hint = hint if fits else None
    else:
        hint = None
    from trainkit.core.abstract import eagerly

    with eagerly():
        return graph.lift(convert_to_tensor(x, dtype=hint))


def _same_dtype(true: Graph, a: GraphTensor, false: Graph, b: GraphTensor, place: int) -> Any:
    if a.dtype != b.dtype:
        raise InvalidArgumentError(
            f"cond: result {place} has dtype {a.dtype.name} in the true branch and "
            f"{b.dtype.name} in the false "
            "branch; cast one of them"
        )
    merged_dims(a.shape, b.shape)
    return a, b


def traced_while(
    outer: Graph,
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    maximum_iterations: Any = None,
    names: Sequence[str] | None = None,
) -> Any:
    """Trace condition and body and add one `while_loop` node.

    A size that the body changes becomes unknown; a Python number takes the dtype that the body
    gives it.

    Args:
        outer: the graph being traced.
        cond: function of the loop variables to a scalar.
        body: function of the loop variables to their next values, in the same structure.
        loop_vars: nest of tensors and numbers.
        maximum_iterations: Python int, or `None`.
        names: what the loop variables are called in error texts.

    Raises:
        InvalidArgumentError: a loop variable changes dtype, rank or structure.
    """
    leaves = nest.flatten(loop_vars)
    weak = [type(x) in (bool, int, float) for x in leaves]
    start = [_loop_start(x) for x in leaves]
    specs = [Spec(x.shape, x.dtype) for x in start]
    for _ in range(8):
        inner, result, placeholders = _trace_body(outer, body, loop_vars, specs, names)
        new_specs = _agreed(specs, result, weak, names)
        if new_specs == specs:
            break
        specs = new_specs
    start = [_cast_to(x, spec) for x, spec in zip(start, specs, strict=True)]
    inner.outputs = [inner.lift(y) for y in result]
    test, test_inputs = _trace_test(outer, cond, loop_vars, specs)
    assigned = inner.assigned
    inner_first, test_first = [], []
    before = []
    for slot in assigned:
        before.append(outer.read_variable(slot.variable))
        inner_first.append(slot.first)
        inner.outputs.append(inner.lift(slot.now))
        there = test.slots.get(id(slot.variable))
        spec = Spec(slot.first.shape, slot.first.dtype)
        test_first.append(there.first if there else _loose_input(test, spec))
    _order_inputs(inner, placeholders + inner_first)
    _order_inputs(test, test_inputs + test_first)
    settings = {
        "cond": test,
        "body": inner,
        "count": len(start) + len(before),
        "split": len(test.captures),
        "limit": None if maximum_iterations is None else int(maximum_iterations),
    }
    inputs = (*start, *before, *test.captures, *inner.captures)
    outputs = add_node(outer, while_primitive, inputs, settings)
    for slot, y in zip(assigned, outputs[len(start) :], strict=True):
        outer.assign_variable(slot.variable, y)
    return nest.pack(loop_vars, list(outputs[: len(start)]))


def _loop_start(x: Any) -> Any:
    if is_tensor(x):
        return x if isinstance(x, Tensor) else x.value()
    from trainkit.core.abstract import eagerly

    with eagerly():
        return convert_to_tensor(x)


def _cast_to(x: Any, spec: Spec) -> Any:
    return x if x.dtype == spec.dtype else PRIMITIVES["cast"].op(x, dtype=spec.dtype.name)


def _loose_input(graph: Graph, spec: Spec) -> GraphTensor:
    symbol = graph.add_input(spec)
    graph.inputs.pop()
    return symbol


def _order_inputs(graph: Graph, first: list[GraphTensor]) -> None:
    """Put `first` before the captures in the list of inputs; they are captures no longer."""
    mine = set(first)
    graph.captures = {k: v for k, v in graph.captures.items() if v not in mine}
    graph.inputs = first + list(graph.captures.values())


def _trace_body(
    outer: Graph, body: Callable[..., Any], loop_vars: Any, specs: list[Spec], names: Any
) -> tuple[Graph, list[Any], list[GraphTensor]]:
    graph = Graph("body", outer)
    placeholders = [graph.add_input(spec, _name(names, i)) for i, spec in enumerate(specs)]
    packed = nest.pack(loop_vars, list(placeholders))
    result = trace_into(graph, lambda: body(*packed) if _spreads(loop_vars) else body(packed))
    if _spreads(loop_vars) and len(loop_vars) == 1 and not isinstance(result, list | tuple):
        result = (result,)
    leaves = nest.flatten(result)
    if len(leaves) != len(specs):
        raise InvalidArgumentError(
            f"while_loop: the body returns {len(leaves)} values for {len(specs)} loop variables"
        )
    with graph:
        return (
            graph,
            [_body_output(graph, y, spec) for y, spec in zip(leaves, specs, strict=True)],
            placeholders,
        )


def _body_output(graph: Graph, y: Any, spec: Spec) -> GraphTensor:
    if is_tensor(y):
        return graph.lift(y)
    if not is_number(y):
        raise InvalidArgumentError(
            f"while_loop: the body gives {y!r} for a loop variable that was a tensor of dtype "
            f"{spec.dtype.name}"
        )
    from trainkit.core.abstract import eagerly

    with eagerly():
        return graph.lift(convert_to_tensor(y, dtype_hint=spec.dtype))


def _spreads(loop_vars: Any) -> bool:
    return isinstance(loop_vars, list | tuple)


def _name(names: Sequence[str] | None, i: int) -> str:
    return names[i].replace(".", "_") if names and i < len(names) else f"loop_var_{i}"


def _agreed(specs: list[Spec], result: list[Any], weak: list[bool], names: Any) -> list[Spec]:
    """Specs of the loop variables that fit both their start and what the body gives."""
    agreed = []
    for i, (spec, y) in enumerate(zip(specs, result, strict=True)):
        label = f"{_name(names, i)!r}"
        if len(spec.shape) != len(y.shape):
            raise InvalidArgumentError(
                f"while_loop: loop variable {label} has shape {spec.shape} before the loop and "
                f"{tuple(y.shape)} "
                "after one iteration; the rank can't change. Start with a tensor of the final rank."
            )
        dtype = spec.dtype
        if dtype != y.dtype:
            if not weak[i] or dtype.is_bool:
                raise InvalidArgumentError(
                    f"while_loop: loop variable {label} has dtype {dtype.name} before the loop and "
                    f"{y.dtype.name} after one iteration; start with a value of that dtype, or "
                    "cast it in the body"
                )
            dtype = y.dtype
        agreed.append(Spec(merged_dims(spec.shape, y.shape), dtype))
    return agreed


def _trace_test(
    outer: Graph, cond: Callable[..., Any], loop_vars: Any, specs: list[Spec]
) -> tuple[Graph, list[GraphTensor]]:
    graph = Graph("condition", outer)
    placeholders = [graph.add_input(spec, f"loop_var_{i}") for i, spec in enumerate(specs)]
    packed = nest.pack(loop_vars, list(placeholders))
    result = trace_into(graph, lambda: cond(*packed) if _spreads(loop_vars) else cond(packed))
    with graph:
        graph.outputs = [_as_output(graph, result, result, "loop's")]
    scalar_pred(graph.outputs[0])
    return graph, placeholders


def traced_for_each(
    outer: Graph,
    source: Any,
    element_spec: Any,
    body: Callable[[Any, Any], Any],
    loop_vars: list[Any],
    names: Sequence[str] | None = None,
) -> list[Any]:
    """Trace `body(element, loop_vars)` and add one node that runs it for each element of a dataset.

    The body gives the next loop variables, and a bool scalar that says whether to go on, or `None`.
    """
    weak = [type(x) in (bool, int, float) for x in loop_vars]
    start = [_loop_start(x) for x in loop_vars]
    specs = [Spec(x.shape, x.dtype) for x in start]
    fed_specs = nest.flatten(element_spec)
    for _ in range(8):
        graph = Graph("body", outer)
        state = [graph.add_input(spec, _name(names, i)) for i, spec in enumerate(specs)]
        fed = [graph.add_input(Spec(s.shape, s.dtype), "element") for s in fed_specs]
        element = nest.pack(element_spec, list(fed))
        result, flag = trace_into(graph, functools.partial(body, element, list(state)))
        with graph:
            result = [_body_output(graph, y, spec) for y, spec in zip(result, specs, strict=True)]
        new_specs = _agreed(specs, result, weak, names)
        if new_specs == specs:
            break
        specs = new_specs
    start = [_cast_to(x, spec) for x, spec in zip(start, specs, strict=True)]
    assigned = graph.assigned
    graph.outputs = [*result, *(graph.lift(slot.now) for slot in assigned)]
    if flag is not None:
        with graph:
            graph.outputs.append(_as_output(graph, flag, flag, "loop's"))
    firsts = [slot.first for slot in assigned]
    mine = set(firsts)
    graph.captures = {k: v for k, v in graph.captures.items() if v not in mine}
    graph.inputs = state + firsts + fed + list(graph.captures.values())
    if not result and not assigned:
        raise_nothing_to_do(graph)
    settings = {
        "body": graph,
        "count": len(start) + len(assigned),
        "source": source,
        "fed": len(fed),
        "stops": flag is not None,
    }
    before = [outer.read_variable(slot.variable) for slot in assigned]
    inputs = (*start, *before, *graph.captures)
    outputs = add_node(outer, for_primitive, inputs, settings)
    for slot, y in zip(assigned, outputs[len(start) :], strict=True):
        outer.assign_variable(slot.variable, y)
    return list(outputs[: len(start)])


def raise_nothing_to_do(graph: Graph) -> None:
    """Refuse a loop that changes nothing, unless it has effects."""
    if graph.has_effects:
        return
    raise InvalidArgumentError(
        "the loop over a dataset inside a function changes no variable and no tensor, so it does "
        "nothing"
    )
