"""Loading large files: in pieces, on several threads, and only when all of them are right."""

import threading

import h5py
import numpy as np
import pytest

from trainkit.checkpoints.checkpoint import Checkpoint
from trainkit.checkpoints.format import executor, parallel_checksum
from trainkit.checkpoints.format.executor import JobPool
from trainkit.core.errors import CheckpointError
from trainkit.core.variable import Variable

SIZE = 2 * parallel_checksum.PIECE // 4 + 1234  # float32 in two pieces and a bit


@pytest.fixture(autouse=True)
def two_helpers(monkeypatch):
    """Background threads on any machine; none is left by a test."""
    monkeypatch.setattr(executor.os, "cpu_count", lambda: 8)
    yield
    assert not [t for t in threading.enumerate() if t.name == "trainkit-checkpoint"]


def values(size=SIZE):
    return np.arange(size, dtype=np.float32)


@pytest.fixture
def large_file(tmp_path):
    return Checkpoint(large=Variable(values()), small=Variable(values(40_000))).write(
        tmp_path / "large"
    )


def fresh():
    return Checkpoint(large=Variable(values() * 0), small=Variable(values(40_000) * 0))


def test_an_array_of_several_pieces_comes_back(large_file):
    checkpoint = fresh()
    checkpoint.read(large_file).assert_consumed()
    assert np.array_equal(checkpoint.large.numpy(), values())
    assert np.array_equal(checkpoint.small.numpy(), values(40_000))


@pytest.mark.parametrize(
    "place", [0, parallel_checksum.PIECE - 1, parallel_checksum.PIECE, 4 * SIZE - 1]
)
def test_a_flipped_bit_in_any_piece_is_found_before_anything_changes(large_file, place):
    with h5py.File(large_file) as file:
        offset = file["large"].id.get_offset() + place
    with open(large_file, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 4]))
    checkpoint = fresh()
    with pytest.raises(CheckpointError, match="'large' does not fit its checksum"):
        checkpoint.read(large_file)
    assert not checkpoint.large.numpy().any()
    assert not checkpoint.small.numpy().any()


def test_a_snapshot_from_before_keeps_its_values(large_file):
    checkpoint = fresh()
    before = checkpoint.large.value()
    checkpoint.read(large_file).assert_consumed()
    assert not before.numpy().any()
    assert np.array_equal(checkpoint.large.numpy(), values())


def test_what_does_not_match_stops_the_threads(large_file):
    with pytest.raises(CheckpointError, match="other shape"):
        Checkpoint(large=Variable(values(7)), small=Variable(values(40_000))).read(large_file)


def test_a_disk_that_fails_is_named_with_the_array(large_file, monkeypatch):
    def failing(fd, buffer, offset):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(parallel_checksum, "read_into", failing)  # in the threads; the rest works
    checkpoint = fresh()
    checkpoint.read(large_file).assert_consumed()
    assert np.array_equal(checkpoint.large.numpy(), values())
    monkeypatch.setattr("trainkit.checkpoints.format.reader.read_into", failing)
    with pytest.raises(CheckpointError, match=r"'(large|small)' can't be read"):
        fresh().read(large_file)


def test_large_booleans_that_are_none_are_refused_before_anything_changes(tmp_path):
    twos = np.full(100_000, 2, np.uint8).view(bool)
    path = Checkpoint(a=Variable(values(40_000)), flags=Variable(twos)).write(tmp_path / "b")
    checkpoint = Checkpoint(a=Variable(values(40_000) * 0), flags=Variable(np.zeros(100_000, bool)))
    with pytest.raises(CheckpointError, match="'flags' has booleans that are none"):
        checkpoint.read(path)
    assert not checkpoint.a.numpy().any()


def test_a_crew_has_two_helpers_at_most_and_gives_results_in_order():
    assert executor.helpers_for(1 << 30) == 2
    assert executor.helpers_for(1000) == 0
    seen = set()
    gate = threading.Barrier(3, timeout=60)

    def hire():
        seen.add(threading.get_ident())
        gate.wait()  # until each thread has a job
        return lambda job: job * job

    assert JobPool(hire, range(50), 2).finish() == [n * n for n in range(50)]
    assert len(seen) == 3


def test_a_crew_raises_the_first_error_and_begins_nothing_more():
    done = []

    def work(job):
        if job == 3:
            raise ValueError("three")
        done.append(job)

    with pytest.raises(ValueError, match="three"):
        JobPool(lambda: work, range(10), 0).finish()
    assert done == [0, 1, 2]
