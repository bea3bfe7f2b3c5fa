"""Elements of a data set: nests of tuples and dicts, taken apart to leaves and put together again.

A list counts as one tensor, as in `tf.data`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core import devices, nest
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor, wrap
from trainkit.core.tensor_spec import TensorSpec

_CPU = devices.CPU


def leaf_array(x: Any) -> Any:
    """One component of an element as a NumPy array; a data set inside a data set stays one."""
    if type(x) is Tensor:
        return devices.to_numpy(x._array)
    if isinstance(x, np.ndarray | np.generic) and x.dtype != object:
        return x
    if hasattr(x, "node"):
        return x
    with devices.device(_CPU):
        return convert_to_tensor(x)._array


def flat(element: Any) -> list[Any]:
    """The leaves of an element as arrays."""
    if type(element) is tuple:
        leaves: list[Any] = []
        for item in element:
            if isinstance(item, tuple | dict):
                leaves.extend(flat(item))
            else:
                leaves.append(leaf_array(item))
        return leaves
    if isinstance(element, dict):
        return [leaf for key in nest.sorted_keys(element) for leaf in flat(element[key])]
    if isinstance(element, tuple):
        return [leaf for item in element for leaf in flat(item)]
    return [leaf_array(element)]


def template_of(element: Any) -> Any:
    """The structure of an element, with 0 for each leaf."""
    if isinstance(element, dict):
        return {key: template_of(value) for key, value in element.items()}
    if isinstance(element, tuple):
        items = [template_of(item) for item in element]
        return type(element)(*items) if hasattr(element, "_fields") else tuple(items)
    return 0


def packer(template: Any) -> Callable[[list[Any]], Any]:
    """A function from leaves to an element of this structure."""
    if not isinstance(template, tuple | dict):
        return lambda leaves: leaves[0]
    if type(template) is tuple and not any(isinstance(t, tuple | dict) for t in template):
        return tuple
    return lambda leaves: nest.pack(template, leaves)


def tensors(leaves: list[Any]) -> list[Any]:
    """Leaves as tensors that never change, on the CPU, without a copy."""
    return [leaf if hasattr(leaf, "node") else wrap(leaf) for leaf in leaves]


def spec_of_leaf(leaf: Any) -> Any:
    """The spec of an array, or of a data set inside a data set."""
    if hasattr(leaf, "node"):
        return DatasetSpec(leaf.element_spec)
    return TensorSpec(np.shape(leaf), leaf.dtype)


class DatasetSpec:
    """Stands in a spec where elements hold data sets themselves.

    Attributes:
        element_spec: the spec of their elements.
    """

    def __init__(self, element_spec: Any) -> None:
        self.element_spec = element_spec

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DatasetSpec) and self.element_spec == other.element_spec

    def __hash__(self) -> int:
        return hash(str(self.element_spec))

    def __repr__(self) -> str:
        return f"DatasetSpec({self.element_spec!r})"

    @property
    def shape(self) -> Any:
        """The shapes of its elements."""
        return nest.map_structure(lambda s: s.shape, self.element_spec)

    @property
    def dtype(self) -> Any:
        """The dtypes of its elements."""
        return nest.map_structure(lambda s: s.dtype, self.element_spec)


def arrays_of(value: Any, what: str) -> tuple[Any, list[Any]]:
    """The template of a nest of arrays, and its leaves as arrays.

    Raises:
        InvalidArgumentError: a leaf has no numbers.
    """
    template = template_of(value)
    leaves = flat(value)
    for leaf in leaves:
        if (
            isinstance(leaf, np.ndarray)
            and leaf.dtype.kind in "OUSV"
            and leaf.dtype.name != "bfloat16"
        ):
            raise InvalidArgumentError(
                f"{what}: an array of dtype {leaf.dtype} has no tensor type; turn text and "
                f"objects into "
                "numbers first"
            )
    return template, leaves


def same_count(leaves: list[Any], what: str) -> int:
    """The common size of the first axis.

    Raises:
        InvalidArgumentError: a leaf has no axis, or the sizes differ.
    """
    if not leaves:
        raise InvalidArgumentError(f"{what}: there is nothing in it")
    shapes = [np.shape(leaf) for leaf in leaves]
    if any(not shape for shape in shapes):
        raise InvalidArgumentError(
            f"{what}: a scalar can't be cut into elements; use from_tensors, or give it an axis"
        )
    if len({shape[0] for shape in shapes}) > 1:
        listed = ", ".join(str(shape) for shape in shapes)
        raise InvalidArgumentError(
            f"{what}: all components need the same first size, their shapes are {listed}"
        )
    return int(shapes[0][0])
