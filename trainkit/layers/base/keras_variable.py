"""Keras's `Variable` and `name_scope`, which take and mean other things than TensorFlow's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from trainkit import initializers
from trainkit.core import dtypes, names
from trainkit.core.errors import UnimplementedError
from trainkit.core.names import unique_name
from trainkit.core.tensor import Tensor
from trainkit.core.values.aggregation import AGGREGATIONS
from trainkit.core.variable import OVERWRITTEN, Variable
from trainkit.layers.base.call_spec import FRAME
from trainkit.layers.base.keras_tensor import known_sizes
from trainkit.ops.math import bitwise, comparisons, elementwise

_SYNCHRONIZATIONS = ("none", "on_read", "on_write", "auto")


class _AnyVariable(type):
    """Makes every variable an instance of Keras's class, those that layers make among them."""

    def __instancecheck__(cls, x: Any) -> bool:
        # Of this class alone: for a subclass `isinstance` means what it always does.
        if cls.__dict__.get("_stands_for_all"):
            return isinstance(x, Variable)
        return super().__instancecheck__(x)


class KerasVariable(Variable, metaclass=_AnyVariable):
    """Keras's variable: made by an initializer of a shape, with the operators of `keras.ops`.

    `/` of integers gives the default float, `&`, `|` and `^` are logical, a comparison with what
    does not broadcast raises. A value of another dtype is cast when it is assigned. Within calls of
    a layer that computes in another float it is read in that one.

    Args:
        initializer: a value; or the name of an initializer, or a function of `(shape, dtype=)`,
            which need a shape.
        shape: sizes, for an initializer that is called.
        dtype: element type; by default that of a value, the default float for initializers.
        trainable: whether tapes watch it by themselves.
        autocast: whether layers read it in the dtype in which they compute.
        aggregation: `"none"`, `"mean"`, `"sum"` or `"only_first_replica"`; there is one replica.
        synchronization: `"none"`, `"on_read"`, `"on_write"` or `"auto"`; there is one replica.
        name: without "/"; `variable`, `variable_1` ... by default.
        layout: only `None`; values are not spread over devices.

    Attributes:
        path: the name after those of the open name scopes.
        regularizer, constraint: functions of the variable, or `None`.

    Raises:
        ValueError: an argument is none of these, or an initializer has no shape.

    >>> v = KerasVariable("ones", shape=(2,), name="scale")
    >>> v.assign([3, 4]).numpy()
    array([3., 4.], dtype=float32)
    """

    _stands_for_all = True

    def __init__(
        self,
        initializer: Any,
        shape: Any = None,
        dtype: Any = None,
        trainable: bool = True,
        autocast: bool = True,
        aggregation: str | None = "none",
        synchronization: str | None = "auto",
        name: str | None = None,
        layout: Any = None,
    ) -> None:
        name = _plain_name("Variable", unique_name("variable") if name is None else name)
        aggregation = _one_of("aggregation", aggregation, AGGREGATIONS)
        synchronization = _one_of("synchronization", synchronization, _SYNCHRONIZATIONS)
        if layout is not None:
            raise UnimplementedError(f"Variable: layout={layout!r} is not supported; use None")
        self.autocast = bool(autocast)
        if isinstance(initializer, str):
            initializer = initializers.get(initializer)
        # What `v.value` gives is callable, too; it has a dtype, and is a value.
        if callable(initializer) and not hasattr(initializer, "dtype"):
            if shape is None:
                raise ValueError(
                    f"Variable: the initializer {initializer!r} needs a shape; give shape=..."
                )
            dtype = dtypes.as_dtype(dtypes.floatx() if dtype is None else dtype)
            # Called by `Variable`, which keeps tapes from seeing how the value comes about.
            initializer = partial(initializer, known_shape(shape), dtype=dtype.name)
        elif dtype is not None:  # so that lists of floats may become integers
            initializer = elementwise.tensor_of(initializer, dtype)
        super().__init__(initializer, bool(trainable), name, dtype)
        self.aggregation, self.synchronization = aggregation, synchronization
        outer = names.current_name_scope()
        self.path = f"{outer}/{name}" if outer else name

    @property
    def name(self) -> str:
        """The name as it was given."""
        return self._name

    @property
    def regularizer(self) -> Any:
        """A function of the variable whose result counts as a loss, or `None`."""
        return self._regularizer

    @regularizer.setter
    def regularizer(self, value: Any) -> None:
        self._regularizer = _function_or_none("regularizer", value)

    @property
    def constraint(self) -> Any:
        """A function that puts values back into bounds after an optimizer's step, or `None`."""
        return self._constraint

    @constraint.setter
    def constraint(self, value: Any) -> None:
        self._constraint = _function_or_none("constraint", value)

    @property
    def overwrite_with_gradient(self) -> bool:
        """Whether optimizers put the gradient in the place of the value."""
        return id(self) in OVERWRITTEN

    @overwrite_with_gradient.setter
    def overwrite_with_gradient(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise TypeError(f"overwrite_with_gradient is True or False, got {value!r}")
        if value:
            OVERWRITTEN[id(self)] = self
        else:
            OVERWRITTEN.pop(id(self), None)

    # ------------------------------------------------------------------ reading

    def _read(self) -> Tensor:
        value = super()._read()
        layer = FRAME.entry
        if layer is None or not self.autocast or value.dtype == layer.compute_dtype:
            return value
        dtype = dtypes.as_dtype(layer.compute_dtype)
        return elementwise.cast(value, dtype) if value.dtype.is_floating else value

    def __bool__(self) -> bool:
        raise TypeError(
            f"variable {self.path!r} is no truth value; compare it, or use ops.any or ops.all"
        )

    def __int__(self) -> int:
        return int(self._scalar())

    def __float__(self) -> float:
        return float(self._scalar())

    def _scalar(self) -> Tensor:
        if self.ndim:
            raise TypeError(
                f"variable {self.path!r} has shape {tuple(self.shape)}; only one of shape () is a "
                "Python number"
            )
        return self._read()

    def __repr__(self) -> str:
        value = self._value.numpy()
        return (
            f"<Variable path={self.path}, shape={tuple(self.shape)}, dtype={self.dtype.name}, "
            f"value={value}>"
        )

    __str__ = __repr__

    # ------------------------------------------------------------------ assigning

    def assign(  # type: ignore[override]
        self,
        value: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Tensor:
        """Replace the value by one of the same shape, which is cast to the dtype.

        Args:
            value: a tensor, or what converts to one.
            use_locking: a hint of TensorFlow's; an assignment is always whole.
            name: not kept.
            read_value: a hint of TensorFlow's; the value is returned either way.

        Returns:
            The new value.

        Raises:
            InvalidArgumentError: the shape differs; the value stays.
        """
        super().assign(value)
        # Not `_read`: the new value is wanted as it is held, also within a layer of another dtype.
        return Variable._read(self)

    def _fit_value(self, value: Any) -> Tensor:
        if not isinstance(value, Tensor) or value.dtype != self.dtype:
            value = elementwise.tensor_of(value, self.dtype)
        return super()._fit_value(value)

    def _assign_result(self, op: Any, delta: Any) -> Any:
        if hasattr(type(delta), "_is_variable"):
            delta = delta._read()
        result = super()._assign_result(op, delta)
        return Variable._read(self) if result is self else result

    # ------------------------------------------------------------------ copies

    def _like(self, value: Any) -> KerasVariable:
        twin = KerasVariable(value, None, None, self.trainable, self.autocast, name=self._name)
        twin.path, twin.aggregation = self.path, self.aggregation
        twin.synchronization = self.synchronization
        twin.regularizer, twin.constraint = self.regularizer, self.constraint
        # Held by `id` in a table, so that a copy has to enter itself.
        twin.overwrite_with_gradient = self.overwrite_with_gradient
        twin._created_trainable = self._created_trainable
        twin._frozen_by_layer = self._frozen_by_layer
        return twin

    def __deepcopy__(self, memo: Any) -> KerasVariable:
        memo[id(self)] = twin = self._like(self._value)
        return twin

    def __reduce__(self) -> Any:
        attributes = {
            "path": self.path,
            "aggregation": self.aggregation,
            "synchronization": self.synchronization,
            "regularizer": self.regularizer,
            "constraint": self.constraint,
            "overwrite_with_gradient": self.overwrite_with_gradient,
            "_created_trainable": self._created_trainable,
            "_frozen_by_layer": self._frozen_by_layer,
        }
        return _rebuilt, (self._value, self.trainable, self.autocast, self._name, attributes)

    __hash__ = Variable.__hash__


def _rebuilt(
    value: Any, trainable: bool, autocast: bool, name: str, facts: dict[str, Any]
) -> KerasVariable:
    variable = KerasVariable(value, None, None, trainable, autocast, name=name)
    for key, value in facts.items():
        setattr(variable, key, value)
    return variable


def known_shape(shape: Any) -> tuple[int, ...]:
    """`shape` as a tuple of ints.

    Raises:
        ValueError: it is none, or a size is negative, not whole or not known.
    """
    sizes = tuple(n for n in known_sizes(shape) if n is not None)
    if len(sizes) < len(tuple(shape)):
        raise ValueError(f"Variable: the shape {tuple(shape)} has sizes that are not known")
    return sizes


def _plain_name(owner: str, name: Any) -> str:
    if not isinstance(name, str) or "/" in name:
        raise ValueError(f"{owner}: the name must be a string without '/', got {name!r}")
    return name


def _one_of(option: str, value: str | None, allowed: tuple[str, ...]) -> str:
    value = "none" if value is None else value
    if value not in allowed:
        raise ValueError(f"Variable: {option} must be one of {allowed} or None, got {value!r}")
    return value


def _function_or_none(option: str, value: Any) -> Any:
    if value is not None and not callable(value):
        raise ValueError(f"Variable: {option} must be a function or None, got {value!r}")
    return value


# ------------------------------------------------------------------ operators


def _binary(op: Callable[..., Any], reflected: bool) -> Any:
    def operator(self: Any, other: Any) -> Any:
        # Read here, so that a layer under way gets the dtype in which it computes.
        a, b = self._read(), other
        return op(b, a) if reflected else op(a, b)

    operator.__name__ = operator.__qualname__ = op.__name__
    operator.__doc__ = f"`ops.{op.__name__}`, with this variable on the right: {reflected}."
    return operator


def _install() -> None:
    logical = {
        "and": comparisons.logical_and,
        "or": comparisons.logical_or,
        "xor": comparisons.logical_xor,
        "truediv": elementwise.divide,
    }
    for name, op in logical.items():
        setattr(KerasVariable, f"__{name}__", _binary(op, False))
        setattr(KerasVariable, f"__r{name}__", _binary(op, True))
    KerasVariable.__eq__ = _binary(comparisons.equal, False)  # type: ignore[method-assign]
    KerasVariable.__ne__ = _binary(comparisons.not_equal, False)  # type: ignore[method-assign]

    def inverted(self: Any) -> Any:
        op = comparisons.logical_not if self.dtype.is_bool else bitwise.bitwise_not
        return op(self._read())

    KerasVariable.__invert__ = inverted  # type: ignore[method-assign]


_install()


class KerasNameScope(names.name_scope):
    """Context that puts a name in front of the paths of variables made in it.

    Args:
        name: without "/".
        caller: what opens it; opened again at once by the same caller, it counts once.
        deduplicate: whether that is so.
        override_parent: a path that takes the place of the scopes around this one.

    Raises:
        ValueError: `name` is no string or has a "/".

    >>> with KerasNameScope("encoder") as scope:
    ...     (scope.name, KerasVariable(1.0, name="gain").path)
    ('encoder', 'encoder/gain')
    """

    def __init__(
        self, name: str, caller: Any = None, deduplicate: bool = True, override_parent: Any = None
    ) -> None:
        self.name = _plain_name("name_scope", name)
        self.caller = caller
        self.deduplicate = deduplicate
        self.override_parent = override_parent
        # A stack, as one scope can be entered again while it is open.
        self._before: list[list[str]] = []

    def __enter__(self) -> Any:
        path, inner = names.open_scopes(), _ENTERED.scopes[-1:]
        self._before.append(path[:])
        again = self.deduplicate and self.caller is not None and bool(inner)
        if self.override_parent is not None:
            path[:] = [part for part in self.override_parent.split("/") if part]
        if not (again and inner[0].caller is self.caller and inner[0].name == self.name):
            path.append(self.name)
        _ENTERED.scopes.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _ENTERED.scopes.pop()
        names.open_scopes()[:] = self._before.pop()


class _Entered(threading.local):
    def __init__(self) -> None:
        self.scopes: list[KerasNameScope] = []


_ENTERED = _Entered()
