"""A gradient of `None` says why."""

import pytest

import trainkit as tk
from trainkit.autodiff.explain import last_reason


def explained(tape, target, source):
    with pytest.warns(tk.autodiff.NoGradientWarning) as caught:
        assert tape.gradient(target, source, explain=True) is None
    return str(caught[0].message)


def test_a_value_taken_out_by_numpy_is_named_with_its_line():
    v = tk.Variable(2.0, name="w")
    with tk.GradientTape() as tape:
        y = tk.square(v)
        loss = tk.constant(y.numpy()) * 2.0
    text = explained(tape, loss, v)
    for word in ("numpy()", "test_explain.py", "'w:0'"):
        assert word in text


def test_stop_gradient_is_named():
    v = tk.Variable(2.0)
    with tk.GradientTape() as tape:
        loss = tk.stop_gradient(v * 2.0)
    assert "stop_gradient" in explained(tape, loss, v)


def test_an_integer_on_the_way_is_named():
    v = tk.Variable(2.0)
    with tk.GradientTape() as tape:
        loss = tk.cast(tk.cast(v * 2.0, tk.int32), tk.float32)
    assert "cast to int32" in explained(tape, loss, v)


def test_an_operation_without_a_gradient_is_named():
    v = tk.Variable([2.0, 1.0])
    with tk.GradientTape() as tape:
        loss = tk.cast(tk.argmax(v * 2.0), tk.float32)
    assert "argmax" in explained(tape, loss, v)


def test_an_integer_source_is_named():
    n = tk.Variable(3)
    with tk.GradientTape() as tape:
        loss = tk.cast(n, tk.float32)
    assert "int32" in explained(tape, loss, n)


def test_an_unwatched_tensor_and_an_untrainable_variable_are_told():
    x, v = tk.constant(1.0), tk.Variable(1.0, trainable=False)
    with tk.GradientTape() as tape:
        loss = x * v
    assert "never watched" in explained(tape, loss, x)
    with tk.GradientTape() as tape:
        loss = x * v
    assert "not trainable" in explained(tape, loss, v)


def test_a_variable_that_was_not_read_is_told():
    u, v = tk.Variable(1.0), tk.Variable(1.0)
    with tk.GradientTape() as tape:
        loss = u * 2.0
    assert "not read" in explained(tape, loss, v)


def test_a_target_from_outside_the_tape_is_told():
    v = tk.Variable(1.0)
    with tk.GradientTape() as tape:
        y = v * 2.0
    assert "not computed while the tape recorded" in explained(tape, y * 2.0, v)


def test_an_unrelated_target_is_told():
    u, v = tk.Variable(1.0), tk.Variable(1.0)
    with tk.GradientTape() as tape:
        v * 2.0
        loss = u * 2.0
    assert "does not depend on" in explained(tape, loss, v)


def test_the_optimizer_names_the_cause_when_no_weight_has_a_gradient():
    v = tk.Variable(2.0, name="kernel")
    with tk.GradientTape() as tape:
        loss = tk.constant((v * v).numpy()) * 1.0
    grads = tape.gradient(loss, [v])
    with pytest.raises(ValueError, match=r"numpy\(\)") as caught:
        tk.optimizers.SGD().apply_gradients(zip(grads, [v], strict=True))
    assert "test_explain.py" in str(caught.value)


def test_gradients_that_exist_are_not_commented(recwarn):
    v = tk.Variable(2.0)
    with tk.GradientTape() as tape:
        loss = v * v
    assert float(tape.gradient(loss, v, explain=True)) == 4.0
    assert not recwarn.list


def test_a_record_that_is_used_up_is_no_cause():
    v = tk.Variable(2.0, name="kernel")

    @tk.custom_gradient
    def without_a_gradient(x):
        return x * 2.0, lambda g: None

    reasons = []
    for persistent in (False, True):
        with tk.GradientTape(persistent=persistent) as tape:
            loss = without_a_gradient(v * 1.0)
        assert tape.gradient(loss, v) is None
        reasons.append(last_reason(v))
    assert "no gradient comes back to it; `gradient(..., explain=True)`" in reasons[0]
    assert "the target does not depend on" in reasons[1]
