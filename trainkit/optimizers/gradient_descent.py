"""`GradientDescentOptimizer`: the optimizer of TensorFlow 1's `tf.train`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trainkit.autodiff.tape import GradientTape
from trainkit.core.variable import Variable
from trainkit.optimizers.sgd import SGD


class GradientDescentOptimizer(SGD):
    """Plain gradient descent with the interface of TensorFlow 1: w = w - learning_rate * g.

    Args:
        learning_rate: size of a step.
        use_locking: accepted as TensorFlow does; an update is always whole.
        name: what it is called.
    """

    def __init__(
        self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent"
    ) -> None:
        super().__init__(learning_rate, name=name)
        self.use_locking = use_locking

    def compute_gradients(
        self, loss: Any, var_list: Iterable[Variable] | None = None
    ) -> list[tuple[Any, Variable]]:
        """Pairs (gradient, variable) for `apply_gradients`.

        Args:
            loss: function without arguments that gives the loss; a loss of several values counts as
                their sum.
            var_list: variables; by default the trainable ones that the loss read.

        Raises:
            TypeError: `loss` is no function: eagerly there is no graph to go back through.
        """
        if not callable(loss):
            raise TypeError(
                f"{self.name}.compute_gradients: loss must be a function without arguments, got "
                f"{loss!r}; wrap it in "
                "a lambda, or record it with GradientTape"
            )
        with GradientTape() as tape:
            value = loss()
        weights = self._weights_or_read(var_list, tape)
        return list(zip(tape.gradient(value, weights), weights, strict=True))

    # TensorFlow 1 has the step where TensorFlow 2 has the variables.
    def minimize(  # type: ignore[override]
        self,
        loss: Any,
        global_step: Variable | None = None,
        var_list: Iterable[Variable] | None = None,
    ) -> Any:
        """Compute the gradients of `loss` and apply them; see `compute_gradients`.

        Args:
            loss: function without arguments.
            global_step: Variable that is counted up by 1.
            var_list: variables; by default the trainable ones that the loss read.
        """
        return self.apply_gradients(self.compute_gradients(loss, var_list), global_step)

    def apply_gradients(  # type: ignore[override]
        self,
        grads_and_vars: Iterable[Any],
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> Any:
        """Update each variable by its gradient, then count `global_step` up by 1."""
        result = super().apply_gradients(grads_and_vars, name)
        if global_step is not None:
            global_step.assign_add(1)
        return result

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        return {
            "learning_rate": config["learning_rate"],
            "use_locking": self.use_locking,
            "name": self.name,
        }
