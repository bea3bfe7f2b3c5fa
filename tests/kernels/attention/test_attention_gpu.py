"""Attention on a GPU in blocks of targets: its values, and how many scores there are at a time."""

import numpy as np
import pytest

import trainkit as tk
from tests.stand_in.kernels import has_compiler
from trainkit.core import devices
from trainkit.kernels.attention import attention_gpu, attention_reference
from trainkit.kernels.softmax import softmax_gpu
from trainkit.ops.neural import fused_attention
from trainkit.ops.neural.fused_attention import attend, is_served

pytestmark = pytest.mark.skipif(not has_compiler(), reason="no g++ for this machine is here")

SHAPES = {  # batch, targets, sources, heads, key heads, size, value size
    "alike": (2, 9, 9, 2, 2, 4, 4),
    "one": (1, 1, 1, 1, 1, 1, 1),
    "more sources": (2, 5, 33, 4, 2, 3, 5),
    "more targets": (3, 31, 7, 2, 1, 4, 2),
}
MASKS = {
    "none": lambda rng, shape: None,
    "whole": lambda rng, shape: rng.random(shape) < 0.6,
    "of sources": lambda rng, shape: rng.random((shape[0], 1, 1, shape[3])) < 0.5,
    "of targets": lambda rng, shape: rng.random((1, 1, shape[2], 1)) < 0.5,
}
BLOCKS = {"whole": 1 << 25, "by sample": 150, "by target": 40, "a target": 1}
# How rows are shared out does not depend on the dtype, so the second one has the two ends.
IN_BLOCKS = [(np.float32, name) for name in BLOCKS]
IN_BLOCKS += [(np.float64, "whole"), (np.float64, "a target")]


@pytest.fixture
def xp(any_gpu):
    return devices.parse("/gpu:0").xp


@pytest.fixture
def scores(monkeypatch):
    """How many scores each block has had."""
    seen = []
    shares = softmax_gpu.shares

    def noted(xp, p, *more):
        seen.append(p.size)
        return shares(xp, p, *more)

    monkeypatch.setattr(softmax_gpu, "shares", noted)
    return seen


def given(rng, name, dtype):
    batch, targets, sources, heads, key_heads, size, value_size = SHAPES[name]
    q = rng.normal(size=(batch, targets, heads, size)).astype(dtype)
    k = rng.normal(size=(batch, sources, key_heads, size)).astype(dtype)
    v = rng.normal(size=(batch, sources, key_heads, value_size)).astype(dtype)
    g = rng.normal(size=(batch, targets, heads, value_size)).astype(dtype)
    return g, q, k, v


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("dtype", "blocks"), IN_BLOCKS, ids=[f"{d.__name__}-{name}" for d, name in IN_BLOCKS]
)
def test_blocks_give_what_the_reference_gives(
    rng, xp, scores, monkeypatch, dtype, shape, mask, causal, blocks
):
    monkeypatch.setattr(attention_gpu, "MOST_SCORES", BLOCKS[blocks])
    g, q, k, v = given(rng, shape, dtype)
    heads, sources = q.shape[2], k.shape[1]
    seen = MASKS[mask](rng, (q.shape[0], heads, q.shape[1], sources))
    arrays = [xp.asarray(a) for a in (q, k, v)]
    there = None if seen is None else xp.asarray(seen)
    wanted = attention_reference.attention(np, q, k, v, seen, 0.5, causal)
    found = attention_gpu.attention(xp, *arrays, there, 0.5, causal)
    near = 1e-4 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(found.get(), wanted, atol=near)
    wanted = attention_reference.attention_gradient(np, g, q, k, v, seen, 0.5, causal)
    found = attention_gpu.attention_gradient(xp, xp.asarray(g), *arrays, there, 0.5, causal)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.get(), b, atol=near)
    assert max(scores) <= max(BLOCKS[blocks], heads * sources)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_the_operation_gives_what_the_cpu_gives(rng, device, monkeypatch, dtype, compiled, causal):
    monkeypatch.setattr(attention_gpu, "MOST_SCORES", 100)
    arrays = given(rng, "more targets", np.float32)

    def step(g, *inputs):
        with tk.GradientTape() as tape:
            tape.watch(inputs)
            y = attend(*inputs, scale=0.5, causal=causal)
        return y, *tape.gradient(y, inputs, output_gradients=g)

    def results(where):
        with tk.device(where):
            inputs = [tk.cast(tk.constant(a), dtype) for a in arrays]
            run = tk.function(step) if compiled else step
            run(*inputs)
            return [tk.cast(y, "float32").numpy() for y in run(*inputs)]  # the second call

    near = 1e-4 if dtype == "float32" else 5e-2
    for found, wanted in zip(results(device), results("/cpu:0"), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=near, atol=near)


@pytest.mark.usefixtures("any_gpu")
def test_long_sequences_are_not_kept_as_scores(rng, monkeypatch, scores):
    """`dot_product_attention` takes the blocks where the scores would be too many."""
    x = tk.constant(rng.normal(size=(2, 12, 2, 4)).astype(np.float32))
    assert not is_served(x, x, x)
    steps = tk.ops.dot_product_attention(x, x, x, is_causal=True).numpy()
    assert not scores
    monkeypatch.setattr(attention_gpu, "MOST_SCORES", 100)
    monkeypatch.setattr(fused_attention, "MOST_SCORES", 100)
    assert is_served(x, x, x)
    found = tk.ops.dot_product_attention(x, x, x, is_causal=True)
    assert max(scores) <= 100
    np.testing.assert_allclose(found.numpy(), steps, atol=1e-5)


@pytest.mark.usefixtures("any_gpu")
def test_no_source_gives_zeros():
    q, k = tk.ones((2, 3, 1, 4)), tk.ones((2, 5, 1, 4))
    y = attend(q, k, k, tk.zeros((2, 1, 3, 5), "bool"), scale=1.0)
    np.testing.assert_array_equal(y.numpy(), np.zeros((2, 3, 1, 4)))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_the_reference_multiplies_short_floats_of_four_axes(rng, xp, dtype):
    """CuPy's own product refuses bfloat16 of more than two axes."""
    kind = tk.as_dtype(dtype).as_numpy_dtype
    arrays = [rng.normal(size=(2, 5, 3, 4)).astype(kind) for _ in range(4)]
    g, q, k, v = arrays
    wanted = [
        attention_reference.attention(np, q, k, v, None, 0.5, False),
        *attention_reference.attention_gradient(np, g, q, k, v, None, 0.5, False),
    ]
    g, q, k, v = map(xp.asarray, arrays)
    found = [
        attention_reference.attention(xp, q, k, v, None, 0.5, False),
        *attention_reference.attention_gradient(xp, g, q, k, v, None, 0.5, False),
    ]
    near = {"bfloat16": 0.1, "float16": 0.02, "float32": 1e-5}[dtype]
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == b.dtype == kind
        np.testing.assert_allclose(a.get().astype("f8"), b.astype("f8"), rtol=near, atol=near)
