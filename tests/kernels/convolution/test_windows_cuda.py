"""Columns of windows and their sums on a GPU, beside the reference of the CPU."""

import numpy as np
import pytest

from tests import stand_in
from tests.stand_in.kernels import has_compiler
from trainkit.core.dtypes import bfloat16
from trainkit.kernels.convolution import conv_reference, windows_cuda
from trainkit.kernels.convolution.sliding_windows import Windows

pytestmark = pytest.mark.skipif(not has_compiler(), reason="no g++ for this machine is here")
DRAWN = np.random.default_rng(0)
# sizes, window, strides, padding, dilation
PLACES = {
    "line": ((7,), (3,), (1,), "same", (1,)),
    "strided line": ((9,), (2,), (3,), "valid", (1,)),
    "picture": ((6, 5), (3, 3), (1, 1), "same", (1, 1)),
    "strides": ((7, 8), (3, 2), (2, 3), "same", (1, 1)),
    "dilation": ((8, 9), (2, 3), (1, 1), "same", (3, 2)),
    "pairs": ((4, 4), (3, 3), (2, 1), ((2, 0), (1, 3)), (1, 1)),
    "gaps": ((7, 7), (1, 1), (2, 3), "valid", (1, 1)),
    "volume": ((4, 3, 5), (2, 3, 2), (1, 2, 1), "same", (1, 1, 2)),
    "far": ((2, 2), (1, 1), (1, 1), ((3, 2), (2, 4)), (1, 1)),
}


@pytest.fixture
def launches(kernel_names):
    with stand_in.in_place():
        import cupy

        yield cupy, kernel_names


def arrays(w, channels, filters, groups, dtype, images=2):
    def drawn(*shape):
        return DRAWN.integers(-3, 4, shape).astype(dtype)

    x = drawn(images, *w.sizes, channels)
    kernel = drawn(*w.window, channels // groups, filters)
    return x, kernel, drawn(images, *w.out, filters)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", bfloat16.dtype])
@pytest.mark.parametrize(("channels", "groups"), [(4, 1), (3, 1), (6, 2), (8, 2)])
@pytest.mark.parametrize("place", PLACES)
def test_convolutions_and_their_gradients(launches, place, channels, groups, dtype):
    xp, names = launches
    w = Windows(*PLACES[place])
    x, kernel, g = arrays(w, channels, 2 * groups, groups, dtype)
    results = []
    for module, given in ((np, (x, kernel, g)), (xp, tuple(map(xp.asarray, (x, kernel, g))))):
        a, b, c = given
        results.append(
            [
                conv_reference.conv(module, w, a, b, groups),
                conv_reference.conv_input_gradient(module, w, c, b, groups),
                conv_reference.conv_kernel_gradient(module, w, a, c, groups),
            ]
        )
    for here, there in zip(*results, strict=True):
        assert (there.dtype, there.shape) == (here.dtype, here.shape)
        near = 2e-2 if dtype == bfloat16.dtype else 1e-3
        np.testing.assert_allclose(
            there.get().astype("f8"), here.astype("f8"), rtol=near, atol=near
        )
    kinds = [name.partition("_")[0] for name in names]
    assert (kinds.count("columns"), kinds.count("sum")) == (2 * groups, groups)


def test_no_launch_for_windows_of_one_element(launches):
    xp, names = launches
    w = Windows((3, 4), (1, 1), (1, 1), "valid", (1, 1))
    x, kernel, g = map(xp.asarray, arrays(w, 4, 3, 1, "float32"))
    y = conv_reference.conv(xp, w, x, kernel, 1)
    np.testing.assert_allclose(y.get(), x.get() @ kernel.get()[0, 0], rtol=1e-6)
    conv_reference.conv_input_gradient(xp, w, g, kernel, 1)
    assert names == []


@pytest.mark.parametrize("images", [0, 1])
def test_no_images_and_turned_ones(launches, images):
    xp, _ = launches
    w = Windows(*PLACES["picture"])
    x, kernel, g = arrays(w, 4, 3, 1, "float32", images)
    turned = xp.asarray(np.ascontiguousarray(x.swapaxes(1, 2))).swapaxes(1, 2)
    y = conv_reference.conv(xp, w, turned, xp.asarray(kernel), 1)
    np.testing.assert_allclose(y.get(), conv_reference.conv(np, w, x, kernel, 1), rtol=1e-6)
    by_x = conv_reference.conv_input_gradient(xp, w, xp.asarray(g), xp.asarray(kernel), 1)
    assert by_x.shape == x.shape


def test_four_axes_and_a_missing_compiler_take_the_long_way(launches, monkeypatch):
    xp, names = launches
    deep = Windows((3,) * 4, (2,) * 4, (1,) * 4, "same", (1,) * 4)
    monkeypatch.setattr(windows_cuda.RawKernel, "is_there", lambda self, xp: False)
    for w in (deep, Windows(*PLACES["strides"])):
        x, kernel, g = arrays(w, 2, 3, 1, "float32")
        a, b, c = map(xp.asarray, (x, kernel, g))
        for f, here, there in (
            (conv_reference.conv, (x, kernel), (a, b)),
            (conv_reference.conv_input_gradient, (g, kernel), (c, b)),
            (conv_reference.conv_kernel_gradient, (x, g), (a, c)),
        ):
            np.testing.assert_allclose(
                f(xp, w, *there, 1).get(), f(np, w, *here, 1), rtol=1e-5, atol=1e-5
            )
    assert names == []
