"""`Optional`: a value that may be there or not, such as the next element of a pass."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from trainkit.core import nest
from trainkit.core.dispatch import late_ops
from trainkit.core.dtypes import as_dtype
from trainkit.core.string_tensor import string_tensor
from trainkit.core.tensor import convert_to_tensor, wrap
from trainkit.core.tensor_spec import TensorSpec


class Optional(NamedTuple):
    """A value that may be there or not, which loops of traced functions can hand on.

    Attributes:
        present: whether it is there, a bool scalar tensor.
        value: a nest of tensors; zeros and empty texts where nothing is there.

    Example:
        >>> found = tk.experimental.Optional.from_value(42)
        >>> bool(found.has_value()), int(found.get_value())
        (True, 42)
        >>> nothing = tk.experimental.Optional.empty(tk.TensorSpec((), tk.int32))
        >>> bool(nothing.has_value())
        False
    """

    present: Any
    value: Any

    @staticmethod
    def from_value(value: Any) -> Optional:
        """One that has a value.

        Args:
            value: a tensor, what becomes one, or a nest of these.
        """
        return Optional(wrap(np.bool_(True)), nest.map_structure(convert_to_tensor, value))

    @staticmethod
    def empty(element_spec: Any) -> Optional:
        """One without a value.

        Args:
            element_spec: nest of `TensorSpec`s: what it would be like.
        """
        return Optional(wrap(np.bool_(False)), nest.map_structure(_make_nothing, element_spec))

    def has_value(self, name: Any = None) -> Any:
        """Whether the value is there, a bool scalar tensor.

        Args:
            name: not kept.
        """
        return self.present

    def get_value(self, name: Any = None) -> Any:
        """The value.

        Args:
            name: not kept.

        Raises:
            InvalidArgumentError: it is not there; in a traced function when that runs.
        """
        late_ops.assert_true(
            self.present, message="the Optional has no value; ask has_value() before"
        )
        return self.value

    @property
    def element_spec(self) -> Any:
        """Structure, shapes and dtypes of the value."""
        return nest.map_structure(lambda x: TensorSpec(x.shape, x.dtype), self.value)


def _make_nothing(spec: Any) -> Any:
    """What stands where a tensor would be: zeros, none along axes of any size."""
    shape = tuple(size or 0 for size in (spec.shape if spec.shape.rank is not None else ()))
    dtype = as_dtype(spec.dtype)
    if dtype.name == "string":
        return string_tensor(np.full(shape, b"", object))
    return wrap(np.zeros(shape, dtype.dtype))
