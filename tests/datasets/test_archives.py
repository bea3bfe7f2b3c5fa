"""`get_file` unpacks archives, and never beside their folder."""

import io
import pathlib
import tarfile
import zipfile

import pytest

from trainkit.datasets import archives
from trainkit.keras import utils

FILES = {"flowers/red/1.txt": b"a rose", "flowers/note.txt": b"made up"}


def tar_of(files, ending="tgz", links=()):
    out = io.BytesIO()
    mode = {"tgz": "w:gz", "tar": "w", "xz": "w:xz", "bz2": "w:bz2"}[ending]
    with tarfile.open(fileobj=out, mode=mode) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for name, target in links:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            tar.addfile(member)
    return out.getvalue()


def zip_of(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return out.getvalue()


def stored(tmp_path, content, name="flowers.tgz"):
    path = tmp_path / "net" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path.as_uri()


def files_in(folder):
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in pathlib.Path(folder).rglob("*")
        if p.is_file()
    }


@pytest.mark.parametrize("make", [zip_of, *(lambda f, e=e: tar_of(f, e) for e in ("tgz", "xz"))])
def test_archives_are_unpacked(tmp_path, make):
    origin = stored(tmp_path, make(FILES))
    found = utils.get_file(origin=origin, extract=True, cache_dir=tmp_path)
    assert found == str(tmp_path / "datasets" / "flowers.tgz")
    assert files_in(found) == FILES
    assert (tmp_path / "datasets" / "flowers.tgz_archive").is_file()


@pytest.mark.parametrize(
    ("fname", "folder", "archive"),
    [
        ("photos.tar.gz", "photos_extracted", "photos.tar.gz"),
        ("photos", "photos", "photos_archive"),
    ],
)
def test_names_are_those_of_keras(tmp_path, fname, folder, archive):
    origin = stored(tmp_path, tar_of(FILES))
    found = utils.get_file(fname, origin, untar=True, cache_dir=tmp_path, cache_subdir="")
    assert found == str(tmp_path / folder)
    assert files_in(found) == FILES
    assert (tmp_path / archive).is_file()


def test_what_was_removed_comes_back_and_other_files_stay(tmp_path):
    origin = stored(tmp_path, zip_of(FILES), "f.zip")
    folder = pathlib.Path(utils.get_file("f.zip", origin, extract=True, cache_dir=tmp_path))
    (folder / "flowers" / "note.txt").unlink()
    (folder / "mine.txt").write_text("mine")
    utils.get_file("f.zip", origin, extract=True, cache_dir=tmp_path)
    assert files_in(folder) == {**FILES, "mine.txt": b"mine"}


@pytest.mark.parametrize("name", ["../out.txt", "a/../../out.txt", "/tmp/trainkit-out.txt"])
@pytest.mark.parametrize("make", [zip_of, tar_of])
def test_members_never_leave_the_folder(tmp_path, make, name):
    origin = stored(tmp_path, make({"first.txt": b"1", name: b"2"}))
    with pytest.raises(ValueError, match="leads out of its folder"):
        utils.get_file("x", origin, extract=True, cache_dir=tmp_path, cache_subdir="c")
    assert [p.name for p in (tmp_path / "c").iterdir()] == ["x_archive"]
    assert not (tmp_path / "out.txt").exists()


def test_links_are_left_behind(tmp_path):
    secret = tmp_path / "secret"
    secret.mkdir()
    content = tar_of({"link/new.txt": b"x"}, "tar", [("link", str(secret)), ("other", "/etc")])
    found = utils.get_file("x", stored(tmp_path, content), extract=True, cache_dir=tmp_path)
    assert files_in(found) == {"link/new.txt": b"x"}
    assert list(secret.iterdir()) == []


def test_an_archive_larger_than_the_disk_is_refused(tmp_path, monkeypatch):
    content = zip_of({"zeros": bytes(1 << 20)})
    assert len(content) < 5000
    usage = archives.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(archives.shutil, "disk_usage", lambda _: usage._replace(free=1 << 20))
    with pytest.raises(ValueError, match="1048576 bytes, which is too much"):
        utils.get_file("x", stored(tmp_path, content), extract=True, cache_dir=tmp_path)
    assert not (tmp_path / "datasets" / "x").exists()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "no archive of the kind tar or zip"),
        ({"archive_format": "zip"}, "no archive of the kind zip"),
        ({"archive_format": "rar"}, "archive_format must be"),
        ({"archive_format": None}, "archive_format must be"),
    ],
)
def test_what_is_no_archive_is_told(tmp_path, settings, words):
    origin = stored(tmp_path, b"not packed")
    with pytest.raises(ValueError, match=words):
        utils.get_file("x", origin, extract=True, cache_dir=tmp_path, **settings)


def test_a_forced_download_that_fails_leaves_the_file_that_was_there(tmp_path):
    origin = (tmp_path / "origin").as_uri()
    (tmp_path / "origin").write_bytes(b"first")
    path = pathlib.Path(utils.get_file("f", origin, cache_dir=tmp_path))
    (tmp_path / "origin").write_bytes(b"second")
    with pytest.raises(ValueError, match="neither MD5 nor SHA-256"):
        utils.get_file("f", origin, cache_dir=tmp_path, force_download=True, file_hash="12")
    with pytest.raises(ValueError, match="hash"):
        utils.get_file("f", origin, cache_dir=tmp_path, force_download=True, file_hash="0" * 64)
    (tmp_path / "origin").unlink()
    with pytest.raises(OSError, match="origin"):
        utils.get_file("f", origin, cache_dir=tmp_path, force_download=True)
    assert path.read_bytes() == b"first"
    (tmp_path / "origin").write_bytes(b"third")
    utils.get_file("f", origin, cache_dir=tmp_path, force_download=True)
    assert path.read_bytes() == b"third"
    assert [p.name for p in path.parent.iterdir()] == ["f"]
