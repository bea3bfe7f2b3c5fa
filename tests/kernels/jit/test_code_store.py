"""Object code on disk: whole or not there, and of bounded size."""

import os
import subprocess
import sys
import tempfile

import pytest

from trainkit.core.files.trusted_folders import TrustedFolder
from trainkit.kernels.jit import code_store
from trainkit.kernels.jit.code_store import has_code, read_code, write_code


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, and an empty folder for what is temporary."""
    monkeypatch.setenv("TRAINKIT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "cache" / "machine"


def test_what_is_written_is_read(cache):
    assert read_code("a") is None
    assert not has_code("a")
    assert write_code("a", b"code") == cache / "a.o"
    assert read_code("a") == b"code"
    assert has_code("a")


@pytest.mark.parametrize("damage", [b"", b"short", b"\0" * 40])
def test_a_damaged_file_is_none(cache, damage):
    write_code("a", b"code")
    (cache / "a.o").write_bytes(damage)
    assert read_code("a") is None
    write_code("a", b"code")
    assert read_code("a") == b"code"


def test_no_half_of_a_file_is_left_where_writing_fails(cache, monkeypatch):
    def fails(*paths, **folders):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fails)
    assert write_code("a", b"code") is None
    monkeypatch.undo()
    assert list(cache.iterdir()) == []


def test_a_file_under_another_name_is_none(cache):
    write_code("a", b"code")
    (cache / "a.o").rename(cache / "b.o")
    assert read_code("b") is None


def test_a_folder_that_can_not_be_made_leaves_nothing_anywhere(cache, tmp_path):
    cache.parent.write_text("a file where the folder should be")
    assert write_code("a", b"code") is None
    assert read_code("a") is None
    assert list((tmp_path / "temporary").iterdir()) == []


def test_what_has_served_nobody_for_longest_is_deleted(cache, monkeypatch):
    monkeypatch.setattr(code_store, "KEPT_BYTES", 1200)
    for i, name in enumerate("abcd"):
        write_code(name, bytes(200))
        os.utime(cache / f"{name}.o", (1000 + i, 1000 + i))
    assert read_code("a") == bytes(200)  # its date is today's now
    write_code("e", bytes(200))
    assert sorted(path.stem for path in cache.iterdir()) == ["a", "d", "e"]


def test_what_is_just_written_stays_however_large(cache, monkeypatch):
    monkeypatch.setattr(code_store, "KEPT_BYTES", 10)
    write_code("a", bytes(200))
    write_code("b", bytes(200))
    assert [path.stem for path in cache.iterdir()] == ["b"]


def test_sizes_are_asked_for_now_and_then(cache, monkeypatch):
    folders, files = [], TrustedFolder.files

    def note_folder(self):
        folders.append(self.path)
        return files(self)

    monkeypatch.setattr(TrustedFolder, "files", note_folder)
    monkeypatch.setattr(code_store, "KEPT_BYTES", 4 * 1000)
    for i in range(10):  # of 264 bytes with their digests: every fourth comes to more than 1,000
        write_code(f"{i}", bytes(200))
    assert folders == [str(cache)] * 3
    monkeypatch.setenv("TRAINKIT_CACHE", str(cache / "another"))
    write_code("a", b"code")
    assert folders[3:] == [str(cache / "another" / "machine")]


PROGRAM = """
from trainkit.kernels.jit.code_store import read_code, write_code
for i in range(200):
    name = f"{i:03}"
    write_code(name, name.encode() * 5000)
    assert read_code(name) == name.encode() * 5000
"""


def test_two_processes_fill_one_cache(cache):
    workers = [subprocess.Popen([sys.executable, "-c", PROGRAM]) for _ in range(2)]
    assert [worker.wait(600) for worker in workers] == [0, 0]  # an emulator is slow
    assert sorted(path.name for path in cache.iterdir()) == [f"{i:03}.o" for i in range(200)]


def test_code_that_was_written_later_is_none_until_then(cache):
    code_store.write_code("ab", b"code")
    written = (cache / "ab.o").stat().st_mtime
    assert code_store.read_code("ab", until=written - 1) is None
    assert code_store.read_code("ab", until=written) == b"code"


def test_use_does_not_change_when_code_was_written(cache):
    code_store.write_code("ab", b"code")
    os.utime(cache / "ab.o", (1000, 1000))
    assert code_store.read_code("ab", until=1000) == b"code"
    facts = (cache / "ab.o").stat()
    assert facts.st_mtime == 1000
    assert facts.st_atime > 1000
