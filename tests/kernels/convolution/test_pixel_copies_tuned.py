"""Pixels copied by several threads against NumPy's slices: the same numbers."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.kernels.convolution import conv_tuned, pixel_copies_tuned
from trainkit.kernels.convolution.sliding_windows import Windows


@pytest.fixture(autouse=True)
def several_threads(eager, monkeypatch):
    """Processes with one core leave all of it to NumPy."""
    monkeypatch.setattr(pixel_copies_tuned, "thread_pool", lambda: True)


def image(rng, *shape):
    return rng.normal(size=shape).astype("float32")


@pytest.mark.parametrize("strides", [(1, 2), (2, 1), (2, 2), (3, 5), (70, 1), (1, 99)])
@pytest.mark.parametrize("shape", [(3, 61, 70, 130), (1, 64, 65, 513), (400, 61, 71, 1)])
def test_pixels_are_those_of_a_slice_and_go_back_among_zeros(rng, shape, strides, monkeypatch):
    monkeypatch.setattr(pixel_copies_tuned, "FEWEST_COPIED", 0)
    x = image(rng, *shape)
    x[0, 0, 0, 0], x[-1, -1, -1, -1] = np.nan, np.inf
    index = (slice(None), *(slice(None, None, n) for n in strides))
    y = pixel_copies_tuned.strided_pixels(x, strides)
    np.testing.assert_array_equal(y, x[index])
    assert y.flags.c_contiguous
    spread = pixel_copies_tuned.spread_pixels(y, shape[1:3], (0, 0), strides)
    expected = np.zeros(shape, "float32")
    expected[index] = y
    np.testing.assert_array_equal(spread, expected)
    assert not np.signbit(spread[spread == 0]).any()


@pytest.mark.parametrize("pads", [((1, 1), (1, 1)), ((0, 3), (2, 0)), ((5, 0), (0, 0))])
def test_images_are_padded_as_numpy_pads_them(rng, pads, monkeypatch):
    asked = []
    spread = pixel_copies_tuned.spread_pixels
    monkeypatch.setattr(
        pixel_copies_tuned, "spread_pixels", lambda *a: asked.append(a) or spread(*a)
    )
    x, width = image(rng, 4, 40, 41, 64), ((0, 0), *pads, (0, 0))
    y = tk.ops.pad(x, width)
    np.testing.assert_array_equal(y.numpy(), np.pad(x, width))
    compiled = tk.function(lambda x: tk.ops.pad(x, width))
    np.testing.assert_array_equal(compiled(x).numpy(), np.pad(x, width))
    assert len(asked) == 2
    with tk.GradientTape() as tape:
        tape.watch(x := tk.constant(x))
        loss = tk.reduce_sum(tk.ops.pad(x, width) * 3.0)
    np.testing.assert_array_equal(tape.gradient(loss, x).numpy(), np.full(x.shape, 3, "float32"))
    for others in ((*width[:3], (1, 0)), ((1, 0), *width[1:])):
        np.testing.assert_array_equal(tk.ops.pad(x, others).numpy(), np.pad(x.numpy(), others))
    ones = tk.ops.pad(x, width, constant_values=1.0)
    np.testing.assert_array_equal(ones.numpy(), np.pad(x.numpy(), width, constant_values=1))


def test_convolutions_of_strided_windows_of_one_element_take_them(rng, monkeypatch):
    asked = []
    for name in ("strided_pixels", "spread_pixels"):
        copy = getattr(pixel_copies_tuned, name)
        monkeypatch.setattr(
            pixel_copies_tuned, name, lambda *a, copy=copy: asked.append(copy(*a)) or asked[-1]
        )
    w = Windows((41, 42), (1, 1), (2, 2), "valid", (1, 1))
    x, g = image(rng, 4, 41, 42, 200), image(rng, 4, *w.out, 40)
    kernel = image(rng, 1, 1, 200, 40)
    y = conv_tuned.forward(w, x, kernel, None, False, 1)
    rows = x[:, ::2, ::2].reshape(-1, 200)
    np.testing.assert_allclose(y.reshape(-1, 40), rows @ kernel[0, 0], atol=1e-3)
    by_input = conv_tuned.input_gradient(w, g, kernel, 1)
    expected = np.zeros_like(x)
    expected[:, ::2, ::2] = g @ kernel[0, 0].T
    np.testing.assert_allclose(by_input, expected, atol=1e-3)
    assert [part is not None for part in asked] == [True, True]


def test_what_numpy_does_as_well_or_alone_is_left_to_it(rng, monkeypatch):
    x = image(rng, 4, 40, 41, 64)
    small = image(rng, 1, 9, 9, 4)
    turned = np.asfortranarray(x)
    for other in (small, turned, x.astype("float64"), x[0]):
        assert pixel_copies_tuned.strided_pixels(other, (1, 1)) is None
        assert pixel_copies_tuned.spread_pixels(other, (50, 50), (0, 0), (1, 1)) is None
    assert pixel_copies_tuned.strided_pixels(x, (2,)) is None
    monkeypatch.setattr(pixel_copies_tuned, "thread_pool", lambda: None)
    assert pixel_copies_tuned.strided_pixels(x, (1, 1)) is None


def test_nothing_of_an_image_without_pixels_is_read(rng):
    empty = np.empty((2, 0, 9, 4), "float32")
    np.testing.assert_array_equal(
        tk.ops.pad(empty, ((0, 0), (300, 300), (1, 1), (0, 0))).numpy(), np.zeros((2, 600, 11, 4))
    )
