"""`SpecsByRunning`: the half of a layer that knows the shapes of results without values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trainkit.core import nest
from trainkit.core.dispatch import eval_shape
from trainkit.core.errors import ShapeError
from trainkit.core.shapes import Spec
from trainkit.core.symbolic_tensor import SymbolicTensor
from trainkit.core.tensor import Tensor
from trainkit.layers.base.building import all_built, put_back, state_of_all
from trainkit.layers.base.call_spec import CallSpec
from trainkit.layers.base.nested_shapes import is_shape, specs_of
from trainkit.layers.base.weights import WeightHolder


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


class SpecsByRunning(WeightHolder):
    """Shapes and dtypes of results, from what a subclass says or from running `call` on shapes."""

    _losses_held: Any
    _symbolic_call: Any
    compute_dtype: Any

    _facts: CallSpec

    if TYPE_CHECKING:

        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        """`Spec`s of the result of a call, found without computing it.

        They are what `compute_output_shape` says, in the compute dtype, if a class of the user
        defines it; else `call` is run on shapes, for which the layer gets built.

        Args:
            *args: arguments of the call, with `Spec`s or symbolic tensors for tensors.
            **kwargs: those given by keyword.
        """
        if not self._facts.own_output_shape:
            return self._specs_by_running(*args, **kwargs)
        # Nobody runs `call` here, and that is what builds the layers inside.
        if not all_built(self):
            self._build_inner_layers(args, kwargs)
        shapes = self._facts.shapes_for("compute_output_shape", self, args, kwargs)
        result = nest.map_structure(self._as_size, self.compute_output_shape(**shapes))
        # An iterable of another kind is one shape, and so is a list of nothing but sizes; other
        # lists and tuples are nests of shapes.
        if not isinstance(result, list | tuple | dict):
            result = tuple(result)
        elif is_shape(result):
            result = tuple(result)
        try:
            return _specs_like(result, self.compute_dtype)
        except TypeError as error:
            raise ShapeError(
                f"layer {self.name!r} ({type(self).__name__}): compute_output_shape gave {result}, "
                f"which is no shape and no nest of them, for\n  input  {shapes}"
            ) from error

    def _build_inner_layers(self, args: Any, kwargs: Any) -> None:
        """Build the layers inside, which `call` alone knows the inputs of, where it takes shapes.

        One that takes values only, which may be why the layer says its output shape, builds them at
        the first call with values.
        """
        states = state_of_all(self)
        try:
            self._specs_by_running(*args, **kwargs)
        except Exception:
            put_back(states)

    def _as_size(self, size: Any) -> Any:
        """A size that `compute_output_shape` gave; a whole float, of a division, is an int."""
        if isinstance(size, float) and not size.is_integer():
            raise ShapeError(
                f"layer {self.name!r} ({type(self).__name__}): compute_output_shape gave the size "
                f"{size}, which is no whole number"
            )
        return int(size) if isinstance(size, float) else size

    def _specs_by_running(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = nest.map_structure(described, args), nest.map_structure(described, kwargs)
        try:
            return eval_shape.result_specs(self, *args, **kwargs)
        finally:
            if self._losses_held:
                self._clear_losses()

    def compute_output_shape(self, *input_shapes: Any, **more: Any) -> Any:
        """The shape of the output for inputs of these shapes; nothing is built or changed.

        Args:
            *input_shapes: one for each argument of `call`; a tuple with `None` for sizes that are
                not known, or a list or dict of them.
            **more: shapes by keyword, counted after the others.
        """
        shapes = list(input_shapes) + list(more.values())
        specs = [specs_of(shape, self.compute_dtype) for shape in shapes]
        # The run builds the layer for these shapes, which nobody may have meant it to be built for.
        states = state_of_all(self)
        own = self._facts.own_output_spec
        try:
            result = (self.compute_output_spec if own else self._specs_by_running)(*specs)
        finally:
            put_back(states)
        return nest.map_structure(
            lambda y: tuple(y.shape) if isinstance(y, Spec | Tensor) else y, result
        )

    def symbolic_call(self, *args: Any, **kwargs: Any) -> Any:
        """`compute_output_spec`, under Keras's other name."""
        return self.compute_output_spec(*args, **kwargs)

    def _note_symbolic_call(self, inputs: Any, outputs: Any) -> int:
        """Remember the symbolic tensors of the first call in a model; how many went before."""
        first, last, calls = self._symbolic_call or (inputs, outputs, 0)
        # Past `__setattr__`, which would look for parts among the symbols and forget those
        # gathered.
        object.__setattr__(self, "_symbolic_call", (first, last, calls + 1))
        return calls

    @property
    def input(self) -> Any:
        """The symbolic input of the layer's first call in a functional model; a list of several.

        Raises:
            AttributeError: it was never called on symbolic tensors.
        """
        return self._symbolic(0)

    @property
    def output(self) -> Any:
        """The symbolic output of the layer's first call in a functional model; a list of several.

        Raises:
            AttributeError: it was never called on symbolic tensors.
        """
        return self._symbolic(1)

    @Replaceable
    def input_shape(self) -> Any:
        """The shape of the input of the layer's first call in a functional model.

        A tuple, with `None` for sizes that are not known; a list of them for several inputs, and
        for an `InputLayer`, as in TensorFlow 2.

        Raises:
            AttributeError: it was never called on symbolic tensors.
        """
        return self._shapes_of(self.input)

    @Replaceable
    def output_shape(self) -> Any:
        """The shape of the output of the layer's first call in a functional model.

        A tuple, or a list of them, as `input_shape` is.

        Raises:
            AttributeError: it was never called on symbolic tensors.
        """
        return self._shapes_of(self.output)

    def _shapes_of(self, symbols: Any) -> Any:
        """The shape of a symbolic tensor, or of each of a list of them, as tuples."""
        if isinstance(symbols, list):
            return [tuple(x.shape) for x in symbols]
        return tuple(symbols.shape)

    def _symbolic(self, index: int) -> Any:
        if self._symbolic_call is None:
            raise AttributeError(
                f"layer {self.name!r} has no input or output yet: it was never called on the "
                "symbolic tensors of a functional model"
            )
        leaves = nest.flatten(self._symbolic_call[index])
        # A call takes numbers and texts as well, which are no inputs.
        symbols = [x for x in leaves if isinstance(x, SymbolicTensor)]
        return symbols[0] if len(symbols) == 1 else symbols


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
