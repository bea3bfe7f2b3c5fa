"""When a traced function runs as plain Python: to be debugged, or as it calls several replicas."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Switch:
    """Whether all traced functions run as plain Python."""

    eagerly = False


SWITCH = Switch()


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Let all traced functions run as plain Python (True) or as graphs (False), to debug them.

    Args:
        run_eagerly: whether they do.

    Example:
        >>> tk.config.run_functions_eagerly(True)
        >>> tk.config.functions_run_eagerly()
        True
        >>> tk.config.run_functions_eagerly(False)
    """
    SWITCH.eagerly = bool(run_eagerly)


def functions_run_eagerly() -> bool:
    """Whether traced functions run as plain Python at present.

    Example:
        >>> tk.config.functions_run_eagerly()
        False
    """
    return SWITCH.eagerly


class CallsReplicas(BaseException):
    """A trace has come to replicas in threads of their own, which no graph can hold.

    The functions being traced end their traces and run as Python from then on; what they give to
    the replicas is compiled. It is no `Exception`, so that no handler of the function's own takes
    it for an error.
    """


class _Here(threading.local):
    traced = 0
    running = 0


_HERE = _Here()


@contextmanager
def tracing() -> Iterator[None]:
    """Context in which a function is traced, which can be left by `leave_trace`."""
    _HERE.traced += 1
    try:
        yield
    finally:
        _HERE.traced -= 1


def leave_trace() -> None:
    """End the traces of all functions that are traced around, if there are some.

    Raises:
        CallsReplicas: there are.
    """
    if _HERE.traced:
        raise CallsReplicas


def run_around_replicas(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What a function gives that calls replicas, run as Python."""
    _HERE.running += 1
    try:
        return function(*args, **kwargs)
    finally:
        _HERE.running -= 1


def is_around_replicas() -> bool:
    """Whether the code that runs is that of a traced function that calls replicas."""
    return _HERE.running > 0
