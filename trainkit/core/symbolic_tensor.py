"""`SymbolicTensor`: a tensor whose value is computed later, in a graph or a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainkit.core import devices
from trainkit.core.dispatch import late_ops
from trainkit.core.dtypes import DType
from trainkit.core.errors import NoValueError
from trainkit.core.shapes import TensorShape
from trainkit.core.tensor import Tensor
from trainkit.core.user_frames import is_readable, line_text, user_line
from trainkit.core.values.batch_size import COUNTED, marked


def _at_user_line() -> str:
    """The line of the user's code that is running, for the end of an error text."""
    line = user_line()
    if line is None:
        return ""
    text = f"\n  at {line_text(line)}"
    if not is_readable(line):
        text += (
            f"\nThe source of {line[2] or 'the function'} could not be read, since it is in "
            f"{line[0]}, so its if, while and for were not made operations of the graph: put it "
            "into a file."
        )
    return text


def _absent(name: str) -> Any:
    """What stands for a name of values alone: hasattr(x, "numpy") tells a value from a symbol."""

    def refuse(x: Any) -> Any:
        raise AttributeError(
            f"a symbolic tensor has no {name!r}: it stands for a value computed later. Inside "
            "a tk.function use tensor operations, or tk.numpy_function for NumPy, or run it by "
            "tk.config.run_functions_eagerly(True)." + _at_user_line()
        )

    return property(refuse)


class SymbolicTensor(Tensor):
    """A tensor that has a shape and a dtype but no value yet: a place in a graph or a model.

    Subclasses that are no part of a graph being traced define `apply_primitive(primitive, inputs,
    settings)` and `apply_layer(layer, args, kwargs)`, to which operations and layers hand over.

    Attributes:
        unknown_sizes_fit: whether a size that is not known may turn out to be the one needed; if
            not, matrices that must be square are so in what is known of them.
    """

    __slots__ = ("_known", "_own_mask", "_spec")
    unknown_sizes_fit = True
    _own_mask: Any  # a graph's mask, held here, dies with the graph
    _spec: Any
    _known: Any  # what `known_sizes` knows of its elements

    def __init__(self, spec: Any) -> None:
        self._spec = spec
        self._known = self._own_mask = None

    numpy, item, tolist = map(_absent, ("numpy", "item", "tolist"))
    _array = _absent("_array")

    def _hold_mask(self, mask: Any) -> None:
        self._own_mask = mask

    @property
    def shape(self) -> TensorShape:
        """Sizes of the axes, `None` where not known yet."""
        sizes = TensorShape(self._spec.shape)
        return marked(sizes) if COUNTED else sizes

    @property
    def dtype(self) -> DType:
        """The element type."""
        dtype: DType = self._spec.dtype
        return dtype

    @property
    def device(self) -> str:
        """Name of the device: that on which new tensors are made."""
        return devices.current().name

    def _no_value(self, operation: str) -> NoValueError:
        return NoValueError(
            f"{operation} needs a value, and {self!r} has none: it stands for a value that is "
            "computed "
            "later. Inside a tk.function use tensor operations (tk.cond, tk.while_loop, tk.print) "
            "in place of Python's, or run it with tk.config.run_functions_eagerly(True)."
            + _at_user_line()
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise self._no_value("a NumPy array")

    def __bool__(self) -> bool:
        raise self._no_value("bool()")

    def __float__(self) -> float:
        raise self._no_value("float()")

    def __int__(self) -> int:
        raise self._no_value("int()")

    def __complex__(self) -> complex:
        raise self._no_value("complex()")

    def __index__(self) -> int:
        raise self._no_value("an index")

    def __len__(self) -> int:
        if len(self.shape) == 0 or self.shape[0] is None:
            raise self._no_value("len()")
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Any]:
        if len(self.shape) == 0 or self.shape[0] is None:
            raise self._no_value("iteration")
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, item: Any) -> bool:
        raise self._no_value("in")

    def __format__(self, spec: str) -> str:
        if spec:
            raise self._no_value(f"the format {spec!r}")
        return str(self)

    def __str__(self) -> str:
        return f"Tensor(shape={tuple(self.shape)}, dtype={self.dtype.name})"

    __repr__ = __str__

    def _repr_html_(self) -> None:
        """Nothing, so that notebooks show the text: there are no values to be seen."""
        return None

    def _on(self, where: devices.Device) -> Tensor:
        copied: Tensor = late_ops.copy_to_device(self, device=where.name)
        return copied

    def __deepcopy__(self, memo: Any) -> Tensor:
        return self

    def __reduce__(self) -> Any:
        raise self._no_value("pickling")

    __hash__ = object.__hash__
