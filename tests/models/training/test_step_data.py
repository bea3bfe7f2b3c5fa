"""What a step is given: as many parts as the user gave, nested as the user nested them."""

import collections

import numpy as np
import pytest

import trainkit as tk
from trainkit import keras

X = np.arange(8, dtype="float32").reshape(4, 2)
Y = np.ones((4, 1), "float32")
W = np.ones(4, "float32")
Pair = collections.namedtuple("Pair", "right left")


def form(data):
    """The nest with shapes in place of tensors."""
    return keras.tree.map_structure(lambda x: tuple(x.shape), data)


class Notes(tk.Model):
    """Notes the form of what its steps are given."""

    def __init__(self):
        super().__init__()
        self.dense = tk.layers.Dense(1)
        self.seen = []
        self.compile("sgd", "mse", run_eagerly=True)

    def _note(self, data):
        self.__dict__.setdefault("forms", []).append(form(data))
        return {"loss": tk.zeros(())}

    def train_step(self, data):
        return self._note(data)

    def test_step(self, data):
        return self._note(data)

    def predict_step(self, data):
        self._note(data)
        return tk.zeros((4, 1))


def seen(method, *args, **kwargs):
    model = Notes()
    getattr(model, method)(*args, **kwargs)
    (only,) = {repr(f): f for f in model.__dict__["forms"]}.values()
    return only


def dataset(parts):
    return tk.data.Dataset.from_tensor_slices(parts).batch(4)


FIT = {
    "x": ((X,), {}, (4, 2)),
    "x and y": ((X, Y), {}, ((4, 2), (4, 1))),
    "x, y and weights": ((X, Y), {"sample_weight": W}, ((4, 2), (4, 1), (4,))),
    "class weights": ((X, Y), {"class_weight": {1: 2.0}}, ((4, 2), (4, 1), (4,))),
    "a list": (([X, X],), {}, ([(4, 2), (4, 2)],)),
    "a tuple": (((X, X),), {}, (((4, 2), (4, 2)),)),
    "a dict": (({"b": X, "a": Y},), {}, {"b": (4, 2), "a": (4, 1)}),
    "dicts": (({"b": X}, {"z": Y, "c": W}), {}, ({"b": (4, 2)}, {"z": (4, 1), "c": (4,)})),
    "nested": (([X, {"k": (Y, W)}], Y), {}, ([(4, 2), {"k": ((4, 1), (4,))}], (4, 1))),
    "a named tuple": ((Pair(X, Y), Y), {}, (Pair((4, 2), (4, 1)), (4, 1))),
    "an input left out": (([X, None], Y), {}, ([(4, 2), None], (4, 1))),
}  # fmt: skip


@pytest.mark.parametrize("case", [*FIT])
def test_arrays(case):
    args, more, wanted = FIT[case]
    if case == "an input left out":
        wanted = repr(wanted)
        model = Notes()
        model._note = lambda data: model.__dict__.setdefault("d", []).append(data) or {"loss": 0.0}
        model.fit(*args, verbose=0)
        (x, none), y = model.__dict__["d"][0]
        assert none is None
        assert form((x, y)) == ((4, 2), (4, 1))
        return
    assert seen("fit", *args, verbose=0, **more) == wanted


BATCHES = {
    "x alone": (X, (4, 2)),
    "a tuple of one": ((X,), ((4, 2),)),
    "a pair": ((X, Y), ((4, 2), (4, 1))),
    "three": ((X, Y, W), ((4, 2), (4, 1), (4,))),
    "a dict": ({"b": X, "a": Y}, {"b": (4, 2), "a": (4, 1)}),
    "a dict and y": (({"b": X, "a": Y}, Y), ({"b": (4, 2), "a": (4, 1)}, (4, 1))),
}


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
@pytest.mark.parametrize("case", BATCHES)
def test_data_sets_and_generators(method, case):
    batch, wanted = BATCHES[case]
    assert seen(method, dataset(batch), verbose=0) == wanted
    assert seen(method, (b for b in [batch]), verbose=0) == wanted


def test_a_list_from_a_generator_is_a_pair():
    assert seen("fit", (b for b in [[X, Y]]), verbose=0) == ((4, 2), (4, 1))
    with pytest.raises(ValueError, match="4 parts"):
        Notes().fit((b for b in [[X, Y, W, W]]), verbose=0)


def test_class_weights_make_a_third_part():
    wanted = ((4, 2), (4, 1), (4,))
    assert seen("fit", dataset((X, Y)), class_weight={1: 2.0}, verbose=0) == wanted


def test_single_batches():
    assert seen("train_on_batch", X, Y) == seen("test_on_batch", X, Y) == ((4, 2), (4, 1))
    assert seen("train_on_batch", X, Y, W) == ((4, 2), (4, 1), (4,))
    assert seen("train_on_batch", X, Y, class_weight={1: 3.0}) == ((4, 2), (4, 1), (4,))
    assert seen("predict_on_batch", X) == (4, 2)


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        ((X, Y), ((4, 2), (4, 1))),
        ([X, Y], ((4, 2), (4, 1))),
        ((X, Y, W), ((4, 2), (4, 1), (4,))),
        ((X,), (4, 2)),
        (X, (4, 2)),
        (([X, X], {"z": Y, "a": Y}), ([(4, 2), (4, 2)], {"z": (4, 1), "a": (4, 1)})),
    ],
)
def test_validation_data(data, wanted):
    model = Notes()
    model.fit(X, Y, validation_data=data, verbose=0)
    assert model.__dict__["forms"] == [((4, 2), (4, 1)), wanted]


def test_validation_split_keeps_the_parts():
    model = Notes()
    model.fit({"b": X, "a": Y}, validation_split=0.5, verbose=0)
    assert model.__dict__["forms"] == [{"b": (2, 2), "a": (2, 1)}] * 2


@pytest.mark.parametrize("eagerly", [False, True])
def test_the_step_of_the_guides_trains(eagerly):
    class Own(tk.Model):
        def train_step(self, data):
            x, y = data
            with tk.GradientTape() as tape:
                y_pred = self(x, training=True)
                loss = self.compute_loss(y=y, y_pred=y_pred)
            grads = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply(grads, self.trainable_variables)
            for metric in self.metrics:
                if metric.name == "loss":
                    metric.update_state(loss)
                else:
                    metric.update_state(y, y_pred)
            return {m.name: m.result() for m in self.metrics}

    def trained(kind):
        inputs = tk.Input((2,))
        model = kind(inputs, tk.layers.Dense(1, kernel_initializer="ones")(inputs))
        model.compile(tk.optimizers.SGD(0.01), "mse", run_eagerly=eagerly)
        history = model.fit(X, Y, epochs=5, batch_size=4, shuffle=False, verbose=0)
        return history.history["loss"], model.get_weights()

    ours, builtin = trained(Own), trained(tk.Model)
    np.testing.assert_allclose(ours[0], builtin[0], rtol=1e-5)
    np.testing.assert_allclose(ours[1][0], builtin[1][0], rtol=1e-5)


def test_unpack_and_pack_are_each_others_inverse():
    unpack, pack = keras.utils.unpack_x_y_sample_weight, keras.utils.pack_x_y_sample_weight
    assert unpack((X,)) == (X, None, None)
    assert unpack(X)[0] is X
    assert unpack([X, Y])[1] is Y
    assert unpack((X, Y, W))[2] is W
    assert pack(X) is X
    assert pack((X, X))[0][1] is X
    assert [len(pack(*parts)) for parts in (((X, X),), (X, Y), (X, Y, W))] == [1, 2, 3]
    for bad in ((), (X, Y, W, W)):
        with pytest.raises(ValueError, match=f"got {len(bad)} parts"):
            unpack(bad)
