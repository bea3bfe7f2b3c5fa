"""The programs of a graph of unknown sizes: one for each range of sizes that calls have had."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trainkit.core.process import forks
from trainkit.graph.ir.graph import Graph
from trainkit.graph.runtime.program import Program
from trainkit.graph.runtime.sized_graphs import unknown_axes

if TYPE_CHECKING:
    from trainkit.graph.runtime.general_fusion import GeneralFusion, Sizes

_MOST_PROGRAMS = 12
"""Ranges that get code of their own; other sizes share what is compiled where none is known."""


class ProgramsBySize:
    """Fused programs of one graph; which of them serves a call is asked of its arrays.

    Attributes:
        graph: the graph.
        latest: what served the last call, a function of arrays, which gives `None` for sizes that
            it is not for.
        rest: what runs sizes that no program is for, once there are as many as there may be.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.latest: Callable[..., list[Any] | None] | None = None
        self.rest: Program | None = None
        self._axes = unknown_axes(graph)
        self._runs: tuple[Any, ...] = ()
        self._programs: list[Program] = []
        self._sizes: list[Sizes] = []
        self._fusion: GeneralFusion | None = None
        self._lock = forks.make_lock()

    def __call__(self, arrays: list[Any]) -> list[Any] | None:
        """Run on arrays, `None` where there is no program for their sizes."""
        for run in self._runs:
            results: list[Any] | None = run(*arrays)
            if results is not None:
                self.latest = run  # the next call is likely to be of the same sizes
                return results
        return None if self.rest is None else self.rest(arrays)

    @property
    def source(self) -> str | None:
        """The text of the newest program."""
        return self._programs[-1].source if self._programs else None

    def sizes_of(self, arrays: list[Any]) -> tuple[int, ...]:
        """What is not known of the shapes."""
        return tuple(int(arrays[input_index].shape[axis]) for input_index, axis in self._axes)

    def compile(self, sizes: tuple[int, ...]) -> bool:
        """Make a program for a range of sizes in which these lie; one at a time.

        Returns:
            False when that can't be done here, which has been said.
        """
        from trainkit.graph.runtime.fusion import fuse, warm
        from trainkit.graph.runtime.general_fusion import GeneralFusion

        with self._lock:
            # another thread may have made it while this one waited for the lock
            if self.rest is not None or any(s.include(sizes) for s in self._sizes):
                return True
            if len(self._programs) == _MOST_PROGRAMS:
                graph, ranges = fuse(self.graph), None
            else:
                self._fusion = self._fusion or GeneralFusion(self.graph)
                graph, ranges = self._fusion.widest(sizes)
            if not warm(graph):
                return False
            if ranges is None:
                self.rest = Program(graph)
                return True
            program = Program(graph, conditions=ranges.conditions(self._axes))
            self._programs.append(program)
            self._sizes.append(ranges)
            # a new tuple: a call in another thread goes on through the one it has
            self._runs = (program.run, *self._runs)
            return True
