"""Which layers take flattened images: there the rows of a kernel stand in another order.

PyTorch flattens (channels, height, width), and channels last means (height, width, channels). A
`Linear` behind a `Flatten` is the one place where that shows in the shape of nothing: taken over as
it is, it would compute nonsense without a word.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from trainkit import layers
from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.core.names import near_names
from trainkit.core.trackable import Trackable, traverse
from trainkit.core.variable import Variable

Shape = tuple[int, ...]
_MOST_STEPS = 10_000


class FlattenedInputs:
    """The sizes of the images that layers take flattened.

    Where the model is functional or sequential, they are read off its graph.

    Args:
        model: a model or layer that is built.
        flattened: sizes (..., channels) by path or name of the layer, or None for one that takes no
            flattened images, in place of what the graph says; None where nothing is said.

    Raises:
        InvalidArgumentError: `flattened` is needed.
    """

    def __init__(
        self, model: Trackable, flattened: Mapping[str, Sequence[int] | None] | None = None
    ) -> None:
        for name, sizes in (flattened or {}).items():
            if sizes is None:
                continue
            if not isinstance(sizes, Sequence) or not all(type(n) is int and n > 0 for n in sizes):
                raise InvalidArgumentError(
                    f"weights: flattened={{{name!r}: {sizes!r}}} must have the sizes of images, "
                    "(height, width, channels)"
                )
        self._named = {
            name: None if sizes is None else tuple(sizes)
            for name, sizes in (flattened or {}).items()
        }
        self._used: set[str] = set()
        self._graph = SymbolicGraph(model)
        self._names: list[str] = []
        if flattened is None:
            self._require_known(model)

    def _require_known(self, model: Trackable) -> None:
        parts = [part for _, part in traverse(model) if not isinstance(part, Variable)]
        convolves = any(_windowed_format(part) == "channels_last" for part in parts)
        is_hidden = any(
            isinstance(part, layers.Flatten) and _input_of(part) is None for part in parts
        )
        if convolves and (is_hidden or _may_flatten_by_a_function(parts)):
            raise InvalidArgumentError(
                f"weights: {getattr(model, 'name', 'the model')!r} flattens images in a way that "
                "can't be seen from outside, and PyTorch flattens them channels first. Say which "
                "Dense layers take flattened images, and of which sizes: "
                "flattened={'fc': (height, width, channels)}; or flattened={} if none does"
            )

    def sizes_of(self, path: str, layer: Any) -> Shape | None:
        """The sizes of the images that a `Dense` takes flattened, None if it takes none.

        Raises:
            InvalidArgumentError: the sizes that were given are not those of its kernel.
        """
        self._names += [path, layer.name]
        for name in (path, layer.name):
            if name in self._named:
                self._used.add(name)
                sizes = self._named[name]
                if sizes is None:
                    return None
                rows = int(layer.kernel.shape[0])
                if math.prod(sizes) != rows:
                    raise InvalidArgumentError(
                        f"weights: flattened={{{name!r}: {sizes}}} has {math.prod(sizes)} values, "
                        f"and {name!r} takes {rows}"
                    )
                return sizes
        return self._graph.flattened_sizes(layer)

    def require_none(self, path: str, layer: Any) -> None:
        """Refuse a layer other than `Dense` behind a `Flatten` of images.

        Raises:
            UnimplementedError: it is one, and has weights for each feature.
        """
        kinds = (layers.BatchNormalization, layers.LayerNormalization, layers.EinsumDense)
        if isinstance(layer, kinds) and self._graph.flattened_sizes(layer) is not None:
            raise UnimplementedError(
                f"weights: {path!r} is a {type(layer).__name__} of flattened images, whose order "
                "of features differs between PyTorch and channels last; set its weights by hand"
            )

    def check_used(self) -> None:
        """Refuse names in `flattened` that are of no `Dense` layer.

        Raises:
            InvalidArgumentError: there is one.
        """
        for name in self._named.keys() - self._used:
            near = near_names(name, self._names, likeness=0.3)
            raise InvalidArgumentError(
                f"weights: flattened names {name!r}, and there is no such Dense layer"
                + (f"; near: {', '.join(near)}" if near else "")
            )


def _may_flatten_by_a_function(parts: Sequence[Any]) -> bool:
    """Whether a `call` may flatten images without a layer, as `tk.reshape` does.

    Then the first `Dense` behind a convolution has several rows for each of its filters. A `Dense`
    behind a pooling over whole images has one.
    """
    filters: int | None = None
    for part in parts:
        if _windowed_format(part) == "channels_last":
            filters = getattr(part, "filters", filters)  # pooling keeps their number
        elif isinstance(part, layers.Dense) and filters is not None:
            rows = int(part.kernel.shape[0])
            if _input_of(part) is None and rows > filters and not rows % filters:
                return True
            filters = None
    return False


class SymbolicGraph:
    """What feeds what in the functional and sequential models of a tree, through nested ones."""

    def __init__(self, model: Trackable) -> None:
        self._outer: dict[int, Any] = {}  # what an input of a nested model stands for
        for _, part in traverse(model):
            outputs = getattr(part, "outputs", None) if isinstance(part, layers.Layer) else None
            if isinstance(outputs, list):
                self._note_nested(outputs)

    def _note_nested(self, outputs: list[Any]) -> None:
        waiting, visited = list(outputs), set()
        while waiting:
            node = getattr(waiting.pop(), "node", None)
            if node is None or id(node) in visited:
                continue
            visited.add(id(node))
            inner = getattr(node.operation, "inputs", None)
            if isinstance(inner, list):
                pairs = zip(inner, node.inputs, strict=False)
                self._outer |= {id(value): outer for value, outer in pairs}
            waiting.extend(node.inputs)

    def node_of(self, value: Any) -> Any:
        """The call that a value comes from, inside of nested models; None for an input."""
        for _ in range(_MOST_STEPS):
            node = getattr(value, "node", None)
            if node is None:
                return None
            if isinstance(node.operation, layers.InputLayer):
                value = self._outer.get(id(value))
                continue
            outputs = getattr(node.operation, "outputs", None)
            if not isinstance(outputs, list) or not outputs:
                return node
            value = outputs[value._keras_history.tensor_index]
        return None

    def flattened_sizes(self, layer: Any) -> Shape | None:
        """The sizes (..., channels) of the images whose flattened form a layer takes.

        None if it takes none, if it is not known, or if the order does not matter.

        Raises:
            UnimplementedError: it takes several values side by side, of which one is such.
        """
        return self._sizes_of(_input_of(layer), 0)

    def _sizes_of(self, value: Any, depth: int) -> Shape | None:
        for _ in range(_MOST_STEPS):
            node = self.node_of(value)
            if node is None or len(value.shape) != 2 or not node.inputs:
                return None
            first = node.inputs[0]
            if _flattens(node.operation, first, value):
                return self._sizes_before(node.operation, first)
            if len(node.inputs) > 1 and tuple(first.shape) != tuple(value.shape):
                parts = [self._sizes_of(x, depth + 1) for x in node.inputs] if depth < 8 else []
                if any(sizes is not None for sizes in parts):
                    raise UnimplementedError(
                        f"weights: {node.operation.name!r} joins flattened images with something "
                        "else, and then the rows of the next kernel can't be put in order; set "
                        "its weights by hand"
                    )
                return None
            if tuple(first.shape) != tuple(value.shape):
                return None
            if node.operation.weights and not isinstance(node.operation, _KEEPING):
                return None
            value = first
        return None

    def _sizes_before(self, flatten: Any, value: Any) -> Shape | None:
        sizes = tuple(value.shape[1:])
        upstream = self._format_upstream(value)
        if None in sizes or (len(sizes) == 2 and upstream is None):
            return None  # a sequence of vectors, which PyTorch flattens in the same order
        if isinstance(flatten, layers.Flatten) and flatten.data_format == "channels_first":
            sizes = (*sizes[1:], sizes[0])
        elif upstream == "channels_first":
            return None
        is_same = sizes[-1] == 1 or math.prod(sizes[:-1]) == 1
        return None if is_same else tuple(int(n) for n in sizes)

    def _format_upstream(self, value: Any) -> str | None:
        """The order of axes of the convolution or pooling that a value comes from.

        None where something else has made the last axis: a recurrent layer, an attention or a
        reshape gives vectors, one for each step, in PyTorch as here.
        """
        for _ in range(_MOST_STEPS):
            node = self.node_of(value)
            if node is None or not node.inputs:
                return None
            if _transposes(node.operation):
                return "channels_first"  # whoever does that has put them in order
            data_format = _windowed_format(node.operation)
            if data_format is not None:
                return data_format
            makes_features = bool(node.operation.weights) and not isinstance(
                node.operation, layers.BatchNormalization
            )
            if makes_features or _reshapes(node.operation):
                return None
            value = node.inputs[0]
        return None


_KEEPING = (layers.BatchNormalization, layers.LayerNormalization)


def _flattens(operation: Any, before: Any, after: Any) -> bool:
    """Whether a call makes one axis of several, as `Flatten`, `Reshape` and `ops.reshape` do."""
    if len(before.shape) < 3 or len(after.shape) != 2 or operation.weights:
        return False
    sizes = tuple(before.shape[1:])
    if isinstance(operation, layers.Flatten):
        return True
    return None not in sizes and after.shape[1] == math.prod(sizes)


def _transposes(operation: Any) -> bool:
    is_primitive = getattr(operation, "primitive", None) in ("transpose", "moveaxis", "swapaxes")
    return is_primitive or isinstance(operation, layers.Permute)


def _reshapes(operation: Any) -> bool:
    is_primitive = getattr(operation, "primitive", None) == "reshape"
    return is_primitive or isinstance(operation, layers.Reshape)


def _windowed_format(part: Any) -> str | None:
    if not isinstance(part, layers.Layer) or isinstance(part, layers.Flatten):
        return None
    is_windowed = hasattr(part, "kernel_size") or hasattr(part, "pool_size")
    return getattr(part, "data_format", None) if is_windowed else None


def _input_of(layer: Any) -> Any:
    """The first symbolic input of a layer, None if it has none."""
    try:
        value = layer.input
    except (AttributeError, RuntimeError, ValueError):
        return None
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return value if hasattr(value, "shape") else None
