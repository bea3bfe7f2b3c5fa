"""Tables become vectors, and a space comes back from its file with all it has learned."""

import numpy as np
import pytest

import trainkit as tk

K = tk.keras
FeatureSpace = K.utils.FeatureSpace
TABLE = {
    "f": [1.0, 2.0, 3.0, 4.0],
    "n": [1.0, 2.0, 3.0, 4.0],
    "d": [1.0, 2.0, 3.0, 4.0],
    "s": ["a", "b", "a", "c"],
    "i": [1, 2, 3, 4],
}
FEATURES = {
    "f": "float", "n": "float_normalized", "d": "float_discretized", "s": "string_categorical",
    "i": "integer_hashed",
}  # fmt: skip


def space(**settings):
    settings = {"crosses": [("s", "i")], "crossing_dim": 8, "hashing_dim": 5, **settings}
    return FeatureSpace(FEATURES, **settings)


def adapted(**settings):
    made = space(**settings)
    made.adapt(TABLE, verbose=0)
    return made


def row(number):
    return {name: values[number] for name, values in TABLE.items()}


def test_columns_stand_in_the_order_of_their_names_and_crosses_behind_them():
    found = np.asarray(adapted(num_discretization_bins=3)(TABLE))
    assert found.shape == (4, 3 + 1 + 5 + 1 + 4 + 8)
    np.testing.assert_array_equal(found[:, :3].sum(1), 1)  # d
    np.testing.assert_array_equal(found[:, 3], TABLE["f"])
    np.testing.assert_array_equal(found[:, 4:9].sum(1), 1)  # i
    np.testing.assert_allclose(found[:, 9].mean(), 0, atol=1e-6)  # n
    # "a" is the most frequent; the first number is for unknown texts
    assert found[:, 10:14].argmax(1).tolist() == [1, 3, 1, 2]
    np.testing.assert_array_equal(found[:, 14:].sum(1), 1)


@pytest.mark.parametrize(
    "data",
    [
        {name: np.array(values)[:, None] for name, values in TABLE.items()},
        {name: tk.constant(values) for name, values in TABLE.items()},
    ],
    ids=["columns", "tensors"],
)
def test_all_forms_of_a_table_give_the_same(data):
    made = adapted()
    np.testing.assert_array_equal(made(data), made(TABLE))


def test_a_row_is_a_vector():
    made = adapted()
    np.testing.assert_array_equal(made(row(2)), np.asarray(made(TABLE))[2])


@pytest.mark.parametrize("batch", [None, 3])
def test_datasets_are_learned_from_and_mapped(batch):
    rows = tk.data.Dataset.from_tensor_slices(TABLE)
    made = space()
    made.adapt(rows if batch is None else rows.batch(batch), verbose=0)
    wanted = np.asarray(adapted()(TABLE))
    np.testing.assert_allclose(made(TABLE), wanted, atol=1e-6)
    mapped = np.concatenate(list(rows.batch(2).map(made).as_numpy_iterator()))
    np.testing.assert_allclose(mapped, wanted, atol=1e-6)
    singly = np.stack(list(rows.map(made).as_numpy_iterator()))
    np.testing.assert_allclose(singly, wanted, atol=1e-6)


def test_each_feature_may_stay_apart():
    made = FeatureSpace(
        {"s": FeatureSpace.string_categorical(output_mode="int"), "i": "integer_categorical"},
        crosses=[FeatureSpace.cross(("s", "i"), crossing_dim=7, output_mode="int")],
        output_mode="dict",
    )
    made.adapt(TABLE, verbose=0)
    found = made(TABLE)
    assert {name: tuple(x.shape) for name, x in found.items()} == {
        "i": (4, 5), "s": (4, 1), "s_X_i": (4, 1),
    }  # fmt: skip
    assert found["s"].dtype.is_integer
    assert made(row(0))["s"].shape == (1,)


def test_a_layer_of_ones_own_takes_a_column():
    words = K.layers.StringLookup(vocabulary=["a", "b"], num_oov_indices=0)
    text = K.layers.TextVectorization(output_mode="tf_idf")
    made = FeatureSpace(
        {
            "s": FeatureSpace.feature("string", words, "one_hot"),
            "t": FeatureSpace.feature("string", text, "float"),
        }
    )
    table = {"s": ["a", "b"], "t": ["one two", "two"]}
    made.adapt(table, verbose=0)
    assert words.get_vocabulary() == ["a", "b"]
    assert made(table).shape == (2, 2 + 3)


def test_what_is_known_needs_no_adapting():
    made = FeatureSpace(
        {
            "n": FeatureSpace.feature(
                "float32", K.layers.Normalization(mean=2.0, variance=4.0), "float"
            ),
            "d": FeatureSpace.float_discretized(None, bin_boundaries=[2.0]),
            "r": FeatureSpace.float_rescaled(scale=2.0, offset=1.0),
        }
    )
    found = made({"n": [4.0], "d": [5.0], "r": [3.0]})
    assert np.asarray(found).tolist() == [[0.0, 1.0, 1.0, 7.0]]


def test_a_model_begins_with_the_columns(tmp_path):
    made = adapted()
    outputs = K.layers.Dense(1)(made.get_encoded_features())
    model = K.Model(made.get_inputs(), outputs)
    model.compile("sgd", "mse")
    rows = tk.data.Dataset.from_tensor_slices((TABLE, [0.0, 1.0, 0.0, 1.0]))
    model.fit(rows.batch(2), epochs=2, verbose=0)
    assert model.predict(rows.batch(2), verbose=0).shape == (4, 1)


def test_a_space_comes_back_from_its_file(tmp_path):
    made = adapted()
    made.save(tmp_path / "space.keras")
    again = K.models.load_model(tmp_path / "space.keras")
    np.testing.assert_array_equal(again(TABLE), made(TABLE))
    again.save(tmp_path / "second.keras")
    third = K.models.load_model(tmp_path / "second.keras")
    np.testing.assert_array_equal(third(row(1)), made(row(1)))


def test_learning_anew_forgets():
    made = adapted()
    made.adapt({**TABLE, "s": ["x", "y", "z", "x"]}, verbose=0)
    assert made.preprocessors["s"].get_vocabulary() == ["[UNK]", "x", "z", "y"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"features": {}}, "not empty"),
        ({"features": {"a": "floats"}}, "'float', .* got 'floats'"),
        ({"features": {"a": "float"}, "output_mode": "list"}, "output_mode"),
        ({"features": {"a": "float"}, "crosses": [("a", "b")]}, r"\['b'\], which are no features"),
        ({"features": {"a": "float"}, "crosses": [("a",)], "crossing_dim": None}, "crossing_dim"),
    ],
)
def test_what_does_not_fit_is_told(settings, words):
    with pytest.raises(ValueError, match=words):
        FeatureSpace(**settings)


def test_calls_that_do_not_fit_are_told():
    fresh = space()
    for call in (lambda: fresh(TABLE), fresh.get_inputs, fresh.get_encoded_features):
        with pytest.raises(ValueError, match=r"call adapt\(dataset\) before"):
            call()
    made = adapted()
    for data in ([1], {"f": [1.0]}):
        with pytest.raises(ValueError, match="takes a dict with"):
            made(data)
        with pytest.raises(ValueError, match="takes"):
            made.adapt(data)
    ints = FeatureSpace({"i": FeatureSpace.integer_hashed(3, output_mode="int")})
    with pytest.raises(ValueError, match="use output_mode='dict'"):
        ints({"i": [1]})
    with pytest.raises(ValueError, match="nobody knows how many"):
        FeatureSpace({"i": FeatureSpace.feature("int32", K.layers.Identity(), "one_hot")})(
            {"i": [1]}
        )
