"""Softmax and its cross-entropy on a GPU: the values of their kernels against formulas."""

import ml_dtypes
import numpy as np
import pytest

import trainkit as tk
from tests.stand_in.kernels import has_compiler
from trainkit import ops
from trainkit.core import devices
from trainkit.kernels.attention import attention_reference
from trainkit.kernels.softmax import softmax_gpu

pytestmark = pytest.mark.skipif(not has_compiler(), reason="no g++ for this machine is here")

NEAR = {"float32": 1e-5, "float64": 1e-12, "float16": 4e-3, "bfloat16": 3e-2}
DTYPES = pytest.mark.parametrize(
    "dtype",
    [np.float32, np.float64, np.float16, ml_dtypes.bfloat16],
    ids=lambda d: np.dtype(d).name,
)
SIZES = pytest.mark.parametrize(
    "sizes", [(1, 1), (33, 1), (1, 31), (700, 10), (5, 1023), (3, 1025), (2, 9000)], ids=str
)


@pytest.fixture
def xp(any_gpu):
    return devices.parse("/gpu:0").xp


def wide(x):
    return x.astype(np.float64)


def softmax_of(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def assert_near(found, wanted, dtype):
    near = NEAR[np.dtype(dtype).name]
    assert found.dtype == dtype
    scale = max(1.0, float(np.nanmax(np.abs(wanted))))
    np.testing.assert_allclose(wide(found.get()), wanted, rtol=near, atol=near * scale)


@DTYPES
@SIZES
def test_softmax(rng, xp, dtype, sizes):
    x, g = ((4 * rng.normal(size=sizes)).astype(dtype) for _ in range(2))
    x[0, 0] = 60
    wanted = softmax_of(wide(x))
    assert_near(softmax_gpu.softmax(xp, xp.asarray(x), axis=-1), wanted, dtype)
    found = softmax_gpu.log_softmax(xp, xp.asarray(x), axis=1)
    top = wide(x) - wide(x).max(-1, keepdims=True)
    assert_near(found, top - np.log(np.exp(top).sum(-1, keepdims=True)), dtype)
    y = wanted.astype(dtype)
    found = softmax_gpu.softmax_gradient(xp, xp.asarray(g), xp.asarray(y), axis=(1,))
    product = wide(g) * wide(y)
    assert_near(found, product - wide(y) * product.sum(-1, keepdims=True), dtype)


@DTYPES
@SIZES
@pytest.mark.parametrize("kind", [np.int32, np.uint8, np.int64])
def test_cross_entropy_of_classes(rng, xp, dtype, sizes, kind):
    rows, classes = sizes
    x = (4 * rng.normal(size=sizes)).astype(dtype)
    labels = rng.integers(0, min(classes, 200), rows).astype(kind)
    g = rng.normal(size=rows).astype(dtype)
    p, at = softmax_of(wide(x)), (np.arange(rows), labels.astype(int))
    losses, grads = -np.log(p[at]), p.copy()
    grads[at] -= 1
    given = xp.asarray(labels), xp.asarray(x)
    assert_near(softmax_gpu.loss(xp, *given), losses, dtype)
    found = softmax_gpu.loss_and_gradients(xp, *given)
    assert_near(found[0], losses, dtype)
    assert_near(found[1], grads, dtype)
    found = softmax_gpu.gradient(xp, xp.asarray(g), *given)
    assert_near(found, grads * wide(g)[:, None], dtype)


@DTYPES
@SIZES
def test_cross_entropy_of_chances(rng, xp, dtype, sizes):
    x = (4 * rng.normal(size=sizes)).astype(dtype)
    labels = np.maximum(rng.normal(size=sizes), 0).astype(dtype)
    x[labels == 0] = -np.inf if np.dtype(dtype).itemsize > 2 else x[labels == 0]
    x[:, 0], labels[:, 0] = 1, 0.5
    g = rng.normal(size=sizes[0]).astype(dtype)
    p = softmax_of(wide(x))
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(labels == 0, 0, wide(labels) * np.log(p))
    grads = p * wide(labels).sum(-1, keepdims=True) - wide(labels)
    given = xp.asarray(labels), xp.asarray(x)
    assert_near(softmax_gpu.loss(xp, *given), -parts.sum(-1), dtype)
    found = softmax_gpu.loss_and_gradients(xp, *given)
    assert_near(found[0], -parts.sum(-1), dtype)
    assert_near(found[1], grads, dtype)
    found = softmax_gpu.gradient(xp, xp.asarray(g), *given)
    assert_near(found, grads * wide(g)[:, None], dtype)


def test_a_label_that_is_no_class_gives_nan(xp):
    labels = xp.asarray(np.array([0, -1, 3, 2], np.int32))
    losses, grads = softmax_gpu.loss_and_gradients(xp, labels, xp.ones((4, 3), np.float32))
    np.testing.assert_array_equal(np.isnan(losses.get()), [False, True, True, False])
    np.testing.assert_array_equal(np.isnan(grads.get()).all(-1), [False, True, True, False])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number_fills_its_row(xp, bad):
    x = xp.asarray(np.array([[0, bad, 1], [1, 2, 3]], np.float32))
    found = softmax_gpu.softmax(xp, x, axis=-1).get()
    np.testing.assert_array_equal(np.isnan(found), [[True] * 3, [False] * 3])


MASKS = {
    "none": lambda rng: None,
    "whole": lambda rng: rng.random((2, 3, 5, 40)) < 0.5,
    "of sources": lambda rng: rng.random((2, 1, 1, 40)) < 0.5,
    "of targets": lambda rng: rng.random((1, 3, 5, 1)) < 0.5,
    "a view": lambda rng: (rng.random((40, 5, 3, 2)) < 0.5).T,
}


@DTYPES
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("causal", [False, True])
def test_shares_of_attention(rng, xp, dtype, mask, causal):
    q, k = (rng.normal(size=(2, 3, n, 4)) for n in (8, 40))
    seen = MASKS[mask](rng)
    full = None if seen is None else np.broadcast_to(seen, (2, 3, 5, 40))
    scores = (q @ k.swapaxes(2, 3)).astype(dtype)
    identity = np.broadcast_to(np.eye(40), (2, 3, 40, 40))
    every = None if full is None else np.concatenate([np.ones((2, 3, 3, 40), bool), full], 2)
    wanted = attention_reference.shares(np, wide(scores), identity, every, 0.5, causal)[:, :, 3:]
    y = xp.asarray(scores[:, :, 3:].copy())
    where = None if seen is None else xp.asarray(seen)
    assert softmax_gpu.shares(xp, y, where, 0.5, causal, 3)
    assert_near(y, wanted, dtype)
    g = rng.normal(size=y.shape).astype(dtype)
    by = xp.asarray(g)
    assert softmax_gpu.shares_gradient(xp, by, y, 0.5)
    p = wide(y.get())
    assert_near(by, 0.5 * p * (wide(g) - (wide(g) * p).sum(-1, keepdims=True)), dtype)


# ------------------------------------------------------------------ the operations


def sparse(x):
    labels = tk.cast(tk.argmax(x[:, ::-1], axis=-1), "int32")
    return tk.nn.sparse_softmax_cross_entropy_with_logits(labels, x * 2.0)


CALLS = {
    "softmax": lambda x: tk.nn.softmax(x),
    "softmax of two axes": lambda x: tk.nn.softmax(tk.reshape(x, (-1, 4, 10)), axis=(1, 2)),
    "softmax of the first axis": lambda x: tk.nn.softmax(x, axis=0),
    "log_softmax": lambda x: tk.nn.log_softmax(x),
    "sparse": sparse,
    "dense": lambda x: tk.nn.softmax_cross_entropy_with_logits(tk.nn.softmax(x[::-1]), x * 2.0),
    "view": lambda x: tk.nn.softmax(tk.transpose(x)),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("rows", [0, 3, 50])
@pytest.mark.parametrize("compiled", [False, True])
def test_the_operation_gives_what_the_cpu_gives(rng, name, rows, compiled, device):
    if rows == 0 and name == "softmax of the first axis":
        pytest.skip("there is no softmax of nothing")
    x = rng.normal(size=(rows, 40)).astype(np.float32)

    def step(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = CALLS[name](x)
            loss = tk.reduce_sum(y * y)
        return y, tape.gradient(loss, x)

    def results(where):
        with tk.device(where):
            given = tk.constant(x)
            run = tk.function(step) if compiled else step
            run(given)
            return [y.numpy() for y in run(given)]  # the second call

    for found, wanted in zip(results(device), results("/cpu:0"), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axis", [2, -3, (0, 2)])
@pytest.mark.parametrize("function", [ops.softmax, ops.log_softmax])
def test_an_axis_that_is_not_there_is_refused(xp, function, axis):
    with pytest.raises(ValueError, match="axis"):
        function(ops.ones((2, 3)), axis=axis)
