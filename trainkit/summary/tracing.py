"""`trace_on` and `trace_export`: the graph of what is traced meanwhile, for TensorBoard."""

from __future__ import annotations

import threading
import warnings
from typing import Any

from trainkit.core.dispatch import trace_state
from trainkit.core.errors import UnimplementedError
from trainkit.summary.defaults import current_writer
from trainkit.summary.runs import graph


class _Tracing:
    """Whether graphs are collected, and those that were traced since."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.graphs: list[Any] | None = None

    def hear(self, traced: Any) -> None:
        """Take note of a graph that was traced; `trace_state` calls this."""
        with self.lock:
            if self.graphs is not None:
                self.graphs.append(traced)


_TRACING = _Tracing()


def trace_on(graph: bool = True, profiler: bool = False, profiler_outdir: Any = None) -> None:
    """Begin to collect the graphs of functions that are traced, for `trace_export`.

    A function that was traced before is not seen; make a fresh one.

    Args:
        graph: collect graphs.
        profiler: only False; `tk.profiler.experimental.start` profiles.
        profiler_outdir: where a profile would go.

    Raises:
        UnimplementedError: `profiler` is True.
    """
    if profiler:
        raise UnimplementedError(
            "summary.trace_on: profiler=True is not supported; use tk.profiler.experimental.start"
        )
    if _TRACING.graphs is not None:
        warnings.warn("summary.trace_on: graphs are collected already", UserWarning, stacklevel=2)
        return
    if graph:
        _TRACING.graphs = []
        trace_state.GRAPH_LISTENERS.append(_TRACING.hear)


def trace_off() -> None:
    """Stop collecting, and forget what was collected."""
    if _TRACING.graphs is not None:
        _TRACING.graphs = None
        trace_state.GRAPH_LISTENERS.remove(_TRACING.hear)


def trace_export(name: str, step: Any = None, profiler_outdir: Any = None) -> None:
    """Record the graph of the function that was traced last since `trace_on`, and stop collecting.

    Args:
        name: what the trace is called; TensorBoard shows one graph for a run.
        step: the step; 0 by default.
        profiler_outdir: where a profile would go; see `trace_on`.

    Raises:
        ValueError: `trace_on` was not called, or nothing was traced since, or there is no default
            writer.
    """
    graphs = _TRACING.graphs
    if graphs is None:
        raise ValueError(f"summary.trace_export of {name!r}: call summary.trace_on before")
    if current_writer() is None:
        raise ValueError(
            f"summary.trace_export of {name!r}: there is no default writer; use "
            "`with writer.as_default():`"
        )
    if not graphs:
        raise ValueError(
            f"summary.trace_export of {name!r}: no function was traced since trace_on; call one "
            "that has not been traced for these arguments"
        )
    trace_off()
    graph(graphs[-1], 0 if step is None else step)
