"""`custom_gradient`, `stop_gradient`, `recompute_grad`."""

import tracemalloc

import numpy as np
import pytest

import trainkit as tk


def slope(f, *args):
    tensors = [tk.constant(a) for a in args]
    with tk.GradientTape() as tape:
        tape.watch(tensors)
        y = f(*tensors)
    return tape.gradient(y, tensors)


def test_the_given_rule_replaces_the_derivative():
    @tk.custom_gradient
    def rounded(x):
        return tk.round(x), lambda dy: dy * 7.0

    assert float(slope(lambda x: 2.0 * rounded(x), 1.6)[0]) == 14.0


def test_an_input_passed_through_has_the_given_rule():
    @tk.custom_gradient
    def reversed_gradient(x):
        return x, lambda dy: -dy

    assert float(slope(reversed_gradient, 1.0)[0]) == -1.0


def test_several_inputs_and_results():
    @tk.custom_gradient
    def both(x, y):
        return (x * y, x + y), lambda a, b: (a * 10.0 + b, None)

    gx, gy = slope(lambda x, y: both(x, y)[0] + both(x, y)[1], 2.0, 3.0)
    # both calls are differentiated, the missing upstream gradient of each being zero
    assert float(gx) == 11.0
    assert gy is None


def test_variables_inside_get_gradients_through_the_rule():
    w = tk.Variable(3.0)

    @tk.custom_gradient
    def scaled(x):
        def backward(dy, variables=None):
            assert variables == [w]
            return dy * 100.0, [dy * 1000.0]

        return x * w, backward

    x = tk.constant(2.0)
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = scaled(x)
    assert [float(g) for g in tape.gradient(y, [x, w])] == [100.0, 1000.0]


def test_variables_inside_need_a_rule_that_takes_them():
    w = tk.Variable(3.0, name="w")

    @tk.custom_gradient
    def scaled(x):
        return x * w, lambda dy: dy

    x = tk.constant(1.0)
    with tk.GradientTape() as tape:
        tape.watch(x)
        with pytest.raises(TypeError, match="variables"):
            scaled(x)


def test_second_order_goes_through_what_the_rule_uses():
    @tk.custom_gradient
    def log1pexp(x):
        e = tk.exp(x)
        return tk.math.log(1 + e), lambda dy: dy * (1 - 1 / (1 + e))

    x = tk.constant(0.5, tk.float64)
    with tk.GradientTape() as outer:
        outer.watch(x)
        with tk.GradientTape() as inner:
            inner.watch(x)
            y = log1pexp(x)
        first = inner.gradient(y, x)
    s = 1 / (1 + np.exp(-0.5))
    assert float(first) == pytest.approx(s)
    assert float(outer.gradient(first, x)) == pytest.approx(s * (1 - s))


def test_check_catches_the_wrong_rule_for_log1pexp_and_shows_both():
    @tk.custom_gradient(check=True)
    def log1pexp(x):
        e = tk.exp(x)
        return tk.math.log(1 + e), lambda dy: dy * (1 - 1 / (e + e))

    with pytest.raises(tk.autodiff.GradientMismatchError) as caught:
        log1pexp(tk.constant([0.5, 1.5]))
    text = str(caught.value)
    for word in ("log1pexp", "differences", "test_custom_vjp.py"):
        assert word in text


def test_check_lets_a_right_rule_pass_and_looks_once_per_signature():
    calls = []

    @tk.custom_gradient(check=True)
    def softplus(x):
        calls.append(1)
        e = tk.exp(x)
        return tk.math.log(1 + e), lambda dy: dy * (1 - 1 / (1 + e))

    softplus(tk.constant([0.5]))
    first = len(calls)
    softplus(tk.constant([0.7]))
    assert len(calls) == first + 1


@pytest.mark.parametrize("result", [3.0, (1.0, 2.0), None])
def test_a_function_without_a_rule_is_an_error(result):
    @tk.custom_gradient
    def wrong(x):
        return result

    with pytest.raises(TypeError, match=r"\(result, grad_fn\)"):
        wrong(tk.constant(1.0))


def test_a_rule_with_the_wrong_number_of_gradients_is_an_error():
    @tk.custom_gradient
    def two(x, y):
        return x * y, lambda dy: dy

    with pytest.raises(ValueError, match="1 input"):
        slope(two, 1.0, 2.0)


def test_stop_gradient_is_a_constant_to_the_tape():
    (g,) = slope(lambda x: x * tk.stop_gradient(x), 3.0)
    assert float(g) == 3.0


def test_recompute_grad_gives_the_same_gradients_and_calls_twice():
    w = tk.Variable([[1.0, 2.0], [3.0, 4.0]])
    calls = []

    def block(x):
        calls.append(1)
        return tk.tanh(tk.matmul(x, w))

    x = tk.constant([[0.1, 0.2]])
    results = []
    for f in (block, tk.recompute_grad(block)):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = tk.reduce_sum(f(x) ** 2.0)
        results.append([g.numpy() for g in tape.gradient(y, [x, w])])
    assert len(calls) == 3
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("read_variable", [False, True])
def test_recompute_grad_keeps_nothing_of_what_the_function_computes(read_variable):
    size, depth = 100_000, 20
    scale = tk.Variable(1.01)
    x = tk.constant(np.ones(size, "float32"))

    def block(x):
        for _ in range(depth):
            x = x * (scale if read_variable else 1.01)
        return x

    def peak(f):
        tracemalloc.start()
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = tk.reduce_sum(f(f(f(f(x)))))
        grads = tape.gradient(y, [x, scale])
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most, grads

    plain, expected = peak(block)
    frugal, found = peak(tk.recompute_grad(block))
    assert plain > 4 * depth * size * 4
    assert frugal < 0.5 * plain
    np.testing.assert_allclose(found[0].numpy(), expected[0].numpy(), rtol=1e-6)
    assert (found[1] is None) == (expected[1] is None) == (not read_variable)
    if read_variable:
        np.testing.assert_allclose(float(found[1]), float(expected[1]), rtol=1e-5)


def test_an_error_of_a_checked_rule_is_its_own():
    @tk.custom_gradient(check=True)
    def doubled(x):
        def backward(g):
            return g * len(3)

        return x * 2.0, backward

    with pytest.raises(TypeError, match="has no len") as caught:
        doubled(tk.constant(3.0))
    assert "variables" not in str(caught.value)
