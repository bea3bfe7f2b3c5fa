"""`trace_on` and `trace_export`: the graph of what is traced meanwhile, for TensorBoard."""

from __future__ import annotations

import importlib
import os
import threading
import warnings
from typing import Any

from trainkit.core.dispatch import trace_state
from trainkit.summary.defaults import chosen_step, current_writer
from trainkit.summary.runs import run_graphs


class _Tracing:
    """Whether graphs are collected, and those that were traced since."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.graphs: list[Any] | None = None
        self.profiles: Any = None  # the folder for the profile that runs

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
        profiler: take a profile as well, as `tk.profiler.experimental.start` does.
        profiler_outdir: folder for the profile; needed with `profiler`.

    Raises:
        ValueError: `profiler` is True and `profiler_outdir` is missing.
        FailedPreconditionError: a profile runs already.

    Example:
        >>> with tk.summary.create_file_writer("logs").as_default():
        ...     tk.summary.trace_on()
        ...     y = tk.function(lambda x: x + 1.0)(tk.constant(1.0))
        ...     tk.summary.trace_export("step", step=0)
    """
    if profiler and profiler_outdir is None:
        raise ValueError("summary.trace_on: profiler=True needs profiler_outdir, a folder")
    if _TRACING.graphs is not None or _TRACING.profiles:
        warnings.warn("summary.trace_on: a trace is under way", UserWarning, stacklevel=2)
        return
    if profiler:
        _profiler().start(profiler_outdir)
        _TRACING.profiles = os.fsdecode(profiler_outdir)
    if graph:
        _TRACING.graphs = []
        trace_state.GRAPH_LISTENERS.append(_TRACING.hear)


def trace_off() -> None:
    """Stop collecting, and forget what was collected.

    Example:
        >>> tk.summary.trace_on()
        >>> tk.summary.trace_off()
    """
    _stop(save=False)


def _stop(save: bool) -> None:
    if _TRACING.graphs is not None:
        _TRACING.graphs = None
        trace_state.GRAPH_LISTENERS.remove(_TRACING.hear)
    if _TRACING.profiles:
        _TRACING.profiles = None
        _profiler().stop(save=save)


def _profiler() -> Any:
    # by name, since profiles are written with summaries and stand above them
    return importlib.import_module("trainkit.profiler.experimental")


def trace_export(name: str, step: Any = None, profiler_outdir: Any = None) -> None:
    """Record what was traced since `trace_on`, and stop collecting.

    The page Graphs of TensorBoard offers the graphs of the functions under `name`.

    Args:
        name: what the trace is called.
        step: the step; None for the default step.
        profiler_outdir: where the profile goes; only `None`, or what `trace_on` was given.

    Raises:
        ValueError: `trace_on` was not called, or no function was traced since, or there is no
            default writer, or no step, or the profile goes elsewhere.

    Example:
        >>> with tk.summary.create_file_writer("logs").as_default():
        ...     tk.summary.trace_on()
        ...     y = tk.function(lambda x: x + 1.0)(tk.constant(1.0))
        ...     tk.summary.trace_export("step", step=0)
    """
    graphs = _TRACING.graphs
    if profiler_outdir is not None and os.fsdecode(profiler_outdir) != _TRACING.profiles:
        raise ValueError(
            f"summary.trace_export of {name!r}: profiler_outdir is {profiler_outdir!r}, trace_on "
            f"was given {_TRACING.profiles!r}"
        )
    if graphs is None and not _TRACING.profiles:
        raise ValueError(f"summary.trace_export of {name!r}: call summary.trace_on before")
    if graphs is not None:
        if current_writer() is None:
            raise ValueError(
                f"summary.trace_export of {name!r}: there is no default writer; use "
                "`with writer.as_default():`"
            )
        if not graphs:
            raise ValueError(
                f"summary.trace_export of {name!r}: no function was traced since trace_on; call "
                "one that has not been traced for these arguments"
            )
        run_graphs(name, graphs, chosen_step(name, step))
    _stop(save=True)
