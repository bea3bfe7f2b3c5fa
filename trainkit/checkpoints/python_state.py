"""`PythonState`: values of Python in checkpoints, as text that a class of the user's writes."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np

from trainkit.core.trackable import Trackable

_NAME = "py_state"


class PythonState(Trackable, abc.ABC):
    """An object whose state is a text that it writes and reads itself; checkpoints store it.

    A class of the user's defines `serialize` and `deserialize`. Files can come from anywhere, so
    `deserialize` should not run what it reads, as pickles do.

    Example:
        >>> class Counter(tk.train.experimental.PythonState):
        ...     def __init__(self, count):
        ...         self.count = count
        ...     def serialize(self):
        ...         return str(self.count)
        ...     def deserialize(self, string_value):
        ...         self.count = int(string_value)
        >>> path = tk.train.Checkpoint(counter=Counter(7)).write("state")
        >>> counter = Counter(0)
        >>> _ = tk.train.Checkpoint(counter=counter).read(path)
        >>> counter.count
        7
    """

    @abc.abstractmethod
    def serialize(self) -> str | bytes:
        """The state, as text or bytes."""

    @abc.abstractmethod
    def deserialize(self, string_value: bytes) -> None:
        """Take back what `serialize` gave.

        Args:
            string_value: its bytes; text is in UTF-8.
        """

    def state_arrays(self) -> dict[str, Any]:
        """The bytes of the state.

        Raises:
            TypeError: `serialize` gives neither text nor bytes.
        """
        value = self.serialize()
        if not isinstance(value, str | bytes):
            raise TypeError(
                f"{type(self).__name__}.serialize must give text or bytes, got "
                f"{type(value).__name__}"
            )
        data = value.encode() if isinstance(value, str) else value
        return {_NAME: np.frombuffer(data, np.uint8)}

    def load_state_arrays(self, arrays: dict[str, Any]) -> None:
        """Hand the bytes of the state to `deserialize`.

        Raises:
            ValueError: the file has other arrays.
        """
        if set(arrays) != {_NAME} or arrays[_NAME].dtype != np.uint8 or arrays[_NAME].ndim != 1:
            names = ", ".join(sorted(arrays))
            raise ValueError(
                f"{type(self).__name__} stores the bytes {_NAME!r}, the file has {names}"
            )
        self.deserialize(arrays[_NAME].tobytes())
