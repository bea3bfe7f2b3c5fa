"""LossScaleOptimizer: keeps small float16 gradients from vanishing by scaling the loss."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from trainkit import ops
from trainkit.core import devices
from trainkit.core.dispatch import eval_shape, trace_state
from trainkit.core.registry import deserialize_object, serialize_object
from trainkit.core.tensor import Tensor, convert_to_tensor, wrap
from trainkit.core.trackable import Trackable
from trainkit.core.variable import Variable
from trainkit.kernels.elementwise.unscale_cuda import unscale, unscaled
from trainkit.ops.math.finiteness import all_finite
from trainkit.optimizers.base.grads_and_vars import checked_pairs, one_list, warn_of_missing
from trainkit.optimizers.base.optimizer import Optimizer
from trainkit.optimizers.base.options import DEFAULTS, is_number
from trainkit.optimizers.base.overwriting import is_overwritten
from trainkit.optimizers.base.slot_state import SlotState, compute_dtype


class LossScaleOptimizer(Optimizer):
    """Another optimizer, with a loss scale that adapts itself, in place of that one's own.

    Multiply the loss by `scale_loss` before taking gradients; here they are divided by the scale
    again. A step whose gradients are not all finite is left out and halves the scale; after
    `dynamic_growth_steps` good steps in a row the scale doubles.
    Source: Micikevicius et al. 2017, arXiv:1710.03740, section 3.2.

    Args:
        inner_optimizer: what updates the weights.
        initial_scale: the first scale, above 0.
        dynamic_growth_steps: good steps before the scale doubles.
        name: what it is called.
        **options: none but `dynamic=True`, and what older configs hold: the defaults of options
            that the inner optimizer has.

    Raises:
        TypeError: `inner_optimizer` is no optimizer, or one with a loss scale that adapts itself.
        ValueError: `initial_scale` or `dynamic_growth_steps` is out of range, or an option that
            belongs to the inner optimizer.

    Example:
        >>> w = tk.Variable(1.0)
        >>> optimizer = tk.optimizers.LossScaleOptimizer(tk.optimizers.SGD(0.1), initial_scale=8.0)
        >>> loss = optimizer.scale_loss(tk.constant(2.0))
        >>> float(loss)
        16.0
        >>> optimizer.apply([tk.constant(8.0)], [w])
        >>> round(float(w), 4)
        0.9
    """

    sums_gradients_up: ClassVar[bool] = False

    def __init__(
        self,
        inner_optimizer: Optimizer,
        initial_scale: float = 2.0**15,
        dynamic_growth_steps: int = 2000,
        name: str | None = None,
        **options: Any,
    ) -> None:
        _check_options(options)
        if not isinstance(inner_optimizer, Optimizer) or isinstance(
            inner_optimizer, LossScaleOptimizer
        ):
            raise TypeError(f"LossScaleOptimizer wraps another optimizer, got {inner_optimizer!r}")
        if not (is_number(initial_scale) and initial_scale > 0):
            raise ValueError(
                f"LossScaleOptimizer: initial_scale must be above 0, got {initial_scale!r}"
            )
        if not (is_number(dynamic_growth_steps) and dynamic_growth_steps >= 1):
            raise ValueError(
                "LossScaleOptimizer: dynamic_growth_steps must be at least 1, got "
                f"{dynamic_growth_steps!r}"
            )
        super().__init__(0.0, name=name)
        self.inner_optimizer = inner_optimizer
        inner_optimizer.loss_scale_factor = None  # gradients would be divided twice
        self.initial_scale = initial_scale
        self.dynamic_growth_steps = dynamic_growth_steps
        with eval_shape.eagerly(), devices.device("/cpu:0"):
            self.dynamic_scale = Variable(
                np.float32(initial_scale), trainable=False, name="dynamic_scale"
            )
            self.step_counter = Variable(
                np.zeros((), np.int32), trainable=False, name="step_counter"
            )
        for variable in (self.dynamic_scale, self.step_counter):
            variable._numbered, variable._goes_along = False, True
            variable.path = f"{self.name}/{variable.name}"

    # ------------------------------------------------------------------ what the inner one does

    @property
    def learning_rate(self) -> Any:
        """The inner optimizer's rate."""
        return self.inner_optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        self.inner_optimizer.learning_rate = value

    @property
    def iterations(self) -> Any:
        """Steps that the inner optimizer made; those left out do not count."""
        return self.inner_optimizer.iterations

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} around {self.inner_optimizer!r}>"

    def _has_slots(self) -> bool:
        return self.inner_optimizer.built

    @property
    def variables(self) -> list[Variable]:
        """In Keras's order: a step count and a rate that never change, the counter and the scale.

        The inner optimizer's variables follow.
        """
        constants = [self._iterations, self._learning_rate]
        counts = [self.step_counter, self.dynamic_scale]
        return [*constants, *counts, *self.inner_optimizer.variables]

    def parts(self) -> dict[str, Trackable]:
        """Scale, counter and the inner optimizer."""
        return {
            "inner_optimizer": self.inner_optimizer,
            "dynamic_scale": self.dynamic_scale,
            "step_counter": self.step_counter,
        }

    def slot_variables(self) -> list[tuple[str, Variable, Variable]]:
        """None of its own: the inner optimizer has them."""
        return []

    def build(
        self,
        variables: Iterable[Variable] | None = None,
        var_list: Iterable[Variable] | None = None,
    ) -> None:
        self._states.chosen = one_list(self.name, variables, var_list)
        self.inner_optimizer.build(self._states.chosen)

    def state_of(self, weight: Variable) -> SlotState:
        """What the inner optimizer keeps for `weight`."""
        return self.inner_optimizer.state_of(weight)

    def finalize_variable_values(self, var_list: Iterable[Variable]) -> None:
        self.inner_optimizer.finalize_variable_values(var_list)

    def keep_only(self, variables: Iterable[Variable]) -> None:
        weights = list(variables)
        super().keep_only(weights)
        self.inner_optimizer.keep_only(weights)

    def exclude_from_weight_decay(
        self, var_list: Iterable[Variable] | None = None, var_names: Iterable[str] | None = None
    ) -> None:
        self.inner_optimizer.exclude_from_weight_decay(var_list, var_names)

    # ------------------------------------------------------------------ steps

    def scale_loss(self, loss: Any) -> Any:
        """The loss times the scale."""
        return ops.multiply(loss, self.dynamic_scale.value())

    def _step(self, grads: Sequence[Any], weights: Sequence[Any]) -> None:
        checked_grads, of, missing = checked_pairs(self.name, grads, weights)
        inner = self.inner_optimizer
        if missing and self._states.is_news(missing):
            warn_of_missing(self.name, missing)
        if not inner.built:
            inner.build(of)
        with trace_state.silence():
            scale = self.dynamic_scale.value()
            at_once = _unscale_at_once(checked_grads, of, scale)
            if at_once is not None:
                freed, finite = at_once
            else:
                freed = [_unscale(g, w, scale) for g, w in zip(checked_grads, of, strict=True)]
                finite = self.check_finite(freed)
            if trace_state.current_trace() is not None:
                inner._apply_where(freed, of, finite)
            else:
                with devices.device("/cpu:0"):  # where the scale and the counter are
                    finite = convert_to_tensor(bool(finite))
                if finite:
                    inner._step(freed, of)
            self._adapt(finite, scale)

    def check_finite(self, grads: Sequence[Any]) -> Any:
        """Whether all gradients that are not `None` are finite, a scalar bool tensor."""
        return all_finite(*[g for g in grads if g is not None])

    def _adapt(self, finite: Any, scale: Any) -> None:
        """The next scale and counter."""
        count = self.step_counter.value() + 1
        grown = ops.greater_equal(count, self.dynamic_growth_steps)
        after_good = ops.where(grown, scale * 2.0, scale)
        self.dynamic_scale.assign(ops.where(finite, after_good, scale * 0.5))
        zero = ops.zeros_like(count)
        self.step_counter.assign(ops.where(finite, ops.where(grown, zero, count), zero))

    # ------------------------------------------------------------------ configuration

    def get_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "inner_optimizer": serialize_object(self.inner_optimizer),
            "initial_scale": self.initial_scale,
            "dynamic_growth_steps": self.dynamic_growth_steps,
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> Self:
        """A new optimizer from what `get_config` gave; slots and step count start afresh.

        Args:
            config: as `get_config` gave it.
            custom_objects: further classes by name.
        """
        config = dict(config)
        inner = deserialize_object(config.pop("inner_optimizer"), custom_objects)
        return cls(inner, **config)


def _unscale(grad: Any, weight: Variable, scale: Any) -> Any:
    """A gradient of the loss itself, in float32 for half-precision weights."""
    if is_overwritten(weight):
        return grad
    grad = ops.cast(grad, str(compute_dtype(weight)))
    return unscale(ops, grad, ops.cast(scale, grad.dtype))


def _unscale_at_once(grads: Sequence[Any], weights: Sequence[Variable], scale: Any) -> Any:
    """Gradients of float32 on one GPU, unscaled, and whether all are finite; `None` for others."""
    if not grads or not all(type(x) is Tensor for x in (scale, *grads)):
        return None
    xp = devices.XP_OF[type(grads[0]._array)]
    if xp is np or devices.XP_OF[type(scale._array)] is not np:
        return None
    gpu = devices.device_of(grads[0]._array)
    if gpu.index != int(xp.cuda.Device().id):
        return None
    for grad, weight in zip(grads, weights, strict=True):
        is_float = grad.dtype == "float32" and compute_dtype(weight) == "float32"
        if not is_float or is_overwritten(weight) or devices.device_of(grad._array) is not gpu:
            return None
    results = unscaled(xp, [g._array for g in grads], np.float32(scale._array))
    return None if results is None else ([wrap(y) for y in results[0]], wrap(results[1]))


def _check_options(options: dict[str, Any]) -> None:
    options = dict(options)
    if not options.pop("dynamic", True):
        raise ValueError(
            "LossScaleOptimizer: dynamic=False is not supported; set `loss_scale_factor` of the "
            "optimizer itself in place of wrapping it"
        )
    for name, value in options.items():
        if name not in DEFAULTS:
            raise ValueError(
                "LossScaleOptimizer does not support the arguments: "
                f"{', '.join(f'`{n}`' for n in options if n not in DEFAULTS)}"
            )
        if value != DEFAULTS[name]:
            raise ValueError(
                f"LossScaleOptimizer does not support {name}={value!r}; set `{name}` on the "
                "`inner_optimizer`"
            )
