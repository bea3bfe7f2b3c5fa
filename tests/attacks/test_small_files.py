"""Files of a few bytes that claim gigabytes, and files that are damaged where nobody looked."""

import gzip
import io
import json
import os
import struct
import tarfile
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest

import trainkit as tk
from trainkit import keras

REFUSED = tk.errors.InvalidArgumentError


def gif(width, height, frames=1):
    """A GIF whose images have few pixels on a large screen."""
    image = b"\x2c" + struct.pack("<4HB", 0, 0, 1, 1, 0) + b"\x02\x02\x44\x01\x00"
    head = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes(6)
    return head + image * frames + b"\x3b"


def growing_gif():
    """A GIF whose second image is larger than the screen that the file says."""
    large = b"\x2c" + struct.pack("<4HB", 0, 0, 16000, 16000, 0) + b"\x02\x02\x44\x01\x00"
    return gif(2, 2)[:-1] + large + b"\x3b"


def bmp(width, height):
    head = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 8, 1, 0, 0, 0, 2, 0)  # RLE8
    body = head + bytes(8) + b"\x00\x01"
    return b"BM" + struct.pack("<IHHI", 14 + len(body), 0, 0, 62) + body


def png(width, height):
    def chunk(kind, body):
        check = struct.pack(">I", zlib.crc32(kind + body))
        return struct.pack(">I", len(body)) + kind + body + check

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
            + chunk(b"IDAT", zlib.compress(bytes(200), 9)) + chunk(b"IEND", b""))  # fmt: skip


LARGE = {
    "gif": (tk.image.decode_gif, gif(16000, 16000)),
    "frames": (tk.image.decode_gif, gif(2000, 2000, 100)),
    "growing": (tk.image.decode_gif, growing_gif()),
    "bmp": (tk.image.decode_bmp, bmp(16000, 16000)),
    "image": (tk.image.decode_image, gif(16000, 16000)),
    "load_img, png": (lambda data: keras.utils.load_img(io.BytesIO(data)), png(15000, 15000)),
    "load_img, gif": (lambda data: keras.utils.load_img(io.BytesIO(data)), gif(16000, 16000)),
    "load_img, bmp": (lambda data: keras.utils.load_img(io.BytesIO(data)), bmp(16000, 16000)),
}


@pytest.mark.parametrize(("read", "data"), LARGE.values(), ids=LARGE)
@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.filterwarnings("ignore:Image size")
def test_a_few_bytes_are_no_gigabytes(read, data):
    pytest.importorskip("PIL")
    tracemalloc.start()
    try:
        with pytest.raises(REFUSED):
            read(data)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_images_in_proportion_are_read(tmp_path):
    image = pytest.importorskip("PIL.Image")
    frames = [image.new("RGB", (300, 200), (90 * n, 0, 0)) for n in range(3)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert tk.image.decode_gif((tmp_path / "a.gif").read_bytes()).shape == (3, 200, 300, 3)
    image.new("L", (4000, 4000)).save(tmp_path / "b.png")  # 48 MB from 15 KB
    assert keras.utils.load_img(tmp_path / "b.png").size == (4000, 4000)


def test_no_program_is_started_for_an_image(tmp_path):
    pytest.importorskip("PIL")
    (tmp_path / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EOF\n")
    with pytest.raises(REFUSED, match=r"EPS files are not read|no image"):
        keras.utils.load_img(tmp_path / "a.png")


@pytest.mark.parametrize("at", [4, 16, 22, 24, 28, 40])
@pytest.mark.parametrize("value", [0, 1, 2**31, 2**32 - 1])
def test_a_damaged_sound_is_one_error(at, value):
    data = bytearray(tk.audio.encode_wav(np.zeros((9, 2), "float32"), 8000).numpy())
    data[at : at + 4] = struct.pack("<I", value)
    try:
        tk.audio.decode_wav(bytes(data))
    except REFUSED:
        pass
    with pytest.raises(REFUSED, match="rate"):
        tk.audio.encode_wav(np.zeros((9, 2), "float32"), 2**40)


def test_names_of_columns_that_are_no_utf_8(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"a,\xff\n1,2\n")
    with pytest.raises(REFUSED, match="utf-8"):
        tk.data.experimental.make_csv_dataset(str(tmp_path / "a.csv"), 2)


def archives():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", "text" * 99)
    whole = packed.getvalue()
    middle = whole.index(b"a.txt") + 5
    yield "zip: data", whole[:middle] + b"\xff\xff\xff" + whole[middle + 3 :]
    yield "zip: no start", whole[-60:]
    yield "zip: cut", b"PK\x03\x04" + whole[-40:]
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        info = tarfile.TarInfo("a.txt")
        info.size = 4000
        archive.addfile(info, io.BytesIO(os.urandom(4000)))
    yield "tar: cut", tar.getvalue()[:1500]
    yield "gzip: cut", gzip.compress(tar.getvalue())[:2000]
    yield "gzip: checksum", gzip.compress(tar.getvalue())[:-8] + bytes(8)
    yield "neither", b"text"
    both = io.BytesIO()
    with zipfile.ZipFile(both, "w") as archive:
        archive.writestr("a", "a file")
        archive.writestr("a/b", "in a folder")
    yield "zip: file and folder", both.getvalue()
    end = whole.index(b"PK\x01\x02")
    yield "zip: before the file", whole[: end + 42] + b"\xff\xff\xff\xff" + whole[end + 46 :]


@pytest.mark.parametrize(("name", "data"), list(archives()))
def test_a_damaged_archive_is_a_value_error(name, data, tmp_path):
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises(ValueError, match=r"a\.zip"):
        keras.utils.get_file(
            "a.zip", origin=f"file://{tmp_path}/a.zip", cache_dir=tmp_path / "cache", extract=True
        )
    assert os.listdir(tmp_path / "cache" / "datasets") == ["a.zip"]


def test_a_nested_text_is_no_tokenizer():
    read = keras.preprocessing.text.tokenizer_from_json
    deep = "[" * 100_000
    for text in (deep, json.dumps({"config": {"word_counts": deep}}), "[]", '{"config": {}}'):
        with pytest.raises(ValueError, match="Tokenizer"):
            read(text)
    config = dict.fromkeys(("word_counts", "word_docs", "index_docs", "index_word"), "[]")
    with pytest.raises(ValueError, match="Tokenizer"):
        read(json.dumps({"config": {**config, "word_index": "{}"}}))


def test_names_of_files_that_are_no_utf_8(tmp_path, capsys):
    folder = os.path.join(os.fsencode(tmp_path), b"a\xff\x1b[31m")
    os.mkdir(folder)
    with open(os.path.join(folder, b"\xfe.txt"), "wb") as file:
        file.write(b"text\n")
    made = keras.utils.text_dataset_from_directory(tmp_path, batch_size=None, shuffle=False)
    assert [x.numpy() for x, _ in made] == [b"text\n"]
    path = os.path.join(folder, b"\xfe.txt")
    assert [x.numpy() for x in tk.data.TextLineDataset([path])] == [b"text"]
    csv = tk.data.experimental.make_csv_dataset(os.path.join(folder, b"*.txt"), 1, num_epochs=1)
    assert csv.element_spec.keys() == {"text"}
    assert "\x1b" not in capsys.readouterr().out


def test_counts_without_end_are_refused_at_once():
    x = tk.constant([1.0, 4.0, 9.0])
    with pytest.raises(REFUSED, match="num_partitions"):
        tk.dynamic_partition(x, [0, 1, 0], 10**30)
    with pytest.raises(REFUSED, match="num_partitions"):
        tk.function(lambda p: tk.dynamic_partition(x, p, 10**30))(tk.constant([0, 1, 0]))
    assert tk.ops.diff(x, 2**64).shape == (0,)
    assert tk.ops.diff(tk.constant([[True, False]]), 2).dtype == "bool"
    with pytest.raises(REFUSED, match="up to"):
        tk.function(lambda x: tk.ops.diff(x, 2**64), [tk.TensorSpec((None,), "float32")])(x)
