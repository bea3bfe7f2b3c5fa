"""What is copied between host and device, noted by the stand-in."""

from contextlib import contextmanager

from tests.stand_in import streams


class Ledger:
    """Copies that were made: shapes and dtypes, in order.

    Attributes:
        to_host: arrays that were read.
        to_device: arrays and lists that became arrays of the device. Scalars travel with the
            launch of a kernel, as in CuPy, so they are not in it.
        between: arrays that were copied from one device to another.
        waits: what made the host wait for a number, such as the size of a selection.
    """

    def __init__(self):
        self.to_host, self.to_device, self.between, self.waits = [], [], [], []

    def __repr__(self):
        return f"to_host={self.to_host}, to_device={self.to_device}, waits={self.waits}"


_OPEN = [Ledger()]


@contextmanager
def noted():
    """A ledger of the copies that are made inside."""
    ledger = Ledger()
    _OPEN.append(ledger)
    try:
        yield ledger
    finally:
        _OPEN.remove(ledger)


def _what(array):
    return (tuple(array.shape), str(array.dtype))


def note_read(array):
    streams.refuse("D2H")
    for ledger in _OPEN[1:]:
        ledger.to_host.append(_what(array))


def note_sent(array):
    if array.ndim:
        streams.refuse("H2D")
        for ledger in _OPEN[1:]:
            ledger.to_device.append(_what(array))


def note_moved(array):
    for ledger in _OPEN[1:]:
        ledger.between.append(_what(array))


def note_wait(why):
    for ledger in _OPEN[1:]:
        ledger.waits.append(why)
