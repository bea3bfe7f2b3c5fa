"""Images, sound and text, as TensorBoard reads them."""

import io
import struct
import wave
import zlib

import ml_dtypes
import numpy as np
import pytest

from trainkit import summary
from trainkit.ops.images.png import png_bytes


def decode_png(data):
    """Pixels of a PNG file without filters, every checksum verified."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, rest = {}, data[8:]
    while rest:
        (length,) = struct.unpack(">I", rest[:4])
        kind, content = rest[4:8], rest[8 : 8 + length]
        (checksum,) = struct.unpack(">I", rest[8 + length : 12 + length])
        assert checksum == zlib.crc32(kind + content)
        chunks[kind] = content
        rest = rest[12 + length :]
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, depth, color, *settings = struct.unpack(">2I5B", chunks[b"IHDR"])
    assert (depth, settings) == (8, [0, 0, 0])
    channels = {0: 1, 4: 2, 2: 3, 6: 4}[color]
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8)
    rows = rows.reshape(height, 1 + width * channels)
    assert (rows[:, 0] == 0).all()
    return rows[:, 1:].reshape(height, width, channels)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_a_png_is_read_back(channels, rng):
    pixels = rng.integers(0, 256, (5, 7, channels), dtype=np.uint8)
    np.testing.assert_array_equal(decode_png(png_bytes(pixels, filtered=False)), pixels)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_other_software_reads_the_same_pixels(channels, rng):
    image = pytest.importorskip("PIL.Image")
    pixels = rng.integers(0, 256, (5, 7, channels), dtype=np.uint8)
    with image.open(io.BytesIO(png_bytes(pixels, filtered=False))) as opened:
        np.testing.assert_array_equal(np.asarray(opened).reshape(5, 7, channels), pixels)


def test_images_are_read_back(writer, events, rng):
    data = rng.integers(0, 256, (5, 4, 6, 3), dtype=np.uint8)
    assert summary.image("digits", data, step=2, description="first ones")
    writer.flush()
    found = events()
    assert found.plugin("digits") == "images"
    assert found.metadata("digits").summary_description == "first ones"
    ((step, strings),) = found.tensors("digits")
    assert step == 2
    assert list(strings[:2]) == [b"6", b"4"]  # width, height
    assert len(strings) == 2 + 3
    for i in range(3):
        np.testing.assert_array_equal(decode_png(strings[2 + i]), data[i])


def test_as_many_images_as_asked_for(writer, events):
    summary.image("i", np.zeros((5, 2, 2, 1)), step=0, max_outputs=4)
    summary.image("few", np.zeros((1, 2, 2, 1)), step=0, max_outputs=4)
    writer.flush()
    assert len(events().tensors("i")[0][1]) == 2 + 4
    assert len(events().tensors("few")[0][1]) == 2 + 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_floats_from_zero_to_one_span_all_values(writer, events, dtype):
    data = np.array([0, 0.25, 0.5, 1, -3, 7, np.nan, np.inf]).astype(dtype)
    summary.image("i", data.reshape(1, 2, 4, 1), step=0)
    writer.flush()
    pixels = decode_png(events().tensors("i")[0][1][2])
    np.testing.assert_array_equal(pixels.ravel(), [0, 63, 127, 255, 0, 255, 0, 255])


@pytest.mark.parametrize("shape", [(4, 6, 3), (1, 4, 6, 5), (1, 4, 6, 0), (1, 0, 6, 3), (2, 2)])
def test_images_of_another_shape_are_refused(writer, shape):
    with pytest.raises(ValueError, match=r"'i': images have shape \(images, height, width"):
        summary.image("i", np.zeros(shape), step=0)


def test_images_of_another_dtype_are_refused(writer):
    with pytest.raises(ValueError, match="'i': data has dtype int64, expected uint8, or floats"):
        summary.image("i", np.zeros((1, 2, 2, 1), np.int64), step=0)


@pytest.mark.parametrize("record", [summary.image, lambda *a, **k: summary.audio(*a, 8000, **k)])
def test_at_least_one_output_is_asked_for(writer, record):
    with pytest.raises(ValueError, match="max_outputs is 0, expected 1 or more"):
        record("x", np.zeros((1, 2, 2, 1)), step=0, max_outputs=0)


def test_sound_is_read_back(writer, events):
    data = np.array([[[0.0, 1.0], [-1.0, 0.5], [2.0, np.nan]]] * 4, np.float32)
    assert summary.audio("clip", data, 8000, step=1, encoding="wav")
    writer.flush()
    found = events()
    assert found.plugin("clip") == "audio"
    ((_, clips),) = found.tensors("clip")
    assert len(clips) == 3
    with wave.open(io.BytesIO(clips[0])) as file:
        assert file.getparams()[:4] == (2, 2, 8000, 3)
        samples = np.frombuffer(file.readframes(3), "<i2").tolist()
    assert samples == [0, 32767, -32767, 16384, 32767, 0]


def test_sound_is_marked_as_wav(writer, events):
    from tensorboard.plugins.audio.metadata import Encoding, parse_plugin_metadata

    summary.audio("clip", np.zeros((1, 3, 1)), 8000, step=1)
    writer.flush()
    content = parse_plugin_metadata(events().metadata("clip").plugin_data.content)
    assert content.encoding == Encoding.Value("WAV")


@pytest.mark.parametrize(
    ("data", "rate", "encoding", "message"),
    [
        (np.zeros((3, 1)), 8000, None, "sound is floats of shape"),
        (np.zeros((1, 3, 1), np.int16), 8000, None, "dtype int16"),
        (np.zeros((1, 3, 0)), 8000, None, "sound is floats of shape"),
        (np.zeros((1, 3, 1)), 0, None, "sample_rate is 0, expected 1 or more"),
        (np.zeros((1, 3, 1)), 8000, "mp3", "encoding is 'mp3', expected 'wav' or None"),
    ],
)
def test_other_sound_is_refused(writer, data, rate, encoding, message):
    with pytest.raises(ValueError, match=f"summary 'clip': .*{message}"):
        summary.audio("clip", data, rate, step=0, encoding=encoding)


def test_text_is_read_back(writer, events):
    summary.text("note", "größer als **zuvor**", step=3, description="remarks")
    summary.text("table", [["a", "b"], ["c", b"d"]], step=3)
    writer.flush()
    found = events()
    assert found.plugin("note") == found.plugin("table") == "text"
    ((step, note),) = found.tensors("note")
    assert step == 3
    assert note.item().decode() == "größer als **zuvor**"
    ((_, table),) = found.tensors("table")
    assert table.tolist() == [[b"a", b"b"], [b"c", b"d"]]


@pytest.mark.parametrize("data", [1.0, ["a", None], [1, 2]])
def test_text_is_made_of_strings(writer, data):
    with pytest.raises(ValueError, match="'note': text is made of strings"):
        summary.text("note", data, step=0)
