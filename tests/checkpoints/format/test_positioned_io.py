"""The file that HDF5 works through: pieces in a row are one write, and reads see them."""

import io

import pytest

from trainkit.checkpoints.format import positioned_io
from trainkit.checkpoints.format.positioned_io import H5Stream


@pytest.fixture
def stream(tmp_path):
    with open(tmp_path / "file", "w+b", buffering=0) as file:
        yield H5Stream(file.fileno())


@pytest.fixture
def writes(monkeypatch):
    """The place and the size of each write that the system was asked for."""
    noted, write_at = [], positioned_io.write_at

    def note(fd, data, offset):
        noted.append((offset, len(data)))
        write_at(fd, data, offset)

    monkeypatch.setattr(positioned_io, "write_at", note)
    return noted


def content(stream):
    stream.seek(0)
    return stream.read()


def test_pieces_that_follow_one_another_are_one_write(stream, writes):
    for piece in (b"abc", b"de", b"", b"f"):
        stream.write(piece)
    stream.seek(10)
    stream.write(b"xy")
    stream.seek(2)
    stream.write(b"C")
    stream.check()
    assert writes == [(0, 6), (10, 2), (2, 1)]
    assert content(stream) == b"abCdef\0\0\0\0xy"


def test_a_run_ends_before_it_is_longer_than_a_mebibyte(stream, writes):
    piece = bytes(range(256)) * (1 << 10)
    for _ in range(5):
        stream.write(piece)
    stream.write(bytes(3 << 20))
    stream.check()
    assert writes == [(0, 1 << 20), (1 << 20, 1 << 18), (5 << 18, 3 << 20)]
    assert content(stream) == piece * 5 + bytes(3 << 20)


def test_what_was_gathered_is_read_and_counts_as_size(stream):
    stream.write(b"abc")
    assert stream.seek(0, io.SEEK_END) == 3
    stream.write(b"de")
    assert content(stream) == b"abcde"
    stream.write(b"f")
    stream.truncate(4)
    assert content(stream) == b"abcd"


def test_a_write_that_fails_is_told_once_more_by_check(stream, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(positioned_io, "write_at", fail)
    stream.write(b"abc")
    stream.seek(10)
    with pytest.raises(OSError, match="No space"):
        stream.write(b"d")
    monkeypatch.undo()
    stream.write(b"e")
    with pytest.raises(OSError, match="No space"):
        stream.check()
    assert content(stream) == b""


def test_check_raises_what_the_last_write_raised(stream, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    stream.write(b"abc")
    monkeypatch.setattr(positioned_io, "write_at", fail)
    with pytest.raises(OSError, match="No space"):
        stream.check()
