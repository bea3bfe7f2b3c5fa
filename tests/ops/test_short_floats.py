"""bfloat16, which NumPy does not know, stays what it is beside Python numbers."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import ops


@pytest.mark.parametrize(
    "op", [lambda x: ops.clip(x, 0.1, 0.5), ops.logsumexp, lambda x: ops.logsumexp(x, axis=0)]
)
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("size", [3, 20000])
def test_bfloat16_stays_bfloat16(op, compiled, size):
    x = ops.cast(np.linspace(0.0, 1.0, size), "bfloat16")
    y = (tk.function(op) if compiled else op)(x)
    assert y.dtype == "bfloat16"
    wide = op(ops.cast(x, "float32"))
    np.testing.assert_allclose(np.asarray(ops.cast(y, "float32")), wide, rtol=1e-2)
