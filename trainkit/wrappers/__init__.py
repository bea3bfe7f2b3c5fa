"""Models as estimators of scikit-learn: for pipelines, searches over parameters, its metrics."""

import importlib
from typing import TYPE_CHECKING, Any

from trainkit.core.names import unknown_name
from trainkit.core.process.requirements import install_command

if TYPE_CHECKING:
    from trainkit.wrappers.estimators import SKLearnClassifier as SKLearnClassifier
    from trainkit.wrappers.estimators import SKLearnRegressor as SKLearnRegressor
    from trainkit.wrappers.estimators import SKLearnTransformer as SKLearnTransformer

_NAMES = ("SKLearnClassifier", "SKLearnRegressor", "SKLearnTransformer")


if not TYPE_CHECKING:  # names that are not there are errors in editors

    def __getattr__(name: str) -> Any:
        if name not in _NAMES:
            raise unknown_name(__name__, name, _NAMES)
        try:
            return getattr(importlib.import_module("trainkit.wrappers.estimators"), name)
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] != "sklearn":
                raise
            raise ImportError(
                f"{name} needs scikit-learn 1.6 or later: {install_command('sklearn')}",
                name="sklearn",
            ) from error


def __dir__() -> list[str]:
    return list(_NAMES)
