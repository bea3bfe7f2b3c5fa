"""The file that HDF5 works through: pieces in a row are one write, and reads see them."""

import io
import random

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
    assert writes == [(0, 6), (10, 2)]
    assert content(stream) == b"abCdef\0\0\0\0xy"


def test_structure_and_values_in_turns_are_one_write(stream, writes):
    for number in range(4):
        stream.seek(number * 10)
        stream.write(b"head")
        stream.write_at(number * 10 + 4, memoryview(b"values"))
    stream.seek(20)
    stream.write(b"HEAD")
    stream.check()
    assert writes == [(0, 40)]
    assert content(stream) == b"headvalues" * 2 + b"HEADvalues" + b"headvalues"


@pytest.mark.parametrize(("most", "seed"), [(40, 0), (40, 1), (1000, 2), (1000, 3)])
def test_later_writes_stand_over_earlier_ones(stream, monkeypatch, most, seed):
    monkeypatch.setattr(positioned_io, "_MOST_PENDING", most)
    rng = random.Random(seed)
    expected = bytearray(300)
    for _ in range(400):
        piece = rng.randbytes(rng.choice([0, 1, 5, 30]))
        start = rng.randrange(300 - len(piece))
        expected[start : start + len(piece)] = piece
        stream.seek(start)
        assert stream.write(piece) == len(piece)
        if rng.random() < 0.02:
            stream.seek(start)
            assert stream.read(len(piece)) == piece
    stream.truncate(300)
    stream.check()
    assert content(stream) == bytes(expected)


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

    monkeypatch.setattr(positioned_io, "_MOST_PENDING", 3)
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
