"""`InputSpec`: what a layer asks of its input, and the check of it."""

from __future__ import annotations

from typing import Any

from trainkit.core import nest
from trainkit.core.errors import InvalidArgumentError, ShapeError
from trainkit.core.tensor import is_tensor
from trainkit.core.tensor_spec import TensorSpec

_ONE_AXIS = (
    "One sample needs an axis of the batch: x[None]; images of one colour, or series of one number "
    "a step, need an axis of channels: x[..., None]."
)


class InputSpec:
    """Dtype, rank and sizes that an input must have.

    Args:
        dtype: name of the element type, `None` for any.
        shape: all sizes, `None` for any size; it says the rank too.
        ndim: the rank.
        max_ndim, min_ndim: its bounds.
        axes: sizes by axis, negative axes count from the end.
        allow_last_axis_squeeze: a last axis of size 1 may be missing or too many in the input.
        name: the key of the input where inputs come in a dict.
        optional: whether the input may be `None`.

    Example:
        >>> class Pairs(tk.layers.Layer):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.input_spec = tk.layers.InputSpec(shape=(None, 2))
        ...     def call(self, x):
        ...         return x[:, 0] * x[:, 1]
        >>> Pairs()(tk.constant([[2.0, 3.0]])).numpy()
        array([6.], dtype=float32)
    """

    def __init__(
        self,
        dtype: Any = None,
        shape: Any = None,
        ndim: int | None = None,
        max_ndim: int | None = None,
        min_ndim: int | None = None,
        axes: dict[int, int | None] | None = None,
        allow_last_axis_squeeze: bool = False,
        name: str | None = None,
        optional: bool = False,
    ) -> None:
        self.dtype = dtype
        self.shape = None if shape is None else tuple(shape)
        self.ndim = len(self.shape) if self.shape is not None else ndim
        self.max_ndim = max_ndim
        self.min_ndim = min_ndim
        self.axes = {int(k): v for k, v in (axes or {}).items()}
        self.allow_last_axis_squeeze = allow_last_axis_squeeze
        self.name = name
        self.optional = optional

    def get_config(self) -> dict[str, Any]:
        """What `from_config` needs."""
        return dict(vars(self))

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> InputSpec:
        """The spec that `get_config` described."""
        return cls(**config)

    def __repr__(self) -> str:
        set_fields = ", ".join(f"{k}={v!r}" for k, v in vars(self).items() if v)
        return f"InputSpec({set_fields})"

    def fault(self, shape: tuple[int | None, ...], dtype: Any) -> str | None:
        """Why an input of this shape and dtype does not do, or `None` when it does."""
        rank = len(shape)
        if self.ndim is not None and rank != self.ndim and not self._squeezes(rank):
            return f"the input must have {self.ndim} axes, it has {rank}"
        if self.max_ndim is not None and rank > self.max_ndim:
            return f"the input must have at most {self.max_ndim} axes, it has {rank}"
        if self.min_ndim is not None and rank < self.min_ndim:
            return f"the input must have at least {self.min_ndim} axes, it has {rank}"
        if self.dtype is not None and dtype != self.dtype:
            return f"the input must have dtype {self.dtype}, it has {dtype.name}"
        return self._size_fault(shape)

    def _squeezes(self, rank: int) -> bool:
        return self.allow_last_axis_squeeze and self.ndim is not None and abs(rank - self.ndim) == 1

    def _size_fault(self, shape: tuple[int | None, ...]) -> str | None:
        for axis, size in self.axes.items():
            # An axis that the input lacks is a matter of its rank, which is compared before.
            have = shape[axis] if -len(shape) <= axis < len(shape) else None
            if size is not None and have is not None and have != size:
                axis_text = "the last axis" if axis == -1 else f"axis {axis}"
                return f"{axis_text} of the input has size {have}, the layer was built for {size}"
        if self.shape is not None and len(shape) == len(self.shape):
            for axis, (have, size) in enumerate(zip(shape, self.shape, strict=True)):
                if None not in (have, size) and have != size:
                    return f"axis {axis} of the input has size {have}, the layer needs {size}"
        return None


def check_inputs(layer: Any, spec: Any, inputs: Any) -> None:
    """Compare the inputs of a call with a layer's `input_spec`.

    Raises:
        ShapeError: a rank or size is not what the spec says.
        InvalidArgumentError: the number of inputs, or a dtype, is not.
    """
    specs, values = nest.flatten(spec), nest.flatten(inputs)
    if len(values) != len(specs):
        raise InvalidArgumentError(
            f"layer {layer.name!r} ({type(layer).__name__}) takes {len(specs)} inputs, it was "
            f"given {len(values)}"
        )
    for leaf_spec, x in zip(specs, values, strict=True):
        if leaf_spec is None or not hasattr(x, "shape"):
            continue
        fault = leaf_spec.fault(tuple(x.shape), x.dtype)
        if fault:
            # One axis too few is most often a batch or channels of size 1, which the advice names.
            missing = (leaf_spec.ndim or leaf_spec.min_ndim or 0) - len(x.shape)
            raise ShapeError(_message(layer, fault, x, missing))


def check_positional(layer: Any, values: Any) -> None:
    """Refuse arguments after the first that are given by position and hold no tensor.

    Raises:
        InvalidArgumentError: one is a number, a bool, a text or the like.
    """
    for value in nest.flatten(values):
        if value is not None and not hasattr(value, "shape"):
            raise InvalidArgumentError(
                f"layer {layer.name!r} ({type(layer).__name__}) takes only tensors by position; "
                f"give {value!r} by its keyword, such as training={value!r}"
            )


def _message(layer: Any, fault: str, x: Any, missing_axes: int) -> str:
    lines = [f"layer {layer.name!r} ({type(layer).__name__}): {fault}."]
    lines.append(f"  input  {tuple(x.shape)} {x.dtype.name}")
    lines += [f"  {w._name}  {tuple(w.shape)}" for w in layer.weights[:4]]
    if "built for" in fault:
        advice = (
            "Make a new layer for this input, or reshape the input to what the layer was built for."
        )
    else:
        advice = getattr(layer, "_advice_on_axes", "") if missing_axes > 0 else ""
        if not advice and missing_axes == 1:
            advice = _ONE_AXIS
    lines.append(advice or "Reshape the input.")
    return "\n".join(lines)


def tensor_spec(x: Any) -> TensorSpec:
    """The `TensorSpec` of what describes an input.

    Raises:
        TypeError: it is no description of a tensor.
        ValueError: its shape or dtype is not known.
    """
    if isinstance(x, TensorSpec):
        return x
    if isinstance(x, InputSpec):
        if x.shape is None or x.dtype is None:
            raise ValueError(f"{x!r} needs a shape and a dtype to be an input of an endpoint")
        return TensorSpec(x.shape, x.dtype, x.name)
    if is_tensor(x):
        return any_batch(x.shape, x.dtype, getattr(x, "name", None))
    raise TypeError(
        f"{x!r} is no description of an input; give an InputSpec, a TensorSpec or a tensor"
    )


def any_batch(shape: Any, dtype: Any, name: str | None) -> TensorSpec:
    """The spec of an input of which only the size of the batch is free."""
    sizes = tuple(shape)
    return TensorSpec((None, *sizes[1:]) if sizes else (), dtype, _label(name))


def _label(name: str | None) -> str | None:
    """A name without what stands for an output's number."""
    return None if name is None else name.partition(":")[0]
