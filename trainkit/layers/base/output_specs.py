"""Shapes and dtypes of a layer's results, from what a subclass says or from a run on shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainkit.core import nest
from trainkit.core.dispatch import eval_shape
from trainkit.core.errors import ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor
from trainkit.core.trackable import set_silently
from trainkit.layers.base.building import all_built, put_back, state_of_all
from trainkit.layers.base.nested_shapes import is_shape, specs_of


def described(x: Any) -> Any:
    """The `Spec` of a symbolic tensor; all else as it is."""
    return Spec(x.shape, x.dtype) if isinstance(x, SymbolicTensor) else x


class Replaceable:
    """A property that an attribute of the same name, which a subclass assigns, stands in for."""

    def __init__(self, read: Callable[[Any], Any]) -> None:
        """Take the getter, `read(owner)`."""
        # There is no `__set__`: a property would refuse `self.output_shape = ...`, and Python asks
        # the attributes of the object before a descriptor that can only be read.
        self._read = read
        self.__doc__ = read.__doc__

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else self._read(owner)


def specs_of_call(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`Spec`s of the result of a call; see `Layer.compute_output_spec`.

    Raises:
        ShapeError: what `compute_output_shape` gave is no shape.
    """
    if not layer._facts.own_output_shape:
        return specs_by_running(layer, *args, **kwargs)
    # Nobody runs `call` here, and that is what builds the layers inside.
    if not all_built(layer):
        _build_inner_layers(layer, args, kwargs)
    shapes = layer._facts.shapes_for("compute_output_shape", layer, args, kwargs)
    result = nest.map_structure(
        lambda size: _as_size(layer, size), layer.compute_output_shape(**shapes)
    )
    # An iterable of another kind is one shape, and so is a list of nothing but sizes; other lists
    # and tuples are nests of shapes.
    if not isinstance(result, list | tuple | dict) or is_shape(result):
        result = tuple(result)
    try:
        return _specs_like(result, layer.compute_dtype)
    except TypeError as error:
        raise ShapeError(
            f"layer {layer.name!r} ({type(layer).__name__}): compute_output_shape gave {result}, "
            f"which is no shape and no nest of them, for\n  input  {shapes}"
        ) from error


def specs_by_running(layer: Any, *args: Any, **kwargs: Any) -> Any:
    """`Spec`s of the result of a call that is run on shapes, which builds the layer."""
    args, kwargs = nest.map_structure(described, args), nest.map_structure(described, kwargs)
    try:
        return eval_shape.result_specs(layer, *args, **kwargs)
    finally:
        if layer._losses_held:
            layer._clear_losses()


def shapes_of_call(layer: Any, shapes: list[Any]) -> Any:
    """The shape of the result of a call; see `Layer.compute_output_shape`."""
    specs = [specs_of(shape, layer.compute_dtype) for shape in shapes]
    # The run builds the layer for these shapes, which nobody may have meant it to be built for.
    states = state_of_all(layer)
    try:
        if layer._facts.own_output_spec:
            result = layer.compute_output_spec(*specs)
        else:
            result = specs_by_running(layer, *specs)
    finally:
        put_back(states)
    return nest.map_structure(
        lambda y: tuple(y.shape) if isinstance(y, Spec | Tensor) else y, result
    )


def note_symbolic_call(layer: Any, inputs: Any, outputs: Any) -> int:
    """Remember the symbolic tensors of the first call in a model; how many went before."""
    first, last, calls = layer._symbolic_call or (inputs, outputs, 0)
    # Past `__setattr__`, which would look for parts among the symbols and forget those gathered.
    set_silently(layer, _symbolic_call=(first, last, calls + 1))
    return int(calls)


def symbols_of_call(layer: Any, index: int) -> Any:
    """The symbolic inputs (0) or outputs (1) of the first call in a model: one, or a list.

    Raises:
        AttributeError: there was none.
    """
    if layer._symbolic_call is None:
        raise AttributeError(
            f"layer {layer.name!r} has no input or output yet: it was never called on the "
            "symbolic tensors of a functional model"
        )
    leaves = nest.flatten(layer._symbolic_call[index])
    # A call takes numbers and texts as well, which are no inputs.
    symbols = [x for x in leaves if isinstance(x, SymbolicTensor)]
    return symbols[0] if len(symbols) == 1 else symbols


def _build_inner_layers(layer: Any, args: Any, kwargs: Any) -> None:
    """Build the layers inside, which `call` alone knows the inputs of, where it takes shapes.

    One that takes values only, which may be why the layer says its output shape, builds them at the
    first call with values.
    """
    states = state_of_all(layer)
    try:
        specs_by_running(layer, *args, **kwargs)
    except Exception:
        put_back(states)


def _as_size(layer: Any, size: Any) -> Any:
    """A size that `compute_output_shape` gave; a whole float, of a division, is an int."""
    if isinstance(size, float) and not size.is_integer():
        raise ShapeError(
            f"layer {layer.name!r} ({type(layer).__name__}): compute_output_shape gave the size "
            f"{size}, which is no whole number"
        )
    return int(size) if isinstance(size, float) else size


def _specs_like(shapes: Any, dtype: str) -> Any:
    """`Spec`s for nested shapes that a `compute_output_shape` gave."""
    if isinstance(shapes, dict):
        return {key: _specs_like(value, dtype) for key, value in shapes.items()}
    if is_shape(shapes):
        return Spec(tuple(shapes), dtype)
    # A namedtuple takes its items one by one, a list or tuple all in one.
    if hasattr(shapes, "_fields"):
        return type(shapes)(*(_specs_like(item, dtype) for item in shapes))
    return type(shapes)(_specs_like(item, dtype) for item in shapes)
