"""Optimizers of version 1: a step is an operation of the graph, which a session runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trainkit import ops
from trainkit.autodiff.tape import GradientTape
from trainkit.compat.v1_graphs import get_default_graph, is_building_graph, trainable_variables
from trainkit.core.dispatch.eval_shape import eagerly
from trainkit.core.errors import InvalidArgumentError
from trainkit.core.tensor import Tensor, convert_to_tensor
from trainkit.core.trackable import Trackable
from trainkit.core.variable import Variable
from trainkit.graph.ir.session_operation import SessionOperation
from trainkit.tf.control_flow import gradients

Slots = dict[str, Variable]
Hyperparameters = dict[str, Tensor]


class Optimizer(Trackable):
    """Base of the optimizers of version 1.

    A subclass names its slots with what they start from, and says in `update` what a step does.
    Numbers that it is given may be tensors of the graph, such as a rate that decays with
    the steps.

    Args:
        name: what it is called.
        use_locking: accepted as TensorFlow does; an update is always whole.
        **numbers: the numbers of the rule, by name.
    """

    slots: tuple[tuple[str, float], ...] = ()

    def __init__(self, name: str, use_locking: bool = False, **numbers: Any) -> None:
        self._name = name
        self._use_locking = use_locking
        self._numbers = numbers
        self._slots: dict[int, Slots] = {}

    def get_name(self) -> str:
        """What it is called."""
        return self._name

    def update(self, weight: Tensor, grad: Tensor, slots: Slots, numbers: Hyperparameters) -> Any:
        """The new weight; slots are assigned.

        Args:
            weight: its value.
            grad: its gradient, of the same shape and dtype.
            slots: its slots by name.
            numbers: those of the rule, in the dtype of the weight.
        """
        raise NotImplementedError(f"{type(self).__name__} must define update")

    def prepare(self) -> None:
        """Make what all weights share."""

    def end_step(self, numbers: Hyperparameters) -> None:
        """Do what comes after the updates of all weights.

        Args:
            numbers: those of the rule.
        """

    # ------------------------------------------------------------------ slots

    def get_slot_names(self) -> list[str]:
        """The names of the slots."""
        return sorted(key for key, _ in self.slots)

    def get_slot(self, var: Variable, name: str) -> Variable | None:
        """A slot of a weight, `None` before there is one."""
        return self._slots.get(id(var), {}).get(name)

    def variables(self) -> list[Variable]:
        """All slots."""
        return [slot for slots in self._slots.values() for slot in slots.values()]

    def _slots_of(self, variable: Variable) -> Slots:
        slots = self._slots.get(id(variable))
        if slots is None:
            label = variable.name.removesuffix(":0")
            slots = {}
            for key, start in self.slots:
                with eagerly():
                    value = ops.full(tuple(variable.shape), start, dtype=variable.dtype)
                name = f"{label}/{self._name}" if len(self.slots) == 1 else f"{label}/{key}"
                slots[key] = Variable(value, trainable=False, name=name)
            self._slots[id(variable)] = slots
        return slots

    # ------------------------------------------------------------------ a step

    def minimize(
        self,
        loss: Any,
        global_step: Variable | None = None,
        var_list: Iterable[Variable] | None = None,
        gate_gradients: int = 1,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Any:
        """A step down the gradient of `loss`: in a graph an operation, else it is made at once.

        Args:
            loss: tensor of the graph; where operations run at once, a function without arguments.
            global_step: variable that is counted up by 1.
            var_list: weights; by default all variables of the graph that are trained.
            gate_gradients: operations run in order, whatever this is.
            aggregation_method: gradients are added up, whatever this is.
            colocate_gradients_with_ops: changes no result.
            name: of the operation.
            grad_loss: gradient by the loss, ones by default.

        Raises:
            ValueError: no weight has a gradient.
        """
        pairs = self.compute_gradients(loss, var_list, grad_loss=grad_loss)
        return self.apply_gradients(pairs, global_step, name)

    def compute_gradients(
        self,
        loss: Any,
        var_list: Iterable[Variable] | None = None,
        gate_gradients: int = 1,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> list[tuple[Any, Variable]]:
        """Pairs (gradient, weight), with `None` for a weight that the loss does not depend on.

        Args:
            loss: see `minimize`.
            var_list: the same.
            gate_gradients: the same.
            aggregation_method: the same.
            colocate_gradients_with_ops: the same.
            grad_loss: the same.

        Raises:
            TypeError: where operations run at once, `loss` is no function.
            ValueError: there is no weight.
        """
        if is_building_graph():
            weights = list(trainable_variables() if var_list is None else var_list)
            if not weights:
                raise ValueError(f"{self._name}: there are no variables to train")
            value = loss() if callable(loss) else loss
            grads = gradients(value, weights, None if grad_loss is None else [grad_loss])
            return list(zip(grads, weights, strict=True))
        if not callable(loss):
            raise TypeError(
                f"{self._name}.compute_gradients: loss must be a function without arguments where "
                f"operations run at once, got {loss!r}; wrap it in a lambda"
            )
        with GradientTape() as tape:
            value = loss()
        weights = list(tape.watched_variables() if var_list is None else var_list)
        return list(zip(tape.gradient(value, weights, grad_loss), weights, strict=True))

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Variable]],
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> Any:
        """A step with these gradients: in a graph an operation, else it is made at once.

        Args:
            grads_and_vars: pairs (gradient or `None`, weight).
            global_step: variable that is counted up by 1.
            name: of the operation.

        Raises:
            ValueError: no weight has a gradient.
        """
        pairs = [(g, v) for g, v in grads_and_vars if g is not None]
        if not pairs:
            raise ValueError(
                f"{self._name}.apply_gradients: no gradients for any variable; does the loss "
                "depend on them?"
            )
        weights = [v for _, v in pairs]
        slots = [self._slots_of(v) for v in weights]
        self.prepare()
        names = list(self._numbers)
        operands = [*(g for g, _ in pairs), *self._numbers.values()]
        if not is_building_graph():
            ready = [convert_to_tensor(x() if callable(x) else x) for x in operands]
            self._step(weights, slots, names, ready, global_step)
            return None
        graph = get_default_graph()

        def act(values: list[Any]) -> None:
            self._step(weights, slots, names, values, global_step)

        inputs = [graph.lift(convert_to_tensor(x)) for x in operands]
        return SessionOperation(name or self._name, act, inputs)

    def _step(
        self,
        weights: list[Variable],
        slots: list[Slots],
        names: list[str],
        values: list[Tensor],
        global_step: Variable | None,
    ) -> None:
        grads, settings = values[: len(weights)], values[len(weights) :]
        for weight, own, grad in zip(weights, slots, grads, strict=True):
            numbers = {
                name: ops.cast(x, weight.dtype) for name, x in zip(names, settings, strict=True)
            }
            if grad.dtype != weight.dtype:
                raise InvalidArgumentError(
                    f"{self._name}: the gradient of {weight.name!r} is {grad.dtype.name}, the "
                    f"weight {weight.dtype.name}; cast the gradient"
                )
            weight.assign(self.update(weight.value(), grad, own, numbers))
        self.end_step(dict(zip(names, settings, strict=True)))
        if global_step is not None:
            global_step.assign_add(ops.cast(1, global_step.dtype))


class GradientDescentOptimizer(Optimizer):
    """w = w - learning_rate * g.

    Args:
        learning_rate: size of a step.
        use_locking: see `Optimizer`.
        name: what it is called.

    Example:
        >>> v1 = tk.compat.v1
        >>> with v1.Graph().as_default():
        ...     w = tk.Variable(5.0)
        ...     train = v1.train.GradientDescentOptimizer(0.1).minimize(w * w)
        ...     with v1.Session() as session:
        ...         session.run(v1.global_variables_initializer())
        ...         session.run(train)
        >>> float(w)
        4.0
    """

    def __init__(
        self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent"
    ) -> None:
        super().__init__(name, use_locking, learning_rate=learning_rate)

    def update(self, weight: Tensor, grad: Tensor, slots: Slots, numbers: Hyperparameters) -> Any:
        return weight - numbers["learning_rate"] * grad


class MomentumOptimizer(Optimizer):
    """a = momentum * a + g, w = w - learning_rate * a.

    Args:
        learning_rate: size of a step.
        momentum: the part of the last steps that goes on.
        use_locking: see `Optimizer`.
        name: what it is called.
        use_nesterov: w = w - learning_rate * (g + momentum * a) instead.
    """

    slots = (("momentum", 0.0),)

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(name, use_locking, learning_rate=learning_rate, momentum=momentum)
        self._nesterov = use_nesterov

    def update(self, weight: Tensor, grad: Tensor, slots: Slots, numbers: Hyperparameters) -> Any:
        lr, momentum = numbers["learning_rate"], numbers["momentum"]
        total = slots["momentum"].assign(momentum * slots["momentum"] + grad).value()
        return weight - lr * (grad + momentum * total if self._nesterov else total)


class AdagradOptimizer(Optimizer):
    """a = a + g ** 2, w = w - learning_rate * g / sqrt(a).

    Source: Duchi, Hazan and Singer 2011, "Adaptive subgradient methods".

    Args:
        learning_rate: size of a step.
        initial_accumulator_value: what the sums of squares start from, above 0.
        use_locking: see `Optimizer`.
        name: what it is called.

    Raises:
        ValueError: the sums start from 0 or less.
    """

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:
        if initial_accumulator_value <= 0.0:
            raise ValueError(
                "AdagradOptimizer: initial_accumulator_value must be above 0, got "
                f"{initial_accumulator_value}"
            )
        super().__init__(name, use_locking, learning_rate=learning_rate)
        self.slots = (("accumulator", initial_accumulator_value),)

    def update(self, weight: Tensor, grad: Tensor, slots: Slots, numbers: Hyperparameters) -> Any:
        total = slots["accumulator"].assign_add(grad * grad).value()
        return weight - numbers["learning_rate"] * grad * ops.rsqrt(total)


class RMSPropOptimizer(Optimizer):
    """Steps by the root mean square of the gradients.

    s = decay * s + (1 - decay) * g ** 2,
    m = momentum * m + learning_rate * g / sqrt(s + epsilon), w = w - m
    Source: Tieleman and Hinton 2012, lecture 6.5 of "Neural networks for machine learning".

    Args:
        learning_rate: size of a step.
        decay: of the mean squares, which start from 1.
        momentum: the part of the last steps that goes on.
        epsilon: added to the mean squares.
        use_locking: see `Optimizer`.
        centered: whether the squared mean of the gradients is taken from the mean squares.
        name: what it is called.
    """

    def __init__(
        self,
        learning_rate: Any,
        decay: Any = 0.9,
        momentum: Any = 0.0,
        epsilon: Any = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ) -> None:
        numbers = {"decay": decay, "momentum": momentum, "epsilon": epsilon}
        super().__init__(name, use_locking, learning_rate=learning_rate, **numbers)
        self.slots = (("rms", 1.0), ("momentum", 0.0), *([("mg", 0.0)] if centered else []))

    def update(self, weight: Tensor, grad: Tensor, slots: Slots, numbers: Hyperparameters) -> Any:
        rms, decay = slots["rms"], numbers["decay"]
        squares = rms.assign_add((grad * grad - rms) * (1 - decay)).value()
        if "mg" in slots:
            mean = slots["mg"].assign_add((grad - slots["mg"]) * (1 - decay)).value()
            squares = squares - mean * mean
        step = numbers["learning_rate"] * grad * ops.rsqrt(squares + numbers["epsilon"])
        return weight - slots["momentum"].assign(numbers["momentum"] * slots["momentum"] + step)


class AdadeltaOptimizer(Optimizer):
    """Steps of the size of the last ones, by the mean squares of the gradients.

    a = rho * a + (1 - rho) * g ** 2, d = g * sqrt(u + epsilon) / sqrt(a + epsilon),
    u = rho * u + (1 - rho) * d ** 2, w = w - learning_rate * d
    Source: Zeiler 2012, arXiv:1212.5701.

    Args:
        learning_rate: size of a step.
        rho: of the mean squares.
        epsilon: added to them.
        use_locking: see `Optimizer`.
        name: what it is called.
    """

    slots = (("accum", 0.0), ("accum_update", 0.0))

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: Any = 0.95,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ) -> None:
        super().__init__(name, use_locking, learning_rate=learning_rate, rho=rho, epsilon=epsilon)

    def update(self, weight: Tensor, grad: Tensor, slots: Slots, numbers: Hyperparameters) -> Any:
        rho, epsilon = numbers["rho"], numbers["epsilon"]
        accum, moved = slots["accum"], slots["accum_update"]
        squares = accum.assign(rho * accum + (1 - rho) * grad * grad).value()
        step = ops.sqrt(moved + epsilon) * ops.rsqrt(squares + epsilon) * grad
        moved.assign(rho * moved + (1 - rho) * step * step)
        return weight - numbers["learning_rate"] * step


class AdamOptimizer(Optimizer):
    """Steps by the means of the gradients and of their squares.

    m = beta1 * m + (1 - beta1) * g, v = beta2 * v + (1 - beta2) * g ** 2,
    w = w - r * m / (sqrt(v) + epsilon), in step t with
    r = learning_rate * sqrt(1 - beta2 ** t) / (1 - beta1 ** t)
    Source: Kingma and Ba 2014, arXiv:1412.6980, the form before section 2.1.

    Args:
        learning_rate: size of a step.
        beta1: of the means.
        beta2: of the mean squares.
        epsilon: added to their roots.
        use_locking: see `Optimizer`.
        name: what it is called.
    """

    slots = (("m", 0.0), ("v", 0.0))

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        numbers = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon}
        super().__init__(name, use_locking, learning_rate=learning_rate, **numbers)
        self._powers: dict[str, Variable] = {}

    def prepare(self) -> None:
        if not self._powers:
            for name in ("beta1", "beta2"):
                start = ops.cast(self._numbers[name], "float32")
                label = f"{self._name}/{name}_power"
                self._powers[name] = Variable(start, trainable=False, name=label)

    def end_step(self, numbers: Hyperparameters) -> None:
        for name, power in self._powers.items():
            power.assign(power * ops.cast(numbers[name], "float32"))

    def update(self, weight: Tensor, grad: Tensor, slots: Slots, numbers: Hyperparameters) -> Any:
        beta1, beta2 = numbers["beta1"], numbers["beta2"]
        power1, power2 = (ops.cast(x.value(), weight.dtype) for x in self._powers.values())
        lr = numbers["learning_rate"] * ops.sqrt(1 - power2) / (1 - power1)
        mean = slots["m"].assign_add((grad - slots["m"]) * (1 - beta1)).value()
        squares = slots["v"].assign_add((grad * grad - slots["v"]) * (1 - beta2)).value()
        return weight - lr * mean / (ops.sqrt(squares) + numbers["epsilon"])
