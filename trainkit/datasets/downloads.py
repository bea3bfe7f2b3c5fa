"""`get_file`: one file from the network, kept in the cache."""

from __future__ import annotations

import contextlib
import os
import pathlib
import urllib.parse
from collections.abc import Iterator
from typing import Any

from trainkit.core.errors import UnimplementedError
from trainkit.core.files.local_paths import local_path
from trainkit.core.files.readable_files import open_regular
from trainkit.datasets.archives import unpack
from trainkit.datasets.download_bar import DownloadBar
from trainkit.datasets.store import HASH_LENGTHS, TIMEOUT_SECONDS, cache_folder

_SCHEMES = ("http", "https", "file")


def get_file(
    fname: str | None = None,
    origin: str | None = None,
    untar: bool = False,
    md5_hash: str | None = None,
    file_hash: str | None = None,
    cache_subdir: str = "datasets",
    hash_algorithm: str = "auto",
    extract: bool = False,
    archive_format: str = "auto",
    cache_dir: str | None = None,
    force_download: bool = False,
) -> str:
    """Path of a file, which is downloaded unless it is in the cache, or of what it unpacks to.

    A packed file called `a.tar.gz` becomes the folder `a_extracted` beside it; one whose `fname`
    has no ending, or that was given none, becomes a folder of its name, from `fname_archive`.

    Args:
        fname: its name in the cache; by default the last part of `origin`.
        origin: address to download from.
        untar: unpack it as a tar file; the older way to say `extract`.
        md5_hash: as `file_hash`, which goes before it.
        file_hash: SHA-256 or MD5 in hexadecimal digits that the file must have.
        cache_subdir: folder inside of the cache.
        hash_algorithm: `"auto"`, `"sha256"` or `"md5"`.
        extract: unpack it: the path is that of the folder. Links in it are left behind.
        archive_format: `"auto"`, `"tar"`, `"zip"` or a list of these: what it may be.
        cache_dir: the cache; by default that of the data sets.
        force_download: download even what is there.

    Returns:
        The path.

    Raises:
        ValueError: no address, a name that is a path, a file with another hash, or one that is
            no archive or an archive with members outside of its folder.
        UnimplementedError: the address, or the cache, is of a system that is not served.
        OSError: it can't be downloaded.
    """
    if not origin:
        raise ValueError("get_file: give `origin`, the address to download from")
    name = fname or os.path.basename(urllib.parse.urlsplit(origin).path)
    if os.path.basename(name) != name or name in ("", ".", ".."):
        raise ValueError(f"get_file: fname={name!r} must be a plain file name")
    scheme = origin.partition(":")[0].lower()
    if scheme not in _SCHEMES:
        raise UnimplementedError(
            f"get_file: file system scheme {scheme!r} not implemented (file: {origin!r}); origin "
            f"must begin with {', '.join(f'{address_scheme}://' for address_scheme in _SCHEMES)}"
        )
    cache = pathlib.Path(local_path(cache_dir)).expanduser() if cache_dir else cache_folder()
    folder = cache / local_path(cache_subdir)
    unpacked = untar or extract
    stored = f"{name}_archive" if unpacked and not (fname and "." in name) else name
    known_hash = _known_hash(file_hash or md5_hash, hash_algorithm)
    with _put_aside(folder / stored) if force_download else contextlib.nullcontext():
        path = _retrieve(origin, stored, folder, known_hash)
    if not unpacked:
        return path
    target = folder / (name if stored != name else f"{name.partition('.')[0]}_extracted")
    unpack(path, target, "tar" if untar else archive_format)
    return str(target)


@contextlib.contextmanager
def _put_aside(file: pathlib.Path) -> Iterator[None]:
    """Context in which a file is not there; it comes back where nothing takes its place."""
    aside = file.with_name(f".{file.name}.{os.urandom(6).hex()}")
    try:
        file.replace(aside)
    except FileNotFoundError:
        yield
        return
    try:
        yield
    except BaseException:
        aside.replace(file)
        raise
    aside.unlink()


def _known_hash(digits: str | None, algorithm: str) -> str | None:
    if digits is None:
        return None
    named = HASH_LENGTHS.get(len(digits)) if algorithm == "auto" else algorithm
    if named not in HASH_LENGTHS.values():
        raise ValueError(
            f"get_file: {digits!r} with hash_algorithm={algorithm!r} is neither MD5 nor SHA-256"
        )
    return f"{named}:{digits}"


def _retrieve(origin: str, name: str, folder: pathlib.Path, known_hash: str | None) -> str:
    if known_hash is None and (folder / name).is_file():
        return str(folder / name)
    import pooch

    quiet: Any = pooch.get_logger()
    quiet.setLevel("WARNING")
    downloader = pooch.HTTPDownloader(DownloadBar(name), timeout=TIMEOUT_SECONDS)
    if origin.partition(":")[0].lower() == "file":
        downloader = _copy
    return str(pooch.retrieve(origin, known_hash, fname=name, path=folder, downloader=downloader))


def _copy(url: str, output_file: Any, pooch: Any) -> None:
    """What a `file:` address names, written to `output_file`."""
    import shutil
    from urllib.parse import unquote, urlparse

    with open_regular(unquote(urlparse(url).path)) as source, open(output_file, "wb") as target:
        shutil.copyfileobj(source, target)
