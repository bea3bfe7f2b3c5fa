"""Exported spectra, masks and tables in onnxruntime, for several sizes of a batch."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import keras
from trainkit.core.errors import UnimplementedError

onnxruntime = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(4)


def rand(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def compare(function, specs, draws, path, tolerance=1e-4, **settings):
    """Write a function, and run it in onnxruntime on each of the inputs."""
    traced = tk.function(function, input_signature=specs)
    tk.saved_graph.export_onnx(traced, path, **settings)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options)
    for arrays in draws:
        feeds = {x.name: a for x, a in zip(session.get_inputs(), arrays, strict=True)}
        expected = [np.asarray(y) for y in tk.nest.flatten(traced(*arrays))]
        for y, result in zip(expected, session.run(None, feeds), strict=True):
            assert y.dtype == result.dtype
            np.testing.assert_allclose(result, y, rtol=tolerance, atol=tolerance)


def spectrum(x):
    y = tk.signal.rfft(x)
    return tk.abs(y), tk.math.real(y), tk.math.imag(y)


def there_and_back(x):
    return tk.signal.irfft(tk.signal.rfft(x)), tk.signal.irfft(tk.signal.rfft(x), [9])


def padded(x):
    y = tk.signal.rfft(x)
    return tk.signal.irfft(y, [20]), tk.abs(y[..., None, 1:3]), tk.abs(tk.expand_dims(y, 1))


def pairs(x):
    re, im = tk.ops.fft((x, x * 2))
    return re, im, *tk.ops.ifft2((x, x)), *tk.ops.rfft(x, 16), tk.ops.irfft((x, x), 11)


def filtered(x):
    y = tk.signal.rfft(x)
    y = y * tk.cast(tk.range(7.0), "complex64") - tk.math.conj(y) + y
    return tk.signal.irfft(-y), tk.abs(tk.transpose(y)), tk.ops.view_as_real(y)


@pytest.mark.parametrize("opset", [18, 20, 23])
@pytest.mark.parametrize("function", [spectrum, there_and_back, padded, pairs, filtered])
def test_spectra_of_any_batch(function, opset, tmp_path):
    draws = [(rand(n, 12),) for n in (1, 3, 8)]
    path = tmp_path / "f.onnx"
    compare(function, [tk.TensorSpec([None, 12])], draws, path, 1e-3, opset_version=opset)


def test_spectra_of_one_signal_of_any_length(tmp_path):
    draws = [(rand(n),) for n in (2, 5, 16)]
    compare(spectrum, [tk.TensorSpec([None])], draws, tmp_path / "f.onnx")


def test_short_time_spectra_of_any_length(tmp_path):
    def function(x):
        y = tk.signal.stft(x, 8, 3, 16)
        return tk.abs(y), tk.signal.inverse_stft(y, 8, 3, 16)

    draws = [(rand(*shape),) for shape in ((1, 8), (3, 31), (2, 40))]
    compare(function, [tk.TensorSpec([None, None])], draws, tmp_path / "f.onnx")


def test_mel_spectrograms_of_a_model(tmp_path):
    layers = keras.layers
    model = keras.Sequential(
        [keras.Input((800,)), layers.MelSpectrogram(64, sequence_stride=32, num_mel_bins=20)]
    )
    path = tmp_path / "m.onnx"
    model.export(path, verbose=False)
    session = onnxruntime.InferenceSession(path)
    for batch in (1, 5):
        x = rand(batch, 800)
        (y,) = session.run(None, {session.get_inputs()[0].name: x})
        np.testing.assert_allclose(y, model(x), rtol=1e-3, atol=1e-2)
    loaded = tk.onnx.load(path)
    np.testing.assert_allclose(loaded(x), model(x), rtol=1e-3, atol=1e-2)


def test_complex_numbers_without_a_form_are_named(tmp_path):
    traced = tk.function(lambda x: tk.abs(tk.sin(tk.signal.rfft(x))))
    with pytest.raises(UnimplementedError, match=r"sin.*ONNX has no complex numbers"):
        tk.saved_graph.export_onnx(traced, tmp_path / "f.onnx", tk.TensorSpec([None, 8]))
    traced = tk.function(lambda x: tk.complex(x, x[:, :1]))
    with pytest.raises(UnimplementedError, match="complex64"):
        tk.saved_graph.export_onnx(traced, tmp_path / "f.onnx", tk.TensorSpec([None, 8]))


def masks(x):
    rows = tk.reduce_sum(x, 1) > 0
    flat = tk.reshape(x, [-1])
    return (
        x[x > 0.5],
        x[rows],
        tk.boolean_mask(x, rows),
        x[:, 0][rows],
        x[None, rows],
        flat[flat < 0],
    )


def positions(x):
    return tk.where(x > 0), *tk.ops.nonzero(x > 0.5)


def checks_of_numbers(x):
    odd = tk.where(x > 1, float("inf"), tk.where(x < -1, float("-inf"), x))
    odd = tk.where(tk.abs(x) < 0.1, float("nan"), odd)
    return (
        tk.ops.isneginf(odd), tk.ops.isposinf(odd), tk.ops.isclose(odd, odd),
        tk.ops.isclose(odd, odd, equal_nan=True), tk.ops.isclose(x, x + 0.1, atol=0.11),
        tk.ops.heaviside(tk.round(x), 0.5), tk.ops.isin(tk.round(x), [0.0, 1.0]),
    )  # fmt: skip


@pytest.mark.parametrize("function", [masks, positions, checks_of_numbers])
def test_what_is_chosen_by_values(function, tmp_path):
    draws = [(rand(n, 3),) for n in (1, 4, 9)] + [(np.zeros((2, 3), "f"),)]
    compare(function, [tk.TensorSpec([None, 3])], draws, tmp_path / "f.onnx")


def test_masks_beside_other_indices_are_named(tmp_path):
    for function in (lambda x: x[x[:, 0] > 0, 1], lambda x: x[x[:, 0] > 0, tk.constant([1])]):
        traced = tk.function(function)
        with pytest.raises(UnimplementedError, match="index twice"):
            tk.saved_graph.export_onnx(traced, tmp_path / "f.onnx", tk.TensorSpec([None, 8]))


def test_targets_in_the_top_and_segments(tmp_path):
    def function(targets, scores):
        segments = (
            tk.ops.segment_max(scores, targets, 6),
            tk.ops.segment_min(scores, targets - 1, 5),
        )
        return tk.math.in_top_k(targets, scores, 2), *segments

    draws = [(RNG.integers(0, 5, n).astype(np.int32), rand(n, 5)) for n in (1, 4, 30)]
    specs = [tk.TensorSpec([None], "int32"), tk.TensorSpec([None, 5])]
    compare(function, specs, draws, tmp_path / "f.onnx")


def test_folded_columns(tmp_path):
    def function(x):
        return tk.ops.fold(x, (5, 6), (2, 3)), tk.ops.fold(x[..., :4], (4, 5), (2, 3), 1, 0, 2)

    draws = [(rand(n, 12, 16),) for n in (1, 3)]
    compare(function, [tk.TensorSpec([None, 12, 16])], draws, tmp_path / "f.onnx")


@pytest.mark.parametrize("settings", [{}, {"num_oov_indices": 3, "oov_method": "floormod"},
                                      {"mask_token": 0}, {"invert": True},
                                      {"output_mode": "multi_hot"}])  # fmt: skip
def test_tables_of_integers(settings, tmp_path):
    layer = keras.layers.IntegerLookup(vocabulary=[7, -3, 12, 40], **settings)
    model = keras.Sequential([keras.Input((4,), dtype="int64"), layer])
    path = tmp_path / "m.onnx"
    model.export(path, verbose=False)
    session = onnxruntime.InferenceSession(path)
    for batch in (1, 6):
        x = RNG.choice([7, -3, 12, 40, 0, 1, 2, 5, -8], (batch, 4))
        x = RNG.integers(0, 5, (batch, 4)) if "invert" in settings else x
        (y,) = session.run(None, {session.get_inputs()[0].name: x})
        np.testing.assert_array_equal(y, model(x))
