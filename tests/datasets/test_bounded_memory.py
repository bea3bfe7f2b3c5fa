"""Small files that stand for much: readers look at what the header says before they read."""

import gzip
import io
import struct
import tarfile
import tracemalloc
import zipfile

import numpy as np
import pytest

from trainkit.datasets import cifar10, mnist
from trainkit.datasets.idx import read_idx, read_labelled_images

ALLOWED = 40 << 20


@pytest.fixture
def bounded():
    """Fails when a test has held more than `ALLOWED` bytes at any time."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < ALLOWED


def zeros(size):
    """So many zero bytes, as gzip packs them."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1) as file:
        for _ in range(size >> 20):
            file.write(bytes(1 << 20))
    return packed.getvalue()


ZEROS = zeros(300 << 20)


def test_an_idx_file_that_unpacks_to_much_is_refused(tmp_path, bounded):
    (tmp_path / "x.gz").write_bytes(
        gzip.compress(struct.pack(">4I", 0x803, 400_000, 28, 28)) + ZEROS
    )
    with pytest.raises(ValueError, match="the header says"):
        read_idx(tmp_path / "x.gz", 3)


def test_images_of_another_size_are_refused_before_they_are_read(tmp_path, bounded):
    (tmp_path / "x.gz").write_bytes(
        gzip.compress(struct.pack(">4I", 0x803, 3, 10_000, 10_000)) + ZEROS
    )
    (tmp_path / "y").write_bytes(struct.pack(">2I", 0x801, 3) + bytes(3))
    with pytest.raises(ValueError, match=r"\(10000, 10000\) pixels, expected \(28, 28\)"):
        read_labelled_images(tmp_path / "x.gz", tmp_path / "y", (28, 28), 10)


def test_an_npz_file_that_unpacks_to_much_is_refused(tmp_path, bounded):
    header = io.BytesIO()
    shape = (400_000, 28, 28)
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": shape}
    )
    small = np.zeros((1, 28, 28), np.uint8)
    np.savez(
        tmp_path / "m.npz", y_train=np.zeros(400_000, "u1"), x_test=small, y_test=small[:, 0, 0]
    )
    with zipfile.ZipFile(tmp_path / "m.npz", "a", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        with file.open("x_train.npy", "w") as member:
            member.write(header.getvalue())
            for _ in range(400):
                member.write(bytes(784_000))
    with pytest.raises(ValueError, match="it unpacks to"):
        mnist.load_data(tmp_path / "m.npz")


def test_the_header_of_an_array_is_not_read_however_long(tmp_path, bounded):
    with zipfile.ZipFile(tmp_path / "m.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        with file.open("x_train.npy", "w") as member:
            member.write(b"\x93NUMPY\x02\x00" + struct.pack("<I", 300 << 20))
            for _ in range(300):
                member.write(b" " * (1 << 20))
    with pytest.raises(ValueError, match="a header has"):
        mnist.load_data(tmp_path / "m.npz")


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
@pytest.mark.parametrize("name", ["data_batch_1.bin", "other"])
def test_a_cifar_archive_that_unpacks_to_much_is_refused(tmp_path, bounded, kind, name):
    info = tarfile.TarInfo(f"{cifar10.FOLDER}/{name}")
    info.type, info.size = kind, 300 << 20
    (tmp_path / "c.tar.gz").write_bytes(gzip.compress(info.tobuf()) + ZEROS)
    with pytest.raises(ValueError, match="more than a copy would"):
        cifar10.load_data(tmp_path / "c.tar.gz")
