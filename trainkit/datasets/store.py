"""Where the files of a data set are: a folder of the user's, the cache, or a download."""

import os
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from trainkit.core.files.local_paths import local_path
from trainkit.datasets.download_bar import DownloadBar

DATA_VARIABLE = "TRAINKIT_DATA"
CACHE_VARIABLE = "TRAINKIT_CACHE"
TIMEOUT_SECONDS = 30
HASH_LENGTHS = {32: "md5", 64: "sha256"}


def cache_folder() -> pathlib.Path:
    """Folder that downloads are kept in: that of `TRAINKIT_CACHE`, else `~/.cache/trainkit`."""
    named = os.environ.get(CACHE_VARIABLE)
    return pathlib.Path(named).expanduser() if named else pathlib.Path.home() / ".cache/trainkit"


def data_folder() -> pathlib.Path | None:
    """Folder of the user's own copies, from `TRAINKIT_DATA`, or None."""
    named = os.environ.get(DATA_VARIABLE)
    return pathlib.Path(named).expanduser() if named else None


@dataclass(frozen=True)
class Source:
    """The files of one data set and every place they may come from.

    Attributes:
        name: name of the data set and of its folder in the cache.
        files: SHA-256 or MD5 of each file as it is published, by file name.
        mirrors: addresses that a file name is appended to, tried in turn.
        folders: folders below that of `TRAINKIT_DATA` that may hold the files, tried in turn.
        published: what the only file is called at the mirrors, if not as it is here.
    """

    name: str
    files: Mapping[str, str]
    mirrors: tuple[str, ...]
    folders: tuple[str, ...]
    published: str | None = None

    def available(self) -> bool:
        """Whether all files are on this machine, so that loading needs no network."""
        return self._local() is not None or None not in self._find_in(self._cache()).values()

    def paths(self) -> dict[str, pathlib.Path]:
        """Path of each file, downloaded first where neither the user nor the cache has it.

        Raises:
            FileNotFoundError: the user's folder has some of the files only, or there are none
                anywhere and none could be downloaded.
        """
        return self._local() or self._fetch_files()

    def paths_in(self, folder: pathlib.Path) -> dict[str, pathlib.Path]:
        """Path of each file in one folder.

        Raises:
            FileNotFoundError: a file is missing there.
        """
        paths = self._find_in(folder)
        missing = [name for name, path in paths.items() if path is None]
        if missing:
            raise FileNotFoundError(
                f"{self.name}: {', '.join(missing)} not found in {folder}, which has to hold "
                f"{', '.join(self.files)} (a .gz file may be unpacked)."
            )
        return {name: path for name, path in paths.items() if path is not None}

    def path(self, file: str | os.PathLike[str]) -> pathlib.Path:
        """Where the only file of the data set is.

        Args:
            file: the path of a file, or a bare name, which is what the file is called in the
                user's folder and in the cache.

        Raises:
            FileNotFoundError: there is no such file, or it can't be downloaded.
        """
        location = pathlib.Path(local_path(file)).expanduser()
        (name,) = self.files
        if location.name == local_path(file):
            named = replace(self, files={location.name: self.files[name]}, published=name)
            return named.paths()[location.name]
        if not location.is_file():
            raise FileNotFoundError(
                f"{self.name}: there is no file {local_path(file)!r}. Give the path of a copy of "
                f"{name}, or a bare name, under which it is then kept in {self._cache()}."
            )
        return location

    def _local(self) -> dict[str, pathlib.Path] | None:
        """The user's own files: None when no folder has any, an error when one has only some."""
        base = data_folder()
        candidates = [base / folder for folder in self.folders] if base else []
        for candidate in candidates:
            if any(self._find_in(candidate).values()):
                return self.paths_in(candidate)
        return None

    def _cache(self) -> pathlib.Path:
        return cache_folder() / self.name

    def _find_in(self, folder: pathlib.Path) -> dict[str, pathlib.Path | None]:
        paths: dict[str, pathlib.Path | None] = {}
        for name in self.files:
            spellings = (folder / name, folder / name.removesuffix(".gz"))
            paths[name] = next((path for path in spellings if path.is_file()), None)
        return paths

    def _fetch_files(self) -> dict[str, pathlib.Path]:
        return {name: self._download(name) for name in self.files}

    def _download(self, name: str) -> pathlib.Path:
        """One file from the cache, or from the first mirror that gives it with the right hash."""
        import pooch

        failures = []
        for mirror in self.mirrors:
            url = mirror + (self.published or name)
            try:
                path = pooch.retrieve(
                    url,
                    known_hash=f"{HASH_LENGTHS[len(self.files[name])]}:{self.files[name]}",
                    fname=name,
                    path=self._cache(),
                    downloader=pooch.HTTPDownloader(DownloadBar(name), timeout=TIMEOUT_SECONDS),
                )
                return pathlib.Path(path)
            except (OSError, ValueError) as error:  # no connection; a file with another hash
                failures.append(f"  {url}: {_reason(error)}")
        raise FileNotFoundError(self._neither_here_nor_there(failures))

    def _neither_here_nor_there(self, failures: list[str]) -> str:
        named = os.environ.get(DATA_VARIABLE)
        looked = f"{DATA_VARIABLE} is {named!r} and has no such files" if named else "it is not set"
        return "\n".join(
            [
                f"{self.name} is not on this machine and could not be downloaded:",
                *failures,
                "Either let this machine reach one of these addresses once (the files are then "
                f"kept in {self._cache()}; {CACHE_VARIABLE} names another cache),",
                f"or set {DATA_VARIABLE} to a folder that holds {', '.join(self.files)} "
                f"({looked}).",
            ]
        )


def _reason(error: Exception) -> str:
    """Why a download failed, in one short line."""
    cause = getattr(error.args[0], "reason", None) if error.args else None
    if isinstance(cause, Exception):  # requests wraps what urllib3 met
        return f"no connection ({type(cause).__name__})"
    return (str(error).strip() or type(error).__name__).splitlines()[0]
