"""What `fit` says of mistakes that are often made."""

import re

import numpy as np
import pytest

import trainkit as tk

L = tk.layers
X = np.ones((8, 3), "float32")
Y = np.ones((8, 1), "float32")


class Forgets(L.Layer):
    def call(self, x):
        x + 1


def compiled(model):
    model.compile("sgd", "mse")
    return model


@pytest.mark.parametrize("eagerly", [False, True])
def test_nan_in_the_data_is_found(eagerly):
    x = X.copy()
    x[2, 1] = np.nan
    model = tk.Sequential([L.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=eagerly)
    with pytest.warns(UserWarning, match=r"x has NaN in 1 of 24 places, \[2, 1\] first"):
        model.fit(x, Y, epochs=2, verbose=0)
    y = Y.copy()
    y[5:] = np.nan
    with pytest.warns(UserWarning, match=r"y has NaN in 3 of 8 places, \[5, 0\] first"):
        compiled(tk.Sequential([L.Dense(1)])).fit({"a": X}["a"], y, verbose=0)


def test_a_layer_without_return_is_named():
    class Holds(tk.Model):
        def __init__(self):
            super().__init__()
            self.first, self.last = Forgets(name="mine"), L.Dense(1)

        def call(self, x):
            return self.last(self.first(x))

    with pytest.raises(ValueError, match=r"called on None: 'mine' \(Forgets\) gave nothing"):
        compiled(Holds()).fit(X, Y, verbose=0)
    with pytest.raises(ValueError, match="called on None"):
        compiled(tk.Sequential([Forgets(name="mine"), L.Dense(1)])).fit(X, Y, verbose=0)


@pytest.mark.parametrize("method", ["fit", "evaluate"])
def test_a_model_without_return_is_named(method):
    class Model(tk.Model):
        def __init__(self):
            super().__init__(name="net")
            self.dense = L.Dense(1)

        def call(self, x):
            self.dense(x)

    with pytest.raises(ValueError, match=r"'net' gave None: does Model\.call end with"):
        getattr(compiled(Model()), method)(X, Y, verbose=0)


def test_a_misspelt_argument_of_a_layer_has_its_nearest():
    with pytest.raises(TypeError, match=r"activaton \(did you mean 'activation'\?\)"):
        L.Dense(1, activaton="relu")
    with pytest.raises(TypeError, match=r"retrun_sequences \(did you mean 'return_sequences'\?\)"):
        L.LSTM(2, retrun_sequences=True)
    with pytest.raises(TypeError, match=r"does not have: zzz$"):
        L.Dense(1, zzz=1)


@pytest.mark.parametrize("weights", [{"a": 1.0}, [1.0, 2.0], {0: "much"}])
def test_class_weights_are_checked(weights):
    with pytest.raises(ValueError, match="class_weight must be a dict"):
        compiled(tk.Sequential([L.Dense(1)])).fit(X, Y, class_weight=weights, verbose=0)


def test_class_numbers_may_be_text():
    losses = [
        compiled(tk.Sequential([tk.Input((3,)), L.Dense(1, kernel_initializer="ones")]))
        .fit(X, Y, class_weight={key: 0.5}, verbose=0)
        .history["loss"]
        for key in (1, "1")
    ]
    assert losses[0] == losses[1]


def test_submodules_are_all_layers_inside():
    inner = tk.Sequential([L.Dense(2), L.Dense(2)], name="inner")
    model = tk.Sequential([tk.Input((3,)), inner, L.Dense(1)])
    dense = [part for part in model.submodules if isinstance(part, L.Dense)]
    assert len(dense) == 3
    assert inner in model.submodules
    assert model not in model.submodules


def test_validation_data_without_a_batch_warns_and_training_goes_on():
    model = tk.Sequential([tk.keras.Input((2,)), tk.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"])
    x, y = np.ones((8, 2), "float32"), np.ones((8, 1), "float32")
    empty = tk.data.Dataset.from_tensor_slices((x, y)).take(0).batch(4)
    with pytest.warns(UserWarning, match="evaluate: the data has no batches"):
        history = model.fit(x, y, epochs=1, verbose=0, validation_data=empty)
    assert sorted(history.history) == ["loss", "mae"]
    with pytest.warns(UserWarning, match="evaluate: the data has no batches"):
        assert model.evaluate(empty, verbose=0) == []
    with pytest.raises(ValueError, match="predict: the data has no batches"):
        model.predict(empty, verbose=0)


@pytest.mark.parametrize("steps", [None, 2])
def test_a_generator_without_a_batch_is_refused(steps):
    model = compiled(tk.Sequential([tk.Input((3,)), L.Dense(1)]))
    with pytest.raises(ValueError, match="evaluate: the data has no batches; give a new generator"):
        model.evaluate((batch for batch in ()), steps=steps, verbose=0)
    with pytest.raises(ValueError, match="evaluate: the validation data has no batches"):
        model.fit(X, Y, validation_data=(batch for batch in ()), validation_steps=steps, verbose=0)
    with pytest.raises(ValueError, match="predict: the data has no batches"):
        model.predict((batch for batch in ()), steps=steps, verbose=0)
    with pytest.raises(ValueError, match="fit: the data has no batches"):
        model.fit((batch for batch in ()), steps_per_epoch=steps, verbose=0)


_CALLED_ON_NONE = {
    "dense": lambda: L.Dense(1, name="asked"),
    "a model": lambda: tk.Sequential([tk.Input((3,)), L.Dense(1)], name="asked"),
    "pooling": lambda: L.GlobalAveragePooling2D(name="asked"),
    "rectifier": lambda: L.ReLU(name="asked"),
}


@pytest.mark.parametrize("name", _CALLED_ON_NONE)
def test_what_is_called_on_none_says_so_and_what_to_pass(name):
    asked = _CALLED_ON_NONE[name]()
    if name == "dense":
        asked(tk.ones((2, 3)))
    with pytest.raises(ValueError, match=r"'asked' \(\w+\) was called on None: pass it a tensor"):
        asked(None)


_X = tk.ones((2, 4, 3))
_NONE_AMONG_ARGUMENTS = {
    "merging": (lambda: L.Add(name="asked"), ([_X, None],), "inputs[1]"),
    "a list for one tensor": (lambda: L.Dense(1, name="asked"), ([None],), "inputs[0]"),
    "attention": (lambda: L.MultiHeadAttention(2, 4, name="asked"), (_X, None), "value"),
    "states": (lambda: L.LSTMCell(2, name="asked"), (_X[0], [None, None]), "states[0], states[1]"),
}


@pytest.mark.parametrize("name", _NONE_AMONG_ARGUMENTS)
def test_none_among_the_arguments_of_a_layer_is_named(name):
    make, args, places = _NONE_AMONG_ARGUMENTS[name]
    text = rf"'asked' \(\w+\) was called with None as {re.escape(places)}: pass a tensor"
    asked = make()
    for _ in range(2):  # again after a first call that failed
        with pytest.raises(ValueError, match=text):
            asked(*args)
    if name in ("merging", "attention"):
        asked(*([_X, _X],) if name == "merging" else (_X, _X))
        with pytest.raises(ValueError, match=text):
            asked(*args)


def test_none_for_an_argument_that_may_be_none_is_not_blamed():
    class Holds(tk.Layer):
        def call(self, x, mask=None):
            return self.missing.shape

    layer = Holds(name="asked")
    layer.missing = None
    with pytest.raises(AttributeError, match="NoneType"):
        layer(_X, None)


def test_none_in_place_of_targets_or_predictions_is_named():
    loss = tk.losses.MeanSquaredError(name="asked")
    for args, part in (((None, _X), "y_true"), ((_X, None), "y_pred")):
        with pytest.raises(ValueError, match=f"loss 'asked' was called with None as {part}"):
            loss(*args)
        with pytest.raises(ValueError, match=r"can't make a tensor of None .*pass a number"):
            tk.metrics.MeanSquaredError().update_state(*args)


def test_the_outermost_that_was_called_on_none_is_named():
    block = tk.Sequential([tk.Input((3,)), L.Dense(1)], name="block")

    class Holds(tk.Model):
        def __init__(self):
            super().__init__()
            self.block = block

        def call(self, x):
            return self.block(None)

    with pytest.raises(ValueError, match=r"'block'.*called on None: the layer before it gave"):
        Holds()(tk.ones((2, 3)))


def test_an_error_of_its_own_of_a_layer_that_takes_none_stays():
    class Optional(tk.Layer):
        def call(self, x):
            raise AttributeError("of its own") if x is None else ValueError

    layer = Optional()
    layer.built = True
    with pytest.raises(AttributeError, match="of its own"):
        layer(None)
