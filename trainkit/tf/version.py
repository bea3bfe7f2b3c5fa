"""`tk.version`: which version this is."""

from importlib import metadata as _metadata

from trainkit import __version__ as _source_version


def _version() -> str:
    try:
        return _metadata.version("trainkit")
    except _metadata.PackageNotFoundError:  # run from a folder of sources
        return _source_version


VERSION = _version()
"""The version of the library, such as `"0.2.0"`."""
