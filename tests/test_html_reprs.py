"""What notebooks show of tensors, models, histories and data sets: sound HTML, all escaped."""

from html.parser import HTMLParser

import numpy as np
import pytest

import trainkit as tk

EVIL = "<img src=x onerror=alert(1)>\"'&"


class Reader(HTMLParser):
    """Reads HTML, and fails where an element is not closed in its turn."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text = [], [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.tags.append(tag)
        assert not any(name.startswith("on") for name, _ in attributes)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def shown(thing):
    return Reader(thing._repr_html_())


TENSORS = {
    "scalar": (2.5, 0, "2.5"),
    "vector": ([1.0, 2.0, 4.0], 3, "mean 2.333"),
    "matrix": (np.arange(6).reshape(2, 3), 6, "max 5"),
    "bools": ([True, False], 2, "dtype bool"),
    "image": (np.full((4, 5, 3), 255, np.uint8), 20, "shape (4, 5, 3)"),
    "large": (np.zeros((100, 200), np.float32), 25 * 29, "shape (100, 200)"),
    "not finite": ([[1.0, np.nan, np.inf]], 3, "not finite 2"),
    "nothing but NaN": ([[np.nan, np.nan]], 2, "not finite 2"),
    "empty": (np.zeros((0, 3)), 0, "shape (0, 3)"),
    "complex": ([1 + 2j, 3.0], 0, "complex128"),
    "many axes": (np.zeros((2, 3, 4, 5)), 0, "min 0"),
    "texts": ([EVIL], 0, "onerror=alert(1)"),
}


@pytest.mark.parametrize("case", TENSORS)
def test_a_tensor_is_shown_with_a_picture_where_it_has_one(case):
    values, pixels, text = TENSORS[case]
    reader = shown(tk.constant(values))
    assert reader.tags.count("rect") == pixels
    assert text in reader.text
    assert "img" not in reader.tags


def test_an_image_has_its_colours():
    image = np.zeros((1, 2, 3), np.float32)
    image[0, 1] = [1.0, 0.5, 0.0]
    html = tk.constant(image)._repr_html_()
    assert 'fill="#000000"' in html
    assert 'fill="#ff7f00"' in html


def test_a_variable_has_its_name():
    reader = shown(tk.Variable([[1.0, 2.0]], name="scores"))
    assert "scores" in reader.text
    assert reader.tags.count("rect") == 2


def test_a_symbol_has_its_text_alone():
    assert tk.Input((2,))._repr_html_() is None
    seen = []
    tk.function(lambda x: seen.append(x._repr_html_()) or x)(tk.ones(2))
    assert seen == [None]


def test_a_model_folds_those_inside():
    inner = tk.Sequential([tk.Input((4,)), tk.layers.Dense(2, name="deep")], name="inner")
    model = tk.Sequential([tk.Input((8,)), tk.layers.Dense(4), inner])
    model.layers[0].trainable = False
    reader = shown(model)
    assert reader.tags.count("details") == 1
    assert "inner (Sequential)" in reader.text
    assert "deep (Dense)" in reader.text
    assert "Trainable params: 10" in reader.text
    assert "no" in reader.text
    assert "not built" in shown(tk.Sequential([tk.layers.Dense(1)])).text


def test_a_history_is_a_chart_for_each_metric():
    history = tk.callbacks.History()
    assert "no epochs" in shown(history).text
    history.on_train_begin()
    history.on_epoch_end(0, {"loss": 2.0, "val_loss": 3.0, EVIL: 1.0, "rate": float("nan")})
    history.on_epoch_end(1, {"loss": 1.0, "table": np.ones(2)})
    reader = shown(history)
    assert reader.tags.count("figure") == 4
    assert reader.tags.count("polyline") == 1  # the loss; the others have one number
    assert reader.tags.count("circle") == 2
    assert "rate: no numbers" in reader.text
    assert EVIL in reader.text
    assert "img" not in reader.tags


def test_a_data_set_is_a_table_of_its_components():
    parts = {EVIL: np.ones((4, 2), np.float32), "y": (np.ones(4), np.array(["x"] * 4))}
    dataset = tk.data.Dataset.from_tensor_slices(parts).batch(2)
    reader = shown(dataset)
    assert "elements: 2" in reader.text
    assert "['y'][1](None,)string" in reader.text
    assert "onerror=alert(1)" in reader.text
    assert "img" not in reader.tags
    assert "without end" in shown(dataset.repeat()).text
    assert "elements: unknown" in shown(dataset.filter(lambda x: True)).text
    assert "()int64" in shown(tk.data.Dataset.range(3)).text


class Unfinished(tk.optimizers.schedules.LearningRateSchedule):
    """Has no rate."""


def test_a_schedule_is_its_curve():
    schedules = tk.optimizers.schedules
    reader = shown(schedules.CosineDecay(0.5, 100, warmup_target=1.0, warmup_steps=20))
    assert reader.tags.count("polyline") == 1
    assert "CosineDecay(initial_learning_rate=0.5, decay_steps=100" in reader.text
    assert "0 to 0.99" in reader.text
    assert "0.1 to 0.5" in shown(schedules.PiecewiseConstantDecay([10, 20], [0.5, 0.2, 0.1])).text
    assert Unfinished()._repr_html_() is None


def test_an_optimizer_is_its_settings_and_the_curve_of_its_schedule():
    reader = shown(tk.optimizers.SGD(0.5, momentum=0.9, name="<b>"))
    assert "learning_rate0.5momentum0.9" in reader.text
    assert reader.tags.count("b") == 1
    assert "polyline" not in reader.tags
    scheduled = tk.optimizers.Adam(tk.optimizers.schedules.ExponentialDecay(0.5, 10, 0.9))
    reader = shown(scheduled)
    assert reader.tags.count("polyline") == 1
    assert "learning_rateExponentialDecay(initial_learning_rate=0.5" in reader.text


def test_a_function_is_its_traces():
    class Doubling(tk.Module):
        @tk.function
        def twice(self, x):
            return x * 2

    double = tk.function(lambda x: x * 2, autograph=False)
    double(tk.ones(2))
    double(tk.ones(3))
    assert "2 traces" in shown(double).text
    assert "shape (3,) and dtype float32" in shown(double).text
    assert "0 traces" in shown(Doubling().twice).text


def test_a_checkpoint_is_the_tree_of_its_parts():
    model = tk.Sequential([tk.Input((3,)), tk.layers.Dense(2)])
    checkpoint = tk.train.Checkpoint(model=model, again=model, rate=tk.Variable(1.0, name=EVIL))
    reader = shown(checkpoint)
    assert "kernel Variable (3, 2) float32" in reader.text
    assert "rate Variable () float32" in reader.text
    assert reader.text.count("(above)") >= 1
    assert reader.tags.count("details") >= 2
    assert "img" not in reader.tags
