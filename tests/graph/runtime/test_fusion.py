"""Fused runs: which operations join, and that they give the bits of separate ones."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.compiler.schedule import parallel
from trainkit.graph.ir.passes import optimised
from trainkit.graph.runtime.fusion import FusedKernel, fuse
from trainkit.graph.runtime.program import Program

# Machine code is for the CPU; its calls take NumPy arrays.
pytestmark = pytest.mark.usefixtures("on_cpu")


def fused(function, *specs):
    graph = optimised(tk.function(function).get_concrete_function(*specs).graph)
    new = fuse(graph)
    kernels = [n for n in new.nodes if n.kind == "op" and isinstance(n.primitive, FusedKernel)]
    rest = [n.primitive.name for n in new.nodes if n.kind == "op" and n not in kernels]
    return kernels, rest


X = tk.TensorSpec([4, 3], tk.float32)


def test_a_chain_of_elementwise_operations_is_one_run():
    kernels, rest = fused(lambda x: tk.nn.relu(x * 2.0 + 1.0) / 3.0 - tk.sqrt(tk.abs(x)), X)
    assert len(kernels) == 1
    assert rest == []
    assert len(kernels[0].outputs) == 1


def test_one_operation_alone_is_a_run_where_several_threads_share_it(monkeypatch, rng):
    def f(x, y):
        return tk.sort(x, axis=0) + tk.sort(y, axis=0)

    wide = tk.TensorSpec([1 << 10, 1 << 10], tk.float32)
    kernels, rest = fused(f, wide, wide)
    assert len(kernels) == 1
    assert rest == ["sort", "sort"]
    assert fused(f, X, X) == ([], ["sort", "sort", "add"])
    monkeypatch.setattr(parallel, "FEWEST_BYTES", 1)  # the same for small arrays
    assert len(fused(f, X, X)[0]) == 1
    x, y = (tk.constant(rng.normal(size=(33, 7)).astype("float32")) for _ in range(2))
    assert_equal_bits(f, x, y)


def test_what_is_used_outside_is_stored_too():
    def f(x):
        y = x * 2.0
        z = y + 1.0
        return z * z, tk.matmul(y, tk.transpose(y))

    kernels, rest = fused(f, X)
    assert len(kernels) == 1
    assert len(kernels[0].outputs) == 2
    assert rest == []


def test_what_can_not_be_compiled_stands_between_runs():
    def f(x):
        y = tk.sort(x * 2.0 + 1.0)
        return tk.reduce_sum(y * y)

    kernels, rest = fused(f, X)
    assert len(kernels) == 2
    assert rest == ["sort"]
    assert_equal_bits(f, tk.constant([[3.0, 1.0, 2.0]] * 4))


def test_views_of_results_are_taken_outside():
    def f(x):
        y = x * 2.0 + 1.0
        return y, tk.transpose(y), tk.reshape(y, [6, 2])

    kernels, rest = fused(f, X)
    assert len(kernels[0].outputs) == 1
    assert rest == ["transpose", "reshape"]
    a, b, c = tk.function(f, jit_compile=True)(tk.ones([4, 3]))
    assert not np.asarray(b).flags.c_contiguous
    assert np.shares_memory(np.asarray(a), np.asarray(c))


def test_an_argument_that_comes_out_again_is_itself():
    f = tk.function(
        lambda x: (tk.identity(x), tk.reshape(x, [4, 3]), x * 2.0 + 1.0), jit_compile=True
    )
    x = tk.ones([4, 3])
    same, shaped, _ = f(x)
    assert same._array is x._array
    assert shaped._array is x._array or np.shares_memory(np.asarray(shaped), np.asarray(x))


def assert_equal_bits(f, *args):
    for a, b in zip(
        tk.nest.flatten(f(*args)),
        tk.nest.flatten(tk.function(f, jit_compile=True)(*args)),
        strict=True,
    ):
        np.testing.assert_array_equal(b.numpy(), a.numpy())


def test_what_is_the_same_in_all_calls_is_a_constant():
    def f(x):
        y = x * 2.0 + 1.0
        return tk.sort(tk.zeros_like(y)), tk.sort(y), tk.ones_like(y)

    _, rest = fused(f, X)
    assert rest == ["sort", "sort"]
    assert_equal_bits(f, tk.ones([4, 3]))


@pytest.mark.parametrize(
    "formula", ["abc,acd->abd", "abc,adc->bad", "abc,acd->da", "abc,ade->cbed"]
)
def test_sums_of_products_by_letters(formula, rng):
    a = tk.constant(rng.normal(size=(2, 3, 4)).astype("float32"))
    b = tk.constant(rng.normal(size=(2, 4, 4)).astype("float32"))
    kernels, rest = fused(lambda a, b: tk.einsum(formula, a * 2.0, b) + 1.0, a, b)
    assert (len(kernels), rest) == (1, [])
    assert_equal_bits(lambda a, b: tk.einsum(formula, a * 2.0, b) + 1.0, a, b)


def test_an_argument_out_of_order_is_computed_by_numpy(rng):
    x = tk.transpose(tk.constant(rng.normal(size=(3, 4)).astype("float32")))
    assert not x._array.flags.c_contiguous
    assert_equal_bits(lambda x: tk.reduce_sum(tk.exp(x) * 2.0, axis=0), x)


def test_layouts_inside_are_numpys(rng):
    x = tk.constant(rng.normal(size=(40, 30)).astype("float32"))

    def f(x):
        y = tk.transpose(x) * 2.0 + 1.0  # lies as the transpose lies
        return tk.matmul(y, x), tk.reduce_sum(y, axis=0), tk.reshape(y, [-1])

    assert_equal_bits(f, x)


@pytest.mark.parametrize("labels", [[0, 3], [-1, 1]])
def test_a_wrong_label_is_an_error_that_names_it_and_its_line(labels):
    logits = tk.constant([[0.1, 0.2, 0.3], [1.0, 2.0, 3.0]])
    w = tk.Variable(1.0)

    @tk.function(jit_compile=True)
    def f(y, x):
        loss = tk.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x * 2.0 + 1.0)
        w.assign(0.0)
        return tk.reduce_mean(loss)

    f(tk.constant([0, 2]), logits)
    w.assign(1.0)
    with pytest.raises(tk.errors.InvalidArgumentError, match="is not in") as caught:
        f(tk.constant(labels), logits)
    assert "test_fusion.py" in str(caught.value)
    assert float(w) == 1.0


def weights_and_step(rng, jit_compile=True):
    w = tk.Variable(rng.normal(size=(8, 3)).astype("float32"))

    @tk.function(jit_compile=jit_compile)
    def step(g):
        w.assign(w - 0.1 * g * w)
        return tk.reduce_sum(g)

    return w, step


def test_a_variable_that_nobody_holds_is_written_in_place(rng):
    w, step = weights_and_step(rng)
    g = tk.ones([8, 3])
    step(g)
    before, expected = w._value._array, w.numpy() - np.float32(0.1) * w.numpy()
    address = before.__array_interface__["data"][0]
    del before
    step(g)
    assert w._value._array.__array_interface__["data"][0] == address
    np.testing.assert_allclose(w.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize(
    "hold",
    [
        lambda w: w.value(),
        lambda w: w.numpy(),
        lambda w: w.value()[1:],
        lambda w: tk.transpose(w),
        lambda w: np.asarray(w),
        lambda w: tk.identity(w),
        lambda w: memoryview(w._value._array),
    ],
)
def test_a_value_that_somebody_holds_never_changes(hold, rng):
    w, step = weights_and_step(rng)
    g = tk.ones([8, 3])
    step(g)
    held = hold(w)
    before = np.array(held)
    step(g)
    np.testing.assert_array_equal(np.array(held), before)
    assert not np.array_equal(w.numpy(), w.numpy() * 0)


def test_an_old_value_that_is_returned_is_not_written_over(rng):
    w = tk.Variable(rng.normal(size=(8, 3)).astype("float32"))

    @tk.function(jit_compile=True)
    def step(g):
        old = w.read_value()
        w.assign(w - 0.1 * g)
        return old

    g = tk.ones([8, 3])
    step(g)
    before = w.numpy().copy()
    np.testing.assert_array_equal(step(g).numpy(), before)


def test_two_variables_that_share_one_array_stay_apart(rng):
    a = tk.Variable(rng.normal(size=4).astype("float32"))
    b = tk.Variable(a.value())

    @tk.function(jit_compile=True)
    def both(g):
        b.assign(a)
        a.assign(a - g * 2.0)

    g = tk.ones([4])
    both(g)
    before = a.numpy().copy()
    both(g)
    np.testing.assert_array_equal(b.numpy(), before)
    np.testing.assert_array_equal(a.numpy(), before - 2)


def test_a_failure_after_the_update_leaves_variables_alone():
    w = tk.Variable([1.0, 2.0])

    @tk.function(jit_compile=True)
    def step(x, i):
        w.assign(w * 2.0 + x)
        return tk.gather(tk.sort(x * 1.5 + 1.0), i)

    with pytest.raises((IndexError, ValueError)):
        step(tk.constant([1.0, 1.0]), tk.constant([5]))
    assert w.numpy().tolist() == [1.0, 2.0]


def test_rows_and_scalars_are_spread_inside_the_loop(rng):
    b = tk.constant(rng.normal(size=3).astype("float32"))
    s = tk.constant(1.7)

    def f(x):
        return (x + b) * s - x / 2

    kernels, _rest = fused(f, X)
    assert len(kernels) == 1
    x = tk.constant(rng.normal(size=(4, 3)).astype("float32"))
    np.testing.assert_array_equal(tk.function(f, jit_compile=True)(x).numpy(), f(x).numpy())


def test_a_group_never_contains_a_path_that_leaves_it():
    def f(x):
        y = x * 2.0
        z = tk.reduce_sum(y)  # leaves the group, and comes back
        return (y + 1.0) * z

    kernels, _ = fused(f, X)
    for node in kernels:
        assert all(x.node is not node for x in node.inputs if hasattr(x, "node"))
    x = tk.ones([4, 3])
    np.testing.assert_array_equal(tk.function(f, jit_compile=True)(x).numpy(), f(x).numpy())


def test_groups_never_wait_for_one_another():
    # a1 -> b1 and b2 -> a2: as wholes {a1, a2} and {b1, b2} would each need the other first
    def f(x):
        a1 = x * 2.0
        b1 = tk.reshape(tk.exp(a1), [3, 4]) + 1.0
        seed = tk.reshape(x, [3, 4]) * 3.0
        b2 = seed - 1.0
        joined = b1 * seed
        a2 = tk.reshape(tk.exp(b2), [4, 3]) * x + a1
        return a2, joined

    x = tk.ones([4, 3])
    for a, b in zip(f(x), tk.function(f, jit_compile=True)(x), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_unknown_sizes_are_left_alone():
    assert fused(lambda x: x * 2.0 + 1.0, tk.TensorSpec([None], tk.float32))[0] == []


SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, 3e38, -3e38, 1e-3]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: x + y - x * y,
        lambda x, y: x / y + 1.0,
        lambda x, y: tk.nn.relu(x) * tk.nn.relu(-y),
        lambda x, y: tk.sqrt(tk.abs(x)) - tk.square(y),
        lambda x, y: -(x + 2.5) / (y * 3.0),
    ],
)
@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
def test_special_values_come_out_bit_for_bit(f, dtype):
    grid = np.array(np.meshgrid(SPECIAL, SPECIAL), dtype).reshape(2, -1)
    x, y = tk.constant(grid[0]), tk.constant(grid[1])
    expected = f(x, y).numpy()
    got = tk.function(f, jit_compile=True)(x, y).numpy()
    np.testing.assert_array_equal(got, expected)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(expected)[known])


@pytest.mark.parametrize("optimizer", ["Adam", "SGD", "RMSprop"])
def test_a_fused_training_step_gives_the_eager_bits(optimizer, rng):
    x = tk.constant(rng.normal(size=(16, 6)).astype("float32"))
    y = tk.constant(rng.integers(0, 3, 16).astype("int32"))

    def train(jit_compile):
        tk.random.set_seed(1)
        model = tk.Sequential([tk.layers.Dense(8, activation="relu"), tk.layers.Dense(3)])
        model(x)
        opt = getattr(tk.optimizers, optimizer)(0.05)
        opt.build(model.trainable_variables)
        loss_fn = tk.losses.SparseCategoricalCrossentropy(from_logits=True)

        def step(x, y):
            with tk.GradientTape() as tape:
                loss = loss_fn(y, model(x, training=True))
            grads = tape.gradient(loss, model.trainable_variables)
            opt.apply_gradients(zip(grads, model.trainable_variables, strict=True))
            return loss

        run = step if jit_compile == "eager" else tk.function(step, jit_compile=jit_compile)
        losses = [float(run(x, y)) for _ in range(5)]
        return losses, [v.numpy() for v in model.trainable_variables]

    plain, weights = train(False)
    fused_losses, fused_weights = train(True)
    assert fused_losses == plain
    for a, b in zip(weights, fused_weights, strict=True):
        np.testing.assert_array_equal(a, b)
    eager_losses, _ = train("eager")
    np.testing.assert_allclose(eager_losses, plain, rtol=1e-5)


def addresses_of(program, *arrays):
    """The addresses that the fused nodes of a program are given and that they write to."""
    seen = []
    for node in program.graph.nodes:
        if node.kind == "op" and isinstance(node.primitive, FusedKernel):
            kernel = node.primitive
            function, count = kernel.compile(), len(node.inputs)

            def note(*given, function=function, count=count, outs=kernel.outputs):
                taken = [a.__array_interface__["data"][0] for a in given[: count + outs]]
                seen.append((taken[:count], taken[count:]))
                return function(*given)

            kernel._function = note
    Program(program.graph)(list(arrays))
    return seen


def test_a_result_is_written_over_one_that_nothing_needs_any_more():
    f = tk.function(lambda x: tk.sort(x) * 2.0 + 1.0, jit_compile=True)
    x = tk.constant([[3.0, 1.0, 2.0]] * 4)
    assert f(x).numpy()[0].tolist() == [3.0, 5.0, 7.0]
    program = f.concrete_functions()[0].graph.program().fused
    ((given, written),) = addresses_of(program, x._array)
    assert written == given


def test_a_result_that_is_needed_later_is_not_written_over():
    def f(x):
        y = tk.sort(x)
        return y * 2.0 + 1.0, y

    g = tk.function(f, jit_compile=True)
    x = tk.constant([[3.0, 1.0, 2.0]] * 4)
    for _ in range(3):
        a, b = g(x)
        assert a.numpy()[0].tolist() == [3.0, 5.0, 7.0]
        assert b.numpy()[0].tolist() == [1.0, 2.0, 3.0]
    assert x.numpy()[0].tolist() == [3.0, 1.0, 2.0]


def test_a_scalar_of_numpys_is_never_written_to():
    def f(x):
        y = tk.tensordot(x, x, 1)  # NumPy gives a scalar, which is no array
        return y * 2.0 + 1.0

    assert_equal_bits(f, tk.constant([1.0, 2.0, 3.0]))


def test_a_result_of_another_shape_is_an_array_of_its_own():
    def f(x):
        y = tk.reshape(tk.sort(x), [2, 6]) * 2.0 + 1.0
        return tk.reshape(y, [12, 1])

    assert_equal_bits(f, tk.constant([[3.0, 1.0, 2.0]] * 4))
    assert tk.function(f, jit_compile=True)(tk.ones([4, 3])).shape == (12, 1)

    def g(x):
        return tk.reshape(tk.reshape(tk.sort(x), [3, 4]) * 2.0 + 1.0, [4, 3])

    assert_equal_bits(g, tk.constant([[3.0, 1.0, 2.0]] * 4))


def test_a_reshaped_result_over_another_shape():
    def f(x):
        return tk.reshape(tk.sort(x) * 2.0 + 1.0, [3, 4])

    assert_equal_bits(f, tk.constant([[3.0, 1.0, 2.0]] * 4))


def test_a_result_that_lies_transposed_is_an_array_of_its_own(rng):
    def f(x):
        y = tk.sort(x) * 2.0 + 1.0
        return tk.transpose(y) * 1.0, tk.transpose(tk.sort(x) - x)

    assert_equal_bits(f, tk.constant(rng.normal(size=(3, 3)).astype("float32")))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("length", [3, 7, 37, 300])
@pytest.mark.usefixtures("on_cpu")
def test_inner_products_of_rows_have_the_bits_of_eager_calls(length, dtype, rng):
    a, b = (tk.constant(rng.normal(size=(20, length)), dtype) for _ in range(2))

    def f(a, b):
        y = tk.einsum("bi,bi->b", a, b)
        return y, tk.sin(y) * y + 1.0

    for found, expected in zip(tk.function(f, jit_compile=True)(a, b), f(a, b), strict=True):
        np.testing.assert_array_equal(found, expected)
