"""Metrics of probabilities and scores: cross-entropies, divergence, hinges."""

from __future__ import annotations

from trainkit.core.values.type_aliases import DTypeLike
from trainkit.losses import crossentropy, divergence, margins, regression
from trainkit.metrics.means import FunctionMean, MeanMetricWrapper


class KLDivergence(FunctionMean):
    """Mean Kullback-Leibler divergence of y_pred from y_true.

    Example:
        >>> metric = tk.metrics.KLDivergence()
        >>> metric.update_state([[0.5, 0.5]], [[0.25, 0.75]])
        >>> round(float(metric.result()), 4)
        0.1438
    """

    function = staticmethod(divergence.kl_divergence)


class Poisson(FunctionMean):
    """Mean of y_pred - y_true * log(y_pred).

    Example:
        >>> metric = tk.metrics.Poisson()
        >>> metric.update_state([[0.0, 1.0]], [[1.0, 1.0]])
        >>> round(float(metric.result()), 4)
        1.0
    """

    function = staticmethod(regression.poisson)


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
        self._wrap(crossentropy.binary_crossentropy, locals())


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
        self._wrap(crossentropy.categorical_crossentropy, locals())


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
        self._wrap(crossentropy.sparse_categorical_crossentropy, locals())


class Hinge(FunctionMean):
    """Mean of max(1 - y_true * y_pred, 0).

    Example:
        >>> metric = tk.metrics.Hinge()
        >>> metric.update_state([[1.0, -1.0]], [[0.5, 0.5]])
        >>> float(metric.result())
        1.0
    """

    function = staticmethod(margins.hinge)


class SquaredHinge(FunctionMean):
    """Mean of max(1 - y_true * y_pred, 0)**2.

    Example:
        >>> metric = tk.metrics.SquaredHinge()
        >>> metric.update_state([[1.0, -1.0]], [[0.5, 0.5]])
        >>> float(metric.result())
        1.25
    """

    function = staticmethod(margins.squared_hinge)


class CategoricalHinge(FunctionMean):
    """Mean margin of the true class over the best other.

    Example:
        >>> metric = tk.metrics.CategoricalHinge()
        >>> metric.update_state([[0.0, 1.0]], [[0.25, 0.5]])
        >>> float(metric.result())
        0.75
    """

    function = staticmethod(margins.categorical_hinge)
