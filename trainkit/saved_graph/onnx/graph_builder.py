"""`GraphBuilder`: what rules write the nodes of an ONNX graph with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from trainkit.core import dtypes
from trainkit.core.errors import UnimplementedError
from trainkit.saved_graph.onnx.graph_values import Dims, Value, broadcast_dims, to_first, to_last
from trainkit.saved_graph.onnx.node_records import GraphRecord, NodeRecord
from trainkit.saved_graph.onnx.onnx_messages import ELEMENT_TYPES

SMALL = 64  # bytes; equal constants up to this size are written once


class GraphBuilder:
    """Writes nodes, and gives the values that they make.

    Attributes:
        record: the graph so far.
        root: the builder of the outermost graph, which has the constants and names of all.
        label: what nodes are called at the moment: the name of the operation being written.
        call: the `OperationCall` being written.
        opset_version: of ONNX's operators.
    """

    def __init__(
        self, name: str, parent: GraphBuilder | None = None, opset_version: int = 18
    ) -> None:
        self.opset_version: int = opset_version if parent is None else parent.opset_version
        self.record = GraphRecord(name)
        self.root: GraphBuilder = self if parent is None else parent.root
        self.label = name
        self.call: Any = None
        self._names: dict[str, int] = {}
        self._constants: dict[Any, str] = {}
        self._referenced: list[Any] = []  # arrays that `_constants` has by identity

    # ------------------------------------------------------------------ names and constants

    def unique_name(self, name: str) -> str:
        """`name`, with a number after it where it is taken in any of the graphs."""
        name = re.sub(r"[^\w./-]+", "_", name) or "value"
        counts = self.root._names
        count = counts.get(name, 0)
        counts[name] = count + 1
        return name if not count else self.unique_name(f"{name}_{count}")

    def known(self, array: Any, dtype: str | None = None, label: str = "") -> Value:
        """A value whose elements are known.

        Args:
            array: what converts to an array.
            dtype: by default that of the array.
            label: what to call it.
        """
        array = np.asarray(array, None if dtype is None else dtypes.as_dtype(dtype).dtype)
        name = dtypes.as_dtype(array.dtype).name
        return Value(self.root, array.shape, name, array=array, label=label)

    def _constant_name(self, array: Any, label: str) -> str:
        root = self.root
        small = array.nbytes <= SMALL
        key = (str(array.dtype), array.shape, array.tobytes()) if small else id(array)
        if key not in root._constants:
            if not small:
                root._referenced.append(array)
            root._constants[key] = root.unique_name(label or "constant")
            root.record.constants.append((root._constants[key], array))
        return root._constants[key]

    def name_of(self, value: Value) -> str:
        """The name of a value with its axes in trainkit's order; it is written if need be."""
        if value.name is None:
            if value.is_known:
                value.name = self._constant_name(value.array, value.label)
            else:
                value.name = value.owner.node(
                    "Transpose", [value.channels_first], perm=to_last(value.rank)
                )
        return value.name

    def name_with_channels_first(self, value: Value) -> str:
        """The name of a value (batch, spatial..., channels) with its channels as second axis."""
        if value.channels_first is None:
            order = to_first(value.rank)
            if value.is_known:
                moved = np.ascontiguousarray(value.array.transpose(order))
                value.channels_first = self._constant_name(moved, value.label)
            else:
                name = self.name_of(value)
                value.channels_first = value.owner.node("Transpose", [name], perm=order)
        return value.channels_first

    # ------------------------------------------------------------------ nodes

    def nodes(
        self, kind: str, inputs: Iterable[str], count: int, attributes: dict[str, Any]
    ) -> list[str]:
        """Add a node, and give the names of its results."""
        outputs = [self.unique_name(self.label) for _ in range(count)]
        record = NodeRecord(kind, list(inputs), outputs, attributes, outputs[0])
        self.record.nodes.append(record)
        return outputs

    def node(self, kind: str, inputs: Iterable[str], **attributes: Any) -> str:
        """Add a node with one result, and give its name."""
        return self.nodes(kind, inputs, 1, attributes)[0]

    def as_value(self, x: Any, like: Value | None = None) -> Value:
        """`x` as a value: a number gets the dtype of `like`, a list of ints is int64."""
        if isinstance(x, Value):
            return x
        if isinstance(x, np.ndarray | np.generic):
            return self.known(x)
        if isinstance(x, list | tuple):
            return self.known(x, "int64")
        return self.known(x, "int64" if like is None else like.dtype)

    def op(
        self, kind: str, *inputs: Any, shape: Dims = (), dtype: str | None = None, **attributes: Any
    ) -> Value:
        """Add a node that works on values in trainkit's order of axes.

        Args:
            kind: ONNX's name of the operator.
            *inputs: values, arrays, lists of ints, `None` for one that is left out.
            shape: of the result.
            dtype: of the result; by default that of the first input.
            **attributes: ONNX's settings.
        """
        return self.ops(kind, *inputs, count=1, shapes=[shape], dtypes=[dtype], **attributes)[0]

    def ops(
        self,
        kind: str,
        *inputs: Any,
        count: int,
        shapes: Sequence[Dims],
        dtypes: Sequence[str | None],
        **attributes: Any,
    ) -> list[Value]:
        """The same for a node with `count` results."""
        values = [x if x is None else self.as_value(x) for x in inputs]
        names = ["" if x is None else self.name_of(x) for x in values]
        while names and not names[-1]:
            names.pop()
        default = values[0].dtype if values and values[0] is not None else "float32"
        outputs = self.nodes(kind, names, count, attributes)
        return [
            Value(self, shape, dtype or default, name)
            for name, shape, dtype in zip(outputs, shapes, dtypes, strict=True)
        ]

    # ------------------------------------------------------------------ element by element

    def each(self, kind: str, *inputs: Any, dtype: str | None = None, **attributes: Any) -> Value:
        """Add a node that works element by element; it stays with channels first if inputs are.

        Args:
            kind: ONNX's name of the operator.
            *inputs: values, and numbers, which get the dtype of the last value.
            dtype: of the result; by default that of the last input.
            **attributes: ONNX's settings.
        """
        like = [x for x in inputs if isinstance(x, Value)][-1]
        values = [self.as_value(x, like) for x in inputs]
        shape = broadcast_dims(*[x.shape for x in values])
        dtype = dtype or values[-1].dtype
        if self._may_be_transposed(values, len(shape)):
            names = [self._first_for(x, len(shape)) for x in values]
            name = self.node(kind, names, **attributes)
            return Value(self, shape, dtype, channels_first=name)
        name = self.node(kind, [self.name_of(x) for x in values], **attributes)
        return Value(self, shape, dtype, name)

    @staticmethod
    def _may_be_transposed(values: Sequence[Value], rank: int) -> bool:
        if not any(x.is_transposed and x.rank == rank for x in values):
            return False
        return all(x.is_known or x.rank in (0, rank) for x in values)

    def _first_for(self, value: Value, rank: int) -> str:
        """The name with channels first of a value that is broadcast to `rank` axes."""
        if value.rank == 0:
            return self.name_of(value)
        if value.rank < rank:
            array = value.array.reshape((1,) * (rank - value.rank) + value.array.shape)
            return self.name_with_channels_first(self.known(array, label=value.label))
        return self.name_with_channels_first(value)

    def cast(self, value: Value, dtype: str) -> Value:
        """`value` as `dtype`.

        Raises:
            UnimplementedError: ONNX has no such dtype.
        """
        if value.dtype == dtype:
            return value
        if dtype not in ELEMENT_TYPES:
            raise UnimplementedError(f"ONNX has no tensors of {dtype}")
        if value.is_known:
            return self.known(value.array.astype(dtypes.as_dtype(dtype).dtype), label=value.label)
        return self.each("Cast", value, dtype=dtype, to=ELEMENT_TYPES[dtype])

    # ------------------------------------------------------------------ shapes

    def shape_of(self, value: Value) -> Value:
        """The sizes of a value, as an int64 vector."""
        if None not in value.shape:
            return self.known(value.shape, "int64")
        return self.op("Shape", value, shape=(value.rank,), dtype="int64")

    def size_of(self, value: Value, axis: int) -> Any:
        """The size of one axis: an int, or an int64 vector of one element."""
        size = value.shape[axis]
        if size is not None:
            return size
        return self.op("Gather", self.shape_of(value), [axis % value.rank], axis=0, shape=(1,))

    def vector(self, sizes: Sequence[Any]) -> Value:
        """Ints, and values with one element, as one int64 vector."""
        if all(not isinstance(n, Value) for n in sizes):
            return self.known([int(n) for n in sizes], "int64")
        parts = [self._one_element(n) for n in sizes]
        if len(parts) == 1:
            return parts[0]
        return self.op("Concat", *parts, axis=0, shape=(len(parts),), dtype="int64")

    def _one_element(self, size: Any) -> Value:
        if not isinstance(size, Value):
            return self.known([int(size)], "int64")
        if size.is_known:
            return self.known(np.reshape(size.array, 1), "int64")
        number = self.cast(size, "int64")
        return number if number.rank == 1 else self.op("Reshape", number, [1], shape=(1,))

    def reshape(self, value: Value, sizes: Sequence[Any], shape: Dims) -> Value:
        """`value` with other sizes: ints, -1 for what is left, or values with one element."""
        has_zero = any(n == 0 for n in sizes if isinstance(n, int))
        zeros: dict[str, Any] = {"allowzero": 1} if has_zero else {}
        return self.op("Reshape", value, self.vector(sizes), shape=shape, **zeros)

    def unsqueeze(self, value: Value, axes: Sequence[int]) -> Value:
        """`value` with axes of size 1 at these places of the result."""
        rank = value.rank + len(axes)
        axes = sorted(axis % rank for axis in axes)
        sizes = list(value.shape)
        for axis in axes:
            sizes.insert(axis, 1)
        return self.op("Unsqueeze", value, list(axes), shape=tuple(sizes))

    def squeeze(self, value: Value, axes: Sequence[int]) -> Value:
        """`value` without these axes."""
        gone = {axis % value.rank for axis in axes}
        shape = tuple(n for i, n in enumerate(value.shape) if i not in gone)
        return self.op("Squeeze", value, sorted(gone), shape=shape)

    def transpose(self, value: Value, order: Sequence[int]) -> Value:
        """`value` with its axes in another order."""
        shape = tuple(value.shape[i] for i in order)
        return self.op("Transpose", value, perm=list(order), shape=shape)

    def slice_axis(self, value: Value, axis: int, start: Any, end: Any, step: int = 1) -> Value:
        """`value` cut along one axis."""
        starts, ends = self.vector([start]), self.vector([end])
        return self.slice(value, starts, ends, [axis % value.rank], [step])

    def slice(self, value: Value, starts: Any, ends: Any, axes: list[int], steps: Any) -> Value:
        """`value` cut along some axes."""
        shape = tuple(None if i in axes else n for i, n in enumerate(value.shape))
        return self.op("Slice", value, starts, ends, axes, steps, shape=shape)
