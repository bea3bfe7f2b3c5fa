"""`tk.version`: which version this is."""

from trainkit import __version__ as _version

VERSION = _version
"""The version of the library, such as `"0.2.0"`."""
