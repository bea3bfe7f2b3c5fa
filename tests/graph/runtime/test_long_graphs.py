"""Long graphs: runs in the order that the plain form gives, in parts that stay small."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.compiler.schedule.parallel import _Spans
from trainkit.graph.ir.graph import GraphTensor
from trainkit.graph.ir.passes import optimised
from trainkit.graph.runtime import fusion
from trainkit.graph.runtime.fused import FusedKernel
from trainkit.graph.runtime.program import Program

pytestmark = pytest.mark.usefixtures("on_cpu")

LAYERS = 40


def plain_runs(nodes, chosen):
    """What `_runs` gives, by looking at all nodes again for each run."""
    left = [node for node in nodes if node.kind == "op"]
    done = {node for node in nodes if node.kind != "op"}
    effects = [node for node in left if node.effect]
    order, wanted = [], True
    while left:
        run = []
        for node in left:
            ready = all(x.node in done for x in node.inputs if isinstance(x, GraphTensor))
            first = next((e for e in effects if e not in done), None)
            if ready and (not node.effect or node is first) and (node in chosen) is wanted:
                run.append(node)
                done.add(node)
        left = [node for node in left if node not in done]
        order += [run] if run else []
        wanted = not wanted
    return order


def random_graph(seed):
    rng = np.random.default_rng(seed)

    @tk.function
    def f(x):
        values = [x]
        for _ in range(60):
            a, b = (values[i] for i in rng.integers(0, len(values), 2))
            kind = rng.integers(0, 12)
            if kind == 0:
                tk.debugging.assert_all_finite(a, "finite")
            values.append(a * 0.5 + b if kind % 3 else tk.sort(a))
        return tk.add_n(values)

    return optimised(f.get_concrete_function(tk.TensorSpec([4])).graph)


@pytest.mark.parametrize("seed", range(10))
def test_runs_are_those_of_the_plain_form(seed):
    nodes = fusion.needed_nodes(random_graph(seed))
    chosen = fusion._traceable(nodes, fusion.CPU, {})
    assert 0 < len(chosen) < len(nodes)
    assert fusion._runs(nodes, chosen, set()) == plain_runs(nodes, chosen)


def training_step(weights):
    def step(x):
        with tk.GradientTape() as tape:
            y = x
            for w in weights:
                y = y + tk.tanh(y * w)
            loss = tk.reduce_sum(y * y)
        for w, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            w.assign_sub(gradient * 0.01)
        return loss

    return step


def fused_in_parts(monkeypatch, most):
    monkeypatch.setattr(fusion, "CPU", fusion.Target(*_cpu(), most_steps=most))
    weights = [tk.Variable(np.full(8, 0.1 * i, "float32")) for i in range(LAYERS)]
    step = tk.function(training_step(weights), jit_compile=False)
    graph = optimised(step.get_concrete_function(tk.TensorSpec([8])).graph)
    new = fusion.fuse(graph, fusion.CPU, {})
    return weights, graph, new, [n for n in new.nodes if isinstance(n.primitive, FusedKernel)]


def _cpu():
    cpu = fusion.CPU
    return cpu.trace, cpu.code, cpu.kernel


def test_a_long_run_is_compiled_in_parts_that_give_the_same_bits(monkeypatch):
    weights, graph, new, kernels = fused_in_parts(monkeypatch, 50)
    assert len(kernels) > 5
    for kernel in kernels:
        known = fusion._traceable(kernel.primitive.part.nodes, fusion.CPU, {})
        assert sum(known.values()) <= 50
    plain, fast = Program(graph), Program(new)
    x = np.linspace(-1, 1, 8, dtype="float32")
    start = [w.numpy() for w in weights]
    expected = [plain([x])[0] for _ in range(3)], [w.numpy() for w in weights]
    for w, value in zip(weights, start, strict=True):
        w.assign(value)
    results = [fast([x])[0] for _ in range(3)], [w.numpy() for w in weights]
    np.testing.assert_array_equal(results[0], expected[0])
    np.testing.assert_array_equal(results[1], expected[1])


def test_all_parts_at_the_end_write_new_weights_over_the_old_ones(monkeypatch):
    weights, _, new, _ = fused_in_parts(monkeypatch, 50)
    fast = Program(new)
    x = np.linspace(-1, 1, 8, dtype="float32")
    fast([x])
    fast([x])
    before = [w._value._array.ctypes.data for w in weights]
    fast([x])
    same = sum(w._value._array.ctypes.data == a for w, a in zip(weights, before, strict=True))
    assert same == LAYERS
    held = weights[3].value()
    value = held.numpy()
    fast([x])
    np.testing.assert_array_equal(held, value)


def test_an_error_in_a_later_part_leaves_all_weights_as_they_were(monkeypatch):
    monkeypatch.setattr(fusion, "CPU", fusion.Target(*_cpu(), most_steps=4))
    weights = [tk.Variable(np.ones(4, "float32")) for _ in range(6)]

    @tk.function(jit_compile=False)
    def step(labels, logits):
        for w in weights:
            w.assign(tk.tanh(w * 2.0) + 1.0)
        losses = tk.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        return tk.reduce_sum(losses * 2.0 + 1.0)

    graph = optimised(
        step.get_concrete_function(tk.TensorSpec([3], tk.int32), tk.TensorSpec([3, 5])).graph
    )
    fast = Program(fusion.fuse(graph, fusion.CPU, {}))
    logits = np.zeros((3, 5), "float32")
    with pytest.raises(tk.errors.InvalidArgumentError):
        fast([np.array([1, 2, 9], "int32"), logits])
    for w in weights:
        np.testing.assert_array_equal(w, np.ones(4, "float32"))
    fast([np.array([1, 2, 4], "int32"), logits])
    assert weights[0].numpy()[0] != 1


@pytest.mark.parametrize("seed", range(5))
def test_spans_answer_as_sets_of_bytes_do(seed):
    rng = np.random.default_rng(seed)
    spans, taken = _Spans(), set()
    for start, size in zip(
        rng.integers(0, 200, 30).tolist(), rng.integers(1, 9, 30).tolist(), strict=True
    ):
        assert spans.meet(start, start + size) == bool(taken & set(range(start, start + size)))
        spans.add(start, start + size)
        taken |= set(range(start, start + size))
    assert sum(end - start for start, end in spans) == len(taken)


def test_a_chain_of_thousands_is_traced_and_differentiated_without_deep_recursion():
    @tk.function(jit_compile=False)
    def slope(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in tuple(range(3000)):
                y = y * 0.999 + 0.001
        return tape.gradient(y, x)

    x = tk.constant([1.0, 2.0])
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in range(3000):
            y = y * 0.999 + 0.001
    np.testing.assert_array_equal(slope(x), tape.gradient(y, x))
