"""Mistakes that are written alike for Keras and for trainkit: each is a function of the library.

The name of a function is the mistake in words. What a case makes is thrown away; what counts is the
error that it ends with, or the warnings that it gives.
"""

# ruff: noqa: D103 - the name of each function says all

import os
import tempfile

import numpy as np

RNG = np.random.default_rng(0)
X = RNG.normal(size=(64, 8)).astype("float32")
BINARY = (X[:, 0] > 0).astype("float32")
CLASS = np.arange(64) % 3
SERIES = RNG.normal(size=(4, 10, 3)).astype("float32")
CASES = {}


def case(family):
    """Enter a function under its name and family."""

    def enter(function):
        CASES[function.__name__.replace("_", " ")] = (family, function)
        return function

    return enter


def _fit(k, *layers, y=BINARY, x=X, loss="mse", metrics=None, **settings):
    model = k.Sequential([k.Input((8,)), *layers])
    model.compile("adam", loss, metrics=metrics)
    return model.fit(x, y, verbose=0, **settings)


def _with(value):
    x = X.copy()
    x[2, 3] = value
    return x


# ------------------------------------------------------------------ shapes


@case("Shapes")
def inputs_of_another_width(k):
    k.Sequential([k.Input((10,)), k.layers.Dense(1)]).predict(X, verbose=0)


@case("Shapes")
def a_layer_built_for_another_width(k):
    layer = k.layers.Dense(4)
    layer(X)
    layer(X[:, :5])


@case("Shapes")
def a_matrix_product_that_does_not_fit(k):
    k.ops.matmul(X, np.ones((5, 2), "float32"))


@case("Shapes")
def a_sum_that_does_not_broadcast(k):
    k.ops.add(X, np.ones((64, 5), "float32"))


@case("Shapes")
def one_image_without_its_batch_axis(k):
    model = k.Sequential([k.Input((8, 8, 1)), k.layers.Conv2D(2, 3), k.layers.Flatten()])
    model.predict(np.zeros((8, 8, 1), "float32"), verbose=0)


@case("Shapes")
def images_without_channels(k):
    k.layers.Conv2D(2, 3)(np.zeros((4, 8, 8), "float32"))


@case("Shapes")
def a_kernel_larger_than_the_image(k):
    k.layers.Conv2D(2, 5)(np.zeros((1, 3, 3, 1), "float32"))


@case("Shapes")
def a_recurrent_layer_on_the_last_step_of_another(k):
    k.Sequential([k.layers.LSTM(4), k.layers.LSTM(4)])(SERIES)


@case("Shapes")
def a_mask_longer_than_the_sequence(k):
    k.layers.LSTM(4)(SERIES, mask=np.ones((4, 12), bool))


@case("Shapes")
def a_mask_shorter_than_the_sequence(k):
    k.layers.LSTM(4)(SERIES, mask=np.ones((4, 7), bool))


@case("Shapes")
def attention_on_two_axes(k):
    k.layers.MultiHeadAttention(2, 4)(X, X)


@case("Shapes")
def a_reshape_that_does_not_divide(k):
    k.layers.Reshape((3, 3))(X)


@case("Shapes")
def a_concatenation_of_other_sizes(k):
    k.layers.Concatenate()([X, X[:32]])


@case("Shapes")
def a_word_beyond_the_embedding(k):
    k.layers.Embedding(10, 4)(np.array([[1, 99]]))


@case("Shapes")
def two_arrays_of_other_lengths(k):
    _fit(k, k.layers.Dense(1), y=BINARY[:50])


@case("Shapes")
def outputs_that_do_not_fit_the_targets(k):
    _fit(k, k.layers.Dense(3), y=np.ones((64, 2), "float32"))


@case("Shapes")
def a_shape_with_a_float(k):
    k.layers.Dense(3.5)(X)


# ------------------------------------------------------------------ losses and metrics


@case("Losses and metrics")
def a_label_beyond_the_classes(k):
    _fit(k, k.layers.Dense(2, "softmax"), y=CLASS, loss="sparse_categorical_crossentropy")


@case("Losses and metrics")
def logits_where_probabilities_are_taken(k):
    _fit(k, k.layers.Dense(1), loss="binary_crossentropy")


@case("Losses and metrics")
def probabilities_where_logits_are_taken(k):
    loss = k.losses.BinaryCrossentropy(from_logits=True)
    _fit(k, k.layers.Dense(1, "sigmoid"), loss=loss)


@case("Losses and metrics")
def softmax_over_one_unit(k):
    _fit(k, k.layers.Dense(1, "softmax"), loss="binary_crossentropy")


@case("Losses and metrics")
def relu_before_a_crossentropy(k):
    _fit(k, k.layers.Dense(3, "relu"), y=CLASS, loss="sparse_categorical_crossentropy")


@case("Losses and metrics")
def sigmoid_of_classes_that_exclude_one_another(k):
    _fit(k, k.layers.Dense(3, "sigmoid"), y=CLASS, loss="sparse_categorical_crossentropy")


@case("Losses and metrics")
def labels_of_one_and_two(k):
    _fit(k, k.layers.Dense(1, "sigmoid"), y=BINARY + 1, loss="binary_crossentropy")


@case("Losses and metrics")
def numbers_of_classes_for_one_hot_targets(k):
    _fit(k, k.layers.Dense(3, "softmax"), y=CLASS, loss="categorical_crossentropy")


@case("Losses and metrics")
def a_curve_of_scores_beyond_one(k):
    k.metrics.AUC().update_state([0, 1, 1, 0], [3.0, 5.0, -1.0, -2.0])


@case("Losses and metrics")
def a_loss_that_is_misspelt(k):
    _fit(k, k.layers.Dense(1), loss="mean_squared_eror")


@case("Losses and metrics")
def a_metric_that_is_misspelt(k):
    _fit(k, k.layers.Dense(1), metrics=["acuracy"])


@case("Losses and metrics")
def a_loss_that_is_no_number_for_each_sample(k):
    _fit(k, k.layers.Dense(1), loss=lambda y, p: None)


# ------------------------------------------------------------------ training


def _with_step(k, step):
    """A compiled model whose step is the user's."""

    class Model(k.Model):
        def __init__(self):
            super().__init__()
            self.dense = k.layers.Dense(1)

        def call(self, x):
            return self.dense(x)

        train_step = step

    model = Model()
    model.compile("adam", "mse")
    return model


@case("Training")
def a_train_step_that_returns_nothing(k):
    _with_step(k, lambda self, *args: None).fit(X, BINARY, verbose=0)


@case("Training")
def fit_before_compile(k):
    k.Sequential([k.Input((8,)), k.layers.Dense(1)]).fit(X, BINARY, verbose=0)


@case("Training")
def a_model_whose_weights_are_all_frozen(k):
    model = k.Sequential([k.Input((8,)), k.layers.Dense(1)])
    model.trainable = False
    model.compile("adam", "mse")
    model.fit(X, BINARY, verbose=0)


@case("Training")
def one_optimizer_for_two_models(k):
    optimizer = k.optimizers.Adam()
    for _ in range(2):
        model = k.Sequential([k.Input((8,)), k.layers.Dense(1)])
        model.compile(optimizer, "mse")
        model.fit(X, BINARY, verbose=0)


@case("Training")
def an_optimizer_that_is_misspelt(k):
    k.Sequential([k.layers.Dense(1)]).compile("adamm", "mse")


@case("Training")
def a_misspelt_argument_of_fit(k):
    _fit(k, k.layers.Dense(1), epoch=3)


@case("Training")
def epochs_as_a_text(k):
    _fit(k, k.layers.Dense(1), epochs="3")


@case("Training")
def a_batch_size_of_three_and_a_half(k):
    _fit(k, k.layers.Dense(1), batch_size=3.5)


@case("Training")
def a_class_without_a_weight(k):
    _fit(
        k, k.layers.Dense(3, "softmax"), y=CLASS, loss="sparse_categorical_crossentropy",
        class_weight={0: 1.0, 1: 2.0},
    )  # fmt: skip


@case("Training")
def a_negative_learning_rate(k):
    k.optimizers.Adam(-0.1)


@case("Training")
def early_stopping_on_a_metric_that_is_not_there(k):
    stopping = k.callbacks.EarlyStopping(monitor="val_los")
    _fit(k, k.layers.Dense(1), callbacks=[stopping], validation_data=(X, BINARY))


@case("Training")
def a_callback_that_is_a_class(k):
    _fit(k, k.layers.Dense(1), callbacks=[k.callbacks.EarlyStopping])


@case("Training")
def a_subclass_that_does_not_call_its_base(k):
    class Model(k.Model):
        def __init__(self):
            self.dense = k.layers.Dense(1)

    Model().compile("adam", "mse")


# ------------------------------------------------------------------ data


@case("Data")
def NaN_in_what_is_trained_on(k):
    _fit(k, k.layers.Dense(1), x=_with(np.nan))


@case("Data")
def NaN_in_validation_data(k):
    _fit(k, k.layers.Dense(1), validation_data=(_with(np.nan), BINARY))


@case("Data")
def inf_in_validation_data(k):
    _fit(k, k.layers.Dense(1), validation_data=(_with(np.inf), BINARY))


@case("Data")
def labels_that_are_texts(k):
    y = np.array(["cat", "dog"] * 32)
    _fit(k, k.layers.Dense(2, "softmax"), y=y, loss="sparse_categorical_crossentropy")


def _table(column):
    import pandas

    return pandas.DataFrame({"a": X[:, 0], "city": column(pandas)})


def _fit_table(k, column):
    model = k.Sequential([k.layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(_table(column), BINARY, verbose=0)


@case("Data")
def a_column_of_texts(k):
    _fit_table(k, lambda pandas: ["Rome", "Oslo"] * 32)


@case("Data")
def a_column_of_categories(k):
    _fit_table(k, lambda pandas: pandas.Categorical(["Rome", "Oslo"] * 32))


@case("Data")
def a_column_of_dates(k):
    _fit_table(k, lambda pandas: pandas.date_range("2020", periods=64))


@case("Data")
def a_column_with_missing_values(k):
    _fit_table(k, lambda pandas: pandas.array([1, None] * 32, dtype="Int64"))


@case("Data")
def lists_of_other_lengths(k):
    k.ops.convert_to_tensor([[1.0, 2.0], [3.0]])


# ------------------------------------------------------------------ names, models and files


@case("Names, models and files")
def a_layer_that_is_misspelt(k):
    k.layers.Dens(3)


@case("Names, models and files")
def an_activation_that_is_misspelt(k):
    k.layers.Dense(3, activation="rellu")


@case("Names, models and files")
def an_argument_of_a_layer_that_is_misspelt(k):
    k.layers.Dense(3, activaton="relu")


@case("Names, models and files")
def a_layer_class_in_place_of_a_layer(k):
    k.Sequential([k.layers.Dense])


@case("Names, models and files")
def inputs_that_the_outputs_do_not_come_from(k):
    a, b = k.Input((2,)), k.Input((2,))
    k.Model(a, k.layers.Dense(1)(b))


@case("Names, models and files")
def a_model_saved_before_it_is_built(k):
    model = k.Sequential([k.layers.Dense(1)])
    model.save_weights(os.path.join(tempfile.mkdtemp(), "m.weights.h5"))


@case("Names, models and files")
def a_folder_that_cannot_be_written_to(k):
    k.Sequential([k.Input((2,)), k.layers.Dense(1)]).save("/proc/model.keras")


@case("Names, models and files")
def weights_of_another_model(k):
    path = os.path.join(tempfile.mkdtemp(), "m.weights.h5")
    k.Sequential([k.Input((8,)), k.layers.Dense(4)]).save_weights(path)
    k.Sequential([k.Input((8,)), k.layers.Dense(5)]).load_weights(path)


@case("Names, models and files")
def a_layer_of_36_TiB(k):
    k.Sequential([k.Input((3_000_000,)), k.layers.Dense(3_000_000)])
