import numpy as np
import pytest

import trainkit as tk

draw = tk.random.stateless_parameterized_truncated_normal

# Mean, deviation, bounds; then the mean and deviation of such draws, worked out with SciPy.
MOMENTS = [
    ((0.0, 1.0, -2.0, 2.0), 0.0, 0.87962566),
    ((0.0, 1.0, 5.0, 6.0), 5.18314708, 0.17161711),
    ((0.0, 1.0, -6.0, -5.0), -5.18314708, 0.17161711),
    ((1.0, 2.0, -1.0, 4.0), 1.29037490, 1.28947277),
    ((0.0, 1.0, 29.0, 29.5), 29.03440102, 0.03435915),
    ((0.0, 1.0, 31.0, 40.0), 31.03219128, 0.03215807),
    ((0.0, 1.0, -40.0, -31.0), -31.03219128, 0.03215807),
    ((0.0, 1.0, 100.0, 300.0), 100.00999800, 0.00999692),
]


@pytest.mark.parametrize(("parameters", "mean", "deviation"), MOMENTS)
def test_draws_have_the_moments_between_their_bounds(parameters, mean, deviation):
    y = draw([40_000], (1, 2), *(tk.constant(p, tk.float64) for p in parameters)).numpy()
    assert parameters[2] <= y.min() < y.max() <= parameters[3]
    assert abs(y.mean() - mean) < 0.02 * deviation
    assert abs(y.std() - deviation) < 0.02 * deviation


def test_draws_depend_on_the_seed_alone():
    first = draw((5,), (1, 2))
    assert first.dtype == tk.float32
    np.testing.assert_array_equal(first, draw((5,), (1, 2)))
    assert np.all(first.numpy() != draw((5,), (2, 2)).numpy())
    graph = tk.function(lambda low: draw((5,), (1, 2), 0.0, 1.0, low))
    np.testing.assert_array_equal(graph(tk.constant(-2.0)), first)


def test_parameters_broadcast_to_the_end_of_the_shape():
    low, high = tk.constant([-1.0, 9.0]), tk.constant([[1.0], [2.0]]) + tk.constant([0.0, 9.0])
    y = draw((50, 2, 2), (7, 17), tk.constant([0.0, 10.0]), 1.0, low, high).numpy()
    assert y.shape == (50, 2, 2)
    assert np.all((low.numpy() <= y) & (y <= high.numpy()))
    assert draw((0, 2), (7, 17), tk.constant([0.0, 1.0])).shape == (0, 2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_rounding_keeps_the_bounds(dtype):
    parameters = [tk.constant(p, dtype) for p in (0.3, 0.7, 0.1, 0.11)]
    y = draw((500,), (1, 2), *parameters)
    assert y.dtype == dtype
    assert bool(tk.reduce_all((y >= parameters[2]) & (y <= parameters[3])))


def test_gradients_are_those_of_the_draws():
    values = [0.5, 1.5, -1.0, 4.0]

    def total(parameters):
        return tk.reduce_sum(draw((6,), (1, 2), *parameters))

    parameters = [tk.constant(v, tk.float64) for v in values]
    with tk.GradientTape() as tape:
        tape.watch(parameters)
        y = draw((6,), (1, 2), *parameters)
    by_mean, by_deviation, by_low, by_high = (float(g) for g in tape.gradient(y, parameters))
    assert by_mean == 6.0
    assert by_deviation == pytest.approx(float(tk.reduce_sum((y - 0.5) / 1.5)))
    for index, slope in ((2, by_low), (3, by_high)):
        sides = []
        for step in (1e-5, -1e-5):
            moved = [v + step * (k == index) for k, v in enumerate(values)]
            sides.append(float(total([tk.constant(v, tk.float64) for v in moved])))
        assert slope == pytest.approx((sides[0] - sides[1]) / 2e-5, rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"minvals": 2.0, "maxvals": 1.0}, "minvals must be below maxvals"),
        ({"minvals": 2.0, "maxvals": 2.0}, "minvals must be below maxvals"),
        ({"minvals": float("nan")}, "minvals must be below maxvals"),
        ({"maxvals": float("inf")}, "bounds must be finite"),
        ({"stddevs": -1.0}, "stddevs must be above 0"),
        ({"means": np.zeros(2, "f")}, r"must end with that of the parameters, \(2,\)"),
        ({"means": tk.constant(0)}, "one floating dtype, got int32"),
        ({"means": tk.constant(0.0), "stddevs": tk.constant(1.0, "float64")}, "float32, float64"),
        ({"seed": (1, 2, 3)}, "two integers"),
    ],
)
def test_bad_parameters_say_what_is_wrong(arguments, words):
    with pytest.raises(tk.errors.InvalidArgumentError, match=words):
        draw(**{"shape": (1,), "seed": (1, 2), **arguments})
