"""What is run once it is read comes from folders that no other user can change."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from trainkit.core.files import folder_descent
from trainkit.core.files.trusted_folders import TrustedFolder
from trainkit.kernels.jit import code_store
from trainkit.kernels.jit.code_store import has_code, read_code, write_code

OTHER, THIRD = 65534, 65533
pytestmark = pytest.mark.skipif(os.name == "nt", reason="has no such owners and modes")
as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be several users"
)


@pytest.fixture
def shared(monkeypatch):
    """A folder that all may write to, as `/tmp` is, in one that all may enter."""
    folder = Path(tempfile.mkdtemp(prefix="trainkit-users-", dir="/tmp"))
    folder.chmod(0o755)
    (folder / "shared").mkdir()
    (folder / "shared").chmod(0o1777)
    monkeypatch.delenv("TRAINKIT_CACHE_OWNER", raising=False)
    yield folder / "shared"
    shutil.rmtree(folder)


@contextlib.contextmanager
def user(number):
    """Context in which this process is another user, as far as files are concerned."""
    os.setegid(number)
    os.seteuid(number)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def run_as(number, script, folder):
    """Run a text of the shell as another user, in a folder."""
    names = [f"--reuid={number}", f"--regid={number}", "--clear-groups"]
    subprocess.run(["setpriv", *names, "sh", "-ec", script], cwd=folder, check=True)


def fill(cache, owner=0):
    """A cache with the code `a`, which belongs to somebody."""
    os.environ["TRAINKIT_CACHE"] = str(cache)
    assert write_code("a", b"code") == cache / "machine" / "a.o"
    for path in (cache, cache / "machine", cache / "machine" / "a.o"):
        os.chown(path, owner, owner)


@pytest.fixture(autouse=True)
def _cache_of_test(monkeypatch):
    monkeypatch.setenv("TRAINKIT_CACHE", "/nonexistent")


@as_root
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="there is no setpriv")
def test_another_user_puts_no_code_where_this_one_reads_or_writes(shared, monkeypatch):
    fill(shared.parent / "cache")
    code = str(shared.parent / "cache/machine/a.o")
    run_as(
        OTHER,
        f"""
        umask 022
        mkdir -p trainkit-0/machine own/machine ahead deep/cache/machine
        cp {code} trainkit-0/machine/b.o
        cp {code} own/machine/a.o
        cp {code} deep/cache/machine/a.o
        ln -s {shared.parent}/cache link
        ln -s {shared.parent}/cache/machine ahead/machine
        """,
        shared,
    )
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    assert read_code("a") == b"code"
    assert read_code("b") is None  # among temporary files, where nothing is looked for
    for name in ("own", "ahead", "deep/cache", "link", "link/../own"):
        monkeypatch.setenv("TRAINKIT_CACHE", str(shared / name))
        assert read_code("a") is None, name
        assert not has_code("a")
        assert write_code("c", b"code") is None, name
        assert str(shared) in code_store.why_not_trusted()
    assert not list(shared.rglob("c.o*"))


@as_root
def test_whose_code_a_user_runs(shared, monkeypatch):
    cache = shared.parent / "cache"
    fill(cache)
    with user(OTHER):
        assert read_code("a") == b"code"  # of root, as in an image of a container
        assert write_code("b", b"code") is None
    fill(cache, THIRD)
    with user(OTHER):
        assert read_code("a") is None
        for name, is_read in ((str(THIRD), True), ("1234", False), ("no such user", False)):
            monkeypatch.setenv("TRAINKIT_CACHE_OWNER", name)
            assert (read_code("a") == b"code") is is_read
        assert "there is no such user" in code_store.why_not_trusted()
    assert read_code("a") is None  # nor does root run a user's
    monkeypatch.setenv("TRAINKIT_CACHE_OWNER", str(THIRD))
    monkeypatch.delenv("TRAINKIT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent))
    assert code_store.named_owner() is None


@as_root
def test_a_folder_among_shared_ones_is_made_for_its_maker_alone(shared, monkeypatch):
    monkeypatch.setenv("TRAINKIT_CACHE", str(shared / "cache"))
    with user(OTHER):
        assert write_code("a", b"code") == shared / "cache" / "machine" / "a.o"
        assert read_code("a") == b"code"
    assert (shared / "cache").stat().st_mode & 0o777 == 0o700
    assert read_code("a") is None


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
@pytest.mark.parametrize("name", ["machine", "."])
def test_a_folder_that_others_may_write_to_is_left_alone(tmp_path, mode, name, monkeypatch):
    monkeypatch.setattr(folder_descent, "_private_group", lambda user: None)
    fill(tmp_path / "cache", os.getuid())
    (tmp_path / "cache" / name).chmod(mode)
    sticky_above = mode & 0o1000 and name == "."
    assert (read_code("a") is None) is not sticky_above
    assert (write_code("b", b"code") is None) is not sticky_above
    (tmp_path / "cache" / name).chmod(0o755)


@pytest.mark.parametrize(
    "replace",
    [
        lambda path, code: os.mkfifo(path),
        lambda path, code: path.symlink_to("/dev/zero"),
        lambda path, code: path.mkdir(),
        lambda path, code: path.symlink_to(code),
        lambda path, code: os.link(code, path),
        lambda path, code: (shutil.copy(code, path), path.chmod(0o664)),
        lambda path, code: (shutil.copy(code, path), os.truncate(path, 1 << 40)),
        pytest.param(lambda path, code: os.mknod(path, 0o20644, os.makedev(1, 5)), marks=as_root),
        pytest.param(
            lambda path, code: (shutil.copy(code, path), os.chown(path, OTHER, OTHER)),
            marks=as_root,
        ),
    ],
)
def test_a_file_that_somebody_else_may_have_made_is_none(tmp_path, replace):
    fill(tmp_path / "cache", os.getuid())
    path = tmp_path / "cache" / "machine" / "a.o"
    code = path.rename(tmp_path / "code")
    try:
        replace(path, code)
    except PermissionError:
        pytest.skip("such a file can't be made here")
    assert read_code("a") is None


def test_links_of_the_trusted_are_followed_from_the_top(tmp_path, monkeypatch):
    fill(tmp_path / "disk" / "cache", os.getuid())
    (tmp_path / "home").symlink_to("disk/../disk/./cache")
    (tmp_path / "round").symlink_to("round")
    monkeypatch.setenv("TRAINKIT_CACHE", str(tmp_path / "home"))
    assert read_code("a") == b"code"
    (tmp_path / "disk").chmod(0o777)
    assert read_code("a") is None
    with pytest.raises(OSError, match="symbolic links"):
        TrustedFolder(tmp_path / "round")


def test_a_group_that_its_owner_alone_is_in_may_write(tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(0o775)
    assert folder_descent._private_group(0) is None  # which has members that are not named
    monkeypatch.setattr(folder_descent, "_private_group", lambda user: os.getgid())
    TrustedFolder(folder).__exit__()
    monkeypatch.setattr(folder_descent, "_has_access_list", lambda fd: True)
    with pytest.raises(PermissionError, match=f"others may write to {folder}"):
        TrustedFolder(folder)


def test_without_a_home_nothing_is_kept(monkeypatch):
    for name in ("HOME", "TRAINKIT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert write_code("a", b"code") is None
    assert not has_code("a")
    with pytest.raises(FileNotFoundError, match="set TRAINKIT_CACHE"):
        code_store.cache_root()
