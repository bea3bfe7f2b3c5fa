"""Zeros, infinities and NaN: what reductions, losses and metrics give there, gradients included."""

import numpy as np
import pytest

import trainkit as tk

ops = tk.ops
inf, nan = np.inf, np.nan


def array(*values):
    return np.array(values, "float32")


def gradient(function, x):
    x = tk.constant(x)
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x).numpy()


QUANTILES = [
    (array(inf, inf), 0.5, inf),
    (array(-inf, -inf, 1, 2), [0.0, 0.1, 0.5, 0.9, 1.0], [-inf, -inf, -inf, 1.7, 2]),
    (array(1, 2, inf, inf), [0.0, 0.5, 0.6, 1.0], [1, inf, inf, inf]),
    (array(-inf, inf), 0.5, nan),
    (array(1, nan), 0.5, nan),
]


@pytest.mark.parametrize(("x", "q", "expected"), QUANTILES)
def test_quantiles_beside_infinities(x, q, expected):
    np.testing.assert_allclose(ops.quantile(x, q), expected, rtol=1e-6)
    traced = tk.function(lambda x: ops.quantile(x, q))
    np.testing.assert_allclose(traced(x), expected, rtol=1e-6)


def test_medians_beside_infinities():
    assert float(ops.median(array(inf, inf))) == inf
    assert float(ops.median(array(-inf, -inf, 1))) == -inf
    np.testing.assert_array_equal(ops.nanmedian(array(inf, nan, inf)), inf)


@pytest.mark.parametrize("reduce", [tk.reduce_max, tk.reduce_min, ops.max, ops.min])
def test_an_extreme_that_is_nan_has_a_gradient_that_is_nan(reduce):
    rows = array(1, nan, 3, 2, 5, 5).reshape(2, 3)
    found = gradient(lambda x: reduce(x, 1), rows)
    assert np.isnan(found[0]).all()
    assert found[1].sum() == 1
    assert np.isnan(gradient(tk.function(lambda x: reduce(x, 1)), rows)[0]).all()


def test_categorical_hinge_of_nan_has_a_gradient_that_is_nan():
    loss = tk.losses.CategoricalHinge()
    assert np.isnan(gradient(lambda y: loss(array(0, 1)[None], y), array(nan, 1)[None])).all()
    assert np.isnan(gradient(lambda y: loss(array(0, 1)[None], y), array(0.3, nan)[None])).all()


def test_the_cosine_similarity_at_the_zero_vector_has_the_slope_of_keras():
    loss = tk.losses.CosineSimilarity()
    found = gradient(lambda y: loss(array(3, 4)[None], y), array(0, 0)[None])
    np.testing.assert_allclose(found, [[-6e6, -8e6]], rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_zero_vector_is_normalized_to_itself(dtype):
    x = tk.zeros((2, 3), dtype)
    for y in (ops.normalize(x), tk.layers.UnitNormalization(dtype=dtype)(x)):
        np.testing.assert_array_equal(tk.cast(y, "float32"), np.zeros((2, 3)))


def test_unit_normalization_has_the_slope_of_keras_near_zero():
    layer = tk.layers.UnitNormalization()
    np.testing.assert_allclose(gradient(layer, array(0, 0)[None]), 1e12, rtol=1e-6)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (tk.metrics.AUC(), 0.625),
        (tk.metrics.AUC(thresholds=[0.5]), 0.5),
        (tk.metrics.AUC(thresholds=[0.3, 0.6]), 0.0),  # not evenly apart: no bins of [0, 1]
        (tk.metrics.SensitivityAtSpecificity(0.5), 1.0),
    ],
    ids=["AUC", "AUC even", "AUC uneven", "sensitivity"],
)
def test_scores_outside_of_0_and_1_count_as_keras_counts_them(metric, expected):
    metric.update_state([0, 1, 1, 0], [5.0, 0.5, 2.0, -3.0])
    assert float(metric.result()) == pytest.approx(expected)


def test_quotients_of_whole_numbers_are_exact():
    found = tk.math.divide_no_nan(tk.constant([1073741825, 7]), tk.constant([3, 0]))
    assert found.dtype == tk.float64
    np.testing.assert_array_equal(found, [1073741825 / 3, 0])
    small = tk.math.divide_no_nan(tk.constant([3, 7], "int8"), tk.constant([2, 0], "int8"))
    assert small.dtype == tk.float32
    assert tk.math.divide_no_nan(tk.constant([3.0, 7.0]), 2).dtype == tk.float32
    assert tk.math.divide_no_nan([3.0, 7.0], [2.0, 0.0]).dtype == tk.float32
