"""Saving while the disk is full, breaks or forbids, or the process dies: the newest file stays.

`TRAINKIT_KILLS` is the number of kills, 12 by default.
"""

import errno
import gc
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import trainkit
from trainkit.checkpoints.checkpoint import Checkpoint, latest_checkpoint
from trainkit.checkpoints.format import positioned_io
from trainkit.checkpoints.format.atomic import leftovers
from trainkit.checkpoints.format.writer import CheckpointOptions
from trainkit.checkpoints.interop.safetensors import write_npz
from trainkit.core.variable import Variable

fcntl = pytest.importorskip("fcntl")

CALLS = [
    (os, "open"),
    (os, "pwrite"),
    (os, "preadv"),
    (os, "fsync"),
    (os, "fdatasync"),
    (os, "replace"),
    (os, "ftruncate"),
    (os, "fstat"),
    (os, "unlink"),
    (os, "close"),
    (os, "scandir"),
    (os, "listdir"),
    (os, "mkdir"),
    (fcntl, "flock"),
]
KINDS = [errno.ENOSPC, errno.EIO, errno.EACCES]


@pytest.fixture(autouse=True)
def garbage_of_others_waits():
    """What other tests have left is ended before: its end is no system call of a save."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Faults:
    """Counts system calls and makes one of them fail, or all that write from one on."""

    def __init__(self, patch, fail_at=None, kind=errno.EIO, forever=False):
        self.count = 0
        self.hit = None
        self._fail_at, self._kind, self._forever = fail_at, kind, forever
        for module, name in CALLS:
            patch.setattr(module, name, self._wrapped(getattr(module, name), name))

    def _wrapped(self, call, name):
        def counted(*args, **kwargs):
            self.count += 1
            writes = name in ("pwrite", "fsync", "fdatasync", "ftruncate", "replace")
            late = self._forever and writes and self.hit is not None
            if self.count == self._fail_at or late:
                self.hit = self.hit or name
                if name == "close":
                    call(*args, **kwargs)  # a close that fails has closed all the same
                raise OSError(self._kind, os.strerror(self._kind))
            return call(*args, **kwargs)

        return counted


def state(value):
    sizes = [(3,), (20_000,), (40, 50)]
    return Checkpoint(values=[Variable(np.full(s, value, np.float32)) for s in sizes])


def assign(checkpoint, value):
    for variable in checkpoint.values:
        variable.assign(np.full(variable.shape, value, np.float32))


def restored(path):
    """The one number that all values of a checkpoint are."""
    fresh = state(0)
    fresh.restore(path).assert_consumed()
    found = {float(x) for v in fresh.values for x in np.unique(v.numpy())}
    assert len(found) == 1
    return found.pop()


@pytest.fixture
def small_steps(monkeypatch):
    """Several early syncs in a small file."""
    monkeypatch.setattr(positioned_io, "_SYNC_STEP", 1 << 12)


def count_calls(tmp_path, monkeypatch):
    checkpoint = state(1)
    checkpoint.save(tmp_path / "ckpt")
    with monkeypatch.context() as patch:
        faults = Faults(patch)
        checkpoint.save(tmp_path / "ckpt")
        return faults.count


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("forever", [False, True], ids=["once", "from then on"])
def test_each_system_call_of_a_save_may_fail(tmp_path, monkeypatch, forever):
    calls = count_calls(tmp_path / "count", monkeypatch)
    assert calls > 25
    hit = set()
    for number in range(1, calls + 1):
        folder = tmp_path / str(number)
        checkpoint = state(1)
        good = checkpoint.save(folder / "ckpt")
        assign(checkpoint, 2)
        failed = None
        with monkeypatch.context() as patch:
            faults = Faults(patch, number, KINDS[number % 3], forever)
            try:
                path = checkpoint.save(folder / "ckpt")
            except OSError as error:
                failed = error
        hit.add(faults.hit)
        newest = latest_checkpoint(folder)
        if failed is None:
            assert newest == path
            assert restored(newest) == 2
        else:
            assert restored(good) == 1
            assert restored(newest) == (1 if newest == str(good) else 2)
        assign(checkpoint, 3)
        again = checkpoint.save(folder / "ckpt")
        assert restored(again) == 3
        assert latest_checkpoint(folder) == again
        assert not list(leftovers(folder)), faults.hit
    assert hit >= {"open", "pwrite", "fsync", "replace", "preadv", "ftruncate"}


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("name", ["open", "pwrite", "fsync", "replace"])
def test_a_failed_save_is_told(tmp_path, monkeypatch, name):
    checkpoint = state(1)
    with monkeypatch.context() as patch:

        def broken(*args, **kwargs):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        patch.setattr(os, name, broken)
        with pytest.raises(OSError, match="No space left"):
            checkpoint.save(tmp_path / "ckpt")
    assert os.listdir(tmp_path) == []


def test_a_table_of_arrays_that_was_not_written_whole_is_no_file(tmp_path, monkeypatch):
    path = tmp_path / "weights.npz"
    write_npz(path, {"a": np.zeros(3, np.float32)})
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        writes = iter(range(100))

        def broken(fd, data, at, write=os.pwrite):
            if next(writes) == 2:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write(fd, data, at)

        patch.setattr(os, "pwrite", broken)
        with pytest.raises(OSError, match="No space left"):
            write_npz(path, {"a": np.ones(3 << 20, np.float32)})
    assert path.read_bytes() == before


def test_writes_may_be_short(tmp_path, monkeypatch):
    write, read = os.pwrite, os.preadv
    checkpoint = state(5)
    with monkeypatch.context() as patch:
        patch.setattr(
            os, "pwrite", lambda fd, data, at: write(fd, data[: max(1, len(data) // 3)], at)
        )
        patch.setattr(
            os, "preadv", lambda fd, b, at: read(fd, [b[0][: max(1, len(b[0]) // 3)]], at)
        )
        path = checkpoint.save(tmp_path / "ckpt")
        assert restored(path) == 5
    assert restored(path) == 5


def test_a_disk_that_is_really_full(tmp_path):
    """The kernel refuses to let the file grow, at every size in turn."""
    resource = pytest.importorskip("resource")
    checkpoint = state(1)
    good = checkpoint.save(tmp_path / "ckpt")
    size = os.path.getsize(good)
    assign(checkpoint, 2)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in range(0, size, size // 40):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        try:
            with pytest.raises(OSError, match="too large"):
                checkpoint.save(tmp_path / "ckpt")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert os.listdir(tmp_path) == ["ckpt-1"]
    assert restored(good) == 1
    assert restored(checkpoint.save(tmp_path / "ckpt")) == 2


def test_leftovers_of_the_dead_go_and_those_of_the_living_stay(tmp_path):
    dead = tmp_path / ".ckpt-7.0123456789ab.tmp"
    dead.write_bytes(b"half a file")
    living = tmp_path / ".ckpt-8.0123456789ab.tmp"
    with living.open("wb") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        other = tmp_path / ".notes.tmp"
        other.write_text("not ours")
        state(1).save(tmp_path / "ckpt")
        assert sorted(os.listdir(tmp_path)) == [living.name, other.name, "ckpt-1"]
    state(1).save(tmp_path / "ckpt")
    assert not list(leftovers(tmp_path))


def test_a_background_write_that_fails_leaves_the_good_file(tmp_path, monkeypatch):
    checkpoint = state(1)
    good = checkpoint.save(tmp_path / "ckpt")
    assign(checkpoint, 2)
    with monkeypatch.context() as patch:

        def broken(fd, data, offset):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        patch.setattr(os, "pwrite", broken)
        checkpoint.save(tmp_path / "ckpt", CheckpointOptions(enable_async=True))
        with pytest.raises(OSError, match="Input/output"):
            checkpoint.sync()
    assert os.listdir(tmp_path) == ["ckpt-1"]
    assert restored(good) == 1


def test_kills_at_random_instants(tmp_path):
    kills = os.environ.get("TRAINKIT_KILLS", "12")
    script = pathlib.Path(__file__).with_name("killing.py")
    root = str(pathlib.Path(trainkit.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "run"), kills, "1"],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    print(done.stdout)
    assert done.stdout.startswith(f"{kills} kills")
