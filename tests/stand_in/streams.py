"""Streams of the stand-in, and graphs captured from them.

What is called while the current stream captures is recorded and not done: the values that it would
give are worked out for their shapes alone, and replaced by numbers that nothing can be made of.
Launching the graph does all of it, on the same memory.
"""

import functools
import itertools
import threading
import weakref

import numpy as np

from tests.stand_in import memory, stream_log

_PTRS = itertools.count(16)
# Functions on floats that CuPy leaves to libraries which it does not let take part in a capture.
_LIBRARIES = {"matmul", "dot", "vdot", "inner", "tensordot", "einsum", "kron"}
# These wait for the device inside of Thrust.
_THRUST = {"sort", "argsort", "lexsort", "partition", "argpartition", "msort"}


class CUDARuntimeError(RuntimeError):
    """`cupy.cuda.runtime.CUDARuntimeError`."""


class _State(threading.local):
    def __init__(self):
        self.streams = [Stream.null]
        self.inside = False  # of an operation, whose parts are not recorded


class Stream:
    """`cupy.cuda.Stream`."""

    def __init__(self, null=False, non_blocking=False, ptds=False, priority=None):
        self.ptr = 0 if null else next(_PTRS)
        self.is_non_blocking = non_blocking
        self._tape = None

    def __enter__(self):
        _STATE.streams.append(self)
        return self

    def __exit__(self, *error):
        _STATE.streams.pop()

    def synchronize(self):
        if self._tape is not None:
            self._tape.break_off("cudaErrorStreamCaptureUnsupported: the stream is capturing")

    def record(self, event=None):
        from tests.stand_in.cuda import Event

        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event):
        stream_log.wait(self, event)

    def is_capturing(self):
        if self._tape is not None and self._tape.broken:
            raise RuntimeError(
                "the stream was capturing, but an error has invalidated the capture sequence"
            )
        return self._tape is not None

    def begin_capture(self, mode=None):
        if self.ptr in (0, 1):
            raise RuntimeError("cannot capture on the default (legacy) stream")
        if self._tape is not None:
            raise CUDARuntimeError("cudaErrorIllegalState: the stream captures already")
        if not self.is_non_blocking:
            raise CUDARuntimeError(
                "cudaErrorStreamCaptureImplicit: the legacy stream would wait for this one"
            )
        self._tape = _Tape()

    def end_capture(self):
        tape, self._tape = self._tape, None
        if tape is None:
            raise CUDARuntimeError("cudaErrorIllegalState: the stream does not capture")
        if tape.broken:
            raise CUDARuntimeError(
                "cudaErrorStreamCaptureInvalidated: operation failed due to a previous error"
            )
        return Graph(tape)


Stream.null = Stream(null=True)
_STATE = _State()


def current_stream(device_id=-1):
    """`cupy.cuda.get_current_stream`."""
    return _STATE.streams[-1]


def capturing():
    """What the current stream records, `None` when it works."""
    return _STATE.streams[-1]._tape


def recording():
    """Whether a call is only noted: its inputs hold no values yet, and none are wanted of it."""
    return _STATE.inside is True


def work(function=None, *, writes=False):
    """Mark what a device does; with `writes` it changes arrays that it is given."""
    if function is None:
        return functools.partial(work, writes=writes)

    @functools.wraps(function)
    def call(*args, **kwargs):
        tape = capturing()
        if tape is None or _STATE.inside:
            if stream_log.OPEN and not _STATE.inside:
                return _logged(function, args, kwargs, writes)
            return function(*args, **kwargs)
        return tape.record(function, args, kwargs, writes)

    return call


def _logged(function, args, kwargs, writes):
    """Call a function, and note which memory it uses in which stream."""
    with _Inside("logged"):
        result = function(*args, **kwargs)
    given, made = list(arrays_in((args, kwargs))), list(arrays_in(result))
    mine = {id(a) for a in given}
    changed = given if writes else [a for a in given if any(y is a for y in made)]
    fresh = [y for y in made if id(y) not in mine and id(y._memory) not in map(_memory_id, given)]
    name = getattr(function, "__name__", "a kernel")
    stream_log.note(name, current_stream(), given, [*changed, *fresh])
    return result


def _memory_id(array):
    return id(array._memory)


# ---------------------------------------------------------------------- what a capture refuses


def refuse(what):
    """Raise as CuPy does for a copy between host and device, where the stream captures."""
    if capturing() is not None and not _replaying():
        raise RuntimeError(f"the current stream is capturing, so {what} transfers are disallowed")


def refuse_wait(why):
    """Break off the capture: the host would wait for a number."""
    tape = capturing()
    if tape is not None and not _replaying():
        tape.break_off(
            f"cudaErrorStreamCaptureUnsupported: operation not permitted when stream is capturing "
            f"({why})"
        )


def refuse_function(name, arrays):
    """What `cupy.<name>` does in a capture, where it is not simply recorded."""
    if capturing() is None or _replaying():
        return
    short = name.split(".")[-1]
    if short in _THRUST:
        refuse_wait(name)
    floats = any(a.dtype.kind not in "biu" for a in arrays)
    if (short in _LIBRARIES and floats) or name.startswith(("linalg.", "fft.")):
        raise NotImplementedError(
            "calling cuBLAS API during stream capture is currently unsupported"
        )


def check_allocation():
    """Refuse memory that others could get while a graph still works in it."""
    if capturing() is not None and not _replaying() and memory.current_pool() is None:
        raise AssertionError("memory was taken from the default pool during a capture")


def _replaying():
    return _STATE.inside == "replay"


# ---------------------------------------------------------------------- recording


class _Inside:
    def __init__(self, what=True):
        self._what = what

    def __enter__(self):
        self._before, _STATE.inside = _STATE.inside, self._what

    def __exit__(self, *error):
        _STATE.inside = self._before


class _Tape:
    """What a stream was given to do while it captured."""

    def __init__(self):
        self.broken = False
        self.steps = []
        self.used = {}  # memory from before the capture, and the pools of what was made in it
        self.made = weakref.WeakSet()

    def break_off(self, text):
        self.broken = True
        raise CUDARuntimeError(text)

    def record(self, function, args, kwargs, writes):
        if self.broken:
            raise CUDARuntimeError("cudaErrorStreamCaptureInvalidated")
        given = list(arrays_in((args, kwargs)))
        before = [(a, a._host.copy()) for a in given]
        with _Inside():
            result = function(*args, **kwargs)
        mine = {id(a._memory) for a in given}
        writes = writes or any(y is a for y in arrays_in(result) for a in given)
        fresh = [y for y in arrays_in(result) if id(y._memory) not in mine]
        for a, old in before:
            if writes and a._host.flags.writeable:
                a._host[...] = old
        if fresh or writes:
            self._note(given, fresh)
            places = [None if id(y._memory) in mine else y._host for y in arrays_in(result)]
            self.steps.append((function, _kept(args), _kept(kwargs), places))
        for y in fresh:
            _spoil(y._host)
        return result

    def _note(self, given, fresh):
        for y in fresh:
            self.made.add(y._memory)
            self.used[id(y._memory.pool())] = y._memory.pool
        for a in given:
            self.note_memory(a._memory)

    def note_memory(self, kept):
        """The graph will work in this memory."""
        if kept not in self.made:
            self.used[id(kept)] = weakref.ref(kept)


def arrays_in(x):
    """The arrays of the device in lists, tuples and dicts."""
    from tests.stand_in.arrays import ndarray

    if isinstance(x, ndarray):
        yield x
    elif isinstance(x, list | tuple):
        for y in x:
            yield from arrays_in(y)
    elif isinstance(x, dict):
        yield from arrays_in(list(x.values()))


def _kept(x):
    """Arguments as a launch keeps them: addresses of arrays, numbers by value."""
    from tests.stand_in.arrays import ndarray

    if isinstance(x, ndarray):
        twin = object.__new__(ndarray)
        twin._host, twin._base, twin._memory, twin._number = x._host, None, None, x._number
        return twin
    if type(x) in (list, tuple):
        return type(x)(map(_kept, x))
    if isinstance(x, dict):
        return {k: _kept(v) for k, v in x.items()}
    if isinstance(x, np.ndarray) and x.dtype.names and "place" in x.dtype.names:
        return _Table.of(x)
    return x.copy() if isinstance(x, np.ndarray) else x


class _Table(np.ndarray):
    """Addresses that go along with a launch; they keep the memory that the graph has made."""

    @classmethod
    def of(cls, x):
        table = x.copy().view(cls)
        found = [memory.around(int(place)) for place in x["place"].ravel() if place]
        table.hosts = [host for owner in found for host in owner.hosts]
        tape = capturing()
        for owner in found:
            tape.note_memory(owner)
        return table


def _spoil(host):
    if host.dtype.kind == "b":
        host[...] = True
    elif host.dtype.kind in "iu":
        host[...] = np.frombuffer(b"\xa5" * host.itemsize, host.dtype)[0]
    else:
        host[...] = np.nan


class Graph:
    """`cupy.cuda.Graph`."""

    def __init__(self, tape):
        self._steps, self._used = tape.steps, list(tape.used.values())
        self.launches = 0

    def launch(self, stream=None):
        target = stream or current_stream()
        if target._tape is not None:
            raise NotImplementedError("the stand-in has no graphs inside of graphs")
        if any(reference() is None for reference in self._used):
            raise CUDARuntimeError(
                "cudaErrorIllegalAddress: memory that the graph works in was given back"
            )
        self.launches += 1
        with _Inside("replay"):
            for function, args, kwargs, places in self._steps:
                results = list(arrays_in(function(*args, **kwargs)))
                for y, place in zip(results, places, strict=True):
                    if place is not None:
                        place[...] = y._host
