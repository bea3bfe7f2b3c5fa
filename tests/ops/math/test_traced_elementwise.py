"""Element-wise operations in graphs give the dtypes and values that they give eagerly."""

import numpy as np
import pytest

from trainkit import ops
from trainkit.graph.tracing.function import function


def run_both(op, *values):
    eager = op(*values)
    traced = function(lambda *inputs: op(*inputs))(*values)
    return eager, traced


@pytest.mark.parametrize("name", ["gelu", "sigmoid", "elu", "sinc", "softplus", "leaky_relu"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32"])
def test_activation_in_a_graph(name, dtype):
    eager, traced = run_both(getattr(ops, name), ops.cast([1.0, -2.0, 0.0], dtype))
    assert traced.dtype == eager.dtype
    np.testing.assert_array_equal(
        ops.cast(traced, "float32").numpy(), ops.cast(eager, "float32").numpy()
    )


def test_square_of_bools_in_a_graph():
    eager, traced = run_both(ops.square, ops.array([True, False]))
    assert traced.dtype == eager.dtype == "int32"


def test_mixed_dtypes_in_a_graph():
    for op in (ops.add, ops.multiply, ops.divide, ops.maximum, ops.floor_divide, ops.power):
        eager, traced = run_both(op, ops.array([1, 2]), ops.array([0.5, 1.5]))
        assert traced.dtype == eager.dtype == "float32"
        np.testing.assert_array_equal(traced.numpy(), eager.numpy())


def test_reductions_in_a_graph():
    x = ops.array(np.arange(12.0, dtype="float32").reshape(3, 4))
    for op in (ops.sum, ops.mean, ops.var, ops.logsumexp, ops.median, ops.prod, ops.max):
        eager, traced = run_both(op, x)
        np.testing.assert_array_equal(traced.numpy(), eager.numpy())
