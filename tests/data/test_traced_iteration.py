"""Iterators in traced functions: each run takes elements; the values are TensorFlow 2.21's."""

import numpy as np
import pytest

import trainkit as tk


def test_each_run_takes_further_elements():
    iterator = iter(tk.data.Dataset.range(20))

    @tk.function
    def two(iterator):
        return next(iterator) * 10 + iterator.get_next()

    assert [int(two(iterator)), int(two(iterator)), int(next(iterator))] == [1, 23, 4]
    other = iter(tk.data.Dataset.range(7, 20))
    assert int(two(other)) == 78


def test_a_loop_takes_an_element_in_each_round():
    iterator = iter(tk.data.Dataset.range(5, 20))

    @tk.function
    def total(n):
        result = tk.constant(0, tk.int64)
        for _ in tk.range(n):
            result += next(iterator)
        return result

    assert int(total(tk.constant(3))) == 18
    assert int(next(iterator)) == 8
    assert int(total(tk.constant(2))) == 19


def test_a_compiled_step_trains_on_each_batch():
    seen = tk.Variable(0.0)
    data = {"a": [1.0, 2.0, 3.0], "b": ["x", "y", "z"]}
    iterator = iter(tk.data.Dataset.from_tensor_slices(data).batch(2))

    @tk.function
    def step():
        batch = next(iterator)
        seen.assign_add(tk.reduce_sum(batch["a"]))
        return batch

    np.testing.assert_array_equal(step()["b"], [b"x", b"y"])
    np.testing.assert_array_equal(step()["a"], [3.0])
    assert float(seen) == 6.0
    with pytest.raises(tk.errors.OutOfRangeError, match="no further element"):
        step()
    assert float(seen) == 6.0


def test_an_iterator_made_in_a_function_serves_its_trace():
    @tk.function
    def total():
        result = tk.constant(0, tk.int64)
        for x in tk.data.Dataset.range(3):
            result += x
        return result

    assert [int(total()), int(total())] == [3, 3]


def test_elements_have_the_shapes_of_the_spec():
    iterator = iter(tk.data.Dataset.range(5).batch(2))
    shapes = []

    @tk.function
    def take():
        x = next(iterator)
        shapes.append(tuple(x.shape))
        return tk.shape(x)[0]

    assert [int(take()), int(take()), int(take())] == [2, 2, 1]
    assert shapes == [(None,)]


def test_a_pass_that_is_stored_goes_on_in_the_function(tmp_path):
    iterator = iter(tk.data.Dataset.range(9))
    take = tk.function(lambda: next(iterator))
    take()
    path = tk.train.Checkpoint(iterator=iterator).write(str(tmp_path / "c"))
    assert [int(take()), int(take())] == [1, 2]
    tk.train.Checkpoint(iterator=iterator).read(path)
    assert int(take()) == 1


def test_elements_that_are_no_tensors_are_refused():
    iterator = iter(tk.data.Dataset.range(4).window(2))
    with pytest.raises(tk.errors.UnimplementedError, match="take elements outside"):
        tk.function(lambda: next(iterator))()


def test_a_distributed_iterator_gives_each_run_a_batch():
    strategy = tk.distribute.get_strategy()
    data = strategy.experimental_distribute_dataset(tk.data.Dataset.range(4).batch(2))
    iterator = iter(data)

    @tk.function
    def step(iterator):
        return strategy.run(lambda x: tk.reduce_sum(x), args=(next(iterator),))

    assert [int(step(iterator)), int(step(iterator))] == [1, 5]
    with pytest.raises(tk.errors.OutOfRangeError):
        iterator.get_next()


def test_a_worker_takes_a_batch_at_each_run():
    strategy = tk.distribute.MultiWorkerMirroredStrategy()
    iterator = iter(strategy.experimental_distribute_dataset(tk.data.Dataset.range(4).batch(2)))
    step = tk.function(lambda: tk.reduce_sum(next(iterator)))
    assert [int(step()), int(step())] == [1, 5]


def test_a_loop_without_an_end_comes_to_the_end_of_the_data():
    outside = iter(tk.data.Dataset.range(3))

    @tk.function
    def taken_outside():
        while tk.constant(True):
            next(outside)

    @tk.function
    def taken_inside(dataset):
        iterator = iter(dataset)
        while tk.constant(True):
            next(iterator)

    with pytest.raises(tk.errors.OutOfRangeError, match="no further element"):
        taken_outside()
    for _ in range(2):
        with pytest.raises(tk.errors.OutOfRangeError, match="no further element"):
            taken_inside(tk.data.Dataset.range(3))


def test_an_iterator_of_a_function_begins_anew_at_each_run():
    @tk.function
    def first_two(dataset):
        iterator = iter(dataset)
        return next(iterator) * 10 + iterator.get_next()

    shuffled = tk.data.Dataset.range(50).shuffle(50, seed=1)
    assert len({int(first_two(shuffled)) for _ in range(4)}) == 4
    assert [int(first_two(tk.data.Dataset.range(5, 9))) for _ in range(2)] == [56, 56]


def test_assignments_in_a_map_happen_when_the_function_runs():
    total = tk.Variable(0, dtype=tk.int64)

    def counted(n):
        return total.assign_add(n)

    @tk.function
    def with_next():
        iterator = iter(tk.data.Dataset.range(1, 9).map(counted))
        next(iterator)
        return next(iterator)

    @tk.function
    def without_use():
        for _ in tk.data.Dataset.range(5).map(counted):
            pass

    assert [int(with_next()), int(total), int(with_next()), int(total)] == [3, 3, 6, 6]
    total.assign(0)
    without_use()
    without_use()
    assert int(total) == 20


def test_reductions_go_through_the_elements_at_each_run():
    total = tk.Variable(0, dtype=tk.int64)
    shuffled = tk.data.Dataset.range(50).shuffle(50, seed=1).take(1)

    @tk.function
    def counted(begin):
        def keep(state, n):
            if n > 1:
                state = {"sum": state["sum"] + n, "rounds": state["rounds"] + 1}
            return state

        data = tk.data.Dataset.range(4).map(lambda n: total.assign_add(n))
        return data.reduce({"sum": begin, "rounds": 0}, keep)

    @tk.function
    def drawn():
        return shuffled.reduce(tk.constant(0, tk.int64), lambda _, n: n)

    @tk.function
    def single(count):
        return tk.data.Dataset.range(3).take(count).get_single_element()

    for expected in ({"sum": 9, "rounds": 2}, {"sum": 34, "rounds": 4}):  # 0 1 3 6, 6 7 9 12
        found = counted(tk.constant(0, tk.int64))
        assert {name: int(x) for name, x in found.items()} == expected
    assert int(total) == 12
    assert len({int(drawn()) for _ in range(4)}) > 1
    assert int(single(1)) == 0
    for count in (0, 2):
        with pytest.raises(tk.errors.InvalidArgumentError, match="no element, or more than one"):
            single(count)


def test_builtins_over_data_sets_run_with_the_function():
    data = tk.data.Dataset.range(20).shuffle(20, seed=2)

    @tk.function
    def numbered():
        result = tk.constant(0, tk.int64)
        for i, x in enumerate(data, 1):
            result += i * x
        return result

    @tk.function
    def chained():
        result = tk.constant(0, tk.int64)
        for x, y in zip(map(lambda v: v * 2, data), filter(lambda v: v < 30, data)):  # noqa: B905
            result += x * y
        return result

    assert len({int(numbered()) for _ in range(3)}) == 3
    assert len({int(chained()) for _ in range(3)}) == 3
