"""Attention of short floats on a GPU goes to cuDNN, and gives what the CPU gives."""

import numpy as np
import pytest

import trainkit as tk
from tests.stand_in import cudnn
from trainkit.ops.neural.fused_attention import is_served

BATCH, TARGETS, SOURCES, SIZE = 2, 6, 9, 8
MASKS = {
    "none": None,
    "padding": (BATCH, 1, 1, SOURCES),
    "by query": (1, 1, TARGETS, SOURCES),
    "by head": (BATCH, 4, TARGETS, SOURCES),
    "one row": (1, 4, 1, SOURCES),
}
BOUND = {"float16": 6e-3, "bfloat16": 4e-2}


def given(dtype, heads=4, key_heads=4, value_size=SIZE):
    rng = np.random.default_rng(2)
    shapes = (
        (BATCH, TARGETS, heads, SIZE),
        (BATCH, SOURCES, key_heads, SIZE),
        (BATCH, SOURCES, key_heads, value_size),
    )
    return [tk.cast(rng.standard_normal(s).astype(np.float32), dtype).cpu() for s in shapes]


def mask_of(name):
    if MASKS[name] is None:
        return None
    mask = np.random.default_rng(4).random(MASKS[name]) < 0.6
    if name in ("by query", "by head"):
        mask[..., 2, :] = False  # a query that sees nothing
    return mask


def results(arrays, mask, causal, run=tk.ops.dot_product_attention):
    q, k, v = (tk.Variable(x) for x in arrays)
    with tk.GradientTape() as tape:
        y = run(q, k, v, mask=mask, is_causal=causal)
        loss = tk.reduce_sum(tk.cast(y, "float32") ** 2)
    found = [y, *tape.gradient(loss, [q, k, v])]
    return [tk.cast(part, "float32").numpy() for part in found]


def close(found, wanted, bound):
    for one, two in zip(found, wanted, strict=True):
        assert np.abs(one - two).max() <= bound * max(1.0, np.abs(two).max())


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("dtype", BOUND)
def test_values_and_gradients_are_those_of_the_cpu(dtype, name, causal, cudnn_state):
    arrays, mask = given(dtype), mask_of(name)
    with tk.device("/cpu:0"):
        wanted = results(arrays, mask, causal)
    close(results([x.gpu() for x in arrays], mask, causal), wanted, BOUND[dtype])
    nodes = [node for graph, _ in cudnn_state.executed for node in graph]
    assert nodes == ["sdpa", "sdpa", "sdpa_backward"]


@pytest.mark.parametrize(("key_heads", "value_size"), [(2, 8), (1, 16), (4, 16)])
def test_shared_heads_and_other_sizes_of_values(key_heads, value_size, cudnn_state):
    arrays = given("float16", 4, key_heads, value_size)
    with tk.device("/cpu:0"):
        wanted = results(arrays, None, True)
    close(results([x.gpu() for x in arrays], None, True), wanted, BOUND["float16"])
    assert cudnn_state.executed


def test_a_query_that_sees_nothing_gets_zeros_and_sends_none_back(cudnn_state):
    q, k, v = (x.gpu() for x in given("bfloat16"))
    mask = np.ones((1, 1, TARGETS, SOURCES), bool)
    mask[:, :, 3] = False
    scale = {"scale": 0.3, "causal": False}
    from trainkit.ops.neural.fused_attention import attend

    with tk.GradientTape() as tape:
        tape.watch(q)
        y = attend(q, k, v, tk.constant(mask), **scale)
    by_q = tk.cast(tape.gradient(y, q), "float32").numpy()
    assert not tk.cast(y, "float32").numpy()[:, 3].any()
    assert not by_q[:, 3].any()
    assert by_q[:, 2].any()
    assert cudnn_state.executed


@pytest.mark.parametrize(
    ("dtype", "size", "served"),
    [
        ("float16", 64, True),
        ("bfloat16", 128, True),
        ("float32", 64, False),
        ("float16", 12, False),
        ("float16", 136, False),
    ],
)
def test_which_calls_are_sent_to_cudnn(dtype, size, served, cudnn_state, monkeypatch):
    x = tk.cast(tk.ones((1, 4, 2, size)), dtype)
    assert is_served(x, x, x) is served
    assert is_served(x.cpu(), x.cpu(), x.cpu())
    tk.ops.dot_product_attention(x, x, x)
    assert bool(cudnn_state.executed) is served


def test_what_cudnn_refuses_goes_by_the_body(cudnn_state):
    arrays = given("float16")
    with tk.device("/cpu:0"):
        wanted = results(arrays, mask_of("padding"), False)
    for refused in ({"sdpa_backward"}, {"sdpa"}):
        cudnn_state.refused = refused
        found = results([x.gpu() for x in arrays], mask_of("padding"), False)
        close(found, wanted, BOUND["float16"])
        tk.config.experimental.enable_tensor_float_32_execution(False)
    assert "sdpa_backward" not in [n for graph, _ in cudnn_state.executed for n in graph]


def test_results_that_must_not_vary(cudnn_state, monkeypatch):
    asked = []
    kept = cudnn.pygraph.sdpa_backward

    def noted(self, *, use_deterministic_algorithm, **named):
        asked.append(use_deterministic_algorithm)
        return kept(self, use_deterministic_algorithm=use_deterministic_algorithm, **named)

    monkeypatch.setattr(cudnn.pygraph, "sdpa_backward", noted)
    arrays = [x.gpu() for x in given("float16")]
    results(arrays, None, False)
    from trainkit.kernels.threads import pools

    monkeypatch.setattr(pools, "determined", lambda: True)
    results(arrays, None, False)
    assert asked == [False, True]


@pytest.mark.parametrize("causal", [False, True])
def test_a_layer_in_a_captured_function(causal, cudnn_state):
    layer = tk.layers.MultiHeadAttention(2, 8, dtype="mixed_bfloat16")
    x = tk.constant(np.random.default_rng(7).standard_normal((2, 5, 16)).astype(np.float32))
    mask = np.ones((2, 5), bool)
    mask[1, 3:] = False

    def step(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            y = tk.cast(layer(x, x, value_mask=mask, use_causal_mask=causal), "float32")
            loss = tk.reduce_sum(y**2)
        return loss, tape.gradient(loss, x)

    wanted = [part.numpy() for part in step(x)]
    assert cudnn_state.executed
    run = tk.function(step)
    for _ in range(6):
        found = [part.numpy() for part in run(x)]
        close(found, wanted, 2e-2)
    assert "replays of 1 CUDA graph" in run.explain()
