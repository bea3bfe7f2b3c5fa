"""The backward pass on arrays: the bits of that on tensors, memory freed, sums in place."""

import gc
import weakref

import numpy as np
import pytest

import trainkit as tk
from tests.conformance.table import all_cases
from trainkit.autodiff import vjps_on_arrays
from trainkit.autodiff.compiled_vjp import SAME, compile_vjp
from trainkit.core import nest
from trainkit.core.tensor import PRIMITIVES, Tensor, convert_to_tensor


def is_elementwise(name):
    prim = PRIMITIVES.get(name)
    return prim is not None and prim.facets.fusible


ELEMENTWISE = [case for case in all_cases() if is_elementwise(case.name)]


def gradients(run, inputs, on_tensors):
    """The gradients of what `run` gives by `inputs`; a tape that listens keeps arrays out."""
    with tk.GradientTape(persistent=on_tensors):
        with tk.GradientTape() as tape:
            tape.watch(inputs)
            results = nest.flatten(run(*inputs))
        if on_tensors:
            return tape.gradient(results, inputs)
    return tape.gradient(results, inputs)


def same_bits(run, inputs):
    found, expected = (gradients(run, inputs, on_tensors) for on_tensors in (False, True))
    for a, b in zip(found, expected, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("case", ELEMENTWISE, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rules_on_arrays_give_the_bits_of_rules_on_tensors(case, dtype):
    fixed, inputs = [], []
    for x in case.inputs:
        is_float = isinstance(x, np.ndarray) and x.dtype.kind == "f"
        fixed.append(convert_to_tensor(x.astype(dtype)) if is_float else x)
        if is_float:
            inputs.append(fixed[-1])

    def run(*floats):
        rest = iter(floats)
        given = [next(rest) if type(x) is Tensor else x for x in fixed]
        return case.op(*given, **case.settings)

    same_bits(run, inputs)


@pytest.mark.parametrize("shapes", [((3, 1), (4,)), ((1,), (1, 1)), ((), (2, 3)), ((0, 3), (1, 3))])
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "maximum", "power"])
def test_broadcast_inputs_get_sums(rng, name, shapes):
    op = PRIMITIVES[name].op
    inputs = [convert_to_tensor(rng.uniform(0.5, 2, s).astype("float32")) for s in shapes]
    same_bits(op, inputs)


@pytest.mark.parametrize("number", [2, 2.5, 0, -1.0])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_python_numbers_stay_weak(rng, number, shape):
    x = convert_to_tensor(rng.uniform(0.5, 2, shape).astype("float32"))
    same_bits(lambda x: x * number + number - x / (number + 5.5), [x])
    same_bits(lambda x: (x**number) + tk.maximum(number, x) - number / x, [x])


def test_rules_that_look_at_numbers_are_left_to_tensors():
    rules = vjps_on_arrays.WrittenVjps(PRIMITIVES["power"])[np.dtype("float32")]
    assert rules[0] is not None
    assert rules[1:] == (None, None)


def test_rules_are_written_for_plain_floats_alone():
    rules = vjps_on_arrays.WrittenVjps(PRIMITIVES["add"])
    assert all(map(callable, rules[np.dtype("float32")]))
    assert rules[np.dtype("float16")] is None
    assert rules[np.dtype("complex64")] is None
    assert vjps_on_arrays.WrittenVjps(PRIMITIVES["absolute"])[np.dtype("float32")] is None


def test_new_rules_take_the_place_of_those_written_out(monkeypatch):
    prim = PRIMITIVES["negative"]
    x = tk.constant([1.0])
    monkeypatch.setattr(prim, "rules", prim.rules)
    monkeypatch.setattr(prim, "array_vjps", None)
    assert gradients(tk.negative, [x], False)[0].numpy() == [-1.0]
    prim.op.gradients(lambda g, y, x: g * 5.0)
    assert gradients(tk.negative, [x], False)[0].numpy() == [5.0]


@pytest.mark.parametrize("given", [0, 1])
def test_a_rule_may_give_the_result_or_the_input_itself(monkeypatch, given):
    prim = PRIMITIVES["negative"]
    x = tk.constant([2.0])
    monkeypatch.setattr(prim, "rules", prim.rules)
    monkeypatch.setattr(prim, "array_vjps", None)
    prim.op.gradients(lambda g, y, x: (y, x)[given])
    assert gradients(tk.negative, [x], False)[0].numpy() == [(-2.0, 2.0)[given]]


def test_results_are_freed_as_the_walk_passes_them():
    alive = []

    @tk.custom_gradient
    def first(x):
        def backward(g):
            gc.collect()
            alive.append([r() is not None for r in references])
            return g

        return x * 1.0, backward

    x = tk.Variable(np.ones(2000, "float32"))
    with tk.GradientTape() as tape:
        y, references = first(x), []
        for _ in range(5):
            y = tk.tanh(tk.matmul(y[None], y[:, None])[0] * y)
            references.append(weakref.ref(y))
        y = tk.reduce_sum(y)
    tape.gradient(y, x)
    assert alive == [[False] * 5]


def test_results_are_freed_when_only_some_leaves_are_asked_for():
    alive = []

    @tk.custom_gradient
    def first(x):
        def backward(g):
            gc.collect()
            alive.append([r() is not None for r in references])
            return g

        return x * 1.0, backward

    x, other = tk.Variable([1.0, 2.0]), tk.Variable([3.0, 4.0])
    with tk.GradientTape() as tape:
        y, references = first(x), []
        for _ in range(3):
            y = y * other
            references.append(weakref.ref(y))
        y = tk.reduce_sum(y)
    assert tape.gradient(y, x).numpy().tolist() == [27.0, 64.0]
    assert alive == [[False] * 3]


def test_sums_in_place_write_to_nothing_that_others_hold():
    ones = np.ones(5000, "float32")
    x, seed = tk.constant(ones), tk.constant(3 * ones)
    with tk.GradientTape() as tape:
        tape.watch(x)
        middle = x * 2.0
        y = middle + middle + x + x
    in_middle, by_x = tape.gradient(y, [middle, x], output_gradients=seed)
    np.testing.assert_array_equal(seed.numpy(), 3 * ones)
    np.testing.assert_array_equal(in_middle.numpy(), 6 * ones)
    np.testing.assert_array_equal(by_x.numpy(), 18 * ones)


def test_a_persistent_tape_keeps_its_record():
    x = tk.constant(np.full(2000, 2.0, "float32"))
    with tk.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = tk.reduce_sum(x * x * x)
    first, again = tape.gradient(y, x), tape.gradient(y, x)
    assert first.numpy()[0] == again.numpy()[0] == 12.0
    assert len(tape.entries) == 3


def test_a_rule_that_gives_no_plain_tensor_hands_over_to_tensors():
    @tk.custom_gradient
    def outer(x):
        def backward(g):  # in a jacobian `g` stands for all rows at once
            scaled = tk.custom_gradient(lambda u: (u * 1.0, lambda h: h * g))
            with tk.GradientTape() as tape:
                tape.watch(x)
                y = tk.reduce_sum(scaled(x * x) + x)
            return tape.gradient(y, x)

        return x * 1.0, backward

    x = tk.constant([1.0, 2.0])
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = outer(x)
    np.testing.assert_array_equal(tape.jacobian(y, x).numpy(), [[3.0, 1.0], [1.0, 5.0]])


def test_watching_a_result_keeps_how_it_was_computed():
    x = tk.constant(3.0)
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        tape.watch(y)
        z = y * y
    by_x, by_y = tape.gradient(z, [x, y])
    assert float(by_x) == 108.0
    assert float(by_y) == 18.0


@pytest.mark.parametrize("shapes", [((3, 4), (4, 2)), ((2, 3, 4), (4, 2)), ((4,), (4, 2))])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_products_on_arrays_give_the_same_bits(rng, shapes, dtype):
    same_bits(tk.matmul, [convert_to_tensor(rng.normal(size=s).astype(dtype)) for s in shapes])


@pytest.mark.parametrize("op", [tk.reduce_sum, tk.reduce_mean])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), ()])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions_on_arrays_give_the_same_bits(rng, op, axis, keepdims):
    x = convert_to_tensor(rng.normal(size=(2, 3, 4)).astype("float32"))
    same_bits(lambda x: op(x * x, axis=axis, keepdims=keepdims) * 3.0, [x])
    same_bits(lambda x: op(x, keepdims=keepdims), [tk.constant(2.0)])


def test_the_repeated_gradient_of_a_sum_shares_memory_and_is_never_written_to():
    x = tk.constant(np.ones(5000, "float32"))
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = tk.reduce_sum(x) + tk.reduce_sum(x) + tk.reduce_sum(2.0 * x)
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), np.full(5000, 4.0))


def test_the_same_target_twice_counts_twice():
    x = tk.constant([1.0, 2.0])
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    assert tape.gradient([y, y], x).numpy().tolist() == [4.0, 8.0]


def test_an_integer_target_has_no_gradient():
    x = tk.constant(3.0)
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = tk.cast(x, "int32")
    assert tape.gradient(y, x) is None


@pytest.mark.parametrize("activation", [None, "relu"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("dims", [(4, 5), (2, 3, 5), (1, 5)])
def test_dense_layers_on_arrays_give_the_same_bits(rng, dims, dtype, activation):
    shapes = (dims, (5, 3), (3,))
    inputs = [convert_to_tensor(rng.normal(size=s).astype(dtype)) for s in shapes]
    same_bits(lambda *xs: tk.ops.dense(*xs, activation) * 3.0, inputs)
    same_bits(lambda x, kernel: tk.ops.dense(x, kernel, None, activation), inputs[:2])
    x, kernel, bias = inputs
    same_bits(lambda kernel: tk.ops.dense(x, kernel, bias, activation), [kernel])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_cross_entropy_of_class_numbers_on_arrays_gives_the_same_bits(rng, dtype):
    logits = convert_to_tensor(rng.normal(size=(4, 3)).astype(dtype))
    labels = tk.constant([0, 2, 1, 2])
    loss = tk.nn.sparse_softmax_cross_entropy_with_logits
    same_bits(lambda x: loss(labels, x) * 0.3, [logits])


@pytest.mark.usefixtures("on_cpu")
def test_a_joint_rule_on_arrays_may_decline(monkeypatch):
    prim = PRIMITIVES["dense"]
    asked = []

    def declines(g, y, *inputs, needed, activation):
        asked.append(needed)
        return NotImplemented

    monkeypatch.setattr(prim, "given_joint", declines)
    x, kernel = tk.constant([[1.0, 2.0]]), tk.constant([[3.0], [4.0]])
    (by_kernel,) = gradients(lambda k: tk.ops.dense(x, k), [kernel], False)
    assert by_kernel.numpy().tolist() == [[1.0], [2.0]]
    assert asked == [[False, True, False]]


def test_a_way_back_says_where_a_rule_declines_and_has_done_nothing():
    back = compile_vjp([SAME, lambda g, y, a, b: NotImplemented])
    declines = compile_vjp([lambda g, y, a, b: NotImplemented, None])
    a, b, y = (tk.constant([float(i)]) for i in range(3))
    grads = {}
    assert declines(y, y.numpy(), a, b, {a, b}, grads, set())
    assert grads == {}
    assert back(y, y.numpy(), a, b, {a, b}, grads, set())
    assert grads == {}  # what the other rule gave is not there twice when others take over
    assert not back(y, y.numpy(), a, b, {a}, grads, set())
    assert list(grads) == [a]
