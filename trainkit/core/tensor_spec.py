"""`TensorSpec`: shape and dtype of tensors that a data set gives or a function takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainkit.core import dtypes
from trainkit.core.dtypes import DType
from trainkit.core.shapes import TensorShape
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.core.values.type_aliases import DTypeLike


class TensorSpec:
    """What is known of a tensor before it is there.

    Args:
        shape: sizes of the axes, `None` where any size goes; `None` alone for any rank.
        dtype: element type.
        name: a name for texts.

    >>> TensorSpec((None, 3), "float32").is_compatible_with(TensorSpec((2, 3), "float32"))
    True
    """

    __slots__ = ("dtype", "name", "shape")

    def __init__(
        self, shape: Any = (), dtype: DTypeLike = "float32", name: str | None = None
    ) -> None:
        self.shape = TensorShape(shape)
        self.dtype: DType = dtypes.as_dtype(dtype)
        self.name = name

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> TensorSpec:
        """The spec of one tensor."""
        return cls(tensor.shape, tensor.dtype, name)

    @classmethod
    def from_spec(cls, spec: Any, name: str | None = None) -> TensorSpec:
        """The same spec, under another name if one is given."""
        return cls(spec.shape, spec.dtype, name or getattr(spec, "name", None))

    @property
    def rank(self) -> int | None:
        """The number of axes, `None` where it is not known."""
        return self.shape.rank

    @property
    def value_type(self) -> type[Tensor]:
        """What it describes: `Tensor`."""
        return Tensor

    def is_compatible_with(self, other: Any) -> bool:
        """Whether a tensor, or what converts to one, or another spec could be this one."""
        if not (isinstance(other, TensorSpec) or is_tensor(other)):
            try:
                other = convert_to_tensor(other)
            except (TypeError, ValueError):
                return False
        return self.dtype == other.dtype and self.shape.is_compatible_with(other.shape)

    def most_specific_compatible_type(self, other: TensorSpec) -> TensorSpec | None:
        """The narrowest spec that both fit, `None` when rank or dtype differ."""
        shape = self.shape.most_specific_compatible_shape(other.shape)
        if self.dtype != other.dtype or (shape.rank is None and self.shape.rank is not None):
            return None
        return TensorSpec(shape, self.dtype)

    def is_subtype_of(self, other: Any) -> bool:
        """Whether every tensor that fits this spec fits `other` too."""
        return (
            isinstance(other, TensorSpec)
            and self.dtype == other.dtype
            and self.shape.is_subtype_of(other.shape)
            and (other.name is None or other.name == self.name)
        )

    def most_specific_common_supertype(self, others: Sequence[TensorSpec]) -> TensorSpec | None:
        """The narrowest spec that this and all `others` fit, `None` when dtypes differ."""
        if any(other.dtype != self.dtype for other in others):
            return None
        shape = self.shape.most_specific_common_supertype([other.shape for other in others])
        same_name = all(other.name == self.name for other in others)
        return TensorSpec(shape, self.dtype, self.name if same_name else None)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TensorSpec)
            and self.shape == other.shape
            and self.dtype == other.dtype
            and self.name == other.name
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.name))

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype!r}, name={self.name!r})"

    def __reduce__(self) -> Any:
        return TensorSpec, (self.shape.dims, self.dtype.name, self.name)


def type_spec_from_value(value: object) -> TensorSpec:
    """The `tk.TensorSpec` of a tensor, or of what converts to one.

    Args:
        value: tensor, variable, array, number, text, or nested lists of these.

    Raises:
        TypeError: it does not convert to a tensor.

    Example:
        >>> tk.type_spec_from_value([[1.0, 2.0]])
        TensorSpec(shape=(1, 2), dtype=tf.float32, name=None)
    """
    try:
        tensor: Any = value if is_tensor(value) else convert_to_tensor(value)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"type_spec_from_value: {value!r} of type {type(value).__name__} is no tensor and does "
            "not convert to one; give a spec for each tensor in it"
        ) from error
    return TensorSpec(tensor.shape, tensor.dtype)
