"""`tk.version`: which version this is."""

from importlib import metadata as _metadata


def _version() -> str:
    try:
        return _metadata.version("trainkit")
    except _metadata.PackageNotFoundError:  # run from a folder of sources
        from trainkit import __version__

        return __version__


VERSION = _version()
"""The version of the library, such as `"0.1.0"`."""
