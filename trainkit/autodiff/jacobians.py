"""Jacobians: gradients by many output gradients, all in one backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from trainkit.autodiff.backward import module_of, rows_of_zeros, unit_seeds
from trainkit.core import nest
from trainkit.core.dispatch import late_ops
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, wrap
from trainkit.core.values.type_aliases import Leaf
from trainkit.core.variable import Variable

K = TypeVar("K")
LeafT = TypeVar("LeafT", bound="Leaf")


class Jacobians:
    """What a tape makes of its gradients; `GradientTape` has `gradient` and `as_target`."""

    gradient: Callable[..., Any]
    as_target: Callable[[Any], Tensor]

    @overload
    def jacobian(
        self,
        target: Any,
        sources: Leaf,
        unconnected_gradients: str = "none",
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Tensor: ...
    @overload
    def jacobian(
        self,
        target: Any,
        sources: list[LeafT],
        unconnected_gradients: str = "none",
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> list[Tensor]: ...
    @overload
    def jacobian(
        self,
        target: Any,
        sources: tuple[Leaf, ...],
        unconnected_gradients: str = "none",
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> tuple[Tensor, ...]: ...
    @overload
    def jacobian(
        self,
        target: Any,
        sources: dict[K, LeafT],
        unconnected_gradients: str = "none",
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> dict[K, Tensor]: ...
    @overload
    def jacobian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: str = "none",
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Any: ...
    def jacobian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: str = "none",
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """The derivative of every element of `target` by every element of each of `sources`.

        Args:
            target: tensor of shape (...t).
            sources: tensors or variables of shapes (...s), nested as you like.
            unconnected_gradients: `"none"` or `"zero"`.
            parallel_iterations: a hint of TensorFlow's that changes no result.
            experimental_use_pfor: likewise.

        Returns:
            A nest like `sources` of tensors (...t, ...s).

        Raises:
            RuntimeError: the tape is not persistent and has given its gradient.
        """
        target = self.as_target(target)
        flat = nest.flatten(sources)
        count = target.shape.num_elements()
        if count is None:
            raise InvalidArgumentError(
                f"GradientTape.jacobian: the target has shape {target.shape}; all its sizes must "
                "be known while the function is traced"
            )
        # A row of seeds for each element of the target, all of them in one backward pass.
        stacks = self._stacked_rows(target, flat, unit_seeds(target, count), unconnected_gradients)
        results: list[Any] = []
        for stack, source in zip(stacks, flat, strict=True):
            if stack is None:
                results.append(None)
                continue
            dims = tuple(target.shape) + tuple(source.shape)
            results.append(late_ops.reshape(stack, shape=dims))
        return nest.pack(sources, results)

    def batch_jacobian(
        self,
        target: Any,
        source: Any,
        unconnected_gradients: str = "none",
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Tensor:
        """The jacobian of each batch entry of `target` by the same entry of `source`.

        Args:
            target: tensor (batch, ...t).
            source: tensor or variable (batch, ...s); entry i of the target depends on entry i of it
                alone.
            unconnected_gradients: `"none"` or `"zero"`, which changes no result either.
            parallel_iterations: a hint of TensorFlow's that changes no result.
            experimental_use_pfor: a hint of TensorFlow's that changes no result.

        Returns:
            A tensor (batch, ...t, ...s); zeros, as TensorFlow gives, where the target does not
            depend on the source.

        Raises:
            RuntimeError: the tape is not persistent and has given its gradient.
            InvalidArgumentError: the batch sizes differ.
        """
        target = self.as_target(target)
        if len(target.shape) == 0 or len(source.shape) == 0 or target.shape[0] != source.shape[0]:
            raise InvalidArgumentError(
                f"GradientTape.batch_jacobian: the target has shape {target.shape}, the source "
                f"{source.shape}; their first axes, the batch, must be equal"
            )
        reshape = late_ops.reshape
        batch, inner = target.shape[0], tuple(target.shape[1:])
        count = 1
        for n in inner:
            count *= n
        xp = module_of(target)
        # Entries of a batch do not meet, so a seed may be 1 in all of them at once: `count` rows
        # do, in place of `batch * count`.
        units = xp.eye(count, dtype=target.dtype.dtype)[:, None, :]
        seeds = xp.broadcast_to(units, (count, batch, count)).reshape((count, *target.shape))
        (stack,) = self._stacked_rows(target, [source], wrap(seeds), unconnected_gradients)
        if stack is None:
            stack = rows_of_zeros(source.value() if isinstance(source, Variable) else source, count)
        # The stack is (count, batch, ...s); in the result the batch comes first.
        axes = (1, 0, *range(2, len(stack.shape)))
        moved = late_ops.transpose(stack, axes=axes)
        jacobians: Tensor = reshape(moved, shape=(batch, *inner, *tuple(source.shape[1:])))
        return jacobians

    def _stacked_rows(
        self, target: Tensor, flat: list[Any], seeds: Tensor, unconnected: str
    ) -> list[Any]:
        """Gradients by each of `flat` for all output gradients in `seeds` (n, ...) in one pass.

        Returns:
            For each source a tensor (n, ...), or `None`.
        """
        from trainkit.ops.core.vmap import BatchedTensor, unbatched

        count = seeds.shape[0]
        if not count:  # no rows; which sources the target depends on counts all the same
            gradients = self.gradient(target, flat, None, unconnected)
            return [None if g is None else rows_of_zeros(g, 0) for g in gradients]
        # Operations on a stack run once for all rows, each by its batching rule.
        units = BatchedTensor(seeds)
        gradients = self.gradient(target, flat, units, unconnected)
        return [None if g is None else unbatched(g, units.level, count) for g in gradients]
