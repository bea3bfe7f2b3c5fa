"""Convolutions by weights that stay have the bits of a first call, and are remembered."""

import numpy as np
import pytest

from trainkit.kernels.convolution import conv_tuned
from trainkit.kernels.convolution.sliding_windows import Windows
from trainkit.kernels.matmul.epilogue_tuned import Epilogue
from trainkit.kernels.matmul.prepared_weights import PreparedWeights
from trainkit.kernels.normalization.norm_tuned import NONE, RELU6
from trainkit.kernels.repeated.repeated_convolution import RepeatedConvolution

pytestmark = pytest.mark.usefixtures("on_cpu", "eager")


@pytest.mark.parametrize("follows", [False, True])
@pytest.mark.parametrize("rectify", [False, True])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(
    ("size", "channels", "filters"),
    [(1, 32, 8), (1, 8, 32), (1, 672, 28), (1, 4, 1), (3, 5, 7), (4, 16, 32), (40, 24, 144)],
)
def test_pointwise_ones_of_any_size_are_remembered(
    rng, size, channels, filters, stride, rectify, follows
):
    w = Windows((size, size), (1, 1), (stride, stride), "valid", (1, 1))
    images = rng.normal(size=(3, 1, size, size, channels)).astype("float32")
    kernel = rng.normal(size=(1, 1, channels, filters)).astype("float32")
    bias, factor, shift = rng.normal(size=(3, filters)).astype("float32")
    rectifier = RELU6 if follows else NONE
    epilogue = Epilogue(factor, shift, None, rectifier) if follows else None
    operands = (factor, shift, None) if follows else (None, None, None)
    repeated = RepeatedConvolution(PreparedWeights(), rectify, rectifier, lambda *_: None)
    for x in images:  # weights are kept once they have come a few times
        repeated.first(w, 1, x, kernel, bias, epilogue)
    is_remembered = True
    for x in images:
        expected = conv_tuned.forward(w, x, kernel, bias, rectify, 1, None, epilogue)
        y = repeated.calls(x, kernel, bias, *operands)
        if y is None:
            is_remembered = False
            y = repeated.first(w, 1, x, kernel, bias, epilogue)
        np.testing.assert_array_equal(y, expected)
    # a product with its own rectifier and another behind it is made anew, as one with strides is
    is_large = size > 4 and (stride == 2 or (rectify and follows))
    assert is_remembered is not is_large
