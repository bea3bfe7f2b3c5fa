"""What makes two calls of a traced function the same: keys of arguments.

Tensors count by dtype and shape, Python values by value, everything else by identity.
"""

from __future__ import annotations

import abc
import contextlib
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from trainkit.core import nest
from trainkit.core.devices import Device
from trainkit.core.dtypes import BY_NUMPY, DType
from trainkit.core.shapes import Spec, TensorShape
from trainkit.core.tensor import Tensor, convert_to_tensor, is_tensor
from trainkit.core.values.python_signatures import signature_of
from trainkit.core.values.python_values import has_dtype

VALUES = (bool, int, float, complex, str, bytes, type(None), range, TensorShape)


class ById:
    """An object in a key: equal only to itself, without keeping it alive where it can be helped."""

    __slots__ = ("_hash", "_ref", "_strong")

    def __init__(self, value: Any) -> None:
        self._hash = id(value)
        self._strong: Any = None
        try:
            self._ref: Any = weakref.ref(value)
        except TypeError:
            self._ref = None
            self._strong = value

    def value(self) -> Any:
        """The object, `None` when it is gone."""
        return self._ref() if self._ref is not None else self._strong

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ById):
            return False
        mine = self.value()
        return mine is not None and mine is other.value()

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"{type(self.value()).__name__} object"


class ByTracingType:
    """An object in a key that says itself, by `__tf_tracing_type__`, what it is equal to."""

    __slots__ = ("kind",)

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByTracingType) and bool(self.kind == other.kind)

    def __hash__(self) -> int:
        return hash(self.kind)

    def __repr__(self) -> str:
        return repr(self.kind)


class Place:
    """A tensor in a key: its shape and dtype."""

    __slots__ = ("dtype", "name", "shape")

    def __init__(self, shape: Any, dtype: Any, name: str | None = None) -> None:
        self.shape = TensorShape(shape)
        if self.shape.rank is None:
            raise TypeError(
                f"the rank of {name or 'an argument'} is not known, and a graph is made for one "
                "rank at a time: give get_concrete_function a tensor, or a TensorSpec with None "
                "for each size"
            )
        self.dtype = dtype
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and self.shape == other.shape and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((tuple(self.shape), self.dtype))

    def __repr__(self) -> str:
        return f"tensor of shape {tuple(self.shape)} and dtype {self.dtype.name}"

    @property
    def spec(self) -> Spec:
        """The shape and dtype as a `Spec`."""
        return Spec(self.shape, self.dtype)

    def takes(self, other: Place) -> bool:
        """Whether a trace made for this place also serves `other`."""
        return (
            self.dtype == other.dtype
            and self.shape.is_compatible_with(other.shape)
            and all(
                mine is None or theirs is not None
                for mine, theirs in zip(self.shape, other.shape, strict=True)
            )
        )


def device_in(key: Any) -> Device | None:
    """The device that the key of a graph names last: `None` for the default one."""
    return key[-1] if key and isinstance(key[-1], Device) else None


def key_of(x: Any) -> Any:
    """The hashable key of one argument, nested like it.

    A container counts by its type, its names in their order, and its items: a function may well
    go over the values of a dict.
    """
    kind = type(x)
    if kind is Tensor:
        array = x._array
        return Place(array.shape, BY_NUMPY[array.dtype])
    if kind in VALUES:
        return _float_key(x) if kind is float or kind is complex else (kind, x)
    if kind is dict:
        return (kind, tuple(x), *[key_of(x[name]) for name in nest.sorted_keys(x)])
    if kind is list or kind is tuple:
        return (kind, None, *map(key_of, x))
    if hasattr(kind, "__tf_tracing_type__"):
        return ByTracingType(x.__tf_tracing_type__(None))
    if (container := nest.container(x)) is not None:
        if nest.is_record(x) and not any(map(is_tensor_like, nest.flatten(x))):
            return ById(x)
        return (kind, container.names(x), *map(key_of, container.children(x)))
    if isinstance(x, np.ndarray | np.generic):
        return Place(x.shape, BY_NUMPY.get(x.dtype.newbyteorder("=")) or key_error(x))
    if isinstance(x, Tensor):
        return Place(x.shape, x.dtype)
    if is_spec(x):
        return Place(x.shape, x.dtype, getattr(x, "name", None))
    return ById(x)


def _float_key(x: Any) -> tuple[Any, ...]:
    if x != x:
        return (type(x), repr(x))
    return (type(x), x) if x else (type(x), x, repr(x))  # -0.0 equals 0.0, its inverse does not


def key_error(x: Any) -> Any:
    """Refuse an array whose dtype no tensor has."""
    raise TypeError(f"an array of dtype {x.dtype} can't be an argument of a traced function")


def is_spec(x: Any) -> bool:
    """Whether `x` describes a tensor, as `tk.TensorSpec` does."""
    return isinstance(x, Spec) or type(x).__name__ == "TensorSpec"


def is_tensor_like(x: Any) -> bool:
    """Whether `x` is given to a graph as an input: a tensor, an array, or a description of one."""
    if hasattr(type(x), "_is_variable"):
        return False
    return is_tensor(x) or isinstance(x, np.ndarray | np.generic) or is_spec(x)


def convert_argument(x: Any, dtype: DType) -> Tensor:
    """What is no tensor as one; NumPy's arrays and numbers, also in lists, in `dtype`."""
    # Arrays are float64 and int64 by habit more than by choice, variables are not. Of what is
    # complex a part would be lost, so that stays what it is.
    if isinstance(x, np.ndarray | np.generic | complex):
        lossless = dtype.is_complex or not np.iscomplexobj(x)
        return convert_to_tensor(x, dtype if lossless else None)
    if isinstance(x, list | tuple) and has_dtype(x):
        return convert_to_tensor(x, dtype)
    return convert_to_tensor(x, dtype_hint=dtype)


class Arguments:
    """The parameters of a Python function, and how calls fill them.

    Attributes:
        signature: Python's own.
        names: of the parameters, in order.
        simple: whether all of them can be given by position and by name.
        count: how many there are.
        required: those that come by keyword alone and have no default.
        variable: whether it takes any number of arguments.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.signature = signature_of(function)
        parameters = list(self.signature.parameters.values())
        self.names = [p.name for p in parameters]
        self.simple = all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
        self.count = len(parameters)
        self.required = [
            p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty
        ]
        self.variable = any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)

    def name_of(self, position: int) -> str:
        """The parameter that takes the positional argument number `position`."""
        for i, parameter in enumerate(self.signature.parameters.values()):
            if parameter.kind is parameter.VAR_POSITIONAL:
                return f"{parameter.name}[{position - i}]"
            if i == position:
                return parameter.name
        return f"arg_{position}"

    def canonical(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """Positional and keyword arguments with defaults filled in, the same for equal calls.

        Raises:
            TypeError: the call does not fit the function's parameters.
        """
        if self.simple and not kwargs and len(args) == self.count:
            return args, kwargs
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args, bound.kwargs

    def labels(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
        """A name for each argument of a call, those given by position first."""
        return [*map(self.name_of, range(len(args))), *kwargs]


def places_in(key: Any) -> list[Place]:
    """The places of tensors in a key, in order."""
    if isinstance(key, Place):
        return [key]
    if isinstance(key, tuple):
        return [tensor_place for item in key for tensor_place in places_in(item)]
    return []


def takes(outer: Any, key: Any) -> bool:
    """Whether a graph with key `outer` serves calls with `key`."""
    if isinstance(outer, Place) and isinstance(key, Place):
        return outer.takes(key)
    if isinstance(outer, tuple) and isinstance(key, tuple):
        return len(outer) == len(key) and all(takes(a, b) for a, b in zip(outer, key, strict=True))
    return bool(outer == key)


class Differs(Exception):
    """Two keys differ in more than sizes."""


def joined(a: Any, b: Any, rows_only: bool = False) -> Any:
    """A key that takes both, with unknown sizes where theirs differ.

    Args:
        a: a key.
        b: another one.
        rows_only: sizes are to differ along first axes alone.

    Raises:
        Differs: they differ in more than sizes.
    """
    if isinstance(a, Place) and isinstance(b, Place):
        if a.dtype != b.dtype or len(a.shape) != len(b.shape):
            raise Differs
        if rows_only and a.shape[1:] != b.shape[1:]:
            raise Differs
        dims = [m if m == n else None for m, n in zip(a.shape, b.shape, strict=True)]
        return Place(dims, a.dtype, a.name)
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return tuple(joined(x, y, rows_only) for x, y in zip(a, b, strict=True))
    if a == b:
        return a
    raise Differs


def relax(key: Any, earlier_keys: Iterable[Any]) -> Any:
    """`key` with unknown sizes where an earlier one of the same structure has others."""
    for earlier in earlier_keys:
        with contextlib.suppress(Differs):
            key = joined(earlier, key)
    return key


def relax_rows(key: Any, earlier_keys: Iterable[Any]) -> Any:
    """`key` with an unknown number of rows where two earlier ones differ in that alone.

    Two sizes are a batch and the last one of a pass, whose graphs are the faster for knowing them.
    """
    relaxed_keys = []
    for earlier in earlier_keys:
        with contextlib.suppress(Differs):
            relaxed_keys.append(joined(earlier, key, rows_only=True))
    return relaxed_keys[-1] if len(relaxed_keys) > 1 else key


def with_signature(key: Any, signature: Any) -> Any:
    """`key` with the places of the input signature."""
    specs = iter(nest.flatten(list(signature)))

    def replace(item: Any) -> Any:
        if isinstance(item, Place):
            spec = next(specs, None)
            if spec is None:
                return item
            shape = spec.shape if spec.shape.rank is not None else [None] * len(item.shape)
            return Place(shape, item.dtype, getattr(spec, "name", None))
        if isinstance(item, tuple):
            return tuple(replace(x) for x in item)
        return item

    return replace(key)


# ------------------------------------------------------------------ types that objects give


class TraceType(abc.ABC):
    """What an object counts as in the signature of a call of a traced function.

    An object gives its own by `__tf_tracing_type__`; calls with objects of equal types share a
    graph, for which the first of them was used.
    """

    @abc.abstractmethod
    def is_subtype_of(self, other: Any) -> bool:
        """Whether a graph made for `other` serves this, too."""

    @abc.abstractmethod
    def most_specific_common_supertype(self, others: Any) -> Any:
        """The narrowest type that serves this and `others`, or `None`."""

    @abc.abstractmethod
    def placeholder_value(self, placeholder_context: Any) -> Any:
        """What stands for the object while a graph is made."""

    @abc.abstractmethod
    def __hash__(self) -> int: ...

    @abc.abstractmethod
    def __eq__(self, other: object) -> bool: ...


@runtime_checkable
class SupportsTracingProtocol(Protocol):
    """An object that says what it counts as."""

    def __tf_tracing_type__(self, context: Any) -> TraceType:
        """Its type in the signature of a call."""
