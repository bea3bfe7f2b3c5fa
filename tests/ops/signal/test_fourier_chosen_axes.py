import numpy as np
import pytest

import trainkit as tk

REAL = np.random.default_rng(0).normal(size=(3, 4, 5))
COMPLEX = REAL + 1j * REAL[::-1]

SETTINGS = [
    {},
    {"axes": [0]},
    {"axes": [2, 0]},
    {"axes": [-2, -1]},
    {"fft_length": [2, 6, 4]},
    {"fft_length": [6], "axes": [1]},
    {"fft_length": [2, 7], "axes": [2, 1], "norm": "forward"},
    {"norm": "ortho"},
    {"norm": "backward", "axes": [1]},
    {"norm": "ortho", "axes": [0, 1], "fft_length": [5, 3]},
]
FUNCTIONS = [("fft", COMPLEX), ("ifft", COMPLEX), ("rfft", REAL), ("irfft", COMPLEX)]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize(("kind", "x"), FUNCTIONS, ids=[kind for kind, _ in FUNCTIONS])
def test_transforms_over_any_axes_are_numpys(kind, x, settings):
    axes = settings.get("axes", range(3))
    reference = getattr(np.fft, kind + "n")
    expected = reference(x, settings.get("fft_length"), axes, settings.get("norm"))
    transform = getattr(tk.signal, kind + "nd")
    result = transform(x, **settings)
    assert result.dtype == expected.dtype.name
    np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-12)
    single = x.astype("complex64" if x is COMPLEX else "float32")
    graph = tk.function(lambda x: transform(x, **settings))
    np.testing.assert_allclose(graph(single), expected, rtol=1e-4, atol=1e-5)


def test_lengths_and_axes_may_be_tensors():
    result = tk.signal.fftnd(COMPLEX, tk.constant([6, 2]), tk.constant([0, 2]))
    np.testing.assert_allclose(result, np.fft.fftn(COMPLEX, [6, 2], [0, 2]), atol=1e-12)


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
def test_gradients_by_real_numbers(norm):
    def there_and_back(x):
        spectrum = tk.signal.rfftnd(x, axes=[2, 1], norm=norm)
        whole = tk.signal.fftnd(spectrum * spectrum, axes=[0], norm=norm)
        whole = tk.signal.ifftnd(whole, axes=[0, 1], norm=norm)
        return tk.signal.irfftnd(whole, [3, 4], axes=[0, 2], norm=norm)

    tk.autodiff.check_gradient(there_and_back, [REAL])


def test_sizes_that_are_not_known():
    @tk.function(input_signature=[tk.TensorSpec((None, 4), "complex128")])
    def transform(x):
        return tk.signal.fftnd(x)

    np.testing.assert_allclose(transform(COMPLEX[..., :4][0]), np.fft.fftn(COMPLEX[0][:, :4]))
    scaled = tk.function(lambda x: tk.signal.fftnd(x, norm="ortho"))
    with pytest.raises(ValueError, match="give fft_length"):
        scaled.get_concrete_function(tk.TensorSpec((None, 4), "complex128"))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tk.signal.fftnd(COMPLEX, norm="max"), "fftnd: norm 'max' is none of"),
        (lambda: tk.signal.irfftnd(COMPLEX, norm="max"), "irfftnd: norm 'max' is none of"),
        (lambda: tk.signal.fftnd(COMPLEX, axes=[3]), "fftnd"),
        (lambda: tk.signal.rfftnd(REAL, axes=[1, 1]), "rfftnd"),
        (lambda: tk.signal.ifftnd(COMPLEX, axes=[]), "needs one axis at least"),
        (lambda: tk.signal.fftnd(COMPLEX, [2, 2], axes=[1]), "must have 1 numbers"),
        (lambda: tk.signal.rfftnd(COMPLEX), "takes real numbers"),
    ],
)
def test_bad_arguments_say_what_is_wrong(call, words):
    with pytest.raises((ValueError, tk.errors.InvalidArgumentError), match=words):
        call()
