"""Window arithmetic against windows counted one by one."""

import itertools

import numpy as np
import pytest

from trainkit.kernels.convolution.sliding_windows import Windows, output_size, pad_pair


@pytest.mark.parametrize(
    ("size", "window", "stride", "dilation"),
    list(itertools.product(range(4, 9), (1, 2, 3), (1, 2, 3), (1, 2))),
)
def test_same_padding_gives_one_window_for_each_stride(size, window, stride, dilation):
    before, after = pad_pair(size, window, stride, "same", dilation)
    reach = (window - 1) * dilation + 1
    starts = range(-before, size + after - reach + 1, stride)
    assert len(starts) == output_size(size, window, stride, "same", dilation) == -(-size // stride)
    assert 0 <= after - before <= 1


def test_view_and_offsets_see_the_same_elements():
    w = Windows((5, 6), (2, 3), (2, 1), ((1, 0), (0, 2)), (2, 1))
    x = np.arange(2 * 5 * 6 * 3.0).reshape(2, 5, 6, 3)
    padded = w.pad(np, x, -1)
    view = w.view(np, padded)
    assert view.shape == (2, *w.out, 2, 3, 3)
    for tap in itertools.product(range(2), range(3)):
        np.testing.assert_array_equal(padded[w.offset(tap)], view[:, :, :, *tap])
    np.testing.assert_array_equal(padded[w.interior], x)
    assert padded[0, 0, 0, 0] == -1


@pytest.mark.parametrize(
    ("strides", "padding", "dilation", "sizes"),
    [
        ((1, 1), "valid", (1, 1), (5, 5)),  # of another array
        ((1, 1), "valid", (-1, 1), (5, 6)),
        ((-1, 1), ((20, 0), (0, 0)), (1, 1), (25, 6)),
    ],
)
def test_a_view_that_would_leave_the_array_is_refused(strides, padding, dilation, sizes):
    w = Windows((5, 6), (3, 2), strides, padding, dilation)
    with pytest.raises(ValueError, match=f"do not fit an array of sizes \\({sizes[0]}, "):
        w.view(np, np.zeros((2, *sizes, 3)))
