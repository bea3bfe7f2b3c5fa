"""The plain convolution's gradients are the transposes of the convolution, for all windows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainkit.kernels.convolution import conv_reference as plain
from trainkit.kernels.convolution.sliding_windows import Windows


@st.composite
def windows(draw):
    rank = draw(st.integers(1, 3))

    def each(low, high):
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    window, dilation = each(1, 4), each(1, 2)
    pads = tuple((draw(st.integers(0, 5)), draw(st.integers(0, 5))) for _ in range(rank))
    padding = draw(st.sampled_from(["valid", "same", pads]))
    least = [(k - 1) * d + 1 for k, d in zip(window, dilation, strict=True)]
    sizes = tuple(n + draw(st.integers(0, 4)) for n in least)
    strides = draw(st.one_of(st.just((1,) * rank), st.just(each(1, 3))))
    return Windows(sizes, window, strides, padding, dilation)


@given(windows(), st.integers(1, 3), st.integers(1, 6), st.integers(1, 6), st.integers(1, 3))
@settings(deadline=None, max_examples=150)
def test_gradients_are_transposes(w, batch, inside, filters, groups):
    rng = np.random.default_rng(0)
    channels, features = inside * groups, filters * groups
    x = rng.standard_normal((batch, *w.sizes, channels))
    kernel = rng.standard_normal((*w.window, inside, features))
    y = plain.conv(np, w, x, kernel, groups)
    g = rng.standard_normal(y.shape)
    expected = np.vdot(y, g)
    by_x = plain.conv_input_gradient(np, w, g, kernel, groups)
    by_kernel = plain.conv_kernel_gradient(np, w, x, g, groups)
    assert by_x.shape == x.shape
    assert by_kernel.shape == kernel.shape
    np.testing.assert_allclose(np.vdot(x, by_x), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.vdot(kernel, by_kernel), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("filters", [4, 8, 9, 20])
def test_gathered_and_summed_gradients_agree(filters, monkeypatch):
    """Few filters are gathered, many are spread over the windows."""
    w = Windows((9, 8), (3, 2), (1, 1), "same", (1, 2))
    rng = np.random.default_rng(1)
    kernel = rng.standard_normal((3, 2, 4, filters))
    g = rng.standard_normal((2, *w.out, filters))
    found = plain.conv_input_gradient(np, w, g, kernel, 1)
    monkeypatch.setattr(plain, "_windows_back", lambda w: None)
    np.testing.assert_allclose(found, plain.conv_input_gradient(np, w, g, kernel, 1), rtol=1e-12)


@pytest.mark.parametrize("channels", [1, 3, 5, 6, 16])
def test_columns_are_the_same_whichever_way_they_are_copied(channels):
    w = Windows((7, 6), (3, 3), (1, 2), "valid", (1, 1))
    x = np.random.default_rng(2).standard_normal((2, 7, 6, channels)).astype(np.float32)
    columns = plain._columns(np, w, w.view(np, x), slice(0, channels))
    np.testing.assert_array_equal(columns, w.view(np, x).reshape(columns.shape))
