"""`profile`: a block whose time is taken apart."""

from __future__ import annotations

import os
from time import perf_counter_ns
from typing import Any

from trainkit.core.errors import FailedPreconditionError
from trainkit.core.process import forks
from trainkit.profiler import rows as tables
from trainkit.profiler.instrumentation import instrument
from trainkit.profiler.rows import Row
from trainkit.profiler.session import Session

_WIDEST = 48


class _Active:
    """The profile that runs now, if any, and what ends it."""

    session: Session | None = None
    undo: Any = None
    lock = forks.make_lock()


def begin(synchronize: bool = False) -> Session:
    """Begin to note spans.

    Raises:
        FailedPreconditionError: a profile runs already.
    """
    with _Active.lock:
        if _Active.session is not None:
            raise FailedPreconditionError(
                "profiler: a profile runs already, and there can be one at a time; end it first"
            )
        session = Session(synchronize)
        _Active.undo = instrument(session)
        _Active.session = session
    session.restart()  # looking in has imported modules, and called what it looks at
    return session


def end() -> Session:
    """End the profile that runs, and put everything back.

    Raises:
        FailedPreconditionError: none runs.
    """
    with _Active.lock:
        session = _Active.session
        if session is None:
            raise FailedPreconditionError("profiler: no profile runs, so none can be ended")
        session.stop = perf_counter_ns()
        _Active.undo()
        _Active.session = _Active.undo = None
    return session


def running() -> Session | None:
    """The session of the profile that runs now."""
    return _Active.session


class profile:
    """Take apart the time of a block: how often what ran, and for how long.

    Spans are noted of operations with the shapes of their inputs, nodes of graphs with the line of
    your code that made them, kernels, layers, the backward pass of a tape, optimizers, tracing and
    compiling, batches of data, callbacks of `fit`, checkpoints and summaries, in all threads. Spans
    contain one another: `total` is from beginning to end, `self` without the spans inside. Noting
    a span takes about a microsecond, which the spans around it count as theirs; outside of a
    profile it takes nothing.

    Args:
        synchronize: wait after each operation until a GPU has its result; otherwise times of
            operations there are those of handing them over.

    Raises:
        FailedPreconditionError: a profile runs already.

    >>> x = tk.ones((64, 64))
    >>> with tk.profiler.profile() as p:
    ...     y = tk.matmul(x, x) + 1.0
    >>> sorted((row.name, row.count) for row in p.rows if row.kind == "op")
    [('add', 1), ('matmul', 1)]
    """

    def __init__(self, synchronize: bool = False) -> None:
        self._synchronize = synchronize
        self._session: Session | None = None

    def __enter__(self) -> profile:
        self._session = begin(self._synchronize)
        return self

    def __exit__(self, *exc: object) -> None:
        end()

    @property
    def session(self) -> Session:
        """What was noted.

        Raises:
            FailedPreconditionError: the block has not been entered.
        """
        if self._session is None:
            raise FailedPreconditionError("profile: nothing has been noted; use it in a with block")
        return self._session

    @property
    def seconds(self) -> float:
        """How long the block took."""
        return self.session.seconds

    @property
    def rows(self) -> list[Row]:
        """The spans, summed up by kind, name, shapes and thread; most time in itself first."""
        return tables.rows_of(self.session)

    @property
    def parts(self) -> dict[str, float]:
        """Seconds that the block's own thread spent in each part of the library, largest first."""
        return tables.parts_of(self.session, self.session.owner)

    def table(self, sort_by: str = "self", limit: int = 30) -> str:
        """The profile as text: the parts, then the rows.

        Args:
            sort_by: `"self"`, `"total"`, `"count"`, `"mean"` or `"name"`.
            limit: at most so many rows.

        Raises:
            InvalidArgumentError: `sort_by` is none of these.
        """
        rows = tables.ordered(self.rows, sort_by)
        cells = [
            [tables.cut(cell, _WIDEST) for cell in line]
            for line in tables.row_cells(rows[:limit], self.session)
        ]
        more = f"\n({len(rows) - limit} more rows)" if len(rows) > limit else ""
        return (
            f"{1e3 * self.seconds:.3f} ms\n\n"
            f"{tables.as_text(tables.parts_cells(self.parts), 1)}\n\n"
            f"{tables.as_text(cells, 3)}{more}"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the spans for Perfetto (ui.perfetto.dev) or Chrome's about:tracing.

        Args:
            path: of a JSON file; one that ends in `.gz` is compressed.
        """
        from trainkit.profiler.chrome import write_trace

        write_trace(self.session, path)

    def write_summary(self, logdir: str | os.PathLike[str]) -> str:
        """Write what TensorBoard shows, and a trace for Perfetto beside it.

        The page Text has the tables, the page Graphs the functions that ran with the time of each
        node. Where the plug-in `xprof` is installed, the page Profile has steps, operations and a
        timeline.

        Args:
            logdir: folder of event files.

        Returns:
            The path of the trace.
        """
        from trainkit.profiler.tensorboard import write_profile

        return write_profile(self.session, logdir)
