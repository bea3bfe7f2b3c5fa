"""Attention in one operation: what it takes, and what it refuses."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops
from trainkit.core.errors import ShapeError
from trainkit.ops.neural.fused_attention import attend, attended_by_steps, is_served


@pytest.fixture
def qkv(rng):
    shapes = (2, 5, 4, 3), (2, 6, 2, 3), (2, 6, 2, 7)
    return [tk.constant(rng.normal(size=s).astype("float32")) for s in shapes]


@pytest.mark.parametrize("causal", [False, True])
def test_it_equals_the_same_steps_one_by_one(qkv, rng, causal):
    mask = rng.random((2, 1, 5, 6)) < 0.7
    for given in (None, tk.constant(mask)):
        found = attend(*qkv, given, scale=0.3, causal=causal)
        expected = attended_by_steps(*qkv, given, scale=0.3, causal=causal)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_floats_keep_their_dtype(qkv, dtype):
    found = attend(*(ops.cast(x, dtype) for x in qkv), scale=0.3)
    assert found.dtype.name == dtype
    wide = np.asarray(ops.cast(found, "float32"))
    np.testing.assert_allclose(wide, attend(*qkv, scale=0.3), atol=0.05)


def test_functions_and_eager_calls_agree(qkv):
    def step(q, k, v):
        with tk.GradientTape() as tape:
            tape.watch([q, k, v])
            y = attend(q, k, v, scale=0.4, causal=True)
        return y, *tape.gradient(y, [q, k, v])

    for a, b in zip(step(*qkv), tk.function(step)(*qkv), strict=True):
        np.testing.assert_array_equal(a, b)


def test_lengths_may_be_unknown_while_tracing(qkv):
    q, k, v = qkv
    spec = [tk.TensorSpec((None, None, *x.shape[2:])) for x in qkv]
    traced = tk.function(lambda q, k, v: attend(q, k, v, scale=0.4, causal=True), spec)
    np.testing.assert_array_equal(traced(q, k, v), attend(q, k, v, scale=0.4, causal=True))


def test_a_map_over_stacks_is_one_call(qkv):
    def one(items):
        return attend(*items, scale=0.4)

    stacks = tuple(ops.stack([x, x + 1]) for x in qkv)
    found = tk.vectorized_map(one, stacks)
    expected = [one([x[i] for x in stacks]) for i in range(2)]
    np.testing.assert_allclose(found, np.stack(expected), rtol=1e-5, atol=1e-6)


def test_shapes_that_do_not_fit_are_shown(qkv):
    q, k, v = qkv
    for wrong in ((q, k, v[:, :5]), (q, k[:1], v), (q[:, :, :3], k, v), (q[0], k, v)):
        with pytest.raises(ShapeError, match=r"query.*\n.*key.*\n.*value"):
            attend(*wrong, scale=1.0)


@pytest.mark.parametrize(
    "mask", [np.ones((2, 1, 5, 5), bool), np.ones((5, 6), bool), np.ones((2, 1, 5, 6), "float32")]
)
def test_a_mask_that_does_not_fit_is_shown(qkv, mask):
    with pytest.raises(ShapeError, match=r"mask.*\n.*scores"):
        attend(*qkv, tk.constant(mask), scale=1.0)


def test_what_is_left_to_single_operations(qkv, on_cpu):
    q, k, v = qkv = [x.cpu() for x in qkv]
    assert is_served(q, k, v)
    assert not is_served(q[:1], k, v)
    assert not is_served(ops.cast(q, "float16"), k, v)
    assert not is_served(*(ops.cast(x, "int32") for x in qkv))
