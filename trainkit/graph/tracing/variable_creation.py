"""Variables that are made while a function is traced.

A graph knows the variables that its trace has met. One that the function makes on each call would
be a single one in the graph, which keeps its value from call to call. So a trace in which variables
were made is followed by a second one, in which none may be made: what is made once and kept is
there by then, and what is made on each call is distinguished from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trainkit.core.dispatch import trace_state
from trainkit.core.user_frames import user_line
from trainkit.graph.ir.user_lines import place_text

_THREAD = trace_state.THREAD


class Making:
    """What one trace of a function hears of variables, those of nested functions included.

    Args:
        function: name of the function.
        again: whether it is the second trace, in which no variable may be made.

    Attributes:
        made: whether a variable was made.
    """

    def __init__(self, function: str, again: bool) -> None:
        self.made = False
        self._function = function
        self._again = again

    def __call__(self, name: str) -> None:
        """Hear of a variable.

        Raises:
            ValueError: the function has made its variables before.
        """
        self.made = True
        if self._again:
            raise ValueError(
                f"{self._function!r} makes the variable {name!r} on each call"
                f"{place_text(user_line(), ', at ')}. Its graph would know only one, whose value "
                "stays from call to call; make the variable (or the layer, metric or optimizer it "
                "belongs to) outside of the function, or keep it in an attribute that is made "
                "once: `if self.v is None: self.v = tk.Variable(...)`"
            )


@contextmanager
def hearing_of_variables(function: str, again: bool) -> Iterator[Making]:
    """Hear of the variables that are made inside of the block, as do the traces around.

    Args:
        function: name of the function that is traced in it.
        again: whether it is the second trace, in which no variable may be made.
    """
    around = _THREAD.making
    making = Making(function, again)

    def hear(name: str) -> None:
        making(name)
        if around is not None:
            around(name)

    _THREAD.making = hear
    try:
        yield making
    finally:
        _THREAD.making = around
