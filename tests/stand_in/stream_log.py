"""Which stream uses which memory when, and whether another one could be at it at the same time.

Each stream of each device counts what it is given to do. An event knows how far its stream has
come, and what that one knows of others; a stream that waits for it knows so, too, from then on. Two
uses of one memory, of which one writes, must be in an order that is known in this way. The default
streams of all threads are one here; copies between devices count as ordered, which CuPy sees to.
Source: Lamport 1978, "Time, Clocks, and the Ordering of Events in a Distributed System".
"""

import weakref
from contextlib import contextmanager

OPEN = []
"""The log that is written, or nothing."""


class StreamLog:
    """What streams were given to do.

    Attributes:
        steps: of each the name, the device, the address of the stream, and how far it knew the
            default stream of its device to be.
        races: in words, uses of memory in no order.
    """

    def __init__(self):
        self.steps, self.races = [], []
        self._known = {}  # of each stream, how far it knows others, and itself, to be
        self._uses = weakref.WeakKeyDictionary()

    def known(self, stream):
        return self._known.setdefault(stream, {stream: 0})

    def learn(self, stream, others):
        mine = self.known(stream)
        for other, count in others.items():
            mine[other] = max(mine.get(other, 0), count)

    def note(self, name, stream, reads, writes):
        """A stream is given something to do with memory of its device."""
        mine = self.known(stream)
        mine[stream] += 1
        device = stream[0]
        self.steps.append((name, *stream, mine.get((device, 0), 0)))
        changed = {id(memory) for memory in writes}
        for memory in {id(memory): memory for memory in [*reads, *writes]}.values():
            uses = self._uses.setdefault(memory, {})
            for other, (count, wrote, what) in uses.items():
                apart = other != stream and mine.get(other, 0) < count
                if apart and (wrote or id(memory) in changed):
                    self.races.append(f"{name} of stream {stream} beside {what} of {other}")
            uses[stream] = mine[stream], id(memory) in changed, name

    def meet(self, some):
        """Streams do something together, which none of them ends before all have begun."""
        together = {}
        for stream in some:
            for other, count in self.known(stream).items():
                together[other] = max(together.get(other, 0), count)
        for stream in some:
            self.learn(stream, together)


@contextmanager
def written():
    """A `StreamLog` of what is done inside."""
    log = StreamLog()
    OPEN.append(log)
    try:
        yield log
    finally:
        OPEN.remove(log)


def _key(stream):
    from tests.stand_in.arrays import CURRENT

    return CURRENT.number, stream.ptr


def known(stream):
    """What an event that is recorded now knows."""
    return dict(OPEN[-1].known(_key(stream))) if OPEN else {}


def wait(stream, event):
    """A stream waits for an event."""
    if OPEN:
        OPEN[-1].learn(_key(stream), event.known)


def note(name, stream, reads, writes):
    """A stream is given something to do with arrays; those of other devices are left out."""
    device, _ = _key(stream)
    here = [[a._memory for a in arrays if a._number == device] for arrays in (reads, writes)]
    OPEN[-1].note(name, _key(stream), *here)


def note_together(name, uses):
    """Streams of several devices do something together.

    Args:
        name: what.
        uses: of each stream its device, its address, and the memory that it reads and writes.
    """
    if OPEN:
        for device, ptr, reads, writes in uses:
            OPEN[-1].note(name, (device, ptr), reads, writes)
        OPEN[-1].meet([(device, ptr) for device, ptr, *_ in uses])
