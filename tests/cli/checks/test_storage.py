import fcntl
import types

import pytest

from trainkit.cli.checks import storage

HDF5 = {"h5py": "3.16.0", "hdf5": "2.0.0", "built_with": "2.0.0", "gzip": True, "files": True}
EVENTS = {"tensorboardX": "2.6.5", "protobuf": "7.36", "protobuf_kind": "upb", "events": True}


@pytest.fixture
def probe(monkeypatch):
    """Says what the next probe finds."""
    return lambda facts: monkeypatch.setattr(storage, "probed", lambda code: facts)


def levels(found):
    return [finding.level for finding in found]


def test_hdf5_that_works(probe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    probe(HDF5)
    (found,) = storage.check_hdf5()
    assert (found.level, found.text) == ("ok", "h5py 3.16.0 with HDF5 2.0.0")


def test_hdf5_that_does_not(probe):
    probe({"failure": "ImportError: libhdf5.so"})
    (found,) = storage.check_hdf5()
    assert found.level == "problem"
    assert found.text.endswith("so there are no checkpoints: ImportError: libhdf5.so")
    probe({**HDF5, "files": None, "errors": {"files": "OSError: no room"}})
    (found,) = storage.check_hdf5()
    assert found.text.endswith("can't write and read a file: OSError: no room")


def test_hdf5_without_gzip(probe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    probe({**HDF5, "gzip": False})
    assert levels(storage.check_hdf5()) == ["warning"]


def test_a_file_system_without_locks(probe, tmp_path, monkeypatch):
    def no_locks(file, kind):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    monkeypatch.chdir(tmp_path)
    probe(HDF5)
    found = list(storage.check_hdf5())
    assert levels(found) == ["ok", "warning"]
    assert f"files in {tmp_path} can't be locked" in found[1].text
    assert found[1].mend == "export HDF5_USE_FILE_LOCKING=BEST_EFFORT"


def test_summaries_that_work(probe, monkeypatch):
    probe(EVENTS)
    monkeypatch.setattr(storage.importlib.util, "find_spec", lambda name: None)
    found = list(storage.check_events())
    assert levels(found) == ["ok", "note"]
    assert found[1].mend == "pip install 'tensorboard>=2.18'"


def test_summaries_that_do_not(probe):
    probe({**EVENTS, "events": None, "errors": {"events": "TypeError: descriptors"}})
    (found,) = storage.check_events()
    assert found.level == "problem"
    assert found.text.endswith("so there are no summaries: TypeError: descriptors")


def test_protobuf_in_pure_python_is_slow(probe, monkeypatch):
    probe({**EVENTS, "protobuf_kind": "python"})
    monkeypatch.delenv("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", raising=False)
    found = next(iter(storage.check_events()))
    assert found.level == "warning"
    assert found.mend == "pip install --force-reinstall protobuf"
    monkeypatch.setenv("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python")
    found = next(iter(storage.check_events()))
    assert found.mend == "unset PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"


@pytest.mark.parametrize(
    ("free", "level"), [(5 << 30, "ok"), (1 << 29, "warning"), (1 << 20, "problem")]
)
def test_room_on_a_disk(free, level, monkeypatch, tmp_path):
    usage = types.SimpleNamespace(free=free, total=1 << 40)
    monkeypatch.setattr(storage.shutil, "disk_usage", lambda folder: usage)
    found = storage._room("the cache", tmp_path)
    assert found.level == level
    assert f"GB are free for the cache, {tmp_path}" in found.text


def test_a_disk_without_inodes(monkeypatch, tmp_path):
    blocks = {"f_frsize": 4096, "f_blocks": 1 << 30, "f_bfree": 1 << 29, "f_bavail": 1 << 29}
    full = types.SimpleNamespace(**blocks, f_files=10, f_favail=0)
    monkeypatch.setattr(storage.os, "statvfs", lambda folder: full)
    found = storage._room("the cache", tmp_path)
    assert (found.level, found.text) == ("problem", f"{tmp_path} can take no more files (inodes)")


def test_folders_that_can_not_be_written_to(monkeypatch):
    monkeypatch.setattr(storage, "why_not_writable", lambda folder: "Permission denied")
    found = [f for f in storage.check_disk() if "can't be written to" in f.text]
    assert levels(found) == ["note", "warning", "warning"]


@pytest.mark.parametrize(("free", "level"), [(1 << 30, "ok"), (1 << 20, "note")])
def test_shared_memory(free, level, monkeypatch):
    usage = types.SimpleNamespace(free=free, total=1 << 30)
    monkeypatch.setattr(storage.shutil, "disk_usage", lambda folder: usage)
    assert levels(storage.check_shared_memory()) == [level]


def test_no_shared_memory(tmp_path):
    (found,) = storage.check_shared_memory(str(tmp_path / "shm"))
    assert found.level == "note"
    assert found.text.startswith(f"there is no {tmp_path}/shm")
