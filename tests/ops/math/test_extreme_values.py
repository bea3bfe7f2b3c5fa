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


@pytest.mark.filterwarnings("ignore:.* compares scores with thresholds")
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


POLES = np.array([0.0, -0.0, -1.0, -1.5, inf, -inf, nan, 3.0])


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (1.0, [inf] * 8),
        (2.0, [inf, inf, inf, 9.379246644989124, 0, inf, nan, 0.39493406684822646]),
        (1.5, [nan, nan, nan, nan, 0, nan, nan, 1.2588219580922144]),
        (0.5, [nan] * 8),
        (inf, [inf, inf, inf, inf, 0, inf, nan, 0]),
    ],
)
def test_zeta_at_poles_and_infinities_is_tensorflows(x, expected):
    np.testing.assert_allclose(tk.math.zeta(np.full(8, x), POLES), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (0.0, [nan, nan, nan, 0.7031566406452434, inf, nan, nan, 0.9227843350984675]),
        (1.0, [inf, inf, inf, 9.379246644989124, 0, inf, nan, 0.39493406684822646]),
        (2.0, [nan, nan, nan, -0.23620405164172825, 0, nan, nan, -0.15411380631918856]),
        (1.5, [nan] * 8),
    ],
)
def test_polygamma_at_poles_and_infinities_is_tensorflows(order, expected):
    np.testing.assert_allclose(tk.math.polygamma(np.full(8, order), POLES), expected, rtol=1e-12)
    if order == 0:
        np.testing.assert_allclose(tk.math.digamma(POLES), expected, rtol=1e-12)


def test_zeta_far_below_zero():
    found = tk.math.zeta(np.array([2.0, 4.0]), np.array([-20.5, -100.25]))
    np.testing.assert_allclose(found, [9.82199434, 259.75757576], rtol=1e-9)  # SciPy's


@pytest.mark.parametrize(("function", "sign"), [(tk.math.igamma, 1), (tk.math.igammac, -1)])
def test_incomplete_gamma_functions_have_the_slope_by_their_exponent(function, sign):
    a, x = tk.constant([0.5, 2.0, 3.0, 10.0]), tk.constant([0.3, 1.0, 5.0, 9.0])
    with tk.GradientTape() as tape:
        tape.watch(a)
        y = function(a, x)
    expected = [-0.7705703973770142, -0.2761960029602051, -0.11369286477565765, -0.1270366311073]
    np.testing.assert_allclose(tape.gradient(y, a), np.multiply(expected, sign), rtol=1e-5)


def test_the_slope_by_the_exponent_at_the_ends():
    a, x = array(1, 1, 0, -1, nan, 1, 1), array(0, inf, 1, 1, 1, nan, -1)
    found = gradient(lambda a: tk.math.igamma(a, x), a)
    np.testing.assert_array_equal(found, [0, 0, nan, nan, nan, nan, nan])


POSITIONS = [
    ([1.0, nan, 3.0], 2, 0),
    ([nan, 1.0, 3.0, nan], 2, 1),
    ([inf, nan, -inf], 0, 2),
    ([nan, nan], 0, 0),
    ([nan, -inf], 0, 1),
]


@pytest.mark.parametrize(("values", "greatest", "least"), POSITIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_positions_of_extremes_beside_nan_are_tensorflows(values, greatest, least, dtype):
    x = tk.cast(values, dtype)
    assert (int(tk.argmax(x)), int(tk.argmin(x))) == (greatest, least)
    both = tk.function(lambda x: (tk.math.argmax(x[None], 1), tk.math.argmin(x[None], 1)))
    assert [int(y) for y in both(x)] == [greatest, least]


def test_positions_of_extremes_beside_nan_under_keras_name_are_those_of_nan():
    assert int(ops.argmax([1.0, nan, 3.0])) == int(ops.argmin([1.0, nan, 3.0])) == 1


def test_positions_in_what_is_empty_or_whole():
    assert tk.argmax(tk.zeros((3, 0)), 0).shape == (0,)
    assert int(tk.argmax([3, 7, 2])) == 1


def test_eigenvalues_of_complex_matrices_have_their_dtype():
    matrix = np.array([[2, 1j], [-1j, 2]], "complex64")
    values, vectors = tk.linalg.eigh(matrix)
    assert values.dtype == vectors.dtype == tk.linalg.eigvalsh(matrix).dtype == tk.complex64
    np.testing.assert_allclose(values, [1, 3], rtol=1e-5)
    assert tk.linalg.eigh(np.eye(2, dtype="float32"))[0].dtype == tk.float32


def test_scores_of_each_class_stand_in_the_history_as_arrays():
    model = tk.Sequential([tk.keras.Input((3,)), tk.layers.Dense(2, activation="softmax")])
    model.compile("sgd", "categorical_crossentropy", metrics=[tk.metrics.F1Score()])
    x, y = np.ones((8, 3), "float32"), np.eye(2, dtype="float32")[[0, 1] * 4]
    history = model.fit(x, y, validation_split=0.5, verbose=0).history
    for name in ("f1_score", "val_f1_score"):
        assert type(history[name][0]) is np.ndarray
        assert history[name][0].shape == (2,)
    assert type(history["loss"][0]) is float
    assert type(model.evaluate(x, y, verbose=0)[1]) is np.ndarray
    assert type(model.train_on_batch(x, y, return_dict=True)["f1_score"]) is np.ndarray


def test_the_hint_for_dlpack_names_what_is_there():
    with pytest.raises(AttributeError, match=r"tk\.array_api\.from_dlpack"):
        _ = tk.experimental.dlpack
    np.testing.assert_array_equal(tk.array_api.from_dlpack(np.ones(2)), [1, 1])


def test_gamma_functions_beside_zero():
    x = np.array([1e-30, -1e-30, 1e-12, -1e-12])
    np.testing.assert_allclose(tk.math.lgamma(x), -np.log(np.abs(x)), rtol=1e-10)
    np.testing.assert_allclose(tk.math.digamma(x), -1 / x, rtol=1e-10)


def test_the_slope_of_an_infinite_base_at_the_power_0_is_0():
    base = array(0, inf, -inf, 2)
    np.testing.assert_array_equal(gradient(lambda x: tk.pow(x, array(0, 0, 0, 0)), base), 0)


def test_a_factor_of_zero_has_the_slope_of_the_other_one():
    x = array(3, inf, nan)
    np.testing.assert_array_equal(tk.math.multiply_no_nan(x, array(0, 0, 0)), 0)
    by_y = gradient(lambda y: tk.math.multiply_no_nan(x, y), array(0, 0, 0))
    np.testing.assert_array_equal(by_y, [3, 0, 0])
    by_x = gradient(lambda x: tk.math.multiply_no_nan(x, array(0, 2, 0)), array(3, 3, nan))
    np.testing.assert_array_equal(by_x, [0, 2, 0])


def test_the_shares_of_a_logsumexp_of_great_numbers_add_up_to_1():
    found = gradient(lambda x: tk.reduce_logsumexp(x, 1), array(1e8, 1e8, 0)[None])
    np.testing.assert_allclose(found, [[0.5, 0.5, 0]])
    small = gradient(lambda x: tk.reduce_logsumexp(x, 1), array(1, 2, 3)[None])
    np.testing.assert_allclose(small.sum(), 1, rtol=1e-6)


@pytest.mark.parametrize(
    ("low", "high"), [(2, -2), (2.0, -2.0), (tk.constant(2.0), -2.0), (2.0, tk.constant(-2.0))]
)
def test_bounds_the_wrong_way_round_give_the_lower_one(low, high):
    x = array(-3, 0, 3)
    for run in (lambda f: f, tk.function):
        for clip in (ops.clip, tk.clip_by_value):
            assert (
                run(lambda v, clip=clip: clip(v, low, high))(tk.constant(x)).numpy().tolist()
                == [2.0] * 3
            )
        assert not gradient(run(lambda v: ops.clip(v, low, high)), x).any()


def test_bounds_the_wrong_way_round_send_the_gradient_to_the_lower_one():
    bounds = [tk.constant(2.0), tk.constant(-2.0)]
    with tk.GradientTape() as tape:
        tape.watch(bounds)
        y = tk.clip_by_value(array(-3, 0, 3), *bounds)
    assert [g.numpy() for g in tape.gradient(y, bounds)] == [3.0, 0.0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("function", [ops.quantile, ops.nanquantile])
@pytest.mark.parametrize("ends", [[], [np.nan, np.nan, np.inf], [-0.0, 0.0, -0.0, 0.0]])
def test_gradients_of_quantiles_go_to_the_first_of_equal_numbers(rng, dtype, function, ends):
    x = np.round(rng.normal(size=41))
    x[: len(ends)] = ends
    rows = tk.cast(tk.constant(np.stack([x, x])), dtype)
    for q in (0.0, 0.3, 0.5, [0.25, 1.0]):
        with tk.GradientTape(persistent=True) as tape:
            tape.watch(rows)
            row = rows[0]
            of_row, of_rows = function(row, q), function(rows, q, axis=1)
        expected = tape.gradient(of_rows, rows)[0]
        y = tape.gradient(of_row, row)
        np.testing.assert_array_equal(tk.cast(y, "float64"), tk.cast(expected, "float64"))
