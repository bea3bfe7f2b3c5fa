"""Arrays that end before the run of a graph come back to the same memory, others do not."""

import threading

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.dispatch import native
from trainkit.graph.runtime import program

pytestmark = pytest.mark.skipif(native.NATIVE is None, reason="there is no compiled half")

SIZES = [5_000, 70_000, 2_000, 30_000]
"""Numbers of float32: all are beyond what malloc has at hand, and fit together."""


def aligned(function):
    return native.aligned_run(function, comes_back=True)


def address(array):
    return array.ctypes.data


def addresses_of_a_chain(sizes=SIZES):
    """Each array is dropped when the next one is there, as in a chain of layers."""
    addresses, x = [], None
    for size in sizes:
        x = np.empty(size, np.float32)
        addresses.append(address(x))
    return addresses


def filled(count, size=10_000):
    return [np.full(size, float(i), np.float32) for i in range(count)]


def warm(run, *arguments):
    """What a run gives once two before it have shown which arrays end with it."""
    run(*arguments)
    run(*arguments)
    return run(*arguments)


def test_arrays_of_a_chain_come_back_to_the_same_memory_whatever_else_is_freed():
    run = aligned(addresses_of_a_chain)
    first = warm(run)
    blocks = [np.empty(n, np.uint8) for n in range(20_000, 400_000, 7_000)]
    del blocks[::2]
    assert run() == first
    assert all(a % 64 == 0 for a in first)
    # the third array fits where the first one was
    assert first[2] == first[0]


def test_programs_share_the_memory():
    one, other = aligned(addresses_of_a_chain), aligned(lambda: addresses_of_a_chain())
    assert warm(one) == warm(other)


def test_results_are_never_written_over():
    run = aligned(lambda i: (np.full(9_000, i, np.float32) * 2.0, np.ones(9_000, np.float32).sum()))
    results = [run(i)[0] for i in range(20)]
    assert all((result == 2.0 * i).all() for i, result in enumerate(results))
    assert len({address(result) for result in results}) == len(results)


def test_what_outlasts_one_run_by_surprise_keeps_its_numbers():
    kept = []

    def keep(i, keeps):
        x = np.full(8_000, i, np.float32)
        if keeps:
            kept.append(x)
        y = np.full(8_000, -1.0, np.float32)
        return float(x[0] + y[0])

    run = aligned(keep)
    for i in range(30):
        run(i, i % 3 == 2)
    assert [x[0] for x in kept] == [i for i in range(30) if i % 3 == 2]
    assert all((x == x[0]).all() for x in kept)


def test_zeros_are_zeros_where_something_else_was():
    def run_once():
        x = np.full(20_000, 7.0, np.float32)
        del x
        return float(np.zeros(20_000, np.float32).sum())

    run = aligned(run_once)
    assert [run() for _ in range(4)] == [0.0] * 4


@pytest.mark.parametrize("sizes", [[4_000, 9_000_000, 4_000], [3_000] * 3_000, [0, 1, 2_000]])
def test_too_large_too_many_and_small_arrays(sizes):
    def sums():
        arrays = [np.full(size, i, np.float32) for i, size in enumerate(sizes)]
        return [float(x[-1]) if x.size else 0.0 for x in arrays]

    run = aligned(sums)
    expected = [float(i) if size else 0.0 for i, size in enumerate(sizes)]
    assert [run() for _ in range(3)] == [expected] * 3


def test_sizes_that_change_from_run_to_run():
    generator = np.random.default_rng(0)

    def chain(sizes):
        x = np.zeros(1, np.float32)
        for size in sizes:
            y = np.full(size, x[0] + 1.0, np.float32)
            assert (y == x[0] + 1.0).all()
            x = y
        return x

    run, results = aligned(chain), []
    for _ in range(200):
        results.append(run(generator.integers(500, 60_000, generator.integers(1, 9))))
        if len(results) > 20:
            del results[generator.integers(len(results))]
        assert all((x == x[0]).all() for x in results)


def test_a_run_inside_itself_and_inside_another():
    inner = aligned(lambda: float(np.full(7_000, 2.0, np.float32)[3]))

    def nested(depth):
        x = np.full(6_000, depth, np.float32)
        below = run(depth - 1) if depth else inner()
        return below + float(x[5])

    run = aligned(nested)
    assert [run(4) for _ in range(4)] == [12.0] * 4


def test_a_failure_leaves_the_memory_in_order():
    def fail(at):
        for i, x in enumerate(filled(6)):
            if i == at:
                raise ValueError(f"array {x[0]}")

    run = aligned(fail)
    for at in (9, 9, 2, 9, 4):
        if at < 6:
            with pytest.raises(ValueError, match=f"array {at}"):
                run(at)
        else:
            run(at)
    assert warm(aligned(addresses_of_a_chain)) == warm(aligned(addresses_of_a_chain))


def test_threads_run_one_program_beside_each_other():
    def chain(i):
        x = np.full(11_000, i, np.float32)
        for _ in range(20):
            x = x + 1.0
        return x

    run, failures = aligned(chain), []

    def work(i):
        for _ in range(50):
            if not (run(i) == i + 20.0).all():
                failures.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_arrays_freed_by_another_thread():
    shelf = []

    def put():
        shelf.append(np.full(12_000, len(shelf), np.float32))
        return float(np.full(12_000, 5.0, np.float32)[0])

    run = aligned(put)
    for _ in range(8):
        assert run() == 5.0
        if len(shelf) > 2:
            thread = threading.Thread(target=shelf.pop, args=(0,))
            thread.start()
            thread.join()
    assert all((x == x[0]).all() for x in shelf)


def test_a_trained_and_asked_model_has_the_numbers_of_eager_calls():
    model = tk.Sequential(
        [
            tk.layers.Input((24, 24, 3)),
            tk.layers.Conv2D(16, 3, activation="relu"),
            tk.layers.BatchNormalization(),
            tk.layers.Conv2D(32, 3, strides=2),
            tk.layers.GlobalAveragePooling2D(),
            tk.layers.Dense(10),
        ]
    )
    model.compile("adam", tk.losses.SparseCategoricalCrossentropy(from_logits=True))
    x = np.random.default_rng(1).normal(size=(40, 24, 24, 3)).astype(np.float32)
    model.fit(x, np.arange(40) % 10, batch_size=8, epochs=2, verbose=0)
    compiled = tk.function(lambda x: model(x, training=False))
    results = [compiled(tk.constant(x[i : i + 4])) for i in range(0, 40, 4)]
    for i, result in zip(range(0, 40, 4), results, strict=True):
        expected = model(tk.constant(x[i : i + 4]), training=False)
        np.testing.assert_array_equal(result.numpy(), expected.numpy())


def test_steps_of_training_leave_the_memory_alone(monkeypatch):
    asked = []

    def aligned_run(run, comes_back=False):
        asked.append(comes_back)
        return run

    monkeypatch.setattr(program, "aligned_run", aligned_run)
    v = tk.Variable(tk.zeros([300, 300]))
    x = tk.ones([300, 300])
    tk.function(lambda x: v.assign_add(x @ x))(x)
    assert set(asked) == {False}
    asked.clear()
    tk.function(lambda x: v + x @ x)(x)
    assert set(asked) == {True}
