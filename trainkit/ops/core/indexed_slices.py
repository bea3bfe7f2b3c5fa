"""Some rows of a tensor, by their numbers."""

from __future__ import annotations

from typing import Any

from trainkit.core.shapes import TensorShape
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.ops.arrays.axes import expand_dims
from trainkit.ops.arrays.creation import zeros
from trainkit.ops.indexing.scattering import scatter_nd_add
from trainkit.ops.math.elementwise import cast


class IndexedSlices:
    """Some rows of a tensor: their numbers and values.

    What `Variable.scatter_add` and the like take; `convert_to_tensor` makes a whole tensor of it,
    with zeros in the other rows, where `dense_shape` is known.

    Args:
        values: tensor (n, ...).
        indices: ints (n,).
        dense_shape: shape of the whole, or `None`.

    Example:
        >>> table = tk.Variable([[1.0], [2.0]])
        >>> with tk.GradientTape() as tape:
        ...     loss = tk.reduce_sum(tk.gather(table, [1, 1]))
        >>> tk.convert_to_tensor(tape.gradient(loss, table)).numpy()
        array([[0.],
               [2.]], dtype=float32)
    """

    def __init__(self, values: Any, indices: Any, dense_shape: Any = None) -> None:
        self.values = convert_to_tensor(values)
        self.indices = convert_to_tensor(indices)
        self.dense_shape = None if dense_shape is None else convert_to_tensor(dense_shape)

    @property
    def dtype(self) -> Any:
        """The element type."""
        return self.values.dtype

    @property
    def shape(self) -> TensorShape:
        """Shape of the whole, as far as known."""
        if self.dense_shape is None or isinstance(self.dense_shape, SymbolicTensor):
            return TensorShape([None, *self.values.shape[1:]])
        return TensorShape(self.dense_shape.numpy().tolist())

    @property
    def device(self) -> str:
        """Where the values are."""
        return self.values.device

    def __tensor__(self, dtype: Any = None) -> Tensor:
        if self.dense_shape is None:
            raise ValueError("IndexedSlices: without dense_shape the number of rows is not known")
        rows = expand_dims(self.indices, -1)
        dense = zeros(self.dense_shape, self.values.dtype)
        result: Tensor = scatter_nd_add(dense, rows, self.values)
        return result if dtype is None else cast(result, dtype)

    def __neg__(self) -> IndexedSlices:
        return IndexedSlices(-self.values, self.indices, self.dense_shape)

    def __repr__(self) -> str:
        return f"IndexedSlices(indices={self.indices!r}, values={self.values!r})"
