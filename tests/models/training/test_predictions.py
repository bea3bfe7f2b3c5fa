"""`predict` of one batch, which goes through no loop, and `predict_on_batch`."""

import numpy as np
import pytest

import trainkit as tk
from trainkit.callbacks import progress
from trainkit.core.dispatch.slow_work import slow_work

L = tk.layers
X = np.random.default_rng(3).standard_normal((20, 3)).astype("float32")
INPUTS = [
    X,
    X[:1],
    X.astype("float64"),
    X.astype("float16"),
    np.asfortranarray(X),
    X[::2, ::-1],
    X.astype(">f4"),
    np.arange(6).reshape(2, 3),
    np.array([[True, False, True]]),
    tk.constant(X),
    X.tolist(),
    X.astype("object"),
    [X],
]


def network():
    model = tk.Sequential([tk.Input((3,)), L.Dense(5, activation="relu"), L.Dense(2)])
    rng = np.random.default_rng(0)
    model.set_weights([rng.standard_normal(w.shape).astype("float32") for w in model.weights])
    return model


@pytest.mark.parametrize("x", INPUTS, ids=lambda x: f"{type(x).__name__} {getattr(x, 'dtype', '')}")
@pytest.mark.parametrize("calls", [1, 20])  # operation by operation, and by a graph
def test_one_batch_is_predicted_as_the_loop_predicts_it(x, calls):
    model = network()
    for _ in range(calls):
        alone = model.predict(x, verbose=0)
    by_loop = network().predict(x, verbose=0, callbacks=[tk.callbacks.Callback()])
    assert alone.dtype == by_loop.dtype
    assert alone.tobytes() == by_loop.tobytes()


def test_an_input_is_not_what_the_model_gives_back():
    model = tk.Sequential([tk.Input((3,)), L.Activation("linear")])
    x = X.copy()
    for _ in range(20):
        y = model.predict(x, verbose=0)
        y += 1
        np.testing.assert_array_equal(x, X)
        y = model.predict_on_batch(x)
        y += 1
        np.testing.assert_array_equal(x, X)


def test_nested_outputs_stay_nested():
    a = tk.Input((3,))
    model = tk.Model(a, {"sum": L.Dense(2)(a), "parts": [L.Dense(1)(a), a * 2.0]})
    for outputs in (model.predict(X, verbose=0), model.predict_on_batch(X)):
        assert [type(y) for y in (outputs["sum"], *outputs["parts"])] == [np.ndarray] * 3
        np.testing.assert_array_equal(outputs["parts"][1], X * 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 1.5}, "batch_size"),
        ({"verbose": 3}, "verbose must be"),
        ({"verbos": 0}, "did you mean 'verbose'"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        network().predict(X, **arguments)


@pytest.mark.parametrize("x", [X[:0], np.float32(3.0), None])
def test_what_is_no_batch_is_refused(x):
    with pytest.raises((ValueError, TypeError, tk.errors.InvalidArgumentError)):
        network().predict(x, verbose=0)


def test_steps_of_a_subclass_are_run():
    class Doubled(tk.Sequential):
        def predict_step(self, data):
            return super().predict_step(data) * 2.0

        def make_predict_function(self, force=False):
            made.append(force)
            return super().make_predict_function(force)

    made = []
    model = Doubled([tk.Input((3,)), L.Activation("linear")])
    np.testing.assert_array_equal(model.predict(X, verbose=0), X * 2)
    assert made


def test_limits_of_steps_decide_about_batches():
    sizes = []

    class Sizes(tk.Sequential):
        def predict_step(self, data):
            sizes.append(len(data))
            return super().predict_step(data)

    model = Sizes([tk.Input((3,)), L.Dense(1)])
    model.run_eagerly = True
    tk.keras.config.set_max_steps_per_epoch(2)
    try:
        with pytest.warns(UserWarning, match="limits steps_per_epoch to 2"):
            assert model.predict(X, verbose=0).shape == (20, 1)
    finally:
        tk.keras.config.set_max_steps_per_epoch(None)
    assert sizes == [10, 10]


def test_slow_work_of_one_batch_has_a_bar(monkeypatch):
    heard = []
    monkeypatch.setattr(progress.LoopBar, "_hear", lambda self, text, stage: heard.append(text))
    monkeypatch.setattr("trainkit.core.dispatch.slow_work.PATIENCE_SECONDS", 0.0)

    class Slow(tk.Sequential):
        def predict_step(self, data):
            with slow_work("thinking"):
                waits.wait(10)
            return super().predict_step(data)

    class Waits:
        def wait(self, seconds):
            import time

            end = time.monotonic() + seconds
            while not heard and time.monotonic() < end:
                pass

    waits = Waits()
    model = Slow([tk.Input((3,)), L.Dense(1)])
    model.run_eagerly = True
    model.predict(X)
    assert any("thinking" in text for text in heard)
    heard.clear()
    waits.wait = lambda seconds: None
    model.predict(X, verbose=0)
    assert not heard
