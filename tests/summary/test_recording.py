"""Summaries inside a function that is traced are recorded whenever its graph runs."""

import numpy as np
import pytest

import trainkit as tk
from trainkit import summary


def test_each_call_records_and_tracing_does_not(writer, events):
    @tk.function
    def step(x, number):
        summary.scalar("loss", x * 2.0, step=number)
        return x

    for number in range(3):
        step(tk.constant(float(number)), tk.constant(number, dtype="int64"))
    writer.flush()
    assert events().scalars("loss") == [(0, 0.0), (1, 2.0), (2, 4.0)]


def test_the_step_may_be_a_variable(writer, events):
    count = tk.Variable(5, dtype="int64")
    summary.experimental.set_step(count)

    @tk.function
    def step(x):
        summary.scalar("loss", x)
        count.assign_add(1)

    step(tk.constant(1.0))
    step(tk.constant(2.0))
    writer.flush()
    assert events().scalars("loss") == [(5, 1.0), (6, 2.0)]


def test_the_writer_is_that_of_tracing(tmp_path, events):
    first = summary.create_file_writer(tmp_path / "first")

    @tk.function
    def step(x):
        summary.scalar("loss", x, step=0)
        return x

    with first.as_default():
        step(tk.constant(1.0))
    step(tk.constant(2.0))
    first.close()
    assert events(tmp_path / "first").scalars("loss") == [(0, 1.0), (0, 2.0)]


def test_without_a_default_writer_the_graph_has_no_summary():
    @tk.function
    def step(x):
        assert summary.scalar("loss", x) is False
        return x

    assert float(step(tk.constant(1.0))) == 1.0


def test_variables_arrays_and_text_are_recorded(writer, events):
    w = tk.Variable([1.0, 2.0])

    @tk.function
    def step(x):
        w.assign_add([x, x])
        summary.histogram("w", w, step=0, buckets=1)
        summary.histogram("fixed", np.array([1.0, 3.0]), step=0, buckets=1)
        summary.text("note", "same each time", step=0)
        return x

    step(tk.constant(1.0))
    writer.flush()
    found = events()
    np.testing.assert_array_equal(found.tensors("w")[0][1], [[2, 3, 2]])
    np.testing.assert_array_equal(found.tensors("fixed")[0][1], [[1, 3, 2]])
    assert found.tensors("note")[0][1].item() == b"same each time"


def test_conditions_are_asked_at_each_call(writer, events):
    allowed = [True]

    @tk.function
    def step(x, number):
        with summary.record_if(lambda: allowed[0]):
            summary.scalar("python", x, step=number)
        with summary.record_if(tk.equal(number % 2, 0)):
            return summary.scalar("tensor", x, step=number)

    recorded = []
    for number in range(4):
        allowed[0] = number > 1
        recorded.append(bool(step(tk.constant(1.0), tk.constant(number, dtype="int64"))))
    writer.flush()
    assert recorded == [True, False, True, False]
    assert [step for step, _ in events().scalars("python")] == [2, 3]
    assert [step for step, _ in events().scalars("tensor")] == [0, 2]


def test_a_missing_step_is_an_error_while_tracing(writer):
    @tk.function
    def step(x):
        summary.scalar("loss", x)

    with pytest.raises(ValueError, match="'loss' has no step"):
        step(tk.constant(1.0))
