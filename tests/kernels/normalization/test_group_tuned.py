"""Compiled normalization within groups of features against the plain one, and by its enemies."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.kernels.normalization import norm_tuned
from trainkit.ops.neural import group_normalization

SHAPES = [((4, 10), 2), ((3, 5, 7, 12), 4), ((2, 9, 6, 64), 64), ((2, 9, 6, 40), 1),
          ((2, 3, 130), 13), ((1, 61, 3, 320), 32)]  # fmt: skip


def plain(operation, *arrays, **settings):
    """What the operation's body makes of arrays in float64."""
    doubles = [None if a is None else a.astype("float64") for a in arrays]
    return operation.primitive.kernel(np, *doubles, **settings)


@pytest.mark.parametrize("present", [True, False])
@pytest.mark.parametrize(("shape", "groups"), SHAPES)
def test_groups_equal_the_plain_version(eager, rng, shape, groups, present):
    x, g = rng.normal(size=(2, *shape)).astype("float32")
    x = 3 * x + 5
    vectors = rng.normal(size=(2, shape[-1])).astype("float32") if present else (None, None)
    settings = {"axis": len(shape) - 1, "groups": groups, "epsilon": 0.01}
    y = norm_tuned.normalized_groups(x, *vectors, **settings)
    expected = plain(group_normalization.grouped_normalization, x, *vectors, **settings)
    np.testing.assert_allclose(y, expected, atol=1e-5)
    gradients = norm_tuned.normalized_groups_gradient(g, x, vectors[0], **settings)
    expected = plain(
        group_normalization.grouped_normalization_gradient, g, x, vectors[0], **settings
    )
    for gradient, part in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient, part, rtol=1e-4, atol=1e-4)


def test_other_axes_and_dtypes_are_left_to_the_plain_version(eager, rng):
    x = rng.normal(size=(2, 6, 6)).astype("float32")
    assert norm_tuned.normalized_groups(x, None, None, 1, 2, 0.01) is None
    assert norm_tuned.normalized_groups(x.astype("float64"), None, None, 2, 2, 0.01) is None
    assert norm_tuned.normalized_groups(x[:0], None, None, 2, 2, 0.01) is None
    assert norm_tuned.normalized_groups_gradient(x.astype("float64"), x, None, 2, 2, 0.01) is None


def test_a_far_level_and_an_outlier_in_the_first_row_cancel_nothing(eager, rng):
    x = (1000 + rng.normal(size=(2, 50, 8))).astype("float32")
    x[0, 0, 0] = 4000
    settings = {"axis": 2, "groups": 2, "epsilon": 1e-3}
    y = norm_tuned.normalized_groups(x, None, None, **settings)
    expected = plain(group_normalization.grouped_normalization, x, None, None, **settings)
    np.testing.assert_allclose(y, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("cache", [1 << 10, 1 << 15, 1 << 30])
def test_neither_blocks_nor_other_samples_change_a_bit(eager, rng, cache, monkeypatch):
    x, g = rng.normal(size=(2, 5, 40, 33, 48)).astype("float32")
    scale = rng.normal(size=48).astype("float32")
    settings = {"axis": 3, "groups": 8, "epsilon": 1e-3}
    whole = norm_tuned.normalized_groups(x, scale, scale, **settings)
    by_x = norm_tuned.normalized_groups_gradient(g, x, scale, **settings)[0]
    monkeypatch.setattr(norm_tuned, "cache_bytes", lambda level: cache)
    y = norm_tuned.normalized_groups(x[3:4], scale, scale, **settings)
    assert y.tobytes() == whole[3:4].tobytes()
    gradient = norm_tuned.normalized_groups_gradient(g[3:4], x[3:4], scale, **settings)[0]
    assert gradient.tobytes() == by_x[3:4].tobytes()


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_functions_of_unknown_sizes_have_the_bits_of_eager_calls(rng, data_format):
    is_last = data_format == "channels_last"
    layer = tk.layers.GroupNormalization(3, axis=-1 if is_last else 1)
    layer.build((None, None, None, 6) if is_last else (None, 6, None, None))
    layer.gamma.assign(rng.normal(size=6))
    spec = tk.TensorSpec((None, None, None, 6) if is_last else (None, 6, None, None))

    def step(x):
        with tk.GradientTape() as tape:
            tape.watch(x)
            loss = tk.reduce_sum(layer(x) ** 3)
        return loss, *tape.gradient(loss, [x, layer.gamma, layer.beta])

    compiled = tk.function(step, input_signature=[spec])
    for sizes in ((2, 4, 5), (3, 7, 2), (1, 1, 1)):
        shape = (*sizes, 6) if is_last else (sizes[0], 6, *sizes[1:])
        x = tk.constant(rng.normal(size=shape).astype("float32"))
        for a, b in zip(step(x), compiled(x), strict=True):
            assert a.numpy().tobytes() == b.numpy().tobytes()
