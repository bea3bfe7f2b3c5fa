"""The driver and the empty libraries, compiled from C when they are first asked for."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
FLAGS = ["-O1", "-shared", "-fPIC", "-fvisibility=default", "-w"]


def compiler():
    """The C compiler's path, `None` if there is none."""
    return next((found for found in map(shutil.which, ("cc", "gcc", "clang")) if found), None)


def driver_text():
    """The C of the driver, one text of the files in `driver`."""
    return "\n".join(path.read_text() for path in sorted((HERE / "driver").glob("*.c")))


def folder():
    """Where compiled libraries are kept: in the user's cache, apart for each user."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "trainkit-null-driver"


def shared_library(soname, text, needs=()):
    """The path of the library `soname` made of C `text`, which is compiled once.

    Args:
        soname: its name to the loader; a version in it is the one of all its symbols.
        text: C.
        needs: paths of libraries that it calls.
    """
    key = hashlib.sha256("\0".join([soname, text, *FLAGS]).encode()).hexdigest()[:16]
    path = folder() / key / soname
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as made:
            _compile(Path(made), soname, text, needs)
            os.replace(Path(made) / soname, path)
    return path


def _compile(where, soname, text, needs):
    source, versions = where / "source.c", where / "versions"
    source.write_text(text)
    versions.write_text(f"{soname} {{ global: *; }};\n")
    command = [compiler(), *FLAGS, "-o", where / soname, source, *needs, "-lpthread"]
    command += [f"-Wl,-soname,{soname}", f"-Wl,--version-script={versions}"]
    subprocess.run(command, check=True)
