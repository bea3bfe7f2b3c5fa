"""The loss of a model with the values of its variables given, and their new values given back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trainkit.layers.base.layer import Layer
from trainkit.layers.base.stateless_call import scope_of_values

if TYPE_CHECKING:
    from trainkit.core.variable import Variable


class StatelessLosses(Layer):
    """`stateless_compute_loss`, which leaves the model as it is."""

    if TYPE_CHECKING:
        metrics_variables: list[Variable]

        def compute_loss(self, *args: Any, **kwargs: Any) -> Any: ...

    def stateless_compute_loss(
        self,
        trainable_variables: Sequence[Any],
        non_trainable_variables: Sequence[Any],
        metrics_variables: Sequence[Any],
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> tuple[Any, tuple[Any, Any, Any]]:
        """`compute_loss` with other values of the variables; the model's own stay as they are.

        Args:
            trainable_variables: a value for each of `trainable_variables`.
            non_trainable_variables: a value for each of `non_trainable_variables`.
            metrics_variables: a value for each of `metrics_variables`.
            x: inputs.
            y: targets.
            y_pred: outputs of the model, as `stateless_call` gives them.
            sample_weight: a weight for each sample.
            training: whether it is for training.

        Returns:
            The loss, a scalar tensor, and a tuple of three lists: the values of
            `trainable_variables`, `non_trainable_variables` and `metrics_variables` after it.

        Raises:
            NotBuiltError: the model has no weights yet.
            ValueError: there is not one value for each variable, or there is no loss at all.

        Example:
            >>> model = tk.Sequential([tk.layers.Dense(1, input_shape=(2,))])
            >>> model.compile("sgd", "mse")
            >>> weights = [v.value() for v in model.trainable_variables]
            >>> counts = [v.value() for v in model.metrics_variables]
            >>> loss, after = model.stateless_compute_loss(
            ...     weights, [], counts, y=tk.ones((1, 1)), y_pred=tk.zeros((1, 1))
            ... )
            >>> float(loss), len(after)
            (1.0, 3)
        """
        state, metrics = self.non_trainable_variables, self.metrics_variables
        replacements = {
            "trainable_variables": (self.trainable_variables, trainable_variables),
            "non_trainable_variables": (state, non_trainable_variables),
            "metrics_variables": (metrics, metrics_variables),
        }
        with scope_of_values(self, "stateless_compute_loss", replacements):
            loss = self.compute_loss(
                x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=training
            )
            after = [variable.value() for variable in state]
            metrics_after = [variable.value() for variable in metrics]
        return loss, (trainable_variables, after, metrics_after)
