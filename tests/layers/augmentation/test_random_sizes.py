"""RandomHeight and RandomWidth: another size with each batch while training."""

import numpy as np
import pytest

import trainkit as tk

AXES = {tk.layers.RandomHeight: 1, tk.layers.RandomWidth: 2}


@pytest.mark.parametrize("kind", AXES)
@pytest.mark.parametrize("compiled", [False, True])
def test_sizes_are_drawn_within_the_limits(kind, compiled):
    layer = kind((-0.5, 1.0), seed=1)
    call = tk.function(layer) if compiled else layer
    shapes = [call(tk.ones((2, 20, 20, 3)), training=True).shape for _ in range(20)]
    sizes = {shape[AXES[kind]] for shape in shapes}
    assert len(sizes) > 5
    assert all(10 <= size <= 40 for size in sizes)
    assert {shape[3 - AXES[kind]] for shape in shapes} == {20}


@pytest.mark.parametrize("kind", AXES)
def test_images_are_resized_as_image_resize_does(kind, rng):
    x = rng.uniform(size=(1, 8, 8, 2)).astype("float32")
    size = (4, 8) if AXES[kind] == 1 else (8, 4)
    found = kind((-0.5, -0.5), interpolation="nearest")(x, training=True)
    np.testing.assert_array_equal(found, tk.image.resize(x, size, method="nearest"))
    np.testing.assert_array_equal(kind(0.5)(x, training=False), x)


@pytest.mark.parametrize("kind", AXES)
def test_symbolic_sizes_are_open(kind):
    inputs = tk.Input((32, 32, 3))
    outputs = kind(0.2)(inputs)
    wanted = [None, 32, 32, 3]
    wanted[AXES[kind]] = None
    assert tuple(outputs.shape) == tuple(wanted)
    pooled = tk.layers.GlobalAveragePooling2D()(tk.layers.Conv2D(2, 3)(outputs))
    model = tk.Model(inputs, tk.layers.Dense(1)(pooled))
    model.compile("sgd", "mse")
    model.fit(np.ones((8, 32, 32, 3)), np.ones(8), batch_size=4, epochs=2, verbose=0)
    assert model.predict(np.ones((2, 32, 32, 3)), verbose=0).shape == (2, 1)


@pytest.mark.parametrize("kind", AXES)
@pytest.mark.parametrize("factor", [-0.2, 1.0, (0.3, 0.1), (-1.5, 0.2), (1, 2, 3)])
def test_limits_that_do_not_fit_are_refused(kind, factor):
    with pytest.raises(tk.errors.InvalidArgumentError, match=r"must be a number in \[0, 1\), or"):
        kind(factor)


def test_thresholded_relu_refuses_a_negative_threshold():
    with pytest.raises(tk.errors.InvalidArgumentError, match="theta must be 0 or more, got -1"):
        tk.layers.ThresholdedReLU(-1)
