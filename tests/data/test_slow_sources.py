"""What works ahead hands an element over when it exists, whatever the next one waits for."""

import threading

import pytest

import trainkit as tk

Dataset = tk.data.Dataset
LONG = 30  # seconds; a test that waits so long has failed

STEPS = {
    "prefetch(1)": lambda d: d.prefetch(1),
    "prefetch(14)": lambda d: d.prefetch(14),
    "prefetch(AUTOTUNE)": lambda d: d.prefetch(tk.data.AUTOTUNE),
    "map": lambda d: d.map(lambda n: tk.py_function(lambda v: v, [n], tk.int64), 4),
    "map, prefetch": lambda d: d.map(
        lambda n: tk.py_function(lambda v: v, [n], tk.int64), 4
    ).prefetch(8),
    "interleave": lambda d: d.interleave(lambda n: Dataset.from_tensors(n), 4, 1, 4),
    "batch": lambda d: d.batch(1, num_parallel_calls=4).unbatch().prefetch(8),
}


@pytest.mark.parametrize("name", STEPS)
def test_an_element_arrives_before_the_next_one_exists(name):
    arrived = [threading.Event() for _ in range(20)]

    def slow():
        for n in range(20):
            if n and not arrived[n - 1].wait(LONG):
                raise TimeoutError(f"element {n - 1} was held back")
            yield n

    source = Dataset.from_generator(slow, output_signature=tk.TensorSpec((), tk.int64))
    elements = []
    for x in STEPS[name](source):
        elements.append(int(x))
        arrived[elements[-1]].set()
    assert elements == list(range(20))


def test_no_more_elements_are_made_than_there_is_room_for():
    made, room = [], threading.Event()

    def source():
        for n in range(50):
            made.append(n)
            if n == 5:
                room.set()
            yield n

    dataset = Dataset.from_generator(source, output_signature=tk.TensorSpec((), tk.int64))
    iterator = iter(dataset.prefetch(4))
    taken = [int(next(iterator)), int(next(iterator))]
    assert room.wait(LONG)
    assert taken == [0, 1]
    assert len(made) <= 2 + 4
    assert [int(n) for n in iterator] == list(range(2, 50))


def test_an_iterator_that_is_left_ends_its_threads():
    before = threading.active_count()
    iterator = iter(Dataset.range(1000).prefetch(2))
    next(iterator)
    mapped = iter(Dataset.range(1000).map(lambda n: tk.py_function(int, [n], tk.int64), 2))
    next(mapped)
    iterator.close()
    mapped.close()
    assert threading.active_count() == before
