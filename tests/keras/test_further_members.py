"""Members of callbacks, metrics, layers and symbols that Keras 3 has; the values are its own."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import keras


def _fitted(callback, epochs=4):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"])
    x = np.ones((4, 1), "float32")
    return model.fit(x, x, epochs=epochs, verbose=0, callbacks=[callback])


def test_early_stopping_compares_what_a_class_of_ones_own_gives():
    class ByEpoch(keras.callbacks.EarlyStopping):
        def get_monitor_value(self, logs):
            assert {"loss", "mae"} <= set(logs)
            return 5.0

    history = _fitted(ByEpoch(monitor="loss", mode="min", patience=2), epochs=9)
    assert len(history.epoch) == 3
    stop = keras.callbacks.EarlyStopping()
    assert stop.get_monitor_value({"val_loss": 1.0}) == 1.0


def test_a_plateau_tells_whether_it_cools_down():
    class Seen(keras.callbacks.ReduceLROnPlateau):
        def on_epoch_end(self, epoch, logs=None):
            super().on_epoch_end(epoch, logs)
            seen.append(self.in_cooldown())

    seen = []
    plateau = Seen(monitor="loss", patience=1, cooldown=2, min_delta=1e9)
    assert plateau.in_cooldown() is False
    _fitted(plateau, epochs=6)
    assert seen == [False, True, True, True, True, True]


def test_what_tells_that_one_value_is_better():
    for kind in (
        keras.callbacks.EarlyStopping,
        keras.callbacks.ReduceLROnPlateau,
        lambda **kwargs: keras.callbacks.ModelCheckpoint("a.keras", **kwargs),
    ):
        assert kind(monitor="val_loss", mode="min").monitor_op is tk.ops.less
        assert kind(monitor="val_loss", mode="max").monitor_op is tk.ops.greater


def test_a_callback_list_keeps_what_it_hands_on():
    one, model = keras.callbacks.Callback(), keras.Sequential()
    callbacks = keras.callbacks.CallbackList([one], model=model, epochs=3)
    assert callbacks.model is model
    assert callbacks.params == one.params == {"epochs": 3}
    callbacks.set_params({"epochs": 4})
    assert callbacks.params == one.params == {"epochs": 4}
    empty = keras.callbacks.CallbackList([])
    assert (empty.model, empty.params) == (None, {})


def test_metrics_tell_their_axis_and_bound():
    assert keras.metrics.F1Score().axis == 0
    assert keras.metrics.FBetaScore(average="macro").axis == 0
    assert keras.metrics.FBetaScore(average="micro").axis is None
    for kind in (
        keras.metrics.PrecisionAtRecall,
        keras.metrics.RecallAtPrecision,
        keras.metrics.SensitivityAtSpecificity,
        keras.metrics.SpecificityAtSensitivity,
    ):
        assert kind(0.3).value == 0.3


@pytest.mark.parametrize(
    ("layer", "size", "single"),
    [
        (lambda: keras.layers.SimpleRNN(3), [3], True),
        (lambda: keras.layers.GRU(3), [3], True),
        (lambda: keras.layers.LSTM(3), [3, 3], False),
        (
            lambda: keras.layers.RNN([keras.layers.GRUCell(2), keras.layers.LSTMCell(3)]),
            [2, [3, 3]],
            False,
        ),
    ],
)
def test_recurrent_layers_tell_the_size_of_their_state(layer, size, single):
    assert layer().state_size == size
    assert layer().single_state is single


def test_symbols_are_reshaped_and_squeezed():
    x = keras.Input((4, 1))
    assert tuple(x.reshape((-1, 4)).shape) == (None, 4)
    assert tuple(x.squeeze(-1).shape) == (None, 4)
    model = keras.Model(x, x.squeeze(-1) + x.reshape((-1, 4)))
    np.testing.assert_array_equal(model(np.ones((2, 4, 1))), np.full((2, 4), 2))


def test_layers_of_images_change_one_image_and_what_belongs_to_it():
    flip = keras.layers.RandomFlip("horizontal", seed=1, bounding_box_format="xyxy")
    images = np.arange(2 * 4 * 4 * 3, dtype="float32").reshape(2, 4, 4, 3)
    drawn = flip.get_random_transformation(images[:1], training=True)
    one = flip.transform_single_image(images[0], drawn, training=True)
    many = flip.transform_images(images[:1], drawn, training=True)
    np.testing.assert_array_equal(one, many[0])
    mask = np.arange(16, dtype="int32").reshape(4, 4, 1)
    np.testing.assert_array_equal(
        flip.transform_single_segmentation_mask(mask, drawn),
        flip.transform_segmentation_masks(mask[None], drawn)[0],
    )
    assert int(flip.transform_single_label(tk.constant(3), drawn)) == 3
    boxes = {"boxes": np.array([[0.0, 1.0, 2.0, 3.0]], "float32"), "labels": np.array([1])}
    found = flip.transform_single_bounding_box(boxes, drawn)
    batch = {name: value[None] for name, value in boxes.items()}
    wanted = flip.transform_bounding_boxes(batch, drawn)
    np.testing.assert_array_equal(found["boxes"], wanted["boxes"][0])
