"""What a resumed run writes again is taken out of its older event files."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable

from trainkit.core.errors import DataLossError
from trainkit.records.framing import framed
from trainkit.records.streams import records_of
from trainkit.summary.event_file import PREFIX


def has_events(folder: str | os.PathLike[str]) -> bool:
    """Whether a folder on this machine has an event file."""
    return any(pathlib.Path(folder).glob(f"{PREFIX}*"))


def drop_events(
    folder: str | os.PathLike[str], is_late: Callable[[str, int], bool]
) -> dict[str, int]:
    """Take summaries out of the event files of a folder; files without any stay untouched.

    A file is replaced whole or not at all. Behind a damaged record, as a killed program leaves
    one, nothing is read.

    Args:
        folder: of event files on this machine.
        is_late: says by tag and step whether a summary goes.

    Returns:
        How many went, by name of the file.
    """
    dropped = {}
    for path in sorted(pathlib.Path(folder).glob(f"{PREFIX}*")):
        events, count = _select_events(path, is_late)
        if count:
            # the name of the new file must not look like one of events, which readers open
            partial = path.with_name(f".{os.getpid()}.partial")
            with open(partial, "wb") as file:
                file.write(b"".join(framed([event]) for event in events))
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
            dropped[path.name] = count
    return dropped


def _select_events(
    path: pathlib.Path, is_late: Callable[[str, int], bool]
) -> tuple[list[bytes], int]:
    """The events of a file that stay, serialized, and how many summaries go."""
    from tensorboardX.proto.event_pb2 import Event

    events, count = [], 0
    try:
        for record in records_of(path):
            event = Event.FromString(record)
            values = event.summary.value
            left = [value for value in values if not is_late(value.tag, event.step)]
            if len(left) == len(values):
                events.append(record)
                continue
            count += len(values) - len(left)
            if left:
                del values[:]
                values.extend(left)
                events.append(event.SerializeToString())
    except DataLossError:  # the torn end of a killed run
        return events, count
    return events, count
