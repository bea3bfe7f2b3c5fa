"""Caches that are whole, passes that are empty, and draws that begin anew with each pass."""

import os
import threading

import numpy as np
import pytest

import trainkit as tk

Dataset = tk.data.Dataset


def listed(dataset):
    return [
        tuple(int(v) for v in x) if isinstance(x, tuple) else x.numpy().tolist() for x in dataset
    ]


def walked(n):
    return Dataset.from_generator(lambda: iter(range(n)), output_types=tk.int64)


@pytest.mark.parametrize("in_file", [False, True])
@pytest.mark.parametrize("source", [Dataset.range, walked])
@pytest.mark.parametrize("first", [False, True])
def test_a_cache_is_whole_when_zip_has_read_all_of_it(in_file, source, first, tmp_path):
    cached = source(8).shuffle(8, seed=3).cache(str(tmp_path / "cache") if in_file else "")
    pair = (cached, Dataset.range(8)) if first else (Dataset.range(8), cached)
    zipped = Dataset.zip(pair)
    assert listed(zipped) == listed(zipped)
    assert os.path.exists(tmp_path / "cache.index") == in_file


@pytest.mark.parametrize("in_file", [False, True])
def test_a_cache_is_whole_when_its_last_element_was_read(in_file, tmp_path):
    cached = Dataset.range(8).shuffle(8, seed=3).cache(str(tmp_path / "cache") if in_file else "")
    assert listed(cached.take(8)) == listed(cached.take(8)) == listed(cached)
    blocks = Dataset.range(8).shuffle(8, seed=3).cache()
    assert listed(blocks.batch(4).take(2)) == listed(blocks.batch(4))


def test_elements_and_blocks_of_one_pass_are_kept_together():
    cached = Dataset.range(8).shuffle(8, seed=3).cache()
    iterator = cached.skip(1).batch(3)
    assert listed(iterator) == listed(iterator)


def test_repeat_goes_on_behind_an_empty_pass():
    def counted(empty):
        state = {"passes": 0}

        def source():
            state["passes"] += 1
            if state["passes"] not in empty:
                yield state["passes"]

        return Dataset.from_generator(source, output_types=tk.int64)

    assert listed(counted({2}).repeat(4)) == [1, 3, 4]
    assert listed(counted({1, 2}).repeat(4)) == [3, 4]
    # without an end, an empty pass is the last: TensorFlow would never come back
    assert listed(counted({1}).repeat()) == []
    assert listed(counted({3}).repeat()) == [1, 2]
    assert listed(Dataset.range(0).repeat(3).batch(2)) == []


DRAWS = {
    "uniform": lambda n: tk.random.uniform([], seed=11),
    "two": lambda n: tk.random.normal([], seed=11) - tk.random.uniform([], seed=11),
    "flip": lambda n: tk.image.random_flip_left_right(tk.reshape(tk.range(4), (1, 4, 1)), seed=5)[
        0, 0, 0
    ],
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_with_a_seed_begin_anew_with_each_pass(name):
    dataset = Dataset.range(12).map(DRAWS[name])
    first = listed(dataset)
    assert listed(dataset) == first
    assert listed(dataset.prefetch(3)) == first
    assert len(set(first)) > 1  # a pass is one sequence, not one number again and again
    twice = listed(dataset.repeat(2))
    assert twice[:12] == first
    assert twice[12:] != first  # the second half of one pass, as in TensorFlow


def doubled(draw):
    return lambda n: draw(n) + tk.random.uniform([], seed=11)


INNER = {
    "interleave": lambda d, f: d.interleave(lambda n: Dataset.range(3).map(f), cycle_length=2),
    "flat_map": lambda d, f: d.flat_map(lambda n: Dataset.range(3).map(f)),
    "group": lambda d, f: d.group_by_window(lambda n: n % 2, lambda k, w: w.map(f), window_size=3),
    "map": lambda d, f: d.map(f),
    "two": lambda d, f: d.map(f).map(doubled(f)),
    "repeat": lambda d, f: d.map(f).repeat(2),
}


@pytest.mark.parametrize("name", INNER)
def test_draws_are_those_of_the_element_in_any_thread_and_after_a_restore(name, tmp_path):
    tk.random.set_seed(3)
    waits = [threading.Event() for _ in range(12)]

    def backwards(n):  # in fours, the last one first
        number = int(n)
        if number % 4 < 3 and not waits[number + 1].wait(10):
            raise RuntimeError("no four calls at a time")
        waits[number].set()
        return draw(n)

    draw = DRAWS["two"]
    dataset, make = Dataset.range(12), INNER[name]
    first = listed(make(dataset, draw))
    assert len(set(first)) == len(first)
    assert listed(make(dataset, draw).prefetch(2)) == first
    assert listed(make(dataset, tk.function(draw))) == first
    if name in ("map", "repeat"):
        assert listed(dataset.map(backwards, num_parallel_calls=4)) == first[:12]
        assert listed(dataset.map(tk.function(draw), num_parallel_calls=4)) == first[:12]
    for pipeline in (make(dataset, draw), make(dataset, draw).prefetch(3)):
        iterator = iter(pipeline)
        for _ in range(5):
            next(iterator)
        path = tk.train.Checkpoint(iterator=iterator).save(str(tmp_path / "at"))
        again = iter(pipeline)
        tk.train.Checkpoint(iterator=again).restore(path)
        assert [float(x) for x in again] == first[5:]


def test_a_parallel_map_that_is_taken_up_draws_on(tmp_path):
    dataset = Dataset.range(12).map(DRAWS["uniform"], num_parallel_calls=3)
    first, iterator = listed(dataset), iter(dataset)
    assert [float(next(iterator)) for _ in range(5)] == first[:5]
    path = tk.train.Checkpoint(iterator=iterator).save(str(tmp_path / "at"))
    again = iter(dataset)
    tk.train.Checkpoint(iterator=again).restore(path)
    assert [float(x) for x in again] == first[5:]


def test_threads_do_not_draw_from_one_state():
    generator, seen = tk.random.Generator.from_seed(1), []
    others = [threading.Thread(target=lambda: generator.draw(note, ()))]

    def note(state, *sizes, shape):
        seen.append(int(state[0]))
        if others:
            other = others.pop()
            other.start()
            other.join(0.05)  # it waits for its turn
            started.append(other)
        return state[0], tk.constant([int(state[0]) + 1, 0, 1], "uint64")

    started = []
    generator.draw(note, ())
    started[0].join()
    assert seen == [0, 1]


def test_draws_of_passes_leave_those_outside_alone():
    tk.random.set_seed(5)
    alone = [float(tk.random.uniform([], seed=11)) for _ in range(4)]
    tk.random.set_seed(5)
    dataset = Dataset.range(3).map(DRAWS["uniform"])
    mixed = []
    for _ in range(2):
        mixed += [float(tk.random.uniform([], seed=11)) for _ in range(2)]
        listed(dataset)
    assert mixed == alone


def test_set_seed_changes_the_draws_of_passes():
    dataset = Dataset.range(6).map(DRAWS["uniform"])
    passes = []
    for seed in (1, 2, 1):
        tk.random.set_seed(seed)
        passes.append(listed(dataset))
    assert passes[0] == passes[2] != passes[1]
    np.testing.assert_array_less(-1e-9, passes[0])
