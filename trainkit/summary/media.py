"""Summaries to look at, listen to and read: `image`, `audio`, `text`."""

from typing import Any

import numpy as np

from trainkit.ops.images.png import COLOR_TYPES, png_bytes
from trainkit.ops.signal.wav import wav_bytes
from trainkit.summary.protos import set_metadata, set_strings
from trainkit.summary.recording import record

MAX_OUTPUTS = 3
WAV = 11  # AudioPluginData.Encoding
AUDIO_ENCODING = bytes((2 << 3, WAV))  # field 2 of AudioPluginData


def image(
    name: str,
    data: Any,
    step: Any = None,
    max_outputs: int = MAX_OUTPUTS,
    description: str | None = None,
) -> bool:
    """Record some images of a batch.

    Args:
        name: name of the images; a `/` groups them.
        data: shape (images, height, width, channels) with 1 channel for grey, 2 for grey and alpha,
            3 for red, green and blue, 4 with alpha. Either uint8, or floats from 0 to 1; floats
            outside are clipped, and NaN is shown as 0.
        step: the step; None for the default step.
        max_outputs: at most so many images are recorded, the first ones.
        description: shown beside the images, in Markdown.

    Returns:
        Whether they were recorded: there is a default writer and `record_if` agrees.

    Raises:
        ValueError: data has another shape or dtype, `max_outputs` is below 1, or there is no step.

    Example:
        >>> with tk.summary.create_file_writer("logs").as_default():
        ...     bool(tk.summary.image("digit", tk.zeros((1, 8, 8, 1)), step=0))
        True
    """
    return record(_fill_image, name, data, step, max_outputs, description)


def _fill_image(value: Any, data: np.ndarray, max_outputs: int, description: str | None) -> None:
    _check_max_outputs(value.tag, max_outputs)
    if data.ndim != 4 or data.shape[3] not in COLOR_TYPES or 0 in data.shape[1:3]:
        raise ValueError(
            f"summary {value.tag!r}: images have shape (images, height, width, channels) with 1 "
            f"to 4 channels, data has shape {data.shape}."
        )
    pixels = as_uint8(value.tag, data[:max_outputs])
    size = [str(data.shape[2]).encode(), str(data.shape[1]).encode()]
    files = [png_bytes(image, filtered=False) for image in pixels]
    set_strings(value, [*size, *files], [2 + len(pixels)])
    set_metadata(value, "images", description=description)


def as_uint8(tag: str, data: np.ndarray) -> np.ndarray:
    """Pixels as uint8: floats from 0 to 1 are scaled, those outside clipped, NaN is 0.

    Raises:
        ValueError: data is neither uint8 nor floats.
    """
    if data.dtype == np.uint8:
        return data
    if data.dtype.kind not in "fV":
        raise ValueError(
            f"summary {tag!r}: data has dtype {data.dtype}, expected uint8, or floats from 0 to 1."
        )
    unit = np.clip(np.nan_to_num(data.astype(np.float64)), 0, 1)
    return (unit * 255.5).astype(np.uint8)  # as TensorFlow rounds: half a value wider at 1


def audio(
    name: str,
    data: Any,
    sample_rate: int,
    step: Any = None,
    max_outputs: int = MAX_OUTPUTS,
    encoding: str | None = None,
    description: str | None = None,
) -> bool:
    """Record some clips of sound of a batch, as WAV of 16 bits.

    Args:
        name: name of the clips; a `/` groups them.
        data: floats from -1 to 1 of shape (clips, frames, channels); those outside are clipped.
        sample_rate: frames a second, in hertz.
        step: the step; None for the default step.
        max_outputs: at most so many clips are recorded, the first ones.
        encoding: `"wav"` or None, which means the same.
        description: shown beside the clips, in Markdown.

    Returns:
        Whether they were recorded: there is a default writer and `record_if` agrees.

    Raises:
        ValueError: data has another shape or dtype, `sample_rate` or `max_outputs` is below 1, the
            encoding is another, or there is no step.

    Example:
        >>> with tk.summary.create_file_writer("logs").as_default():
        ...     bool(tk.summary.audio("tone", tk.zeros((1, 800, 1)), 8000, step=0))
        True
    """
    if encoding not in (None, "wav"):
        raise ValueError(f"summary {name!r}: encoding is {encoding!r}, expected 'wav' or None.")
    return record(_fill_audio, name, data, step, sample_rate, max_outputs, description)


def _fill_audio(
    value: Any, data: np.ndarray, sample_rate: int, max_outputs: int, description: str | None
) -> None:
    _check_max_outputs(value.tag, max_outputs)
    if data.ndim != 3 or data.dtype.kind not in "fV" or data.shape[2] == 0:
        raise ValueError(
            f"summary {value.tag!r}: sound is floats of shape (clips, frames, channels), data has "
            f"shape {data.shape} and dtype {data.dtype}."
        )
    rate = int(sample_rate)
    if rate < 1:
        raise ValueError(f"summary {value.tag!r}: sample_rate is {rate}, expected 1 or more.")
    clips = [encode_wav(clip, rate) for clip in data[:max_outputs]]
    with_labels = [part for clip in clips for part in (clip, b"")]
    set_strings(value, with_labels, [len(clips), 2])
    set_metadata(value, "audio", AUDIO_ENCODING, description)


def encode_wav(clip: np.ndarray, sample_rate: int) -> bytes:
    """WAV file of 16 bits of floats from -1 to 1, shape (frames, channels)."""
    samples = np.clip(np.nan_to_num(clip.astype(np.float64)), -1, 1)
    return wav_bytes(np.rint(samples * 32767), sample_rate)


def _check_max_outputs(tag: str, max_outputs: int) -> None:
    if max_outputs < 1:
        raise ValueError(f"summary {tag!r}: max_outputs is {max_outputs}, expected 1 or more.")


def text(name: str, data: Any, step: Any = None, description: str | None = None) -> bool:
    """Record text, which TensorBoard shows as Markdown.

    Args:
        name: name of the text; a `/` groups texts.
        data: a string, or an array or nested list of strings, shown as a table.
        step: the step; None for the default step.
        description: shown beside the text, in Markdown.

    Returns:
        Whether it was recorded: there is a default writer and `record_if` agrees.

    Raises:
        ValueError: data is not of strings, or there is no step.

    Example:
        >>> with tk.summary.create_file_writer("logs").as_default():
        ...     bool(tk.summary.text("notes", "**rate** 0.1", step=0))
        True
    """
    return record(_fill_text, name, data, step, description)


def _fill_text(value: Any, data: np.ndarray, description: str | None) -> None:
    cells = data.ravel().tolist()
    if not all(isinstance(cell, str | bytes) for cell in cells):
        raise ValueError(
            f"summary {value.tag!r}: text is made of strings, data has dtype {data.dtype}."
        )
    encoded = [cell.encode() if isinstance(cell, str) else cell for cell in cells]
    set_strings(value, encoded, data.shape)
    set_metadata(value, "text", description=description)
