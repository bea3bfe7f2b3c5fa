"""What a functional model is given, as its inputs want it: matched by place or name, and fitted."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trainkit import ops
from trainkit.core import masks, nest
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.layers.base.keras_tensor import KerasTensor

_NESTS = (list, tuple, dict)


class _Drawing(threading.local):
    def __init__(self) -> None:
        self.depth = 0


_DRAWING = _Drawing()


@contextmanager
def drawing() -> Iterator[None]:
    """While a model is drawn up, or its shapes are found, no word is said about nests."""
    _DRAWING.depth += 1
    try:
        yield
    finally:
        _DRAWING.depth -= 1


def matched(graph: Any, inputs: Any) -> list[Any]:
    """The leaves of `inputs` in the order of the model's.

    Args:
        graph: with the model's `inputs`, `flat_inputs` and `names`.
        inputs: a nest like that of the model's inputs, where lists do for tuples; for inputs that
            are no dict also a dict by their names.

    Raises:
        InvalidArgumentError: the number of leaves differs, or a name is missing.
    """
    symbols = graph.inputs
    if not isinstance(inputs, _NESTS):
        if len(graph.flat_inputs) == 1:
            return [inputs]
        raise _wrong_number(graph, 1)
    if isinstance(inputs, dict) and not isinstance(symbols, dict):
        return _by_name(graph, inputs)
    if isinstance(symbols, dict):
        inputs = _for_dict(graph, inputs)
    flat = nest.flatten(inputs)
    if len(flat) != len(graph.flat_inputs):
        raise _wrong_number(graph, len(flat))
    if not isinstance(symbols, dict) and not alike(inputs, symbols):
        _warn(symbols, inputs)
    return flat


def _wrong_number(graph: Any, count: int) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"the model has {len(graph.flat_inputs)} inputs, {', '.join(graph.names)}; "
        f"it was given {count}"
    )


def _by_name(graph: Any, inputs: dict[str, Any]) -> list[Any]:
    _require(graph.names, inputs)
    return [inputs[name] for name in graph.names]


def _require(names: list[str], inputs: dict[Any, Any]) -> None:
    if any(name not in inputs for name in names):
        raise InvalidArgumentError(
            f"the model has the inputs {', '.join(names)}; the dict it was given has "
            f"{', '.join(map(str, inputs))}"
        )


def _for_dict(graph: Any, inputs: Any) -> Any:
    """`inputs` for a model whose inputs are a dict; what it has besides them is left out."""
    symbols = graph.inputs
    if not isinstance(inputs, dict):
        if list(symbols) != nest.sorted_keys(symbols):
            raise InvalidArgumentError(
                "the inputs of the model are a dict whose keys are not in sorted order, so what "
                f"is not a dict can't be matched with them. {_both(symbols, inputs)}"
            )
        _warn(symbols, inputs)
        return inputs
    _require([str(key) for key in symbols], {str(key): None for key in inputs})
    if not alike(inputs, symbols):
        _warn(symbols, inputs)
    by_text = {str(key): value for key, value in inputs.items()}
    return {key: by_text[str(key)] for key in symbols}


def alike(inputs: Any, symbols: Any) -> bool:
    """Whether two nests have the same structure, where lists do for tuples."""
    if isinstance(symbols, dict):
        return (
            isinstance(inputs, dict)
            and set(map(str, inputs)) == set(map(str, symbols))
            and all(alike(inputs[key], symbols[key]) for key in symbols if key in inputs)
        )
    if isinstance(symbols, list | tuple):
        if not isinstance(inputs, list | tuple) or len(inputs) != len(symbols):
            return False
        return all(alike(x, y) for x, y in zip(inputs, symbols, strict=True))
    return not isinstance(inputs, _NESTS)


def _warn(symbols: Any, inputs: Any) -> None:
    if _DRAWING.depth:
        return
    warnings.warn(
        f"The structure of `inputs` doesn't match the expected structure. {_both(symbols, inputs)}",
        stacklevel=6,
    )


def _both(symbols: Any, inputs: Any) -> str:
    names = nest.map_structure(lambda x: x.name, symbols)
    shapes = nest.map_structure(lambda x: tuple(x.shape) if hasattr(x, "shape") else x, inputs)
    return f"The model has {names}, it was given {shapes}"


def masked(inputs: list[Any], leaf_masks: list[Any]) -> list[Any]:
    """The inputs as tensors that carry these masks, where they are not `None`."""
    tensors = []
    for x, mask in zip(inputs, leaf_masks, strict=True):
        if mask is not None:
            x = x if isinstance(x, Tensor) else convert_to_tensor(x)
            masks.set_mask(x, mask)
        tensors.append(x)
    return tensors


# ---------------------------------------------------------------------- one input


def fitted(x: Any, symbol: KerasTensor, sizes: bool = True) -> Any:
    """Data as the input wants it: of its dtype and rank; it may lack a last axis of size 1.

    Args:
        x: an array or tensor, or `None`.
        symbol: the input.
        sizes: whether the sizes of the axes are compared too.

    Raises:
        ShapeError: the rank, or a size, is not that of the input.
        InvalidArgumentError: it is `None`, and the input is not optional.
    """
    if x is None:
        if symbol.node is not None and not getattr(symbol.node.operation, "optional", True):
            raise InvalidArgumentError(
                f"input {symbol.name!r} of the model is not optional, it was given None"
            )
        return None
    if not isinstance(x, Tensor):
        x = convert_to_tensor(x)
    original = x
    if x.dtype != symbol.dtype:
        x = ops.cast(x, symbol.dtype)
    want, have = tuple(symbol.shape), tuple(x.shape)
    if len(have) == len(want) - 1 and want[-1] == 1 and not _is_one_sample(want, have):
        x = ops.expand_dims(x, -1)
    elif len(have) == len(want) + 1 and have[-1] == 1:
        x = ops.squeeze(x, -1)
    if x is not original and masks.any_held():
        masks.set_mask(x, masks.mask_of(original))
    _compare(symbol, want, tuple(x.shape), have, sizes)
    return x


def _compare(
    symbol: KerasTensor,
    want: tuple[Any, ...],
    have: tuple[Any, ...],
    data_shape: tuple[Any, ...],
    sizes: bool,
) -> None:
    same = len(have) == len(want)
    if same and sizes:
        pairs = zip(have[1:], want[1:], strict=True)
        same = all(m is None or n is None or n == m for n, m in pairs)
    if not same:
        text = f"input {symbol.name!r} of the model has shape {want}, it was given {data_shape}"
        if _fits(want[1:], data_shape):
            text += (
                ": one sample without the axis of the batch; give the model x[None], a data set "
                "batch(32)"
            )
        raise ShapeError(text)


def _fits(sizes: tuple[Any, ...], shape: tuple[Any, ...]) -> bool:
    pairs = zip(sizes, shape, strict=False)
    return len(sizes) == len(shape) and all(None in (m, n) or m == n for m, n in pairs)


def _is_one_sample(want: tuple[Any, ...], shape: tuple[Any, ...]) -> bool:
    """Whether data has the sizes of one sample, and is no batch that lacks the last axis."""
    return _fits(want[1:], shape) and not _fits(want[:-1], shape)


def check_keys(inputs: dict[Any, Any]) -> None:
    """Warn of keys that are not the names of their inputs, as data is matched by key."""
    for key, x in inputs.items():
        if isinstance(x, KerasTensor) and key != x.name:
            warnings.warn(
                f"the input {x.name!r} of the model goes by the key {key!r}; data is matched by "
                f"the key. Give the Input the same name: Input(..., name={key!r})",
                stacklevel=5,
            )
