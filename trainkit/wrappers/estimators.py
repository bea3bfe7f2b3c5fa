"""Classifier, regressor and transformer of scikit-learn around a compiled model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from trainkit.models import Model, clone_model


class _Estimator(BaseEstimator):
    """What the three have in common."""

    def __init__(
        self,
        model: Model | Callable[..., Model],
        warm_start: bool = False,
        model_kwargs: dict[str, Any] | None = None,
        fit_kwargs: dict[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.warm_start = warm_start
        self.model_kwargs = model_kwargs
        self.fit_kwargs = fit_kwargs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags

    @property
    def epoch_(self) -> int:
        """How many epochs the last `fit` trained."""
        return len(self.history_.epoch) if hasattr(self, "history_") else 0

    def set_fit_request(self, **kwargs: Any) -> Any:
        """Say which metadata `fit` takes; see scikit-learn's metadata routing.

        Args:
            **kwargs: `True`, `False`, `None` or an alias, by the name of the parameter.

        Returns:
            This estimator.

        Raises:
            RuntimeError: metadata routing is not enabled.
        """
        if not get_config()["enable_metadata_routing"]:
            raise RuntimeError(
                "set_fit_request needs metadata routing: "
                "sklearn.set_config(enable_metadata_routing=True)"
            )
        requests = get_routing_for_object(self)
        for name, alias in kwargs.items():
            requests.fit.add_request(param=name, alias=alias)
        self._metadata_request = requests
        return self

    def fit(self, X: Any, y: Any, **kwargs: Any) -> Any:
        """Train the model.

        Args:
            X: samples (samples, features).
            y: targets (samples,), of a regressor or transformer also (samples, outputs).
            **kwargs: arguments of `Model.fit`, before those in `fit_kwargs`.

        Returns:
            This estimator.

        Raises:
            RuntimeError: the model is not compiled with a loss and an optimizer.
            ValueError: samples or targets are no such arrays.
        """
        X, y = self._validate(X, y)
        model = self._model_for(X, y)
        if not (model.compiled and model.loss and model.optimizer):
            raise RuntimeError(
                f"{type(self).__name__}: model {model.name!r} must be compiled with a loss and an "
                "optimizer"
            )
        self.history_ = model.fit(X, y, **{**(self.fit_kwargs or {}), **kwargs})
        self.model_ = model
        return self

    def _validate(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Samples, and targets as the model is trained on them."""
        X, y = validate_data(self, X, y, multi_output=True, y_numeric=True)
        self._targets_have_axis = y.ndim > 1
        return X, y if y.ndim > 1 else y[:, np.newaxis]

    def _model_for(self, X: Any, y: Any) -> Any:
        if self.warm_start and hasattr(self, "model_"):
            return self.model_
        if isinstance(self.model, Model):
            return self.model if self.warm_start else clone_model(self.model)
        return self.model(X=X, y=y, **(self.model_kwargs or {}))

    def _outputs(self, X: Any) -> Any:
        """The outputs of the trained model for samples (samples, features)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        return self.model_.predict(X, verbose=(self.fit_kwargs or {}).get("verbose", "auto"))


class SKLearnClassifier(ClassifierMixin, _Estimator):
    """A classifier of scikit-learn around a model, which is trained on one-hot targets.

    Args:
        model: compiled model, cloned for each `fit`; or a function that is called with `X`, `y` (as
            the model sees them) and `model_kwargs` and gives one.
        warm_start: whether `fit` goes on with the weights that there are; the model is not cloned.
        model_kwargs: arguments of the function besides `X` and `y`.
        fit_kwargs: arguments of `Model.fit`, such as `epochs` and `verbose`.

    Attributes:
        model_: the trained model.
        history_: the `History` of the last `fit`.
        classes_: the labels, sorted; outputs of the model stand in this order.
        n_features_in_: the number of features.

    >>> def network(X, y):
    ...     layers = [tk.layers.Dense(8, "relu"), tk.layers.Dense(y.shape[1], "softmax")]
    ...     model = tk.Sequential([tk.Input(X.shape[1:]), *layers])
    ...     model.compile("adam", "categorical_crossentropy")
    ...     return model
    >>> X = np.array([[0.0], [1.0]] * 8)
    >>> estimator = SKLearnClassifier(network, fit_kwargs={"epochs": 2, "verbose": 0})
    >>> estimator.fit(X, np.where(X[:, 0] > 0, "high", "low")).predict(X).shape
    (16,)
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags

    def _validate(self, X: Any, y: Any) -> tuple[Any, Any]:
        X, y = validate_data(self, X, y)
        check_classification_targets(y)
        self.classes_, indices = np.unique(y, return_inverse=True)
        if len(self.classes_) == 1:
            raise ValueError(
                f"{type(self).__name__} can't train: all targets are of one class, "
                f"{self.classes_.tolist()[0]!r}"
            )
        return X, np.eye(len(self.classes_), dtype=np.float32)[indices]

    def decision_function(self, X: Any) -> Any:
        """The outputs of the model (samples, classes), be they probabilities or logits."""
        return self._outputs(X)

    def predict(self, X: Any) -> Any:
        """The label with the highest output for each sample, (samples,)."""
        indices = self._outputs(X).argmax(axis=-1)
        return self.classes_[indices]


class SKLearnRegressor(RegressorMixin, _Estimator):
    """A regressor of scikit-learn around a model; the arguments are those of `SKLearnClassifier`.

    Args:
        model: compiled model, or a function that makes one.
        warm_start: whether `fit` goes on with the weights that there are.
        model_kwargs: arguments of the function besides `X` and `y`.
        fit_kwargs: arguments of `Model.fit`.

    Attributes:
        model_: the trained model.
        history_: the `History` of the last `fit`.
        n_features_in_: the number of features.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        tags.target_tags.multi_output = True
        return tags

    def predict(self, X: Any) -> Any:
        """The outputs of the model, (samples,) or (samples, outputs) like the targets, float64."""
        y = self._outputs(X).astype(np.float64)
        return y if self._targets_have_axis else y[:, 0]


class SKLearnTransformer(TransformerMixin, _Estimator):
    """A transformer of scikit-learn around a model; the arguments are those of `SKLearnClassifier`.

    It has nothing to do with attention: it is a step of a pipeline that gives new features.

    Args:
        model: compiled model, or a function that makes one.
        warm_start: whether `fit` goes on with the weights that there are.
        model_kwargs: arguments of the function besides `X` and `y`.
        fit_kwargs: arguments of `Model.fit`.

    Attributes:
        model_: the trained model.
        history_: the `History` of the last `fit`.
        n_features_in_: the number of features.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags

    def transform(self, X: Any) -> Any:
        """The outputs of the model."""
        return self._outputs(X)
