"""Rules that update weights in place: by NumPy's steps at first, then by one call for all."""

import threading

import numpy as np
import pytest

import trainkit as tk
from tests.compiler.test_flat import RULES, SCALARS, adam, keeps_the_greatest, lion, results_of
from trainkit.compiler.flat import FlatProgram
from trainkit.kernels.jit import kernel_code, kernel_family
from trainkit.kernels.jit.kernel_family import BYTE_SECONDS, STEP_SECONDS
from trainkit.kernels.threads.thread_pool import FEWEST_COPIED as WIDE
from trainkit.optimizers.base.flat_update import PIECE, UPDATES, FlatUpdate

pytestmark = pytest.mark.usefixtures("on_cpu")


def members_of(rng, sizes, n_slots, dtype=np.float32):
    return [[rng.random(n).astype(dtype) for _ in range(2 + n_slots)] for n in sizes]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "sizes", [[1], [7, 1, 0, 30], [PIECE + 3], [WIDE // 2, 3, WIDE, PIECE + 1]], ids=str
)
@pytest.mark.parametrize(("rule", "n_slots"), RULES)
def test_weights_get_the_bits_of_the_rule(rule, n_slots, sizes, dtype, mode, rng):
    members = members_of(rng, sizes, n_slots, dtype)
    scalars = tuple(map(dtype, SCALARS))
    expected = [results_of(rule, buffers, scalars) for buffers in members]
    grads = [buffers[1].copy() for buffers in members]
    FlatUpdate(FlatProgram(rule, n_slots, 2, dtype)).run_all(members, scalars)
    assert any(UPDATES._ready.values()) is (mode == "eager")
    for buffers, results, grad in zip(members, expected, grads, strict=True):
        assert buffers[1].tobytes() == grad.tobytes()
        for array, result in zip([buffers[0], *buffers[2:]], results, strict=True):
            assert array.tobytes() == result.tobytes()


def test_threads_do_not_share_memory(mode, rng):
    """One rule, and so one program, updates the weights of two models in two threads."""
    update = FlatUpdate(FlatProgram(keeps_the_greatest, 3, 2, np.float32))
    members = members_of(rng, [5 * PIECE] * 2, 3)
    expected = []
    for buffers in members:
        results = buffers
        for _ in range(20):
            new = results_of(keeps_the_greatest, results, SCALARS)
            results = [new[0], buffers[1], *new[1:]]
        expected.append(results)
    start = threading.Barrier(2)

    def train(buffers):
        start.wait()
        for _ in range(20):
            update.run_all([buffers], SCALARS)

    threads = [threading.Thread(target=train, args=(buffers,)) for buffers in members]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for buffers, results in zip(members, expected, strict=True):
        for array, result in zip(buffers, results, strict=True):
            np.testing.assert_array_equal(array, result)


def test_a_call_takes_over_when_a_thread_has_compiled_it(rng, monkeypatch):
    monkeypatch.setattr(kernel_family, "START_SECONDS", 0.0)
    monkeypatch.setattr(kernel_code, "kernel_at_hand", lambda *facts: None)
    kernel_family.set_mode("hot")
    update = FlatUpdate(FlatProgram(lion, 1, 2, np.float32))
    members = members_of(rng, [PIECE], 1)
    update.run_all(members, SCALARS)
    (thread,) = UPDATES._threads.values()
    thread.join()
    update.run_all(members, SCALARS)
    (call,) = UPDATES._ready.values()
    assert call
    UPDATES.forget()


@pytest.mark.parametrize("sizes", [[7], [7, 30, 1000, 5], [WIDE, 7, WIDE + 3, 40]], ids=str)
def test_a_call_counts_as_the_work_that_it_is(sizes, rng, monkeypatch):
    monkeypatch.setattr(kernel_code, "kernel_at_hand", lambda *facts: None)
    kernel_family.set_mode("hot")
    update = FlatUpdate(FlatProgram(adam, 2, 2, np.float32))
    update.run_all(members_of(rng, sizes, 2), SCALARS)
    moved = 4 * 4 * sum(sizes)  # weight, gradient and two slots
    seconds = STEP_SECONDS * len(sizes) + BYTE_SECONDS * moved
    assert sum(UPDATES._spent.values()) == pytest.approx(seconds)
    UPDATES.forget()


def test_a_rule_that_rounds_in_its_own_way_is_never_compiled(mode):
    update = FlatUpdate(FlatProgram(lambda xp, w, g, s: (w - xp.exp(g),), 0, 1, np.float32))
    w, g = np.ones(3, np.float32), np.zeros(3, np.float32)
    update.run_all([[w, g]], (np.float32(1.0),))
    np.testing.assert_array_equal(w, 0.0)
    assert not UPDATES._ready


# ------------------------------------------------------------------ rules of one's own


class Signed(tk.optimizers.Optimizer):
    """A rule that no library of kernels knows."""

    slots = ("last",)

    def update(self, xp, weight, grad, lr, last):
        step = xp.where(grad * last > 0, grad**2, xp.abs(last))
        return weight - lr * step, grad


class ByRank(tk.optimizers.Optimizer):
    """A rule that decides by shape."""

    def update(self, xp, weight, grad, lr):
        return weight - lr * grad if len(weight.shape) > 1 else weight


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_rule_of_ones_own_is_compiled_and_gives_the_bits_of_the_plain_rule(dtype, mode, rng):
    arrays = [rng.normal(size=shape).astype(dtype) for shape in [(3, 4), (), (5,)]]
    optimizer, weights = Signed(0.1), [tk.Variable(x) for x in arrays]
    lasts = [np.zeros_like(x) for x in arrays]
    for _ in range(3):
        grads = [rng.normal(size=x.shape).astype(dtype) for x in arrays]
        optimizer.apply([tk.constant(g) for g in grads], weights)
        for i, (x, g, last) in enumerate(zip(arrays, grads, lasts, strict=True)):
            arrays[i], lasts[i] = optimizer.update(np, x, g, x.dtype.type(np.float32(0.1)), last)
    assert any(UPDATES._ready.values()) is (mode == "eager")
    for weight, x in zip(weights, arrays, strict=True):
        np.testing.assert_array_equal(weight.numpy(), x)


def test_a_rule_that_decides_by_shape_sees_the_shape_of_each_weight(mode):
    weights = [tk.Variable(tk.ones((2, 3))), tk.Variable(tk.ones((3,)))]
    ByRank(0.5).apply([tk.ones((2, 3)), tk.ones((3,))], weights)
    assert weights[0].numpy().tolist() == [[0.5] * 3] * 2
    assert weights[1].numpy().tolist() == [1.0] * 3


def test_gradients_without_axes_may_be_scalars_of_numpy(mode):
    weight = tk.Variable(np.float32(1.0))
    optimizer = tk.optimizers.SGD(0.5)
    optimizer.apply([tk.core.tensor.wrap(np.float32(1.0))], [weight])
    assert float(weight) == 0.5
