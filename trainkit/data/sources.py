"""Where elements come from: arrays in memory, ranges, generators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trainkit.core import nest
from trainkit.core.dtypes import string
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor_spec import TensorSpec
from trainkit.core.values.python_values import short_text
from trainkit.data import structure
from trainkit.data.node import UNKNOWN, DatasetOp, Leaves, Rows, RowStage, Stage


class ArrayRows(Rows):
    """Arrays cut along their first axis."""

    may_fail = False

    def __init__(self, arrays: list[Any], count: int) -> None:
        self.arrays = arrays
        self.count = count

    def gather(self, indices: Any) -> Leaves:
        return [None if x is None else x.take(indices, axis=0) for x in self.arrays]

    def slice(self, start: int, stop: int) -> Leaves:
        return [None if x is None else x[start:stop].copy() for x in self.arrays]

    def row(self, index: int) -> Leaves:
        return [None if x is None else structure.row_of(x, index).copy() for x in self.arrays]


class SlicesNode(DatasetOp):
    """Arrays cut along their first axis."""

    title = "TensorSlice"
    _untracked = frozenset({"arrays"})

    def __init__(self, value: Any) -> None:
        self.shape_of, self.arrays = structure.arrays_of(value, "from_tensor_slices")
        arrays = [x for x in self.arrays if x is not None]
        self.size = structure.same_count(arrays, "from_tensor_slices")
        # take() would copy all of an array whose rows lie scattered, for each batch.
        self.arrays = [None if x is None else np.ascontiguousarray(x) for x in self.arrays]

    def spec(self) -> Any:
        return nest.pack(self.shape_of, [_spec_of_rows(x) for x in self.arrays])

    def template(self) -> Any:
        return self.shape_of

    def count(self) -> int:
        return self.size

    def rows(self) -> Rows:
        return ArrayRows(self.arrays, self.size)

    def stage(self) -> Stage:
        return RowStage(self.rows())


class TensorsNode(SlicesNode):
    """One element."""

    title = "Tensor"

    def __init__(self, value: Any) -> None:
        self.shape_of, arrays = structure.arrays_of(value, "from_tensors")
        self.arrays = [None if x is None else np.asarray(x)[None] for x in arrays]
        self.size = 1

    def rows(self) -> Rows | None:  # type: ignore[override]
        # without an array nothing tells how many elements a block has
        return super().rows() if any(x is not None for x in self.arrays) else None

    def stage(self) -> Stage:
        rows = self.rows()
        return RowStage(rows) if rows else ElementsStage([list(self.arrays)])


class StackedNode(SlicesNode):
    """Elements at hand, stacked."""

    def __init__(self, template: Any, arrays: list[Any], size: int) -> None:
        self.shape_of, self.arrays, self.size = template, arrays, size


class ElementsNode(DatasetOp):
    """Elements at hand that have different shapes, or are no arrays."""

    title = "TensorSlice"
    _untracked = frozenset({"elements"})

    def __init__(self, template: Any, elements: list[Leaves]) -> None:
        self.shape_of, self.elements = template, elements

    def spec(self) -> Any:
        specs = [structure.spec_of_leaf(leaf) for leaf in self.elements[0]]
        return structure.loose(nest.pack(self.shape_of, specs))

    def template(self) -> Any:
        return self.shape_of

    def count(self) -> int:
        return len(self.elements)

    def stage(self) -> Stage:
        return ElementsStage(self.elements)


class OneElementNode(ElementsNode):
    """One element that holds data sets."""

    title = "Tensor"

    def spec(self) -> Any:
        specs = [structure.spec_of_leaf(leaf) for leaf in self.elements[0]]
        return nest.pack(self.shape_of, specs)


class ElementsStage(Stage):
    """One pass over elements at hand."""

    progress = ("position",)

    def __init__(self, elements: list[Leaves]) -> None:
        self.elements, self.position = elements, 0

    def next(self) -> Leaves:
        if self.position >= len(self.elements):
            raise StopIteration
        self.position += 1
        return self.elements[self.position - 1]


class SpecNode(DatasetOp):
    """One made-up element of a spec: a data set to try functions on."""

    title = "TensorSlice"

    def __init__(self, spec: Any) -> None:
        self.of = spec

    def spec(self) -> Any:
        return self.of

    def stage(self) -> Stage:
        return ElementsStage([[structure.example_leaf(s) for s in nest.flatten(self.of)]])


def elements_node(template: Any, elements: list[Leaves]) -> DatasetOp:
    """The step that gives elements at hand, at least one, of one structure."""
    columns = list(zip(*elements, strict=True))
    if all(_alike(column) for column in columns):
        return StackedNode(template, [np.stack(column) for column in columns], len(elements))
    return ElementsNode(template, elements)


def _alike(column: Any) -> bool:
    """Whether components are arrays of one shape and type."""
    if not all(isinstance(leaf, np.ndarray | np.generic) for leaf in column):
        return False
    return len({(np.shape(leaf), leaf.dtype) for leaf in column}) == 1


def _spec_of_rows(array: Any) -> Any:
    """The spec of one row of an array, or of `None`."""
    if array is None:
        return structure.NoneTensorSpec()
    return TensorSpec(array.shape[1:], array.dtype)


def tensors_node(value: Any) -> DatasetOp:
    """The step that gives `value` as its only element."""
    template, leaves = structure.arrays_of(value, "from_tensors")
    if any(hasattr(leaf, "node") for leaf in leaves):
        return OneElementNode(template, [leaves])
    return TensorsNode(value)


def slices_node(value: Any) -> DatasetOp:
    """The step that gives the rows of arrays, or the data sets of a list."""
    if isinstance(value, list) and value and all(hasattr(item, "node") for item in value):
        return ElementsNode(0, [[item] for item in value])
    return SlicesNode(value)


class RangeNode(DatasetOp):
    """Numbers at equal distances."""

    title = "Range"

    def __init__(self, start: int, stop: int, step: int, dtype: Any) -> None:
        if step == 0:
            raise InvalidArgumentError("Dataset.range: the step is 0")
        self.numbers = range(start, stop, step)
        self.dtype = dtype

    def spec(self) -> Any:
        return TensorSpec((), self.dtype)

    def count(self) -> int:
        return len(self.numbers)

    def rows(self) -> Rows:
        return RangeRows(self.numbers, self.dtype.dtype)

    def stage(self) -> Stage:
        return RowStage(self.rows())


class RangeRows(Rows):
    """Numbers at equal distances."""

    may_fail = False

    def __init__(self, numbers: range, dtype: Any) -> None:
        self.numbers, self.dtype = numbers, dtype
        self.count = len(numbers)

    def gather(self, indices: Any) -> Leaves:
        return [(self.numbers.start + np.asarray(indices) * self.numbers.step).astype(self.dtype)]


class GeneratorNode(DatasetOp):
    """What a Python generator yields, checked against a signature."""

    title = "FlatMap"

    def __init__(self, make: Callable[..., Any], args: tuple[Any, ...], signature: Any) -> None:
        self.make, self.args, self.signature = make, args, signature

    def spec(self) -> Any:
        return self.signature

    def count(self) -> int:
        return UNKNOWN

    def stage(self) -> Stage:
        return GeneratorStage(self)


class GeneratorStage(Stage):
    """One run of a generator; going back to a position means running it again up to there."""

    def __init__(self, node: GeneratorNode) -> None:
        self.node = node
        self.specs = nest.flatten(node.signature)
        self.running: Iterator[Any] | None = None
        self.position = 0

    def next(self) -> Leaves:
        if self.running is None:
            self.running = iter(())  # where it can't be made, asking again gives no other answer
            self.running = iter(self.node.make(*self.node.args))
        leaves = self._validate(next(self.running))
        self.position += 1
        return leaves

    def _validate(self, element: Any) -> Leaves:
        items = structure.leaves_like(self.node.signature, element)
        if items is None:
            raise InvalidArgumentError(
                f"from_generator: element {self.position}, {short_text(element)}, has not the "
                f"structure of the signature, {self.node.signature!r}"
            )
        return [self._fit(x, spec) for x, spec in zip(items, self.specs, strict=True)]

    def _fit(self, value: Any, spec: TensorSpec) -> Any:
        if spec.dtype is string:
            array = structure.texts(value)
        else:
            array = np.array(value, dtype=spec.dtype.dtype)
        if not spec.shape.is_compatible_with(array.shape):
            raise InvalidArgumentError(
                f"from_generator: element {self.position} has a component of shape {array.shape}, "
                f"the "
                f"signature says {tuple(spec.shape)}"
            )
        return array if array.ndim or spec.dtype is string else array[()]

    def state(self) -> dict[str, Any]:
        return {"position": self.position}

    def load(self, state: dict[str, Any]) -> None:
        self.running, self.position = None, 0
        self.skip(int(state["position"]))

    def close(self) -> None:
        if self.running is not None and hasattr(self.running, "close"):
            self.running.close()
