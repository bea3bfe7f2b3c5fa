"""float32 as bfloat16 and back: the bits of `astype`, whatever the layout."""

import ml_dtypes
import numpy as np
import pytest

from trainkit.kernels.elementwise.short_casts_tuned import cast

BF16, F32 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32)


@pytest.mark.parametrize("size", [0, 3, 1 << 10, 4099])
def test_bits_are_those_of_astype(eager, rng, size):
    bits = rng.integers(0, 1 << 32, size).astype(np.uint32)
    bits[:4] = [0x7F800001, 0xFFFFFFFF, 0x7F7FFFFF, 0x00018000][:size]
    x = bits.view(np.float32)
    with np.errstate(all="ignore"):
        short = x.astype(BF16)
    np.testing.assert_array_equal(cast(x, BF16).view(np.uint16), short.view(np.uint16))
    wide = short.astype(F32)
    np.testing.assert_array_equal(cast(short, F32).view(np.uint32), wide.view(np.uint32))
    assert cast(x, F32) is x


def test_layouts_stay_and_nothing_need_be_writeable(eager, rng):
    x = rng.normal(size=(9, 20, 30)).astype(F32)
    x.setflags(write=False)
    for view in (x, x.transpose(2, 1, 0), x[:, ::2], np.asfortranarray(x)[:, :, 0]):
        y = cast(view, BF16)
        np.testing.assert_array_equal(y.astype(F32), view.astype(BF16).astype(F32))
        assert y.strides == view.astype(BF16).strides
