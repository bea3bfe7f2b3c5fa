import numpy as np
import pytest

import trainkit as tk
from trainkit.ops.math.norm_clipping import (
    clip_by_average_norm,
    clip_by_global_norm,
    clip_by_norm,
    global_norm,
)


def test_global_norm_is_the_length_of_all_together():
    assert float(global_norm([[3.0], None, [[4.0]]])) == 5.0
    assert float(global_norm([None])) == 0.0


def test_clip_by_global_norm_keeps_the_direction():
    (a, none, b), norm = clip_by_global_norm([[3.0], None, [4.0]], 1.0)
    assert none is None
    assert float(norm) == 5.0
    np.testing.assert_allclose([a.numpy()[0], b.numpy()[0]], [0.6, 0.8], rtol=1e-6)
    (short,), _ = clip_by_global_norm([[0.3]], 1.0)
    np.testing.assert_array_equal(short.numpy(), np.float32([0.3]))


def test_clip_by_global_norm_takes_a_known_norm():
    (a,), norm = clip_by_global_norm([[3.0]], 1.0, use_norm=tk.convert_to_tensor(6.0))
    assert (float(a.numpy()[0]), float(norm)) == (0.5, 6.0)


def test_clip_by_norm_takes_axes():
    x = [[3.0, 4.0], [0.3, 0.4]]
    np.testing.assert_allclose(
        clip_by_norm(x, 1.0, axes=1).numpy(), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6
    )
    np.testing.assert_allclose(np.linalg.norm(clip_by_norm(x, 1.0).numpy()), 1.0, rtol=1e-6)


@pytest.mark.parametrize(
    "clip", [clip_by_norm, clip_by_average_norm, lambda x, n: clip_by_global_norm([x], n)]
)
def test_a_bound_of_zero_is_an_error(clip):
    with pytest.raises(ValueError, match="must be above 0"):
        clip([1.0], 0.0)


def test_a_clipped_length_has_a_gradient():
    x = tk.convert_to_tensor([3.0, 4.0])
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = clip_by_norm(x, 1.0)
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), [0.032, -0.024], atol=1e-6)


def test_a_length_of_zero_has_a_gradient_without_nan():
    x = tk.zeros(2)
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = clip_by_norm(x, 1.0)
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), [1, 1])


@pytest.mark.parametrize("wrap", [lambda f: f, tk.function], ids=["eager", "traced"])
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_clip_by_global_norm_of_no_finite_norm_is_nan_everywhere(bad, wrap):
    grads = [tk.constant([1.0, 2.0]), None, tk.constant([bad, 1.0])]
    clipped, norm = wrap(lambda: clip_by_global_norm(grads, 1.0))()
    assert not np.isfinite(norm)
    assert np.isnan(clipped[0]).all()
    assert np.isnan(clipped[2]).all()
    assert clipped[1] is None


def test_an_optimizer_that_clips_by_the_global_norm_shows_an_infinite_gradient():
    weights = [tk.Variable([1.0, 2.0]), tk.Variable([3.0])]
    optimizer = tk.optimizers.SGD(0.1, global_clipnorm=1.0)
    optimizer.apply_gradients(
        zip([tk.constant([1.0, 1.0]), tk.constant([np.inf])], weights, strict=True)
    )
    assert all(np.isnan(w).all() for w in weights)
