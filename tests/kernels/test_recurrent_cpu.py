"""The compiled LSTM against the plain one."""

import numpy as np
import pytest

from trainkit.kernels import recurrent_cpu, recurrent_plain


@pytest.mark.parametrize(("batch", "steps", "units"), [(3, 4, 32), (17, 5, 64), (8, 1, 96)])
def test_lstm_and_its_gradient_equal_the_plain_version(eager, rng, batch, steps, units):
    def normal(*shape):
        return rng.normal(size=shape).astype("float32")

    inputs = (
        normal(batch, steps, 4 * units) * 3,
        normal(batch, units),
        normal(batch, units),
        normal(units, 4 * units),
    )
    expected = recurrent_plain.lstm(np, *inputs)
    found = recurrent_cpu.lstm(*inputs)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5)
    slopes = normal(batch, steps, units), normal(batch, steps, units)
    found = recurrent_cpu.lstm_gradient(*slopes, *inputs[1:], *expected)
    expected = recurrent_plain.lstm_gradient(np, *slopes, *inputs[1:], *expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-3)


def test_other_units_and_dtypes_are_left_to_the_plain_version(eager, rng):
    inputs = [rng.normal(size=s) for s in ((2, 3, 40), (2, 10), (2, 10), (10, 40))]
    assert recurrent_cpu.lstm(*(x.astype("float32") for x in inputs)) is None
    inputs = [rng.normal(size=s) for s in ((2, 3, 128), (2, 32), (2, 32), (32, 128))]
    assert recurrent_cpu.lstm(*inputs) is None
