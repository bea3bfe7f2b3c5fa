"""What a session of version 1 runs for its effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from trainkit.core.dispatch.eval_shape import eagerly


class SessionOperation:
    """Something a session runs for its effect: an initializer or an assignment.

    Args:
        name: what it is called.
        run: takes the session and what it is fed with; gives the operation's value or `None`.
    """

    is_run_by_session = True

    def __init__(self, name: str, run: Callable[[Any, Any], Any]) -> None:
        self.name = name
        self._run = run

    def __repr__(self) -> str:
        return f"<tf.Operation {self.name!r}>"


def assignment(variable: Any, value: Any, name: str = "assign") -> SessionOperation:
    """An operation that stores `value`, a tensor of the session's graph, in a variable."""

    def run(session: Any, feed: Any) -> Any:
        result = session.run(value, feed)
        with eagerly():
            variable.assign(result)
        return variable.numpy()

    return SessionOperation(name, run)


def group_of(operations: Iterable[SessionOperation], name: str = "group_deps") -> SessionOperation:
    """An operation that runs others, one after the other."""
    parts = list(operations)

    def run(session: Any, feed: Any) -> None:
        for part in parts:
            part._run(session, feed)

    return SessionOperation(name, run)
