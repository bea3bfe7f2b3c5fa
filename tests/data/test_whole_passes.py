"""Caches that are whole, passes that are empty, and draws that begin anew with each pass."""

import os

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
