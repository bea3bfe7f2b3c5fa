"""`Loss`: one value per sample, then weights, masks, and the reduction to one number."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from trainkit import ops
from trainkit.core import dtypes, nest
from trainkit.core.dispatch.trace_state import THREAD
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.masks import HELD, mask_of
from trainkit.core.names import explain_attribute, name_for
from trainkit.core.registry import FAMILIES, serialize_object
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.trackable import tracked
from trainkit.core.values.attribute_state import CHANGES
from trainkit.core.values.configurable import Configurable
from trainkit.losses.alignment import same_rank, weights_like
from trainkit.losses.registry import LOSSES
from trainkit.ops.collective.denominators import of_all_replicas
from trainkit.ops.collective.global_rows import REPLICAS, of_whole_batch

if TYPE_CHECKING:
    from trainkit.core.values.type_aliases import DTypeLike


_Function = TypeVar("_Function", bound=Callable[..., Any])

REDUCTIONS = ("sum_over_batch_size", "mean", "sum", "mean_with_sample_weight", "none")


class Reduction:
    """TensorFlow 2's names of reductions, such as `Reduction.NONE` for `"none"`.

    Example:
        >>> loss = tk.losses.MeanSquaredError(reduction=tk.losses.Reduction.SUM)
        >>> float(loss([[1.0], [1.0]], [[0.0], [0.0]]))
        2.0
    """

    AUTO = "auto"
    NONE = "none"
    SUM = "sum"
    SUM_OVER_BATCH_SIZE = "sum_over_batch_size"

    @classmethod
    def all(cls) -> tuple[str, ...]:
        """All of them."""
        return cls.AUTO, cls.NONE, cls.SUM, cls.SUM_OVER_BATCH_SIZE

    @classmethod
    def validate(cls, key: str) -> None:
        """Raise `ValueError` unless `key` is one of them."""
        if key not in cls.all():
            raise ValueError(f"{key!r} is no reduction; there are {', '.join(cls.all())}")


def checked_reduction(value: str | None) -> str | None:
    """`value`, when it is a reduction.

    Raises:
        ValueError: it is none of `REDUCTIONS` or `None`.
    """
    if value == "auto":  # TensorFlow 2's name of the default
        return "sum_over_batch_size"
    if value is not None and value not in REDUCTIONS:
        raise ValueError(f"reduction must be one of {', '.join(REDUCTIONS)} or None, got {value!r}")
    return value


def _is_reduction(value: Any) -> bool:
    return isinstance(value, str) and (value in REDUCTIONS or value == "auto")


class Loss(Configurable, family=LOSSES):
    """Base of losses. A subclass gives `call(y_true, y_pred)`: one value per sample.

    The result of calling a loss is, by `reduction`: `"sum_over_batch_size"` or `"mean"`, the sum of
    all weighted values divided by their number; `"sum"`; `"mean_with_sample_weight"`, the sum
    divided by the sum of the weights; `"none"` or `None`, the weighted values.

    Args:
        name: what the loss is called; by default its class name.
        reduction: see above. As in TensorFlow 2 it may come first, before the name.
        dtype: dtype that predictions are cast to; the default float type by default.

    Raises:
        ValueError: `reduction` is none of these.

    Example:
        >>> class Quartic(tk.losses.Loss):
        ...     def call(self, y_true, y_pred):
        ...         return tk.reduce_mean((y_true - y_pred) ** 4, axis=-1)
        >>> float(Quartic()(tk.zeros((2, 3)), tk.fill((2, 3), 2.0)))
        16.0
    """

    def __init__(
        self,
        name: str | None = None,
        reduction: str | None = "sum_over_batch_size",
        dtype: DTypeLike | None = None,
    ) -> None:
        if _is_reduction(name) and not _is_reduction(reduction):
            name, reduction = reduction, name
        self.name = name or name_for(type(self))
        self.reduction = reduction
        self._dtype = (
            None if dtype is None else dtypes.as_dtype(getattr(dtype, "compute_dtype", dtype))
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "reduction":
            value = checked_reduction(value)
        # Lists and dicts count their changes, which compiled steps look for.
        value = tracked(value) if type(value) in (list, dict) else value
        object.__setattr__(self, name, value)
        CHANGES.note(value)

    @property
    def dtype(self) -> str:
        """Name of the dtype that predictions are cast to."""
        return dtypes.floatx() if self._dtype is None else self._dtype.name

    _of_whole_batch: bool = False
    """Whether the last value, in one of several replicas, is that of the rows of all."""

    def _mixes_rows(self, y_pred: Any) -> bool:
        """Whether values are known to be those of the whole batch; by default their shape tells."""
        return False

    takes_class_numbers: bool = False
    """Whether `call` wants integer targets as they are; otherwise they become floats."""

    if not TYPE_CHECKING:  # names that are not there are errors in editors

        def __getattr__(self, name: str) -> Any:
            return explain_attribute(self, name, {}, is_named=True)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """One value per sample.

        A mask that is set on the result (`set_mask`) says which values count.

        Args:
            y_true: targets; as the subclass says.
            y_pred: predictions, of the loss's dtype. Nested tensors come as they were given.
        """
        raise NotImplementedError(f"{type(self).__name__} has no call(y_true, y_pred)")

    def __call__(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None, mask: Any = None
    ) -> Tensor:
        """The loss of a batch.

        Args:
            y_true: targets, (batch, ...).
            y_pred: predictions, (batch, ...). Where the mask of such a tensor, as `Masking` and
                `Embedding` make it, is False a value does not count.
            sample_weight: one weight per sample, (batch,), or per value; all 1 by default.
            mask: bools like the values, in place of the mask of `y_pred`.

        Returns:
            A scalar, or with `reduction="none"` one value per sample.

        Raises:
            InvalidArgumentError: targets or predictions are `None`.
            ShapeError: targets, predictions or weights do not fit each other.
            TypeError: `call` gave no tensor.
        """
        if y_true is None or y_pred is None:
            part = "y_pred" if y_pred is None else "y_true"
            raise InvalidArgumentError(
                f"loss {self.name!r} was called with None as {part}: pass a tensor or an array"
            )
        traces = THREAD.traces
        dtype_name = dtypes.floatx() if self._dtype is None else self._dtype.name
        if mask is None and (HELD or traces) and isinstance(y_pred, Tensor):
            mask = mask_of(y_pred)
        if type(y_pred) is not Tensor or y_pred.dtype.name != dtype_name:
            y_pred = self._as_floats(y_pred)
        y_true = self._as_targets(y_true)
        if REPLICAS:
            mixes = self._mixes_rows(y_pred)
            values, is_whole = of_whole_batch(self.call, y_true, y_pred, self.name, mixes)
            self._of_whole_batch = is_whole and sample_weight is None and mask is None
        else:
            values = self.call(y_true, y_pred)
        own_mask = mask_of(values) if HELD or traces else None
        if own_mask is not None:
            mask = own_mask if mask is None else _both(own_mask, mask)
        if type(values) is not Tensor or values.dtype.name != dtype_name:
            values = self._validate(values)
        if sample_weight is None and mask is None:
            return reduced(values, self.reduction, None)
        return reduce_weighted(self.name, values, self.reduction, sample_weight, mask)

    def _as_floats(self, x: Any) -> Any:
        if not isinstance(x, Tensor):
            if is_structure(x):
                return nest.map_structure(self._as_floats, x)
            x = convert_to_tensor(x)
        dtype_name = self.dtype
        return x if x.dtype.name == dtype_name else ops.cast(x, dtype_name)

    def _as_targets(self, x: Any) -> Any:
        if not self.takes_class_numbers:
            return x if type(x) is Tensor and x.dtype.name == self.dtype else self._as_floats(x)
        if type(x) is Tensor and x._array.dtype.kind in "iub":
            return x
        x = x if isinstance(x, Tensor) else convert_to_tensor(x)
        return self._as_floats(x) if x.dtype.is_floating else x

    def _validate(self, values: Any) -> Tensor:
        if values is None:
            raise TypeError(f"loss {self.name!r} gave None: does its function return its result?")
        return ops.cast(values, self.dtype)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments as plain data; no `dtype` where it is the default."""
        config: dict[str, Any] = {"name": self.name, "reduction": self.reduction}
        return config if self._dtype is None else config | {"dtype": self._dtype.name}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}, reduction={self.reduction!r}>"


def is_structure(x: Any) -> bool:
    """Whether `x` holds several tensors or arrays, and is no nested list of numbers."""
    if isinstance(x, dict):
        return True
    return isinstance(x, list | tuple) and any(
        isinstance(item, Tensor | np.ndarray | dict) or is_structure(item) for item in x
    )


def _both(a: Any, b: Any) -> Tensor:
    """Where two masks, whose shapes may differ by a last axis of size 1, are True."""
    return ops.logical_and(*same_rank(ops.cast(a, "bool"), ops.cast(b, "bool")))


def reduced(values: Tensor, reduction: str | None, weights: Tensor | None) -> Tensor:
    """`values`, weighted already, as one number; `weights` for "mean_with_sample_weight"."""
    if reduction is None or reduction == "none":
        return values
    shape = values.shape
    if not len(shape) or tuple(shape) == (0,):
        return values  # also those of no samples at all, as Keras has it
    if reduction == "sum":
        return ops.sum(values)
    if reduction == "mean_with_sample_weight" and weights is not None:
        return ops.divide_no_nan(ops.sum(values), _total(weights))
    return ops.mean(values)


def reduce_weighted(
    name: str, values: Tensor, reduction: str | None, sample_weight: Any, mask: Any
) -> Tensor:
    """Weigh and reduce values.

    Where `mask` is False a value counts nothing; a mean is over the values that count.
    """
    weights = None if sample_weight is None else ops.cast(sample_weight, values.dtype)
    if mask is not None:
        counts = ops.cast(mask, values.dtype)
        if reduction in ("mean", "sum_over_batch_size"):
            share = ops.divide_no_nan(ops.sum(ops.ones_like(counts)), _total(counts))
            counts = counts * share
        if weights is None:
            weights = counts
        else:
            counts, weights = weights_like(name, counts, weights)
            weights = counts * weights
    if weights is None:
        return reduced(values, reduction, None)
    values, weights = weights_like(name, values, weights)
    return reduced(values * weights, reduction, weights)


def _total(weights: Tensor) -> Tensor:
    """The sum of weights, by which a mean over all rows of all replicas is divided."""
    total = ops.sum(weights)
    return of_all_replicas(total) if REPLICAS else total


_OF_CLASS_NUMBERS: list[Callable[..., Any]] = []


def of_class_numbers(fn: _Function) -> _Function:
    """Have losses made of the function `fn` give it integer targets as integers."""
    _OF_CLASS_NUMBERS.append(fn)
    return fn


def _same_ranks(y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """`same_rank` of all pairs of two structures, where these are alike."""
    a, b = nest.flatten(y_true), nest.flatten(y_pred)
    if len(a) != len(b):
        return y_true, y_pred
    pairs = [same_rank(x, y) for x, y in zip(a, b, strict=True)]
    return (nest.pack(y_true, [x for x, _ in pairs]), nest.pack(y_pred, [y for _, y in pairs]))


class LossFunctionWrapper(Loss):
    """A loss made of a function of targets and predictions that gives one value per sample.

    Args:
        fn: `fn(y_true, y_pred, **settings)`.
        reduction, name, dtype: see `Loss`.
        **settings: handed to `fn`.

    Example:
        >>> loss = tk.losses.LossFunctionWrapper(tk.losses.huber, delta=2.0)
        >>> float(loss([[0.0]], [[1.0]]))
        0.5
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        reduction: str | None = "sum_over_batch_size",
        name: str | None = None,
        dtype: DTypeLike | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(name or getattr(fn, "__name__", None), reduction, dtype)
        self.fn = fn
        self.fn_settings = settings
        for setting, value in settings.items():  # such as `from_logits`, to be read
            if not hasattr(self, setting):
                setattr(self, setting, value)
        self.takes_class_numbers = any(fn is function for function in _OF_CLASS_NUMBERS)

    def _wrap(self, fn: Callable[..., Any], arguments: dict[str, Any]) -> None:
        """Be made of `fn` and the `locals()` of `__init__`, those of its own as settings."""
        named = {name: value for name, value in arguments.items() if name != "self"}
        LossFunctionWrapper.__init__(self, fn, **named)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        settings = self.__dict__.get("fn_settings", ())
        if name in settings:
            settings[name] = self.__dict__[name]

    def call(self, y_true: Any, y_pred: Any) -> Any:
        if type(y_true) is Tensor and type(y_pred) is Tensor:
            a, b = y_true._array.shape, y_pred._array.shape
            if len(a) != len(b) and 1 in (*a[-1:], *b[-1:]):
                y_true, y_pred = same_rank(y_true, y_pred)
        elif isinstance(y_true, Tensor) and isinstance(y_pred, Tensor):
            if len(y_true.shape) != len(y_pred.shape):
                y_true, y_pred = same_rank(y_true, y_pred)
        elif is_structure(y_true) and is_structure(y_pred):
            y_true, y_pred = _same_ranks(y_true, y_pred)
        return self.fn(y_true, y_pred, **self.fn_settings)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if type(self) is LossFunctionWrapper:
            config["fn"] = serialize_object(self.fn)
        return config | self.fn_settings

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        config = dict(config)
        fn = config.get("fn")
        if fn is not None and not callable(fn):
            family = FAMILIES["losses"]
            config["fn"] = family.find(fn) if isinstance(fn, str) else family.deserialize(fn)
        return cls(**config)


class FunctionLoss(LossFunctionWrapper):
    """The loss of one function, that of the class, which takes no settings.

    Args:
        reduction, name, dtype: see `Loss`; by default the name is the function's.
    """

    function: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(type(self).function, reduction, name, dtype)
