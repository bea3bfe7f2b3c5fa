"""Values that no gradient rule reads are freed while a tape records; gradients stay the same."""

import weakref

import numpy as np
import pytest

import trainkit as tk
from tests.conformance.table import all_cases
from tests.conformance.test_gradients import run_taped
from trainkit.autodiff import unread_values
from trainkit.autodiff.unread_values import UnreadValues
from trainkit.core.dispatch import ownership
from trainkit.core.tensor import Tensor

SIDE = 300  # of a square of float32 that is large
needs_counts = pytest.mark.skipif(
    ownership.COUNTS == ownership.NEVER, reason="references are not counted here"
)


def has_memory(x):
    return x._array.strides != (0,) * x._array.ndim


def recorded(tape, name):
    """The result of the last operation of this name."""
    results = [y for primitive, _, y, _ in tape.entries if primitive.name == name]
    return results[-1]


@pytest.mark.parametrize(
    "case",
    [c for c in all_cases() if tk.core.tensor.PRIMITIVES[c.name].facets.residuals is not None],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_do_not_read_what_is_no_residual(case, dtype):
    """NaN stands for each value that is said to be unread, and the gradients have the same bits."""
    gradients = []
    for poisons in (False, True):
        inputs, results, tape = run_taped(case, {"float64": dtype})
        watched = [x for x in inputs if isinstance(x, Tensor)]
        if poisons:
            unread = UnreadValues(least_bytes=0)
            entries = [e for e in tape.tracked.values() if e is not None]
            candidates = unread.look_at(tape.tracked)
            # inputs of the call are leaves, which are never freed: they are poisoned here as well
            used = [x for x in watched if any(x is part for e in entries for part in e[2:])]
            for x in used:
                if all(is_unread(e, x) for e in entries):
                    candidates.append(x)
            for x in candidates:
                x._array = unread_values._without_memory(np.asarray(x._array))
        targets = [y for y in results if y.dtype.is_differentiable]
        gradients.append([g if g is None else g.numpy() for g in tape.gradient(targets, watched)])
    for expected, poisoned in zip(*gradients, strict=True):
        np.testing.assert_array_equal(expected, poisoned, strict=expected is not None)


def is_unread(entry, x):
    residuals = entry[0].facets.residuals
    places = [place for place, part in enumerate(entry[2:]) if part is x]
    return residuals is not None and not residuals.intersection(places)


def block(n, hold=None):
    """Layers as in a residual block; `hold` is called with what the normalization gave."""
    normalization, rectifier = tk.layers.BatchNormalization(), tk.layers.ReLU()
    last = tk.layers.Dense(2)

    def run(x):
        for _ in range(n):
            y = normalization(x * 2.0, training=True)
            if hold is not None:
                hold(y)
            x = rectifier(y)
            del y
        return tk.reduce_sum(last(rectifier(x)))

    return run


@needs_counts
def test_a_value_that_no_rule_reads_is_freed_once_nobody_holds_it():
    x = tk.random.normal((SIDE, SIDE))
    run = block(1)
    run(x)
    with tk.GradientTape() as tape:
        tape.watch(x)
        run(x)
        y, mean, _ = recorded(tape, "fused_normalization")
        assert not has_memory(y)
        assert has_memory(mean)  # a small one
        assert has_memory(recorded(tape, "relu"))
        assert has_memory(recorded(tape, "multiply"))
    assert (y.shape, y.dtype) == (x.shape, x.dtype)


@pytest.mark.parametrize(
    "hold",
    [
        list.append,
        lambda held, y: held.append([y]),
        lambda held, y: held.append(weakref.ref(y)),
        lambda held, y: held.append(lambda: y),
    ],
    ids=["list", "nest", "weak reference", "closure"],
)
def test_a_value_that_somebody_holds_stays(hold):
    x, held = tk.random.normal((SIDE, SIDE)), []
    run = block(1, lambda y: hold(held, y))
    with tk.GradientTape() as tape:
        tape.watch(x)
        run(x)
        assert has_memory(recorded(tape, "fused_normalization")[0])


def test_arrays_that_somebody_holds_keep_their_values():
    x, held = tk.random.normal((SIDE, SIDE)), []
    run = block(1, lambda y: held.extend([np.asarray(y), y.numpy()]))
    with tk.GradientTape() as tape:
        tape.watch(x)
        run(x)
    np.testing.assert_array_equal(held[0], held[1])


@needs_counts
@pytest.mark.parametrize("activation", [tk.sigmoid, tk.nn.softmax])
@pytest.mark.parametrize("hold", [False, True])
def test_logits_are_freed_once_nobody_holds_what_an_activation_made_of_them(activation, hold):
    x, held = tk.random.normal((SIDE, SIDE)), []
    with tk.GradientTape() as tape:
        tape.watch(x)
        chances = activation(x + 1.0)
        held += [chances] if hold else []
        y = chances * 2.0
        del chances
        tape.free_unread_values()
        assert has_memory(recorded(tape, "add")) == hold
        assert has_memory(recorded(tape, activation.__name__))
    assert tape.gradient(y, x) is not None


@pytest.mark.parametrize("persistent", [False, True])
def test_gradients_have_the_bits_of_a_tape_that_keeps_everything(persistent, monkeypatch):
    x = tk.random.normal((SIDE, SIDE))
    run = block(3)
    run(x)

    def gradients():
        with tk.GradientTape(persistent=persistent) as tape:
            tape.watch(x)
            loss = run(x)
        return tape.gradient(loss, [x, *tape.watched_variables()])

    freed = gradients()
    monkeypatch.setattr(unread_values, "count_other_holders", lambda candidate: -1)
    for g, expected in zip(freed, gradients(), strict=True):
        np.testing.assert_array_equal(g, expected)


def test_second_derivatives_are_those_of_a_tape_that_keeps_everything(monkeypatch):
    x = tk.random.normal((SIDE, SIDE))
    run = block(2)
    run(x)

    def second():
        with tk.GradientTape() as outer:
            outer.watch(x)
            with tk.GradientTape() as inner:
                inner.watch(x)
                loss = run(x)
            g = inner.gradient(loss, x)
            total = tk.reduce_sum(g * g)
        return outer.gradient(total, x)

    freed = second()
    monkeypatch.setattr(unread_values, "count_other_holders", lambda candidate: -1)
    np.testing.assert_array_equal(freed, second())


def test_the_reference_of_an_entry_that_was_replaced_stands_for_nobody_else():
    x, unread = tk.random.normal((SIDE, SIDE)), UnreadValues()
    with tk.GradientTape() as tape:
        tape.watch(x)
        y = x + x
        z = y + 1.0
        unread.look_at(tape.tracked)
        tape.tracked[z] = (tk.add.primitive, None, x, x)
        unread.free(tape.tracked)
    assert has_memory(y)


@needs_counts
def test_memory_of_a_model_is_freed_on_the_way():
    """Of a functional model, whose symbols name all values, and of a Sequential one."""

    def chain(x):
        for _ in range(4):
            x = tk.layers.ReLU()(tk.layers.BatchNormalization()(x))
        return x

    symbol = tk.keras.Input((SIDE,))
    model = tk.keras.Model(symbol, tk.layers.Dense(1)(chain(symbol)))
    for network in (model, tk.Sequential(model.layers)):
        x = tk.random.normal((SIDE, SIDE))
        with tk.GradientTape() as tape:
            y = network(x, training=True)
            results = [y[0] for p, _, y, _ in tape.entries if p.name == "fused_normalization"]
            assert len(results) == 4
            assert not any(map(has_memory, results))
        gradients = tape.gradient(y, network.trainable_variables)
        assert all(np.isfinite(g).all() for g in gradients)


def test_outputs_of_a_functional_model_stay_where_later_layers_read_them():
    symbol = tk.keras.Input((4,))
    first = tk.layers.ReLU()(symbol)
    second = tk.layers.ReLU()(first)
    model = tk.keras.Model(symbol, [first, tk.layers.Add()([second, first]), symbol])
    x = tk.constant([[1.0, -1.0, 2.0, -2.0]])
    a, b, c = model(x)
    assert a.numpy().tolist() == [[1.0, 0.0, 2.0, 0.0]]
    assert b.numpy().tolist() == [[2.0, 0.0, 4.0, 0.0]]
    assert c.numpy().tolist() == x.numpy().tolist()


def test_nothing_is_freed_where_references_are_not_counted(monkeypatch):
    monkeypatch.setattr(unread_values, "count_other_holders", lambda candidate: -1)
    x = tk.random.normal((SIDE, SIDE))
    with tk.GradientTape() as tape:
        tape.watch(x)
        block(1)(x)
        assert has_memory(recorded(tape, "fused_normalization")[0])
