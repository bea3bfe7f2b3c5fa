"""Traces in the JSON that Perfetto and Chrome's about:tracing read.

Format: "Trace Event Format", complete events ("ph": "X") in microseconds.
"""

from __future__ import annotations

import gzip
import json
import os
from typing import Any

from trainkit.core.files.local_paths import local_path
from trainkit.profiler.rows import shapes_text
from trainkit.profiler.session import Session, ThreadRecord


def trace_events(session: Session) -> list[dict[str, Any]]:
    """All spans as events, with the names of their threads."""
    process = os.getpid()
    events: list[dict[str, Any]] = [_name_row("process_name", process, 0, "trainkit")]
    for record in session.threads:
        events.append(_name_row("thread_name", process, record.ident, record.name))
        events += _spans(session, record, process)
    return events


def _name_row(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def _spans(session: Session, record: ThreadRecord, process: int) -> list[dict[str, Any]]:
    return [
        {
            "ph": "X",
            "cat": label.kind,
            "name": label.name,
            "ts": (start - session.start) / 1e3,
            "dur": (end - start) / 1e3,
            "pid": process,
            "tid": record.ident,
            "args": {"shapes": shapes_text(label.shapes)} if label.shapes else {},
        }
        for label, start, end in sorted(record.events, key=lambda event: (event[1], -event[2]))
    ]


def write_trace(session: Session, path: str | os.PathLike[str]) -> None:
    """Write all spans to a file; compressed if its name ends in `.gz`."""
    dropped = sum(record.dropped for record in session.threads)
    data = {
        "displayTimeUnit": "ns",
        "otherData": {"seconds": session.seconds, "events_left_out": dropped},
        "traceEvents": trace_events(session),
    }
    text = json.dumps(data)
    if local_path(path).endswith(".gz"):
        with gzip.open(path, "wt", encoding="utf-8") as packed:
            packed.write(text)
    else:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
