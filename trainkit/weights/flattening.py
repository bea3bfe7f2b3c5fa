"""Which layers take flattened images: there the rows of a kernel stand in another order.

PyTorch flattens (channels, height, width), and channels last means (height, width, channels). A
`Linear` behind a `Flatten` is the one place where that shows in the shape of nothing: taken over as
it is, it would compute nonsense without a word.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from trainkit import layers
from trainkit.core.errors import InvalidArgumentError, UnimplementedError
from trainkit.core.trackable import Trackable, traverse
from trainkit.core.variable import Variable

Shape = tuple[int, ...]
_MOST_STEPS = 10_000


class FlattenedInputs:
    """The sizes of the images that layers take flattened.

    Where the model is functional or sequential, they are read off its graph.

    Args:
        model: a model or layer that is built.
        flattened: sizes (..., channels) by path or name of the layer, for models whose graph is not
            known; None where nothing is said.

    Raises:
        InvalidArgumentError: `flattened` is needed.
    """

    def __init__(
        self, model: Trackable, flattened: Mapping[str, Sequence[int]] | None = None
    ) -> None:
        self._named = {name: tuple(sizes) for name, sizes in (flattened or {}).items()}
        self._used: set[str] = set()
        self._names: list[str] = []
        if flattened is None:
            self._require_known(model)

    def _require_known(self, model: Trackable) -> None:
        parts = [part for _, part in traverse(model) if not isinstance(part, Variable)]
        convolves = any(_windowed_format(part) == "channels_last" for part in parts)
        hidden = [
            part
            for part in parts
            if isinstance(part, layers.Flatten) and _input_of(part) is None
        ]  # fmt: skip
        if convolves and hidden:
            raise InvalidArgumentError(
                f"weights: {getattr(model, 'name', 'the model')!r} flattens images in a way that "
                "can't be seen from outside, and PyTorch flattens them channels first. Say which "
                "Dense layers take flattened images, and of which sizes: "
                "flattened={'fc': (height, width, channels)}; or flattened={} if none does"
            )

    def sizes_of(self, path: str, layer: Any) -> Shape | None:
        """The sizes of the images that a `Dense` takes flattened, None if it takes none.

        Args:
            path: of the layer in the model.
            layer: the layer.

        Raises:
            InvalidArgumentError: the sizes that were given are not those of its kernel.
        """
        self._names += [path, layer.name]
        for name in (path, layer.name):
            if name in self._named:
                self._used.add(name)
                sizes = self._named[name]
                rows = int(layer.kernel.shape[0])
                if math.prod(sizes) != rows:
                    raise InvalidArgumentError(
                        f"weights: flattened={{{name!r}: {sizes}}} has {math.prod(sizes)} values, "
                        f"and {name!r} takes {rows}"
                    )
                return sizes
        return flattened_sizes(layer)

    def require_none(self, path: str, layer: Any) -> None:
        """Refuse a layer other than `Dense` behind a `Flatten` of images.

        Raises:
            UnimplementedError: it is one, and has weights for each feature.
        """
        kinds = (layers.BatchNormalization, layers.LayerNormalization, layers.EinsumDense)
        if isinstance(layer, kinds) and flattened_sizes(layer) is not None:
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
            near = difflib.get_close_matches(name, self._names, 3, 0.3)
            raise InvalidArgumentError(
                f"weights: flattened names {name!r}, and there is no such Dense layer"
                + (f"; near: {', '.join(near)}" if near else "")
            )


def flattened_sizes(layer: Any) -> Shape | None:
    """The sizes (..., channels) of the images whose flattened form a layer takes.

    None if it takes none, if it is not known, or if the order does not matter.

    Args:
        layer: of a functional or sequential model.
    """
    value = _input_of(layer)
    for _ in range(_MOST_STEPS):
        source = _source_of(value)
        if source is None:
            return None
        if isinstance(source, (layers.Flatten, layers.Reshape)):
            return _sizes_before(source)
        before = _input_of(source)
        if before is None or tuple(before.shape) != tuple(value.shape):
            return None
        if type(source).parts(source) and source.weights and not _keeps_features(source):
            return None
        value = before
    return None


def _keeps_features(layer: Any) -> bool:
    return isinstance(layer, (layers.BatchNormalization, layers.LayerNormalization))


def _sizes_before(flatten: Any) -> Shape | None:
    value = _input_of(flatten)
    if value is None or len(value.shape) < 3:
        return None
    if isinstance(flatten, layers.Reshape) and len(_output_shape(flatten)) != 2:
        return None
    sizes = tuple(value.shape[1:])
    upstream = _format_upstream(value)
    if None in sizes or (len(sizes) == 2 and upstream is None):
        return None  # a sequence of vectors, which PyTorch flattens in the same order
    turned = getattr(flatten, "data_format", None) == "channels_first"
    if turned:
        sizes = (*sizes[1:], sizes[0])
    elif upstream == "channels_first":
        return None
    is_same = sizes[-1] == 1 or math.prod(sizes[:-1]) == 1
    return None if is_same else tuple(int(n) for n in sizes)


def _output_shape(layer: Any) -> Shape:
    return tuple(layer.output.shape)


def _format_upstream(value: Any) -> str | None:
    """The order of axes of the nearest convolution or pooling that a value comes from."""
    for _ in range(_MOST_STEPS):
        source = _source_of(value)
        if source is None:
            return None
        known = _windowed_format(source)
        if known is not None:
            return known
        value = _input_of(source)
    return None


def _windowed_format(part: Any) -> str | None:
    if not isinstance(part, layers.Layer) or isinstance(part, layers.Flatten):
        return None
    is_windowed = hasattr(part, "kernel_size") or hasattr(part, "pool_size")
    return getattr(part, "data_format", None) if is_windowed else None


def _source_of(value: Any) -> Any:
    """The layer that a symbolic tensor comes from, None for an input or an unknown one."""
    history = getattr(value, "_keras_history", None)
    operation = getattr(history, "operation", None)
    if operation is None or isinstance(operation, layers.InputLayer):
        return None
    return operation if isinstance(operation, layers.Layer) else None


def _input_of(layer: Any) -> Any:
    """The first symbolic input of a layer, None if it has none."""
    try:
        value = layer.input
    except (AttributeError, RuntimeError, ValueError):
        return None
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return value if hasattr(value, "shape") else None
