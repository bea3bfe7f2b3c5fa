"""What was read of a variable stays as it was, whatever is assigned later, and by whom."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trainkit as tk
from tests.conformance.table import all_cases
from trainkit import ops
from trainkit.core import nest, variable
from trainkit.core.dispatch import native, ownership
from trainkit.core.tensor import Tensor

SIZES = [1, 2000]


@pytest.fixture(autouse=True, params=["python", "compiled"])
def half(request, monkeypatch):
    """Each test runs without the compiled half and with it."""
    compiled = request.param == "compiled"
    if compiled and native.NATIVE is None:
        pytest.skip(str(native.FAILURE))
    ask = native.NATIVE.sole_array if compiled else ownership._sole_array
    monkeypatch.setattr(variable, "sole_array", ask)
    before = native.switch(compiled)
    yield request.param
    native.switch(before)


def traced(f):
    def call(v):
        run = tk.function(f, autograph=False)
        for _ in range(3):  # a function has another program once it is called often
            y = run(v)
        return y

    return call


HOLDS = {
    "value": lambda v: v.value(),
    "reading": lambda v: v.value,
    "identity": tk.identity,
    "stop_gradient": tk.stop_gradient,
    "convert_to_tensor": tk.convert_to_tensor,
    "array": np.asarray,
    "array of the value": lambda v: np.asarray(v.value()),
    "numpy": lambda v: v.numpy(),
    "buffer": lambda v: memoryview(np.asarray(v.value())),
    "dlpack": np.from_dlpack,
    "dlpack of the value": lambda v: np.from_dlpack(v.value()),
    "all": lambda v: v[...],
    "slice": lambda v: v[:1],
    "backwards": lambda v: v[::-1],
    "new axis": lambda v: v[None],
    "reshape": lambda v: tk.reshape(v, [1, -1]),
    "transpose": lambda v: tk.transpose(tk.reshape(v, [1, -1])),
    "squeeze": lambda v: tk.squeeze(v[None], 0),
    "broadcast": lambda v: tk.broadcast_to(v, [2, v.shape[0]]),
    "cast": lambda v: tk.cast(v, tk.float32),
    "split": lambda v: tk.split(v, 1),
    "unstack": lambda v: tk.unstack(tk.reshape(v, [1, -1])),
    "real": lambda v: tk.math.real(v),
    "ensure_shape": lambda v: tk.ensure_shape(v, v.shape),
    "another variable": lambda v: tk.Variable(v.value()),
    "a variable of it": lambda v: tk.Variable(v),
    "deepcopy": copy.deepcopy,
    "deepcopy of the value": lambda v: copy.deepcopy(v.value()),
    "copy of the value": lambda v: copy.copy(v.value()),
    "pickle": lambda v: pickle.loads(pickle.dumps(v)),
    "returned input": traced(lambda x: x),
    "returned identity": traced(tk.identity),
    "returned slice": traced(lambda x: x[:1]),
    "read in a function": lambda v: traced(lambda _: v.value())(0.0),
    "assigned to another": lambda v: tk.Variable(tk.zeros_like(v)).assign(v),
    "assigned value": lambda v: tk.Variable(tk.zeros_like(v)).assign(v.value()),
    "numpy function": lambda v: np.ravel(v.value()),
    "data set": lambda v: next(iter(tk.data.Dataset.from_tensors(v.value()))),
}


def step_of(optimizer):
    return lambda v: optimizer().apply_gradients([(tk.ones_like(v), v)])


def compiled_steps(v):
    optimizer = tk.optimizers.Adam(0.5)
    grad = tk.ones_like(v)
    optimizer.build([v])
    run = tk.function(lambda g: optimizer.apply_gradients([(g, v)]), autograph=False)
    for _ in range(4):
        run(grad)


def assigned_in_function(v):
    run = tk.function(lambda x: v.assign_add(x * 2.0), autograph=False)
    for _ in range(4):
        run(tk.ones_like(v))


CHANGES = {
    "assign": lambda v: v.assign(tk.fill(v.shape, 9.0)),
    "assign an array": lambda v: v.assign(np.full(v.shape, 9, "float32")),
    "add a number": lambda v: v.assign_add(1.0),
    "subtract a tensor": lambda v: v.assign_sub(tk.ones_like(v)),
    "scatter": lambda v: v.scatter_nd_update([[0]], [7.0]),
    "written": lambda v: v._writable().fill(5),
    "sgd": step_of(tk.optimizers.SGD),
    "adam": step_of(tk.optimizers.Adam),
    "compiled steps": compiled_steps,
    "assigned in a function": assigned_in_function,
}


def numbers(kept):
    """A copy of all numbers in what was kept."""
    return [np.array(memoryview(x) if type(x) is memoryview else x) for x in nest.flatten(kept)]


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("hold", HOLDS.values(), ids=HOLDS)
def test_what_was_read_stays(hold, size):
    for name, change in CHANGES.items():
        v = tk.Variable(np.arange(1, size + 1, dtype="float32"))
        kept = hold(v)
        if type(kept) is type(v.value):
            kept = kept()
        before = numbers(kept)
        for _ in range(2):  # the second finds a buffer of the first
            change(v)
        assert not np.array_equal(v.numpy(), np.arange(1, size + 1)), name
        for x, y in zip(numbers(kept), before, strict=True):
            np.testing.assert_array_equal(x, y, err_msg=name)


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("size", SIZES)
def test_what_is_done_to_a_copy_leaves_the_variable(size):
    for change in CHANGES.values():
        v = tk.Variable(np.arange(1, size + 1, dtype="float32"))
        for twin in (copy.deepcopy(v), tk.Variable(v.value()), tk.Variable(v)):
            change(twin)
            assert v.numpy().tolist() == list(range(1, size + 1))


# ---------------------------------------------------------------------- operations


def floats_of(case):
    return [isinstance(x, np.ndarray) and x.dtype.kind == "f" for x in case.inputs]


CASES = [case for case in all_cases() if any(floats_of(case))]


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("name", sorted({case.name for case in CASES}))
def test_results_of_operations_stay(name):
    for case in CASES:
        if case.name != name:
            continue
        variables = [
            tk.Variable(x) if is_float else x
            for x, is_float in zip(case.inputs, floats_of(case), strict=True)
        ]
        values = [x.value() if isinstance(x, tk.Variable) else x for x in variables]
        results = nest.flatten(case.op(*values, **case.settings))
        results = [y for y in results if type(y) is Tensor]
        del values
        before = [y.numpy().copy() for y in results]
        for v in variables:
            if isinstance(v, tk.Variable):
                v.assign(tk.zeros_like(v) + 3.0)
                v.assign_add(1.0)
        for y, expected in zip(results, before, strict=True):
            np.testing.assert_array_equal(y.numpy(), expected, err_msg=str(case))


# ---------------------------------------------------------------------- random programs

KEEPS = sorted(set(HOLDS) - {"reading", "data set"})
actions = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 2), st.integers(0, 2), st.sampled_from(KEEPS)),
    min_size=3,
    max_size=25,
)


@pytest.mark.usefixtures("on_cpu")
@settings(max_examples=60, deadline=None)
@given(actions=actions, size=st.sampled_from(SIZES))
def test_random_programs_agree_with_numpy(actions, size):
    variables = [tk.Variable(np.full(size, i, "float32")) for i in range(3)]
    arrays = [np.full(size, i, "float32") for i in range(3)]
    optimizer = tk.optimizers.SGD(0.5)
    kept = []
    for what, i, j, hold in actions:
        v, w = variables[i], variables[j]
        if what == 0:
            kept.append((HOLDS[hold](w), numbers(HOLDS[hold](w))))
        elif what == 1:
            v.assign(w)
            arrays[i] = arrays[j].copy()
        elif what == 2:
            v.assign_add(w.value())
            arrays[i] = arrays[i] + arrays[j]
        elif what == 3:
            v.assign_sub(0.5)
            arrays[i] = arrays[i] - np.float32(0.5)
        elif what == 4:
            optimizer.apply_gradients([(tk.ones_like(v), v)])
            arrays[i] = arrays[i] - np.float32(0.5)
        elif what == 5:
            variables[i] = copy.deepcopy(w)
            arrays[i] = arrays[j].copy()
            optimizer = tk.optimizers.SGD(0.5)
        else:
            v.assign(HOLDS["reshape"](w)[0])
            arrays[i] = arrays[j].copy()
        for x, y in zip(variables, arrays, strict=True):
            np.testing.assert_array_equal(x.numpy(), y)
        for x, y in kept:
            assert [a.tobytes() for a in numbers(x)] == [a.tobytes() for a in y]


# ---------------------------------------------------------------------- models

X = np.random.default_rng(5).normal(size=(48, 50)).astype("float32")
Y = (X[:, :1] > 0).astype("float32")


def new_model(eager):
    model = tk.Sequential(
        [
            tk.layers.Dense(40, activation="relu"),
            tk.layers.BatchNormalization(),
            tk.layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.build((None, 50))
    model.compile(
        tk.optimizers.Adam(0.05),
        "binary_crossentropy",
        metrics=["accuracy", "auc"],
        run_eagerly=eager,
    )
    return model


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("eager", [True, False], ids=["eager", "compiled"])
def test_what_is_kept_of_a_model_stays_under_fit(eager):
    model = new_model(eager)
    for _ in range(2):  # slots and metrics are there the second time
        held = [*model.variables, *model.optimizer.variables]
        held += [v for metric in model.metrics for v in metric.variables]
        kept = [[hold(v) for v in held] for hold in (tk.identity, lambda v: np.asarray(v.value()))]
        twin = copy.deepcopy(model)
        weights = numbers(twin.get_weights())
        before = numbers(kept)
        model.fit(X, Y, batch_size=8, epochs=2, verbose=0)
        for x, y in zip(numbers(kept), before, strict=True):
            np.testing.assert_array_equal(x, y)
        for x, y in zip(twin.get_weights(), weights, strict=True):
            np.testing.assert_array_equal(x, y)
        assert any((x != y).any() for x, y in zip(model.get_weights(), weights, strict=True))


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("eager", [True, False], ids=["eager", "compiled"])
def test_a_model_learns_alike_whether_or_not_its_weights_are_kept(eager):
    results = []
    for keeps in (False, True):
        tk.random.set_seed(1)
        model, kept = new_model(eager), []
        callback = tk.callbacks.LambdaCallback(
            on_train_batch_end=lambda *_, m=model, k=kept: k.extend(map(tk.identity, m.weights))
        )
        model.fit(X, Y, batch_size=8, epochs=2, verbose=0, callbacks=[callback] * keeps)
        results.append([w.tobytes() for w in model.get_weights()])
        assert len(kept) == keeps * 12 * len(model.weights)
    assert results[0] == results[1]


@pytest.mark.usefixtures("on_cpu")
def test_statistics_that_were_read_stay():
    layer = tk.layers.BatchNormalization()
    layer.build((None, 2000))
    kept = [tk.identity(v) for v in layer.variables]
    before = numbers(kept)
    x = tk.constant(np.random.default_rng(0).normal(size=(8, 2000)).astype("float32"))
    run = tk.function(lambda x: layer(x, training=True), autograph=False)
    for call in (lambda x: layer(x, training=True), run, run, run):
        moved = layer.moving_mean.numpy()
        call(x)
        assert (moved != layer.moving_mean.numpy()).any()
    for a, b in zip(numbers(kept), before, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("is_traced", [False, True], ids=["eager", "compiled"])
def test_gradients_that_are_accumulated_stay(is_traced):
    v = tk.Variable(np.zeros(2000, "float32"))
    optimizer = tk.optimizers.SGD(1.0, gradient_accumulation_steps=2)
    optimizer.build([v])
    grads = [tk.fill([2000], float(i)) for i in range(6)]
    step = tk.function(lambda g: optimizer.apply_gradients([(g, v)]), autograph=False)
    slots = []
    for g in grads:
        slots += [(tk.identity(s), s.numpy()) for s in optimizer.variables]
        step(g) if is_traced else optimizer.apply_gradients([(g, v)])
    assert [float(g[0]) for g in grads] == [0, 1, 2, 3, 4, 5]
    assert v.numpy().tolist() == [-7.5] * 2000
    for kept, expected in slots:
        np.testing.assert_array_equal(kept.numpy(), expected)


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("name", ["Adam", "SGD", "RMSprop", "Lion", "Ftrl", "Adagrad"])
@pytest.mark.parametrize("is_traced", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("size", SIZES)
def test_weights_and_slots_that_were_read_stay(name, is_traced, size):
    v = tk.Variable(np.ones(size, "float32"))
    optimizer = getattr(tk.optimizers, name)(0.1)
    optimizer.build([v])
    run = tk.function(lambda g: optimizer.apply_gradients([(g, v)]), autograph=False)
    step = run if is_traced else (lambda g: optimizer.apply_gradients([(g, v)]))
    kept = []
    for i in range(6):
        if i % 2:
            kept += [(tk.identity(s), s.numpy()) for s in (v, *optimizer.variables)]
        step(tk.fill([size], 0.5))
    for tensor, expected in kept:
        np.testing.assert_array_equal(tensor.numpy(), expected)


def test_ops_of_keras_give_values_that_stay():
    v = tk.Variable([1.0, 2.0])
    kept = [ops.stop_gradient(v), ops.convert_to_tensor(v), ops.reshape(v, (2, 1)), ops.copy(v)]
    v.assign([9.0, 9.0])
    assert [ops.convert_to_numpy(x).ravel().tolist() for x in kept] == [[1.0, 2.0]] * 4
