"""A profile as TensorBoard shows it: on its pages Text and Graphs, and on that of its plug-in."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

from trainkit.checkpoints.format.atomic import AtomicFile
from trainkit.core.files.output_folders import make_folder
from trainkit.profiler import rows as tables
from trainkit.profiler.chrome import write_trace
from trainkit.profiler.session import Session
from trainkit.profiler.xplane import xspace
from trainkit.summary.media import text as text_summary
from trainkit.summary.protos import message_field, number_field
from trainkit.summary.runs import graph as graph_summary
from trainkit.summary.writer import create_file_writer

MOST_ROWS = 100


def write_profile(session: Session, logdir: str | os.PathLike[str], step: int = 0) -> str:
    """Write a profile's event file, and its spans for the Profile page and for Perfetto.

    Returns:
        The path of the trace.
    """
    run = time.strftime("%Y_%m_%d_%H_%M_%S")
    writer = create_file_writer(logdir, filename_suffix=".profile.v2")
    with writer.as_default(step):
        text_summary("profile", _text(session))
        if session.programs:
            definition, metadata = _graphs(session)
            graph_summary(definition, step)
            writer.add_run_metadata(f"profile {run}", metadata, step)
    writer.close()
    folder = os.path.join(logdir, "plugins", "profile", run)
    make_folder(folder, "the profiler")
    host = socket.gethostname()
    with AtomicFile(os.path.join(folder, f"{host}.xplane.pb")) as file:
        with open(file.fd, "wb", closefd=False) as out:
            out.write(xspace(session, host))
        file.commit()
    path = os.path.join(folder, f"{host}.trace.json.gz")
    write_trace(session, path)
    return path


def _text(session: Session) -> str:
    rows = tables.rows_of(session)
    parts = tables.parts_cells(tables.parts_of(session, session.owner))
    cells = tables.row_cells(rows[:MOST_ROWS], session)
    return (
        f"{1e3 * session.seconds:.3f} ms\n\n{tables.as_markdown(parts, 1)}\n\n"
        f"{tables.as_markdown(cells, 3)}"
    )


# ------------------------------------------------------------------ RunMetadata


def _graphs(session: Session) -> tuple[Any, bytes]:
    """The programs that ran as one `GraphDef`, each in a scope, and the times of its nodes.

    TensorBoard shows one graph of a run. The times are the means in TensorFlow's `RunMetadata`;
    tensorboardX has no such message, so it is put together here. Fields: config.proto and
    step_stats.proto of TensorFlow.
    """
    definition: Any = None
    stats = b""
    used: dict[str, int] = {}
    for program in session.programs.values():
        name = program.graph.name
        used[name] = used.get(name, 0) + 1
        scope = name if used[name] == 1 else f"{name}_{used[name] - 1}"
        part = program.graph.as_graph_def()
        for node in part.node:
            node.name = f"{scope}/{node.name}"
            node.input[:] = [f"{scope}/{name}" for name in node.input]
        if definition is None:
            definition = part
        else:
            definition.node.extend(part.node)
        for node in program._nodes.values():
            stats += _times_of(session, node, f"{scope}/{node.name}")
    return definition, message_field(
        1, message_field(1, message_field(1, b"/device:CPU:0") + stats)
    )


def _times_of(session: Session, node: Any, name: str) -> bytes:
    """The mean time of a node as a field of its device; nothing where it has not run."""
    label = session.nodes.get(node)
    totals = [r.totals[label] for r in session.threads if label is not None and label in r.totals]
    count = sum(numbers[0] for numbers in totals)
    if not count:
        return b""
    total = sum(numbers[1] for numbers in totals)
    return message_field(2, _node_stats(name, max(1, total // count // 1000)))


def _node_stats(name: str, micros: int) -> bytes:
    began = number_field(2, 1) + number_field(3, 0)
    return (
        message_field(1, name.encode()) + began + number_field(4, micros) + number_field(5, micros)
    )
