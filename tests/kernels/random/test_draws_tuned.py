"""Draws by one kernel have the bits of the plain versions, and leave their state."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.core.errors import ShapeError
from trainkit.core.tensor import PRIMITIVES
from trainkit.kernels.random import draws_tuned
from trainkit.ops.sampling import philox

STATES = [(0, 0, 5), (2**64 - 3, 7, 2**64 - 1), (2**64 - 1, 5, 1), (12345, 0, 999)]
SHAPES = [(), (1,), (0, 3), (7,), (10, 10), (3, 511), (515,), (80_001,)]
RANGES = [
    ("int32", 0, 10), ("int32", -(2**31), 2**31), ("int64", -(2**63), 2**63), ("uint64", 0, 2**64),
    ("uint64", 5, 2**63 + 9), ("uint8", 0, 256), ("int16", -5, 7), ("uint32", 0, 2**32),
]  # fmt: skip


def plain(name, words, shape, **settings):
    """What the body gives, whose own parts are plain where kernels are off."""
    return PRIMITIVES[name].body(np, words, shape=shape, **settings)


def assert_same(draws, expected):
    for a, b in zip(draws, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("state", STATES, ids=str)
def test_draws_have_the_bits_of_the_plain_versions(kernels, state, shape):
    words = np.array(state, np.uint64)
    words.flags.writeable = False
    pairs = [(1.0, 0.0), (0.1, -0.05), (-3.0, 2.0)]
    kernels("off")
    uniform = [
        plain("philox_uniform", words, shape, dtype="float32", scale=a, offset=b) for a, b in pairs
    ]
    normal = plain("philox_normal", words, shape, dtype="float32")
    integers = [
        plain("philox_integers", words, shape, dtype=dtype, low=low, high=high)
        for dtype, low, high in RANGES
    ]
    assert draws_tuned.uniform(words, shape, 1.0, 0.0) is None
    kernels("eager")
    for (scale, offset), expected in zip(pairs, uniform, strict=True):
        assert_same(draws_tuned.uniform(words, shape, scale, offset), expected)
    assert_same(draws_tuned.normal(words, shape), normal)
    for (dtype, low, high), expected in zip(RANGES, integers, strict=True):
        found = draws_tuned.integers(words, shape, low, high, np.dtype(dtype))
        assert_same(found, expected)


def test_the_same_bits_by_one_thread_and_by_several(eager, monkeypatch):
    words = np.array((2**64 - 9, 1, 2), np.uint64)

    def draws():
        yield from draws_tuned.uniform(words, (300_001,), 2.0, -1.0)
        yield from draws_tuned.normal(words, (300_001,))
        for dtype in map(np.dtype, ("int32", "int64")):
            yield from draws_tuned.integers(words, (300_001,), -9, 90, dtype)

    several = [a.tobytes() for a in draws()]
    monkeypatch.setattr(draws_tuned, "shared", lambda work: (0, 1))
    assert several == [a.tobytes() for a in draws()]


def test_a_state_that_lies_apart_is_left_to_the_plain_version(eager):
    words = np.arange(6, dtype=np.uint64)[::2]
    assert draws_tuned.uniform(words, (3,), 1.0, 0.0) is None
    assert draws_tuned.normal(words, (3,)) is None
    assert draws_tuned.integers(words, (3,), 0, 5, np.dtype("int32")) is None


@pytest.mark.parametrize(
    "draw",
    [
        lambda shape: tk.random.uniform(shape),
        lambda shape: tk.random.normal(shape),
        lambda shape: tk.random.uniform(shape, 0, 9, "int32"),
    ],
    ids=["uniform", "normal", "integers"],
)
def test_more_numbers_than_an_array_can_have_are_refused(mode, draw):
    before = tk.random.get_global_generator().state.numpy()
    with pytest.raises(ShapeError, match="more than any memory"):
        draw((1 << 40, 1 << 40))
    np.testing.assert_array_equal(tk.random.get_global_generator().state.numpy(), before)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_a_generator_goes_on_alike_with_and_without_kernels(kernels, dtype):
    def numbers():
        generator = tk.random.Generator.from_seed(3)
        draws = [
            generator.uniform((5, 3), -1.0, 2.0, dtype),
            generator.normal((3, 3), dtype=dtype),
            generator.uniform((7,), 0, 100, "int64"),
            tk.random.stateless_normal((4,), (1, 2), dtype=dtype),
            generator.state.value(),
        ]
        compiled = tk.function(lambda: [generator.uniform((9,)), generator.normal((2, 5))])
        return [np.asarray(x).tobytes() for x in (*draws, *compiled(), generator.state.value())]

    kernels("off")
    expected = numbers()
    kernels("eager")
    assert numbers() == expected


def test_parts_of_a_batch_are_cut_out_of_the_whole(eager):
    words = np.array((4, 0, 8), np.uint64)
    draw = philox.philox_uniform.primitive.kernel
    rows, _ = draw(np, words, shape=(2, 3), dtype="float32", rows=(1, 2, 5))
    whole, _ = draw(np, words, shape=(5, 3), dtype="float32")
    np.testing.assert_array_equal(rows, whole[1:3])
