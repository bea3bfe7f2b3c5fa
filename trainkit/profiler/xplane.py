"""Profiles as TensorBoard's Profile tab reads them, with its plug-in `xprof`: an `XSpace` message.

Format: xplane.proto of OpenXLA's profiler. A plane is a device, a line a thread, an event a span.
Times are picoseconds; names stand once, in tables by number.
"""

from __future__ import annotations

import re
import time

from trainkit.profiler.rows import shapes_text
from trainkit.profiler.session import Label, Session, ThreadRecord
from trainkit.summary.protos import message_field, number_field

# The plug-in's names for facts about events: shapes of inputs, the number of a step, that an event
# is a step, and the line of the program.
_SHAPES, _STEP, _ROOT, _SOURCE = 1, 2, 3, 4
_FACTS = {_SHAPES: "shapes", _STEP: "step_num", _ROOT: "_r", _SOURCE: "source"}

# Kernels run inside of these, and are no operations of their own.
_OPERATIONS = ("op", "node")


def _text(field: int, value: str) -> bytes:
    return message_field(field, value.encode())


def _table(field: int, names: dict[int, str]) -> bytes:
    """A map from numbers to messages that hold the number and a name."""
    out = []
    for number, name in names.items():
        entry = message_field(2, number_field(1, number) + _text(2, name))
        out.append(message_field(field, number_field(1, number) + entry))
    return b"".join(out)


def _fact(number: int, value: int | str) -> bytes:
    content = _text(5, value) if isinstance(value, str) else number_field(4, value)
    return message_field(4, number_field(1, number) + content)


def _name_and_line(label: Label) -> tuple[str, str]:
    """The name of an event, and the line of the program that made it where the label has one.

    The plug-in lists an event as an operation where it is called `name:Kind`.
    """
    if label.kind not in _OPERATIONS:
        return label.name, ""
    name, _, line = label.name.partition(" (")
    kind = "".join(word.capitalize() for word in re.findall(r"[A-Za-z0-9]+", name))
    return (f"{name}:{kind}" if kind[:1].isalpha() else name), line.removesuffix(")")


class _Plane:
    """The plane of the processor, with a line for each thread.

    Args:
        session: has ended.
        began: nanoseconds since 1970 at which the session began.

    Attributes:
        message: the serialized `XPlane`.
    """

    def __init__(self, session: Session, began: int) -> None:
        self._start, self._began = session.start, began
        self._numbers: dict[str, int] = {}
        self._steps = self._step_end = 0
        lines = [self._line(i, record) for i, record in enumerate(session.threads, 1)]
        names = {number: name for name, number in self._numbers.items()}
        self.message = (
            number_field(1, 1)
            + _text(2, "/host:CPU")
            + b"".join(lines)
            + _table(4, names)
            + _table(5, _FACTS)
        )

    def _line(self, number: int, record: ThreadRecord) -> bytes:
        events = [
            self._event(label, start, end)
            for label, start, end in sorted(record.events, key=lambda e: (e[1], -e[2]))
            if end > self._start  # a span that began before the profile is cut
        ]
        head = number_field(1, number) + _text(2, record.name) + number_field(3, self._began)
        return message_field(3, head + b"".join(events))

    def _event(self, label: Label, start: int, end: int) -> bytes:
        name, line = _name_and_line(label)
        number = self._numbers.setdefault(name, len(self._numbers) + 1)
        start = max(start, self._start)
        content = (
            number_field(1, number)
            + number_field(2, 1000 * (start - self._start))
            + number_field(3, 1000 * (end - start))
        )
        if label.shapes:
            content += _fact(_SHAPES, shapes_text(label.shapes))
        if line:
            content += _fact(_SOURCE, line)
        step = self._step(label, start, end)
        if step is not None:
            content += _fact(_STEP, step) + _fact(_ROOT, 1)
        return message_field(4, content)

    def _step(self, label: Label, start: int, end: int) -> int | None:
        """The number of the step that a span is, `None` for other spans and inside of a step."""
        if start < self._step_end:
            return None
        numbered = re.search(r" step_num=(\d+)", label.name) if label.kind == "user" else None
        if numbered is None and label.kind != "step":
            return None
        self._step_end = end
        self._steps += 1
        return self._steps - 1 if numbered is None else int(numbered[1])


def xspace(session: Session, host: str) -> bytes:
    """The serialized message of a session that has ended."""
    began = time.time_ns() - (time.perf_counter_ns() - session.start)
    return message_field(1, _Plane(session, began).message) + _text(4, host)
