"""`TimeseriesGenerator`: windows are those of Keras."""

import json

import numpy as np
import pytest

import trainkit as tk
from trainkit.keras.preprocessing.sequence import TimeseriesGenerator

STEPS = np.arange(40).reshape(20, 2)


def test_windows_and_targets():
    batches = TimeseriesGenerator(
        STEPS,
        np.arange(20),
        4,
        sampling_rate=2,
        stride=3,
        batch_size=2,
        start_index=1,
        end_index=17,
    )
    assert len(batches) == 3
    windows, targets = batches[2]
    assert windows.tolist() == [[[26, 27], [30, 31]]]
    assert targets.tolist() == [17]
    assert batches[0][0][:, :, 0].tolist() == [[2, 6], [8, 12]]


def test_windows_can_go_back_in_time():
    batches = TimeseriesGenerator(list(range(5)), list(range(5)), 2, reverse=True)
    assert batches[0][0].tolist() == [[1, 0], [2, 1], [3, 2]]


def test_windows_by_chance_come_from_numpys_generator():
    batches = TimeseriesGenerator(range(9), range(9), length=2, batch_size=4, shuffle=True)
    np.random.seed(0)
    ends = np.random.randint(2, 9, size=4)
    np.random.seed(0)
    windows, targets = batches[0]
    assert targets.tolist() == ends.tolist()
    assert (windows[:, 1] + 1 == ends).all()


def test_a_model_trains_on_it():
    series = np.arange(30, dtype="float32").reshape(-1, 1)
    batches = TimeseriesGenerator(series, series[:, 0], length=3, batch_size=5)
    model = tk.Sequential([tk.layers.Flatten(), tk.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(batches, epochs=1, verbose=0)
    assert model.predict(batches, verbose=0).shape == (27, 1)


def test_settings_as_json():
    batches = TimeseriesGenerator(STEPS, range(20), length=2, batch_size=7, workers=2)
    config = json.loads(batches.to_json())["config"]
    assert json.loads(config["data"]) == STEPS.tolist()
    assert config["batch_size"] == 7
    assert batches.workers == 2


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="data has 3 steps and targets has 2"):
        TimeseriesGenerator([1, 2, 3], [1, 2], length=1)
    with pytest.raises(ValueError, match="the first target would be step 5"):
        TimeseriesGenerator(range(5), range(5), length=5)
    with pytest.raises(ValueError, match="the last one 9, of 5 steps"):
        TimeseriesGenerator(range(5), range(5), length=1, end_index=9)
    with pytest.raises(ValueError, match="stride must be at least 1"):
        TimeseriesGenerator(range(5), range(5), length=1, stride=0)
