"""What variables share that are read and changed by rows: the scatter family and its readers."""

from __future__ import annotations

from typing import Any

from trainkit.core.dispatch import late_ops
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor


class RowUpdates:
    """Reading and changing rows of a variable, by `IndexedSlices` or by positions.

    A class that has it reads its value by `_read` and takes a new one by `assign`.
    """

    def _read(self) -> Tensor:
        raise NotImplementedError

    def assign(self, value: Any) -> Any:
        """Take a new value."""
        raise NotImplementedError

    def _scatter(self, name: str, scatter: Any, indices: Any, updates: Any) -> Any:
        old = self._read()
        updates = convert_to_tensor(updates, dtype_hint=old.dtype)
        rows = late_ops.positions_from_start(convert_to_tensor(indices), old, operation=name)
        return self.assign(scatter(old, rows, updates))

    def _with_rows(self, name: str, scatter: Any, slices: Any) -> Any:
        """Change the rows at `slices.indices` by `slices.values`."""
        if not (hasattr(slices, "indices") and hasattr(slices, "values")):
            raise TypeError(
                f"Variable.{name} takes tk.IndexedSlices(values, indices), got {slices!r}"
            )
        rows = convert_to_tensor(slices.indices)[..., None]
        return self._scatter(name, scatter, rows, slices.values)

    # ------------------------------------------------------------------ rows

    def scatter_update(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Set the rows at `sparse_delta.indices` to its values; of equal rows the last one."""
        return self._with_rows("scatter_update", late_ops.scatter_update, sparse_delta)

    def scatter_add(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Add the values of `sparse_delta` to the rows at its indices; equal rows add up."""
        return self._with_rows("scatter_add", late_ops.scatter_nd_add, sparse_delta)

    def scatter_sub(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Subtract the values of `sparse_delta` from the rows at its indices."""
        return self._with_rows(
            "scatter_sub", late_ops.scatter_nd_add, _each(sparse_delta, late_ops.negative)
        )

    def scatter_mul(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Multiply the rows at the indices of `sparse_delta` by its values."""
        return self._with_rows("scatter_mul", late_ops.scatter_multiply, sparse_delta)

    def scatter_div(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Divide the rows at the indices of `sparse_delta` by its values, which are floats.

        Raises:
            InvalidArgumentError: the variable holds no floats.
        """
        if not self._read().dtype.is_differentiable:
            raise InvalidArgumentError("Variable.scatter_div: the variable must hold floats")
        return self._with_rows(
            "scatter_div", late_ops.scatter_multiply, _each(sparse_delta, late_ops.reciprocal)
        )

    def scatter_max(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Raise the rows at the indices of `sparse_delta` to its values."""
        return self._with_rows("scatter_max", late_ops.scatter_max, sparse_delta)

    def scatter_min(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Lower the rows at the indices of `sparse_delta` to its values."""
        return self._with_rows("scatter_min", late_ops.scatter_min, sparse_delta)

    # ------------------------------------------------------------------ positions

    def scatter_nd_update(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Set the entries at `indices` (n, k) to `updates` (n, ...); of equal places the last."""
        return self._scatter("scatter_nd_update", late_ops.scatter_update, indices, updates)

    def scatter_nd_add(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Add `updates` (n, ...) to the entries at `indices` (n, k); equal indices add up."""
        return self._scatter("scatter_nd_add", late_ops.scatter_nd_add, indices, updates)

    def scatter_nd_sub(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Subtract `updates` (n, ...) from the entries at `indices` (n, k)."""
        return self._scatter(
            "scatter_nd_sub", late_ops.scatter_nd_add, indices, late_ops.negative(updates)
        )

    def scatter_nd_max(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Raise the entries at `indices` (n, k) to `updates` (n, ...)."""
        return self._scatter("scatter_nd_max", late_ops.scatter_max, indices, updates)

    def scatter_nd_min(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Lower the entries at `indices` (n, k) to `updates` (n, ...)."""
        return self._scatter("scatter_nd_min", late_ops.scatter_min, indices, updates)

    # ------------------------------------------------------------------ reading

    def sparse_read(self, indices: Any, name: str | None = None) -> Tensor:
        """The rows at `indices`, of any shape; gradients reach the variable."""
        rows: Tensor = late_ops.take(self._read(), convert_to_tensor(indices), axis=0, wrap=False)
        return rows

    def gather_nd(self, indices: Any, name: str | None = None) -> Tensor:
        """The entries at `indices` (..., k); gradients reach the variable."""
        value = self._read()
        rows = convert_to_tensor(indices)
        rows = late_ops.positions_from_start(rows, value, operation="gather_nd")
        entries: Tensor = late_ops.gather_nd(value, rows)
        return entries


class _Rows:
    """Rows and their new values."""

    def __init__(self, values: Any, indices: Any) -> None:
        self.values = values
        self.indices = indices


def _each(slices: Any, operation: Any) -> Any:
    """The rows with an operation applied to their values."""
    if not hasattr(slices, "values"):
        return slices
    return _Rows(operation(convert_to_tensor(slices.values)), slices.indices)
