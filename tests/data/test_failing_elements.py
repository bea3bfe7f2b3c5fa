"""An element that can't be made: its error comes in its place, and the pass goes on behind it.

The expected lists are those of TensorFlow 2.21, with "E" for an error.
"""

import numpy as np
import pytest

import trainkit as tk

Dataset = tk.data.Dataset


def checked(n):
    """4 / (n mod 4), which fails for each fourth number."""
    return tk.debugging.check_numerics(4.0 / tk.cast(n % 4, tk.float32), "not finite")


def numbers(n=10):
    return Dataset.range(n).map(checked)


def walk(dataset, limit=40):
    iterator, elements = iter(dataset), []
    for _ in range(limit):
        try:
            element = next(iterator)
        except StopIteration:
            return elements
        except tk.errors.InvalidArgumentError:
            elements.append("E")
        else:
            elements.append(np.round(element.numpy().astype(float), 2).tolist())
    raise AssertionError(f"no end after {elements}")


def failing():
    yield 1
    yield 2
    raise tk.errors.InvalidArgumentError("the file is damaged")


THREE = [4.0, 2.0, 1.33]
TEN = ["E", *THREE, "E", *THREE, "E", 4.0]
GOOD = [*THREE, *THREE, 4.0]
TENS = Dataset.range(6).map(lambda n: 10.0 * tk.cast(n, tk.float32))

CASES = {
    "map": (lambda: numbers(), TEN),
    "prefetch": (lambda: numbers().prefetch(2), TEN),
    "prefetch, left out": (lambda: numbers().prefetch(2).ignore_errors(), GOOD),
    "prefetch of many": (lambda: numbers().prefetch(50).ignore_errors(), GOOD),
    "threads": (lambda: Dataset.range(10).map(checked, num_parallel_calls=2).ignore_errors(), GOOD),
    "batch of a map": (lambda: numbers().batch(3), ["E", "E", "E", [4.0]]),
    "batch behind a step": (
        lambda: numbers().prefetch(1).batch(3),
        ["E", THREE, "E", THREE, "E", [4.0]],
    ),
    "repeat": (lambda: numbers(6).repeat(2).ignore_errors(), [*THREE, 4.0] * 2),
    "cache": (lambda: numbers().cache(), TEN),
    "cache, twice": (lambda: numbers(6).cache().ignore_errors().repeat(2), [*THREE, 4.0] * 2),
    "cache, blocks": (
        lambda: numbers(6).cache().batch(2).ignore_errors().repeat(2),
        [[4.0, 2.0], [4.0], [4.0, 2.0], [1.33, 4.0]],
    ),
    "shuffle": (lambda: numbers().shuffle(1), TEN),
    "shuffle of a cache": (lambda: numbers().cache().shuffle(1), TEN),
    "shuffle in batches": (
        lambda: numbers().cache().shuffle(1).batch(3).ignore_errors(),
        [THREE, THREE, [4.0]],
    ),
    "zip": (
        lambda: Dataset.zip((numbers(6), TENS)).map(lambda a, b: a + b),
        ["E", 14.0, 22.0, 31.33, "E", 54.0],
    ),
    "enumerate": (
        lambda: numbers(6).enumerate().map(lambda i, x: x + 10 * tk.cast(i, tk.float32)),
        ["E", 14.0, 22.0, 31.33, "E", 54.0],
    ),
    "window": (
        lambda: numbers(8).window(3, shift=1).flat_map(lambda w: w.batch(3)),
        ["E", THREE, "E", "E", "E", THREE, THREE[1:], THREE[2:]],
    ),
    "padded": (lambda: numbers(8).padded_batch(3), ["E", THREE, "E", THREE]),
    "generator": (
        lambda: Dataset.from_generator(failing, output_signature=tk.TensorSpec((), tk.int64)),
        [1, 2, "E"],
    ),
    "generator ahead": (
        lambda: Dataset.from_generator(
            failing, output_signature=tk.TensorSpec((), tk.int64)
        ).prefetch(4),
        [1, 2, "E"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_pass_goes_on_behind_an_element_that_fails(name):
    make, expected = CASES[name]
    assert walk(make()) == expected


def test_a_generator_that_can_not_be_made_fails_once():
    def broken():
        raise tk.errors.InvalidArgumentError("no such file")

    dataset = Dataset.from_generator(broken, output_signature=tk.TensorSpec((), tk.int64))
    assert walk(dataset) == ["E"]
    assert walk(dataset.ignore_errors()) == []


@pytest.mark.parametrize("name", ["cache, blocks", "prefetch, left out", "zip"])
def test_a_pass_over_failing_elements_is_taken_up_again(name, tmp_path):
    dataset = CASES[name][0]()
    iterator, elements = iter(dataset), []
    for taken in range(3):
        try:
            next(iterator)
        except tk.errors.InvalidArgumentError:
            pass
        path = tk.train.Checkpoint(iterator=iterator).write(str(tmp_path / f"c{taken}"))
    later = iter(dataset)
    tk.train.Checkpoint(iterator=later).read(path)
    for each in (iterator, later):
        elements.append([])
        while len(elements[-1]) < 40:
            try:
                elements[-1].append(np.round(next(each).numpy(), 2).tolist())
            except StopIteration:
                break
            except tk.errors.InvalidArgumentError:
                elements[-1].append("E")
    assert elements[0] == elements[1]
