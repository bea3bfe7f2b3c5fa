"""Compression, narrow slots, and what saving and loading need in memory."""

import os
import tracemalloc

import h5py
import numpy as np
import pytest

from tests.checkpoints.objects import Adam, Dense, Net, weights_of
from trainkit.checkpoints.checkpoint import Checkpoint
from trainkit.checkpoints.format.checksum import CHUNK, SMALL, Checksum, as_bytes, checksum
from trainkit.checkpoints.format.writer import CheckpointOptions
from trainkit.core.errors import CheckpointError, InvalidArgumentError
from trainkit.core.trackable import Trackable
from trainkit.core.variable import Variable


def test_compressed_values_come_back(tmp_path):
    rng = np.random.default_rng(0)
    kept = [
        Variable(np.zeros((300, 200), np.float32)),
        Variable(rng.standard_normal((3, 70_000)).astype(np.float32)),
        Variable(rng.integers(0, 9, (2, 3, 400_000)).astype(np.int64)),
        Variable(1.0),
    ]
    plain = Checkpoint(kept=kept).write(tmp_path / "plain")
    small = Checkpoint(kept=kept).write(tmp_path / "small", CheckpointOptions(compression="gzip"))
    assert os.path.getsize(small) < 0.3 * os.path.getsize(plain)
    with h5py.File(small) as file:
        assert file["kept/0"].compression == "gzip"
        for data in (file["kept/0"], file["kept/1"], file["kept/2"]):
            assert np.prod(data.chunks) * data.dtype.itemsize <= 1 << 20
    fresh = [Variable(np.zeros_like(v.numpy())) for v in kept]
    Checkpoint(kept=fresh).read(small).assert_consumed()
    for a, b in zip(kept, fresh, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def optimizer_and_net(fill):
    net, optimizer = Net(Dense().build(50, 1.0)), Adam()
    optimizer.step(weights_of(net), add=fill)
    return net, optimizer


@pytest.mark.parametrize(("dtype", "relative"), [("float16", 2**-11), ("bfloat16", 2**-8)])
def test_slots_may_be_stored_in_half_precision(tmp_path, dtype, relative):
    net, optimizer = optimizer_and_net(1 / 3)
    options = CheckpointOptions(slot_dtype=dtype)
    path = Checkpoint(net=net, optimizer=optimizer).write(tmp_path / "half", options)
    with h5py.File(path) as file:
        stored = file["optimizer/m/net/layers/0/kernel"]
        assert stored.dtype.itemsize == 2
        assert file["net/layers/0/kernel"].dtype == np.float32
        assert stored.attrs["dtype"] == b"float32"
    other, fresh = optimizer_and_net(0.0)
    Checkpoint(net=other, optimizer=fresh).read(path).assert_consumed()
    slot = fresh.slot("m", other.layers[0].kernel)
    assert slot.dtype == np.float32
    np.testing.assert_allclose(slot, 1 / 3, rtol=relative)
    assert slot[0, 0] != np.float32(1 / 3)


def test_slots_beyond_half_precision_refuse_to_be_saved(tmp_path):
    net, optimizer = optimizer_and_net(1e6)
    checkpoint = Checkpoint(net=net, optimizer=optimizer)
    with pytest.raises(InvalidArgumentError, match="beyond the range of float16; use 'bfloat16'"):
        checkpoint.write(tmp_path / "half", CheckpointOptions(slot_dtype="float16"))
    assert os.listdir(tmp_path) == []
    checkpoint.write(tmp_path / "half", CheckpointOptions(slot_dtype="bfloat16"))


@pytest.mark.parametrize(
    "settings", [{"compression": "zip"}, {"compression_level": 0}, {"slot_dtype": "float8"}]
)
def test_unknown_options_are_refused(settings):
    with pytest.raises(InvalidArgumentError, match=next(iter(settings))):
        CheckpointOptions(**settings)


# ------------------------------------------------------------------ memory


def large(count=6, size=1 << 20):
    state = Trackable()
    state.values = [Variable(np.full(size, i, np.float32)) for i in range(count)]
    return state


def peak_of(action):
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        action()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("on_cpu")
def test_saving_needs_no_more_than_one_variable(tmp_path):
    checkpoint = Checkpoint(large())
    one = 4 << 20
    assert peak_of(lambda: checkpoint.write(tmp_path / "a")) < one / 2
    options = CheckpointOptions(slot_dtype="float16", compression="gzip")
    assert peak_of(lambda: checkpoint.write(tmp_path / "b", options)) < 1.25 * one


@pytest.mark.usefixtures("on_cpu")
def test_loading_streams_into_the_variables(tmp_path):
    checkpoint = Checkpoint(large())
    path = checkpoint.write(tmp_path / "a")
    status = []
    assert peak_of(lambda: status.append(checkpoint.read(path))) < 12 << 20
    status[0].assert_consumed()


# ------------------------------------------------------------------ checksums


@pytest.mark.parametrize(
    "size", [0, 1, SMALL, SMALL + 1, CHUNK - 1, CHUNK, CHUNK + 8249, 3 * CHUNK + 5]
)
def test_each_changed_bit_changes_the_checksum(size):
    data = np.random.default_rng(size).integers(0, 256, size).astype(np.uint8)
    right = checksum(data)
    assert len(right) == 32
    assert checksum(data.copy()) == right
    for position in {0, size // 2, size - 1} if size else ():
        data[position] ^= 4
        assert checksum(data) != right
        data[position] ^= 4
    if size:
        assert checksum(data[:-1]) != right
        assert checksum(np.append(data, np.uint8(0))) != right


def test_exchanged_and_repeated_pages_change_the_checksum():
    data = np.random.default_rng(1).integers(0, 256, 2 * CHUNK).astype(np.uint8)
    right = checksum(data)
    for first, second in ((0, 4096), (8192, 512 * 1024), (4096, CHUNK + 4096)):
        other = data.copy()
        other[first : first + 4096] = data[second : second + 4096]
        assert checksum(other) != right
        other[second : second + 4096] = data[first : first + 4096]
        assert checksum(other) != right


def test_parts_give_the_checksum_of_the_whole():
    data = np.random.default_rng(2).integers(0, 256, 3 * CHUNK + 77).astype(np.uint8)
    digest = Checksum(data.size)
    digest.update(data[:CHUNK])
    digest.update(data[CHUNK:])
    assert digest.hexdigest() == checksum(data)
    assert as_bytes(np.zeros((0, 3))).size == 0


def test_the_checksum_stays_what_it_is():
    """Files of earlier versions must stay readable: the definition, done slowly in plain Python."""
    small = np.arange(1000, dtype=np.uint8)
    big = np.arange(CHUNK // 4 + 3, dtype="<u4")
    assert checksum(small) == "978a3f8b45508a42fe7f0f99caf2c423"
    assert checksum(big) == "4d5d813034bb2ca519284d5cb050e028"


def test_a_changed_value_is_found_by_its_own_checksum(tmp_path):
    checkpoint = Checkpoint(large(2))
    path = checkpoint.write(tmp_path / "a")
    with open(path, "r+b") as file:
        file.seek(6 << 20)
        file.write(b"\x01")
    checkpoint.parts()["values"][0].assign(np.full(1 << 20, 9, np.float32))
    with pytest.raises(CheckpointError, match="'values/1' does not fit its checksum"):
        checkpoint.read(path)
    assert checkpoint.parts()["values"][0].numpy().min() == 9
