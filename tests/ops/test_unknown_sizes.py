"""Graphs that know only ranks: values and gradients are those of the eager call."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops

rng = np.random.default_rng(0)


def normal(*shape):
    return rng.normal(size=shape).astype("float32")


X, M = normal(2, 3, 4), normal(2, 3, 3)
PICKS = np.array([0, 2, 0], "int32")
ONE = np.int32(1)


def symmetric(m):
    return ops.matmul(m, ops.transpose(m, (0, 2, 1))) + ops.eye(3)


CASES = {
    "reshape": (lambda x: ops.reshape(x, (ops.shape(x)[0], -1)), X),
    "reshape_products": (lambda x: ops.reshape(x, (ops.shape(x)[0] * ops.shape(x)[1], -1)), X),
    "ravel": (ops.ravel, X),
    "transpose": (lambda x: ops.transpose(x, (1, 0, 2)), X),
    "expand_squeeze": (lambda x: ops.squeeze(ops.expand_dims(x, 1), 1), X),
    "broadcast_to": (lambda x: ops.broadcast_to(x, (2, *ops.shape(x))), X),
    "concatenate": (lambda x, y: ops.concatenate([x, y], 1), X, X),
    "split": (lambda x: ops.split(x, 2, 2), X),
    "split_at": (lambda x: ops.split(x, [1], 1), X),
    "stack": (lambda x, y: ops.stack([x, y], 1), X, X),
    "unstack": (lambda x: ops.unstack(x, num=3, axis=1), X),
    "tile": (lambda x: ops.tile(x, (2, 1, 3)), X),
    "tile_by_tensors": (lambda x: ops.tile(x, (ops.shape(x)[0], 1, 1)), X),
    "repeat": (lambda x: ops.repeat(x, 2, 1), X),
    "pad": (lambda x: ops.pad(x, ((1, 0), (0, 2), (1, 1))), X),
    "pad_reflect": (lambda x: ops.pad(x, ((1, 0), (0, 2), (1, 1)), "reflect"), X),
    "flip_roll": (lambda x: ops.roll(ops.flip(x, 1), 1, 2), X),
    "item": (lambda x: x[0], X),
    "slice": (lambda x: x[:, 1:], X),
    "item_by_tensor": (lambda x, i: x[i], X, ONE),
    "slice_by_tensor": (lambda x, i: x[:, i : i + 2], X, ONE),
    "items_by_tensor": (lambda x, i: x[:, i], X, PICKS),
    "mask": (lambda x: x[x > 0], X),
    "take": (lambda x, i: ops.take(x, i, 1), X, PICKS),
    "take_along_axis": (lambda x, i: ops.take_along_axis(x, i, 1), X, PICKS.reshape(1, 3, 1)),
    "block": (lambda x, i: ops.slice(x, (i, 0, 1), (1, 2, 2)), X, ONE),
    "block_update": (lambda x, y, i: ops.slice_update(x, (i, 0, 1), y), X, normal(1, 2, 2), ONE),
    "gather_nd": (lambda x, i: ops.gather_nd(x, i), X, np.array([[0, 1], [1, 2]], "int32")),
    "scatter": (lambda u, i: ops.scatter(i, u, (4,)), normal(2), np.array([[0], [2]], "int32")),
    "matmul": (ops.matmul, X, normal(4, 5)),
    "matmul_batches": (ops.matmul, X, normal(2, 4, 5)),
    "matmul_vector": (ops.matmul, X, normal(4)),
    "einsum": (lambda x, y: ops.einsum("bij,jk->bki", x, y), X, normal(4, 5)),
    "tensordot": (lambda x, y: ops.tensordot(x, y, 1), X, normal(4, 5)),
    "diagonal": (lambda x: ops.diagonal(x, 1, 1, 2), X),
    "tril": (ops.tril, X),
    "sort": (lambda x: ops.sort(x, 1), X),
    "top_k": (lambda x: ops.top_k(x, 2).values, X),
    "segment_sum": (lambda x, i: ops.segment_sum(x, i, 3), X, np.array([0, 2], "int32")),
    "segment_max": (lambda x, i: ops.segment_max(x, i, 2), X, np.array([0, 1], "int32")),
    "nonzero": (lambda x: ops.nonzero(x > 0)[1], X),
    "inv": (ops.inv, M),
    "det": (ops.det, M),
    "solve": (ops.solve, M, normal(2, 3, 1)),
    "cholesky": (lambda m: ops.cholesky(symmetric(m)), M),
    "eigh": (lambda m: ops.eigh(symmetric(m))[0], M),
    "singular_values": (lambda x: ops.svd(x, compute_uv=False), X),
    "norm": (lambda x: ops.norm(x, axis=1), X),
    "diff": (ops.diff, X),
    "rfft": (ops.rfft, X),
    "stft": (lambda x: ops.stft(x, 2, 1, 2), X),
    "rearrange": (lambda x: ops.rearrange(x, "a b c -> b (a c)"), X),
}


def unknown(x):
    """A signature with the rank alone; of positions the shape, too."""
    dims = [None] * np.ndim(x) if x.dtype == np.float32 else np.shape(x)
    return tk.TensorSpec(dims, x.dtype)


def results_and_gradients(function, *inputs):
    moved = [x for x in inputs if x.dtype.is_floating]
    with tk.GradientTape() as tape:
        tape.watch(moved)
        results = function(*inputs)
        results = list(results) if isinstance(results, list | tuple) else [results]
        total = sum(ops.sum(ops.square(y)) for y in results if y.dtype.is_floating)
    gradients = tape.gradient(total, moved) if hasattr(total, "dtype") else []
    return results + [g for g in gradients if g is not None]


@pytest.mark.parametrize("name", CASES)
def test_graphs_that_know_only_ranks_agree_with_eager_calls(name):
    function, *arrays = CASES[name]
    inputs = [tk.convert_to_tensor(x) for x in arrays]

    def step(*tensors):
        return results_and_gradients(function, *tensors)

    graph = tk.function(step, input_signature=[unknown(x) for x in arrays], autograph=False)
    for traced, eager in zip(graph(*inputs), step(*inputs), strict=True):
        np.testing.assert_allclose(traced.numpy(), eager.numpy(), rtol=1e-4, atol=1e-5)
