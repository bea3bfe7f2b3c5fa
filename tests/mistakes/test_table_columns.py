"""Tables of pandas: a column that is no number is named, with what to do about it."""

import numpy as np
import pytest

import trainkit as tk

layers = tk.layers


def frame(pandas, **columns):
    return pandas.DataFrame({"a": [1.0, 2.0], **columns})


COLUMNS = {
    "texts": (
        lambda pd: list("xy"),
        r"'c' holds texts: .*df\['c'\]\.astype\('category'\)\.cat\.codes",
    ),
    "texts and nothing": (lambda pd: ["x", None], "'c' holds texts"),
    "texts and numbers": (lambda pd: [1, "x"], "'c' holds texts"),
    "categories": (
        lambda pd: pd.Categorical(list("xy")),
        r"'c' holds categories: .*df\['c'\]\.cat\.codes",
    ),
    "dates": (lambda pd: pd.date_range("2020", periods=2), "'c' holds dates"),
    "dates in a zone": (lambda pd: pd.date_range("2020", periods=2, tz="UTC"), "'c' holds dates"),
    "times": (lambda pd: pd.to_timedelta([1, 2], unit="s"), r"total_seconds"),
    "NA": (
        lambda pd: pd.array([1, None], dtype="Int64"),
        r"no value in 1 of 2 rows: .*df\['c'\]\.fillna",
    ),
    "no bool": (lambda pd: pd.array([True, None], dtype="boolean"), "no value in 1 of 2 rows"),
    "objects": (lambda pd: [{}, 2], r"'c' holds objects, such as \{\}"),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_a_column_that_is_no_number_is_named(case):
    pandas = pytest.importorskip("pandas")
    column, text = COLUMNS[case]
    table = frame(pandas, c=column(pandas))
    model = tk.Sequential([layers.Dense(1)])
    model.compile("sgd", "mse")
    calls = [
        lambda: model.fit(table, np.zeros(2), verbose=0),
        lambda: model.predict(table, verbose=0),
        lambda: tk.data.Dataset.from_tensor_slices(table),
        lambda: tk.constant(table),
    ]
    for call in calls:
        with pytest.raises(tk.errors.InvalidArgumentError, match=text):
            call()


def test_tables_of_numbers_and_of_texts_are_taken():
    pd = pytest.importorskip("pandas")
    tables = [
        frame(pd, c=[True, False]),
        frame(pd, c=pd.array([1, 2], dtype="Int64")),
        frame(pd, c=[1.0, np.nan]),
        frame(pd, c=pd.Categorical([3, 4])),
        pd.Series([1, 2], name="s"),
    ]
    model = tk.Sequential([layers.Dense(1)])
    for table in tables:
        assert model.predict(table.iloc[:, :1] if table.ndim == 2 else table, verbose=0).size == 2
        tk.Sequential([layers.Dense(1)]).predict(table, verbose=0)
    texts = pd.DataFrame({"a": ["u", "v"], "b": pd.Categorical(["x", "y"])})
    assert tk.data.Dataset.from_tensor_slices(texts).element_spec.dtype == "string"
    assert tk.constant(texts["b"]).numpy().tolist() == [b"x", b"y"]
