"""Sounds as images of their frequencies: STFTSpectrogram, MelSpectrogram."""

from __future__ import annotations

import math
import warnings
from typing import Any

from trainkit import initializers, ops
from trainkit.core.errors import InvalidArgumentError
from trainkit.layers.base.arguments import format_of, one_of, whole
from trainkit.layers.base.input_spec import InputSpec
from trainkit.layers.base.layer import Layer
from trainkit.layers.preprocessing.data_layer import DataLayer
from trainkit.ops.neural.normalization import EPSILON
from trainkit.ops.signal.cosine_transforms import linear_to_mel_weight_matrix

_LONGEST = 1 << 24  # samples in a frame, or numbers in a matrix of bands
_MODES = tuple("log magnitude psd real imag angle stft".split())


class STFTSpectrogram(Layer):
    """The short-time Fourier transform of signals, computed by a convolution whose kernels train.

    Shapes: input (batch, time, channels), output (batch, frames, bins * channels) with
    fft_length // 2 + 1 bins, twice as many for mode `"stft"`; with `expand_dims` (batch, frames,
    bins, channels). With `data_format="channels_first"`: input (batch, channels, time), output
    (batch, channels * bins, frames) or (batch, channels, frames, bins).

    Args:
        mode: what of the transform: `"log"` of the magnitude, `"magnitude"`, `"psd"` (power on both
            sides of 0), `"real"`, `"imag"`, `"angle"`, or `"stft"` (real beside imaginary parts).
        frame_length: samples in a frame.
        frame_step: samples from a frame to the next; half a frame by default.
        fft_length: length of the transform; by default the next power of two.
        window: name of a window, its values, or `None`.
        periodic: whether the window is periodic rather than symmetric.
        scaling: of the window: `"density"`, `"spectrum"` or `None`.
        padding: `"valid"` or `"same"`.
        expand_dims: whether bins and channels get an axis each.
        **kwargs: those of `Layer`.

    Raises:
        ValueError: a setting is none of these.
        TypeError: the input is of other dtypes than float16, float32 and float64.

    Example:
        >>> layer = tk.layers.STFTSpectrogram(frame_length=16, frame_step=8)
        >>> layer(tk.ones((1, 64, 1))).shape
        TensorShape([1, 7, 9])
    """

    def __init__(
        self,
        mode: str = "log",
        frame_length: int = 256,
        frame_step: int | None = None,
        fft_length: int | None = None,
        window: Any = "hann",
        periodic: bool = False,
        scaling: str | None = "density",
        padding: str = "valid",
        expand_dims: bool = False,
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.mode = one_of(self, "mode", mode, _MODES)
        self.frame_length = whole(self, "frame_length", frame_length, 1, _LONGEST)
        if frame_step is not None and not 1 <= frame_step <= frame_length:
            raise InvalidArgumentError(
                f"STFTSpectrogram: frame_step must lie in [1, {frame_length}], the length of a "
                f"frame, got {frame_step}"
            )
        if fft_length is not None and fft_length < frame_length:
            raise InvalidArgumentError(
                f"STFTSpectrogram: fft_length must be at least {frame_length}, the length of a "
                f"frame, got {fft_length}"
            )
        if fft_length is not None and fft_length & (fft_length - 1):
            warnings.warn(
                f"STFTSpectrogram: fft_length should be a power of two, got {fft_length}",
                stacklevel=2,
            )
        self.frame_step = frame_step
        self.fft_length = fft_length
        self._step = frame_step or frame_length // 2
        self._bins = (fft_length or 2 ** math.ceil(math.log2(frame_length))) // 2 + 1
        self.window = window
        self.periodic = periodic
        self.scaling = scaling
        self.padding = one_of(self, "padding", str(padding).lower(), ("valid", "same"))
        self.expand_dims = expand_dims
        self.data_format = format_of(self, data_format)
        self.input_spec = InputSpec(ndim=3)
        self._kernel("real")  # which says now what is wrong with the window

    def _kernel(self, side: str) -> initializers.Initializer:
        return initializers.STFT(side, self.window, self.scaling, self.periodic)

    def build(self, input_shape: Any) -> None:
        shape = (self.frame_length, 1, self._bins)
        if self.mode != "imag":
            self.real_kernel = self.add_weight("real_kernel", shape, self._kernel("real"))
        if self.mode != "real":
            self.imag_kernel = self.add_weight("imag_kernel", shape, self._kernel("imag"))

    def call(self, inputs: Any) -> Any:
        if inputs.dtype.name not in ("float16", "float32", "float64"):
            raise TypeError(
                "STFTSpectrogram takes float16, float32 or float64, got inputs of "
                f"{inputs.dtype.name}"
            )
        x = ops.swapaxes(inputs, 1, 2) if self.data_format == "channels_last" else inputs
        real = self._filter(x, self.real_kernel) if self.mode != "imag" else None
        imaginary = self._filter(x, self.imag_kernel) if self.mode != "real" else None
        return self._laid_out(self._of_mode(real, imaginary))

    def _filter(self, x: Any, kernel: Any) -> Any:
        """Signals (batch, channels, time) as (batch, channels, frames, bins)."""
        channels, time = ops.shape(x)[1:]
        frames = ops.conv(
            ops.reshape(x, (-1, time, 1)),
            ops.cast(kernel, x.dtype),
            strides=self._step,
            padding=self.padding,
            data_format="channels_last",
        )
        return ops.reshape(frames, (-1, channels, *ops.shape(frames)[1:]))

    def _of_mode(self, real: Any, imaginary: Any) -> Any:
        """What the mode names, from the two parts (..., bins)."""
        if self.mode in ("real", "imag"):
            return real if self.mode == "real" else imaginary
        if self.mode == "angle":
            return ops.arctan2(imaginary, real)
        if self.mode == "stft":
            return ops.concatenate([real, imaginary], axis=-1)
        power = ops.square(real) + ops.square(imaginary)
        if self.mode == "psd":  # negative frequencies have what the positive ones have
            return power + ops.pad(power[..., 1:-1], ((0, 0), (0, 0), (0, 0), (1, 1)))
        magnitude = ops.sqrt(ops.maximum(power, EPSILON))
        if self.mode == "magnitude":
            return magnitude
        return ops.log(ops.maximum(magnitude, EPSILON))

    def _laid_out(self, y: Any) -> Any:
        """(batch, channels, frames, bins) in the layout of the output."""
        last = self.data_format == "channels_last"
        if self.expand_dims:
            return ops.transpose(y, (0, 2, 3, 1)) if last else y
        channels, frames, bins = ops.shape(y)[1:]
        if last:
            y = ops.transpose(y, (0, 2, 1, 3))
            return ops.reshape(y, (-1, frames, channels * bins))
        return ops.reshape(ops.transpose(y, (0, 1, 3, 2)), (-1, channels * bins, frames))


class MelSpectrogram(DataLayer):
    """The power of sounds over time and over pitch, on the mel scale of how pitch is heard.

    mel = 1127 log(1 + hertz / 700).
    Shapes: input (batch, samples) or (samples,), output (batch, num_mel_bins, frames) or without
    the batch, with 1 + samples // sequence_stride frames.

    Args:
        fft_length: length of the Fourier transform.
        sequence_stride: samples from a frame to the next.
        sequence_length: samples in a frame; `fft_length` by default.
        window: `"hann"`, `"hamming"`, the values of one, or `None`.
        sampling_rate: samples per second.
        num_mel_bins: how many bands.
        min_freq: where the lowest band begins, in hertz.
        max_freq: where the highest ends; half the sampling rate by default.
        power_to_db: whether the result is in decibels.
        top_db: decibels below the greatest value of the input at which the result is cut off.
        mag_exp: exponent of the magnitude, 2 for power.
        min_power: the least power, so that there is a logarithm.
        ref_power: the power of 0 decibels.
        **kwargs: those of `Layer`.

    Raises:
        InvalidArgumentError: a frame is longer than `fft_length`.
        ValueError: `max_freq` is above half the sampling rate.

    Example:
        >>> layer = tk.layers.MelSpectrogram(fft_length=64, sequence_stride=32, num_mel_bins=8)
        >>> layer(tk.ones((1, 320))).shape
        TensorShape([1, 8, 11])
    """

    def __init__(
        self,
        fft_length: int = 2048,
        sequence_stride: int = 512,
        sequence_length: int | None = None,
        window: Any = "hann",
        sampling_rate: float = 16000,
        num_mel_bins: int = 128,
        min_freq: float = 20.0,
        max_freq: float | None = None,
        power_to_db: bool = True,
        top_db: float = 80.0,
        mag_exp: float = 2.0,
        min_power: float = 1e-10,
        ref_power: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.fft_length = whole(self, "fft_length", fft_length, 1, _LONGEST)
        self.sequence_stride = whole(self, "sequence_stride", sequence_stride)
        self.sequence_length = sequence_length or fft_length
        if fft_length < self.sequence_length:
            raise InvalidArgumentError(
                "MelSpectrogram: fft_length must be at least sequence_length, got "
                f"{fft_length} and {self.sequence_length}"
            )
        self.window = window
        self.sampling_rate = sampling_rate
        self.num_mel_bins = whole(self, "num_mel_bins", num_mel_bins, 1, _LONGEST // fft_length)
        self.min_freq = min_freq
        self.max_freq = max_freq or int(sampling_rate / 2)
        self.power_to_db = power_to_db
        self.top_db = top_db
        self.mag_exp = mag_exp
        self.min_power = min_power
        self.ref_power = ref_power

    def call(self, inputs: Any) -> Any:
        dtype = self.compute_dtype if self.compute_dtype in ("float32", "float64") else "float32"
        real, imaginary = ops.stft(
            ops.convert_to_tensor(inputs, dtype),
            sequence_length=self.sequence_length,
            sequence_stride=self.sequence_stride,
            fft_length=self.fft_length,
            window=self.window,
            center=True,
        )
        magnitude = ops.sqrt(ops.square(real) + ops.square(imaginary))
        bands = ops.matmul(ops.power(magnitude, self.mag_exp), self._bands(dtype))
        result = self._decibels(bands) if self.power_to_db else bands
        return ops.cast(ops.swapaxes(result, -1, -2), self.compute_dtype)

    def _bands(self, dtype: str) -> Any:
        """The shares (frequencies, bands) of frequencies in bands."""
        return linear_to_mel_weight_matrix(
            self.num_mel_bins,
            self.fft_length // 2 + 1,
            self.sampling_rate,
            self.min_freq,
            self.max_freq,
            dtype,
        )

    def _decibels(self, power: Any) -> Any:
        reference = max(abs(self.ref_power), self.min_power)
        level = 10.0 * ops.log10(ops.maximum(power, self.min_power)) - 10.0 * math.log10(reference)
        return ops.maximum(level, ops.max(level) - self.top_db)
