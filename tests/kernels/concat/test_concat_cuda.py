"""Arrays joined on a GPU: values by the CPU's, one launch, and in CUDA graphs."""

import numpy as np
import pytest

import trainkit as tk
from tests import stand_in
from tests.stand_in.kernels import has_compiler
from trainkit.kernels.concat import concat_cuda
from trainkit.kernels.cuda import pointer_table

pytestmark = pytest.mark.skipif(not has_compiler(), reason="no g++ for this machine is here")
DRAWN = np.random.default_rng(0)
COUNTS = [1, 2, 3, 9, pointer_table.MOST + 2]


@pytest.fixture(autouse=True)
def _gpu(any_gpu):
    """Each test runs on the stand-in, and on a GPU where there is one."""


@pytest.fixture
def launches(inside, monkeypatch):
    """How many blocks each launch has."""
    import cupy

    found = []
    call = cupy.RawKernel.__call__
    monkeypatch.setattr(
        cupy.RawKernel,
        "__call__",
        lambda self, *a, **k: (found.append(a[0][0]), call(self, *a, **k))[1],
    )
    return found


def drawn(*shape, dtype="float32"):
    return (DRAWN.normal(size=shape) * 100).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int8", "bool"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("count", COUNTS)
def test_concatenation_and_stack_of_any_number(count, axis, dtype):
    dtype = tk.as_dtype(dtype).as_numpy_dtype
    parts = [drawn(3, 4, 5, dtype=dtype) for _ in range(count)]
    for mine, theirs in ((tk.concat, np.concatenate), (tk.stack, np.stack)):
        y = mine([tk.constant(p) for p in parts], axis)
        assert (y.dtype.as_numpy_dtype, y.device[-5:]) == (dtype, "GPU:0")
        np.testing.assert_array_equal(y.numpy(), theirs(parts, axis))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_parts_of_other_sizes_some_empty(axis):
    sizes = [3, 0, 1, 7, 2, 0, 5, 1, 1, 4]
    parts = [drawn(*(n if i == axis else 3 for i in range(3))) for n in sizes]
    y = tk.concat([tk.constant(p) for p in parts], axis)
    np.testing.assert_array_equal(y.numpy(), np.concatenate(parts, axis))


def test_nothing_at_all():
    assert tk.concat([tk.zeros([0, 3]), tk.zeros([0, 3])], 0).shape == [0, 3]
    assert tk.stack([tk.zeros([0])] * 10).shape == [10, 0]


def test_scalars_views_and_turned_arrays():
    x = drawn(4, 6)
    parts = [x[0, 0], x[1, 2], x[3, 5]]
    np.testing.assert_array_equal(tk.stack([tk.constant(p) for p in parts]).numpy(), parts)
    t = tk.constant(x)
    views = [tk.transpose(t), tk.transpose(t)[:, :3], tk.transpose(t[1:])]
    expected = np.concatenate([x.T, x.T[:, :3], x[1:].T], 1)
    np.testing.assert_array_equal(tk.concat(views, 1).numpy(), expected)
    odd = tk.reshape(t, [-1])[1:]  # which begins where wide words do not
    np.testing.assert_array_equal(tk.concat([odd, odd], 0).numpy(), [*x.ravel()[1:]] * 2)


def test_large_parts_take_more_than_one_block(launches):
    parts = [drawn(64, 8 * pointer_table.PIECE // 64), drawn(64, 8)]
    y = tk.concat([tk.constant(p) for p in parts], 1)
    np.testing.assert_array_equal(y.numpy(), np.concatenate(parts, 1))
    assert launches == [3]  # of words of 16 bytes


def test_one_launch_for_many_and_nothing_is_sent(launches):
    parts = [tk.constant(drawn(3)) for _ in range(pointer_table.MOST)]
    with stand_in.in_place() as ledger:
        tk.stack(parts)
    assert len(launches) == 1
    assert ledger.to_device == []


@pytest.mark.parametrize("count", [3, 9, 40])
def test_joins_are_captured(count):
    def f(x):
        parts = [x * float(k) for k in range(count)]
        return tk.stack(parts, 1), tk.concat(parts, 0)

    function = tk.function(f)
    for k in range(7):
        x = tk.constant(np.full(4, k, "float32"))
        for a, b in zip(function(x), f(x), strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert "4 replays of 1 CUDA graph" in function.explain()


def test_gradients_of_many_parts():
    parts = [tk.constant(drawn(2, 3)) for _ in range(12)]
    with tk.GradientTape() as tape:
        tape.watch(parts)
        loss = tk.reduce_sum(tk.concat(parts, 1) ** 2) + tk.reduce_sum(tk.stack(parts))
    for x, g in zip(parts, tape.gradient(loss, parts), strict=True):
        np.testing.assert_allclose(g.numpy(), 2 * x.numpy() + 1, rtol=1e-6)


def test_without_a_compiler_each_is_copied(inside, monkeypatch):
    monkeypatch.setattr(concat_cuda.RawKernel, "is_there", lambda self, xp: False)
    parts = [drawn(2, 3) for _ in range(10)]
    here = [tk.constant(p) for p in parts]
    np.testing.assert_array_equal(tk.concat(here, -1).numpy(), np.concatenate(parts, -1))
    np.testing.assert_array_equal(tk.stack(here, 1).numpy(), np.stack(parts, 1))


@pytest.mark.parametrize("axis", [5, -5])
@pytest.mark.parametrize("join", [tk.concat, tk.stack])
def test_an_axis_out_of_range_is_refused(join, axis):
    with pytest.raises((tk.errors.InvalidArgumentError, ValueError), match="axis"):
        join([tk.ones((2, 2))] * 3, axis)
