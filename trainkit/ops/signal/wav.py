"""Sound in WAV files of 16-bit samples.

Source: Microsoft and IBM 1991, Multimedia Programming Interface and Data Specifications, RIFF WAVE.
"""

from __future__ import annotations

import io
import struct
import wave
from typing import Any

import numpy as np

from trainkit.core.errors import InvalidArgumentError
from trainkit.core.shapes import Spec
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.values.type_aliases import TensorLike
from trainkit.ops.core.dynamic_shapes import Bound, needs_values
from trainkit.ops.core.strings import one_text

_DAMAGE = (ArithmeticError, LookupError, OSError, ValueError, struct.error)
"""What `wave` raises besides its own errors when sizes make no sense to it."""


def _wav_specs(a: Bound) -> tuple[Spec, Spec]:
    channels = None if a["desired_channels"] == -1 else a["desired_channels"]
    samples = None if a["desired_samples"] == -1 else a["desired_samples"]
    return Spec((samples, channels), "float32"), Spec((), "int32")


@needs_values("contents", gives=_wav_specs)
def decode_wav(
    contents: TensorLike,
    desired_channels: int = -1,
    desired_samples: int = -1,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The sound in the bytes of a WAV file.

    Args:
        contents: string scalar, or bytes.
        desired_channels: how many are given, the last one again where there are fewer; all for -1.
        desired_samples: how many are given, filled up with zeros; all for -1.

    Returns:
        Samples (samples, channels) in [-1, 1), float32, and samples per second, int32.

    Raises:
        InvalidArgumentError: the bytes are no WAV file of 16-bit samples.

    Example:
        >>> wav = tk.audio.encode_wav([[0.0], [0.5]], 8000)
        >>> samples, rate = tk.audio.decode_wav(wav)
        >>> samples.shape, int(rate)
        (TensorShape([2, 1]), 8000)
    """
    data = one_text(contents, "decode_wav")
    try:
        with wave.open(io.BytesIO(data)) as file:
            width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
            raw = file.readframes(min(file.getnframes(), len(data)))
    except (wave.Error, EOFError, RuntimeError, *_DAMAGE) as error:
        raise InvalidArgumentError(f"decode_wav: the bytes are no WAV file: {error}") from None
    if width != 2:
        raise InvalidArgumentError(f"decode_wav: samples have {8 * width} bits, they must have 16")
    if rate >= 1 << 31:
        raise InvalidArgumentError(f"decode_wav: {rate} samples a second do not fit int32")
    sample_count = len(raw) // (2 * channels) * channels
    sound = np.frombuffer(raw, "<i2", sample_count).reshape(-1, channels) / np.float32(32768)
    if desired_channels != -1:
        extra = [sound[:, -1:]] * (desired_channels - channels)
        sound = np.concatenate([sound[:, :desired_channels], *extra], axis=1)
    if desired_samples != -1:
        missing = max(0, desired_samples - len(sound))
        sound = np.pad(sound[:desired_samples], ((0, missing), (0, 0)))
    return convert_to_tensor(sound.astype(np.float32)), convert_to_tensor(np.int32(rate))


@needs_values("audio", "sample_rate", gives=lambda a: Spec((), "string"))
def encode_wav(audio: Any, sample_rate: Any, name: str | None = None) -> Tensor:
    """Samples (samples, channels) in [-1, 1] as a WAV file of 16-bit samples, a string scalar.

    Args:
        audio: floats (samples, channels).
        sample_rate: samples per second.

    Raises:
        InvalidArgumentError: the samples have not two axes.

    Example:
        >>> wav = tk.audio.encode_wav([[0.0], [0.5]], 8000)
        >>> wav.numpy()[:4]
        b'RIFF'
    """
    samples = np.asarray(convert_to_tensor(audio).numpy())
    if samples.ndim != 2 or not samples.shape[1]:
        raise InvalidArgumentError(f"encode_wav: needs (samples, channels), got {samples.shape}")
    scaled = np.clip(samples * 32767, -32768, 32767)
    return convert_to_tensor(wav_bytes(scaled, int(sample_rate)))


def wav_bytes(samples: Any, sample_rate: int) -> bytes:
    """The WAV file of samples (frames, channels), cut to whole numbers of 16 bits.

    Args:
        samples: numbers (samples, channels).
        sample_rate: samples per second.

    Raises:
        InvalidArgumentError: a WAV file can't say the rate or the channels.
    """
    out = io.BytesIO()
    if not 0 < sample_rate < 1 << 31 or samples.shape[1] >= 1 << 15:
        raise InvalidArgumentError(
            f"encode_wav: a WAV file has up to 32767 channels and a rate below 2**31, got "
            f"{samples.shape[1]} and {sample_rate}"
        )
    with wave.open(out, "wb") as file:
        file.setnchannels(samples.shape[1])
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(samples.astype("<i2").tobytes())
    return out.getvalue()
