"""`History.plot`: the numbers of the history as curves."""

import sys

import numpy as np
import pytest

import trainkit as tk

pyplot = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def _no_screen(monkeypatch):
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


def history(**more):
    model = tk.Sequential([tk.Input((4,)), tk.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"])
    x, y = np.ones((8, 4), np.float32), np.ones((8, 1), np.float32)
    return model.fit(x, y, epochs=4, verbose=0, validation_data=(x, y), **more)


def curves(axes):
    return {line.get_label(): line.get_xydata().T for line in axes.get_lines()}


def test_each_metric_has_a_curve_of_training_and_of_validation(tmp_path):
    found = history()
    figure = found.plot()
    assert [axes.get_title() for axes in figure.axes] == ["loss", "mae"]
    for axes in figure.axes:
        drawn = curves(axes)
        for label, prefix in (("training", ""), ("validation", "val_")):
            x, y = drawn[label]
            assert x.tolist() == [1, 2, 3, 4]
            assert y.tolist() == found.history[prefix + axes.get_title()]
    figure.savefig(tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 10_000


@pytest.mark.parametrize(("freq", "epochs"), [(2, [2, 4]), ([1, 4], [1, 4])], ids=str)
def test_a_validation_that_is_not_due_each_epoch(freq, epochs):
    found = history(validation_freq=freq)
    assert curves(found.plot(["mae"]).axes[0])["validation"][0].tolist() == epochs


def test_a_restored_history_can_be_drawn():
    found = history(validation_freq=2)
    restored = tk.callbacks.History()
    restored.load_state_arrays(found.state_arrays())
    assert curves(restored.plot(["loss"]).axes[0])["validation"][0].tolist() == [2, 4]


def test_a_figure_can_be_given():
    figure = pyplot.figure()
    assert history().plot(["loss"], figure=figure) is figure
    assert len(figure.axes) == 1


def test_what_is_not_there_is_said(monkeypatch):
    with pytest.raises(ValueError, match="no epoch has ended"):
        tk.callbacks.History().plot()
    with pytest.raises(ValueError, match="there is no 'accuracy'; the history has loss, mae"):
        history().plot(["accuracy"])
    found = history()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'matplotlib>=3\.8'"):
        found.plot()
