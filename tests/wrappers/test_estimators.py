"""Models as estimators: scikit-learn's own checks, pipelines, searches, copies."""

import pickle
import subprocess
import sys
import unittest
from functools import partial

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import make_classification, make_regression
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import trainkit as tk
from trainkit.wrappers import SKLearnClassifier, SKLearnRegressor, SKLearnTransformer


def network(X, y, loss="mse", activation=None, units=(10,)):
    tk.random.set_seed(0)  # each fit is like the one before
    layers = [tk.layers.Dense(n, "relu") for n in units]
    outputs = tk.layers.Dense(y.shape[1], activation)
    model = tk.Sequential([tk.Input(X.shape[1:]), *layers, outputs])
    model.compile("rmsprop", loss)
    return model


EXPECTED = {
    "check_classifiers_one_label_sample_weights": "samples of weight 0 still count",
    "check_classifiers_classes": "five epochs are too few to tell its classes apart",
    "check_classifiers_train": "decision_function of two classes has two columns",
}
CLASSES = {"loss": "categorical_crossentropy", "activation": "softmax"}


@parametrize_with_checks(
    [
        SKLearnClassifier(network, False, CLASSES, {"epochs": 5, "verbose": 0}),
        SKLearnRegressor(network, fit_kwargs={"verbose": 0}),
        SKLearnTransformer(network, fit_kwargs={"verbose": 0}),
    ],
    expected_failed_checks=lambda estimator: EXPECTED,
)
@pytest.mark.filterwarnings("ignore")
def test_checks_of_scikit_learn(estimator, check):
    try:
        check(estimator)
    except unittest.SkipTest as reason:
        pytest.skip(str(reason))


def classes(n=120, labels=("a", "b", "c")):
    X, y = make_classification(
        n, n_features=6, n_informative=4, n_classes=3, class_sep=2.0, random_state=0
    )
    return X, np.array(labels)[y]


def classifier(**more):
    return SKLearnClassifier(network, model_kwargs=CLASSES, **more)


def test_a_classifier_learns_labels_of_text():
    tk.random.set_seed(1)
    X, y = classes()
    estimator = make_pipeline(
        StandardScaler(), classifier(fit_kwargs={"epochs": 60, "batch_size": 16, "verbose": 0})
    ).fit(X, y)
    assert estimator.classes_.tolist() == ["a", "b", "c"]
    assert estimator.score(X, y) > 0.8
    outputs = estimator.decision_function(X[:5])
    assert outputs.shape == (5, 3)
    assert estimator.predict(X[:5]).tolist() == ["abc"[i] for i in outputs.argmax(-1)]


def test_arguments_of_fit_come_before_those_of_the_estimator_which_stay():
    estimator = classifier(fit_kwargs={"epochs": 3, "verbose": 0})
    assert estimator.epoch_ == 0
    estimator.fit(*classes(), epochs=1)
    assert estimator.epoch_ == len(estimator.history_.history["loss"]) == 1
    assert estimator.fit_kwargs == {"epochs": 3, "verbose": 0}
    assert clone(estimator).fit_kwargs == {"epochs": 3, "verbose": 0}


def test_a_search_over_the_arguments_of_the_model():
    tk.random.set_seed(1)
    search = GridSearchCV(
        classifier(fit_kwargs={"epochs": 1, "verbose": 0}),
        {"model_kwargs": [{**CLASSES, "units": units} for units in [(), (8,)]]},
        cv=2,
        error_score="raise",
    )
    search.fit(*classes())
    assert len(search.cv_results_["mean_test_score"]) == 2


@pytest.mark.parametrize("several", [False, True])
def test_a_regressor_gives_targets_of_the_shape_it_was_given(several):
    tk.random.set_seed(1)
    X, y = make_regression(100, 5, n_targets=2 if several else 1, random_state=0)
    y = y / y.std()
    fit = {"epochs": 80, "batch_size": 10, "verbose": 0}
    estimator = SKLearnRegressor(network, fit_kwargs=fit).fit(X, y)
    assert estimator.predict(X).shape == y.shape
    assert estimator.score(X, y) > 0.7


def test_a_transformer_is_a_step_of_a_pipeline():
    tk.random.set_seed(1)
    X, y = classes(labels=(0, 1, 2))
    steps = SKLearnTransformer(network, fit_kwargs={"epochs": 5, "verbose": 0})
    pipeline = make_pipeline(steps, LogisticRegression()).fit(X, y)
    assert pipeline[0].transform(X).shape == (len(X), 1)
    assert pipeline.predict(X).shape == (len(X),)


def compiled_model():
    model = tk.Sequential([tk.Input((6,)), tk.layers.Dense(3, "softmax")])
    model.compile("sgd", "categorical_crossentropy")
    return model


def test_a_model_is_cloned_unless_the_start_is_warm():
    X, y = classes()
    model = compiled_model()
    before = model.get_weights()
    cold = SKLearnClassifier(model, fit_kwargs={"verbose": 0}).fit(X, y)
    assert cold.model_ is not model
    np.testing.assert_array_equal(model.get_weights()[0], before[0])
    warm = SKLearnClassifier(model, warm_start=True, fit_kwargs={"verbose": 0}).fit(X, y)
    assert warm.model_ is model
    once = model.get_weights()[0]
    warm.fit(X, y)
    assert warm.model_ is model
    assert not np.array_equal(model.get_weights()[0], once)


def test_a_trained_estimator_is_pickled():
    X, y = classes()
    estimator = SKLearnClassifier(compiled_model(), fit_kwargs={"verbose": 0}).fit(X, y)
    again = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(again.decision_function(X), estimator.decision_function(X))


def test_what_can_not_be_trained_is_told():
    X, y = classes()
    model = tk.Sequential([tk.Input((6,)), tk.layers.Dense(3)])
    with pytest.raises(RuntimeError, match="compiled with a loss and an optimizer"):
        SKLearnClassifier(model).fit(X, y)
    with pytest.raises(ValueError, match="all targets are of one class, 'a'"):
        classifier().fit(X, np.full(len(X), "a"))
    with pytest.raises(ValueError, match="Unknown label type"):
        classifier().fit(X, X[:, 0])


def test_requests_for_metadata():
    estimator = SKLearnRegressor(partial(network), fit_kwargs={"verbose": 0})
    with pytest.raises(RuntimeError, match="metadata routing"):
        estimator.set_fit_request(sample_weight=True)
    with sklearn.config_context(enable_metadata_routing=True):
        assert estimator.set_fit_request(sample_weight=True) is estimator
        assert estimator.get_metadata_routing().fit.requests == {"sample_weight": True}


def test_without_scikit_learn_one_sentence_says_what_to_install():
    code = """
import sys
sys.modules["sklearn"] = sys.modules["sklearn.base"] = None
import trainkit as tk
tk.wrappers
try:
    tk.keras.wrappers.SKLearnClassifier
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == (
        "SKLearnClassifier needs scikit-learn 1.6 or later: pip install 'scikit-learn>=1.6'\n"
    )
