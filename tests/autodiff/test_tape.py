"""What the tape promises: recording, one gradient, snapshots, nesting, jacobians."""

import gc
import threading
import weakref

import numpy as np
import pytest

import trainkit as tk
from trainkit.ops.neural.dense import dense


def test_gradient_of_a_chain():
    x = tk.constant([1.0, 2.0])
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = tk.reduce_sum(tk.sin(x) * x)
    np.testing.assert_allclose(
        tape.gradient(y, x).numpy(), np.cos([1, 2]) * [1, 2] + np.sin([1, 2]), rtol=1e-6
    )


def test_a_second_gradient_raises_unless_persistent():
    v = tk.Variable(2.0)
    with tk.GradientTape() as tape:
        y = v * v
    tape.gradient(y, v)
    with pytest.raises(RuntimeError, match="persistent=True"):
        tape.gradient(y, v)
    with pytest.raises(RuntimeError, match="persistent=True"):
        tape.jacobian(y, v)


def test_assigning_inside_the_tape_leaves_what_was_recorded():
    v = tk.Variable([3.0])
    with tk.GradientTape() as tape:
        y = v * v
        v.assign([10.0])
    v.assign([20.0])
    assert tape.gradient(y, v).numpy() == [6.0]


def test_reads_before_and_after_an_assignment_add_up():
    v = tk.Variable(3.0)
    with tk.GradientTape() as tape:
        y = v * v
        v.assign(5.0)
        y = y + v * 2.0
    assert tape.gradient(y, v).numpy() == 6.0 + 2.0


def test_updates_in_place_never_reach_a_tensor_read_before():
    v = tk.Variable(np.zeros(4, "float32"))
    for _ in range(3):
        v.assign_add(np.ones(4, "float32"))
    before = v.value()
    array = v.numpy()
    view = tk.reshape(v, [2, 2])
    v.assign_add(np.ones(4, "float32"))
    np.testing.assert_array_equal(before.numpy(), [3, 3, 3, 3])
    np.testing.assert_array_equal(array, [3, 3, 3, 3])
    np.testing.assert_array_equal(view.numpy(), [[3, 3], [3, 3]])
    np.testing.assert_array_equal(v.numpy(), [4, 4, 4, 4])


def test_assigning_a_view_does_not_tie_a_variable_to_a_tensor():
    x = tk.constant([[1.0, 2.0], [3.0, 4.0]])
    v = tk.Variable(tk.zeros([4]))
    v.assign(tk.reshape(x, [4]))
    v.assign_add([1.0, 1.0, 1.0, 1.0])
    v.assign_add([1.0, 1.0, 1.0, 1.0])
    np.testing.assert_array_equal(x.numpy(), [[1, 2], [3, 4]])


def test_a_tape_frees_its_record_with_its_gradient():
    v = tk.Variable(np.ones(3, "float32"))
    with tk.GradientTape() as tape:
        middle = v * 2.0
        y = tk.reduce_sum(middle * middle)
    gone = weakref.ref(middle)
    del middle
    assert gone() is not None
    tape.gradient(y, v)
    gc.collect()
    assert gone() is None


def test_third_order_by_nested_tapes():
    x = tk.constant(2.0)
    with tk.GradientTape() as t3:
        t3.watch(x)
        with tk.GradientTape() as t2:
            t2.watch(x)
            with tk.GradientTape() as t1:
                t1.watch(x)
                y = x**4.0
            first = t1.gradient(y, x)
        second = t2.gradient(first, x)
    third = t3.gradient(second, x)
    assert [float(v) for v in (first, second, third)] == pytest.approx([32.0, 48.0, 48.0])


def test_an_unwatched_constant_has_no_gradient():
    x, v = tk.constant(2.0), tk.Variable(3.0)
    with tk.GradientTape() as tape:
        y = x * v
    gx, gv = tape.gradient(y, [x, v])
    assert gx is None
    assert float(gv) == 2.0


def test_unconnected_gradients_may_be_zeros():
    a, b = tk.Variable([1.0, 2.0]), tk.Variable(1.0)
    with tk.GradientTape() as tape:
        y = b * 2.0
    grad = tape.gradient(y, a, unconnected_gradients=tk.UnconnectedGradients.ZERO)
    np.testing.assert_array_equal(grad.numpy(), [0, 0])
    with pytest.raises(ValueError, match="'none' or 'zero'"):
        tk.GradientTape().gradient(y, a, unconnected_gradients="some")


def test_stop_recording_leaves_operations_out():
    x = tk.constant(3.0)
    with tk.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        with tape.stop_recording():
            z = y * x
    assert tape.gradient(z, x) is None
    assert float(tape.gradient(y, x)) == 6.0


@pytest.mark.parametrize("wrap", [lambda f: f, tk.function], ids=["eager", "traced"])
def test_an_integer_is_watched_with_a_warning_and_has_no_gradient(wrap):
    def grads(n, x):
        with tk.GradientTape() as tape:
            with pytest.warns(UserWarning, match="int32 has no gradients"):
                tape.watch([n, x])
            y = tk.cast(n, tk.float32) * x
        return tape.gradient(y, [n, x])

    by_n, by_x = wrap(grads)(tk.constant(10), tk.constant(2.0))
    assert by_n is None
    assert float(by_x) == 10.0
    v = tk.Variable(3)
    with tk.GradientTape() as tape:
        with pytest.warns(UserWarning, match="int32"):
            tape.watch(v)
        y = v * 2
    assert tape.gradient(y, v) is None


def test_watching_a_number_is_an_error():
    with tk.GradientTape() as tape, pytest.raises(ValueError, match="convert_to_tensor"):
        tape.watch(1.0)


def test_output_gradients_must_have_the_shape_of_the_target():
    x = tk.constant([1.0, 2.0])
    with tk.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
    with pytest.raises(ValueError, match=r"\(2,\)"):
        tape.gradient(y, x, output_gradients=tk.ones([3]))
    np.testing.assert_array_equal(
        tape.gradient(y, x, output_gradients=tk.constant([1.0, 0.0])).numpy(), [2, 0]
    )


def test_operations_of_another_thread_are_not_recorded():
    v = tk.Variable(2.0)
    with tk.GradientTape() as tape:
        y = v * v

        def elsewhere():
            other = tk.Variable(1.0)
            for _ in range(10):
                (v * other) * v

        worker = threading.Thread(target=elsewhere)
        worker.start()
        worker.join()
        assert len(tape.entries) == 1
        assert tape.watched_variables() == (v,)
    assert float(tape.gradient(y, v)) == 4.0


def test_only_trainable_variables_are_watched_by_themselves():
    a, b = tk.Variable(1.0), tk.Variable(1.0, trainable=False)
    with tk.GradientTape() as tape:
        y = a * b
    assert tape.watched_variables() == (a,)
    assert tape.gradient(y, b) is None
    with tk.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(b)
        y = a * b
    assert tape.watched_variables() == (b,)


@pytest.mark.parametrize("name", ["mlp", "softmax", "slices", "reductions", "solve"])
def test_jacobian_agrees_with_one_gradient_per_element(name):
    rng = np.random.default_rng(0)
    x = tk.constant(rng.normal(size=(3, 4)))
    w = tk.constant(rng.normal(size=(4, 4)))

    def mlp():
        return tk.tanh(tk.matmul(x, w) + w[0])

    def softmax():
        return tk.nn.softmax(x * 2.0, axis=0) + tk.transpose(tk.matmul(w, x, transpose_b=True))

    def slices():
        return tk.concat([x[1:], tk.reverse(x, [1])[:1], tk.gather(x, [2, 0])], 0)

    def reductions():
        return tk.reduce_max(x, axis=1) * tk.reduce_mean(x) + tk.reduce_prod(x, axis=1)

    def solve():
        return tk.linalg.solve(w, tk.transpose(x)) + tk.reduce_logsumexp(x)

    f = {
        "mlp": mlp,
        "softmax": softmax,
        "slices": slices,
        "reductions": reductions,
        "solve": solve,
    }[name]
    with tk.GradientTape(persistent=True) as tape:
        tape.watch([x, w])
        y = f()
    whole = tape.jacobian(y, [x, w], unconnected_gradients="zero")
    units = np.eye(y.size).reshape((-1, *y.shape))
    for got, source in zip(whole, [x, w], strict=True):
        rows = [
            tape.gradient(y, source, tk.constant(u), unconnected_gradients="zero").numpy()
            for u in units
        ]
        expected = np.stack(rows).reshape(*y.shape, *source.shape)
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-9, atol=1e-12)


def test_jacobian_walks_back_once(monkeypatch):
    from trainkit.autodiff import tape as module

    walks = []
    real = module.backward_pass
    monkeypatch.setattr(module, "backward_pass", lambda *args: walks.append(1) or real(*args))
    x = tk.constant(np.arange(5.0))
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = tk.sin(x) * tk.reduce_sum(x)
    assert tape.jacobian(y, x).shape == (5, 5)
    assert len(walks) == 1


def test_batch_jacobian_takes_each_entry_by_itself():
    rng = np.random.default_rng(1)
    x = tk.constant(rng.normal(size=(3, 2)))
    w = rng.normal(size=(2, 4))
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = tk.square(tk.matmul(x, w))
    got = tape.batch_jacobian(y, x).numpy()
    inner = x.numpy() @ w
    np.testing.assert_allclose(got, 2 * inner[:, :, None] * w.T[None], rtol=1e-12)
    with tk.GradientTape() as tape:
        tape.watch(x)
        total = tk.reduce_sum(x, axis=0)
    with pytest.raises(ValueError, match="first axes"):
        tape.batch_jacobian(total, x)


def test_second_derivatives_go_through_a_jacobian():
    x = tk.constant([1.0, 2.0])
    with tk.GradientTape() as outer:
        outer.watch(x)
        with tk.GradientTape() as inner:
            inner.watch(x)
            y = x**3.0
        rows = inner.jacobian(y, x)
        total = tk.reduce_sum(rows)
    np.testing.assert_allclose(outer.gradient(total, x).numpy(), [6.0, 12.0], rtol=1e-6)


def test_forward_accumulator_agrees_with_the_jacobian():
    rng = np.random.default_rng(2)
    x, d = tk.constant(rng.normal(size=3)), tk.constant(rng.normal(size=3))
    w = tk.Variable(rng.normal(size=(3, 3)))
    with tk.autodiff.ForwardAccumulator(x, d) as forward, tk.GradientTape() as tape:
        tape.watch(x)
        y = tk.sin(tk.linalg.matvec(w, x)) * x
    expected = tape.jacobian(y, x).numpy() @ d.numpy()
    np.testing.assert_allclose(forward.jvp(y).numpy(), expected, rtol=1e-10)
    assert forward.jvp(tk.constant(1.0)) is None
    assert float(forward.jvp(tk.constant(1.0), "zero")) == 0.0
    with pytest.raises(ValueError, match="tangent"):
        tk.autodiff.ForwardAccumulator(x, tk.ones([2]))


def test_hessian_of_a_quadratic_form():
    a = np.array([[2.0, 1.0], [0.0, 3.0]])
    x = tk.constant([1.0, -1.0], tk.float64)
    got = tk.autodiff.hessian(lambda x: tk.reduce_sum(x * tk.linalg.matvec(a, x)), x)
    np.testing.assert_allclose(got.numpy(), a + a.T, rtol=1e-12)


def jacobian_of(f, shape, method="jacobian"):
    x = tk.zeros(shape)
    with tk.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x)
    return getattr(tape, method)(y, x)


@pytest.mark.parametrize("wrap", [lambda f: f, tk.function], ids=["eager", "traced"])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 3)])
def test_jacobians_of_empty_tensors_are_empty(shape, wrap):
    assert wrap(lambda: jacobian_of(lambda x: x * 2.0, shape))().shape == (*shape, *shape)
    if len(shape) == 2:
        batch, n = shape
        found = wrap(lambda: jacobian_of(lambda x: x * 2.0, shape, "batch_jacobian"))()
        assert found.shape == (batch, n, n)


def test_jacobians_of_what_is_not_connected():
    assert jacobian_of(lambda x: tk.ones((2,)), (2,)) is None
    assert jacobian_of(lambda x: tk.ones((0,)), (2,)) is None
    assert jacobian_of(lambda x: x[:0], (2,)).shape == (0, 2)
    zeros = jacobian_of(lambda x: tk.ones((2, 3)), (2, 4), "batch_jacobian")
    np.testing.assert_array_equal(zeros, np.zeros((2, 3, 4)))


@pytest.mark.parametrize("wrap", [lambda f: f, tk.function], ids=["eager", "traced"])
def test_a_variable_is_a_source_of_itself(wrap):
    v, other = tk.Variable(3.0), tk.Variable(2.0)

    def grads(target, sources):
        with tk.GradientTape(persistent=True) as tape:
            y = v * 5.0
        return tape.gradient(target, sources), tape.gradient([target, y], sources)

    assert [float(g) for g in wrap(lambda: grads(v, v))()] == [1.0, 6.0]
    assert [float(g) for g in wrap(lambda: grads(other, other))()] == [1.0, 1.0]
    assert wrap(lambda: grads(other, [v, other])[0])()[0] is None


def test_a_variable_is_a_source_of_itself_after_an_assignment():
    v = tk.Variable(3.0)
    with tk.GradientTape() as tape:
        y = v * 5.0
        v.assign(7.0)
    assert float(tape.gradient([v, y], v)) == 6.0
    assert tape.watched_variables() == (v,)


def test_what_unconnected_sources_get_is_an_enum_as_in_tensorflow():
    kinds = tk.UnconnectedGradients
    assert [kind.value for kind in kinds] == ["none", "zero"]
    assert kinds("zero") is kinds.ZERO
    v = tk.Variable([1.0])
    for zero in (kinds.ZERO, kinds("zero"), "zero"):
        with tk.GradientTape() as tape:
            y = v * 2.0
        assert tape.gradient(y, tk.Variable([3.0]), unconnected_gradients=zero).numpy() == [0.0]


_FLAT = {
    "relu": tk.nn.relu,
    "relu layer": lambda x: tk.layers.ReLU(max_value=1.5, negative_slope=0.1)(x),
    "dense": lambda x: dense(x, tk.ones((3, 2)), tk.zeros(2), activation="relu"),
    "max_pool": lambda x: tk.nn.max_pool2d(x[None, ..., None], 2, 1, "VALID"),
    "relu6": tk.nn.relu6,
    "leaky_relu": tk.nn.leaky_relu,
    "steep leaky_relu": lambda x: tk.nn.leaky_relu(x, alpha=2.0),
    "hard_sigmoid": tk.ops.hard_sigmoid,
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", _FLAT)
def test_the_second_derivative_of_a_rectifier_and_of_a_maximum_is_zeros(name, compiled):
    def second(x):
        with tk.GradientTape() as outer:
            outer.watch(x)
            with tk.GradientTape() as inner:
                inner.watch(x)
                y = _FLAT[name](x)
            penalty = tk.reduce_sum(inner.gradient(y, x) ** 2)
        return outer.gradient(penalty, x)

    x = tk.constant([[0.5, -1.0, 0.25], [2.0, -0.3, 0.6]])
    result = (tk.function(second) if compiled else second)(x)
    assert result is not None
    np.testing.assert_array_equal(result, np.zeros((2, 3)))


def test_the_second_derivative_at_the_corner_of_elu_is_that_of_the_line():
    x = tk.constant([-1.0, 0.0, 1.0])
    with tk.GradientTape() as outer:
        outer.watch(x)
        with tk.GradientTape() as inner:
            inner.watch(x)
            y = tk.nn.elu(x)
        slope = inner.gradient(y, x)
    np.testing.assert_allclose(outer.gradient(slope, x), [np.exp(-1.0), 0.0, 0.0], rtol=1e-6)


def test_hessians_of_lengths_are_symmetric_where_a_first_derivative_is_0():
    x, direction = tk.constant([0.0, 0.3, 0.5]), tk.constant([1.0, 0.0, 0.0])
    with tk.GradientTape() as outer:
        outer.watch(x)
        with tk.GradientTape() as inner:
            inner.watch(x)
            y = tk.reduce_sum(tk.math.l2_normalize(x) * direction)
        slope = inner.gradient(y, x)
    hessian = outer.jacobian(slope, x).numpy()
    length = np.sqrt(0.34)
    np.testing.assert_allclose(hessian[0], -np.array([0.0, 0.3, 0.5]) / length**3, rtol=1e-5)
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-5)


@pytest.mark.parametrize("root", [tk.sqrt, tk.math.rsqrt])
def test_roots_pass_nothing_at_0_where_nothing_comes_and_their_slope_otherwise(root):
    x, weight = tk.constant([0.0, 4.0]), tk.constant([0.0, 0.0])
    with tk.GradientTape() as outer:
        outer.watch(weight)
        with tk.GradientTape() as inner:
            inner.watch(x)
            y = tk.reduce_sum(weight * root(x))
        g = inner.gradient(y, x)
    np.testing.assert_array_equal(g, [0.0, 0.0])
    slope = 0.25 if root is tk.sqrt else -1 / 16
    np.testing.assert_allclose(outer.gradient(g, weight)[1], slope, rtol=1e-6)
