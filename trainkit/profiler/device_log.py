"""`set_log_device_placement`: each operation says on which device it runs.

While it is on, functions of operations are exchanged in place, as for a profile; while it is off,
there is not a single instruction more.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from trainkit.core import nest
from trainkit.core.dispatch import trace_state
from trainkit.core.process import forks
from trainkit.core.tensor import Tensor
from trainkit.profiler.instrumentation import Undo, operations_exchanged, put_back


class _Log:
    """What puts everything back while placements are logged."""

    undo: list[Undo] | None = None
    lock = forks.make_lock()


def set_log_device_placement(enabled: bool) -> None:
    """Have each operation that runs eagerly say on standard error on which device it does.

    Those of a `tk.function` run on the device of its inputs and say nothing.

    Args:
        enabled: whether to begin or to end.

    Example:
        >>> tk.debugging.set_log_device_placement(True)
        >>> y = tk.constant(1.0) + 2.0  # "Executing op add in device /device:CPU:0"
        >>> tk.debugging.set_log_device_placement(False)
    """
    with _Log.lock:
        if not enabled:
            put_back(_Log.undo or [])
            _Log.undo = None
        elif _Log.undo is None:
            undo: list[Undo] = []
            try:
                undo.extend(operations_exchanged(lambda primitive: _make_reporter(primitive.name)))
            except BaseException:
                put_back(undo)
                raise
            _Log.undo = undo


def get_log_device_placement() -> bool:
    """Whether operations say on which device they run.

    Example:
        >>> tk.debugging.get_log_device_placement()
        False
    """
    return _Log.undo is not None


def _make_reporter(name: str) -> Callable[[Callable[..., Any]], Any]:
    def make(call: Callable[..., Any]) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            result = call(*args, **kwargs)
            if not trace_state.THREAD.traces:
                first = next((x for x in nest.flatten(result) if type(x) is Tensor), None)
                if first is not None:
                    print(f"Executing op {name} in device {first.device}", file=sys.stderr)
            return result

        return run

    return make
