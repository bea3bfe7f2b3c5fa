"""Programs of graphs, node by node: their lines are watched by Python's own tracing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from trainkit.graph.runtime.fused import FusedRun
from trainkit.profiler.session import Label, Session, ThreadRecord, wait_for_gpu


def timed_program(session: Session, call: Callable[..., Any]) -> Callable[..., Any]:
    """`Program.__call__` with a span around it, and one for each node inside."""
    timed = session.timed(call, lambda args: session.label("function", args[0].graph.name))

    def run(program: Any, *args: Any) -> Any:
        session.programs[program.code] = program
        before = sys.gettrace()
        sys.settrace(_watch(session))
        try:
            return timed(program, *args)
        finally:
            sys.settrace(before)

    return run


def _watch(session: Session) -> Callable[..., Any]:
    """A trace function that follows the frames of programs and no others."""

    def watch(frame: Any, event: str, argument: Any) -> Any:
        program = session.programs.get(frame.f_code)
        return None if program is None else _Lines(session, program).trace

    return watch


class _Lines:
    """Follows one run of a program: a line begins where the one before it ends."""

    def __init__(self, session: Session, program: Any) -> None:
        self.nodes = program._nodes
        self.labels = session.nodes
        self.record: ThreadRecord = session.record
        self.waits = session.synchronize
        self.node: Any = None
        self.start = 0

    def trace(self, frame: Any, event: str, argument: Any) -> Any:
        """Hear of a line, or of the end."""
        if event == "exception":
            return self.trace
        if self.node is not None:
            if self.waits:
                wait_for_gpu()
            self.record.end(self.labels.get(self.node) or self._new_label(), self.start)
            self.node = None
        if event == "line":
            self.node = self.nodes.get(frame.f_lineno)
            if self.node is not None:
                self.start = self.record.begin()
        return self.trace

    def _new_label(self) -> Label:
        node = self.node
        return self.labels.setdefault(node, Label("node", node_label(node), node_shapes(node)))


def node_label(node: Any) -> str:
    """The operation of a node and the user's line that made it; of a fused one all operations."""
    if isinstance(node.primitive, FusedRun):
        inside = [n.primitive.name for n in node.primitive.part.nodes if n.kind == "op"]
        return f"fused {' '.join(dict.fromkeys(inside))}"
    if node.where is None:
        return str(node.primitive.name)
    file, line, _ = node.where
    return f"{node.primitive.name} ({file.rpartition('/')[2]}:{line})"


def node_shapes(node: Any) -> tuple[Any, ...]:
    """The shapes of a node's inputs, as far as they are known."""
    shapes = [getattr(x, "shape", ()) for x in node.inputs if x is not None]
    return tuple([tuple(shape) for shape in shapes])
