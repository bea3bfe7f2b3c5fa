"""A rule traced once and copied for further weights gives the graph of tracing it for each."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.compiler.tracer import Namespace
from trainkit.graph.ir import copied_calls

SHAPES = [(3, 4), (4,), (4, 2), (), (4,), (1, 5), (3, 4)]


class ByShape(tk.optimizers.Optimizer):
    """A rule of the user's whose numbers follow from the shape of a weight."""

    slots = ("velocity",)

    def update(self, xp, weight, grad, lr, velocity):
        velocity = velocity * 0.5 + grad * float(sum(weight.shape))
        return weight - lr * velocity, velocity


def weights():
    rng = np.random.default_rng(0)
    made = [tk.Variable(rng.normal(size=s).astype("float32"), name=f"w{s}") for s in SHAPES]
    return [*made, tk.Variable(rng.normal(size=(2, 2)).astype("float16"), name="half")]


def traced_step(optimizer, eager_steps):
    variables = weights()
    optimizer.build(variables)

    def step():
        optimizer.apply([tk.sin(v) for v in variables], variables)

    for _ in range(eager_steps):
        step()
    compiled = tk.function(step)
    compiled()
    compiled()
    return str(compiled.get_concrete_function().graph), [v.numpy() for v in variables]


OPTIMIZERS = {
    "adam": lambda: tk.optimizers.Adam(0.1),
    "amsgrad": lambda: tk.optimizers.Adam(0.1, amsgrad=True),
    "decay": lambda: tk.optimizers.AdamW(0.1, weight_decay=0.3),
    "sgd": lambda: tk.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "clipped": lambda: tk.optimizers.RMSprop(0.1, centered=True, clipnorm=0.5),
    "periods": lambda: tk.optimizers.Adam(0.1, gradient_accumulation_steps=2, use_ema=True),
    "factored": lambda: tk.optimizers.Adafactor(0.1),
    "by shape": lambda: ByShape(0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("eager_steps", [0, 1])
def test_copies_are_what_tracing_gives(name, eager_steps, monkeypatch):
    made = OPTIMIZERS[name]
    graph, values = traced_step(made(), eager_steps)

    def trace_each(self, function, inputs, key):
        return function(*inputs)

    monkeypatch.setattr(copied_calls.CopiedCalls, "results", trace_each)
    expected, expected_values = traced_step(made(), eager_steps)
    assert graph == expected
    for a, b in zip(values, expected_values, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("eager_steps", [0, 1])
def test_shapes_share_a_rule_that_sees_elements_alone(eager_steps, monkeypatch):
    calls = []
    update = tk.optimizers.Adam.update

    def counted(self, xp, *args):
        calls.append(xp)
        return update(self, xp, *args)

    monkeypatch.setattr(tk.optimizers.Adam, "update", counted)
    traced_step(tk.optimizers.Adam(0.1), eager_steps)
    # as a program, which serves arrays and operations of all shapes, and half precision too
    assert [type(xp) for xp in calls] == [Namespace]


@pytest.mark.usefixtures("on_cpu")
def test_what_is_no_operation_on_elements_of_one_shape_is_traced_each_time():
    graphs = []

    @tk.function
    def f(a, b, m, n):
        from trainkit.core.dispatch import trace_state

        calls = copied_calls.CopiedCalls(trace_state.current_trace())
        graphs.append(trace_state.current_trace())
        ys = []
        for x, y in ((a, a), (b, b), (a, b[:1]), (m, m), (n, n)):
            ys += calls.results(lambda x, y: [x * 2.0 + y, x], [x, y], "sum")
            ys += calls.results(lambda x, y: [tk.reduce_sum(x * y), y], [x, y], "reduction")
        return ys

    a, b = np.arange(3, dtype="float32"), np.arange(5, dtype="float32")
    m, n = np.arange(6, dtype="float32").reshape(2, 3), np.float32(4)
    results = [y.numpy() for y in f(*map(tk.constant, (a, b, m, n)))]
    expected = []
    for x, y in ((a, a), (b, b), (a, b[:1]), (m, m), (n, n)):
        expected += [x * 2 + y, x, (x * y).sum(), y]
    for y, z in zip(results, expected, strict=True):
        np.testing.assert_array_equal(y, z)
