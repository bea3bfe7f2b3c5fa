"""`Metric`: state in Variables that batches are added to."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from trainkit import initializers, ops
from trainkit.core import dtypes
from trainkit.core.dispatch import eval_shape, trace_state
from trainkit.core.dispatch.trace_state import TAPES, THREAD
from trainkit.core.names import explain_attribute, name_for
from trainkit.core.tensor import Tensor
from trainkit.core.trackable import Trackable, gathered_lists
from trainkit.core.values.attribute_state import CHANGES
from trainkit.core.values.configurable import Configurable
from trainkit.core.variable import Variable
from trainkit.metrics.registry import METRICS

if TYPE_CHECKING:
    from trainkit.core.values.type_aliases import DTypeLike


def unrecorded(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method invisible to the tapes that are recording."""

    @functools.wraps(method)
    def silent(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not TAPES:
            return method(self, *args, **kwargs)
        with trace_state.silence():
            return method(self, *args, **kwargs)

    return silent


def add_to(variable: Variable, amount: Any) -> None:
    """Count `amount`, a tensor or number that broadcasts to the variable, up to `variable`."""
    if THREAD.traces:
        variable.assign_add(ops.cast(amount, variable.dtype))
        return
    array = amount._array if type(amount) is Tensor else amount
    total = variable._writable()
    total += array


class Metric(Trackable, Configurable, family=METRICS):
    """Base of metrics. A subclass makes its state with `add_variable`, and gives two methods.

    - `update_state(...)` adds a batch to the state;
    - `result()` gives the value so far, a tensor or a dict of tensors.

    Calling a metric does both. The state is in Variables, so checkpoints keep it.

    Args:
        dtype: dtype of state and result; the default float type by default.
        name: what the metric is called; by default its class name in snake case.

    Example:
        >>> class Largest(tk.metrics.Metric):
        ...     def __init__(self, name="largest"):
        ...         super().__init__(name=name)
        ...         self.value = self.add_variable((), initializer="zeros", name="value")
        ...     def update_state(self, y_true, y_pred, sample_weight=None):
        ...         error = tk.reduce_max(tk.abs(tk.convert_to_tensor(y_true) - y_pred))
        ...         self.value.assign(tk.maximum(self.value, error))
        ...     def result(self):
        ...         return self.value
        >>> metric = Largest()
        >>> metric.update_state([1.0, 2.0], [1.0, 5.0])
        >>> float(metric.result())
        3.0
    """

    def __init__(self, dtype: DTypeLike | None = None, name: str | None = None) -> None:
        self.name = name or name_for(type(self))
        compute_dtype = getattr(dtype, "compute_dtype", dtype)
        self._dtype = dtypes.as_dtype(compute_dtype or dtypes.floatx()).name
        self._own = _Own()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        CHANGES.note(value)

    if not TYPE_CHECKING:  # names that are not there are errors in editors

        def __getattr__(self, name: str) -> Any:
            return explain_attribute(self, name, {}, is_named=True)

    @property
    def dtype(self) -> str:
        """Name of the dtype of state and result."""
        return self._dtype

    # ------------------------------------------------------------------ state

    def add_variable(
        self,
        shape: Any = (),
        initializer: Any = "zeros",
        dtype: Any = None,
        aggregation: str | None = "sum",
        name: str | None = None,
    ) -> Variable:
        """Make a Variable for the state.

        Args:
            shape: sizes.
            initializer: name of an initializer, or a function of shape and dtype; `reset_state`
                goes back to these values.
            dtype: the default float by default, also where the metric has another dtype.
            aggregation: how the states of several replicas become one: `"sum"`, `"mean"` or
                `"only_first_replica"`; `None` is a sum, too.
            name: what it is called.

        Raises:
            ValueError: `aggregation` is none of these.
            RuntimeError: the `__init__` of a subclass did not call that of its base.
        """
        if "_own" not in self.__dict__:
            raise RuntimeError(
                f"{type(self).__name__}: call super().__init__(...) before add_variable"
            )
        if aggregation not in (None, "none", "sum", "mean", "only_first_replica"):
            raise ValueError(
                f"{self.name}: aggregation must be 'sum', 'mean', 'only_first_replica' or None, "
                f"got {aggregation!r}"
            )
        with eval_shape.eagerly(), trace_state.silence():
            value = initializers.get(initializer)(tuple(shape), dtype or dtypes.floatx())
            variable = Variable(value, trainable=False, name=name or "variable")
        variable.path = f"{self.name}/{name or 'variable'}"
        variable._numbered = False
        variable.aggregation = "sum" if aggregation in (None, "none") else aggregation
        self._own.added.append((variable, value))
        CHANGES.parts += 1
        return variable

    def add_weight(
        self,
        *args: Any,
        shape: Any = None,
        initializer: Any = None,
        dtype: Any = None,
        name: str | None = None,
    ) -> Variable:
        """`add_variable`, which makes a part of the state, with TensorFlow's order as well.

        Args:
            *args: shape, initializer, dtype and name may be given by position. The name may stand
                before them instead, as in TensorFlow 2.
            shape: sizes, or one size; a scalar by default.
            initializer: what makes the values at the start; zeros by default.
            dtype: the default float by default.
            name: such as `"total"`.

        Raises:
            TypeError: there are too many arguments by position, or one is given twice.
        """
        arguments = {"shape": shape, "initializer": initializer, "dtype": dtype, "name": name}
        order = ["shape", "initializer", "dtype", "name"]
        if args and isinstance(args[0], str):
            order = ["name", "shape", "initializer", "dtype"]
        if len(args) > len(order):
            raise TypeError(
                f"add_weight takes {', '.join(order)} by position; got {len(args)} arguments: "
                f"{args!r}"
            )
        for argument, value in zip(order, args, strict=False):
            if arguments[argument] is not None:
                raise TypeError(
                    f"add_weight: {argument} is given twice, {value!r} and {arguments[argument]!r}"
                )
            arguments[argument] = value
        sizes = () if arguments["shape"] is None else arguments["shape"]
        return self.add_variable(
            (sizes,) if isinstance(sizes, int) else sizes,
            arguments["initializer"] or "zeros",
            arguments["dtype"],
            name=arguments["name"],
        )

    def parts(self) -> dict[str, Trackable]:
        """The state's Variables and inner metrics, by attribute or by name."""
        parts = super().parts()
        named = {id(part) for part in parts.values()}
        for variable, _ in self._own.added:
            if id(variable) not in named:
                parts.setdefault(variable._name, variable)
        return parts

    @property
    def variables(self) -> list[Variable]:
        """All Variables of the state, those of inner metrics included."""
        own = [variable for variable, _ in self._own.added]
        own += self._assigned()
        return own + [v for metric in self._inner() for v in metric.variables]

    def _assigned(self) -> list[Variable]:
        """Variables among the attributes, and in lists and dicts there, that are new."""
        return self._state_parts()[0]

    def _inner(self) -> list[Metric]:
        return self._state_parts()[1]

    def _state_parts(self) -> tuple[list[Variable], list[Metric]]:
        """Variables and metrics among the attributes; gathered once, as `fit` resets often."""
        lists = gathered_lists(self)
        both: tuple[list[Variable], list[Metric]] | None = lists.get("state")
        if both is None:
            parts = Trackable.parts(self)
            added_ids = {id(variable) for variable, _ in self._own.added}
            assigned = [v for v in _leaves(parts, Variable) if id(v) not in added_ids]
            both = lists["state"] = assigned, _leaves(parts, Metric)
        return both

    @unrecorded
    def reset_state(self) -> None:
        """Set the state back to what it was at first; Variables that were assigned become 0."""
        for variable, start in self._own.added:
            variable.assign(start)
        for variable in self._assigned():
            variable.assign(ops.zeros_like(variable.value()))
        for metric in self._inner():
            metric.reset_state()

    def reset_states(self) -> None:
        """What `reset_state` was called before Keras 3."""
        self.reset_state()

    # ------------------------------------------------------------------ with a state from outside

    def stateless_update_state(
        self, metric_variables: Sequence[Any], *args: Any, **kwargs: Any
    ) -> list[Any]:
        """The state after a batch is added to another state; that of the metric stays as it is.

        Args:
            metric_variables: a value for each of `variables`.
            *args: of `update_state`.
            **kwargs: of `update_state`.

        Returns:
            A tensor for each of `variables`.

        Raises:
            ValueError: there is not one value for each Variable.
        """
        with self._hold_values(metric_variables):
            self.update_state(*args, **kwargs)
            return [variable.value() for variable in self.variables]

    def stateless_result(self, metric_variables: Sequence[Any]) -> Any:
        """The result for the values `metric_variables` of `variables`.

        Raises:
            ValueError: there is not one value for each Variable.
        """
        with self._hold_values(metric_variables):
            return self.result()

    def stateless_reset_state(self) -> list[Any]:
        """The values of `variables` after a reset, without one."""
        with self._hold_values([variable.value() for variable in self.variables]):
            self.reset_state()
            return [variable.value() for variable in self.variables]

    @contextlib.contextmanager
    def _hold_values(self, values: Sequence[Any]) -> Iterator[None]:
        """Have other values in the Variables for a while."""
        variables = self.variables
        if len(values) != len(variables):
            raise ValueError(
                f"{self.name}: metric_variables has {len(values)} values, the metric has "
                f"{len(variables)} variables"
            )
        before = [variable.value() for variable in variables]
        new = [v.value() if isinstance(v, Variable) else v for v in values]
        try:
            for variable, value in zip(variables, new, strict=True):
                variable.assign(ops.cast(value, variable.dtype))
            yield
        finally:
            for variable, value in zip(variables, before, strict=True):
                variable.assign(value)

    # ------------------------------------------------------------------ what a subclass says

    def update_state(self, *args: Any, **kwargs: Any) -> None:
        """Add a batch to the state."""
        raise NotImplementedError(f"{type(self).__name__} has no update_state(...)")

    def result(self) -> Any:
        """The value of all batches since the last reset."""
        raise NotImplementedError(f"{type(self).__name__} has no result()")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Add a batch, and give the value of all so far."""
        self.update_state(*args, **kwargs)
        return self.result()

    # ------------------------------------------------------------------ configuration

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments as plain data."""
        return {"name": self.name, "dtype": self._dtype}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


def _leaves(parts: dict[str, Trackable], kind: type[Any]) -> list[Any]:
    """The parts of a kind, also those in lists, dicts and tuples."""
    leaves: list[Any] = []
    for part in parts.values():
        if isinstance(part, kind):
            leaves.append(part)
        elif isinstance(part, list | tuple | dict):
            leaves += _leaves(part.parts(), kind)
    return leaves


class _Own:
    """Variables that a metric made, with their first values; no part of the tree by itself."""

    def __init__(self) -> None:
        self.added: list[tuple[Variable, Tensor]] = []
