"""The checkpoint file: writing a tree of arrays as sealed HDF5, and opening one again.

The root group's attributes are `format` (`"trainkit"`), `version`, `manifest` (JSON) and, when
groups contain themselves, `cycles`. A group is an object and has its class as `type`; a dataset is
a value. A second name of the same object is an HDF5 hard link. Values that HDF5 has no type for
(bfloat16, texts) or that were narrowed say in `dtype` what they stand for. The checksums are in the
header (`header.py`); the same tree stands behind it all as a table (`index.py`), so that reading
needs no HDF5.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainkit.checkpoints.format.atomic import AtomicFile
from trainkit.checkpoints.format.checksum import SMALL, as_bytes, checksum
from trainkit.checkpoints.format.header import BLOCK, Extent, write_header
from trainkit.checkpoints.format.index import Contents
from trainkit.checkpoints.format.positioned_io import (
    MAX_STRUCTURE,
    EarlySync,
    H5Source,
    H5Stream,
    write_at,
)
from trainkit.checkpoints.interruption import SignalsHeld
from trainkit.core.dtypes import bfloat16
from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.core.values.python_signatures import signature_of

FORMAT = "trainkit"
VERSION = "1"
_LONGEST_FIXED = 60_000  # bytes; HDF5 has room for 64 KiB, less what else stands there
_THIS_HOST = re.compile(
    r"(?=.)(/job:localhost)?(/replica:0)?(/task:0)?(/?(device:)?cpu:0)?", re.IGNORECASE
)
_LONGEST_LIST = 60_000


@dataclass(frozen=True)
class CheckpointOptions:
    """How a checkpoint's values are stored.

    Args:
        compression: None, or `"gzip"` for smaller files that take longer to write and to read.
        compression_level: 1 (fast) to 9 (small).
        slot_dtype: None, `"float16"` or `"bfloat16"`: the type in which optimizer slots of more
            bits are stored. They lose precision by it, so a run that goes on from there is close to
            the uninterrupted one but not equal to it. Values beyond the range of float16 refuse to
            be saved.
        enable_async: copy the values and write them in the background. A failure is raised by the
            next save or by `sync`.
        experimental_io_device: TensorFlow's name of the host that writes: `None`, or this one
            (`"/job:localhost"`, `"CPU:0"`).
        experimental_enable_async_checkpoint: the older name of `enable_async`.
        experimental_write_callbacks: functions of the path, or of nothing, which are called in
            order when `Checkpoint.save`, `Checkpoint.write` or a manager's `save` has written a
            file; with `enable_async` by the thread that wrote it.
        experimental_skip_slot_variables: whether `restore` and `read` leave the slots of
            optimizers as they are, and do not ask for those of the file.
        experimental_sharding_callback: only `None`: a checkpoint is one file.

    Raises:
        InvalidArgumentError: a setting is not one of these.
        UnimplementedError: `experimental_sharding_callback` is given.

    Example:
        >>> options = tk.checkpoints.CheckpointOptions(compression="gzip")
        >>> tk.train.Checkpoint(w=tk.Variable(tk.zeros((100,)))).save("run/ckpt", options=options)
        'run/ckpt-1'
    """

    compression: str | None = None
    compression_level: int = 4
    slot_dtype: str | None = None
    enable_async: bool = False
    experimental_io_device: str | None = None
    experimental_enable_async_checkpoint: bool = False
    experimental_write_callbacks: Sequence[Callable[..., Any]] | None = None
    experimental_skip_slot_variables: bool = False
    experimental_sharding_callback: Any = None

    def __post_init__(self) -> None:
        if self.experimental_enable_async_checkpoint:
            object.__setattr__(self, "enable_async", True)
        device = self.experimental_io_device
        if device is not None and not (isinstance(device, str) and _THIS_HOST.fullmatch(device)):
            raise InvalidArgumentError(
                f"experimental_io_device is {device!r}; this process writes its files itself: "
                "give None or '/job:localhost'"
            )
        for call in self.experimental_write_callbacks or ():
            if not callable(call) or _parameters(call) > 1:
                raise InvalidArgumentError(
                    f"experimental_write_callbacks has {call!r}; each is a function of the path "
                    "that was written, or of nothing"
                )
        if self.experimental_sharding_callback is not None:
            raise UnimplementedError(
                "experimental_sharding_callback: a checkpoint is one file; "
                "model.save_weights(max_shard_size=...) writes several"
            )
        if self.compression not in (None, "gzip"):
            raise InvalidArgumentError(
                f"compression is {self.compression!r}; it can be None or 'gzip'"
            )
        if self.compression_level not in range(1, 10):
            raise InvalidArgumentError(
                f"compression_level is {self.compression_level!r}; it goes from 1 to 9"
            )
        if self.slot_dtype not in (None, "float16", "bfloat16"):
            raise InvalidArgumentError(
                f"slot_dtype is {self.slot_dtype!r}; it can be None, 'float16' or 'bfloat16'"
            )


def _parameters(call: Callable[..., Any]) -> int:
    """How many arguments `call` has to be given, as TensorFlow counts them: all that it takes."""
    return len(signature_of(call).parameters)


def after_writing(path: str, options: CheckpointOptions | None) -> None:
    """Call the functions that `options` has for a file that is written."""
    for call in (options and options.experimental_write_callbacks) or ():
        call(path) if _parameters(call) else call()


@dataclass(frozen=True)
class Group:
    """An object to write: where, and its class; in foreign layouts other texts, and lists."""

    path: str
    attributes: Mapping[str, str | list[str]]


@dataclass(frozen=True)
class Link:
    """One more name of what was written before at `target`."""

    path: str
    target: str


@dataclass(frozen=True)
class Values:
    """An array to write: where, a function that gives it, and whether it is an optimizer's slot."""

    path: str
    read: Callable[[], Any]
    slot: bool = False


Entry = Group | Link | Values


def write_file(
    path: str | os.PathLike[str],
    entries: list[Entry],
    root: Mapping[str, str | list[str]],
    options: CheckpointOptions | None = None,
    order: int = 0,
) -> None:
    """Write `entries` as the sealed file `path`, which appears whole or not at all.

    One array at a time is in memory beside those that `entries` refer to.

    Args:
        path: the file to make or replace.
        entries: in an order in which each comes after the group that it stands in.
        root: the attributes of the root group.
        options: compression and narrow slots.
        order: see `Header.order`.

    Raises:
        OSError: the file can't be written; the old one, if any, is untouched.
        InvalidArgumentError: a value is of a type that can't be stored, or does not fit
            `slot_dtype`.
    """
    with AtomicFile(path) as target:
        early = EarlySync(target.fd)
        try:
            extents, contents = _write_hdf5(H5Stream(target.fd), early, entries, root, options)
            write_header(target.fd, extents, order, contents)
            early.finish()
        finally:
            early.close()
        target.commit()


def _write_hdf5(
    stream: H5Stream,
    early: EarlySync,
    entries: list[Entry],
    root: Mapping[str, str | list[str]],
    options: CheckpointOptions | None,
) -> tuple[list[Extent], bytes]:
    """Write the HDF5 part; gives the big arrays' places, and the table of contents."""
    import h5py

    try:
        with SignalsHeld() as signals, h5py.File(stream, "w", userblock_size=BLOCK) as file:
            writer = _Writer(h5py, file, stream, early, options or CheckpointOptions())
            writer.write(entries, {"version": VERSION, **root}, signals.look)
    except Exception as error:
        # HDF5 may go on calling while an exception is on its way, which Python calls a SystemError.
        cause: BaseException | None = error
        while isinstance(cause, SystemError):
            cause = cause.__cause__ or cause.__context__
        reason = cause if stream.error is None else stream.error
        if isinstance(reason, OSError):
            raise reason from None
        raise
    stream.check()
    return writer.extents, writer.contents.encode()


class _Writer:
    """Writes entries into one open file, and notes what is where.

    HDF5 only says where an array goes; its bytes are written here, past HDF5, unless it is to
    compress them.
    """

    def __init__(
        self, h5py: Any, file: Any, stream: H5Stream, early: EarlySync, options: CheckpointOptions
    ) -> None:
        self._h5 = h5py
        self._file = file.id
        self._stream = stream
        self._early = early
        self._options = options
        self._parents = h5py.h5p.create(h5py.h5p.LINK_CREATE)
        self._parents.set_create_intermediate_group(True)
        self._scalar = h5py.h5s.create(h5py.h5s.SCALAR)
        # what HDF5 copies and many objects have alike is made once: making it takes HDF5 longer
        # than storing a small array
        self._plain_plan = self._plan(())
        self._types: dict[np.dtype[Any], Any] = {}
        self._text_types: dict[int, Any] = {}
        self.extents: list[Extent] = []
        self.contents = Contents({})

    def write(
        self,
        entries: list[Entry],
        root: Mapping[str, str | list[str]],
        before_each: Callable[[], None],
    ) -> None:
        self._group(Group("", root))
        for entry in entries:
            before_each()
            if isinstance(entry, Values):
                self._write_values(entry)
            elif isinstance(entry, Link):
                self._file.links.create_hard(
                    entry.path.encode(),
                    self._file,
                    entry.target.encode() or b"/",
                    lcpl=self._parents,
                )
                self.contents.link(entry.path, entry.target)
            else:
                self._group(entry)

    def _group(self, entry: Group) -> None:
        group = self._file
        if entry.path:
            group = self._h5.h5g.create(self._file, entry.path.encode(), lcpl=self._parents)
        short = {}
        for name, text in entry.attributes.items():
            if isinstance(text, list) or len(text.encode()) > _LONGEST_FIXED:
                self._long_attribute(group, name, text)
            else:
                self._attribute(group, name, text)
                short[name] = text
        self.contents.group(entry.path, short)

    def _write_values(self, entry: Values) -> None:
        """Write an array as a dataset: its bytes directly, or by HDF5 where it compresses them."""
        attributes: dict[str, str] = {}
        array = self._stored(entry, np.asarray(entry.read()), attributes)
        h5 = self._h5
        kind = self._types.get(array.dtype)
        if kind is None:
            kind = self._types[array.dtype] = h5.h5t.py_create(array.dtype, logical=True)
        space = h5.h5s.create_simple(array.shape) if array.shape else self._scalar
        compressed = self._options.compression and array.nbytes > 4096
        plan = self._plan(_chunk_shape(array)) if compressed else self._plain_plan
        dataset = h5.h5d.create(
            self._file, entry.path.encode(), kind, space, plan, lcpl=self._parents
        )
        for name, text in attributes.items():
            self._attribute(dataset, name, text)
        offset = dataset.get_offset()  # None when the values are compressed
        self.contents.array(entry.path, array, offset, attributes)
        if array.nbytes > SMALL and offset is not None:
            self._write_past_hdf5(offset, array)
        elif array.size and offset is not None:
            # HDF5 would take as long as for making the dataset to see that nothing is converted.
            self._stream.write_at(offset, memoryview(as_bytes(array)))
        elif array.size:
            dataset.write(h5.h5s.ALL, h5.h5s.ALL, array, kind)

    def _write_past_hdf5(self, offset: int, array: Any) -> None:
        # The sum goes first: pages that nothing has touched yet would split up the writing, and
        # with it the system's cache of the file, which is then slower to read.
        digest = checksum(array)
        write_at(self._stream.fd, as_bytes(array), offset)
        self.extents.append(Extent(offset, array.nbytes, digest))
        self._early.written(array.nbytes)

    def _plan(self, chunk: tuple[int, ...]) -> Any:
        """How a dataset is stored: compressed in chunks of a shape, or with () as it is."""
        plan = self._h5.h5p.create(self._h5.h5p.DATASET_CREATE)
        plan.set_fill_time(self._h5.h5d.FILL_TIME_NEVER)
        plan.set_obj_track_times(False)
        if chunk:
            plan.set_chunk(chunk)
            plan.set_shuffle()
            plan.set_deflate(self._options.compression_level)
        else:
            plan.set_alloc_time(self._h5.h5d.ALLOC_TIME_EARLY)
        return plan

    def _stored(self, entry: Values, array: Any, attributes: dict[str, str]) -> Any:
        """`array` as it goes into the file: contiguous, of a type that HDF5 has."""
        narrow = self._options.slot_dtype
        if entry.slot and narrow and array.dtype.kind == "f" and array.itemsize > 2:
            attributes["dtype"] = array.dtype.name
            attributes["narrow"] = narrow
            array = _narrow(entry.path, array, narrow)
        elif array.dtype == bfloat16.dtype:
            attributes["dtype"] = "bfloat16"
        if array.dtype == bfloat16.dtype:
            array = array.view(np.uint16)
        if array.dtype.kind == "U":
            attributes["dtype"] = "str"
            array = np.char.encode(array, "utf-8")
        if array.dtype.kind not in "biufcS":
            raise UnimplementedError(
                f"'{entry.path}' is of dtype {array.dtype}, which is not stored"
            )
        if array.dtype.itemsize == 0:
            array = array.astype("S1")
        if array.flags.c_contiguous and array.dtype.isnative:
            return array
        return np.require(array, requirements="C").astype(array.dtype.newbyteorder("="), copy=False)

    def _long_attribute(self, owner: Any, name: str, text: str | list[str]) -> None:
        """An attribute that is no short text; long lists are split as Keras splits them."""
        self.contents.leave_out()
        attributes = self._h5.Group(owner).attrs
        if isinstance(text, str):
            attributes.create(name, text, dtype=self._h5.string_dtype())
            return
        data = np.array([item.encode("utf-8") for item in text], "S")
        parts = np.array_split(data, max(1, -(-data.nbytes // _LONGEST_LIST)))
        for number, part in enumerate(parts):
            attributes.create(f"{name}{number}" if len(parts) > 1 else name, part)

    def _attribute(self, owner: Any, name: str, text: str) -> None:
        h5 = self._h5
        data = text.encode("utf-8")
        size = max(1, len(data))
        kind = self._text_types.get(size)
        if kind is None:
            kind = self._text_types[size] = h5.h5t.C_S1.copy()
            kind.set_size(size)
            kind.set_cset(h5.h5t.CSET_UTF8)
        attribute = h5.h5a.create(owner, name.encode(), kind, self._scalar)
        attribute.write(np.array(data, f"S{size}"), kind)


def _narrow(path: str, array: Any, dtype: str) -> Any:
    import ml_dtypes

    target = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16)
    with np.errstate(over="ignore"):
        narrow = array.astype(target)
    if not np.array_equal(np.isfinite(narrow), np.isfinite(array)):
        raise InvalidArgumentError(
            f"'{path}' has values beyond the range of {dtype}; use 'bfloat16' or None"
        )
    return narrow


def _chunk_shape(array: Any) -> tuple[int, ...]:
    """Chunks of whole leading rows, about 1 MiB each."""
    shape = list(array.shape)
    for axis in range(len(shape)):
        inner = int(np.prod(shape[axis + 1 :], dtype=np.int64)) * array.itemsize
        if inner <= 1 << 20:
            shape[axis] = min(shape[axis], max(1, (1 << 20) // inner))
            break
        shape[axis] = 1
    return tuple(shape)


def as_json(value: dict[str, Any]) -> str:
    """Compact JSON text."""
    return json.dumps(value, separators=(",", ":"))


@contextmanager
def opened(fd: int, name: str) -> Iterator[tuple[Any, H5Source]]:
    """The HDF5 file that `fd` is open on, for reading, as an `h5py.File`, and what it reads by."""
    import h5py

    from trainkit.checkpoints.format.validation import H5_ERRORS, open_error

    with SignalsHeld():
        source = H5Source(fd)
        source.allowance = MAX_STRUCTURE
        try:
            file = h5py.File(source, "r")
        except H5_ERRORS as error:
            raise open_error(name, error) from error
        source.allowance = None
        with file:
            _keep_little(file)
            yield file, source


def _keep_little(file: Any) -> None:
    """Have HDF5 forget structure beyond so many bytes, which take up to 13 times that."""
    config = file.id.get_mdc_config()
    config.set_initial_size, config.initial_size = True, MAX_STRUCTURE
    config.min_size = config.max_size = MAX_STRUCTURE
    file.id.set_mdc_config(config)
