"""Elements of a data set: nests of tuples and dicts, taken apart to leaves and put together again.

A list counts as one tensor, as in `tf.data`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trainkit.core import devices, nest
from trainkit.core.dtypes import native, string
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.string_tensor import string_tensor
from trainkit.core.tensor import Tensor, convert_to_tensor, wrap
from trainkit.core.tensor_spec import TensorSpec
from trainkit.core.values.text_arrays import OBJECTS

_CPU = devices.CPU


def components(spec: Any, path: str = "") -> list[tuple[str, Any]]:
    """The specs of an element's components, by where they are in it.

    >>> components({"image": 1, "boxes": (2, 3)})
    [("['image']", 1), ("['boxes'][0]", 2), ("['boxes'][1]", 3)]
    """
    if isinstance(spec, dict):
        return [part for k, x in spec.items() for part in components(x, f"{path}[{k!r}]")]
    if isinstance(spec, tuple) and not isinstance(spec, TensorSpec):
        return [part for i, x in enumerate(spec) for part in components(x, f"{path}[{i}]")]
    return [(path, spec)]


def leaf_array(x: Any) -> Any:
    """One component of an element as a NumPy array.

    `None` and a data set inside a data set stay what they are.
    """
    if type(x) is Tensor:
        return devices.to_numpy(x._array)
    if isinstance(x, np.ndarray | np.generic) and x.dtype.kind not in "OUST":
        return native(x)
    if x is None or hasattr(x, "node"):
        return x
    with devices.device(_CPU):
        return convert_to_tensor(x)._array


def texts(value: Any) -> Any:
    """One component of texts, which may be empty, as an array.

    Raises:
        TypeError: it holds something else.
    """
    with devices.device(_CPU):
        return convert_to_tensor(value, dtype=string)._array


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
    return nest.packer(template)


def tensors(leaves: list[Any]) -> list[Any]:
    """Leaves as tensors that never change, on the CPU, without a copy."""
    elements = []
    for leaf in leaves:
        if type(leaf) is np.ndarray and leaf.dtype is not OBJECTS:
            usual = Tensor()
            usual._array = leaf
            elements.append(usual)
        else:
            elements.append(tensor(leaf))
    return elements


def tensor(leaf: Any) -> Any:
    """A leaf as a tensor on the CPU; what is no array stays as it is."""
    if not isinstance(leaf, np.ndarray | np.generic):
        return leaf
    return string_tensor(leaf) if leaf.dtype is OBJECTS else wrap(leaf)


def placed(leaf: Any, where: devices.Device) -> Any:
    """A leaf as a tensor on a device; text stays on the CPU."""
    if where is devices.CPU or not isinstance(leaf, np.ndarray | np.generic):
        return tensor(leaf)
    if leaf.dtype is OBJECTS:
        return string_tensor(leaf)
    return wrap(devices.to_device(np.asarray(leaf), where))


def tensors_on(leaves: list[Any], where: devices.Device) -> list[Any]:
    """Leaves as tensors on a device."""
    if where is devices.CPU:
        return tensors(leaves)
    return [placed(leaf, where) for leaf in leaves]


def row_of(array: Any, index: int) -> Any:
    """One row of an array; a single text as an array without axes."""
    return array[index, ...] if array.dtype is OBJECTS else array[index]


def spec_of_leaf(leaf: Any) -> Any:
    """The spec of an array, of `None`, or of a data set inside a data set."""
    if leaf is None:
        return NoneTensorSpec()
    if hasattr(leaf, "node"):
        return dataset_spec(leaf.element_spec, lambda: leaf)
    return TensorSpec(np.shape(leaf), leaf.dtype)


class NoneTensorSpec:
    """Stands in a spec where elements hold `None`."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoneTensorSpec)

    def __hash__(self) -> int:
        return hash(NoneTensorSpec)

    def __repr__(self) -> str:
        return "NoneTensorSpec()"


def leaves_like(template: Any, element: Any) -> list[Any] | None:
    """The components of an element, one for each leaf of `template`; `None` where it differs.

    A leaf may be a list, which is one tensor.
    """
    if isinstance(template, dict):
        if not isinstance(element, dict) or set(element) != set(template):
            return None
        pairs = [(template[key], element[key]) for key in nest.sorted_keys(template)]
    elif isinstance(template, tuple | list):
        if not isinstance(element, tuple | list) or len(element) != len(template):
            return None
        pairs = list(zip(template, element, strict=True))
    else:
        return [element]
    parts = [leaves_like(inner, item) for inner, item in pairs]
    if any(part is None for part in parts):
        return None
    return [leaf for part in parts for leaf in part or ()]


def rows_spec(structure: Any) -> Any:
    """The spec of the rows of elements of this spec."""
    return nest.map_structure(_row_spec, structure)


def _row_spec(spec: Any) -> Any:
    if not isinstance(spec, TensorSpec) or spec.rank is None:
        return spec
    return TensorSpec(spec.shape[1:], spec.dtype)


def loose(structure: Any, known_ranks: bool = True) -> Any:
    """A spec seen on one element, of which only dtypes, and ranks, are taken to hold for all."""

    def loosen(spec: Any) -> Any:
        if not isinstance(spec, TensorSpec) or spec.rank is None:
            return spec
        return TensorSpec([None] * spec.rank if known_ranks else None, spec.dtype)

    return nest.map_structure(loosen, structure)


def fits(wanted: Any, actual: Any) -> bool:
    """Whether elements of the spec `actual` fit the spec `wanted`."""
    try:
        pairs = nest.flatten(
            nest.map_structure(lambda a, b: a.is_compatible_with(b), wanted, actual)
        )
    except (ValueError, AttributeError):
        return False
    return all(pairs)


def shapes_up_to(structure: Any, shapes: Any, size: int) -> Any:
    """Padded shapes with `size` where they, or the specs of the elements, leave a size open."""

    def close(spec: Any, shape: Any) -> Any:
        return [size if n in (None, -1) else int(n) for n in shape]

    if shapes is None:
        return nest.map_structure(lambda spec: close(spec, spec.shape), structure)
    if not isinstance(structure, tuple | dict):
        return close(structure, shapes)
    keys = structure if isinstance(structure, dict) else range(len(structure))
    inner = {key: shapes_up_to(structure[key], shapes[key], size) for key in keys}
    return inner if isinstance(structure, dict) else tuple(inner.values())


class DatasetSpec:
    """Stands in a spec where elements hold data sets themselves.

    Attributes:
        element_spec: the spec of their elements.

    Example:
        >>> tk.data.DatasetSpec(tk.TensorSpec([], tk.int64)).element_spec.dtype.name
        'int64'
    """

    def __init__(self, element_spec: Any) -> None:
        self.element_spec = element_spec
        self._sample: Callable[[], Any] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DatasetSpec) and self.element_spec == other.element_spec

    def __hash__(self) -> int:
        return hash(str(self.element_spec))

    def __repr__(self) -> str:
        return f"DatasetSpec({self.element_spec!r}, TensorShape([]))"

    @property
    def shape(self) -> Any:
        """The shapes of its elements."""
        return nest.map_structure(lambda s: s.shape, self.element_spec)

    @property
    def dtype(self) -> Any:
        """The dtypes of its elements."""
        return nest.map_structure(lambda s: s.dtype, self.element_spec)


def dataset_spec(element_spec: Any, sample: Callable[[], Any]) -> DatasetSpec:
    """The spec of data sets inside a data set, where `sample` gives one to try functions on."""
    spec = DatasetSpec(element_spec)
    spec._sample = sample
    return spec


def example_leaf(spec: Any) -> Any:
    """A made-up leaf of this spec: zeros or empty texts, sizes that are not known are 1.

    Raises:
        TypeError: none can be made up.
    """
    if isinstance(spec, NoneTensorSpec):
        return None
    if isinstance(spec, DatasetSpec) and spec._sample is not None:
        return spec._sample()
    if not isinstance(spec, TensorSpec):
        raise TypeError(
            f"the structure of what a function makes of {spec!r} is known after its first call"
        )
    dims = () if spec.rank is None else [1 if n is None else n for n in spec.shape]
    return np.full(dims, b"" if spec.dtype is string else 0, spec.dtype.dtype)


def arrays_of(value: Any, what: str) -> tuple[Any, list[Any]]:
    """The template of a nest of arrays, and its leaves as arrays.

    Raises:
        InvalidArgumentError: a leaf has neither numbers nor text.
    """
    template = template_of(value)
    try:
        leaves = flat(value)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{what}: {error}") from None
    for leaf in leaves:
        if (
            isinstance(leaf, np.ndarray)
            and leaf.dtype.kind == "V"
            and leaf.dtype.name.startswith("void")
        ):
            raise InvalidArgumentError(
                f"{what}: an array of dtype {leaf.dtype} has no tensor type; give its fields one "
                "by one, as a dict"
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
