"""An epoch that waited for its data says for how long, and on which step of the pipeline."""

import re
import threading

import numpy as np
import pytest

import trainkit as tk
from trainkit.models.training import data_wait


class Looks:
    """Lets the data wait until somebody has looked what it waits for."""

    def __init__(self):
        self.done = threading.Event()
        self.needed = 0

    def wait(self):
        if self.needed:
            self.needed -= 1
            self.done.clear()
            assert self.done.wait(30)


@pytest.fixture
def looks(monkeypatch):
    found = Looks()
    look = data_wait.DataWait.look

    def note(self):
        look(self)
        found.done.set()

    monkeypatch.setattr(data_wait.DataWait, "look", note)
    monkeypatch.setattr(data_wait, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(data_wait, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(data_wait, "LEAST_SHARE", 0.0)
    monkeypatch.setattr(data_wait, "_SECONDS_BETWEEN_LOOKS", 0.001)
    return found


def fit(data, **arguments):
    model = tk.Sequential([tk.Input((3,)), tk.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(data, epochs=1, **arguments)
    return model


def elements():
    return tk.data.Dataset.from_tensor_slices((np.ones((12, 3), "f"), np.ones((12, 1), "f")))


def pipelines(looks):
    def slow(x, y):
        looks.wait()
        return x, y

    def slow_rows():
        for _ in range(6):
            looks.wait()
            yield np.ones((2, 3), "f"), np.ones((2, 1), "f")

    spec = (tk.TensorSpec((2, 3), "float32"), tk.TensorSpec((2, 1), "float32"))
    mapped = elements().map(lambda x, y: tk.py_function(slow, [x, y], ["float32", "float32"]))
    shaped = mapped.map(lambda x, y: (tk.ensure_shape(x, (3,)), tk.ensure_shape(y, (1,))))
    return {
        "map": (shaped.batch(2), r"Map \(wait, test_data_wait.py:\d+\)"),
        "prefetch": (shaped.batch(2).prefetch(1), r"Map \(wait, test_data_wait.py:\d+\)"),
        "generator": (
            tk.data.Dataset.from_generator(slow_rows, output_signature=spec),
            r"Generator \(wait, test_data_wait.py:\d+\)",
        ),
        "python": (slow_rows(), r"what gives the batches \(wait, test_data_wait.py:\d+\)"),
    }


@pytest.mark.parametrize("name", ["map", "prefetch", "generator", "python"])
def test_the_step_that_is_waited_for_is_named(looks, capsys, name):
    data, words = pipelines(looks)[name]
    # the first batch makes somebody look, later ones wait until that has been done
    count = iter(range(100))
    callback = tk.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: next(count) == 1 and setattr(looks, "needed", 1)
    )
    fit(data, callbacks=[callback], verbose=2)
    said = capsys.readouterr().out
    assert re.search(r"waited \d+\.\d s for data, \d+% of the epoch", said)
    if name != "prefetch":  # the thread may have been ahead
        assert re.search(rf"on .*{words}", said), said


def test_an_epoch_that_hardly_waits_says_nothing(capsys):
    fit(elements().batch(2), verbose=2)
    assert "waited" not in capsys.readouterr().out
    assert not [t for t in threading.enumerate() if t.name == "data-wait"]


def test_nobody_looks_on_after_an_error(looks):
    def broken():
        yield np.ones((2, 3), "f"), np.ones((2, 1), "f")
        yield np.ones((2, 3), "f"), np.ones((2, 1), "f")
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        fit(broken(), verbose=0)
    assert not [t for t in threading.enumerate() if t.name == "data-wait"]


def test_threads_that_work_ahead_are_looked_into():
    started, go_on = threading.Event(), threading.Event()

    def slow(x):
        started.set()
        go_on.wait(30)
        return x

    data = tk.data.Dataset.range(4).map(lambda x: tk.py_function(slow, [x], "int64")).prefetch(2)
    iterator = iter(data)
    consumer = threading.Thread(target=lambda: next(iterator))
    consumer.start()
    assert started.wait(30)
    import sys

    found = data_wait._step_at_work(sys._current_frames(), consumer.ident)
    go_on.set()
    consumer.join()
    assert re.fullmatch(r"Map \(slow, test_data_wait\.py:\d+\)", found)
