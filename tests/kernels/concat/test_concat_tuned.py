"""Arrays joined and taken apart by several threads against NumPy's own: the same numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trainkit as tk
from trainkit.kernels.concat import concat_tuned
from trainkit.kernels.threads.thread_pool import FEWEST_COPIED

LARGE = FEWEST_COPIED


@pytest.fixture(autouse=True)
def several_threads(eager, monkeypatch):
    """Processes with one core leave all of it to NumPy."""
    monkeypatch.setattr(concat_tuned, "thread_pool", lambda: True)


def arrays(rng, *dims):
    return [rng.normal(size=d).astype("float32") for d in dims]


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
def test_joined_arrays_are_numpys(rng, axis):
    dims = [[17, 20, 32], [17, 20, 32], [17, 20, 32]]
    for d, size in zip(dims, (16, 23, 41), strict=True):
        d[axis] = size
    xs = arrays(rng, *dims)
    y = concat_tuned.concatenate(*xs, axis=axis)
    np.testing.assert_array_equal(y, np.concatenate(xs, axis))
    assert y.flags.c_contiguous


@pytest.mark.parametrize("axis", [1, 2, -1, -2])
def test_pieces_are_arrays_of_their_own(rng, axis):
    (x,) = arrays(rng, (5, 70, 80))
    pieces = concat_tuned.pieces(x, [16, 40], axis)
    for piece, view in zip(pieces, np.split(x, [16, 40], axis), strict=True):
        np.testing.assert_array_equal(piece, view)
        assert piece.flags.c_contiguous
        assert not np.shares_memory(piece, x)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 9),
    st.lists(st.integers(16, 70), min_size=1, max_size=4),
    st.integers(1, 3),
    st.integers(0, 1 << 30),
)
def test_pieces_of_what_was_joined_are_what_was_joined(rows, lengths, inside, seed):
    xs = arrays(np.random.default_rng(seed), *[(rows, n, inside) for n in lengths])
    y = concat_tuned.concatenate(*xs, axis=1)
    np.testing.assert_array_equal(y, np.concatenate(xs, 1))
    pieces = concat_tuned.pieces(y, np.cumsum(lengths[:-1]).tolist(), 1)
    if pieces is None:
        assert rows == 1  # which is in order already
    for piece, x in zip(pieces or (), xs, strict=bool(pieces)):
        np.testing.assert_array_equal(piece, x)


def test_what_numpy_does_as_well_or_alone_is_left_to_it(rng, monkeypatch):
    x, y = arrays(rng, (8, 32, 64), (8, 32, 64))
    assert concat_tuned.concatenate(x, y.astype("float64"), axis=-1) is None
    assert concat_tuned.concatenate(x, y[:, ::2], axis=1) is None  # not in order
    assert concat_tuned.concatenate(x[..., :8].copy(), y, axis=-1) is None  # short rows
    assert concat_tuned.concatenate(x, y[:4].copy(), axis=-1) is None  # NumPy says what is wrong
    assert concat_tuned.concatenate(x, y, axis=3) is None
    assert concat_tuned.pieces(x, [4], 0) is None  # views are in order
    assert concat_tuned.pieces(x, [8], -1) is None
    assert concat_tuned.pieces(x, [40, 20], -1) is None
    assert concat_tuned.pieces(x, [-20], -1) is None
    assert concat_tuned.pieces(x.astype("float64"), [32], -1) is None
    assert concat_tuned.pieces(x.T, [16], 0) is None
    monkeypatch.setattr(concat_tuned, "thread_pool", lambda: None)
    assert concat_tuned.concatenate(x, y, axis=-1) is None
    assert concat_tuned.pieces(x, [32], -1) is None


@pytest.mark.usefixtures("on_cpu")
def test_operations_take_them_for_large_arrays_eagerly_and_compiled(rng, monkeypatch):
    copies, copy = [], concat_tuned._copy
    monkeypatch.setattr(
        concat_tuned, "_copy", lambda *arrays: (copies.append(arrays), copy(*arrays))
    )
    x, y = (tk.constant(a) for a in arrays(rng, (4, 32, 64, 32), (4, 32, 64, 48)))
    g = tk.constant(rng.normal(size=(4, 32, 64, 80)).astype("float32"))
    assert tk.size(x) >= LARGE

    def step(x, y, g):
        with tk.GradientTape() as tape:
            tape.watch([x, y])
            z = tk.concat([x, y], axis=-1)
            loss = tk.reduce_sum(z * g)
        return z, *tape.gradient(loss, [x, y])

    for run in (step, tk.function(step, jit_compile=True)):
        for _ in range(2):
            copies.clear()
            z, by_x, by_y = run(x, y, g)
            np.testing.assert_array_equal(z, np.concatenate([x, y], -1))
            np.testing.assert_array_equal(by_x, g.numpy()[..., :32])
            np.testing.assert_array_equal(by_y, g.numpy()[..., 32:])
            assert len(copies) == 4  # two that are joined, two that come back
