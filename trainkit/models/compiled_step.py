"""A model's step as a compiled function, made once the step has been run and seen to pay."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from trainkit.core import recorder
from trainkit.graph.function import function, functions_run_eagerly

FIRST_EAGER = 2
"""Steps that run operation by operation, so that all that is made by the first call is there."""


class CompiledStep:
    """Calls a step eagerly at first, then as a graph; both give the same numbers.

    A step that can't be traced, because it looks at values or leaves the library, goes on eagerly,
    and a warning says why.

    Args:
        step: a bound method of the model, `train_step` or `test_step`.
        jit_compile: `True`, `False`, or `"auto"`.
    """

    def __init__(self, step: Callable[[Any], Any], jit_compile: Any) -> None:
        self._step = step
        self._calls = 0
        jit = None if jit_compile == "auto" else bool(jit_compile)
        self._function: Any = function(step, jit_compile=jit)

    def __call__(self, data: Any) -> Any:
        """One step on a batch."""
        if self._function is None or functions_run_eagerly() or recorder.THREAD.traces:
            return self._step(data)
        if self._calls < FIRST_EAGER:
            self._calls += 1
            return self._step(data)
        if self._calls == FIRST_EAGER:
            self._calls += 1
            try:
                self._function.get_concrete_function(data)
            except Exception as error:
                self._function = None
                warnings.warn(
                    f"{getattr(self._step, '__qualname__', 'the step')} can't be compiled and runs "
                    f"eagerly, which is slower: {type(error).__name__}: {error}\n"
                    "compile(run_eagerly=True) says that this is meant.",
                    UserWarning,
                    stacklevel=4,
                )
                return self._step(data)
        return self._function(data)
