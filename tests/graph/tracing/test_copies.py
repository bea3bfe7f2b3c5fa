"""Copies of traced functions, and of what holds one."""

import copy
import functools
import pickle

import numpy as np
import pytest

import trainkit as tk

COPIES = {"deepcopy": copy.deepcopy, "pickle": lambda x: pickle.loads(pickle.dumps(x))}


def double(x):
    return x * 2.0


@tk.function
def increased(x):
    return x + 1.0


class Holder:
    def __init__(self):
        self.factor = tk.Variable(2.0)
        self.scale = tk.function(self._scale, reduce_retracing=True)

    def _scale(self, x):
        return x * self.factor


class Scale(tk.Module):
    def __init__(self):
        super().__init__()
        self.factor = tk.Variable(2.0)
        self.alias = self.scale

    @tk.function(input_signature=[tk.TensorSpec([], tk.float32)])
    def scale(self, x):
        return x * self.factor


class Net(tk.Model):
    def __init__(self):
        super().__init__()
        self.dense = tk.layers.Dense(2)
        self.step = tk.function(self.call)

    def call(self, x):
        return self.dense(x)


@pytest.fixture(params=COPIES)
def copied(request):
    return COPIES[request.param]


def test_copies_of_functions_give_what_these_give(copied):
    functions = [tk.function(double, jit_compile=True), tk.function(functools.partial(double))]
    for f in functions:
        assert float(f(tk.constant(3.0))) == float(copied(f)(tk.constant(3.0))) == 6.0
    assert copied(functions[0])._jit_compile is True
    assert float(copied({"f": [increased]})["f"][0](1.0)) == 2.0
    assert float(copy.copy(functions[0])(tk.constant(3.0))) == 6.0


@pytest.mark.parametrize("kind", [Holder, Scale])
def test_copies_of_objects_use_their_own_variables(kind, copied):
    known = kind()
    known.scale(tk.constant(1.0))
    twin = copied(known)
    twin.factor.assign(5.0)
    assert [float(x.scale(tk.constant(1.0))) for x in (known, twin)] == [2.0, 5.0]
    if kind is Scale:
        assert float(twin.alias(1.0)) == 5.0
    method = copied(known.scale)
    known.factor.assign(7.0)
    assert float(method(tk.constant(1.0))) == 2.0


def test_copies_of_models_train_by_themselves(copied):
    model = Net()
    x, y = np.ones((4, 3), "float32"), np.ones((4, 2), "float32")
    model.compile("sgd", "mse")
    model.fit(x, y, verbose=0)
    before = model.step(tk.constant(x)).numpy()
    twin = copied(model)
    np.testing.assert_array_equal(twin.step(tk.constant(x)), before)
    twin.fit(x, y, verbose=0)
    assert not np.array_equal(twin.step(tk.constant(x)), before)
    np.testing.assert_array_equal(model.step(tk.constant(x)), before)


def test_what_can_not_be_copied_says_so(copied):
    concrete = tk.function(double).get_concrete_function(tk.TensorSpec([], tk.float32))
    with pytest.raises(TypeError, match="'double' can't be copied or pickled"):
        copied(concrete)


def test_a_signature_is_traced_once_for_calls_of_other_functions_too():
    traces = []
    sizes = tk.TensorSpec([2, None], tk.float32)

    @tk.function(input_signature=[[sizes] * 2, {"b": tk.TensorSpec([None], tk.float32)}])
    def joined(pair, more):
        traces.append(pair)
        return pair[0] + pair[1] + more["b"][0]

    @tk.function(input_signature=[tk.TensorSpec([None, None], tk.float32)])
    def outer(x):
        return joined([x, x], {"b": x[0]})

    x = tk.ones([2, 3])
    for y in (outer(x), joined([x, x], {"b": tk.ones([4])}), outer(tk.ones([2, 5]))):
        assert float(y[0, 0]) == 3.0
    assert len(traces) == 1
