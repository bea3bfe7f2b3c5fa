import numpy as np
import pytest

import trainkit as tk
from tests.ops.numpy_compare import assert_same
from trainkit import ops
from trainkit.core.errors import InvalidArgumentError

SIGNAL = np.random.default_rng(0).normal(size=(2, 40))


def test_sequences_slide_over_the_last_axis():
    assert ops.extract_sequences([1, 2, 3, 4, 5, 6], 3, 2).tolist() == [[1, 2, 3], [3, 4, 5]]
    assert tuple(ops.extract_sequences([[1.0, 2.0]], 3, 1).shape) == (1, 0, 3)


def test_overlapping_windows_add_up():
    assert ops.overlap_add([[1, 2, 3], [10, 20, 30]], 2).tolist() == [1, 2, 13, 20, 30]
    assert ops.overlap_add([[1, 2], [3, 4]], 3).tolist() == [1, 2, 0, 3, 4]


def test_stft_of_a_ramp():
    re, im = ops.stft(np.arange(5.0), 3, 2, 3)
    assert_same(re, [[0.75, -0.375], [3.75, -1.875], [5.25, -2.625]])
    assert_same(im, [[0, 0.64951905], [0, 0.64951905], [0, -0.64951905]])


def test_each_frame_is_the_transform_of_a_window():
    re, im = ops.stft(SIGNAL, 8, 3, 16, center=False)
    window = np.pad(0.5 - 0.5 * np.cos(2 * np.pi * np.arange(8) / 8), 4)
    frame = np.fft.rfft(SIGNAL[:, 6:22] * window)
    assert_same(re[:, 2], frame.real)
    assert_same(im[:, 2], frame.imag)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("window", ["hann", "hamming", None, np.linspace(0.5, 1, 8)])
def test_istft_gives_the_signal_back_where_all_windows_reach(window, center):
    settings = {"window": window, "center": center}
    spectrum = ops.stft(SIGNAL, 8, 2, 16, **settings)
    back = ops.istft(spectrum, 8, 2, 16, **settings).numpy()
    inner = slice(4, 36) if center else slice(10, 30)
    overlapping = 8 if window is None else 1  # of 16 equal weights, 2 apart
    inner = slice(8, 32) if window is None and center else inner
    inner = slice(14, 26) if window is None and not center else inner
    np.testing.assert_allclose(back[:, inner], overlapping * SIGNAL[:, inner], atol=1e-10)
    assert ops.istft(spectrum, 8, 2, 16, length=20, **settings).shape == (2, 20)


# Settings, and what is left of the signal 1 ... 8: worked out with TensorFlow's `inverse_stft`.
BORDERS = [
    ((4, 1, 4), "hamming", [0.004026, 0.374937, 2.449673, 4, 5, 5.975843, 5.68772, 1.467539]),
    ((4, 2, 4), None, [1, 2, 6, 8, 10, 12, 7, 8]),
    ((4, 4, 4), "hann", [0, 2, 3, 4, 0, 6, 7, 8]),  # a weight of 0 gives no window anything
    ((1, 1, 1), "hann", [1, 2, 3, 4, 5, 6, 7, 8]),
]


@pytest.mark.parametrize(("lengths", "window", "expected"), BORDERS)
def test_istft_at_the_ends_of_the_signal_is_tensorflows(lengths, window, expected):
    spectrum = ops.stft(np.arange(1.0, 9.0), *lengths, window=window, center=False)
    back = ops.istft(spectrum, *lengths, window=window, center=False)
    np.testing.assert_allclose(back, expected, atol=1e-6)


def test_istft_of_a_symbol_has_the_length_that_was_asked_for():
    parts = tk.keras.KerasTensor((None, None, 5)), tk.keras.KerasTensor((None, None, 5))
    assert tuple(ops.istft(parts, 4, 1, 8, 3).shape) == (None, 3)
    assert tuple(ops.istft(parts, 4, 1, 8).shape) == (None, None)


def test_the_transform_has_the_next_power_of_two_by_default():
    assert ops.stft(SIGNAL, 6, 2, None)[0].shape[-1] == 5


ERRORS = [
    (lambda: ops.stft(SIGNAL, 8, 2, 4), "fft_length 4 is less than sequence_length 8"),
    (lambda: ops.stft(SIGNAL, 8, 2, 8, window="flat"), "'flat' is none of"),
    (lambda: ops.stft(SIGNAL, 8, 2, 8, window=np.ones(3)), r"must have shape \(8,\)"),
    (lambda: ops.stft([1.0], 8, 2, 8), "'reflect' allows size - 1"),
    (lambda: ops.istft(SIGNAL, 8, 2, 8), "takes a pair of tensors"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors_say_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_lengths_are_above_zero():
    with pytest.raises(InvalidArgumentError, match="sequence_stride must be a whole number"):
        ops.extract_sequences(SIGNAL, 2, 0)
    with pytest.raises(InvalidArgumentError, match="needs windows"):
        ops.overlap_add([1.0], 1)


def test_weights_that_are_0_in_all_windows_bring_back_0():
    window = tk.signal.inverse_stft_window_fn(8)(8)  # Hann's first weight, without an overlap
    assert float(window[0]) == 0
    assert np.isfinite(window).all()
