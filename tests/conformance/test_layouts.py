"""Every primitive on arrays whose elements do not lie one behind the other: the same numbers."""

import numpy as np
import pytest

from tests.conformance.table import all_cases
from trainkit.autodiff.tape import GradientTape
from trainkit.core import nest
from trainkit.core.tensor import Tensor, wrap

SINGLE = {"float64": np.float32, "complex128": np.complex64}
ERROR = {"rtol": 2e-5, "atol": 2e-5}


def in_order(x):
    return np.array(x, order="C")


def by_columns(x):
    return np.array(x, order="F")


def backwards(x):
    key = (slice(None, None, -1),) * x.ndim
    return np.array(x[key], order="C")[key]


def every_second(x):
    if not x.ndim:
        return x
    y = np.full((*x.shape[:-1], 2 * x.shape[-1]), 7, x.dtype)[..., ::2]
    y[...] = x
    return y


def results_and_gradients(case, layout):
    inputs = [
        wrap(layout(x.astype(SINGLE.get(x.dtype.name, x.dtype)))) if hasattr(x, "dtype") else x
        for x in case.inputs
    ]
    sources = [x for x in inputs if isinstance(x, Tensor) and x.dtype.is_differentiable]
    with GradientTape() as tape:
        tape.watch(sources)
        results = nest.flatten(case.op(*inputs, **case.settings))
    targets = [y for y in results if y.dtype.is_differentiable]
    rng = np.random.default_rng(0)
    weights = [
        wrap(layout(np.asarray(rng.normal(size=y.shape)).astype(y.dtype.dtype))) for y in targets
    ]
    gradients = tape.gradient(targets, sources, output_gradients=weights) if targets else []
    return [None if y is None else np.asarray(y) for y in (*results, *gradients)]


@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_layouts_change_no_number(case):
    expected = results_and_gradients(case, in_order)
    for layout in (by_columns, backwards, every_second):
        for x, y in zip(expected, results_and_gradients(case, layout), strict=True):
            assert (x is None) == (y is None)
            if x is not None and x.dtype.kind in "USO":
                assert np.array_equal(x, y)
            elif x is not None:
                np.testing.assert_allclose(y, x, **ERROR, err_msg=layout.__name__)
