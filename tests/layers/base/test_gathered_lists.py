"""Lists of weights and metrics that are gathered once, until the tree is another one."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trainkit as tk
from trainkit.core.trackable import Trackable
from trainkit.core.values.attribute_state import CHANGES
from trainkit.layers.base import tracking
from trainkit.layers.base.layer import Layer
from trainkit.layers.base.weights import WeightHolder
from trainkit.models.training import step_cache


class Holder(Layer):
    """A layer whose parts come and go, also in lists, dicts and tuples."""

    def __init__(self):
        super().__init__()
        self.items, self.named = [], {}


class Plain(Trackable):
    """Trackable, and no layer."""


class Tree:
    """A model, what is inside, and changes of it."""

    def __init__(self):
        self.model = tk.Model()
        self.model.top = Holder()
        self.model.plain = Plain()
        self.model.plain.items = []
        self.holders = [self.model.top]
        self.count = 0

    def new_part(self, kind):
        self.count += 1
        if kind == "holder":
            self.holders.append(Holder())
            return self.holders[-1]
        if kind == "metric":
            return tk.metrics.Mean(name=f"m{self.count}")
        if kind == "variable":
            return tk.Variable(float(self.count), trainable=self.count % 3 > 0)
        if kind == "dense":
            layer = tk.layers.Dense(1)
            layer.build((None, self.count % 4 + 1))
            return layer
        return tk.random.SeedGenerator(self.count)

    def change(self, how, kind, which):
        holder = self.holders[which % len(self.holders)]
        holder._tracker.unlock()
        if how == "set":
            setattr(holder, f"a{which % 3}", self.new_part(kind))
        elif how == "delete" and hasattr(holder, f"a{which % 3}"):
            delattr(holder, f"a{which % 3}")
        elif how == "none":
            setattr(holder, f"a{which % 3}", None)
        elif how == "append":
            holder.items.append(self.new_part(kind))
        elif how == "extend":
            holder.items += [self.new_part(kind), {"x": self.new_part("variable")}]
        elif how == "insert":
            holder.items.insert(0, self.new_part(kind))
        elif how == "replace" and holder.items:
            holder.items[which % len(holder.items)] = self.new_part(kind)
        elif how == "pop" and holder.items:
            holder.items.pop(which % len(holder.items))
        elif how == "cut":
            del holder.items[which % 3 :]
        elif how == "turn":
            holder.items.reverse()
        elif how == "clear":
            holder.items.clear()
        elif how == "remove" and holder.items:
            holder.items.remove(holder.items[0])
        elif how == "put":
            holder.named[which % 3] = (self.new_part(kind), 3)
        elif how == "take":
            holder.named.pop(which % 3, None)
        elif how == "drop" and holder.named:
            del holder.named[next(iter(holder.named))]
        elif how == "empty":
            holder.named.clear()
        elif how == "update":
            holder.named.update(b=self.new_part(kind))
        elif how == "weight":
            self.count += 1
            holder.add_weight(shape=(self.count % 3 + 1,), trainable=which % 2 > 0)
        elif how == "freeze":
            holder.trainable = which % 2 > 0
        elif how == "beside":
            self.model.plain.items.append(self.new_part(kind))
        elif how == "below":
            self.model.plain.part = self.new_part(kind)
        elif how == "gone" and hasattr(self.model.plain, "part"):
            del self.model.plain.part
        elif how == "cycle":
            holder.items.append(self.model.top)


HOW = ["set", "delete", "none", "append", "extend", "insert", "replace", "pop", "cut", "turn",
       "clear", "remove", "put", "take", "drop", "empty", "update", "weight", "freeze", "beside",
       "below", "gone", "cycle"]  # fmt: skip
KINDS = ["holder", "metric", "variable", "dense", "generator"]
CHANGE = st.tuples(st.sampled_from(HOW), st.sampled_from(KINDS), st.integers(0, 11))


def ids(values):
    return [id(value) for value in values]


def agree(root):
    """The lists that are kept are those that would be gathered now."""
    assert ids(root.weights) == ids(tracking._gather(root, WeightHolder, False))
    every = tracking._gather(root, WeightHolder, True)
    assert ids(root.variables) == ids(every)
    trained = [v for v in every if v.trainable] if root.trainable else []
    assert ids(root.trainable_variables) == ids(trained)
    assert ids(step_cache.held_metrics(root)) == ids(step_cache._gather_held_metrics(root)[0])


@given(st.lists(CHANGE, min_size=1, max_size=12))
def test_lists_are_those_of_the_tree_after_any_changes(changes):
    tree = Tree()
    for change in changes:
        agree(tree.model)
        tree.change(*change)
        for root in (tree.model, *tree.holders):
            agree(root)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", HOW)
def test_each_change_is_noticed(how, kind):
    tree = Tree()
    kinds = ["dense", "variable", "metric", "dense"]
    for number, first in enumerate(kinds):
        for usual in ("set", "append", "put"):
            tree.change(usual, first, number)
    tree.change("below", "metric", 0)
    tree.change("append", "holder", 0)
    agree(tree.model)
    before = CHANGES.parts
    tree.change(how, kind, 1)
    tree.change(how, kind, 0)
    agree(tree.model)
    assert CHANGES.parts > before or how == "freeze"


def test_they_are_gathered_once(monkeypatch):
    model = tk.Sequential([tk.Input((3,)), tk.layers.Dense(2), tk.layers.Dropout(0.5)])
    gathered = []
    gather = tracking._gather
    monkeypatch.setattr(tracking, "_gather", lambda *facts: gathered.append(1) or gather(*facts))
    first = [model.variables, model.weights, model.trainable_variables]
    assert [model.variables, model.weights, model.trainable_variables] == first
    assert len(gathered) == 2  # with states of generators, and without
    model.extra = tk.layers.Dense(2)
    assert model.variables
    assert len(gathered) == 3


def test_a_list_is_the_callers_own():
    layer = tk.layers.Dense(2)
    layer.build((None, 3))
    layer.weights.clear()
    layer.variables.append(None)
    assert len(layer.weights) == len(layer.variables) == 2


def test_steps_on_batches_gather_nothing():
    model = tk.Sequential([tk.Input((3,)), tk.layers.Dense(2)])
    model.compile("adam", "mse", metrics=["mae"])
    x, y = np.ones((4, 3), "float32"), np.ones((4, 2), "float32")
    for _ in range(6):
        model.train_on_batch(x, y)
    before = CHANGES.parts
    for _ in range(3):
        model.train_on_batch(x, y)
    assert CHANGES.parts == before


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_a_copy_gathers_its_own(copied):
    layer = tk.layers.Dense(2)
    layer.build((None, 3))
    assert layer.weights
    other = copied(layer)
    agree(other)
    assert "_gathered" not in copied(layer).__dict__


def test_a_metric_knows_what_it_holds_later():
    class Several(tk.metrics.Metric):
        def __init__(self):
            super().__init__()
            self.first = self.add_variable((), "zeros", name="first")

        def result(self):
            return self.first

    metric = Several()
    assert ids(metric.variables) == [id(metric.first)]
    second = metric.add_variable((), "ones", name="second")
    assert ids(metric.variables) == ids([metric.first, second])
    metric.inner = [tk.metrics.Mean()]
    metric.loose = tk.Variable(5.0)
    inner = metric.inner[0].variables
    assert ids(metric.variables) == ids([metric.first, second, metric.loose, *inner])
    metric.inner[0].update_state(3.0)
    metric.inner.append(tk.metrics.Sum())
    metric.inner[1].update_state(4.0)
    metric.reset_state()
    assert [float(v.numpy()) for v in metric.variables] == [0, 1, 0, 0, 0, 0]
    del metric.loose
    metric.inner.pop()
    assert ids(metric.variables) == ids([metric.first, second, *inner])


def test_what_was_gathered_is_not_stored():
    metric = tk.metrics.Mean()
    assert len(metric.variables) == 2
    for other in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        assert not other.__dict__["_gathered"].lists
        assert not {id(v) for v in other.variables} & {id(v) for v in metric.variables}


def test_what_is_taken_out_is_let_go():
    model = tk.Model()
    model.part = Holder()
    model.part.inner = tk.layers.Dense(2)
    model.part.inner.build((None, 3))
    kernel = weakref.ref(model.part.inner.kernel)
    assert len(model.weights) == 2
    model.part.inner = None
    assert model.weights == []
    gc.collect()
    assert kernel() is None


def test_a_class_with_parts_of_its_own_is_asked_each_time():
    class Bag(Trackable):
        bag = ()

        def parts(self):
            return {str(i): part for i, part in enumerate(Bag.bag)}

    model = tk.Model()
    model.bag = Bag()
    assert model.metrics == []
    Bag.bag = [tk.metrics.Mean(name="inside")]
    assert [metric.name for metric in model.metrics] == ["inside"]


def test_a_layer_may_have_an_attribute_called_parts():
    class Parted(Layer):
        @property
        def parts(self):
            return 3

    model = tk.Model()
    model.layer = Parted()
    model.layer.metric = tk.metrics.Mean(name="inside")
    for _ in range(2):
        assert [metric.name for metric in model.metrics] == ["inside"]


def test_metrics_that_compile_makes_later_are_not_held():
    model = tk.Sequential([tk.Input((3,)), tk.layers.Dense(2)])
    model.own = tk.metrics.Mean(name="own")
    assert [metric.name for metric in model.metrics] == ["own"]
    model.compile("sgd", "mse", metrics=["mae"])
    names = [metric.name for metric in model.metrics]
    model.train_on_batch(np.ones((4, 3)), np.ones((4, 2)))
    assert names == [metric.name for metric in model.metrics] == ["loss", "compile_metrics", "own"]
