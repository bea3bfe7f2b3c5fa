"""Tables of pandas as data of `fit`, whole or column by column."""

import numpy as np
import pytest

import trainkit as tk

pandas = pytest.importorskip("pandas")

TABLE = pandas.DataFrame(
    {"age": [1.0, 2.0, 3.0, 4.0], "size": [4, 3, 2, 1], "name": ["a", "b", "a", "b"]}
)


def by_columns():
    inputs = {name: tk.Input((1,), name=name) for name in ("age", "size")}
    joined = tk.layers.Concatenate(axis=1)([inputs["age"], inputs["size"]])
    model = tk.Model(inputs, tk.layers.Dense(1)(joined))
    model.compile("sgd", "mse", metrics=["mae"])
    return model


@pytest.mark.parametrize("eagerly", [False, True])
def test_columns_by_name_are_matrices_of_one_column(eagerly):
    table = dict(TABLE[["age", "size"]])
    arrays = {name: column.to_numpy()[:, None] for name, column in table.items()}
    models = [by_columns(), by_columns()]
    models[1].set_weights(models[0].get_weights())
    for model, x, y in zip(
        models, (table, arrays), (TABLE["age"], TABLE["age"].to_numpy()), strict=True
    ):
        model.run_eagerly = eagerly
        model.fit(
            x, y, sample_weight=TABLE["size"], epochs=2, batch_size=2, shuffle=False, verbose=0
        )
    for a, b in zip(*(model.get_weights() for model in models), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    np.testing.assert_allclose(
        models[0].predict(table, verbose=0), models[1].predict(arrays, verbose=0), rtol=1e-6
    )


def test_a_whole_table_and_a_column_of_targets():
    model = tk.Sequential([tk.layers.Dense(3, activation="softmax")])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    targets = pandas.Series([0, 1, 2, 1])
    history = model.fit(TABLE[["age", "size"]], targets, verbose=0)
    assert np.isfinite(history.history["loss"][0])
    assert model.evaluate(TABLE[["age", "size"]], targets, verbose=0)[1] in (0, 0.25, 0.5, 0.75, 1)


def test_a_column_of_texts_is_a_matrix_of_one_column():
    model = tk.Sequential([tk.layers.StringLookup(vocabulary=["a", "b"], output_mode="one_hot")])
    assert model.predict(TABLE["name"], verbose=0).shape == (4, 3)


@pytest.mark.parametrize("table", [True, False], ids=["table", "array of objects"])
def test_a_column_of_bools_beside_numbers_is_a_column_of_numbers(table):
    mixed = pandas.DataFrame({"age": TABLE["age"], "size": TABLE["size"]})
    mixed["old"] = mixed["age"] > 2
    assert mixed.to_numpy().dtype == object
    model = tk.Sequential([tk.Input((3,)), tk.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = mixed if table else mixed.to_numpy()
    model.fit(x, TABLE["age"], verbose=0)
    numbers = mixed.to_numpy().astype("float32")
    np.testing.assert_allclose(
        model.predict(x, verbose=0), model.predict(numbers, verbose=0), rtol=1e-6
    )


def test_objects_that_are_no_numbers_are_refused():
    model = tk.Sequential([tk.Input((2,)), tk.layers.Dense(1)])
    for wrong in ([[1.0, None]], [[1.0, [2.0]]]):
        with pytest.raises(tk.errors.InvalidArgumentError, match="different lengths, or objects"):
            model.predict(np.array(wrong, dtype=object), verbose=0)
