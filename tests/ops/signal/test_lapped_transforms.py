import numpy as np
import pytest

import trainkit as tk

WAVE = np.sin(np.arange(16.0)).astype("f")

# Norm, window, and the second of three rows of `mdct(WAVE, 8)`: TensorFlow's numbers.
ROWS = [
    (None, tk.signal.vorbis_window, [-2.617687, 1.774347, 1.0909775, 0.21359645]),
    (None, None, [-1.1028268, 2.647036, -1.1001931, -0.69189596]),
    (None, tk.signal.kaiser_bessel_derived_window, [-2.7457187, 1.5285013, 1.292438, 0.15171993]),
    ("ortho", tk.signal.vorbis_window, [-0.9254921, 0.62732655, 0.3857188, 0.07551774]),
    ("ortho", None, [-0.38990816, 0.93586856, -0.38897702, -0.24462214]),
]


@pytest.mark.parametrize(("norm", "window", "expected"), ROWS)
def test_mdct_is_tensorflows_and_its_inverse_undoes_it(norm, window, expected):
    coefficients = tk.signal.mdct(WAVE, 8, window_fn=window, norm=norm)
    assert coefficients.dtype == tk.float32
    assert coefficients.shape == (3, 4)
    np.testing.assert_allclose(coefficients[1], expected, rtol=2e-5, atol=2e-6)
    back = tk.signal.inverse_mdct(coefficients, window_fn=window, norm=norm)
    assert back.shape == (16,)
    np.testing.assert_allclose(back[4:12], WAVE[4:12], atol=1e-6)


def test_ends_of_the_inverse_are_tensorflows():
    back = tk.signal.inverse_mdct(tk.signal.mdct(WAVE, 8))
    np.testing.assert_allclose(back[:4], [-0.008417, -0.192168, 0.3648, 0.140616], atol=2e-6)


def test_mdct_fills_up_the_end():
    assert tk.signal.mdct(WAVE, 8, pad_end=True).shape == (4, 4)
    assert tk.signal.mdct(WAVE, 32).shape == (0, 16)


def test_mdct_in_graphs_of_unknown_sizes():
    @tk.function(input_signature=[tk.TensorSpec((None, None), "float32")])
    def there_and_back(x):
        coefficients = tk.signal.mdct(x, 8)
        return coefficients, tk.signal.inverse_mdct(coefficients)

    batch = np.stack([WAVE, WAVE[::-1]])
    coefficients, back = there_and_back(batch)
    np.testing.assert_allclose(coefficients, tk.signal.mdct(batch, 8), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(back[:, 4:12], batch[:, 4:12], atol=1e-6)


@pytest.mark.parametrize("norm", [None, "ortho"])
def test_gradients_of_mdct(norm):
    x = tk.constant(WAVE, tk.float64)
    weights = tk.constant(np.random.default_rng(0).normal(size=(3, 4)))
    tk.autodiff.check_gradient(lambda x: tk.signal.mdct(x, 8, norm=norm), [x])
    tk.autodiff.check_gradient(lambda x: tk.signal.inverse_mdct(x, norm=norm), [weights])


def test_derived_window_is_tensorflows():
    window = tk.signal.kaiser_bessel_derived_window
    half = [0.006072, 0.388206, 0.921573, 0.999982]
    np.testing.assert_allclose(window(8), half + half[::-1], atol=1e-6)
    half = [0.220479, 0.707107, 0.975392]
    np.testing.assert_allclose(window(6, 4.0, tk.float64), half + half[::-1], atol=1e-6)
    assert window(6, 4.0, tk.float64).dtype == tk.float64
    assert window(0).shape == window(1).shape == (0,)
    np.testing.assert_allclose(window(7)[:3], [0.007131, 0.707107, 0.999975], atol=1e-6)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tk.signal.mdct(WAVE, 6), "multiple of 4, got 6"),
        (lambda: tk.signal.mdct(WAVE, 0), "must be above 0"),
        (lambda: tk.signal.mdct(1.0, 8), "got a scalar"),
        (lambda: tk.signal.mdct(WAVE, 8, norm="max"), "norm 'max'"),
        (lambda: tk.signal.inverse_mdct(WAVE), r"an even number\), got shape \(16,\)"),
        (lambda: tk.signal.inverse_mdct(tk.ones((2, 3))), r"got shape \(2, 3\)"),
        (lambda: tk.signal.inverse_mdct(tk.ones((2, 4)), norm="max"), "norm 'max'"),
        (lambda: tk.signal.kaiser_bessel_derived_window(4, dtype="int32"), "floating dtype"),
    ],
)
def test_bad_arguments_say_what_is_wrong(call, words):
    with pytest.raises((ValueError, tk.errors.InvalidArgumentError), match=words):
        call()
