"""A mapped function on whole batches gives, to the bit, what it gives on elements."""

import functools
import itertools

import numpy as np
import pytest

from trainkit import ops
from trainkit.data import Dataset
from trainkit.data.purity import is_pure

SCALE = np.float32(1 / 255)
COUNTED = []


def images(rng):
    x = rng.integers(0, 255, (50, 6, 4)).astype("uint8")
    return x, rng.standard_normal((50, 3)).astype("float32"), np.arange(50)


TABLE = np.random.default_rng(7).standard_normal((7, 2)).astype("float32")


def viewed(x):
    """Uses a view after its source has been used for the last time."""
    part = ops.reshape(x, (-1,))
    return ops.exp(-x * 0.01), part + 1.0


VECTORIZED = {
    "scaled": lambda a, b, n: (ops.cast(a, "float32") / 255.0, b, n),
    "scaled by a constant": lambda a, b, n: ops.cast(a, "float32") * SCALE,
    "integers divided": lambda a, b, n: a / 255,
    "expanded": lambda a, b, n: (ops.expand_dims(a, -1), ops.expand_dims(n, 0)),
    "reshaped": lambda a, b, n: ops.reshape(a, (-1,)),
    "transposed": lambda a, b, n: ops.transpose(a),
    "mixed ranks": lambda a, b, n: ops.cast(a, "float32") + ops.cast(n, "float32"),
    "broadcast rows": lambda a, b, n: b * ops.cast(n, "float32") + np.ones((2, 3), "float32"),
    "dict": lambda a, b, n: {"n": n, "b": -b},
    "one hot": lambda a, b, n: ops.one_hot(n % 7, 7),
    "stacked": lambda a, b, n: ops.stack([b, b * 2.0], axis=1),
    "joined": lambda a, b, n: ops.concatenate([b, b], axis=-1),
    "flipped": lambda a, b, n: ops.flip(a, axis=1),
    "a constant beside": lambda a, b, n: (b, ops.cast(n, "float32") * 0.0, np.float32(3.0)),
    "a new axis": lambda a, b, n: a[..., None],
    "cropped": lambda a, b, n: a[1:5, -3:][None, ::2],
    "one row": lambda a, b, n: a[2],
    "by the greatest": lambda a, b, n: b / ops.max(b),
    "extremes of rows": lambda a, b, n: (ops.max(a, axis=0), ops.min(b, axis=-1, keepdims=True)),
    "positions": lambda a, b, n: (ops.argmax(b, axis=0), ops.argmin(a, axis=-1)),
    "any and all": lambda a, b, n: (ops.any(a > 250), ops.all(b > 0.0, axis=0)),
    "standardized": lambda a, b, n: (
        (ops.cast(a, "float32") - ops.mean(ops.cast(a, "float32")))
        / ops.std(ops.cast(a, "float32"))
    ),
    "sums of rows": lambda a, b, n: (ops.sum(b), ops.sum(a, axis=-1), ops.mean(a, axis=(0, 1))),
    "from a table": lambda a, b, n: ops.take(TABLE, n % 7, axis=0),
    "picked": lambda a, b, n: ops.take(a, [3, 0, 0], axis=1),
    "tiled": lambda a, b, n: ops.tile(a, (2, 1)),
    "tiled at the end": lambda a, b, n: ops.tile(a, 3),
    "a view and its source": lambda a, b, n: viewed(ops.cast(a, "float32")),
    "chosen": lambda a, b, n: ops.where(b > 0.0, b, ops.exp(b)),
    "position in all": lambda a, b, n: ops.argmax(a),
    "tiled into more axes": lambda a, b, n: ops.tile(b, (2, 1)),
    "columns of a table": lambda a, b, n: ops.take(TABLE, n % 2, axis=1),
    "picked by itself": lambda a, b, n: ops.take(b, n % 3, axis=0),
    "picked by tensors": lambda a, b, n: b[n % 3],
    "rolled": lambda a, b, n: ops.roll(a, 2, axis=-1),
    "sorted": lambda a, b, n: (ops.sort(b), ops.argsort(a, axis=0)),
    "split": lambda a, b, n: tuple(ops.split(a, 2, axis=0)),
    "the best": lambda a, b, n: ops.top_k(b, 2)[0],
}
ONE_BY_ONE = {
    "summed over the first axis": lambda a, b, n: ops.sum(b[:, None] * b, axis=0),
    "products": lambda a, b, n: ops.matmul(b, b),
    "numpy": lambda a, b, n: np.sort(b.numpy()),
    "branches": lambda a, b, n: b if int(n) % 2 else -b,
}


def batches(rng, function, batch=8):
    dataset = Dataset.from_tensor_slices(images(rng)).map(function).shuffle(20, seed=4).batch(batch)
    return dataset, [leaves(b) for b in dataset]


def leaves(element):
    if isinstance(element, dict):
        return [element[k].numpy() for k in sorted(element)]
    return [x.numpy() for x in (element if isinstance(element, tuple) else (element,))]


def elements(rng, function):
    """The same by calls on elements, in the same order."""
    order = Dataset.range(50).shuffle(20, seed=4)
    singles = list(Dataset.from_tensor_slices(images(rng)).map(function))
    return [leaves(singles[int(i)]) for i in order]


@pytest.mark.parametrize("name", [*VECTORIZED, *ONE_BY_ONE])
def test_batches_equal_stacked_elements(name):
    function = {**VECTORIZED, **ONE_BY_ONE}[name]
    dataset, found = batches(np.random.default_rng(0), function)
    expected = elements(np.random.default_rng(0), function)
    for k, batch in enumerate(found):
        for i, column in enumerate(batch):
            want = np.stack([e[i] for e in expected[8 * k : 8 * k + 8]])
            assert column.dtype == want.dtype
            assert column.tobytes() == want.tobytes()
    program = dataset.node.source.source.batch_call().program
    assert (program is not None) == (name in VECTORIZED)


def test_a_batch_that_disagrees_with_its_elements_is_not_used():
    # Sums of the first axis only: a stack of elements has another first axis.
    def total(a, b, n):
        return b.numpy().sum(axis=0)

    _, found = batches(np.random.default_rng(0), total)
    assert all(batch[0].shape == (len(batch[0]),) for batch in found)


def test_a_function_with_memory_is_called_once_per_element_in_order():
    counter = itertools.count()

    def number(a, b, n):
        return next(counter), n

    _, found = batches(np.random.default_rng(0), number)
    pairs = sorted((int(n), int(i)) for batch in found for i, n in zip(*batch, strict=True))
    assert pairs == [(n, n) for n in range(50)]


def test_random_functions_draw_for_each_element():
    generator = np.random.default_rng(1)
    expected = np.random.default_rng(1).random(6).astype("float32")
    dataset = Dataset.range(6).map(lambda n: generator.random()).batch(3)
    np.testing.assert_array_equal(np.concatenate([b.numpy() for b in dataset]), expected)


def module_level(n):
    return n * 2


@pytest.mark.parametrize(
    ("function", "pure"),
    [
        (lambda n: ops.cast(n, "float32") / 255, True),
        (lambda n: n * SCALE, True),
        (lambda n: module_level(n) + 1, True),
        (functools.partial(ops.expand_dims, axis=0), True),
        (ops.relu if hasattr(ops, "relu") else ops.exp, True),
        (lambda n: np.random.rand() * n, False),
        (lambda n: COUNTED.append(n), False),
        (lambda n: print(n), False),
        (lambda n: open(n), False),
        (print, False),
        (COUNTED.append, False),
    ],
)
def test_purity_is_read_from_code(function, pure):
    assert is_pure(function) == pure


def test_a_function_that_calls_itself_is_judged():
    def down(n):
        return n if n is None else down(None)

    assert is_pure(down)


def test_map_after_shuffle_and_batch_is_vectorized_as_well():
    x = np.arange(40, dtype="float32")
    dataset = Dataset.from_tensor_slices(x).shuffle(10, seed=1).map(lambda v: v / 3.0).batch(7)
    plain = [float(v) for v in Dataset.from_tensor_slices(x).shuffle(10, seed=1)]
    found = np.concatenate([b.numpy() for b in dataset])
    np.testing.assert_array_equal(found, np.array(plain, "float32") / np.float32(3))
