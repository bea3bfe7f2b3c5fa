"""`trace_on` and `trace_export`: the graph of what is traced meanwhile, for TensorBoard."""

from __future__ import annotations

import warnings
from typing import Any

from trainkit.core.dispatch import trace_state
from trainkit.core.files.local_paths import local_path
from trainkit.core.process import forks
from trainkit.core.process.later_imports import DeferredModule
from trainkit.summary.defaults import chosen_step, current_writer
from trainkit.summary.runs import run_graphs

# Profiles are written with summaries, so they stand above them.
_profiling = DeferredModule("trainkit.profiler.profiling")
_profile_files = DeferredModule("trainkit.profiler.tensorboard")


class _Tracing:
    """Whether graphs are collected, and those that were traced since."""

    def __init__(self) -> None:
        self.lock = forks.make_lock()
        self.graphs: list[Any] | None = None
        self.profiles = False  # whether a profile runs
        self.folder: str | None = None  # where it goes, once that is known

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
        profiler_outdir: folder for the profile; `None` where `trace_export` names it.

    Raises:
        FailedPreconditionError: a profile runs already.

    Example:
        >>> with tk.summary.create_file_writer("logs").as_default():
        ...     tk.summary.trace_on()
        ...     y = tk.function(lambda x: x + 1.0)(tk.constant(1.0))
        ...     tk.summary.trace_export("step", step=0)
    """
    if _TRACING.graphs is not None or _TRACING.profiles:
        warnings.warn("summary.trace_on: a trace is under way", UserWarning, stacklevel=2)
        return
    folder = _path(profiler_outdir)
    if profiler:
        _profiling.begin(synchronize=True)
        _TRACING.profiles, _TRACING.folder = True, folder
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
    """End the trace of graphs and the profile that are under way; `save` writes the profile."""
    if _TRACING.graphs is not None:
        _TRACING.graphs = None
        trace_state.GRAPH_LISTENERS.remove(_TRACING.hear)
    if _TRACING.profiles:
        folder, _TRACING.profiles, _TRACING.folder = _TRACING.folder, False, None
        session = _profiling.end()
        if save:
            _profile_files.write_profile(session, folder)


def _path(folder: Any) -> str | None:
    return None if folder is None else local_path(folder)


def trace_export(name: str, step: Any = None, profiler_outdir: Any = None) -> None:
    """Record what was traced since `trace_on`, and stop collecting.

    The page Graphs of TensorBoard offers the graphs of the functions under `name`.

    Args:
        name: what the trace is called.
        step: the step; None for the default step.
        profiler_outdir: folder for the profile, unless `trace_on` was given it; without
            `trace_on(profiler=True)` there is no profile, and nothing goes there.

    Raises:
        ValueError: `trace_on` was not called, or no function was traced since, or there is no
            default writer, or no step, or no folder for the profile, or two of them.

    Example:
        >>> with tk.summary.create_file_writer("logs").as_default():
        ...     tk.summary.trace_on()
        ...     y = tk.function(lambda x: x + 1.0)(tk.constant(1.0))
        ...     tk.summary.trace_export("step", step=0)
    """
    graphs, folder = _TRACING.graphs, _path(profiler_outdir)
    if graphs is None and not _TRACING.profiles:
        raise ValueError(f"summary.trace_export of {name!r}: call summary.trace_on before")
    if not _TRACING.profiles:
        folder = None
    if folder is not None and _TRACING.folder not in (None, folder):
        raise ValueError(
            f"summary.trace_export of {name!r}: profiler_outdir is {folder!r}, trace_on "
            f"was given {_TRACING.folder!r}"
        )
    if _TRACING.profiles and folder is None and _TRACING.folder is None:
        raise ValueError(
            f"summary.trace_export of {name!r}: a profile was taken; name a folder for it by "
            "profiler_outdir"
        )
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
    _TRACING.folder = folder or _TRACING.folder
    _stop(save=True)
