"""Each pass alone: what it removes, what it must leave, and that the results stay the same."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.tensor import wrap
from trainkit.graph.ir.passes import PASSES, fold_constants, optimised, prune, share, simplify


def traced(function, *args):
    return tk.function(function).get_concrete_function(*args).graph


def names(graph):
    return [node.primitive.name for node in graph.nodes if node.kind == "op"]


def run(graph, *values):
    return [np.asarray(y) for y in graph.program()([np.asarray(v) for v in values])]


X = tk.TensorSpec([3], tk.float32)
N = tk.TensorSpec([3], tk.int32)
ROW = np.array([1.0, -2.0, 3.0], "float32")


def test_prune_drops_what_nothing_needs():
    def f(x):
        tk.exp(x)
        return x * 2.0

    graph = traced(f, X)
    assert names(graph) == ["exp", "multiply"]
    assert names(prune(graph)) == ["multiply"]
    assert names(graph) == ["exp", "multiply"]  # the old graph stays


def test_prune_keeps_effects_and_assignments_and_what_they_need():
    v = tk.Variable(tk.zeros([3]))

    def f(x):
        tk.print(x * 3.0)
        v.assign(x + 1.0)
        if tk.reduce_sum(x) > 0:
            tk.print("positive")
        return 0

    kept = names(prune(traced(f, X)))
    for name in ("print", "multiply", "add", "cond", "sum", "greater"):
        assert name in kept


@pytest.mark.usefixtures("on_cpu")
def test_fold_computes_what_depends_on_constants_alone():
    def f(x):
        return x + tk.identity(tk.constant([1.0, 2.0, 3.0])) * 2.0

    graph = traced(f, X)
    folded = prune(fold_constants(graph))
    assert names(folded) == ["add"]
    np.testing.assert_array_equal(run(folded, ROW)[0], run(graph, ROW)[0])


def test_fold_follows_chains_but_not_effects():
    noisy = tk.constant(2.0)

    def f(x):
        y = tk.numpy_function(lambda a: a, [noisy], tk.float32)
        return x + y * 0.0

    assert "host_call" in names(optimised(traced(f, X)))


@pytest.mark.usefixtures("on_cpu")
def test_fold_leaves_an_error_to_the_run():
    @tk.function(input_signature=[tk.TensorSpec([], tk.int32)])
    def f(i):
        return tk.gather(tk.constant([1.0, 2.0]), i * 0 + 9)

    with pytest.raises(tk.errors.InvalidArgumentError, match="not in"):
        f(1)


def test_fold_does_not_store_large_constants():
    def f(x):
        from trainkit import ops

        big = ops.broadcast_to(tk.constant(1.0), (1 << 19,))
        return x[0] + tk.reduce_sum(big)

    graph = optimised(traced(f, X))
    assert all(n.value.nbytes <= 1 << 21 for n in graph.nodes if n.kind == "constant")


def test_share_computes_equal_calls_once():
    def f(x):
        return tk.exp(x) + tk.exp(x), tk.reduce_sum(x, 0), tk.reduce_sum(x)

    shared = share(traced(f, X))
    assert names(shared).count("exp") == 1


def test_share_tells_settings_numbers_and_their_types_apart():
    def f(x):
        return tk.reduce_sum(x, 0), tk.reduce_sum(x, 1), x + 1.0, x + 2.0, x * 1, x * 2

    graph = share(traced(f, tk.TensorSpec([2, 2], tk.float32)))
    assert names(graph).count("sum") == 2
    assert names(graph).count("add") == 2


def test_share_does_not_join_effects():
    def f(x):
        tk.print(x)
        tk.print(x)
        return x

    assert names(share(traced(f, X))).count("print") == 2


def test_share_does_not_join_random_numbers():
    def f(x):
        return tk.random.normal([3]) - tk.random.normal([3]) + x

    y = tk.function(f)(tk.zeros([3]))
    assert np.abs(y.numpy()).min() > 0


@pytest.mark.parametrize(
    ("function", "spec"),
    [
        (lambda x: tk.identity(x), X),
        (lambda x: tk.cast(tk.identity(x), "float32"), X),
        (lambda x: tk.reshape(x, [3]), X),
        (lambda x: x * 1.0, X),
        (lambda x: 1 * x, N),
        (lambda x: x + 0, N),
        (lambda x: x - 0.0, X),
        (lambda x: x / 1.0, X),
        (lambda x: tk.negative(tk.negative(x)), X),
    ],
)
def test_simplify_takes_out_what_changes_nothing(function, spec):
    graph = prune(simplify(traced(function, spec)))
    assert names(graph) == []
    assert run(graph, ROW.astype(spec.dtype.dtype))[0].tolist() == ROW.tolist()


@pytest.mark.parametrize(
    ("function", "spec"),
    [
        (lambda x: x * 2.0, X),
        (lambda x: x - 1.0, X),
        (lambda x: 0.0 - x, X),
        (lambda x: 1.0 / x, X),
        (lambda x: tk.cast(x, "float64"), X),
        (lambda x: tk.reshape(x, [3, 1]), X),
        (lambda x: tk.reshape(x, [3]), tk.TensorSpec([None], tk.float32)),
        (lambda x: x * tk.constant([[1.0]]), X),
        (lambda x: x + 0.0, X),
    ],
)
def test_simplify_leaves_what_changes_something(function, spec):
    assert len(names(prune(simplify(traced(function, spec))))) == 1


def test_negative_zero_survives_every_pass():
    f = tk.function(lambda x: x + 0.0)
    assert not np.signbit(f(tk.constant([-0.0])).numpy())[0]
    g = tk.function(lambda x: (x - 0.0) * 1.0)
    assert np.signbit(g(tk.constant([-0.0])).numpy())[0]


def test_passes_leave_assignments_in_place():
    v = tk.Variable(1.0)

    @tk.function
    def f(x):
        v.assign(v * 1.0)
        v.assign(tk.identity(x))
        return v + 0

    assert float(f(tk.constant(7.0))) == 7.0
    assert float(v) == 7.0


@pytest.mark.usefixtures("on_cpu")
def test_the_whole_list_gives_the_same_values_as_none(rng):
    v = tk.Variable([1.0, 2.0, 3.0])

    def f(x):
        y = tk.identity(x) * 1.0 + tk.exp(v) * tk.exp(v)
        z = tk.negative(tk.negative(y)) + tk.constant([1.0, 1.0, 1.0]) * 2.0
        return z, tk.reduce_sum(z) / 1.0, tk.nn.softmax(z - 0.0)

    graph = traced(f, X)
    x = wrap(ROW)
    plain = f(x)
    after = graph
    for one in PASSES:
        after = one(after)
        assert len(names(after)) <= len(names(graph))
    for a, b in zip(plain, after.program()([ROW]), strict=True):
        np.testing.assert_array_equal(a.numpy(), b)


def test_inputs_are_found_as_they_are_and_never_compared(monkeypatch):
    """A comparison would be an operation on their values."""
    graph = traced(lambda x, y: y * 2.0 + x, X, X)

    def compared(*_):
        raise AssertionError("two places in a graph were compared")

    monkeypatch.setattr(tk.Tensor, "__eq__", compared)
    assert names(optimised(graph)) == ["multiply", "add"]


@pytest.mark.usefixtures("on_cpu")
def test_one_copy_of_a_graph_reduces_it_as_far_as_one_copy_for_each_pass():
    one = tk.constant(1.0)

    def f(x):
        tk.exp(x)  # nothing needs it
        a = tk.negative(-tk.identity(x)) * (one * one)  # known only after folding
        return tk.exp(a) + tk.exp(x), tk.cast(a, "float32")

    graph = traced(f, X)
    stepwise = optimised(graph, [prune, simplify, fold_constants, share, simplify, prune])
    assert names(optimised(graph)) == names(stepwise) == ["exp", "add"]
    for y, z in zip(run(graph, ROW), run(optimised(graph), ROW), strict=True):
        np.testing.assert_array_equal(y, z)


def test_passes_give_a_graph_back_in_which_they_change_nothing():
    graph = optimised(traced(lambda x: tk.exp(x) * 2.0, X))
    assert prune(graph) is graph
    assert simplify(graph) is graph
