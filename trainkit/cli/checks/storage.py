"""Files: HDF5 and event files, room on the disks, locks, shared memory."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainkit.cli.checks.compiler import why_not_writable
from trainkit.cli.checks.finding import Finding
from trainkit.cli.checks.probe import failure_of, probed
from trainkit.core.process.requirements import install_command
from trainkit.kernels.jit.code_store import cache_root

_HDF5 = """
import h5py, os, tempfile
facts["h5py"] = h5py.__version__
facts["hdf5"] = h5py.version.hdf5_version
facts["built_with"] = ".".join(map(str, h5py.version.hdf5_built_version_tuple))
note("gzip", lambda: bool(h5py.h5z.filter_avail(h5py.h5z.FILTER_DEFLATE)))
def write():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "f.h5")
        with h5py.File(path, "w") as file:
            file["x"] = [1, 2, 3]
        with h5py.File(path, "r") as file:
            return int(file["x"][2]) == 3
note("files", write)
"""

_EVENTS = """
import tensorboardX
from google.protobuf.internal import api_implementation
import google.protobuf
facts["tensorboardX"] = tensorboardX.__version__
facts["protobuf"] = google.protobuf.__version__
facts["protobuf_kind"] = api_implementation.Type()
def event():
    from tensorboardX.proto import event_pb2
    return len(event_pb2.Event(step=1).SerializeToString()) > 0
note("events", event)
"""

LITTLE_BYTES, TOO_LITTLE_BYTES = 1 << 30, 100 << 20
SHARED_BYTES = 64 << 20


def check_hdf5() -> Iterator[Finding]:
    """Checkpoints can be written and read."""
    facts = probed(_HDF5)
    failure = failure_of(facts, "h5py")
    if failure:
        text = f"h5py can't be used, so there are no checkpoints: {failure}"
        yield Finding("problem", text, "pip install --force-reinstall h5py")
        return
    text = f"h5py {facts['h5py']} with HDF5 {facts['hdf5']}"
    if facts.get("files") is not True:
        text = f"{text} can't write and read a file: {failure_of(facts, 'files')}"
        yield Finding("problem", text, "pip install --force-reinstall h5py", facts)
        return
    if not facts["gzip"]:
        text += ", without gzip: checkpoints can't be compressed"
    yield Finding("ok" if facts["gzip"] else "warning", text, facts=facts)
    yield from _locks(Path.cwd())


def _locks(folder: Path) -> Iterator[Finding]:
    """Whether files in a folder can be locked, as checkpoints that are being written are."""
    try:
        import fcntl

        with tempfile.TemporaryFile(dir=folder) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError) as error:
        if why_not_writable(folder):
            return
        yield Finding(
            "warning",
            f"files in {folder} can't be locked ({error}): two runs that save to one folder don't "
            "see each other, and other programs' h5py may refuse to open files",
            "export HDF5_USE_FILE_LOCKING=BEST_EFFORT",
        )


def check_events() -> Iterator[Finding]:
    """Summaries can be written."""
    facts = probed(_EVENTS)
    failure = failure_of(facts, "tensorboardX") or failure_of(facts, "events")
    if failure:
        text = f"tensorboardX can't be used, so there are no summaries: {failure}"
        yield Finding("problem", text, "pip install --force-reinstall tensorboardX protobuf")
        return
    text = f"tensorboardX {facts['tensorboardX']} with protobuf {facts['protobuf']}"
    if facts["protobuf_kind"] == "python":
        text = f"{text}, which runs in pure Python: summaries take many times as long"
        yield Finding("warning", text, _native_protobuf(), facts)
    else:
        yield Finding("ok", text, facts=facts)
    if importlib.util.find_spec("tensorboard") is None:
        text = "TensorBoard, which shows summaries, is not installed here"
        yield Finding("note", text, install_command("tensorboard"))


def _native_protobuf() -> str:
    name = "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"
    return f"unset {name}" if name in os.environ else "pip install --force-reinstall protobuf"


def check_disk() -> Iterator[Finding]:
    """There is room where files are written, and they can be."""
    folders = {
        "the current folder": Path.cwd(),
        "the folder for temporary files": Path(tempfile.gettempdir()),
    }
    try:
        folders["the cache"] = cache_root()
    except FileNotFoundError as error:
        yield Finding("warning", f"nothing is kept: {error}", "export TRAINKIT_CACHE=FOLDER")
    names_by_disk: dict[Any, str] = {}
    for name, folder in folders.items():
        nearest = next((path for path in (folder, *folder.parents) if path.exists()), folder)
        reason = why_not_writable(nearest)
        if reason:
            level = "note" if name == "the current folder" else "warning"
            yield Finding(level, f"{name}, {folder}, can't be written to: {reason}")
        disk = nearest.stat().st_dev
        if disk not in names_by_disk:
            names_by_disk[disk] = name
            yield _room(name, nearest)


def _room(name: str, folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    facts = {"folder": str(folder), "free_bytes": free}
    text = f"{free / 1e9:.1f} GB are free for {name}, {folder}"
    if hasattr(os, "statvfs"):
        file_system = os.statvfs(folder)
        if file_system.f_files and not file_system.f_favail:
            return Finding("problem", f"{folder} can take no more files (inodes)", "", facts)
    if free >= LITTLE_BYTES:
        return Finding("ok", text, facts=facts)
    return Finding("problem" if free < TOO_LITTLE_BYTES else "warning", f"only {text}", "", facts)


def check_shared_memory(folder: str = "/dev/shm") -> Iterator[Finding]:
    """How much room /dev/shm has; trainkit does not use it, worker processes of others do."""
    whose = "trainkit does not need it, but worker processes of other libraries do"
    mend = "docker run --shm-size=1g ..."
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        yield Finding("note", f"there is no {folder}; {whose}")
        return
    text = f"{usage.free / 1e6:,.0f} MB of shared memory are free in {folder}"
    small = usage.free < SHARED_BYTES
    facts = {"free_bytes": usage.free, "total_bytes": usage.total}
    yield Finding(
        "note" if small else "ok",
        f"{text}; {whose}" if small else text,
        mend if small else "",
        facts,
    )
