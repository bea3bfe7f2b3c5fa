"""The methods of `Dataset` that gather elements: in batches, windows and groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.data import structure
from trainkit.data.chaining import Chain, threads_for, whole_number
from trainkit.data.node import Leaves
from trainkit.data.sources import SpecNode, elements_node
from trainkit.data.transformations import batching, grouping


class BatchChain(Chain):
    """What `Dataset` inherits of methods that gather elements."""

    def batch(
        self,
        batch_size: int,
        drop_remainder: bool = False,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Self:
        """Elements stacked in groups of `batch_size`.

        Args:
            batch_size: how many.
            drop_remainder: leave out a last group that is smaller.
            num_parallel_calls: a hint of TensorFlow's that changes no result.
            deterministic: the same; the order never changes.
            name: not kept.

        Raises:
            InvalidArgumentError: `batch_size` is below 1; when iterated, elements of different
                shapes.
        """
        threads_for(num_parallel_calls, "batch")
        size = whole_number(batch_size, "batch: batch_size")
        return self._then(batching.BatchNode(self.node, size, bool(drop_remainder)))

    def padded_batch(
        self,
        batch_size: int,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Self:
        """Elements padded at their ends to a common shape, and stacked.

        Args:
            batch_size: how many make a batch.
            padded_shapes: nest of shapes; `None` or -1 in a shape, or for all, means the longest of
                the batch.
            padding_values: nest of values, or one for all; 0, or an empty text, by default.
            drop_remainder: leave out a last group that is smaller.
            name: not kept.

        Raises:
            InvalidArgumentError: an element is longer than its padded shape.
        """
        size = whole_number(batch_size, "padded_batch: batch_size")
        return self._then(
            batching.PaddedBatchNode(
                self.node, size, padded_shapes, padding_values, bool(drop_remainder)
            )
        )

    def rebatch(
        self, batch_size: Any, drop_remainder: bool = False, name: str | None = None
    ) -> Self:
        """Batches cut and joined to other sizes.

        Args:
            batch_size: of the new batches, or a list of sizes that are taken in turn; a 0 in it
                gives an empty batch.
            drop_remainder: leave out a last batch that is smaller.
            name: not kept.

        Raises:
            InvalidArgumentError: a size is below 0, or all are 0.
        """
        sizes = np.asarray(structure.leaf_array(batch_size)).reshape(-1)
        return self._then(
            grouping.RebatchNode(self.node, tuple(map(int, sizes)), bool(drop_remainder))
        )

    def unbatch(self, name: str | None = None) -> Self:
        """The rows of each element as elements."""
        return self._then(batching.UnbatchNode(self.node))

    def window(
        self,
        size: int,
        shift: int | None = None,
        stride: int = 1,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Self:
        """Data sets of `size` elements each; see `flat_map` to turn them into batches.

        Args:
            size: how many elements a window has.
            shift: from the start of one to that of the next; `size` by default.
            stride: from one element of a window to its next.
            drop_remainder: leave out windows that are smaller.
            name: not kept.

        Raises:
            InvalidArgumentError: a number is below 1.
        """
        return self._then(
            batching.WindowNode(
                self.node,
                whole_number(size, "window: size"),
                None if shift is None else whole_number(shift, "window: shift"),
                whole_number(stride, "window: stride"),
                bool(drop_remainder),
                self._window_component,
                lambda spec: self._then(SpecNode(spec)),
            )
        )

    def _window_component(self, index: int, elements: list[Leaves]) -> Any:
        """Component `index` of some elements, as a data set."""
        return self._then(elements_node(0, [[element[index]] for element in elements]))

    def group_by_window(
        self,
        key_func: Callable[..., Any],
        reduce_func: Callable[..., Any],
        window_size: int | None = None,
        window_size_func: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> Self:
        """Elements gathered by key, and what `reduce_func` makes of each full group.

        Args:
            key_func: gives an int scalar for an element.
            reduce_func: makes a data set, such as a batch, of a key and a data set of elements.
            window_size: how many elements make a group.
            window_size_func: gives this number for a key, in place of `window_size`.
            name: not kept.

        Raises:
            ValueError: not exactly one of the two sizes is given.
        """
        if (window_size is None) == (window_size_func is None):
            raise ValueError("group_by_window: give window_size or window_size_func, one of them")
        size = window_size_func or (lambda key: window_size)
        template = self.node.template

        def group(elements: list[Leaves]) -> Any:
            return self._then(elements_node(structure.template_of(template()), elements))

        return self._then(grouping.GroupByWindowNode(self.node, key_func, reduce_func, size, group))

    def bucket_by_sequence_length(
        self,
        element_length_func: Callable[..., Any],
        bucket_boundaries: Any,
        bucket_batch_sizes: Any,
        padded_shapes: Any = None,
        padding_values: Any = None,
        pad_to_bucket_boundary: bool = False,
        no_padding: bool = False,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Self:
        """Padded batches of elements of similar length.

        Args:
            element_length_func: gives the length of an element, an int scalar.
            bucket_boundaries: growing lengths; the first bucket holds what is shorter than the
                first, the last what is as long as the last or longer.
            bucket_batch_sizes: of the batches of each bucket, one more than boundaries.
            padded_shapes: as in `padded_batch`.
            padding_values: as in `padded_batch`.
            pad_to_bucket_boundary: pad up to the boundary less 1, not to the longest of the batch;
                elements of the last bucket are refused.
            no_padding: leave the elements as they are; they must have one shape in each batch.
            drop_remainder: leave out last batches that are smaller.
            name: not kept.

        Raises:
            ValueError: there is not one batch size more than there are boundaries.
        """
        bounds, sizes = [int(b) for b in bucket_boundaries], [int(s) for s in bucket_batch_sizes]
        if len(sizes) != len(bounds) + 1:
            raise ValueError(
                f"bucket_by_sequence_length: {len(sizes)} batch sizes for {len(bounds)} bounds; "
                "there is one size more than boundaries"
            )

        def key(*element: Any) -> Any:
            length = int(np.asarray(structure.leaf_array(element_length_func(*element))))
            bucket = int(np.searchsorted(bounds, length, side="right"))
            if pad_to_bucket_boundary and bucket == len(bounds):
                raise InvalidArgumentError(
                    f"bucket_by_sequence_length: an element of length {length} is beyond the last "
                    f"boundary, {bounds[-1]}; there is nothing to pad it to"
                )
            return np.int64(bucket)

        def batch(bucket: Any, elements: Any) -> Any:
            size = sizes[int(bucket)]
            if no_padding:
                return elements.batch(size, drop_remainder=drop_remainder)
            shapes = padded_shapes
            if pad_to_bucket_boundary:
                shapes = structure.shapes_up_to(
                    self.node.spec(), padded_shapes, bounds[int(bucket)] - 1
                )
            return elements.padded_batch(size, shapes, padding_values, drop_remainder)

        return self.group_by_window(key, batch, window_size_func=lambda b: sizes[int(b)])

    def ragged_batch(
        self,
        batch_size: int,
        drop_remainder: bool = False,
        row_splits_dtype: Any = "int64",
        name: str | None = None,
    ) -> Self:
        """TensorFlow's batches of ragged tensors, of which there are none here.

        Raises:
            UnimplementedError: always; `padded_batch` serves the purpose.
        """
        raise UnimplementedError("ragged_batch: there are no ragged tensors; use padded_batch")

    def sparse_batch(self, batch_size: int, row_shape: Any, name: str | None = None) -> Self:
        """TensorFlow's batches of sparse tensors, of which there are none here.

        Raises:
            UnimplementedError: always; `padded_batch` serves the purpose.
        """
        raise UnimplementedError("sparse_batch: there are no sparse tensors; use padded_batch")
