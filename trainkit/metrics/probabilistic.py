"""Metrics of probabilities and scores: cross-entropies, divergence, hinges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainkit.losses import crossentropy, divergence, margins, regression
from trainkit.metrics.means import MeanMetricWrapper

if TYPE_CHECKING:
    from trainkit.core.values.type_aliases import DTypeLike


class KLDivergence(MeanMetricWrapper):
    """Mean Kullback-Leibler divergence of y_pred from y_true.

    Args:
        name: what it is called.
        dtype: element type of the state; by default the default float.

    Example:
        >>> metric = tk.metrics.KLDivergence()
        >>> metric.update_state([[0.5, 0.5]], [[0.25, 0.75]])
        >>> round(float(metric.result()), 4)
        0.1438
    """

    def __init__(self, name: str | None = "kl_divergence", dtype: DTypeLike | None = None) -> None:
        super().__init__(divergence.kl_divergence, name, dtype)


class Poisson(MeanMetricWrapper):
    """Mean of y_pred - y_true * log(y_pred).

    Args:
        name: what it is called.
        dtype: element type of the state; by default the default float.

    Example:
        >>> metric = tk.metrics.Poisson()
        >>> metric.update_state([[0.0, 1.0]], [[1.0, 1.0]])
        >>> round(float(metric.result()), 4)
        1.0
    """

    def __init__(self, name: str | None = "poisson", dtype: DTypeLike | None = None) -> None:
        super().__init__(regression.poisson, name, dtype)


class BinaryCrossentropy(MeanMetricWrapper):
    """Mean cross-entropy of labels that are true or false.

    Args:
        from_logits: whether the sigmoid is still to be taken.
        label_smoothing: share by which labels move towards 1/2, in [0, 1].

    Example:
        >>> metric = tk.metrics.BinaryCrossentropy()
        >>> metric.update_state([[1.0], [0.0]], [[0.5], [0.5]])
        >>> round(float(metric.result()), 4)
        0.6931
    """

    def __init__(
        self,
        name: str | None = "binary_crossentropy",
        dtype: DTypeLike | None = None,
        from_logits: bool = False,
        label_smoothing: float = 0,
    ) -> None:
        super().__init__(
            crossentropy.binary_crossentropy,
            name,
            dtype,
            from_logits=from_logits,
            label_smoothing=label_smoothing,
        )


class CategoricalCrossentropy(MeanMetricWrapper):
    """Mean cross-entropy of one-hot labels.

    Args:
        from_logits: whether the softmax is still to be taken.
        label_smoothing: share by which labels move towards 1 / classes, in [0, 1].
        axis: axis of the classes.

    Example:
        >>> metric = tk.metrics.CategoricalCrossentropy()
        >>> metric.update_state([[0.0, 1.0]], [[0.5, 0.5]])
        >>> round(float(metric.result()), 4)
        0.6931
    """

    def __init__(
        self,
        name: str | None = "categorical_crossentropy",
        dtype: DTypeLike | None = None,
        from_logits: bool = False,
        label_smoothing: float = 0,
        axis: int = -1,
    ) -> None:
        super().__init__(
            crossentropy.categorical_crossentropy,
            name,
            dtype,
            from_logits=from_logits,
            label_smoothing=label_smoothing,
            axis=axis,
        )


class SparseCategoricalCrossentropy(MeanMetricWrapper):
    """Mean cross-entropy of class numbers.

    Args:
        from_logits: whether the softmax is still to be taken.
        ignore_class: samples with this label give 0, and count only where there are no weights.
        axis: axis of the classes.

    Example:
        >>> metric = tk.metrics.SparseCategoricalCrossentropy()
        >>> metric.update_state([1, 0], [[0.5, 0.5], [0.5, 0.5]])
        >>> round(float(metric.result()), 4)
        0.6931
    """

    def __init__(
        self,
        name: str | None = "sparse_categorical_crossentropy",
        dtype: DTypeLike | None = None,
        from_logits: bool = False,
        ignore_class: int | None = None,
        axis: int = -1,
    ) -> None:
        super().__init__(
            crossentropy.sparse_categorical_crossentropy,
            name,
            dtype,
            from_logits=from_logits,
            ignore_class=ignore_class,
            axis=axis,
        )


class Hinge(MeanMetricWrapper):
    """Mean of max(1 - y_true * y_pred, 0).

    Args:
        name: what it is called.
        dtype: element type of the state; by default the default float.

    Example:
        >>> metric = tk.metrics.Hinge()
        >>> metric.update_state([[1.0, -1.0]], [[0.5, 0.5]])
        >>> float(metric.result())
        1.0
    """

    def __init__(self, name: str | None = "hinge", dtype: DTypeLike | None = None) -> None:
        super().__init__(margins.hinge, name, dtype)


class SquaredHinge(MeanMetricWrapper):
    """Mean of max(1 - y_true * y_pred, 0)**2.

    Args:
        name: what it is called.
        dtype: element type of the state; by default the default float.

    Example:
        >>> metric = tk.metrics.SquaredHinge()
        >>> metric.update_state([[1.0, -1.0]], [[0.5, 0.5]])
        >>> float(metric.result())
        1.25
    """

    def __init__(self, name: str | None = "squared_hinge", dtype: DTypeLike | None = None) -> None:
        super().__init__(margins.squared_hinge, name, dtype)


class CategoricalHinge(MeanMetricWrapper):
    """Mean margin of the true class over the best other.

    Args:
        name: what it is called.
        dtype: element type of the state; by default the default float.

    Example:
        >>> metric = tk.metrics.CategoricalHinge()
        >>> metric.update_state([[0.0, 1.0]], [[0.25, 0.5]])
        >>> float(metric.result())
        0.75
    """

    def __init__(
        self, name: str | None = "categorical_hinge", dtype: DTypeLike | None = None
    ) -> None:
        super().__init__(margins.categorical_hinge, name, dtype)
