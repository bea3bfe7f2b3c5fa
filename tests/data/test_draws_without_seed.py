"""Draws without a seed in functions of a data set follow from `set_seed`, not from threads."""

import numpy as np
import pytest

import trainkit as tk

Dataset = tk.data.Dataset


def plain(x):
    return {"u": tk.random.uniform((2,)), "n": (tk.keras.random.normal(()), tk.random.uniform(()))}


def image(x):
    return tk.image.random_flip_left_right(tk.random.uniform((2, 4, 1))), x


def decorated():
    @tk.function
    def draw(x):
        return tk.random.uniform((2,)) + tk.cast(x, "float32") * 0

    return draw


def mapped(function):
    return lambda n: Dataset.range(6).map(function, num_parallel_calls=n)


PIPELINES = {
    "plain": mapped(plain),
    "image": mapped(image),
    "compiled": mapped(decorated()),
    "twice": lambda n: mapped(plain)(n).map(
        lambda d: (d["u"], tk.random.uniform(())), num_parallel_calls=n
    ),
    "interleave": lambda n: Dataset.range(3).interleave(
        lambda i: Dataset.range(2).map(plain, num_parallel_calls=n),
        cycle_length=2,
        num_parallel_calls=n,
    ),
    "flat_map": lambda n: Dataset.range(3).flat_map(
        lambda i: Dataset.range(2).map(plain, num_parallel_calls=n)
    ),
    "repeat": lambda n: mapped(plain)(n).repeat(2).prefetch(2),
    "filter": lambda n: (
        Dataset.range(8)
        .filter(lambda x: tk.random.uniform(()) < 0.7)
        .map(plain, num_parallel_calls=n)
    ),
}


def rows(elements):
    return [np.concatenate([np.ravel(leaf) for leaf in tk.nest.flatten(e)]) for e in elements]


@pytest.mark.parametrize("name", PIPELINES)
def test_numbers_are_those_of_any_number_of_threads(name):
    passes = []
    for threads in (None, 1, 3):
        dataset = PIPELINES[name](threads)
        tk.random.set_seed(1)
        passes.append([rows(dataset), rows(dataset)])
    for others in passes[1:]:
        for first, second in zip(passes[0], others, strict=True):
            np.testing.assert_array_equal(first, second)
    first = passes[0][0]
    draws = [tuple(row[:2]) for row in first + passes[0][1]]
    assert len(set(draws)) == len(draws)  # from element to element, and from pass to pass


@pytest.mark.parametrize("name", ["plain", "compiled", "interleave", "repeat"])
@pytest.mark.parametrize("threads", [None, 3])
def test_a_pass_goes_on_after_a_restore(tmp_path, name, threads):
    tk.random.set_seed(4)
    iterator = iter(PIPELINES[name](threads))
    state = tk.random.get_global_generator()
    for _ in range(2):
        next(iterator)
    path = tk.train.Checkpoint(iterator=iterator, state=state).save(str(tmp_path / "c"))
    rest = rows(iterator)
    tk.random.set_seed(9)
    again = iter(PIPELINES[name](threads))
    rows([next(again)])
    tk.train.Checkpoint(iterator=again, state=state).restore(path)
    np.testing.assert_array_equal(rest, rows(again))


def test_data_sets_that_draw_nothing_leave_the_generator_alone():
    tk.random.set_seed(1)
    expected = tk.random.uniform((3,)).numpy()
    tk.random.set_seed(1)
    list(Dataset.range(4).map(lambda x: tk.random.uniform((), seed=3), num_parallel_calls=2))
    np.testing.assert_array_equal(tk.random.uniform((3,)), expected)


def test_two_passes_at_a_time_have_different_numbers():
    dataset = mapped(plain)(2)
    first, second = rows(dataset), rows(dataset)
    for a, b in zip(*map(rows, ([*iter(dataset)], [*iter(dataset)])), strict=True):
        assert (a != b).all()
    assert not np.array_equal(first, second)


def test_a_function_compiled_in_a_map_draws_from_the_process_elsewhere():
    draw = decorated()
    list(Dataset.range(2).map(draw))
    tk.random.set_seed(2)
    numbers = [draw(tk.constant(0, "int64")).numpy() for _ in range(2)]
    assert (numbers[0] != numbers[1]).all()
    tk.random.set_seed(2)
    np.testing.assert_array_equal(numbers[0], draw(tk.constant(0, "int64")))
