"""What a piece of code launched, copied and waited for, read out of the driver's books."""

import ctypes
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.null_driver.installing import install

DIRECTIONS = ("to_device", "to_host", "on_device", "on_host", "fills")


class _Tally(ctypes.Structure):
    _fields_ = (
        ("kernels", ctypes.c_long),
        ("library", ctypes.c_long),
        ("copies", ctypes.c_long * len(DIRECTIONS)),
        ("bytes", ctypes.c_long * len(DIRECTIONS)),
    )


class _Books(ctypes.Structure):
    _fields_ = (
        ("eager", _Tally),
        ("captured", _Tally),
        *(
            (name, ctypes.c_long)
            for name in (
                "graphs_launched",
                "nodes_replayed",
                "graphs_made",
                "stream_waits",
                "device_waits",
                "event_waits",
                "copy_waits",
                "allocations",
                "allocated_bytes",
                "pinned_allocations",
                "modules",
            )
        ),
    )


@dataclass
class Counts:
    """What was done between two moments.

    Attributes:
        launches: kernels launched outside of captures.
        library: calls of cuBLAS and its like outside of captures.
        captured: kernels and library calls noted down in captures.
        graphs: launches of CUDA graphs.
        to_device: copies from the host; `to_host`, `on_device` and `fills` likewise.
        waits: for a stream, the device, an event, or a copy.
        allocations: blocks asked of the driver, past CuPy's pool.
        names: how often each kernel and library function was launched outside of captures.
        captured_names: the same in captures.
    """

    launches: int = 0
    library: int = 0
    captured: int = 0
    graphs: int = 0
    to_device: int = 0
    to_host: int = 0
    on_device: int = 0
    fills: int = 0
    waits: int = 0
    allocations: int = 0
    names: Counter = field(default_factory=Counter)
    captured_names: Counter = field(default_factory=Counter)


def _read(driver):
    books = _Books.in_dll(driver, "null_books")
    eager = books.eager
    counts = Counts(
        eager.kernels,
        eager.library,
        books.captured.kernels + books.captured.library,
        books.graphs_launched,
        *(
            eager.copies[DIRECTIONS.index(k)]
            for k in ("to_device", "to_host", "on_device", "fills")
        ),
        books.stream_waits + books.device_waits + books.event_waits + books.copy_waits,
        books.allocations,
    )
    text, is_library = ctypes.c_char_p(), ctypes.c_int()
    often, in_captures = ctypes.c_long(), ctypes.c_long()
    places = [ctypes.byref(x) for x in (text, is_library, often, in_captures)]
    i = 0
    while driver.null_name(i, *places):
        i += 1
        name = text.value.decode()
        if often.value:
            counts.names[name] = often.value
        if in_captures.value:
            counts.captured_names[name] = in_captures.value
    return counts


@contextmanager
def counted():
    """A context whose value has, after it, the `Counts` of what was done in it."""
    driver = install()
    driver.null_forget()
    counts = Counts()
    yield counts
    vars(counts).update(vars(_read(driver)))
