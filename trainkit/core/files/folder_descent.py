"""The way from the top of the file system to a folder, every step of which is checked.

Whoever may write to a folder decides what every path through it leads to. So a path is opened from
the top, each folder by the descriptor of the one above, and each has to belong to root or to a user
who is trusted, and be closed to the writing of others. What is checked is what is open: nothing can
be put in its place afterwards.

* A folder that all may write to and where each may remove only what is theirs, as `/tmp` is, may
  lead to one of ours, but no link in it is followed: a link has the owner of the file that a hard
  link to it was made from.
* A link elsewhere (`/home` that leads to `/data/home`) could be made by none but the trusted; where
  it leads is opened from the top by the same rules.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection
from functools import lru_cache

HAS_OWNERS = hasattr(os, "geteuid")
OPEN_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_MOST_LINKS = 40  # as Linux follows
_OTHERS_WRITE, _GROUP_WRITES = 0o022, 0o020
# A folder may lead to another without being readable; `O_PATH` asks for no more than that.
_LEVEL = OPEN_FLAGS | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_PATH", os.O_RDONLY)


def open_trusted_folder(path: str, owners: Collection[int], make: bool) -> int:
    """The descriptor of a folder that none but the trusted can change.

    Args:
        path: where it is, from the top.
        owners: numbers of the users who are trusted, root among them.
        make: whether what is missing is made.

    Raises:
        PermissionError: others can change what the path leads to; the text says at which folder.
        OSError: it is not there, or can't be made.
    """
    descent = _Descent(owners, make)
    try:
        descent.follow(path)
        return descent.take_last()
    finally:
        descent.close()


def check_owner(path: str, facts: os.stat_result, owners: Collection[int]) -> None:
    """Check that a file or folder belongs to somebody who is trusted.

    Raises:
        PermissionError: it does not.
    """
    if facts.st_uid not in owners:
        raise PermissionError(
            f"{path} belongs to user {facts.st_uid}, and trusted are {sorted(owners)}"
        )


def is_open_to_others(facts: os.stat_result) -> bool:
    """Whether somebody besides the owner may write to a file or folder, by its mode."""
    return bool(facts.st_mode & _OTHERS_WRITE)


class _Descent:
    """The folders from the top to the one that is reached, all open."""

    def __init__(self, owners: Collection[int], make: bool) -> None:
        self._owners, self._make = owners, make
        self._levels: list[tuple[int, str, bool]] = []  # descriptor, path, whether others write
        self._links = 0

    def follow(self, path: str) -> None:
        """Go where a path leads: from the top, or from the last folder if it is relative."""
        names = path.split("/")
        if path.startswith("/"):
            self.close()
            self._enter(os.open("/", _LEVEL), "/")
        for name in names:
            if name == ".." and len(self._levels) > 1:
                os.close(self._levels.pop()[0])
            elif name not in ("", ".", ".."):
                self._step(name)

    def take_last(self) -> int:
        """The descriptor of the folder that is reached, which is the caller's from now on."""
        fd, path, is_shared = self._levels[-1]
        if is_shared:  # a file of ours in it may be a hard link that somebody else has made
            raise PermissionError(f"others may write to {path}")
        self._levels.pop()
        return fd

    def close(self) -> None:
        """Close all folders."""
        while self._levels:
            os.close(self._levels.pop()[0])

    def _step(self, name: str) -> None:
        above, path, is_shared = self._levels[-1]
        path = os.path.join(path, name)
        try:
            facts = os.stat(name, dir_fd=above, follow_symlinks=False)
        except FileNotFoundError:
            if not self._make:
                raise
            _make_folder(name, above, is_shared)
        else:
            if stat.S_ISLNK(facts.st_mode):
                self._follow_link(name, path, facts)
                return
        self._enter(os.open(name, _LEVEL, dir_fd=above), path)

    def _follow_link(self, name: str, path: str, facts: os.stat_result) -> None:
        above, _, is_shared = self._levels[-1]
        check_owner(path, facts, self._owners)
        if is_shared:
            raise PermissionError(f"{path} is a link in a folder that others may write to")
        self._links += 1
        if self._links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        self.follow(os.readlink(name, dir_fd=above))

    def _enter(self, fd: int, path: str) -> None:
        try:
            facts = os.fstat(fd)
            check_owner(path, facts, self._owners)
            is_shared = is_open_to_others(facts) and not _is_of_private_group(fd, facts)
            if is_shared and not facts.st_mode & stat.S_ISVTX:
                raise PermissionError(f"others may write to {path}")
        except BaseException:
            os.close(fd)
            raise
        self._levels.append((fd, path, is_shared))


def _make_folder(name: str, above: int, is_shared: bool) -> None:
    """Make a folder; where all may write, it is its maker's alone from the first moment on."""
    try:
        os.mkdir(name, 0o700 if is_shared else 0o755, dir_fd=above)
    except FileExistsError:  # another process has just made it; whose it is, is asked next
        return


def _is_of_private_group(fd: int, facts: os.stat_result) -> bool:
    """Whether the group that may write has its owner alone in it, as each user's own group has.

    With such groups folders are made writable for them (a umask of 002).
    """
    if facts.st_mode & _OTHERS_WRITE != _GROUP_WRITES:
        return False
    return facts.st_gid == _private_group(facts.st_uid) and not _has_access_list(fd)


@lru_cache(maxsize=8)
def _private_group(user: int) -> int | None:
    """The number of the group that has a user's name and no other member."""
    import grp
    import pwd

    try:
        entry = pwd.getpwuid(user)
        group = grp.getgrgid(entry.pw_gid)
    except KeyError:
        return None
    # Root's group is that of processes which are given any user's number, as OpenShift does.
    is_private = group.gr_name == entry.pw_name and set(group.gr_mem) <= {entry.pw_name}
    return group.gr_gid if is_private and user else None


def _has_access_list(fd: int) -> bool:
    """Whether others than owner and group may have been given rights, or it is not known."""
    if not hasattr(os, "getxattr"):
        return True
    try:
        os.getxattr(f"/proc/self/fd/{fd}", "system.posix_acl_access")
    except OSError as error:
        return error.errno not in (errno.ENODATA, errno.ENOTSUP)
    return True
